/* A CUDA runtime on the CPU: what ONNX Runtime's CUDA execution provider links to (libcudart, libcublas, libcublasLt,
 * libcurand, libcuda and libnvidia-ml in one library), with streams, events, pinned memory, captured graphs and the rules of when a call
 * returns, but without a card. With it the provider itself, as it is published, runs on a machine that has none: its
 * registration, devices, memories, copies, streams and graphs. Only the kernels in softcuda_kernels.h can be computed, and
 * the times are those of softcuda.py's knobs: nothing that it measures says anything about a GPU.
 *
 * What calls do is from the documentation: https://docs.nvidia.com/cuda/cuda-runtime-api/ (above all "API synchronization
 * behavior" and "Stream synchronization behavior"). A call that is not supported fails and says so; none pretends.
 */
#define _GNU_SOURCE
#include "softcuda_device.h"
#include "softcuda_driver.h"
#include "softcuda_kernels.h"
#include "softcuda_types.h"

static _Thread_local Error last_error;

static Error answer(Error error) {
  if (error) last_error = error;
  return error;
}

static Error unsupported(const char *call) {
  fprintf(stderr, "softcuda: %s is not supported\n", call);
  return answer(NOT_SUPPORTED);
}

static Stream *stream_of(Stream *handle) {
  open_device();
  uintptr_t special = (uintptr_t)handle; /* 0 and cudaStreamLegacy are the default stream, cudaStreamPerThread is taken for it */
  return special <= 2 ? default_stream : handle;
}

/* ---- device ---- */

API Error cudaGetDeviceCount(int *count) { return *count = 1, SUCCESS; }
API Error cudaGetDevice(int *device) { return *device = 0, SUCCESS; }
API Error cudaSetDevice(int device) { return answer(device == 0 ? SUCCESS : INVALID_DEVICE); }
API Error cudaDriverGetVersion(int *version) { return *version = RUNTIME_VERSION, SUCCESS; }
API Error cudaRuntimeGetVersion(int *version) { return *version = RUNTIME_VERSION, SUCCESS; }

API Error cudaGetDeviceProperties(DeviceProperties *p, int device) {
  if (device != 0) return answer(INVALID_DEVICE);
  open_device();
  memset(p, 0, sizeof *p);
  strcpy(p->name, "softcuda (no GPU)");
  p->memory = (size_t)(memory_gb * 1e9);
  p->major = (int)capability, p->minor = (int)(capability * 10 + 0.5) % 10, p->multiprocessors = 2, p->warp_size = 32;
  p->shared_per_block = 48 << 10, p->shared_per_multiprocessor = p->shared_per_block_opt_in = 227 << 10;
  p->registers_per_block = p->registers_per_multiprocessor = 65536;
  p->threads_per_block = 1024, p->threads_per_multiprocessor = 2048;
  p->block[0] = p->block[1] = 1024, p->block[2] = 64;
  p->grid[0] = INT32_MAX, p->grid[1] = p->grid[2] = 65535;
  p->texture_alignment = 512, p->copy_engines = 2, p->unified_addressing = 1, p->concurrent_kernels = 1;
  p->maps_host_memory = 1, p->l2_bytes = 50 << 20, p->cooperative_launch = 1;
  return SUCCESS;
}

API Error cudaDeviceGetAttribute(int *value, int attribute, int device) {
  DeviceProperties p;
  if (cudaGetDeviceProperties(&p, device)) return last_error;
  switch (attribute) {
    case CAPABILITY_MAJOR: *value = p.major; break;
    case CAPABILITY_MINOR: *value = p.minor; break;
    case MULTIPROCESSORS: *value = p.multiprocessors; break;
    case WARP_SIZE: *value = p.warp_size; break;
    case THREADS_PER_BLOCK: *value = p.threads_per_block; break;
    case SHARED_PER_BLOCK: *value = (int)p.shared_per_block; break;
    case SHARED_PER_BLOCK_OPT_IN: *value = (int)p.shared_per_block_opt_in; break;
    case SHARED_PER_MULTIPROCESSOR: *value = (int)p.shared_per_multiprocessor; break;
    case GRID_X: *value = p.grid[0]; break;
    case GRID_Y: *value = p.grid[1]; break;
    case L2_BYTES: *value = p.l2_bytes; break;
    case COOPERATIVE_LAUNCH: *value = 1; break;
    case UNIFIED_ADDRESSING: *value = p.unified_addressing; break;
    case MAPS_HOST_MEMORY: *value = p.maps_host_memory; break;
    case INTEGRATED: *value = p.integrated; break;
    case MEMORY_POOLS: *value = 1; break;
    default:
      fprintf(stderr, "softcuda: attribute %d of the device is not known\n", attribute);
      return answer(NOT_SUPPORTED);
  }
  return SUCCESS;
}

