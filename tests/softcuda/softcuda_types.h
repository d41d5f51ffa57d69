/* The types and numbers of CUDA 13's runtime API that are in its binary interface, as its documentation lists them:
 * https://docs.nvidia.com/cuda/cuda-runtime-api/ . Nothing of a toolkit is needed to compile. */
#ifndef SOFTCUDA_TYPES_H
#define SOFTCUDA_TYPES_H

#include <stddef.h>

enum { RUNTIME_VERSION = 13000 };

typedef enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  INVALID_DEVICE = 101,
  NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901,
} Error; /* cudaError_t */

enum { NON_BLOCKING = 1 };                    /* of cudaStreamCreateWithFlags */
enum { UNREGISTERED = 0, HOST = 1, DEVICE = 2 }; /* cudaMemoryType */
enum { NOT_CAPTURING = 0, CAPTURING = 1 };    /* cudaStreamCaptureStatus */
enum { RELEASE_THRESHOLD = 4 };               /* cudaMemPoolAttr */
enum { SYMBOL_NOT_FOUND = 1 };                /* cudaDriverEntryPointQueryResult */

/* cudaDeviceAttr */
enum {
  THREADS_PER_BLOCK = 1,
  GRID_X = 5,
  GRID_Y = 6,
  SHARED_PER_BLOCK = 8,
  WARP_SIZE = 10,
  MULTIPROCESSORS = 16,
  INTEGRATED = 18,
  MAPS_HOST_MEMORY = 19,
  L2_BYTES = 38,
  UNIFIED_ADDRESSING = 41,
  CAPABILITY_MAJOR = 75,
  CAPABILITY_MINOR = 76,
  SHARED_PER_MULTIPROCESSOR = 81,
  COOPERATIVE_LAUNCH = 95,
  SHARED_PER_BLOCK_OPT_IN = 97,
  MEMORY_POOLS = 115,
};

typedef struct {
  char name[256], uuid[16], luid[8];
  unsigned luid_mask;
  size_t memory, shared_per_block;
  int registers_per_block, warp_size;
  size_t pitch;
  int threads_per_block, block[3], grid[3];
  size_t constants;
  int major, minor;
  size_t texture_alignment, texture_pitch_alignment;
  int multiprocessors, integrated, maps_host_memory;
  int sizes_of_textures_and_surfaces[39];
  size_t surface_alignment;
  int concurrent_kernels, ecc, pci_bus, pci_device, pci_domain, tcc, copy_engines, unified_addressing, bus_width;
  int l2_bytes, l2_persisting_bytes, threads_per_multiprocessor, priorities, l1_global, l1_local;
  size_t shared_per_multiprocessor;
  int registers_per_multiprocessor, managed_memory_and_boards[8], cooperative_launch;
  size_t shared_per_block_opt_in;
  int page_tables_and_blocks[4];
  size_t reserved_shared_per_block;
  int others[76];
} DeviceProperties; /* cudaDeviceProp */

typedef struct {
  int type, device;
  void *device_pointer, *host_pointer;
  long reserved[8];
} PointerAttributes; /* cudaPointerAttributes */

typedef struct {
  size_t shared_bytes, constant_bytes, local_bytes;
  int threads_per_block, registers, ptx_version, binary_version;
  int others[26];
} FunctionAttributes; /* cudaFuncAttributes */

typedef struct {
  unsigned x, y, z;
} Dimensions; /* dim3 */

typedef struct {
  Dimensions grid, block;
  size_t shared;
  void *stream;
} LaunchConfiguration; /* cudaLaunchConfig_t, to where it is read */

#endif
