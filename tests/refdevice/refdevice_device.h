/* The reference device itself: clock, knobs, trace, memory, queues and copies. Nothing of ONNX Runtime: refdevice.c,
 * which includes this file once, makes an execution provider of it and explains how it behaves.
 */
#ifndef REFDEVICE_DEVICE_H
#define REFDEVICE_DEVICE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "../device_basics.h"

extern char **environ;

#ifndef DEVICE_NAME /* another one makes it another device, which can be in the same session */
#define DEVICE_NAME "RefDevice"
#endif
#ifndef COMPUTE_NS /* another one makes it a faster or a slower build of the same device */
#define COMPUTE_NS 2000000
#endif

enum { STREAMING_BYTES = 1 << 18 }; /* from this size on, data go past the caches */

/* Functions that can fail return NULL, or what is wrong: a text that holds until the thread's next one. */
__attribute__((format(printf, 1, 2))) static const char *explain(const char *format, ...) {
  static _Thread_local char message[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return message;
}

/* ---- knobs ---- */

typedef enum { MEM_NONE, MEM_HOST, MEM_DEFAULT, MEM_HOST_ACCESSIBLE } Memory;
static const char *const memory_names[] = {"none", "host", "default", "host_accessible", NULL};

typedef enum { SYNC, ASYNC_WAIT, ASYNC, ASYNC_OLD_API } Honesty;
static const char *const honesty_names[] = {"sync", "async-wait", "async", "async-old-api", NULL};

typedef enum { BOTH_WAYS, UPLOADS, DOWNLOADS, NO_WAY } Ways;
static const char *const ways_names[] = {"both", "uploads", "downloads", "none", NULL};

/* Whether outputs have a shape, and so memory, before they are computed: knob `outputs`. */
typedef enum { KNOWN, LATE, PREALLOCATED, UNCHECKED } Outputs;
static const char *const outputs_names[] = {"known", "late", "preallocated", "unchecked", NULL};

/* What goes wrong, and where: knobs `fault`, `fault_at`, `fault_when` and `fault_device`. */
typedef enum { NO_FAULT, ABORTS, SEGFAULTS, EXITS, ERRS, HANGS, PRINTS } Fault;
static const char *const fault_names[] = {"none", "abort", "segfault", "exit", "error", "hang", "print", NULL};

typedef enum { AT_REGISTRATION, AT_DEVICE, AT_ALLOC, AT_SESSION, AT_RUN, AT_COPY, AT_SYNC, AT_RELEASE } Place;
static const char *const place_names[] = {"registration", "device", "alloc", "session", "run", "copy", "sync", "release", NULL};

/* "N", "N+", "N:memory" or "N+:memory": the Nth time (counted from 1), or from the Nth on; 0 is never. */
typedef struct {
  uint64_t number, seen;
  bool onwards;
  Memory memory; /* MEM_NONE: whatever the memory */
} Trigger;

typedef struct {
  double latency_ns, bytes_per_ns; /* 0 bytes/ns: no limit */
} Link;

typedef struct {
  Link upload, download, device_copy;
  double compute_ns, item_ns, switch_ns, idle_ns, ha_copies, spin_ns, engines, servers, submit_ns, busy_ns;
  double compile_ns, context_bytes;
  double alignment, cpu, default_memory, accessible_io, host_memory, devices, eps, skew, unbound_type, bfloat16;
  double later_runs; /* 0: never */
  Honesty honesty;
  Ways copies;
  Outputs outputs;
  Fault fault;
  Place fault_at;
  double leak_bytes, leak_shape_bytes, leak_session_bytes, leak_handles;
  double fault_device; /* counted from 1; 0: any */
  Trigger fault_when, shape_run;
  Trigger fail_upload, fail_download, fail_alloc, fail_alloc_bytes, abort_run, wrong_run, abort_copy, wrong_copy;
} Config;

typedef enum { KNOB_US, KNOB_NUMBER, KNOB_TRIGGER, KNOB_TEXT, KNOB_HONESTY, KNOB_WAYS, KNOB_OUTPUTS, KNOB_FAULT, KNOB_PLACE } KnobType;
static const char *const *const choices[] = {
    [KNOB_HONESTY] = honesty_names, [KNOB_WAYS] = ways_names, [KNOB_OUTPUTS] = outputs_names,
    [KNOB_FAULT] = fault_names, [KNOB_PLACE] = place_names};

static const struct {
  const char *name;
  KnobType type;
  size_t offset;
} knobs[] = {
    {"compute_us", KNOB_US, offsetof(Config, compute_ns)},
    {"item_us", KNOB_US, offsetof(Config, item_ns)},
    {"switch_us", KNOB_US, offsetof(Config, switch_ns)},
    {"idle_us", KNOB_US, offsetof(Config, idle_ns)},
    {"upload_latency_us", KNOB_US, offsetof(Config, upload.latency_ns)},
    {"upload_gbps", KNOB_NUMBER, offsetof(Config, upload.bytes_per_ns)},
    {"download_latency_us", KNOB_US, offsetof(Config, download.latency_ns)},
    {"download_gbps", KNOB_NUMBER, offsetof(Config, download.bytes_per_ns)},
    {"alignment", KNOB_NUMBER, offsetof(Config, alignment)},
    {"cpu", KNOB_NUMBER, offsetof(Config, cpu)},
    {"default_memory", KNOB_NUMBER, offsetof(Config, default_memory)},
    {"accessible_io", KNOB_NUMBER, offsetof(Config, accessible_io)},
    {"host_memory", KNOB_NUMBER, offsetof(Config, host_memory)},
    {"devices", KNOB_NUMBER, offsetof(Config, devices)},
    {"eps", KNOB_NUMBER, offsetof(Config, eps)},
    {"skew", KNOB_NUMBER, offsetof(Config, skew)},
    {"copies", KNOB_WAYS, offsetof(Config, copies)},
    {"outputs", KNOB_OUTPUTS, offsetof(Config, outputs)},
    {"honesty", KNOB_HONESTY, offsetof(Config, honesty)},
    {"later_runs", KNOB_NUMBER, offsetof(Config, later_runs)},
    {"ha_copies", KNOB_NUMBER, offsetof(Config, ha_copies)},
    {"spin_us", KNOB_US, offsetof(Config, spin_ns)},
    {"engines", KNOB_NUMBER, offsetof(Config, engines)},
    {"servers", KNOB_NUMBER, offsetof(Config, servers)},
    {"submit_us", KNOB_US, offsetof(Config, submit_ns)},
    {"busy_us", KNOB_US, offsetof(Config, busy_ns)},
    {"fail_upload", KNOB_TRIGGER, offsetof(Config, fail_upload)},
    {"fail_download", KNOB_TRIGGER, offsetof(Config, fail_download)},
    {"fail_alloc", KNOB_TRIGGER, offsetof(Config, fail_alloc)},
    {"fail_alloc_bytes", KNOB_TRIGGER, offsetof(Config, fail_alloc_bytes)},
    {"abort_run", KNOB_TRIGGER, offsetof(Config, abort_run)},
    {"wrong_run", KNOB_TRIGGER, offsetof(Config, wrong_run)},
    {"abort_copy", KNOB_TRIGGER, offsetof(Config, abort_copy)},
    {"wrong_copy", KNOB_TRIGGER, offsetof(Config, wrong_copy)},
    {"shape_run", KNOB_TRIGGER, offsetof(Config, shape_run)},
    {"unbound_type", KNOB_NUMBER, offsetof(Config, unbound_type)},
    {"bfloat16", KNOB_NUMBER, offsetof(Config, bfloat16)},
    {"compile_us", KNOB_US, offsetof(Config, compile_ns)},
    {"context_bytes", KNOB_NUMBER, offsetof(Config, context_bytes)},
    {"fault", KNOB_FAULT, offsetof(Config, fault)},
    {"fault_at", KNOB_PLACE, offsetof(Config, fault_at)},
    {"fault_when", KNOB_TRIGGER, offsetof(Config, fault_when)},
    {"fault_device", KNOB_NUMBER, offsetof(Config, fault_device)},
    {"leak_bytes", KNOB_NUMBER, offsetof(Config, leak_bytes)},
    {"leak_shape_bytes", KNOB_NUMBER, offsetof(Config, leak_shape_bytes)},
    {"leak_session_bytes", KNOB_NUMBER, offsetof(Config, leak_session_bytes)},
    {"leak_handles", KNOB_NUMBER, offsetof(Config, leak_handles)},
    {"trace", KNOB_TEXT, 0},         /* environment only, read by trace_open */
    {"trace_records", KNOB_TEXT, 0}, /* environment only, read by trace_open */
};

static Config device_config;
static pthread_mutex_t config_lock = PTHREAD_MUTEX_INITIALIZER;

static int index_in(const char *const names[], const char *name) {
  for (int i = 0; names[i]; i++) {
    if (strcmp(names[i], name) == 0) return i;
  }
  return -1;
}

static bool parse_number(const char *text, double *number) {
  char *end;
  *number = strtod(text, &end);
  return end != text && *end == 0 && *number >= 0 && isfinite(*number);
}

static bool parse_trigger(const char *text, Trigger *trigger) {
  char *end;
  *trigger = (Trigger){.number = strtoull(text, &end, 10)};
  if (end == text || *text == '-') return false;
  trigger->onwards = *end == '+';
  if (trigger->onwards) end++;
  if (*end == 0) return true;
  int memory = *end == ':' ? index_in(memory_names, end + 1) : -1;
  trigger->memory = memory > 0 ? (Memory)memory : MEM_NONE;
  return memory > 0;
}

static bool parse_value(KnobType type, const char *text, void *target) {
  double number;
  switch (type) {
    case KNOB_TEXT: return true;
    case KNOB_TRIGGER: return parse_trigger(text, target);
    case KNOB_US:
    case KNOB_NUMBER:
      if (!parse_number(text, &number)) return false;
      *(double *)target = type == KNOB_US ? number * 1000 : number;
      return true;
    default: {
      int chosen = index_in(choices[type], text);
      if (chosen >= 0) memcpy(target, &chosen, sizeof chosen); /* an enum is an int here */
      return chosen >= 0;
    }
  }
}

/* A mistyped knob must not pass for a measurement of the real setting, so unknown names are errors. */
static const char *set_knob(Config *config, const char *name, const char *text) {
  for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++) {
    if (strcmp(knobs[i].name, name) != 0) continue;
    if (parse_value(knobs[i].type, text, (char *)config + knobs[i].offset)) return NULL;
    return explain("'%s' is not a value for the knob %s", text, name);
  }
  return explain("there is no knob %s", name);
}