API Error cudaDeviceSynchronize(void) { return wait_for_all(), SUCCESS; }

API Error cudaDeviceGetByPCIBusId(int *device, const char *id) { return (void)id, *device = 0, SUCCESS; }

/* ---- errors ---- */

API Error cudaGetLastError(void) {
  Error error = last_error;
  last_error = SUCCESS;
  return error;
}

API Error cudaPeekAtLastError(void) { return last_error; }

API const char *cudaGetErrorString(Error error) {
  static _Thread_local char text[64];
  switch (error) {
    case SUCCESS: return "cudaSuccess";
    case OUT_OF_MEMORY: return "cudaErrorMemoryAllocation";
    case INVALID_VALUE: return "cudaErrorInvalidValue";
    case INVALID_DEVICE: return "cudaErrorInvalidDevice";
    case NOT_SUPPORTED: return "cudaErrorNotSupported";
    case CAPTURE_UNSUPPORTED: return "cudaErrorStreamCaptureUnsupported";
    case CAPTURE_INVALIDATED: return "cudaErrorStreamCaptureInvalidated";
    default: snprintf(text, sizeof text, "cudaError %d", (int)error); return text;
  }
}

API const char *cudaGetErrorName(Error error) { return cudaGetErrorString(error); }

/* ---- capture ---- */

/* The one stream that captures, which forbids some calls to all others. */
static Stream *capturing;

static bool spoils_capture(void) {
  if (capturing) capturing->spoilt = true;
  return capturing != NULL;
}

API Error cudaStreamBeginCapture(Stream *handle, int mode) {
  Stream *stream = stream_of(handle);
  (void)mode; /* the strictest is kept for all */
  if (stream == default_stream || capturing) return answer(CAPTURE_UNSUPPORTED);
  capturing = stream;
  stream->capture = zeroed(sizeof(Graph));
  stream->spoilt = false;
  return SUCCESS;
}

API Error cudaStreamEndCapture(Stream *handle, Graph **graph) {
  Stream *stream = stream_of(handle);
  if (!stream->capture) return answer(INVALID_VALUE);
  *graph = stream->capture;
  stream->capture = NULL;
  capturing = NULL;
  if (!stream->spoilt) return SUCCESS;
  free_graph(*graph);
  *graph = NULL;
  return answer(CAPTURE_INVALIDATED);
}

API Error cudaStreamIsCapturing(Stream *handle, int *status) {
  *status = stream_of(handle)->capture ? CAPTURING : NOT_CAPTURING;
  return SUCCESS;
}

API Error cudaGraphInstantiate(Graph **executable, Graph *graph, unsigned long long flags) {
  Graph *copy = zeroed(sizeof *copy);
  if (flags) return unsupported("cudaGraphInstantiate with flags");
  copy->works = zeroed(graph->count * sizeof *copy->works);
  copy->count = graph->count;
  pthread_mutex_lock(&queue_lock);
  for (size_t i = 0; i < graph->count; i++) {
    copy->works[i] = graph->works[i];
    copy->works[i]->holders++;
  }
  pthread_mutex_unlock(&queue_lock);
  *executable = copy;
  return SUCCESS;
}

API Error cudaGraphLaunch(Graph *graph, Stream *handle) {
  long long now = now_ns();
  if (trace) fprintf(trace, "%lld %lld %lld %d graph none 0 launch\n", now, now, now, stream_of(handle)->number);
  for (size_t i = 0; i < graph->count; i++) enqueue(stream_of(handle), graph->works[i]);
  return SUCCESS;
}

API Error cudaGraphDestroy(Graph *graph) { return free_graph(graph), SUCCESS; }
API Error cudaGraphExecDestroy(Graph *graph) { return free_graph(graph), SUCCESS; }

/* ---- memory ---- */

