/* Virtual time: a clock that nothing moves but the host's calls and the device's work.
 *
 * One page in a file, which every process of a test maps: what time it is, how much CPU time the host has taken, and how
 * often the host has read the clock. Devices of this process register what they have under way; whoever moves the clock
 * lets each event happen at its time, in order. So a machine that is slow, busy or noisy gets the same nanoseconds as any
 * other, and a run can be repeated to the last of them. Noise is data: pauses of the host, each at a numbered reading.
 *
 * Until a process attaches itself, the clock is the system's.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"

typedef struct {
  int64_t now_ns, cpu_ns, readings, pauses;
  struct {
    int64_t reading, ns;
  } pause[]; /* in the order of their readings */
} Page;

static Page *page;
static int64_t host_call_ns; /* 0 in a process whose calls take no time: one that waits while another one works */
static int64_t next_pause;
static Device devices[8];
static int device_count;
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* an event may push another one */

static int64_t system_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* 0, or -1 where the file is no clock. */
EXPORTED int clock_attach(const char *path, int64_t call_ns) {
  struct stat info;
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return -1;
  void *mapped = fstat(file, &info) == 0 && info.st_size >= (off_t)sizeof(Page)
                     ? mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                     : MAP_FAILED;
  close(file);
  if (mapped == MAP_FAILED) return -1;
  page = mapped;
  host_call_ns = call_ns;
  return 0;
}

/* Whether this process goes by virtual time. One that reads the system's clock would wait for ever for what a device does
 * in virtual time. */
EXPORTED int clock_is_attached(void) { return page != NULL; }

EXPORTED void clock_register(Device device) {
  pthread_mutex_lock(&lock);
  devices[device_count++] = device;
  pthread_mutex_unlock(&lock);
}

EXPORTED void clock_hold(void) { pthread_mutex_lock(&lock); }

EXPORTED void clock_let_go(void) { pthread_mutex_unlock(&lock); }

static int earliest(void) {
  int first = -1;
  for (int i = 0; i < device_count; i++) {
    if (first < 0 || devices[i].next() < devices[first].next()) first = i;
  }
  return first;
}

/* With the lock held. */
static void move_to(int64_t time_ns) {
  for (int first; (first = earliest()) >= 0 && devices[first].next() <= time_ns;) {
    if (devices[first].next() > page->now_ns) page->now_ns = devices[first].next();
    devices[first].happen();
  }
  if (time_ns > page->now_ns) page->now_ns = time_ns;
}

EXPORTED int64_t clock_now(void) { return page ? page->now_ns : system_ns(); }

/* The host works for a while. */
EXPORTED void clock_work(int64_t ns) {
  if (!page) return;
  pthread_mutex_lock(&lock);
  page->cpu_ns += ns;
  move_to(page->now_ns + ns);
  pthread_mutex_unlock(&lock);
}

/* A call of the host's that only takes its time. */
EXPORTED void clock_call(void) { clock_work(host_call_ns); }

/* The host reads the clock, and is paused before it does where that is in the script. */
EXPORTED int64_t clock_read(void) {
  if (!page || !host_call_ns) return clock_now();
  pthread_mutex_lock(&lock);
  int64_t reading = ++page->readings, until = page->now_ns + host_call_ns;
  page->cpu_ns += host_call_ns;
  while (next_pause < page->pauses && page->pause[next_pause].reading <= reading) {
    if (page->pause[next_pause].reading == reading) until += page->pause[next_pause].ns;
    next_pause++;
  }
  move_to(until);
  pthread_mutex_unlock(&lock);
  return until;
}

/* The host does nothing until a time. */
EXPORTED void clock_sleep_until(int64_t time_ns) {
  if (!page) return;
  pthread_mutex_lock(&lock);
  move_to(time_ns);
  pthread_mutex_unlock(&lock);
}

/* With the lock held: lets the next event happen, whichever thread's it is. False if there is none to come. When that is, is
 * asked under the lock: between a question without it and the move another thread may have let it happen. */
static int move_to_next(void) {
  int first = earliest();
  int64_t next = first < 0 ? NEVER : devices[first].next();
  if (next != NEVER) move_to(next > page->now_ns ? next : page->now_ns);
  return next != NEVER;
}

/* The host does nothing until the next event. */
EXPORTED void clock_sleep_until_next(void) {
  if (!page) return;
  pthread_mutex_lock(&lock);
  move_to_next();
  pthread_mutex_unlock(&lock);
}

/* The host looks again and again, until the next event. False if there is none to come. */
EXPORTED int clock_spin(void) {
  if (!page) return 0;
  pthread_mutex_lock(&lock);
  int64_t begun = page->now_ns;
  int moved = move_to_next();
  page->cpu_ns += page->now_ns - begun;
  pthread_mutex_unlock(&lock);
  return moved;
}

EXPORTED int64_t clock_cpu(void) { return page ? page->cpu_ns : -1; }

/* What a device does for the host in a thread of its own. */
EXPORTED void clock_take_cpu(int64_t ns) {
  if (page) page->cpu_ns += ns;
}
