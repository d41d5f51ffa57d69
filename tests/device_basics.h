/* What the devices that tests bring along share: memory that is there, and the clock. */
#ifndef DEVICE_BASICS_H
#define DEVICE_BASICS_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#ifdef VIRTUAL_TIME
#include "virtual/clock.h"
#endif

static void *zeroed(size_t bytes) {
  void *memory = calloc(1, bytes ? bytes : 1);
  if (!memory) abort();
  return memory;
}

#ifdef VIRTUAL_TIME
static int64_t now_ns(void) { return clock_now(); }
#else
/* CLOCK_MONOTONIC, which Python's time.perf_counter_ns reads too. */
static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void sleep_until(int64_t time_ns) {
  struct timespec t = {time_ns / 1000000000LL, time_ns % 1000000000LL};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
  }
}
#endif

#endif
