/* A library of custom operators, without ONNX Runtime's headers: `Twice` of the domain `ortbench.tests` doubles floats.
 *
 * ONNX Runtime's C API is a table of function pointers that only grows at its end, so it is an array here; the struct of an
 * operator says which version it is of, and what came later is not read.
 */
#include <stddef.h>
#include <stdint.h>

typedef void (*Fn)(void);
typedef void Status; /* OrtStatus; NULL means success */

typedef struct {
  const Fn *(*get_api)(uint32_t version);
} ApiBase;

enum { /* OrtApi */
  CREATE_CUSTOM_OP_DOMAIN = 26,
  CUSTOM_OP_DOMAIN_ADD = 27,
  ADD_CUSTOM_OP_DOMAIN = 28,
  GET_TENSOR_MUTABLE_DATA = 51,
  GET_DIMENSIONS_COUNT = 61,
  GET_DIMENSIONS = 62,
  GET_TENSOR_TYPE_AND_SHAPE = 65,
  KERNEL_CONTEXT_GET_INPUT = 90,
  KERNEL_CONTEXT_GET_OUTPUT = 91,
  RELEASE_TENSOR_TYPE_AND_SHAPE = 99,
};
enum { VERSION = 10, FLOAT = 1, MOST_DIMENSIONS = 8 };

static const Fn *api;

static void *create(const void *op, const Fn *given, const void *info) {
  (void)op, (void)info;
  api = given;
  return (void *)&api;
}
static const char *name(const void *op) { return (void)op, "Twice"; }
static const char *provider(const void *op) { return (void)op, NULL; } /* the CPU's */
static int type(const void *op, size_t at) { return (void)op, (void)at, FLOAT; }
static size_t count(const void *op) { return (void)op, 1; }
static int required(const void *op, size_t at) { return (void)op, (void)at, 0; }
static void destroy(void *kernel) { (void)kernel; }

static void compute(void *kernel, void *context) {
  const void *in;
  void *shape, *out;
  const float *from;
  float *to;
  size_t rank, size = 1;
  int64_t dimensions[MOST_DIMENSIONS];
  (void)kernel;
  ((Status * (*)(const void *, size_t, const void **)) api[KERNEL_CONTEXT_GET_INPUT])(context, 0, &in);
  ((Status * (*)(const void *, void **)) api[GET_TENSOR_TYPE_AND_SHAPE])(in, &shape);
  ((Status * (*)(const void *, size_t *)) api[GET_DIMENSIONS_COUNT])(shape, &rank);
  ((Status * (*)(const void *, int64_t *, size_t)) api[GET_DIMENSIONS])(shape, dimensions, rank);
  ((void (*)(void *))api[RELEASE_TENSOR_TYPE_AND_SHAPE])(shape);
  ((Status * (*)(void *, size_t, const int64_t *, size_t, void **)) api[KERNEL_CONTEXT_GET_OUTPUT])(
      context, 0, dimensions, rank, &out);
  ((Status * (*)(const void *, const float **)) api[GET_TENSOR_MUTABLE_DATA])(in, &from);
  ((Status * (*)(void *, float **)) api[GET_TENSOR_MUTABLE_DATA])(out, &to);
  for (size_t at = 0; at < rank; at++) size *= (size_t)dimensions[at];
  for (size_t at = 0; at < size; at++) to[at] = 2 * from[at];
}

static const struct {
  uint32_t version;
  void *(*create)(const void *, const Fn *, const void *);
  const char *(*name)(const void *);
  const char *(*provider)(const void *);
  int (*input_type)(const void *, size_t);
  size_t (*inputs)(const void *);
  int (*output_type)(const void *, size_t);
  size_t (*outputs)(const void *);
  void (*compute)(void *, void *);
  void (*destroy)(void *);
  int (*input_characteristic)(const void *, size_t);
  int (*output_characteristic)(const void *, size_t);
} twice = {VERSION, create, name, provider, type, count, type, count, compute, destroy, required, required};

Status *RegisterCustomOps(void *options, const ApiBase *base) {
  static void *domain; /* as long as the library */
  const Fn *own = base->get_api(VERSION);
  Status *failed = NULL;
  if (domain == NULL) {
    failed = ((Status * (*)(const char *, void **)) own[CREATE_CUSTOM_OP_DOMAIN])("ortbench.tests", &domain);
    if (failed == NULL) failed = ((Status * (*)(void *, const void *)) own[CUSTOM_OP_DOMAIN_ADD])(domain, &twice);
  }
  return failed != NULL ? failed : ((Status * (*)(void *, void *)) own[ADD_CUSTOM_OP_DOMAIN])(options, domain);
}
