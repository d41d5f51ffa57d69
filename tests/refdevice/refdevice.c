/* The reference device: an ONNX Runtime plugin execution provider whose copy and compute times are known by definition.
 *
 * A benchmark is checked by measuring something already known. This library is that something: a virtual GPU with
 * DEFAULT and HOST_ACCESSIBLE memory, copies that take latency + bytes / bandwidth, inferences that take a set time,
 * several degrees of honesty about when work has finished, failures on demand, and a trace of what really happened.
 *
 *   cc -O3 -Wall -Wextra -shared -fPIC -o librefdevice.so refdevice.c -lpthread -lm
 *
 * Memory. A DEFAULT pointer leads to pages of garbage (a NaN pattern); the data live in a storage of the same size that
 * only the device knows, found by address, so that interior pointers work too. A host that reads or writes such a
 * pointer directly neither crashes nor gets or changes data. HOST_ACCESSIBLE memory is plain, page-aligned host memory.
 * Blocks are pooled, their storage is populated in advance and their first bytes are overwritten with NaN when they are
 * handed out: an allocation costs microseconds, and nobody finds the results of an earlier run in a new block.
 *
 * Each allocator counts what it gives out, and tells ONNX Runtime (OrtAllocator::GetStats); the trace has every block.
 *
 * With the knob `default_memory` at 0 the device has HOST_ACCESSIBLE memory alone and has sessions keep their inputs and
 * outputs there, as with `accessible_io` at 1 it does in any case; with `cpu` it is a CPU. DEVICE_NAME, OPERATORS and the
 * like (`build` of refdevice.py has them all), set when it is compiled, make another device of it.
 *
 * Time. Work goes through in-order queues: one default queue for the inferences of all sessions and for copies without
 * a stream, and one queue for each stream made by create_sync_stream(). Queues run beside each other, unless the knob
 * `engines` gives them less to share: 3 are one for inferences and one for copies each way, as most GPUs have, with 2
 * both ways share one, and with 1 the device does one thing at a time; operations get an engine in the order in which
 * they ask for it. An operation starts when it was queued, when its predecessor ended or when its engine became free,
 * whichever is latest, does its real work at once and ends at start + set time, or when the real work is done if that
 * takes longer. A thread that has to wait for the end of
 * something sleeps until shortly before (knob spin_us) and then spins. Work somebody waits for anyway runs in the
 * caller's own thread, so that no wake-up lies between its end and the caller's return. The first bytes of every result
 * that a host can see appear only at the very end: whoever reads too early never sees all of it.
 *
 * Copies. Without a stream: synchronous, after everything queued on any queue. With a stream of create_sync_stream():
 * queued, the call returns at once, and the buffers must live until it is done (closing the stream, or any copy without
 * a stream, waits for it). Copies ONNX Runtime makes inside a run are synchronous and ordered behind the inferences.
 * Copies between HOST_ACCESSIBLE and ordinary host memory take only their real time; a copy onto itself takes none.
 *
 * Honesty (knob `honesty`):
 *   sync           Compute returns when the inference is done.
 *   async-wait     Compute returns at once; the wait at the end of a run (OnRunEnd) is honoured, unless the run option
 *                  disable_synchronize_execution_providers=1 switches it off.
 *   async          the run returns at once; only OrtEp::Sync (synchronize_outputs) or a copy waits.
 *   async-old-api  like async, but the EP reports an API version without OrtEp::Sync, so only a copy waits.
 * With the knob `later_runs` the device changes while it runs: from that run of the process on, no session waits, as
 * with async-old-api.
 *
 * Knobs. The environment variables REFDEVICE_<KNOB> are read when the library is loaded; the EP options <knob> of a
 * session override them. compute_us, honesty, ha_copies, accessible_io and outputs then hold for that session, everything else for
 * the device, and so for the whole process from then on. See `knobs` below; refdevice.py documents each.
 *
 * Outputs (knob `outputs`). The device knows their shapes and asks for their memory beforehand; or it does so when it has
 * computed them in memory of its own, from where it copies them; or so does it unless the caller has bound memory of their
 * shape, which KernelContext_GetPreallocatedOutput gives.
 *
 * "Memory of a run" in the trace and in the knobs: host_accessible if any boundary value lives there; host if inputs
 * were allocated inside the run, which is what session.run with arrays does (mode cpu); otherwise default.
 *
 * The parts: refdevice_device.h is the device (clock, knobs, trace, memory, queues, copies), refdevice_ops.h its
 * operators, refdevice_graph.h its graphs and inferences, refdevice_context.h what it compiled for later sessions,
 * refdevice_ort.h the places in ONNX Runtime's tables. This file makes an execution provider of them. All are one
 * translation unit.
 */
