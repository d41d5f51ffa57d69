/* The virtual clock, for devices that are linked with it; clock.c explains it. */
#ifndef VIRTUAL_CLOCK_H
#define VIRTUAL_CLOCK_H

#include <stdint.h>
#include <time.h>

#define EXPORTED __attribute__((visibility("default")))
#define NEVER INT64_MAX

typedef struct { /* both with the clock held */
  int64_t (*next)(void); /* when its next event is; NEVER without any */
  void (*happen)(void);  /* that event */
} Device;

EXPORTED int clock_is_attached(void);
EXPORTED void clock_register(Device device);
EXPORTED void clock_hold(void); /* nothing happens until it is let go: what a device's lists are changed under */
EXPORTED void clock_let_go(void);
EXPORTED int64_t clock_now(void);
EXPORTED void clock_work(int64_t ns);
EXPORTED void clock_call(void);
EXPORTED void clock_sleep_until(int64_t time_ns);
EXPORTED void clock_sleep_until_next(void);
EXPORTED int clock_spin(void);
EXPORTED void clock_take_cpu(int64_t ns);

#endif