static Config default_config(void) {
  return (Config){.upload = {10000, 4},
                  .download = {10000, 4},
                  .device_copy = {5000, 8},
                  .compute_ns = COMPUTE_NS,
                  .spin_ns = 200000, .servers = 1, .alignment = 4096, .default_memory = 1,
                  .devices = 1, .eps = 1, .fault_when = {.number = 1}};
}

static const char *config_from_environment(Config *config) {
  static const char prefix[] = DEVICE_NAME "_";
  *config = default_config();
  for (char **entry = environ; *entry; entry++) {
    char name[64];
    size_t length = 0;
    if (strncasecmp(*entry, prefix, sizeof prefix - 1) != 0) continue;
    const char *knob = *entry + sizeof prefix - 1;
    for (; knob[length] && knob[length] != '=' && length < sizeof name - 1; length++) {
      name[length] = (char)(knob[length] >= 'A' && knob[length] <= 'Z' ? knob[length] + 32 : knob[length]);
    }
    name[length] = 0;
    const char *error = set_knob(config, name, knob[length] ? knob + length + 1 : "");
    if (error) return error;
  }
  return NULL;
}

/* The environment's value of a knob, or NULL. */
static const char *variable(const char *knob) {
  char name[64];
  snprintf(name, sizeof name, DEVICE_NAME "_%s", knob);
  for (char *at = name; *at; at++) *at = (char)(*at >= 'a' && *at <= 'z' ? *at - 32 : *at);
  return getenv(name);
}