API Error cudaMalloc(void **pointer, size_t size) {
  open_device();
  *pointer = NULL;
  if (spoils_capture()) return answer(CAPTURE_UNSUPPORTED);
  if (size == 0) return SUCCESS;
  *pointer = device_allocate(size);
  return answer(*pointer ? SUCCESS : OUT_OF_MEMORY);
}

API Error cudaFree(void *pointer) {
  if (pointer == NULL) return SUCCESS;
  if (spoils_capture()) return answer(CAPTURE_UNSUPPORTED);
  wait_for_all();
  return answer(device_release(pointer) ? SUCCESS : INVALID_VALUE);
}

API Error cudaHostAlloc(void **pointer, size_t size, unsigned int flags) {
  open_device();
  (void)flags; /* portable, mapped, write-combined: all the same here */
  *pointer = pinned_allocate(size);
  return answer(*pointer ? SUCCESS : OUT_OF_MEMORY);
}

API Error cudaMallocHost(void **pointer, size_t size) { return cudaHostAlloc(pointer, size, 0); }

API Error cudaFreeHost(void *pointer) {
  if (pointer == NULL) return SUCCESS;
  wait_for_all();
  return answer(pinned_release(pointer) ? SUCCESS : INVALID_VALUE);
}

API Error cudaHostGetDevicePointer(void **device, void *host, unsigned int flags) {
  *device = host; /* unified addressing */
  return (void)flags, answer(is_pinned(host) ? SUCCESS : INVALID_VALUE);
}

API Error cudaMemGetInfo(size_t *available, size_t *total) {
  open_device();
  *total = (size_t)(memory_gb * 1e9);
  *available = *total - allocated;
  return SUCCESS;
}

API Error cudaPointerGetAttributes(PointerAttributes *attributes, const void *pointer) {
  open_device();
  bool pinned = is_pinned(pointer);
  memset(attributes, 0, sizeof *attributes);
  attributes->type = on_device(pointer) ? DEVICE : pinned ? HOST : UNREGISTERED;
  attributes->device_pointer = on_device(pointer) || pinned ? (void *)pointer : NULL;
  attributes->host_pointer = on_device(pointer) ? NULL : (void *)pointer;
  return SUCCESS;
}

/* Pools: memory is there at once, and given back when the stream has come to it. */
API Error cudaMemPoolCreate(void **pool, const int *properties) {
  if (properties[2] != 1) return unsupported("cudaMemPoolCreate beside the device");
  return *pool = zeroed(1), SUCCESS;
}
API Error cudaMemPoolDestroy(void *pool) { return free(pool), SUCCESS; }
API Error cudaMemPoolTrimTo(void *pool, size_t kept) { return (void)pool, (void)kept, SUCCESS; }
API Error cudaMemPoolGetAttribute(void *pool, int attribute, void *value) {
  return (void)pool, (void)attribute, (void)value, unsupported("cudaMemPoolGetAttribute");
}
API Error cudaMemPoolSetAttribute(void *pool, int attribute, void *value) {
  /* How much a pool keeps back for itself, which is nothing here. */
  return (void)pool, (void)value, attribute == RELEASE_THRESHOLD ? SUCCESS : unsupported("this attribute of a pool");
}

API Error cudaMallocFromPoolAsync(void **pointer, size_t size, void *pool, Stream *stream) {
  return (void)pool, (void)stream, cudaMalloc(pointer, size);
}

static void run_release(Work *work) { device_release(work->to); }

API Error cudaFreeAsync(void *pointer, Stream *stream) {
  if (pointer == NULL) return SUCCESS;
  if (spoils_capture()) return answer(CAPTURE_UNSUPPORTED);
  Work *work = new_work(run_release, NO_ENGINE, 0, "free");
  work->to = pointer;
  enqueue(stream_of(stream), work);
  return SUCCESS;
}

/* ---- copies ---- */

enum { STAGED_BYTES = 64 << 10 }; /* a pageable upload of no more returns when it has been staged */

