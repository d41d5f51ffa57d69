/* What comes with NVIDIA's driver: the few calls of libcuda that execution providers make, and libnvidia-ml (NVML) as far as
 * the package nvidia-ml-py is asked for it. Declared by hand, as both have headers of their own that need a toolkit.
 * https://docs.nvidia.com/deploy/nvml-api/
 */
#ifndef SOFTCUDA_DRIVER_H
#define SOFTCUDA_DRIVER_H

#include "softcuda_device.h"

#define API __attribute__((visibility("default")))

enum { CU_OK = 0, CU_NOT_SUPPORTED = 801 };
static char the_context[1];

API int cuInit(unsigned flags) { return (void)flags, CU_OK; }
API int cuCtxGetCurrent(void **context) { return *context = the_context, CU_OK; }
API int cuCtxSetCurrent(void *context) { return (void)context, CU_OK; }
API int cuCtxPushCurrent_v2(void *context) { return (void)context, CU_OK; }
API int cuCtxPopCurrent_v2(void **context) { return *context = the_context, CU_OK; }
API int cuStreamGetCtx(void *stream, void **context) { return (void)stream, *context = the_context, CU_OK; }
API int cuGetErrorString(int error, const char **text) { return *text = error ? "not supported" : "no error", CU_OK; }

#define NO_DRIVER(name) \
  API int name(void) { return fprintf(stderr, "softcuda: " #name " is not supported\n"), CU_NOT_SUPPORTED; }
NO_DRIVER(cuCtxCreate_v4)
NO_DRIVER(cuCtxDestroy_v2)
NO_DRIVER(cuDestroyExternalMemory)
NO_DRIVER(cuDestroyExternalSemaphore)
NO_DRIVER(cuExternalMemoryGetMappedBuffer)
NO_DRIVER(cuImportExternalMemory)
NO_DRIVER(cuImportExternalSemaphore)
NO_DRIVER(cuSignalExternalSemaphoresAsync)
NO_DRIVER(cuTensorMapEncodeTiled)
NO_DRIVER(cuWaitExternalSemaphoresAsync)

enum { NVML_OK = 0, NVML_INVALID_ARGUMENT = 2, NVML_NOT_SUPPORTED = 3, NVML_NO_PERMISSION = 4, NVML_INSUFFICIENT_SIZE = 7 };
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, SM_MHZ_MAX = 1500, MEMORY_MHZ = 2000 };

typedef struct {
  unsigned long long total, free, used;
} NvmlMemory;

API int nvmlInitWithFlags(unsigned flags) { return (void)flags, NVML_OK; }
API int nvmlInit_v2(void) { return NVML_OK; }
API int nvmlShutdown(void) { return NVML_OK; }
API const char *nvmlErrorString(int error) {
  switch (error) {
    case NVML_OK: return "Success";
    case NVML_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_NO_PERMISSION: return "Insufficient Permissions";
    default: return "Not Supported";
  }
}
API int nvmlDeviceGetCount_v2(unsigned *count) { return *count = 1, NVML_OK; }

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
  *device = the_context;
  return index ? NVML_INVALID_ARGUMENT : NVML_OK;
}

API int nvmlSystemGetDriverVersion(char *text, unsigned size) { return snprintf(text, size, "999.99"), NVML_OK; }
API int nvmlSystemGetCudaDriverVersion_v2(int *version) { return *version = 13000, NVML_OK; }
API int nvmlDeviceGetName(void *device, char *text, unsigned size) {
  return (void)device, snprintf(text, size, "softcuda (no GPU)"), NVML_OK;
}

API int nvmlDeviceGetMemoryInfo(void *device, NvmlMemory *memory) {
  (void)device;
  open_device();
  memory->total = (unsigned long long)(memory_gb * 1e9);
  memory->used = used_by_all();
  memory->free = memory->total - memory->used;
  return NVML_OK;
}

typedef struct { /* nvmlProcessInfo_t */
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
} NvmlProcess;

