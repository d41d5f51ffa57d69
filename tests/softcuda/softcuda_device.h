/* The device behind the CUDA runtime of softcuda.c: clock, knobs, trace, memory, streams and events. Nothing of CUDA's API.
 *
 * Work is done by one thread for each stream, in order. A copy holds the copy engine of its direction and a kernel the
 * compute engine for as long as the knobs say it lasts, so that streams overlap as they do on a card with one engine for
 * each direction.
 */
#ifndef SOFTCUDA_DEVICE_H
#define SOFTCUDA_DEVICE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../device_basics.h"
#include "softcuda_card.h"

/* ---- knobs, from the environment; softcuda.py says what they are ---- */

static double kernel_us = 100, copy_latency_us = 10, leak_bytes = 0;
/* GB/s between the device and pinned memory, pageable memory and itself; GB; that of H100 and H200 */
static const double pinned_gbps = 8, pageable_gbps = 2, device_gbps = 50, memory_gb = 8, capability = 9.0;
static FILE *trace;

static void read_knob(const char *name, double *value) {
  const char *text = getenv(name);
  if (!text) return;
  char *end;
  *value = strtod(text, &end);
  if (end == text || *end || *value < 0) {
    fprintf(stderr, "softcuda: %s=%s is no number from 0 on\n", name, text);
    abort();
  }
}

/* ---- memory ---- */

/* Device memory has addresses that the host cannot touch: what reads or writes them is killed, as it is with a real card.
 * The bytes lie at the same offset in a second range. */
enum { ALIGNMENT = 4096 }; /* whole pages, which can be given back */
#define RESERVED ((size_t)64 << 30)
static char *device_base, *bytes_base;

typedef struct Block {
  char *address; /* in the device's range, or the host's own for pinned memory */
  size_t size;
  bool free;
  struct Block *next;
} Block;

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static Block *device_blocks, *pinned_blocks;
static size_t reserved_used, allocated;

/* Who holds how much, in a file that all processes share, so that NVML tells one of the others as it does of a card. */
enum { USERS = 1024 };
typedef struct {
  int64_t pid, bytes, most; /* of a process: now, or when it ended, and at most */
} User;
static User *users, *this_user;

static void open_users(void) {
  const char *path = getenv("SOFTCUDA_USED");
  if (!path) return;
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, USERS * sizeof(User)) != 0) abort();
  users = mmap(NULL, USERS * sizeof(User), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (users == MAP_FAILED) abort();
  close(file);
}