static Error copy(void *to, const void *from, size_t bytes, Stream *stream, bool asynchronous) {
  if (bytes == 0) return SUCCESS;
  if (!to || !from) return answer(INVALID_VALUE);
  bool up = on_device(to) && !on_device(from), down = !on_device(to) && on_device(from);
  const void *host = up ? from : down ? to : NULL;
  bool pinned = host && is_pinned(host), pageable = host && !pinned;
  if (stream->capture && (pageable || !asynchronous)) {
    stream->spoilt = true;
    return answer(CAPTURE_UNSUPPORTED);
  }
  double gbps = host == NULL ? device_gbps : pinned ? pinned_gbps : pageable_gbps;
  bool staged = up && pageable && bytes <= STAGED_BYTES;
  Work *work = new_work(staged ? run_staged : run_copy, up ? UPLOAD : down ? DOWNLOAD : COMPUTE, copy_ns(bytes, gbps), "copy");
  work->to = to, work->from = from, work->bytes = bytes;
  work->host = pinned ? "pinned" : pageable ? "pageable" : "none";
  if (staged) work->owned = memcpy(zeroed(bytes), from, bytes);
  if (down && leak_bytes > 0) device_allocate((size_t)leak_bytes);
  enqueue(stream, work);
  /* Pageable copies return when the host's side is done with; others of the asynchronous call at once; of the synchronous
   * call all but those within the device, which nobody on the host waits for. */
  if (!staged && (pageable || (!asynchronous && host))) wait_for_stream(stream);
  return SUCCESS;
}

API Error cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, Stream *stream) {
  return (void)kind, copy(to, from, bytes, stream_of(stream), true);
}

API Error cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
  return (void)kind, copy(to, from, bytes, stream_of(NULL), false);
}

API Error cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                            int kind, Stream *stream) {
  (void)kind;
  for (size_t row = 0; row < height; row++) {
    Error error = copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width, stream_of(stream), true);
    if (error) return error;
  }
  return SUCCESS;
}

API Error cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, int kind) {
  return (void)to, (void)symbol, (void)bytes, (void)offset, (void)kind, unsupported("cudaMemcpyFromSymbol");
}

static void run_set(Work *work) { memset(bytes_at(work->to), (int)work->target, work->bytes); }

API Error cudaMemsetAsync(void *to, int value, size_t bytes, Stream *stream) {
  Work *work = new_work(run_set, COMPUTE, copy_ns(bytes, device_gbps), "set");
  work->to = to, work->bytes = bytes, work->target = (unsigned char)value;
  enqueue(stream_of(stream), work);
  return SUCCESS;
}

API Error cudaMemset(void *to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, NULL); }

/* ---- streams and events ---- */

API Error cudaStreamCreateWithFlags(Stream **stream, unsigned int flags) {
  open_device(); /* whose default stream is the first */
  *stream = new_stream(!(flags & NON_BLOCKING));
  return SUCCESS;
}

API Error cudaStreamCreate(Stream **stream) { return cudaStreamCreateWithFlags(stream, 0); }
API Error cudaStreamDestroy(Stream *stream) { return end_stream(stream_of(stream)), SUCCESS; }

API Error cudaStreamSynchronize(Stream *handle) {
  Stream *stream = stream_of(handle);
  if (stream->capture) {
    stream->spoilt = true;
    return answer(CAPTURE_UNSUPPORTED);
  }
  wait_for_stream(stream);
  if (stream == default_stream)
    for (Stream *other = streams; other; other = other->next)
      if (other->blocking) wait_for_stream(other);
  return SUCCESS;
}

API Error cudaEventCreateWithFlags(Event **event, unsigned int flags) {
  Event *made = zeroed(sizeof *made);
  (void)flags;
  made->holders = 1;
  *event = made;
  return SUCCESS;
}

API Error cudaEventCreate(Event **event) { return cudaEventCreateWithFlags(event, 0); }

API Error cudaEventDestroy(Event *event) {
  pthread_mutex_lock(&queue_lock);
  release_event(event);
  pthread_mutex_unlock(&queue_lock);
  return SUCCESS;
}

API Error cudaEventRecordWithFlags(Event *event, Stream *stream, unsigned int flags) {
  if (flags) return unsupported("cudaEventRecordWithFlags with flags");
  event->captured = stream_of(stream)->capture != NULL;
  if (event->captured) return SUCCESS;
  Work *work = new_work(NULL, NO_ENGINE, 0, "record");
  pthread_mutex_lock(&queue_lock);
  event->holders++;
  pthread_mutex_unlock(&queue_lock);
  work->event = event;
  enqueue(stream_of(stream), work);
  return SUCCESS;
}

API Error cudaEventRecord(Event *event, Stream *stream) { return cudaEventRecordWithFlags(event, stream, 0); }

