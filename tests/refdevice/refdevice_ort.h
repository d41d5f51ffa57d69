/* ONNX Runtime's C API without its headers: tables of function pointers that only grow at their ends, so that a table
 * is an array, and these are the places in it. Seen to work with ONNX Runtime 1.31.
 */
#ifndef REFDEVICE_ORT_H
#define REFDEVICE_ORT_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

typedef void (*Fn)(void);
typedef void Status; /* OrtStatus; NULL means success */

enum { /* OrtApi */
  CREATE_STATUS = 0,
  CAST_TYPE_INFO_TO_TENSOR_INFO = 55,
  GET_TENSOR_ELEMENT_TYPE = 60,
  GET_DIMENSIONS_COUNT = 61,
  KERNEL_CONTEXT_GET_INPUT = 90,
  KERNEL_CONTEXT_GET_OUTPUT = 91,
  RELEASE_STATUS = 93,
  RELEASE_MEMORY_INFO = 94,
  CREATE_OP_ATTR = 211,
  RELEASE_OP_ATTR = 212,
  READ_OP_ATTR = 272,
  GET_VALUE_INFO_NAME = 289,
  GET_VALUE_INFO_TYPE_INFO = 290,
  GET_MODEL_EDITOR_API = 291,
  CREATE_KEY_VALUE_PAIRS = 295,
  ADD_KEY_VALUE_PAIR = 296,
  GET_KEY_VALUE = 297,
  GET_KEY_VALUE_PAIRS = 298,
  RELEASE_KEY_VALUE_PAIRS = 300,
  GET_EP_API = 317,
  GET_TENSOR_SIZE_IN_BYTES = 318,
  CREATE_MEMORY_INFO_V2 = 320,
  MEMORY_INFO_GET_DEVICE_MEM_TYPE = 321,
  VALUE_INFO_GET_INITIALIZER_VALUE = 326,
  VALUE_INFO_IS_CONSTANT_INITIALIZER = 331,
  GRAPH_GET_MODEL_PATH = 334,
  GRAPH_GET_NUM_NODES = 344,
  GRAPH_GET_NODES = 345,
  NODE_GET_NAME = 349,
  NODE_GET_OPERATOR_TYPE = 350,
  NODE_GET_DOMAIN = 351,
  NODE_GET_SINCE_VERSION = 352,
  NODE_GET_NUM_INPUTS = 353,
  NODE_GET_INPUTS = 354,
  NODE_GET_NUM_OUTPUTS = 355,
  NODE_GET_OUTPUTS = 356,
  NODE_GET_ATTRIBUTE_BY_NAME = 361,
  GET_TENSOR_DATA = 378,
  GET_SESSION_OPTIONS_CONFIG_ENTRIES = 379,
  GET_TENSOR_TYPE_AND_SHAPE_REFERENCE = 414,
  KERNEL_CONTEXT_GET_PREALLOCATED_OUTPUT = 425,
};
enum { /* OrtEpApi */
  CREATE_EP_DEVICE = 0,
  GRAPH_SUPPORT_ADD_NODES_TO_FUSE = 2,
  EP_DEVICE_ADD_ALLOCATOR_INFO = 5,
  MEMORY_INFO_GET_MEMORY_DEVICE = 6,
  MEMORY_DEVICE_GET_DEVICE_TYPE = 9,
  MEMORY_DEVICE_GET_VENDOR_ID = 11,
  MEMORY_DEVICE_GET_MEMORY_TYPE = 10,
  MEMORY_DEVICE_GET_DEVICE_ID = 12,
  SYNC_STREAM_GET_IMPL = 13,
  CREATE_HARDWARE_DEVICE = 16,
  RELEASE_HARDWARE_DEVICE = 17,
};
enum { CREATE_NODE = 6 }; /* OrtModelEditorApi */
enum { /* OrtEp */
  EP_GET_NAME = 0,
  EP_GET_CAPABILITY = 1,
  EP_COMPILE = 2,
  EP_RELEASE_NODE_COMPUTE_INFOS = 3,
  EP_ON_RUN_START = 7,
  EP_ON_RUN_END = 8,
  EP_CREATE_SYNC_STREAM = 10,
  EP_SYNC = 14,
  EP_GET_DEFAULT_MEMORY_DEVICE = 22,
};
enum { /* OrtEpFactory */
  FACTORY_GET_NAME = 0,
  FACTORY_GET_VENDOR = 1,
  FACTORY_GET_SUPPORTED_DEVICES = 2,
  FACTORY_CREATE_EP = 3,
  FACTORY_RELEASE_EP = 4,
  FACTORY_GET_VENDOR_ID = 5,
  FACTORY_GET_VERSION = 6,
  FACTORY_CREATE_ALLOCATOR = 8,
  FACTORY_RELEASE_ALLOCATOR = 9,
  FACTORY_CREATE_DATA_TRANSFER = 10,
  FACTORY_IS_STREAM_AWARE = 11,
  FACTORY_CREATE_SYNC_STREAM = 12,
};
enum { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2 };
enum { TYPE_FLOAT = 1, TYPE_INT32 = 6, TYPE_INT64 = 7 };                /* ONNXTensorElementDataType */
enum { ATTR_INT = 1, ATTR_INTS = 2, ATTR_FLOAT = 3, ATTR_STRING = 5 }; /* OrtOpAttrType */
enum { DEVICE_CPU = 0, DEVICE_GPU = 1 };                 /* OrtMemoryInfoDeviceType */
enum { HARDWARE_CPU = 0, HARDWARE_GPU = 1 };             /* OrtHardwareDeviceType */
enum { ORT_MEMORY_DEFAULT = 0, ORT_MEMORY_HOST_ACCESSIBLE = 5 };
enum { API_VERSION = 25, API_VERSION_WITHOUT_SYNC = 24 }; /* OrtEp::Sync came with 25 */
enum { API_VERSION_WITH_DEFAULT_MEMORY_DEVICE = 27 };     /* and OrtEp::GetDefaultMemoryDevice with 27 */
enum { API_VERSION_WITH_PREALLOCATED_OUTPUT = 30 };
enum { TABLE_SLOTS = 48 }; /* longer than any table ORT may read from us; slots not filled are NULL */

#ifndef VENDOR_ID
#define VENDOR_ID 0x0B0Bu
#endif
#ifndef EP_NAME /* another one makes its EP one of somebody else's name */
#define EP_NAME DEVICE_NAME "ExecutionProvider"
#endif
#ifndef EP_VERSION
#define EP_VERSION "1.0.0"
#endif

static const Fn *ort, *ort_ep;
#define API(slot, ...) ((Status * (*)(__VA_ARGS__)) ort[slot])
#define EP_API(slot, result, ...) ((result(*)(__VA_ARGS__))ort_ep[slot])
#define TRY(call)                    \
  do {                               \
    Status *status_ = (call);        \
    if (status_) return status_;     \
  } while (0)

typedef struct { /* every object an EP hands to ORT: a version, then functions */
  uint32_t version;
  Fn call[TABLE_SLOTS];
} Table;

__attribute__((format(printf, 1, 2))) static Status *fail(const char *format, ...) {
  char message[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return API(CREATE_STATUS, int, const char *)(ORT_FAIL, message);
}

/* ONNX Runtime does not notice when an allocation fails: it makes a tensor without memory, and passes it on. */
static Status *no_memory(void) { return fail("a tensor has no memory: its allocation on the reference device failed"); }

static void release_status(Status *status) { ((void (*)(Status *))ort[RELEASE_STATUS])(status); }

#endif
