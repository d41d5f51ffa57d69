/* A CUDA runtime on the CPU: what ONNX Runtime's CUDA execution provider links to (libcudart, libcublas, libcublasLt,
 * libcurand and libcuda in one library), with streams, events, pinned memory, captured graphs and the rules of when a call
 * returns, but without a card. With it the provider itself, as it is published, runs on a machine that has none: its
 * registration, devices, memories, copies, streams and graphs. Only the kernels in softcuda_kernels.h can be computed, and
 * the times are those of softcuda.py's knobs: nothing that it measures says anything about a GPU.
 *
 * Types and constants are from NVIDIA's headers (package nvidia-cuda-runtime); what calls do is from the documentation:
 * https://docs.nvidia.com/cuda/cuda-runtime-api/ (above all "API synchronization behavior" and "Stream synchronization
 * behavior"). A call that is not supported fails and says so; none pretends.
 */
#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL
#include <cuda_runtime_api.h>

#include "softcuda_device.h"
#include "softcuda_kernels.h"

#define API __attribute__((visibility("default")))

static _Thread_local cudaError_t last_error;

static cudaError_t answer(cudaError_t error) {
  if (error) last_error = error;
  return error;
}

static cudaError_t unsupported(const char *call) {
  fprintf(stderr, "softcuda: %s is not supported\n", call);
  return answer(cudaErrorNotSupported);
}

__attribute__((constructor)) static void start(void) { open_device(); }

static Stream *stream_of(cudaStream_t handle) {
  if (handle == NULL || handle == cudaStreamLegacy || handle == cudaStreamPerThread) return default_stream;
  return (Stream *)handle;
}

/* ---- device ---- */

API cudaError_t cudaGetDeviceCount(int *count) { return *count = 1, cudaSuccess; }
API cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
API cudaError_t cudaSetDevice(int device) { return answer(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
API cudaError_t cudaDriverGetVersion(int *version) { return *version = CUDART_VERSION, cudaSuccess; }
API cudaError_t cudaRuntimeGetVersion(int *version) { return *version = CUDART_VERSION, cudaSuccess; }

API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
  if (device != 0) return answer(cudaErrorInvalidDevice);
  memset(p, 0, sizeof *p);
  strcpy(p->name, "softcuda (no GPU)");
  p->totalGlobalMem = (size_t)(memory_gb * 1e9);
  p->major = 9, p->multiProcessorCount = 2, p->warpSize = 32;
  p->sharedMemPerBlock = 48 << 10, p->sharedMemPerMultiprocessor = p->sharedMemPerBlockOptin = 227 << 10;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->maxThreadsPerBlock = 1024, p->maxThreadsPerMultiProcessor = 2048;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = INT32_MAX, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->textureAlignment = 512, p->asyncEngineCount = 2, p->unifiedAddressing = 1, p->concurrentKernels = 1;
  p->canMapHostMemory = 1, p->l2CacheSize = 50 << 20, p->cooperativeLaunch = 1;
  return cudaSuccess;
}

API cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
  struct cudaDeviceProp p;
  if (cudaGetDeviceProperties(&p, device)) return last_error;
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = (int)p.sharedMemPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)p.sharedMemPerBlockOptin; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = (int)p.sharedMemPerMultiprocessor; break;
    case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrCooperativeLaunch: *value = 1; break;
    case cudaDevAttrMemoryPoolsSupported: *value = 0; break;
    default: return unsupported("cudaDeviceGetAttribute of this attribute");
  }
  return cudaSuccess;
}

API cudaError_t cudaDeviceSynchronize(void) { return wait_for_all(), cudaSuccess; }

/* ---- errors ---- */

API cudaError_t cudaGetLastError(void) {
  cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

API cudaError_t cudaPeekAtLastError(void) { return last_error; }

API const char *cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }

API const char *cudaGetErrorString(cudaError_t error) {
  static _Thread_local char text[64];
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorNotSupported: return "cudaErrorNotSupported";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    default: snprintf(text, sizeof text, "cudaError %d", (int)error); return text;
  }
}

/* ---- capture ---- */

/* The one stream that captures, which forbids some calls to all others. */
static Stream *capturing;

static bool spoils_capture(void) {
  if (capturing) capturing->spoilt = true;
  return capturing != NULL;
}

API cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode) {
  Stream *stream = stream_of(handle);
  (void)mode; /* the strictest is kept for all */
  if (stream == default_stream || capturing) return answer(cudaErrorStreamCaptureUnsupported);
  capturing = stream;
  stream->capture = zeroed(sizeof(Graph));
  stream->spoilt = false;
  return cudaSuccess;
}

API cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph) {
  Stream *stream = stream_of(handle);
  if (!stream->capture) return answer(cudaErrorInvalidValue);
  *graph = (cudaGraph_t)stream->capture;
  stream->capture = NULL;
  capturing = NULL;
  if (!stream->spoilt) return cudaSuccess;
  free_graph((Graph *)*graph);
  *graph = NULL;
  return answer(cudaErrorStreamCaptureInvalidated);
}

API cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status) {
  *status = stream_of(handle)->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t handle, unsigned long long flags) {
  Graph *graph = (Graph *)handle, *copy = zeroed(sizeof *copy);
  if (flags) return unsupported("cudaGraphInstantiate with flags");
  copy->works = zeroed(graph->count * sizeof *copy->works);
  copy->count = graph->count;
  pthread_mutex_lock(&queue_lock);
  for (size_t i = 0; i < graph->count; i++) {
    copy->works[i] = graph->works[i];
    copy->works[i]->holders++;
  }
  pthread_mutex_unlock(&queue_lock);
  *executable = (cudaGraphExec_t)copy;
  return cudaSuccess;
}

API cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  Graph *graph = (Graph *)executable;
  if (trace) fprintf(trace, "%lld %lld %d graph none 0 launch\n", (long long)now_ns(), (long long)now_ns(), stream_of(handle)->number);
  for (size_t i = 0; i < graph->count; i++) enqueue(stream_of(handle), graph->works[i]);
  return cudaSuccess;
}

API cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return free_graph((Graph *)graph), cudaSuccess; }
API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return free_graph((Graph *)graph), cudaSuccess; }

/* ---- memory ---- */

API cudaError_t cudaMalloc(void **pointer, size_t size) {
  *pointer = NULL;
  if (spoils_capture()) return answer(cudaErrorStreamCaptureUnsupported);
  if (size == 0) return cudaSuccess;
  *pointer = device_allocate(size);
  return answer(*pointer ? cudaSuccess : cudaErrorMemoryAllocation);
}

API cudaError_t cudaFree(void *pointer) {
  if (pointer == NULL) return cudaSuccess;
  if (spoils_capture()) return answer(cudaErrorStreamCaptureUnsupported);
  wait_for_all();
  return answer(device_release(pointer) ? cudaSuccess : cudaErrorInvalidValue);
}

API cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned int flags) {
  (void)flags; /* portable, mapped, write-combined: all the same here */
  *pointer = pinned_allocate(size);
  return answer(*pointer ? cudaSuccess : cudaErrorMemoryAllocation);
}

API cudaError_t cudaMallocHost(void **pointer, size_t size) { return cudaHostAlloc(pointer, size, 0); }

API cudaError_t cudaFreeHost(void *pointer) {
  if (pointer == NULL) return cudaSuccess;
  wait_for_all();
  return answer(pinned_release(pointer) ? cudaSuccess : cudaErrorInvalidValue);
}

API cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
  *total = (size_t)(memory_gb * 1e9);
  *available = *total - allocated;
  return cudaSuccess;
}

API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer) {
  bool pinned = is_pinned(pointer);
  memset(attributes, 0, sizeof *attributes);
  attributes->type = on_device(pointer) ? cudaMemoryTypeDevice : pinned ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
  attributes->devicePointer = on_device(pointer) || pinned ? (void *)pointer : NULL;
  attributes->hostPointer = on_device(pointer) ? NULL : (void *)pointer;
  return cudaSuccess;
}

API cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties) {
  return (void)pool, (void)properties, unsupported("cudaMemPoolCreate");
}
API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) { return (void)pool, unsupported("cudaMemPoolDestroy"); }
API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
  return (void)pool, (void)attribute, (void)value, unsupported("cudaMemPoolGetAttribute");
}
API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
  return (void)pool, (void)attribute, (void)value, unsupported("cudaMemPoolSetAttribute");
}
API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t kept) {
  return (void)pool, (void)kept, unsupported("cudaMemPoolTrimTo");
}
API cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
  return (void)pointer, (void)size, (void)pool, (void)stream, unsupported("cudaMallocFromPoolAsync");
}
API cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
  return (void)pointer, (void)stream, unsupported("cudaFreeAsync");
}

/* ---- copies ---- */

enum { STAGED_BYTES = 64 << 10 }; /* a pageable upload of no more returns when it has been staged */