API Error cudaEventSynchronize(Event *event) {
  pthread_mutex_lock(&queue_lock);
  uint64_t target = event->recorded;
  while (event->done < target) pthread_cond_wait(&queue_moved, &queue_lock);
  pthread_mutex_unlock(&queue_lock);
  return SUCCESS;
}

API Error cudaEventElapsedTime(float *milliseconds, Event *begin, Event *end) {
  *milliseconds = (float)(end->time_ns - begin->time_ns) / 1e6f;
  return SUCCESS;
}

API Error cudaStreamWaitEvent(Stream *handle, Event *event, unsigned int flags) {
  Stream *stream = stream_of(handle);
  (void)flags;
  if (event->captured) {
    if (stream->capture) return SUCCESS; /* the capture's one stream has that order already */
    return spoils_capture(), unsupported("a second stream in a capture");
  }
  pthread_mutex_lock(&queue_lock);
  uint64_t target = event->recorded;
  bool waits = event->done < target;
  event->holders += waits;
  pthread_mutex_unlock(&queue_lock);
  if (!waits) return SUCCESS;
  if (stream->capture) return stream->spoilt = true, answer(CAPTURE_UNSUPPORTED);
  Work *work = new_work(NULL, NO_ENGINE, 0, "wait");
  work->event = event, work->target = target;
  enqueue(stream, work);
  return SUCCESS;
}

typedef void (*HostFunction)(void *);

typedef struct {
  HostFunction function;
  void *data;
} HostCall;

static void run_host_call(Work *work) {
  HostCall *call = work->owned;
  call->function(call->data);
}

API Error cudaLaunchHostFunc(Stream *stream, HostFunction function, void *data) {
  Work *work = new_work(run_host_call, NO_ENGINE, 0, "host");
  HostCall *call = work->owned = zeroed(sizeof *call);
  *call = (HostCall){function, data};
  enqueue(stream_of(stream), work);
  return SUCCESS;
}

/* ---- kernels ---- */

typedef struct {
  const void *function;
  const char *name;
} Kernel;

static Kernel *kernels;
static size_t kernel_count, kernel_room;
static bool sorted;
static pthread_mutex_t kernel_lock = PTHREAD_MUTEX_INITIALIZER;

API void **__cudaRegisterFatBinary(void *binary) { return (void **)binary; }
API void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
API void __cudaUnregisterFatBinary(void **handle) { (void)handle; }

API void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t size, int constant,
                           int global) {
  (void)handle, (void)host, (void)device, (void)name, (void)external, (void)size, (void)constant, (void)global;
}

API void __cudaRegisterFunction(void **handle, const char *function, char *device_function, const char *name, int limit,
                                void *thread, void *block, void *block_dim, void *grid_dim, int *shared) {
  (void)handle, (void)device_function, (void)limit, (void)thread, (void)block, (void)block_dim, (void)grid_dim, (void)shared;
  pthread_mutex_lock(&kernel_lock);
  if (kernel_count == kernel_room) {
    kernel_room = kernel_room ? 2 * kernel_room : 1024;
    kernels = realloc(kernels, kernel_room * sizeof *kernels);
    if (!kernels) abort();
  }
  kernels[kernel_count++] = (Kernel){function, name};
  sorted = false;
  pthread_mutex_unlock(&kernel_lock);
}

static int by_function(const void *left, const void *right) {
  uintptr_t a = (uintptr_t)((const Kernel *)left)->function, b = (uintptr_t)((const Kernel *)right)->function;
  return a < b ? -1 : a > b;
}

static const char *name_of(const void *function) {
  pthread_mutex_lock(&kernel_lock);
  if (!sorted) qsort(kernels, kernel_count, sizeof *kernels, by_function);
  sorted = true;
  Kernel wanted = {function, NULL};
  const Kernel *found = bsearch(&wanted, kernels, kernel_count, sizeof *kernels, by_function);
  pthread_mutex_unlock(&kernel_lock);
  return found ? found->name : "a kernel that nobody registered";
}

static _Thread_local struct {
  Dimensions grid, block;
  size_t shared;
  Stream *stream;
} configuration;

API unsigned __cudaPushCallConfiguration(Dimensions grid, Dimensions block, size_t shared, Stream *stream) {
  configuration.grid = grid, configuration.block = block, configuration.shared = shared, configuration.stream = stream;
  return 0;
}

