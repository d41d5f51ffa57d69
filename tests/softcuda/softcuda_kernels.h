/* The kernels of ONNX Runtime's CUDA EP that the device knows, by their (mangled) names, and cuBLAS's matrix products. Their
 * arguments are those that the names spell out. What is not here fails by name when it is launched: nothing is made up.
 */
#ifndef SOFTCUDA_KERNELS_H
#define SOFTCUDA_KERNELS_H

#include <math.h>

#include "softcuda_device.h"

typedef struct {
  int32_t size;
  int64_t of[8];
} Strides; /* TArray<int64_t, 8> */

typedef struct {
  int32_t divisor;
  uint32_t multiplier, shift;
} DivMod; /* DivMod<int> */

typedef struct {
  int32_t size;
  DivMod of[8];
} DivMods; /* TArray<DivMod<int>, 8> */

typedef enum { RELU, SIGMOID, TANH, ADD, SUBTRACT, MULTIPLY, DIVIDE, CLIP, COPY, SOFTMAX } Operation;

/* One row of elements after the other: `left` and `right` advance by their steps, which are 0 where one value serves all. */
typedef struct {
  Operation operation;
  bool half;
  void *out;
  const void *left, *right;
  int64_t count, row; /* elements in all, and in a row: what is done with one instruction after the other */
  int left_step, right_step;
  int64_t channels; /* with `per_channel`, right is one value a row, and starts again after so many rows */
  bool per_channel;
  int32_t rank; /* with a rank, the strides say where a row begins */
  Strides left_strides, right_strides;
  DivMods out_strides;
  float low, high;
  const float *low_at, *high_at;
  int32_t stride;
} Elements;

#define ROW(type, expression)                                         \
  for (int64_t i = 0; i < n; i++) {                                   \
    float x = (float)((const type *)left)[i * left_step];             \
    float y = (float)((const type *)right)[i * right_step];           \
    (void)y;                                                          \
    ((type *)out)[i] = (type)(expression);                            \
  }                                                                   \
  return
#define ROWS(type)                                                                                     \
  static void type##_row(const Elements *e, type *out, const type *left, const type *right, int64_t n) { \
    int left_step = e->left_step, right_step = e->right_step;                                          \
    float low = e->low, high = e->high;                                                                \
    switch (e->operation) {                                                                            \
      case RELU: ROW(type, x > 0 ? x : 0);                                                             \
      case SIGMOID: ROW(type, 1 / (1 + expf(-x)));                                                     \
      case TANH: ROW(type, tanhf(x));                                                                  \
      case ADD: ROW(type, x + y);                                                                      \
      case SUBTRACT: ROW(type, x - y);                                                                 \
      case MULTIPLY: ROW(type, x * y);                                                                 \
      case DIVIDE: ROW(type, x / y);                                                                   \
      case CLIP: ROW(type, x < low ? low : x > high ? high : x);                                       \
      case COPY: ROW(type, x);                                                                         \
      default: abort();                                                                                \
    }                                                                                                  \
  }
typedef _Float16 Half;
ROWS(float)
ROWS(Half)

static void run_elements(Work *work) {
  Elements *e = work->owned;
  if (e->low_at) e->low = *(const float *)bytes_at(e->low_at);
  if (e->high_at) e->high = *(const float *)bytes_at(e->high_at);
  size_t size = e->half ? sizeof(Half) : sizeof(float);
  for (int64_t begin = 0; begin < e->count; begin += e->row) {
    int64_t left = e->left_step ? begin : 0, right = e->right_step ? begin : 0, rest = begin;
    if (e->per_channel) right = begin / e->row % e->channels;
    for (int32_t d = 0; d < e->rank; d++) {
      if (d == 0) left = right = 0;
      left += rest / e->out_strides.of[d].divisor * e->left_strides.of[d];
      right += rest / e->out_strides.of[d].divisor * e->right_strides.of[d];
      rest %= e->out_strides.of[d].divisor;
    }
    char *out = (char *)bytes_at(e->out) + begin * size;
    const char *l = (const char *)bytes_at(e->left) + left * size;
    const char *r = e->right ? (const char *)bytes_at(e->right) + right * size : l;
    int64_t n = e->row < e->count - begin ? e->row : e->count - begin;
    if (e->half)
      Half_row(e, (Half *)out, (const Half *)l, (const Half *)r, n);
    else
      float_row(e, (float *)out, (const float *)l, (const float *)r, n);
  }
}