static bool fires(Trigger *trigger, Memory memory) {
  if (!trigger->number || (trigger->memory && trigger->memory != memory)) return false;
  pthread_mutex_lock(&config_lock);
  uint64_t seen = ++trigger->seen;
  pthread_mutex_unlock(&config_lock);
  return seen == trigger->number || (trigger->onwards && seen > trigger->number);
}

static int64_t link_ns(const Link *link, uint64_t bytes) {
  double transfer = link->bytes_per_ns > 0 ? (double)bytes / link->bytes_per_ns : 0;
  return (int64_t)(link->latency_ns + transfer);
}

/* ---- the trace: a file that others may map and read at any time, also when this process has died ---- */

typedef enum {
  H2D = 1,  /* to DEFAULT memory */
  D2H,    /* from DEFAULT memory */
  DEVICE_COPY, /* inside DEFAULT memory */
  HOST_COPY,   /* between host memory and HOST_ACCESSIBLE memory */
  SAME_COPY,   /* a copy onto itself */
  INFERENCE,
  HA_COPY, /* the copies that `ha_copies` adds */
  ALLOC,
  FREE,
  SYNC_WAIT,    /* a call of OrtEp::Sync */
  RUN_END_WAIT, /* the wait for the device in OnRunEnd */
  RUN,          /* from OnRunStart to OnRunEnd */
  FAILURE,      /* an injected failure; bytes is the knob's index in `knobs` */
  COMPILE,      /* knob `compile_us`; bytes is how many nodes */
  KINDS = 32,
} Kind;