API Error __cudaPopCallConfiguration(Dimensions *grid, Dimensions *block, size_t *shared, void *stream) {
  *grid = configuration.grid, *block = configuration.block, *shared = configuration.shared;
  *(Stream **)stream = configuration.stream;
  return SUCCESS;
}

API Error cudaLaunchKernel(const void *function, Dimensions grid, Dimensions block, void **args, size_t shared, Stream *stream) {
  (void)grid, (void)block, (void)shared;
  const char *name = name_of(function);
  Work *work = kernel_work(name, args);
  if (!work) {
    fprintf(stderr, "softcuda: it has no kernel %s\n", name);
    return answer(NOT_SUPPORTED);
  }
  enqueue(stream_of(stream), work);
  return SUCCESS;
}

API Error __cudaGetKernel(const void **kernel, const void *function) {
  return *kernel = function, SUCCESS;
}

API Error __cudaLaunchKernel(const void *kernel, Dimensions grid, Dimensions block, void **args, size_t shared, Stream *stream) {
  return cudaLaunchKernel(kernel, grid, block, args, shared, stream);
}

API Error cudaLaunchKernelExC(const LaunchConfiguration *config, const void *function, void **args) {
  return cudaLaunchKernel(function, config->grid, config->block, args, config->shared, config->stream);
}

API Error cudaLaunchCooperativeKernel(const void *function, Dimensions grid, Dimensions block, void **args, size_t shared,
                                      Stream *stream) {
  return cudaLaunchKernel(function, grid, block, args, shared, stream);
}

API Error cudaFuncGetAttributes(FunctionAttributes *attributes, const void *function) {
  (void)function;
  memset(attributes, 0, sizeof *attributes);
  attributes->threads_per_block = 1024, attributes->binary_version = attributes->ptx_version = 90, attributes->registers = 32;
  return SUCCESS;
}

API Error cudaFuncSetAttribute(const void *function, int attribute, int value) {
  return (void)function, (void)attribute, (void)value, SUCCESS; /* hints of sizes, which nothing here depends on */
}

API Error cudaKernelSetAttributeForDevice(const void *kernel, int attribute, int value, int device) {
  return (void)kernel, (void)attribute, (void)value, (void)device, SUCCESS;
}

API Error cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int size, size_t shared,
                                                                 unsigned int flags) {
  return (void)function, (void)size, (void)shared, (void)flags, *blocks = 1, SUCCESS;
}

API Error cudaLibraryLoadData(void **library, const void *code, int *options, void **values,
                              unsigned int count, int *library_options, void **library_values,
                              unsigned int library_count) {
  (void)library, (void)code, (void)options, (void)values, (void)count, (void)library_options, (void)library_values;
  return (void)library_count, unsupported("cudaLibraryLoadData");
}
API Error cudaLibraryUnload(void *library) { return (void)library, unsupported("cudaLibraryUnload"); }
API Error cudaLibraryGetKernel(const void **kernel, void *library, const char *name) {
  return (void)kernel, (void)library, (void)name, unsupported("cudaLibraryGetKernel");
}
API Error cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int version,
                                           unsigned long long flags, int *status) {
  (void)version, (void)flags;
  *function = NULL;
  if (status) *status = SYMBOL_NOT_FOUND;
  return unsupported(symbol);
}

/* ---- cuBLAS ---- */

enum { CUBLAS_OK = 0, CUBLAS_NOT_SUPPORTED = 15 };

typedef struct {
  Stream *stream;
  int math_mode;
} Blas;

static int blas_unsupported(const char *call) {
  unsupported(call);
  return CUBLAS_NOT_SUPPORTED;
}

