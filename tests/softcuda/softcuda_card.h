/* What every process on the machine sees of the card: what it has drawn, and to what its clocks are locked. It lies in the file
 * that SOFTCUDA_CARD names, which __init__.py explains; without one the card has no energy counter and no clocks to lock.
 *
 * The law of power: `idle_w` always, `kernel_w` more while a kernel runs, `copy_w` more for each copy that is under way. The
 * counter is its integral, and moves once in `step_ms`, as those of cards do. A reading of the power is its mean over the last
 * second, as it is from Ampere on: over as much of it as the process that reads it has seen.
 */
#ifndef SOFTCUDA_CARD_H
#define SOFTCUDA_CARD_H

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../device_basics.h"

typedef struct {
  double idle_w, kernel_w, copy_w, step_ms; /* written by __init__.py */
  int64_t counter;                          /* 0: it has none, and tells its power alone */
  _Atomic int64_t kernel_ns, copy_ns;       /* for which the card has worked so far */
  _Atomic int64_t step;                     /* the number of the last step that somebody saw ... */
  _Atomic int64_t millijoules;              /* ... and what the counter stands at since */
  _Atomic int64_t locked_mhz;               /* 0: to nothing */
} Card;

enum { SM_MHZ = 1000 };

static Card *the_card; /* NULL where there is no file */

static void open_card_once(void) {
  const char *path = getenv("SOFTCUDA_CARD");
  if (!path) return;
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) abort();
  the_card = mmap(NULL, sizeof *the_card, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (the_card == MAP_FAILED) abort();
  close(file);
}

static Card *open_card(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_card_once);
  return the_card;
}

/* An engine has worked from then to then. */
static void draw(bool kernel, int64_t begin, int64_t end) {
  Card *card = open_card();
  if (!card) return;
  atomic_fetch_add(kernel ? &card->kernel_ns : &card->copy_ns, end - begin);
}

/* What the SM clock stands at. */
static unsigned sm_mhz(void) {
  Card *card = open_card();
  int64_t locked = card ? atomic_load(&card->locked_mhz) : 0;
  return locked ? (unsigned)locked : SM_MHZ;
}

/* What the card has drawn until now, mJ. */
static double drawn_until(const Card *card, int64_t now) {
  return (card->idle_w * now + card->kernel_w * atomic_load(&card->kernel_ns) + card->copy_w * atomic_load(&card->copy_ns)) / 1e6;
}

/* What the counter stands at. */
static int64_t drawn_millijoules(Card *card) {
  int64_t now = now_ns(), step = (int64_t)(now / (card->step_ms * 1e6)), seen = atomic_load(&card->step);
  if (step > seen && atomic_compare_exchange_strong(&card->step, &seen, step))
    atomic_store(&card->millijoules, (int64_t)drawn_until(card, now));
  return atomic_load(&card->millijoules);
}

/* The power, mW. What is read more often than each millisecond forgets sooner. */
static double mean_milliwatts(const Card *card) {
  enum { KEPT = 1024 };
  static struct { int64_t at; double drawn; } seen[KEPT];
  static size_t first, count;
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  int64_t now = now_ns();
  double drawn = drawn_until(card, now);
  /* The oldest that counts is the last one before the second. */
  while (count == KEPT || (count > 1 && now - seen[(first + 1) % KEPT].at >= 1000000000)) first = (first + 1) % KEPT, count--;
  int64_t passed = count ? now - seen[first].at : 0;
  double power = passed ? (drawn - seen[first].drawn) / (passed / 1e9) : card->idle_w * 1e3;
  seen[(first + count++) % KEPT].at = now;
  seen[(first + count - 1) % KEPT].drawn = drawn;
  pthread_mutex_unlock(&lock);
  return power;
}

#endif