#define _GNU_SOURCE
#include "refdevice_context.h"

typedef struct { /* OrtApiBase */
  const Fn *(*get_api)(uint32_t version);
  const char *(*get_version)(void);
} ApiBase;
static const ApiBase *ort_base;

/* ---- copies ---- */

typedef struct { /* OrtSyncStreamImpl */
  Table table;
  Queue *queue;
  bool of_session; /* a session's stream is the default queue, and what it flushes depends on the honesty */
  Honesty honesty;
} Stream;

static void submit_copy(Copy *copy, const Stream *stream) {
  if (stream && !stream->of_session) {
    queue_push(stream->queue, &copy->op);
    return;
  }
  if (!stream) {
    drain_all();
    copy->op.ready_ns = now_ns();
  }
  queue_run(&default_queue, &copy->op);
}

static Status *copy_tensor(const void *from, const void *to, const Stream *stream) {
  const void *source, *target;
  size_t bytes, space;
  host_call();
  TRY(API(GET_TENSOR_DATA, const void *, const void **)(from, &source));
  TRY(API(GET_TENSOR_DATA, const void *, const void **)(to, &target));
  TRY(API(GET_TENSOR_SIZE_IN_BYTES, const void *, size_t *)(from, &bytes));
  TRY(API(GET_TENSOR_SIZE_IN_BYTES, const void *, size_t *)(to, &space));
  if (bytes && (!source || !target)) return no_memory();
  if (space < bytes) return fail("a copy of %zu bytes into a tensor of %zu", bytes, space);
  if (source == target) {
    trace_span((Event){.kind = SAME_COPY, .bytes = bytes, .run = this_run.number, .session = this_run.session},
               now_ns());
    return NULL;
  }
  Copy *copy = new_copy(bytes);
  copy->from = resolve(source, &copy->from_block);
  copy->to = resolve(target, &copy->to_block);
  if (prepare_copy(copy)) {
    bool upload = copy->op.event.kind == H2D;
    copy_release(&copy->op);
    return fail("the reference device was told to fail this %s", upload ? "upload" : "download");
  }
  if (fails(&device_config.abort_copy, (Memory)copy->op.event.memory)) abort();
  if (faulty(AT_COPY, (Memory)copy->op.event.memory, 0)) {
    copy_release(&copy->op);
    return fail("the reference device was told to fail this copy");
  }
  copy->wrong = fails(&device_config.wrong_copy, (Memory)copy->op.event.memory);
  submit_copy(copy, stream);
  return NULL;
}

static Status *copy_tensors(void *self, const void **from, void **to, void **streams, size_t count) {
  (void)self;
  for (size_t i = 0; i < count; i++) {
    void *sync_stream = streams ? streams[i] : NULL;
    TRY(copy_tensor(from[i], to[i], sync_stream ? EP_API(SYNC_STREAM_GET_IMPL, void *, void *)(sync_stream) : NULL));
  }
  return NULL;
}

static bool is_ours(const void *memory_device) {
  return EP_API(MEMORY_DEVICE_GET_VENDOR_ID, uint32_t, const void *)(memory_device) == VENDOR_ID;
}

static bool is_host(const void *memory_device) {
  return EP_API(MEMORY_DEVICE_GET_DEVICE_TYPE, int, const void *)(memory_device) == DEVICE_CPU;
}

static bool can_copy(const void *self, const void *from, const void *to) {
  (void)self;
  Ways ways = device_config.copies;
  if (is_ours(from)) return is_ours(to) || (is_host(to) && ways != UPLOADS);
  return is_host(from) && is_ours(to) && ways != DOWNLOADS;
}

/* ---- streams ---- */

typedef struct { /* OrtSyncNotificationImpl: a place in a queue */
  Table table;
  Queue *queue;
  uint64_t submitted;
} Notification;