API int cublasCreate_v2(Blas **handle) { return *handle = zeroed(sizeof **handle), CUBLAS_OK; }
API int cublasDestroy_v2(Blas *handle) { return free(handle), CUBLAS_OK; }
API int cublasSetStream_v2(Blas *handle, Stream *stream) { return handle->stream = stream, CUBLAS_OK; }
API int cublasSetMathMode(Blas *handle, int mode) { return handle->math_mode = mode, CUBLAS_OK; }
API int cublasGetMathMode(Blas *handle, int *mode) { return *mode = handle->math_mode, CUBLAS_OK; }
API const char *cublasGetStatusName(int status) { return status ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_SUCCESS"; }
API const char *cublasGetStatusString(int status) { return cublasGetStatusName(status); }
API int cublasLtCreate(Blas **handle) { return cublasCreate_v2(handle); }
API int cublasLtDestroy(Blas *handle) { return cublasDestroy_v2(handle); }

static int multiply_matrices(Blas *handle, Product product) {
  Work *work = new_work(run_product, COMPUTE, (int64_t)(kernel_us * 1000), "gemm");
  work->owned = zeroed(sizeof product);
  memcpy(work->owned, &product, sizeof product);
  enqueue(stream_of(handle->stream), work);
  return CUBLAS_OK;
}

API int cublasSgemm_v2(Blas *handle, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda,
                       const float *b, int ldb, const float *beta, float *c, int ldc) {
  return multiply_matrices(handle, (Product){ta, tb, false, m, n, k, lda, ldb, ldc, 1, 0, 0, 0, *alpha, *beta, a, b, c});
}

API int cublasSgemmStridedBatched(Blas *handle, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda,
                                  long long a_step, const float *b, int ldb, long long b_step, const float *beta, float *c,
                                  int ldc, long long c_step, int count) {
  Product product = {ta, tb, false, m, n, k, lda, ldb, ldc, count, a_step, b_step, c_step, *alpha, *beta, a, b, c};
  return multiply_matrices(handle, product);
}

enum { R_32F = 0, R_16F = 2 }; /* cudaDataType */

API int cublasGemmEx(Blas *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda,
                     const void *b, int b_type, int ldb, const void *beta, void *c, int c_type, int ldc, int compute,
                     int algorithm) {
  (void)algorithm;
  bool half = a_type == R_16F;
  if (a_type != b_type || a_type != c_type || (a_type != R_32F && !half)) return blas_unsupported("cublasGemmEx of these types");
  /* Scalars are half where it computes in half: CUBLAS_COMPUTE_16F is 64, its pedantic variant 65. */
  bool small = compute == 64 || compute == 65;
  float by = small ? (float)*(const _Float16 *)alpha : *(const float *)alpha;
  float plus = small ? (float)*(const _Float16 *)beta : *(const float *)beta;
  return multiply_matrices(handle, (Product){ta, tb, half, m, n, k, lda, ldb, ldc, 1, 0, 0, 0, by, plus, a, b, c});
}

#define NO_BLAS(name) \
  API int name(void) { return blas_unsupported(#name); }
NO_BLAS(cublasDgeam)
NO_BLAS(cublasDgemmBatched)
NO_BLAS(cublasDgemmStridedBatched)
NO_BLAS(cublasDgemm_v2)
NO_BLAS(cublasDgetrfBatched)
NO_BLAS(cublasDgetriBatched)
NO_BLAS(cublasGemmBatchedEx)
NO_BLAS(cublasGemmStridedBatchedEx)
NO_BLAS(cublasScopy_v2)
NO_BLAS(cublasSgeam)
NO_BLAS(cublasSgemmBatched)
NO_BLAS(cublasSgetrfBatched)
NO_BLAS(cublasSgetriBatched)
NO_BLAS(cublasSscal_v2)
NO_BLAS(cublasLtMatmul)
NO_BLAS(cublasLtMatmulAlgoConfigSetAttribute)
NO_BLAS(cublasLtMatmulAlgoGetHeuristic)
NO_BLAS(cublasLtMatmulAlgoInit)
NO_BLAS(cublasLtMatmulDescCreate)
NO_BLAS(cublasLtMatmulDescDestroy)
NO_BLAS(cublasLtMatmulDescSetAttribute)
NO_BLAS(cublasLtMatmulPreferenceCreate)
NO_BLAS(cublasLtMatmulPreferenceDestroy)
NO_BLAS(cublasLtMatmulPreferenceSetAttribute)
NO_BLAS(cublasLtMatrixLayoutCreate)
NO_BLAS(cublasLtMatrixLayoutDestroy)
NO_BLAS(cublasLtMatrixLayoutSetAttribute)
NO_BLAS(cublasLtMatrixTransform)
NO_BLAS(cublasLtMatrixTransformDescCreate)
NO_BLAS(cublasLtMatrixTransformDescDestroy)
NO_BLAS(cublasLtMatrixTransformDescSetAttribute)