static cudaError_t copy(void *to, const void *from, size_t bytes, Stream *stream, bool asynchronous) {
  if (bytes == 0) return cudaSuccess;
  if (!to || !from) return answer(cudaErrorInvalidValue);
  bool up = on_device(to) && !on_device(from), down = !on_device(to) && on_device(from);
  const void *host = up ? from : down ? to : NULL;
  bool pinned = host && is_pinned(host), pageable = host && !pinned;
  if (stream->capture && (pageable || !asynchronous)) {
    stream->spoilt = true;
    return answer(cudaErrorStreamCaptureUnsupported);
  }
  double gbps = host == NULL ? device_gbps : pinned ? pinned_gbps : pageable_gbps;
  bool staged = up && pageable && bytes <= STAGED_BYTES;
  Work *work = new_work(staged ? run_staged : run_copy, up ? UPLOAD : down ? DOWNLOAD : COMPUTE, copy_ns(bytes, gbps), "copy");
  work->to = to, work->from = from, work->bytes = bytes;
  work->host = pinned ? "pinned" : pageable ? "pageable" : "none";
  if (staged) work->owned = memcpy(zeroed(bytes), from, bytes);
  enqueue(stream, work);
  /* Pageable copies return when the host's side is done with; others of the asynchronous call at once; of the synchronous
   * call all but those within the device, which nobody on the host waits for. */
  if (!staged && (pageable || (!asynchronous && host))) wait_for_stream(stream);
  return cudaSuccess;
}

API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
  return (void)kind, copy(to, from, bytes, stream_of(stream), true);
}

API cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  return (void)kind, copy(to, from, bytes, default_stream, false);
}

API cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                                  enum cudaMemcpyKind kind, cudaStream_t stream) {
  (void)kind;
  for (size_t row = 0; row < height; row++) {
    cudaError_t error = copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width, stream_of(stream), true);
    if (error) return error;
  }
  return cudaSuccess;
}

API cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
  return (void)to, (void)symbol, (void)bytes, (void)offset, (void)kind, unsupported("cudaMemcpyFromSymbol");
}

static void run_set(Work *work) { memset(bytes_at(work->to), (int)work->target, work->bytes); }

API cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  Work *work = new_work(run_set, COMPUTE, copy_ns(bytes, device_gbps), "set");
  work->to = to, work->bytes = bytes, work->target = (unsigned char)value;
  enqueue(stream_of(stream), work);
  return cudaSuccess;
}

API cudaError_t cudaMemset(void *to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, NULL); }

/* ---- streams and events ---- */

API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) {
  *stream = (cudaStream_t)new_stream(!(flags & cudaStreamNonBlocking));
  return cudaSuccess;
}

API cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
API cudaError_t cudaStreamDestroy(cudaStream_t stream) { return end_stream(stream_of(stream)), cudaSuccess; }

API cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  Stream *stream = stream_of(handle);
  if (stream->capture) {
    stream->spoilt = true;
    return answer(cudaErrorStreamCaptureUnsupported);
  }
  wait_for_stream(stream);
  if (stream == default_stream)
    for (Stream *other = streams; other; other = other->next)
      if (other->blocking) wait_for_stream(other);
  return cudaSuccess;
}

API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
  Event *made = zeroed(sizeof *made);
  (void)flags;
  made->holders = 1;
  *event = (cudaEvent_t)made;
  return cudaSuccess;
}

API cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }

API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  pthread_mutex_lock(&queue_lock);
  release_event((Event *)event);
  pthread_mutex_unlock(&queue_lock);
  return cudaSuccess;
}

API cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream, unsigned int flags) {
  Event *event = (Event *)handle;
  if (flags) return unsupported("cudaEventRecordWithFlags with flags");
  event->captured = stream_of(stream)->capture != NULL;
  if (event->captured) return cudaSuccess;
  Work *work = new_work(NULL, NO_ENGINE, 0, "record");
  pthread_mutex_lock(&queue_lock);
  event->holders++;
  pthread_mutex_unlock(&queue_lock);
  work->event = event;
  enqueue(stream_of(stream), work);
  return cudaSuccess;
}

API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return cudaEventRecordWithFlags(event, stream, 0); }

API cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  Event *event = (Event *)handle;
  pthread_mutex_lock(&queue_lock);
  uint64_t target = event->recorded;
  while (event->done < target) pthread_cond_wait(&queue_moved, &queue_lock);
  pthread_mutex_unlock(&queue_lock);
  return cudaSuccess;
}

API cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = (float)(((Event *)end)->time_ns - ((Event *)begin)->time_ns) / 1e6f;
  return cudaSuccess;
}

API cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned int flags) {
  Event *event = (Event *)event_handle;
  Stream *stream = stream_of(handle);
  (void)flags;
  if (event->captured) {
    if (stream->capture) return cudaSuccess; /* the capture's one stream has that order already */
    return spoils_capture(), unsupported("a second stream in a capture");
  }
  pthread_mutex_lock(&queue_lock);
  uint64_t target = event->recorded;
  bool waits = event->done < target;
  event->holders += waits;
  pthread_mutex_unlock(&queue_lock);
  if (!waits) return cudaSuccess;
  if (stream->capture) return stream->spoilt = true, answer(cudaErrorStreamCaptureUnsupported);
  Work *work = new_work(NULL, NO_ENGINE, 0, "wait");
  work->event = event, work->target = target;
  enqueue(stream, work);
  return cudaSuccess;
}

typedef struct {
  cudaHostFn_t function;
  void *data;
} HostCall;

static void run_host_call(Work *work) {
  HostCall *call = work->owned;
  call->function(call->data);
}

API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
  Work *work = new_work(run_host_call, NO_ENGINE, 0, "host");
  HostCall *call = work->owned = zeroed(sizeof *call);
  *call = (HostCall){function, data};
  enqueue(stream_of(stream), work);
  return cudaSuccess;
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
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
} configuration;

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  configuration.grid = grid, configuration.block = block, configuration.shared = shared, configuration.stream = stream;
  return 0;
}

API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  *grid = configuration.grid, *block = configuration.block, *shared = configuration.shared;
  *(cudaStream_t *)stream = configuration.stream;
  return cudaSuccess;
}

API cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream) {
  (void)grid, (void)block, (void)shared;
  const char *name = name_of(function);
  Work *work = kernel_work(name, args);
  if (!work) {
    fprintf(stderr, "softcuda: it has no kernel %s\n", name);
    return answer(cudaErrorNotSupported);
  }
  enqueue(stream_of(stream), work);
  return cudaSuccess;
}

API cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
  return *kernel = (cudaKernel_t)function, cudaSuccess;
}

API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel((const void *)kernel, grid, block, args, shared, stream);
}

API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **args) {
  return cudaLaunchKernel(function, config->gridDim, config->blockDim, args, config->dynamicSmemBytes, config->stream);
}

API cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
                                            cudaStream_t stream) {
  return cudaLaunchKernel(function, grid, block, args, shared, stream);
}

API cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function) {
  (void)function;
  memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = 1024, attributes->binaryVersion = attributes->ptxVersion = 90, attributes->numRegs = 32;
  return cudaSuccess;
}

API cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value) {
  return (void)function, (void)attribute, (void)value, cudaSuccess; /* hints of sizes, which nothing here depends on */
}

API cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attribute, int value, int device) {
  return (void)kernel, (void)attribute, (void)value, (void)device, cudaSuccess;
}

API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int size, size_t shared,
                                                                       unsigned int flags) {
  return (void)function, (void)size, (void)shared, (void)flags, *blocks = 1, cudaSuccess;
}

API cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *options, void **values,
                                    unsigned int count, enum cudaLibraryOption *library_options, void **library_values,
                                    unsigned int library_count) {
  (void)library, (void)code, (void)options, (void)values, (void)count, (void)library_options, (void)library_values;
  return (void)library_count, unsupported("cudaLibraryLoadData");
}
API cudaError_t cudaLibraryUnload(cudaLibrary_t library) { return (void)library, unsupported("cudaLibraryUnload"); }
API cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
  return (void)kernel, (void)library, (void)name, unsupported("cudaLibraryGetKernel");
}
API cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int version,
                                                 unsigned long long flags, enum cudaDriverEntryPointQueryResult *status) {
  (void)version, (void)flags;
  *function = NULL;
  if (status) *status = cudaDriverEntryPointSymbolNotFound;
  return unsupported(symbol);
}
API int cuTensorMapEncodeTiled(void) { return unsupported("cuTensorMapEncodeTiled"); }

/* ---- cuBLAS; its headers are in a package of 400 MB, its calls are few ---- */

enum { CUBLAS_OK = 0, CUBLAS_NOT_SUPPORTED = 15 };

typedef struct {
  cudaStream_t stream;
  int math_mode;
} Blas;

static int blas_unsupported(const char *call) {
  unsupported(call);
  return CUBLAS_NOT_SUPPORTED;
}

API int cublasCreate_v2(Blas **handle) { return *handle = zeroed(sizeof **handle), CUBLAS_OK; }
API int cublasDestroy_v2(Blas *handle) { return free(handle), CUBLAS_OK; }
API int cublasSetStream_v2(Blas *handle, cudaStream_t stream) { return handle->stream = stream, CUBLAS_OK; }
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