static Status *notification_activate(Notification *self) {
  self->submitted = atomic_load(&self->queue->submitted);
  return NULL;
}

static Status *notification_wait_on_host(Notification *self) {
  queue_wait(self->queue, self->submitted);
  return NULL;
}

/* Simply blocks, unless the consumer is the same queue and therefore behind it anyway. ONNX Runtime passes no consumer
 * where nodes on the CPU follow. */
static Status *notification_wait_on_device(Notification *self, void *consumer) {
  const Stream *stream = consumer ? EP_API(SYNC_STREAM_GET_IMPL, void *, void *)(consumer) : NULL;
  return stream && stream->queue == self->queue ? NULL : notification_wait_on_host(self);
}

static Status *stream_create_notification(Stream *self, Notification **notification) {
  *notification = zeroed(sizeof **notification);
  **notification = (Notification){
      {API_VERSION,
       {(Fn)free, (Fn)notification_activate, (Fn)notification_wait_on_device, (Fn)notification_wait_on_host}},
      self->queue,
      0};
  return NULL;
}

static void stream_release(Stream *self) {
  if (!self->of_session) queue_close(self->queue);
  free(self);
}

static void *stream_get_handle(Stream *self) { return self->queue; }

static Status *stream_flush(Stream *self) {
  if (!self->of_session || honesty_now(self->honesty) == ASYNC_WAIT) queue_drain(self->queue);
  return NULL;
}

static Status *stream_on_run_end(Stream *self) {
  (void)self;
  return NULL;
}

static Stream *new_stream(Queue *queue) {
  Stream *stream = zeroed(sizeof *stream);
  *stream = (Stream){.table = {API_VERSION,
                               {(Fn)stream_release, (Fn)stream_get_handle, (Fn)stream_create_notification,
                                (Fn)stream_flush, (Fn)stream_on_run_end}},
                     .queue = queue};
  return stream;
}

/* ---- the execution provider of one session ---- */

typedef struct { /* how an Ep and a Factory begin */
  Table table;
  const char *name;
} Named;

static const char *get_name(const Named *self) { return self->name; }

static Status *ep_compile(Ep *self, const void **sources, const void **fused, size_t count, Graph **graphs,
                          void **context_nodes) {
  bool saves = self->saving.wanted && context_nodes && device_config.context_bytes > 0;
  for (size_t i = 0; i < count; i++) {
    Graph *graph = zeroed(sizeof *graph);
    graph->table =
        (Table){API_VERSION, {(Fn)graph_create_state, (Fn)graph_compute, (Fn)graph_release_state}};
    graph->ep = self;
    Status *status = open_graph(self, graph, sources[i], fused[i], saves ? &context_nodes[i] : NULL);
    if (status) {
      release_graph(graph);
      return status;
    }
    graphs[i] = graph;
  }
  return NULL;
}

static void ep_release_graphs(Ep *self, Graph **graphs, size_t count) {
  (void)self;
  queue_drain(&default_queue);
  for (size_t i = 0; i < count; i++) release_graph(graphs[i]);
}

static Status *ep_on_run_start(Ep *self, const void *options) {
  (void)options;
  this_run.number = atomic_fetch_add(&runs_started, 1) + 1;
  this_run.session = self->session;
  this_run.start_ns = now_ns();
  this_run.memory = MEM_NONE;
  this_run.wrong = false;
  return NULL;
}

static Event run_event(const Ep *self, Kind kind) {
  return (Event){.kind = kind, .run = this_run.number, .session = self->session, .memory = this_run.memory};
}

static Status *ep_on_run_end(Ep *self, const void *options, bool wait) {
  (void)options;
  if (wait && honesty_now(self->honesty) == ASYNC_WAIT) {
    int64_t start = now_ns();
    queue_drain(&default_queue);
    trace_span(run_event(self, RUN_END_WAIT), start);
  }
  trace_span(run_event(self, RUN), this_run.start_ns);
  this_run.number = 0;
  this_run.memory = MEM_NONE;
  return NULL;
}

static Status *ep_sync(Ep *self) {
  host_call();
  if (honesty_now(self->honesty) == ASYNC_OLD_API) return NULL; /* only after it changed: else there is no such call */
  if (faulty(AT_SYNC, MEM_NONE, self->device)) return fail("the reference device was told to fail this synchronization");
  int64_t start = now_ns();
  drain_all();
  trace_span(run_event(self, SYNC_WAIT), start);
  return NULL;
}