static void run_softmax(Work *work) {
  const Elements *e = work->owned;
  for (int64_t begin = 0; begin < e->count; begin += e->stride) {
    const float *in = (const float *)bytes_at(e->left) + begin;
    float *out = (float *)bytes_at(e->out) + begin, largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < e->row; i++) largest = fmaxf(largest, in[i]);
    for (int64_t i = 0; i < e->row; i++) sum += out[i] = expf(in[i] - largest);
    for (int64_t i = 0; i < e->row; i++) out[i] /= sum;
  }
}

/* ---- arguments: `args[i]` points to argument i ---- */

#define ARGUMENT(type, i) (*(type *)args[i])

/* Counts are int in one variant of a kernel and long in the other, which its name says. */
static int64_t count_argument(const char *name, void **args, int i) {
  return strstr(name, "Li4EiEE") ? ARGUMENT(int32_t, i) : ARGUMENT(int64_t, i);
}

static void read_unary(const char *name, void **args, Elements *e) {
  (void)name;
  e->left = ARGUMENT(void *, 0), e->out = ARGUMENT(void *, 1), e->row = e->count = ARGUMENT(int64_t, 3);
  e->left_step = 1;
}

static void read_simple(const char *name, void **args, Elements *e) {
  e->left_step = strstr(name, "SimpleILb1E") != NULL;
  e->right_step = strstr(name, "ELb1Efff") || strstr(name, "ELb1E6__half");
  e->left = ARGUMENT(void *, 0), e->right = ARGUMENT(void *, 1), e->out = ARGUMENT(void *, 2);
  e->row = e->count = count_argument(name, args, 4);
}

static void read_per_channel(const char *name, void **args, Elements *e) {
  bool batches = strstr(name, "BatchN") != NULL;
  e->per_channel = true, e->left_step = 1;
  e->left = ARGUMENT(void *, 0), e->right = ARGUMENT(void *, 1), e->row = ARGUMENT(DivMod, 2).divisor;
  e->channels = batches ? ARGUMENT(DivMod, 3).divisor : INT64_MAX;
  e->out = ARGUMENT(void *, batches ? 4 : 3);
  e->count = count_argument(name, args, batches ? 6 : 5);
}

static void read_broadcast(const char *name, void **args, Elements *e) {
  e->rank = ARGUMENT(int32_t, 0), e->left_strides = ARGUMENT(Strides, 1), e->left = ARGUMENT(void *, 2);
  e->right_strides = ARGUMENT(Strides, 3), e->right = ARGUMENT(void *, 4), e->out_strides = ARGUMENT(DivMods, 5);
  e->out = ARGUMENT(void *, 6), e->count = count_argument(name, args, 8);
  /* A side that is not broadcast, which the name's two flags say, has no strides: they are those of the output. */
  const char *flags = strstr(name, "EELb") + strlen("EELb");
  for (int32_t d = 0; d < e->rank; d++) {
    if (flags[0] == '0') e->left_strides.of[d] = e->out_strides.of[d].divisor;
    if (flags[strlen("0ELb")] == '0') e->right_strides.of[d] = e->out_strides.of[d].divisor;
  }
  e->row = e->rank > 1 ? e->out_strides.of[e->rank - 2].divisor : e->count;
  e->left_step = e->left_strides.of[e->rank - 1] != 0, e->right_step = e->right_strides.of[e->rank - 1] != 0;
}

static void read_clip(const char *name, void **args, Elements *e) {
  (void)name;
  e->left = ARGUMENT(void *, 0), e->out = ARGUMENT(void *, 1), e->left_step = 1;
  e->low_at = ARGUMENT(float *, 2), e->high_at = ARGUMENT(float *, 3);
  e->low = ARGUMENT(float, 4), e->high = ARGUMENT(float, 5), e->row = e->count = ARGUMENT(int64_t, 6);
}

/* The bias of a Gemm, for every element of its output, before the product is added to it. */
static void read_bias(const char *name, void **args, Elements *e) {
  (void)name;
  e->left = ARGUMENT(void *, 0), e->out = ARGUMENT(void *, 1), e->count = ARGUMENT(int64_t, 2);
  e->row = ARGUMENT(DivMod, 3).divisor, e->rank = 2;
  e->out_strides.of[0].divisor = (int32_t)e->row, e->out_strides.of[1].divisor = 1;
  e->left_strides.of[0] = ARGUMENT(int32_t, 4), e->left_strides.of[1] = e->left_step = ARGUMENT(int32_t, 5);
}