/* `memory_lock` is held. A process is a user from its first allocation on. */
static void note_use(void) {
  if (!users) return;
  for (User *user = users; !this_user && user < users + USERS; user++) {
    int64_t nobody = 0;
    if (__atomic_compare_exchange_n(&user->pid, &nobody, getpid(), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) this_user = user;
  }
  if (!this_user) abort();
  this_user->bytes = (int64_t)allocated;
  if (this_user->bytes > this_user->most) this_user->most = this_user->bytes;
}

static bool is_running(const User *user) { return user->pid && (kill((pid_t)user->pid, 0) == 0 || errno != ESRCH); }

/* In use on the card: by all processes where they share what they know, else by this one. */
static size_t used_by_all(void) {
  if (!users) return allocated;
  size_t sum = 0;
  for (User *user = users; user < users + USERS; user++) sum += is_running(user) ? (size_t)user->bytes : 0;
  return sum;
}

static void open_memory(void) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  device_base = mmap(NULL, RESERVED, PROT_NONE, flags, -1, 0);
  bytes_base = mmap(NULL, RESERVED, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (device_base == MAP_FAILED || bytes_base == MAP_FAILED) abort();
  open_users();
}

static bool on_device(const void *pointer) {
  return (const char *)pointer >= device_base && (const char *)pointer < device_base + RESERVED;
}

/* Where the bytes of an address are, of the device or the host. */
static void *bytes_at(const void *pointer) {
  return on_device(pointer) ? bytes_base + ((const char *)pointer - device_base) : (void *)pointer;
}

/* The block that holds an address; `memory_lock` is held. */
static Block *block_of(Block *blocks, const void *pointer) {
  for (Block *b = blocks; b; b = b->next)
    if (!b->free && (const char *)pointer >= b->address && (const char *)pointer < b->address + b->size) return b;
  return NULL;
}

static Block *new_block(Block **blocks, char *address, size_t size) {
  Block *b = zeroed(sizeof *b);
  *b = (Block){address, size, false, *blocks};
  *blocks = b;
  return b;
}

static void *device_allocate(size_t size) {
  size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (!size) size = ALIGNMENT;
  void *address = NULL;
  pthread_mutex_lock(&memory_lock);
  if (allocated + size <= memory_gb * 1e9) {
    for (Block *b = device_blocks; b && !address; b = b->next)
      if (b->free && b->size == size) b->free = false, address = b->address;
    if (!address && reserved_used + size <= RESERVED) {
      address = new_block(&device_blocks, device_base + reserved_used, size)->address;
      reserved_used += size;
    }
    if (address) allocated += size, note_use();
  }
  pthread_mutex_unlock(&memory_lock);
  return address;
}

/* Whether there was such a block. */
static bool device_release(void *pointer) {
  pthread_mutex_lock(&memory_lock);
  Block *b = block_of(device_blocks, pointer);
  bool found = b && b->address == pointer;
  if (found) {
    b->free = true;
    allocated -= b->size;
    note_use();
    madvise(bytes_at(pointer), b->size, MADV_DONTNEED);
  }
  pthread_mutex_unlock(&memory_lock);
  return found;
}

static void *pinned_allocate(size_t size) {
  void *address = NULL;
  if (posix_memalign(&address, 4096, size ? size : 1)) return NULL;
  memset(address, 0, size);
  pthread_mutex_lock(&memory_lock);
  new_block(&pinned_blocks, address, size ? size : 1);
  pthread_mutex_unlock(&memory_lock);
  return address;
}

static bool pinned_release(void *pointer) {
  pthread_mutex_lock(&memory_lock);
  Block **at = &pinned_blocks;
  while (*at && (*at)->address != pointer) at = &(*at)->next;
  Block *b = *at;
  if (b) *at = b->next;
  pthread_mutex_unlock(&memory_lock);
  if (b) free(b->address);
  free(b);
  return b != NULL;
}

static bool is_pinned(const void *pointer) {
  pthread_mutex_lock(&memory_lock);
  bool found = block_of(pinned_blocks, pointer) != NULL;
  pthread_mutex_unlock(&memory_lock);
  return found;
}

/* ---- streams and events ---- */

typedef enum { NO_ENGINE, COMPUTE, UPLOAD, DOWNLOAD, ENGINES } Engine;
static const char *const engine_names[] = {"none", "compute", "h2d", "d2h"};
static pthread_mutex_t engine_locks[ENGINES] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                                PTHREAD_MUTEX_INITIALIZER};

typedef struct Stream Stream;

typedef struct {
  uint64_t recorded, done; /* how many times it was recorded in a stream, and how many of them the stream has reached */
  int64_t time_ns;         /* of the last */
  int holders;             /* the user, and the work that still names it */
  bool captured;           /* last recorded in a capture, which orders it there already */
} Event;

/* A piece of work. It can be queued many times, from a graph, so whatever it needs is its own. */
typedef struct Work {
  void (*run)(struct Work *);
  Engine engine;
  int64_t lasts_ns, asked_ns; /* how long it takes at least, and when the host asked for it */
  const char *name; /* that of a kernel, or what kind of copy */
  void *to;
  const void *from;
  size_t bytes;
  const char *host; /* kind of the host's memory in a copy: pinned, pageable, or none */
  void *owned;      /* what `run` needs besides; freed with it */
  Event *event;     /* that it records or, with `target`, waits for */
  Stream *after;    /* whose work up to `target` it waits for */
  uint64_t target;
  int holders; /* queues and graphs */
} Work;