static Status *ep_create_sync_stream(Ep *self, const void *memory_device, Stream **stream) {
  (void)memory_device;
  *stream = new_stream(&default_queue);
  (*stream)->of_session = true;
  (*stream)->honesty = self->honesty;
  return NULL;
}

/* What sessions are to keep their inputs and outputs in: HOST_ACCESSIBLE memory. */
static Status *ep_get_default_memory_device(const Ep *self, const void **device) {
  *device = EP_API(MEMORY_INFO_GET_MEMORY_DEVICE, const void *, const void *)(self->accessible_info);
  return NULL;
}

static Ep *new_ep(const Config *config, const char *name, int device, const void *accessible_info) {
  static _Atomic uint32_t sessions;
  Ep *ep = zeroed(sizeof *ep);
  *ep = (Ep){.name = name,
             .device = device,
             .compute_ns = config->compute_ns,
             .ha_copies = config->ha_copies > 0,
             .honesty = config->honesty,
             .outputs = config->outputs,
             .accessible_info = accessible_info};
  ep->session = atomic_fetch_add(&sessions, 1) + 1;
  ep->table.version = config->honesty == ASYNC_OLD_API ? API_VERSION_WITHOUT_SYNC : API_VERSION;
  Fn *call = ep->table.call;
  call[EP_GET_NAME] = (Fn)get_name;
  call[EP_GET_CAPABILITY] = (Fn)ep_get_capability;
  call[EP_COMPILE] = (Fn)ep_compile;
  call[EP_RELEASE_NODE_COMPUTE_INFOS] = (Fn)ep_release_graphs;
  call[EP_ON_RUN_START] = (Fn)ep_on_run_start;
  call[EP_ON_RUN_END] = (Fn)ep_on_run_end;
  call[EP_CREATE_SYNC_STREAM] = (Fn)ep_create_sync_stream;
  call[EP_SYNC] = (Fn)ep_sync;
  if ((config->accessible_io || !config->default_memory) && config->honesty != ASYNC_OLD_API) {
    ep->table.version = API_VERSION_WITH_DEFAULT_MEMORY_DEVICE;
    call[EP_GET_DEFAULT_MEMORY_DEVICE] = (Fn)ep_get_default_memory_device;
  }
  return ep;
}

/* ---- the factory ---- */

typedef struct { /* a device: OrtHardwareDevice, and two OrtMemoryInfo, either of which may be missing */
  void *hardware, *default_info, *accessible_info;
} Unit;

enum { MAX_UNITS = 2 };
typedef struct { /* OrtEpFactory */
  Table table;
  const char *name;
  Unit unit[MAX_UNITS];
  int units;
} Factory;

typedef struct { /* OrtAllocator */
  Table table;
  const void *info;
  Memory memory;
  int device; /* counted from 1 */
  size_t in_use, most, count; /* bytes given out now and at most, and how often; `memory_lock` is held */
} Allocator;

static void *allocator_alloc(Allocator *self, size_t bytes) {
  void *address = device_alloc(bytes, self->memory, self->device);
  pthread_mutex_lock(&memory_lock);
  if (address) {
    self->count++;
    self->in_use += bytes;
    if (self->in_use > self->most) self->most = self->in_use;
  }
  pthread_mutex_unlock(&memory_lock);
  return address;
}

static void allocator_free(Allocator *self, void *pointer) {
  size_t bytes = device_free(pointer);
  pthread_mutex_lock(&memory_lock);
  self->in_use -= bytes;
  pthread_mutex_unlock(&memory_lock);
}

/* What ONNX Runtime's profile says of memory, for each node. There is no arena: what is held is what is in use. */
static Status *allocator_get_stats(Allocator *self, void **stats) {
  pthread_mutex_lock(&memory_lock);
  struct {
    const char *key;
    size_t value;
  } said[] = {{"InUse", self->in_use},
              {"MaxInUse", self->most},
              {"TotalAllocated", self->in_use},
              {"NumAllocs", self->count}};
  pthread_mutex_unlock(&memory_lock);
  ((void (*)(void **))ort[CREATE_KEY_VALUE_PAIRS])(stats);
  for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
    char text[32];
    snprintf(text, sizeof text, "%zu", said[i].value);
    ((void (*)(void *, const char *, const char *))ort[ADD_KEY_VALUE_PAIR])(*stats, said[i].key, text);
  }
  return NULL;
}