typedef struct {
  uint64_t sequence; /* 1, 2, ...; written last: 0 is a record that is not there yet */
  uint32_t kind, queue;
  uint64_t bytes;
  int64_t queued_ns, start_ns, planned_end_ns, end_ns;
  int64_t work_ns; /* of start to end, the real copying or computing */
  uint64_t run;    /* counted from 1; 0 outside of a run */
  uint32_t memory; /* of the run, or of the allocation */
  uint32_t source, destination;
  uint32_t pid, failed, session;
} Event;

typedef struct {
  char magic[8];
  uint32_t version, record_bytes;
  uint64_t capacity;
  _Atomic uint64_t next;
  uint64_t reserved[4];
  struct {
    _Atomic uint64_t count, bytes, ns;
  } counter[KINDS];
} TraceHeader;

enum { TRACE_VERSION = 1, TRACE_HEADER_BYTES = 4096 };
static TraceHeader *trace_header;
static Event *trace_events;
static uint32_t own_pid;

static uint64_t trace_records(void) {
  const char *text = variable("TRACE_RECORDS");
  uint64_t records = text ? strtoull(text, NULL, 10) : 0;
  return records ? records : 1000000;
}

/* Several processes may share one file: the first sets it up, the others append. */
static bool trace_prepare(int file, TraceHeader *header) {
  struct stat info;
  if (fstat(file, &info) != 0) return false;
  if (info.st_size >= TRACE_HEADER_BYTES) {
    return pread(file, header, sizeof *header, 0) == sizeof *header && memcmp(header->magic, "REFDEVTR", 8) == 0 &&
           header->version == TRACE_VERSION && header->record_bytes == sizeof(Event);
  }
  *header = (TraceHeader){.version = TRACE_VERSION, .record_bytes = sizeof(Event), .capacity = trace_records()};
  memcpy(header->magic, "REFDEVTR", 8);
  /* The header first: whoever sees that the file holds something may read it. */
  return pwrite(file, header, sizeof *header, 0) == sizeof *header &&
         ftruncate(file, (off_t)(TRACE_HEADER_BYTES + header->capacity * sizeof(Event))) == 0;
}

static const char *trace_open(void) {
  static TraceHeader nowhere; /* counts, and holds no records */
  const char *path = variable("TRACE");
  own_pid = (uint32_t)getpid();
  trace_header = &nowhere;
  if (!path || !*path) return NULL;
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return explain("cannot open the trace %s: %s", path, strerror(errno));
  TraceHeader header;
  flock(file, LOCK_EX);
  bool ready = trace_prepare(file, &header);
  flock(file, LOCK_UN);
  size_t bytes = ready ? TRACE_HEADER_BYTES + header.capacity * sizeof(Event) : 0;
  void *mapped = ready ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  close(file);
  if (mapped == MAP_FAILED) return explain("%s cannot be used as a trace", path);
  trace_header = mapped;
  trace_events = (Event *)((char *)mapped + TRACE_HEADER_BYTES);
  return NULL;
}

static void trace(const Event *event) {
  uint64_t index = atomic_fetch_add(&trace_header->next, 1);
  if (index < trace_header->capacity) {
    Event *record = &trace_events[index];
    memcpy((char *)record + sizeof record->sequence, (const char *)event + sizeof event->sequence,
           sizeof *event - sizeof event->sequence);
    record->pid = own_pid;
    __atomic_store_n(&record->sequence, index + 1, __ATOMIC_RELEASE);
  }
  atomic_fetch_add(&trace_header->counter[event->kind].count, 1);
  atomic_fetch_add(&trace_header->counter[event->kind].bytes, event->bytes);
  atomic_fetch_add(&trace_header->counter[event->kind].ns, (uint64_t)(event->end_ns - event->start_ns));
}