/* The processes that hold memory; with SOFTCUDA_PROCESSES=0 as on a card that does not tell. */
API int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, NvmlProcess *found) {
  (void)device;
  open_device();
  const char *told = getenv("SOFTCUDA_PROCESSES");
  if (!users || (told && *told == '0')) return NVML_NOT_SUPPORTED;
  unsigned space = *count;
  *count = 0;
  for (User *user = users; user < users + USERS; user++) {
    if (!is_running(user)) continue;
    if (*count < space) found[*count] = (NvmlProcess){(unsigned)user->pid, (unsigned long long)user->bytes, ~0u, ~0u};
    ++*count;
  }
  return *count > space ? NVML_INSUFFICIENT_SIZE : NVML_OK;
}

API int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, NvmlProcess *found) {
  return (void)device, (void)found, *count = 0, NVML_OK;
}

API int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz) {
  *mhz = clock == CLOCK_MEMORY ? MEMORY_MHZ : sm_mhz();
  return (void)device, clock == CLOCK_SM || clock == CLOCK_MEMORY ? NVML_OK : NVML_INVALID_ARGUMENT;
}

API int nvmlDeviceGetMaxClockInfo(void *device, int clock, unsigned *mhz) {
  *mhz = clock == CLOCK_SM ? SM_MHZ_MAX : MEMORY_MHZ;
  return (void)device, NVML_OK;
}

/* Off with SOFTCUDA_PERSISTENCE=0. */
API int nvmlDeviceGetPersistenceMode(void *device, int *mode) {
  const char *text = getenv("SOFTCUDA_PERSISTENCE");
  return (void)device, *mode = !(text && *text == '0'), NVML_OK;
}

/* SOFTCUDA_POWER_LIMIT_W, or what it is by default. */
enum { POWER_W = 350 };
API int nvmlDeviceGetPowerManagementDefaultLimit(void *device, unsigned *milliwatts) {
  return (void)device, *milliwatts = POWER_W * 1000, NVML_OK;
}
API int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts) {
  const char *text = getenv("SOFTCUDA_POWER_LIMIT_W");
  return (void)device, *milliwatts = 1000 * (text ? (unsigned)strtoul(text, NULL, 10) : POWER_W), NVML_OK;
}

API int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) {
  return (void)device, (void)sensor, *celsius = 40, NVML_OK;
}
API int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
  Card *card = open_card();
  return (void)device, *milliwatts = card ? (unsigned)mean_milliwatts(card) : 75500, NVML_OK;
}

/* What the card has drawn since it was started. */
API int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
  Card *card = open_card();
  (void)device;
  if (!card || !card->counter) return NVML_NOT_SUPPORTED;
  return *millijoules = (unsigned long long)drawn_millijoules(card), NVML_OK;
}

/* Clocks are locked where there is a file of the card, as if by root; else nobody may. */
enum { LIMIT_TDP = 0xffffff01, BASE_MHZ = 900 };
API int nvmlDeviceSetGpuLockedClocks(void *device, unsigned least, unsigned most) {
  Card *card = open_card();
  (void)device;
  if (!card) return NVML_NO_PERMISSION;
  if (least == LIMIT_TDP && most == LIMIT_TDP) least = most = BASE_MHZ;
  if (least > most || most > SM_MHZ_MAX) return NVML_INVALID_ARGUMENT;
  return atomic_store(&card->locked_mhz, most), NVML_OK;
}
API int nvmlDeviceResetGpuLockedClocks(void *device) {
  Card *card = open_card();
  (void)device;
  if (!card) return NVML_NO_PERMISSION;
  return atomic_store(&card->locked_mhz, 0), NVML_OK;
}

/* Why clocks are what they are: the bits in SOFTCUDA_SLOWED, 0 without; with SOFTCUDA_SLOWED_UNTIL_S only for so many seconds
 * after the first time that it is asked. */
API int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
  static _Atomic int64_t first;
  int64_t unset = 0, now = now_ns();
  atomic_compare_exchange_strong(&first, &unset, now);
  const char *bits = getenv("SOFTCUDA_SLOWED"), *until = getenv("SOFTCUDA_SLOWED_UNTIL_S");
  bool over = until && now - first >= strtod(until, NULL) * 1e9;
  return (void)device, *reasons = bits && !over ? strtoull(bits, NULL, 0) : 0, NVML_OK;
}

#endif