static const void *allocator_info(const Allocator *self) { return self->info; }

static const char *factory_get_vendor(const void *self) {
  (void)self;
  return "ortbench";
}

static uint32_t factory_get_vendor_id(const void *self) {
  (void)self;
  return VENDOR_ID;
}

static const char *factory_get_version(const void *self) {
  (void)self;
  return EP_VERSION;
}

static bool factory_is_stream_aware(const void *self) {
  (void)self;
  return true;
}

static Status *factory_get_supported_devices(Factory *self, const void *const *devices, size_t device_count,
                                             void **ep_devices, size_t space, size_t *count) {
  (void)devices;
  (void)device_count;
  *count = 0;
  if (faulty(AT_DEVICE, MEM_NONE, 0)) return fail("%s was told to find no device", self->name);
  for (; *count < (size_t)self->units && *count < space; ++*count) {
    const Unit *unit = &self->unit[*count];
    void **device = &ep_devices[*count];
    TRY(EP_API(CREATE_EP_DEVICE, Status *, Factory *, void *, const void *, const void *, void **)(self, unit->hardware, NULL,
                                                                                                   NULL, device));
    void *infos[] = {unit->default_info, unit->accessible_info};
    for (int i = 0; i < 2; i++) {
      if (infos[i]) TRY(EP_API(EP_DEVICE_ADD_ALLOCATOR_INFO, Status *, void *, void *)(*device, infos[i]));
    }
  }
  return NULL;
}

static Status *apply_options(Config *config, const char *name, const void *entries) {
  char start[128];
  size_t prefix = (size_t)snprintf(start, sizeof start, "ep.%s.", name); /* in lower case */
  const char *const *keys, *const *values;
  size_t count;
  ((void (*)(const void *, const char *const **, const char *const **, size_t *))ort[GET_KEY_VALUE_PAIRS])(
      entries, &keys, &values, &count);
  for (size_t i = 0; i < count; i++) {
    if (strncasecmp(keys[i], start, prefix) != 0) continue;
    const char *error = set_knob(config, keys[i] + prefix, values[i]);
    if (error) return fail("%s: %s", name, error);
  }
  return NULL;
}

static void read_saving(Saving *saving, const void *entries) {
  const char *(*value)(const void *, const char *) = (const char *(*)(const void *, const char *))ort[GET_KEY_VALUE];
  const char *wanted = value(entries, "ep.context_enable"), *embeds = value(entries, "ep.context_embed_mode");
  const char *path = value(entries, "ep.context_file_path");
  *saving = (Saving){.wanted = wanted && strcmp(wanted, "1") == 0, .embeds = embeds && strcmp(embeds, "1") == 0};
  snprintf(saving->path, sizeof saving->path, "%s", path ? path : "");
}

static Status *read_options(Config *config, Saving *saving, const char *name, const void *session_options) {
  void *entries = NULL;
  TRY(API(GET_SESSION_OPTIONS_CONFIG_ENTRIES, const void *, void **)(session_options, &entries));
  Status *status = apply_options(config, name, entries);
  read_saving(saving, entries);
  ((void (*)(void *))ort[RELEASE_KEY_VALUE_PAIRS])(entries);
  return status;
}