static void read_softmax(const char *name, void **args, Elements *e) {
  (void)name;
  e->out = ARGUMENT(void *, 0), e->left = ARGUMENT(void *, 1), e->stride = ARGUMENT(int32_t, 3);
  e->row = ARGUMENT(int32_t, 4), e->count = (int64_t)ARGUMENT(int32_t, 2) * e->stride;
}

static const struct {
  const char *begins, *operator_name;
  void (*read)(const char *, void **, Elements *);
  Operation operation;
} known_kernels[] = {
    {"_UnaryElementWiseI", "OP_Relu", read_unary, RELU},
    {"_UnaryElementWiseI", "OP_Sigmoid", read_unary, SIGMOID},
    {"_UnaryElementWiseI", "OP_Tanh", read_unary, TANH},
    {"_BinaryElementWiseSimpleI", "OP_Add", read_simple, ADD},
    {"_BinaryElementWiseSimpleI", "OP_Sub", read_simple, SUBTRACT},
    {"_BinaryElementWiseSimpleI", "OP_Mul", read_simple, MULTIPLY},
    {"_BinaryElementWiseSimpleI", "OP_Div", read_simple, DIVIDE},
    {"_BinaryElementWiseRhsPerChannelBatch", "OP_Add", read_per_channel, ADD},
    {"_BinaryElementWiseRhsPerChannelBatch", "OP_Sub", read_per_channel, SUBTRACT},
    {"_BinaryElementWiseRhsPerChannelBatch", "OP_Mul", read_per_channel, MULTIPLY},
    {"_BinaryElementWiseI", "OP_Add", read_broadcast, ADD},
    {"_BinaryElementWiseI", "OP_Sub", read_broadcast, SUBTRACT},
    {"_BinaryElementWiseI", "OP_Mul", read_broadcast, MULTIPLY},
    {"5_ClipIf", "", read_clip, CLIP},
    {"BroadcastBiasKernelI", "iLb0E", read_bias, COPY},
    {"softmax_warp_forwardIfff", "Lb0E", read_softmax, SOFTMAX},
};

/* The work of a launch, or NULL where the kernel is not known. */
static Work *kernel_work(const char *name, void **args) {
  bool half = strstr(name, "I6__half") || strstr(name, "E6__half");
  if (!half && !strstr(name, "If") && !strstr(name, "Efff")) return NULL;
  for (size_t i = 0; i < sizeof known_kernels / sizeof *known_kernels; i++) {
    if (!strstr(name, known_kernels[i].begins) || !strstr(name, known_kernels[i].operator_name)) continue;
    Elements *e = zeroed(sizeof *e);
    e->operation = known_kernels[i].operation, e->half = half;
    known_kernels[i].read(name, args, e);
    Work *work = new_work(e->operation == SOFTMAX ? run_softmax : run_elements, COMPUTE, (int64_t)(kernel_us * 1000), name);
    work->owned = e;
    return work;
  }
  return NULL;
}

/* ---- cuBLAS: column-major, C = alpha op(A) op(B) + beta C ---- */

typedef struct {
  bool a_transposed, b_transposed, half;
  int m, n, k, lda, ldb, ldc, batches;
  long long a_step, b_step, c_step;
  float alpha, beta;
  const void *a, *b;
  void *c;
} Product;

static float element(const void *at, int64_t i, bool half) {
  return half ? (float)((const Half *)bytes_at(at))[i] : ((const float *)bytes_at(at))[i];
}

static void run_product(Work *work) {
  const Product *p = work->owned;
  for (int batch = 0; batch < p->batches; batch++)
    for (int column = 0; column < p->n; column++)
      for (int row = 0; row < p->m; row++) {
        float sum = 0;
        for (int i = 0; i < p->k; i++) {
          int64_t a = batch * p->a_step + (p->a_transposed ? i + (int64_t)row * p->lda : row + (int64_t)i * p->lda);
          int64_t b = batch * p->b_step + (p->b_transposed ? column + (int64_t)i * p->ldb : i + (int64_t)column * p->ldb);
          sum += element(p->a, a, p->half) * element(p->b, b, p->half);
        }
        int64_t at = batch * p->c_step + row + (int64_t)column * p->ldc;
        float value = p->alpha * sum + (p->beta ? p->beta * element(p->c, at, p->half) : 0);
        if (p->half)
          ((Half *)bytes_at(p->c))[at] = (Half)value;
        else
          ((float *)bytes_at(p->c))[at] = value;
      }
}

#endif