typedef struct Queued {
  Work *work;
  struct Queued *next;
} Queued;

typedef struct Graph {
  Work **works;
  size_t count;
} Graph;

struct Stream {
  int number; /* 0 is the default stream */
  bool blocking, ending;
  uint64_t queued, done;
  Queued *first, **end;
  Graph *capture; /* what is captured, else NULL */
  bool spoilt;    /* by what must not be done in a capture */
  pthread_t thread;
  Stream *next;
};

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_moved = PTHREAD_COND_INITIALIZER;
static Stream *streams;
static int stream_count;
static Stream *default_stream;

static Work *new_work(void (*run)(Work *), Engine engine, int64_t lasts_ns, const char *name) {
  Work *work = zeroed(sizeof *work);
  work->run = run, work->engine = engine, work->lasts_ns = lasts_ns, work->name = name, work->host = "none";
  work->asked_ns = now_ns();
  return work;
}

static void release_event(Event *event) {
  if (event && --event->holders == 0) free(event);
}

/* `queue_lock` is held. */
static void release_work(Work *work) {
  if (--work->holders) return;
  release_event(work->event);
  free(work->owned);
  free(work);
}

static void do_work(Work *work, const Stream *stream) {
  pthread_mutex_t *engine = work->engine ? &engine_locks[work->engine] : NULL;
  if (engine) pthread_mutex_lock(engine);
  int64_t begin = now_ns(), mhz = work->engine == COMPUTE ? sm_mhz() : SM_MHZ;
  if (work->run) work->run(work);
  if (work->lasts_ns) sleep_until(begin + (mhz < SM_MHZ ? work->lasts_ns * SM_MHZ / mhz : work->lasts_ns));
  int64_t end = now_ns();
  if (engine) pthread_mutex_unlock(engine);
  if (engine) draw(work->engine == COMPUTE, begin, end);
  if (trace && engine)
    fprintf(trace, "%lld %lld %lld %d %s %s %zu %s\n", (long long)work->asked_ns, (long long)begin, (long long)end,
            stream->number, engine_names[work->engine], work->host, work->bytes, work->name);
}

static bool is_due(const Work *work) {
  if (work->after) return work->after->done >= work->target;
  return !work->event || !work->target || work->event->done >= work->target;
}

static void *serve(void *argument) {
  Stream *stream = argument;
  pthread_mutex_lock(&queue_lock);
  while (true) {
    while (!stream->first && !stream->ending) pthread_cond_wait(&queue_moved, &queue_lock);
    if (!stream->first) break;
    Queued *queued = stream->first;
    while (!is_due(queued->work)) pthread_cond_wait(&queue_moved, &queue_lock);
    pthread_mutex_unlock(&queue_lock);
    do_work(queued->work, stream);
    pthread_mutex_lock(&queue_lock);
    if (queued->work->event && !queued->work->target) {
      queued->work->event->done++;
      queued->work->event->time_ns = now_ns();
    }
    stream->first = queued->next;
    if (!stream->first) stream->end = &stream->first;
    stream->done++;
    release_work(queued->work);
    free(queued);
    pthread_cond_broadcast(&queue_moved);
  }
  pthread_mutex_unlock(&queue_lock);
  return NULL;
}

static Stream *new_stream(bool blocking) {
  Stream *stream = zeroed(sizeof *stream);
  pthread_mutex_lock(&queue_lock);
  stream->number = stream_count++;
  stream->blocking = blocking;
  stream->end = &stream->first;
  stream->next = streams;
  streams = stream;
  pthread_mutex_unlock(&queue_lock);
  if (pthread_create(&stream->thread, NULL, serve, stream)) abort();
  return stream;
}