static Status *factory_create_ep(Factory *self, const void *const *devices, const void *const *metadata, size_t count,
                                 const void *session_options, const void *logger, Ep **ep) {
  (void)metadata;
  (void)count;
  (void)logger;
  int unit = 0;
  while (unit < self->units - 1 && self->unit[unit].hardware != devices[0]) unit++;
  if (faulty(AT_SESSION, MEM_NONE, unit + 1)) return fail("%s was told to fail this session", self->name);
  pthread_mutex_lock(&config_lock);
  Config config = device_config;
  Saving saving;
  Status *status = read_options(&config, &saving, self->name, session_options);
  if (!status && config.outputs >= PREALLOCATED && !ort_base->get_api(API_VERSION_WITH_PREALLOCATED_OUTPUT)) {
    status = fail("%s needs ONNX Runtime 1.%d or newer for this", self->name, API_VERSION_WITH_PREALLOCATED_OUTPUT);
  }
  if (!status) {
    Config own = device_config; /* what a session's options may not change for the next session */
    *ep = new_ep(&config, self->name, unit + 1, self->unit[unit].accessible_info);
    (*ep)->saving = saving;
    device_config = config;
    device_config.compute_ns = own.compute_ns;
    device_config.ha_copies = own.ha_copies;
    device_config.honesty = own.honesty;
    device_config.accessible_io = own.accessible_io;
    device_config.outputs = own.outputs;
    leak(config.leak_session_bytes);
  }
  pthread_mutex_unlock(&config_lock);
  return status;
}

static void factory_release_ep(Factory *self, Ep *ep) {
  (void)self;
  if (faulty(AT_RELEASE, MEM_NONE, ep->device)) abort(); /* it has no way to return an error */
  free(ep);
}

static Status *factory_create_allocator(Factory *self, const void *info, const void *options, Allocator **allocator) {
  (void)options;
  int memory = ((int (*)(const void *))ort[MEMORY_INFO_GET_DEVICE_MEM_TYPE])(info);
  bool accessible = memory == ORT_MEMORY_HOST_ACCESSIBLE;
  const void *place = EP_API(MEMORY_INFO_GET_MEMORY_DEVICE, const void *, const void *)(info);
  uint32_t number = EP_API(MEMORY_DEVICE_GET_DEVICE_ID, uint32_t, const void *)(place);
  const Unit *unit = &self->unit[number < MAX_UNITS ? number : 0];
  Allocator *made = zeroed(sizeof *made);
  *made = (Allocator){.table = {API_VERSION,
                               {(Fn)allocator_alloc, (Fn)allocator_free, (Fn)allocator_info, (Fn)allocator_alloc,
                                (Fn)allocator_get_stats}},
                     .info = accessible ? unit->accessible_info : unit->default_info,
                     .memory = accessible ? MEM_HOST_ACCESSIBLE : device_config.host_memory ? MEM_HOST : MEM_DEFAULT,
                     .device = (int)number + 1};
  *allocator = made;
  return NULL;
}

static void factory_release_allocator(Factory *self, Allocator *allocator) {
  (void)self;
  free(allocator);
}

static Status *factory_create_data_transfer(Factory *self, Table **transfer) {
  (void)self;
  *transfer = NULL;
  if (device_config.host_memory || device_config.copies == NO_WAY) return NULL;
  *transfer = zeroed(sizeof **transfer);
  **transfer = (Table){API_VERSION, {(Fn)free, (Fn)can_copy, (Fn)copy_tensors}};
  return NULL;
}

static Status *factory_create_sync_stream(Factory *self, const void *memory_device, const void *options,
                                          Stream **stream) {
  (void)self;
  (void)memory_device;
  (void)options;
  *stream = new_stream(queue_open());
  return NULL;
}

static Status *create_hardware(int number, void **hardware) {
  void *metadata;
  ((void (*)(void **))ort[CREATE_KEY_VALUE_PAIRS])(&metadata);
  ((void (*)(void *, const char *, const char *))ort[ADD_KEY_VALUE_PAIR])(metadata, "is_virtual", "1");
  Status *status = EP_API(CREATE_HARDWARE_DEVICE, Status *, int, uint32_t, uint32_t, const char *, void *, void **)(
      device_config.cpu ? HARDWARE_CPU : HARDWARE_GPU, VENDOR_ID, (uint32_t)number + 1, "ortbench", metadata, hardware);
  ((void (*)(void *))ort[RELEASE_KEY_VALUE_PAIRS])(metadata);
  return status;
}

static Status *create_memory_info(const char *name, int memory, int unit, void **info) {
  bool host = device_config.host_memory > 0;
  return API(CREATE_MEMORY_INFO_V2, const char *, int, uint32_t, int32_t, int, size_t, int, void **)(
      host ? "Cpu" : name, host || device_config.cpu ? DEVICE_CPU : DEVICE_GPU, host ? 0 : VENDOR_ID, unit, memory,
      host ? 0 : (size_t)device_config.alignment, 0, info);
}