/* What happened between `start` and now, outside of the queues. */
static void trace_span(Event event, int64_t start) {
  event.queued_ns = event.start_ns = start;
  event.planned_end_ns = event.end_ns = now_ns();
  trace(&event);
}

static void trace_failure(const Trigger *trigger, Memory memory) {
  size_t offset = (size_t)((const char *)trigger - (const char *)&device_config), index = 0;
  while (knobs[index].offset != offset) index++;
  trace_span((Event){.kind = FAILURE, .bytes = index, .memory = memory, .failed = 1}, now_ns());
}

/* Whether a knob of the device says that this very operation fails. */
static bool fails(Trigger *trigger, Memory memory) {
  bool fired = fires(trigger, memory);
  if (fired) trace_failure(trigger, memory);
  return fired;
}

/* What the knobs have go wrong here. False if it does not return an error. */
static bool faulty(Place place, Memory memory, int device) {
  Config *config = &device_config;
  if (config->fault == NO_FAULT || config->fault_at != place) return false;
  if (config->fault_device > 0 && device != (int)config->fault_device) return false;
  if (!fails(&config->fault_when, memory)) return false;
  switch (config->fault) {
    case ABORTS: abort();
    case SEGFAULTS: return raise(SIGSEGV) == 0;
    case EXITS: _exit(3); /* exit() of a fork would wait for threads that only the process had that it is forked from */
    case HANGS:
      for (;;) pause();
    case PRINTS: puts("the reference device prints a line"); return fflush(stdout) != 0;
    default: return true;
  }
}

/* ---- the run the calling thread is in ---- */

static _Thread_local struct {
  uint64_t number; /* 0 outside of a run */
  uint32_t session;
  int64_t start_ns;
  Memory memory; /* MEM_NONE until the first Compute has seen the values */
  bool wrong;
} this_run;
static _Atomic uint64_t runs_started;

/* The honesty of a session whose own is this one, by the number of runs so far. */
static Honesty honesty_now(Honesty own) {
  bool later = device_config.later_runs > 0 && (double)atomic_load(&runs_started) >= device_config.later_runs;
  return later ? ASYNC_OLD_API : own;
}

/* ---- memory ---- */

typedef struct Block {
  char *address; /* what ORT gets: garbage pages for DEFAULT memory, the storage itself for HOST_ACCESSIBLE */
  char *storage;
  size_t bytes, capacity;
  Memory memory;
  uint64_t run; /* the run it was allocated in */
  int uses;     /* the owner, and every queued operation */
  struct Block *next;
} Block;

enum { GARBAGE_BYTES = 1 << 20, PAGE = 4096, HUGE_PAGE = 1 << 21, HEAD_BYTES = 4096 };
static const uint64_t POOL_BYTES = 1ull << 30;
static const uint32_t GARBAGE = 0x7FC0ADDE; /* a NaN, whichever four bytes of it are read as float32 */

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static Block **blocks; /* in use, sorted by address */
static size_t block_count, block_space;
static Block *pool;
static uint64_t pool_bytes;
static int garbage_file = -1;

static void fill_garbage(void *target, size_t bytes) {
  for (size_t i = 0; i + sizeof GARBAGE <= bytes; i += sizeof GARBAGE) {
    memcpy((char *)target + i, &GARBAGE, sizeof GARBAGE);
  }
}

static bool open_garbage(void) {
  if (garbage_file >= 0) return true;
  int file = memfd_create("refdevice-garbage", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, GARBAGE_BYTES) != 0) return false;
  void *pages = mmap(NULL, GARBAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (pages == MAP_FAILED) return false;
  fill_garbage(pages, GARBAGE_BYTES);
  munmap(pages, GARBAGE_BYTES);
  garbage_file = file;
  return true;
}

/* The same garbage file over and over: readable everywhere, and hardly any memory. */
static char *map_garbage(size_t bytes) {
  if (!open_garbage()) return NULL;
  char *start = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return NULL;
  for (size_t at = 0; at < bytes; at += GARBAGE_BYTES) {
    size_t part = bytes - at < GARBAGE_BYTES ? bytes - at : GARBAGE_BYTES;
    if (mmap(start + at, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, garbage_file, 0) == MAP_FAILED) {
      munmap(start, bytes);
      return NULL;
    }
  }
  return start;
}