/* Its work is done first; the stream itself stays, as other work may still name it. */
static void end_stream(Stream *stream) {
  pthread_mutex_lock(&queue_lock);
  stream->ending = true;
  stream->blocking = false;
  pthread_cond_broadcast(&queue_moved);
  pthread_mutex_unlock(&queue_lock);
  pthread_join(stream->thread, NULL);
}

/* `queue_lock` is held. */
static void append(Stream *stream, Work *work) {
  Queued *queued = zeroed(sizeof *queued);
  queued->work = work;
  work->holders++;
  *stream->end = queued;
  stream->end = &queued->next;
  stream->queued++;
  if (work->event && !work->target) work->event->recorded++;
}

static void append_wait(Stream *stream, Stream *after) {
  if (after->done == after->queued) return;
  Work *work = new_work(NULL, NO_ENGINE, 0, "wait");
  work->after = after, work->target = after->queued;
  append(stream, work);
}

/* Queue work on a stream, or add it to what the stream captures. The default stream and streams that were not made to be
 * independent of it wait for each other: https://docs.nvidia.com/cuda/cuda-runtime-api/stream-sync-behavior.html */
static void enqueue(Stream *stream, Work *work) {
  pthread_mutex_lock(&queue_lock);
  if (stream->capture) {
    Graph *graph = stream->capture;
    graph->works = realloc(graph->works, (graph->count + 1) * sizeof *graph->works);
    if (!graph->works) abort();
    work->holders++;
    graph->works[graph->count++] = work;
  } else {
    if (stream == default_stream)
      for (Stream *other = streams; other; other = other->next) {
        if (other->blocking && other != stream) append_wait(stream, other);
      }
    else if (stream->blocking)
      append_wait(stream, default_stream);
    append(stream, work);
    pthread_cond_broadcast(&queue_moved);
  }
  pthread_mutex_unlock(&queue_lock);
}

static void wait_for_stream(Stream *stream) {
  pthread_mutex_lock(&queue_lock);
  uint64_t target = stream->queued;
  while (stream->done < target) pthread_cond_wait(&queue_moved, &queue_lock);
  pthread_mutex_unlock(&queue_lock);
}

static void wait_for_all(void) {
  pthread_mutex_lock(&queue_lock);
  for (Stream *stream = streams; stream; stream = stream->next) {
    uint64_t target = stream->queued;
    while (stream->done < target) pthread_cond_wait(&queue_moved, &queue_lock);
  }
  pthread_mutex_unlock(&queue_lock);
}

static void free_graph(Graph *graph) {
  pthread_mutex_lock(&queue_lock);
  for (size_t i = 0; i < graph->count; i++) release_work(graph->works[i]);
  pthread_mutex_unlock(&queue_lock);
  free(graph->works);
  free(graph);
}

/* ---- copies ---- */

static void run_copy(Work *work) { memcpy(bytes_at(work->to), bytes_at(work->from), work->bytes); }

static void run_staged(Work *work) { memcpy(bytes_at(work->to), work->owned, work->bytes); }

static int64_t copy_ns(size_t bytes, double gbps) {
  return (int64_t)(copy_latency_us * 1000 + bytes / gbps);
}

static void open_device_once(void) {
  read_knob("SOFTCUDA_KERNEL_US", &kernel_us);
  read_knob("SOFTCUDA_COPY_LATENCY_US", &copy_latency_us);
  read_knob("SOFTCUDA_LEAK_BYTES", &leak_bytes);
  const char *path = getenv("SOFTCUDA_TRACE");
  if (path && !(trace = fopen(path, "ae"))) {
    fprintf(stderr, "softcuda: SOFTCUDA_TRACE=%s: %s\n", path, strerror(errno));
    abort();
  }
  if (trace) setvbuf(trace, NULL, _IOLBF, 1 << 16);
  open_memory();
  default_stream = new_stream(true);
}

/* The device starts with the first call that needs it: the library is also loaded by processes that only start others. */
static void open_device(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_device_once);
}

#endif