static Status *create_unit(Unit *unit, int number) {
  TRY(create_hardware(number, &unit->hardware));
  if (device_config.default_memory) TRY(create_memory_info(DEVICE_NAME, ORT_MEMORY_DEFAULT, number, &unit->default_info));
  if (device_config.host_memory) return NULL;
  return create_memory_info(DEVICE_NAME "HostAccessible", ORT_MEMORY_HOST_ACCESSIBLE, number, &unit->accessible_info);
}

static void fill_factory(Factory *factory) {
  Fn *call = factory->table.call;
  factory->table.version = API_VERSION;
  call[FACTORY_GET_NAME] = (Fn)get_name;
  call[FACTORY_GET_VENDOR] = (Fn)factory_get_vendor;
  call[FACTORY_GET_SUPPORTED_DEVICES] = (Fn)factory_get_supported_devices;
  call[FACTORY_CREATE_EP] = (Fn)factory_create_ep;
  call[FACTORY_RELEASE_EP] = (Fn)factory_release_ep;
  call[FACTORY_GET_VENDOR_ID] = (Fn)factory_get_vendor_id;
  call[FACTORY_GET_VERSION] = (Fn)factory_get_version;
  call[FACTORY_CREATE_ALLOCATOR] = (Fn)factory_create_allocator;
  call[FACTORY_RELEASE_ALLOCATOR] = (Fn)factory_release_allocator;
  call[FACTORY_CREATE_DATA_TRANSFER] = (Fn)factory_create_data_transfer;
  call[FACTORY_IS_STREAM_AWARE] = (Fn)factory_is_stream_aware;
  call[FACTORY_CREATE_SYNC_STREAM] = (Fn)factory_create_sync_stream;
}

static Status *new_factory(const char *name, Factory **made) {
  Factory *factory = *made = zeroed(sizeof *factory);
  fill_factory(factory);
  factory->name = name;
  while (factory->units < (int)device_config.devices && factory->units < MAX_UNITS) {
    TRY(create_unit(&factory->unit[factory->units], factory->units));
    factory->units++;
  }
  return NULL;
}

__attribute__((visibility("default"))) Status *CreateEpFactories(const char *registered_name, const ApiBase *base,
                                                                 const void *logger, Factory **factories, size_t space,
                                                                 size_t *count) {
  (void)registered_name;
  (void)logger;
  ort_base = base;
  const Fn *newest = base->get_api(API_VERSION);
  ort = newest ? newest : base->get_api(1);
  if (!newest) return fail("%s needs ONNX Runtime 1.%d or newer", EP_NAME, API_VERSION);
  ort_ep = ((const Fn *(*)(void))ort[GET_EP_API])();
  if (space < 1) return fail("%s: no room for a factory", EP_NAME);
#ifdef VIRTUAL_TIME
  if (!clock_is_attached()) return fail("%s: this build of the reference device goes by a clock that is not there", EP_NAME);
#endif
  const char *error = config_from_environment(&device_config);
  if (!error) error = trace_open();
  if (error) return fail("%s: %s", EP_NAME, error);
  if (faulty(AT_REGISTRATION, MEM_NONE, 0)) return fail("%s was told to fail its registration", EP_NAME);
  for (*count = 0; *count < (size_t)device_config.eps && *count < space; ++*count) {
#ifdef NAMED_AS_REGISTERED
    const char *name = strdup(registered_name);
#else
    const char *name = *count ? "Second" EP_NAME : EP_NAME;
#endif
    TRY(new_factory(name, &factories[*count]));
  }
  return NULL;
}

__attribute__((visibility("default"))) Status *ReleaseEpFactory(Factory *factory) {
  for (Queue *queue = queues; queue; queue = queue->next) queue_stop_thread(queue); /* the library may go away now */
  for (int i = 0; i < factory->units; i++) {
    void *infos[] = {factory->unit[i].default_info, factory->unit[i].accessible_info};
    for (int j = 0; j < 2; j++) {
      if (infos[j]) ((void (*)(void *))ort[RELEASE_MEMORY_INFO])(infos[j]);
    }
    EP_API(RELEASE_HARDWARE_DEVICE, void, void *)(factory->unit[i].hardware);
  }
  free(factory);
  return NULL;
}