/* Memory that is all there. In huge pages where it is large: that spares the caches of the host, whose own speed after
 * an operation is part of what is measured. */
static char *map_storage(size_t bytes) {
  size_t spare = bytes >= HUGE_PAGE ? HUGE_PAGE : 0;
  char *mapped = mmap(NULL, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return NULL;
  size_t before = spare ? (size_t)(-(uintptr_t)mapped % HUGE_PAGE) : 0;
  if (before) munmap(mapped, before);
  if (spare > before) munmap(mapped + before + bytes, spare - before);
  if (spare) madvise(mapped + before, bytes, MADV_HUGEPAGE);
  memset(mapped + before, 0, bytes);
  return mapped + before;
}

static Block *new_block(size_t capacity, Memory memory) {
  char *storage = map_storage(capacity);
  if (!storage) return NULL;
  char *address = memory == MEM_DEFAULT ? map_garbage(capacity) : storage;
  if (!address) {
    munmap(storage, capacity);
    return NULL;
  }
  Block *block = zeroed(sizeof *block);
  *block = (Block){.address = address, .storage = storage, .capacity = capacity, .memory = memory};
  return block;
}

static void delete_block(Block *block) {
  munmap(block->storage, block->capacity);
  if (block->address != block->storage) munmap(block->address, block->capacity);
  free(block);
}

static Block *take_from_pool(size_t capacity, Memory memory) {
  for (Block **link = &pool; *link; link = &(*link)->next) {
    Block *block = *link;
    if (block->capacity != capacity || block->memory != memory) continue;
    *link = block->next;
    pool_bytes -= capacity;
    return block;
  }
  return NULL;
}

/* How many blocks in use start at or below `address`. */
static size_t blocks_upto(const char *address) {
  size_t low = 0, high = block_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (blocks[middle]->address <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void list_block(Block *block) {
  if (block_count == block_space) {
    block_space = block_space ? 2 * block_space : 64;
    blocks = realloc(blocks, block_space * sizeof *blocks);
    if (!blocks) abort();
  }
  size_t at = blocks_upto(block->address);
  memmove(&blocks[at + 1], &blocks[at], (block_count++ - at) * sizeof *blocks);
  blocks[at] = block;
}

static void unlist_block(Block *block) {
  size_t at = blocks_upto(block->address);
  memmove(&blocks[at - 1], &blocks[at], (block_count-- - at) * sizeof *blocks);
}

/* Memory can be freed while queued work still uses it: a block goes back to the pool when its last user is gone. */
static void drop_block(Block *block) {
  if (!block) return;
  pthread_mutex_lock(&memory_lock);
  if (--block->uses == 0) {
    unlist_block(block);
    if (pool_bytes + block->capacity <= POOL_BYTES) {
      pool_bytes += block->capacity;
      block->next = pool;
      pool = block;
    } else {
      delete_block(block);
    }
  }
  pthread_mutex_unlock(&memory_lock);
}

/* Turns a pointer ORT holds into the data behind it. `*block` gets a use that must be dropped, NULL for host memory. */
static char *resolve(const void *pointer, Block **block) {
  pthread_mutex_lock(&memory_lock);
  size_t at = blocks_upto(pointer);
  *block = at && (const char *)pointer < blocks[at - 1]->address + blocks[at - 1]->capacity ? blocks[at - 1] : NULL;
  if (*block) (*block)->uses++;
  pthread_mutex_unlock(&memory_lock);
  return *block ? (*block)->storage + ((const char *)pointer - (*block)->address) : (char *)pointer;
}

static Block *allocate_block(size_t bytes, Memory memory) {
  size_t capacity = ((bytes ? bytes : 1) + PAGE - 1) / PAGE * PAGE;
  pthread_mutex_lock(&memory_lock);
  Block *block = take_from_pool(capacity, memory);
  if (!block) block = new_block(capacity, memory);
  if (block) {
    block->bytes = bytes;
    block->uses = 1;
    block->run = this_run.number;
    fill_garbage(block->storage, HEAD_BYTES);
    list_block(block);
  }
  pthread_mutex_unlock(&memory_lock);
  return block;
}

static bool allocation_fails(size_t bytes, Memory memory) {
  Trigger *large = &device_config.fail_alloc_bytes;
  if (fails(&device_config.fail_alloc, memory)) return true;
  if (!large->number || bytes < large->number || (large->memory && large->memory != memory)) return false;
  trace_failure(large, memory);
  return true;
}

static Event memory_event(Kind kind, size_t bytes, Memory memory) {
  return (Event){.kind = kind, .bytes = bytes, .memory = memory, .run = this_run.number, .session = this_run.session};
}

static void *device_alloc(size_t bytes, Memory memory, int device) {
  int64_t start = now_ns();
  if (allocation_fails(bytes, memory) || faulty(AT_ALLOC, memory, device)) return NULL;
  size_t skew = (size_t)device_config.skew;
  Block *block = allocate_block(bytes + skew, memory);
  if (block) block->bytes = bytes;
  Event event = memory_event(ALLOC, bytes, memory);
  event.failed = !block;
  trace_span(event, start);
  return block ? block->address + skew : NULL;
}

/* How many bytes it had. */
static size_t device_free(void *pointer) {
  int64_t start = now_ns();
  Block *block;
  resolve(pointer, &block);
  if (!block) return 0;
  size_t bytes = block->bytes;
  Event event = memory_event(FREE, block->bytes, block->memory);
  drop_block(block); /* the use taken just now */
  drop_block(block); /* the owner's */
  trace_span(event, start);
  return bytes;
}

/* ---- queues ---- */

typedef struct Op {
  Event event;
  int64_t ready_ns; /* it starts then, or when its predecessor ends */
  int64_t duration_ns;
  bool watched; /* the caller waits for it, in whose thread it runs */
  enum { QUEUED, HAS_ENGINE, AT_WORK } step; /* in virtual time */
  void (*work)(struct Op *);   /* everything, but for the first bytes of what a host can see */
  void (*finish)(struct Op *); /* those bytes, when the time has come */
  void (*release)(struct Op *);
  struct Op *next;
} Op;

typedef struct Queue {
  uint32_t id;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  pthread_t thread;
  bool has_thread, busy, stop;
  Op *first, *last;
  _Atomic uint64_t submitted, done;
  _Atomic int64_t horizon; /* when everything submitted should be done */
  int64_t last_end;
  uint64_t asked, turn; /* of those that run their operation themselves: first come, first served */
  struct Queue *next;
} Queue;

static Queue default_queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};
static Queue *queues = &default_queue; /* all of them; the default queue is always last */
static uint32_t queues_made;

/* Copies past the caches: a real device's copy would not push the host's code and data out of them either. */
static void copy_streaming(char *to, const char *from, size_t bytes) {
  size_t at = 0;
#ifdef __SSE2__
  if (bytes >= STREAMING_BYTES) memcpy(to, from, at = (size_t)(-(uintptr_t)to % 64));
  for (; bytes >= STREAMING_BYTES && at + 64 <= bytes; at += 64) {
    _mm_prefetch(from + at + 512, _MM_HINT_NTA);
    for (size_t i = at; i < at + 64; i += 16) {
      _mm_stream_si128((__m128i *)(void *)(to + i), _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
    }
  }
  _mm_sfence();
#endif
  memcpy(to + at, from + at, bytes - at);
}

/* A copy in two steps. Until the second, nobody can take the target for complete. */
static void copy_tail(char *to, const char *from, size_t bytes) {
  if (bytes > HEAD_BYTES) copy_streaming(to + HEAD_BYTES, from + HEAD_BYTES, bytes - HEAD_BYTES);
}

static void copy_head(char *to, const char *from, size_t bytes) {
  memcpy(to, from, bytes < HEAD_BYTES ? bytes : HEAD_BYTES);
}

/* What does the work, one operation at a time, first come, first served: knob `engines`. */
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t next;
  uint64_t asked, served;
  int64_t last_end;
} Engine;

enum { MAX_ENGINES = 3 };
static Engine engines[MAX_ENGINES] = {
    {.lock = PTHREAD_MUTEX_INITIALIZER, .next = PTHREAD_COND_INITIALIZER},
    {.lock = PTHREAD_MUTEX_INITIALIZER, .next = PTHREAD_COND_INITIALIZER},
    {.lock = PTHREAD_MUTEX_INITIALIZER, .next = PTHREAD_COND_INITIALIZER},
};

/* The first engine computes, the second copies, the third copies from the device; fewer engines do more each. */
static Engine *engine_of(const Event *event) {
  int count = (int)device_config.engines, wanted;
  switch (event->kind) {
    case INFERENCE: wanted = 0; break;
    case H2D:
    case DEVICE_COPY: wanted = 1; break;
    case D2H: wanted = 2; break;
    case HA_COPY: wanted = event->source == MEM_DEFAULT ? 2 : 1; break;
    default: return NULL;
  }
  return count ? &engines[wanted < count ? wanted : count - 1] : NULL;
}

#ifdef VIRTUAL_TIME
#include "refdevice_events.h"
#else
#include "refdevice_threads.h"
#endif

/* What inferences go through that somebody waits for: knob `servers`. The first is the default queue. */
enum { MAX_SERVERS = 8 };
static struct {
  pthread_mutex_t lock;
  Queue *queue[MAX_SERVERS];
  int inside[MAX_SERVERS];
} servers = {.lock = PTHREAD_MUTEX_INITIALIZER, .queue = {&default_queue}};

/* The server with the fewest inferences inside, one more now. */
static int server_take(void) {
  int count = (int)device_config.servers, best = 0;
  pthread_mutex_lock(&servers.lock);
  for (int i = 1; i < count && i < MAX_SERVERS; i++) {
    if (!servers.queue[i]) servers.queue[i] = queue_open();
    if (servers.inside[i] < servers.inside[best]) best = i;
  }
  servers.inside[best]++;
  pthread_mutex_unlock(&servers.lock);
  return best;
}

static void server_give(int server) {
  pthread_mutex_lock(&servers.lock);
  servers.inside[server]--;
  pthread_mutex_unlock(&servers.lock);
}

/* ---- copies ---- */

typedef struct {
  Op op;
  char *from, *to;
  Block *from_block, *to_block;
  bool wrong;
} Copy;

static void copy_work(Op *op) { copy_tail(((Copy *)op)->to, ((Copy *)op)->from, op->event.bytes); }

static void copy_finish(Op *op) {
  Copy *copy = (Copy *)op;
  copy_head(copy->to, copy->from, op->event.bytes);
  if (copy->wrong && op->event.bytes) copy->to[0]++; /* not undone by a copy back that is wrong too */
}

static void copy_release(Op *op) {
  Copy *copy = (Copy *)op;
  drop_block(copy->from_block);
  drop_block(copy->to_block);
  free(copy);
}

static Copy *new_copy(size_t bytes) {
  Copy *copy = zeroed(sizeof *copy);
  copy->op = (Op){.work = copy_work, .finish = copy_finish, .release = copy_release};
  copy->op.event = (Event){.bytes = bytes, .run = this_run.number, .session = this_run.session};
  copy->op.ready_ns = copy->op.event.queued_ns = now_ns();
  return copy;
}

static Memory memory_of(const Block *block) { return block ? block->memory : MEM_HOST; }

/* Whether copies to and from a memory take the time of the knobs. */
static bool is_far(Memory memory) {
  return memory == MEM_DEFAULT || (memory == MEM_HOST_ACCESSIBLE && !device_config.default_memory);
}

static Kind copy_kind(Memory from, Memory to) {
  if (is_far(from)) return is_far(to) ? DEVICE_COPY : D2H;
  return is_far(to) ? H2D : HOST_COPY;
}

/* Fills in what depends on the two memories, and says whether a knob makes this copy fail. */
static bool prepare_copy(Copy *copy) {
  Event *event = &copy->op.event;
  Config *config = &device_config;
  event->source = memory_of(copy->from_block);
  event->destination = memory_of(copy->to_block);
  event->kind = copy_kind((Memory)event->source, (Memory)event->destination);
  event->memory = event->run ? MEM_HOST : MEM_DEFAULT;
  switch (event->kind) {
    case H2D:
      copy->op.duration_ns = link_ns(&config->upload, event->bytes);
      return fails(&config->fail_upload, (Memory)event->memory);
    case D2H:
      copy->op.duration_ns = link_ns(&config->download, event->bytes);
      return fails(&config->fail_download, (Memory)event->memory);
    case DEVICE_COPY: copy->op.duration_ns = link_ns(&config->device_copy, event->bytes); return false;
    default: return false;
  }
}

#endif
