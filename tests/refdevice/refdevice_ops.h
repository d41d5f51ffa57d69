/* The float32 operators of the reference device: shapes and arithmetic, nothing of ONNX Runtime and nothing of time.
 *
 * Part of refdevice.c, kept apart so that the device reads without them. Written to be right and short, not fast: a
 * test says how long an inference lasts, and the arithmetic only has to fit into that time. Shapes are inferred before
 * an operator runs, because ONNX Runtime has to allocate a run's outputs before the device has computed them.
 */
#ifndef REFDEVICE_OPS_H
#define REFDEVICE_OPS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __SSE2__
#include <immintrin.h>
#endif

enum { MAX_RANK = 8, MAX_INPUTS = 3 };

typedef enum {
  OP_NONE,
  OP_RELU,
  OP_SIGMOID,
  OP_TANH,
  OP_IDENTITY,
  OP_CLIP,
  OP_ADD,
  OP_SUB,
  OP_MUL,
  OP_MATMUL,
  OP_GEMM,
  OP_SOFTMAX,
  OP_FLATTEN,
  OP_RESHAPE,
  OP_CONCAT,
  OP_CONV,
  OP_GLOBAL_AVERAGE_POOL,
} OpKind;

typedef struct {
  int rank;
  int64_t dim[MAX_RANK];
} Shape;

/* One node of a fused graph. Inputs and output are indices of values; a missing optional input is -1. */
typedef struct {
  OpKind kind;
  int input[MAX_INPUTS];
  int output;
  float alpha, beta;         /* Gemm */
  bool trans_a, trans_b;     /* Gemm */
  int64_t axis;              /* Softmax, Flatten, Concat */
  int64_t group;             /* Conv */
  int64_t pads[4];           /* Conv: top, left, bottom, right */
  int64_t strides[2];        /* Conv */
  int64_t dilations[2];      /* Conv */
  int target_rank;           /* Reshape */
  int64_t target[MAX_RANK];  /* Reshape: the constant second input */
} OpNode;

/* The oldest operator set version whose meaning is the one implemented here. */
typedef struct {
  const char *name;
  OpKind kind;
  int since;
} OpName;

static const OpName op_names[] = {
    {"Relu", OP_RELU, 6},       {"Sigmoid", OP_SIGMOID, 6}, {"Tanh", OP_TANH, 6},   {"Identity", OP_IDENTITY, 1},
    {"Clip", OP_CLIP, 11},      {"Add", OP_ADD, 7},         {"Sub", OP_SUB, 7},     {"Mul", OP_MUL, 7},
    {"MatMul", OP_MATMUL, 1},   {"Gemm", OP_GEMM, 7},       {"Flatten", OP_FLATTEN, 1}, {"Conv", OP_CONV, 1},
    {"Reshape", OP_RESHAPE, 5}, {"Softmax", OP_SOFTMAX, 13}, {"GlobalAveragePool", OP_GLOBAL_AVERAGE_POOL, 1},
    {"Concat", OP_CONCAT, 4},
};

#ifndef OPERATORS /* those that this build takes, each between commas; empty for all */
#define OPERATORS ""
#endif

static bool op_wanted(const char *name) {
  char listed[32];
  snprintf(listed, sizeof listed, ",%s,", name);
  return !*OPERATORS || strstr(OPERATORS, listed);
}

static OpKind op_find(const char *name, int since) {
  if (!op_wanted(name)) return OP_NONE;
  for (size_t i = 0; i < sizeof op_names / sizeof *op_names; i++) {
    if (strcmp(op_names[i].name, name) == 0 && since >= op_names[i].since) return op_names[i].kind;
  }
  return OP_NONE;
}

static int64_t count_between(const Shape *shape, int from, int to) {
  int64_t count = 1;
  for (int i = from; i < to; i++) count *= shape->dim[i];
  return count;
}

static int64_t shape_count(const Shape *shape) { return count_between(shape, 0, shape->rank); }

/* ---- shapes: each function returns NULL, or what is wrong ---- */

static int64_t dim_from_right(const Shape *shape, int from_right) {
  return from_right < shape->rank ? shape->dim[shape->rank - 1 - from_right] : 1;
}

static const char *broadcast_shape(const Shape *a, const Shape *b, Shape *out) {
  out->rank = a->rank > b->rank ? a->rank : b->rank;
  for (int i = 0; i < out->rank; i++) {
    int64_t x = dim_from_right(a, i), y = dim_from_right(b, i);
    if (x != y && x != 1 && y != 1) return "shapes cannot be broadcast";
    out->dim[out->rank - 1 - i] = x == 1 ? y : x;
  }
  return NULL;
}

/* The leading (batch) dimensions of a matrix stack. */
static Shape batch_of(const Shape *shape) {
  Shape batch = *shape;
  batch.rank = shape->rank > 2 ? shape->rank - 2 : 0;
  return batch;
}

static const char *matmul_shape(const Shape *a, const Shape *b, Shape *out) {
  if (a->rank < 2 || b->rank < 2) return "MatMul of vectors is not supported";
  if (a->dim[a->rank - 1] != b->dim[b->rank - 2]) return "MatMul: inner dimensions differ";
  Shape batch_a = batch_of(a), batch_b = batch_of(b);
  const char *error = broadcast_shape(&batch_a, &batch_b, out);
  if (error) return error;
  out->dim[out->rank] = a->dim[a->rank - 2];
  out->dim[out->rank + 1] = b->dim[b->rank - 1];
  out->rank += 2;
  return NULL;
}

static const char *gemm_shape(const OpNode *op, const Shape *a, const Shape *b, Shape *out) {
  if (a->rank != 2 || b->rank != 2) return "Gemm: inputs must be matrices";
  if (a->dim[!op->trans_a] != b->dim[op->trans_b]) return "Gemm: inner dimensions differ";
  out->rank = 2;
  out->dim[0] = a->dim[op->trans_a];
  out->dim[1] = b->dim[!op->trans_b];
  return NULL;
}

static int axis_of(const OpNode *op, const Shape *shape) {
  return (int)(op->axis < 0 ? op->axis + shape->rank : op->axis);
}

static const char *flatten_shape(const OpNode *op, const Shape *in, Shape *out) {
  int axis = axis_of(op, in);
  if (axis < 0 || axis > in->rank) return "Flatten: axis out of range";
  out->rank = 2;
  out->dim[0] = count_between(in, 0, axis);
  out->dim[1] = count_between(in, axis, in->rank);
  return NULL;
}

static const char *reshape_shape(const OpNode *op, const Shape *in, Shape *out) {
  int unknown = -1;
  int64_t known = 1;
  out->rank = op->target_rank;
  for (int i = 0; i < out->rank; i++) {
    if (op->target[i] == 0 && i >= in->rank) return "Reshape: 0 beyond the input's rank";
    out->dim[i] = op->target[i] == 0 ? in->dim[i] : op->target[i];
    if (out->dim[i] < 0) unknown = i;
    else known *= out->dim[i];
  }
  if (unknown >= 0) out->dim[unknown] = known ? shape_count(in) / known : 0;
  return shape_count(out) == shape_count(in) ? NULL : "Reshape: element counts differ";
}

static const char *concat_shape(const OpNode *op, const Shape *const in[MAX_INPUTS], Shape *out) {
  int axis = axis_of(op, in[0]);
  if (axis < 0 || axis >= in[0]->rank) return "Concat: axis out of range";
  *out = *in[0];
  for (int i = 1; i < MAX_INPUTS && in[i]; i++) {
    if (in[i]->rank != out->rank) return "Concat: ranks differ";
    for (int d = 0; d < out->rank; d++) {
      if (d != axis && in[i]->dim[d] != out->dim[d]) return "Concat: shapes differ off the axis";
    }
    out->dim[axis] += in[i]->dim[axis];
  }
  return NULL;
}

static const char *conv_shape(const OpNode *op, const Shape *x, const Shape *w, Shape *out) {
  if (x->rank != 4 || w->rank != 4) return "Conv: only two-dimensional convolution";
  if (x->dim[1] != w->dim[1] * op->group || w->dim[0] % op->group) return "Conv: channels and groups do not fit";
  *out = (Shape){4, {x->dim[0], w->dim[0]}};
  for (int i = 0; i < 2; i++) {
    int64_t window = (w->dim[2 + i] - 1) * op->dilations[i] + 1;
    int64_t space = x->dim[2 + i] + op->pads[i] + op->pads[2 + i] - window;
    if (space < 0) return "Conv: the kernel is larger than the input";
    out->dim[2 + i] = space / op->strides[i] + 1;
  }
  return NULL;
}

static const char *pool_shape(const Shape *in, Shape *out) {
  if (in->rank < 3) return "GlobalAveragePool: rank must be 3 or more";
  *out = *in;
  for (int i = 2; i < in->rank; i++) out->dim[i] = 1;
  return NULL;
}

/* The output's shape. `in` holds NULL for a missing optional input. */
static const char *op_shape(const OpNode *op, const Shape *const in[MAX_INPUTS], Shape *out) {
  switch (op->kind) {
    case OP_ADD:
    case OP_SUB:
    case OP_MUL: return broadcast_shape(in[0], in[1], out);
    case OP_MATMUL: return matmul_shape(in[0], in[1], out);
    case OP_GEMM: return gemm_shape(op, in[0], in[1], out);
    case OP_FLATTEN: return flatten_shape(op, in[0], out);
    case OP_RESHAPE: return reshape_shape(op, in[0], out);
    case OP_CONCAT: return concat_shape(op, in, out);
    case OP_CONV: return conv_shape(op, in[0], in[1], out);
    case OP_GLOBAL_AVERAGE_POOL: return pool_shape(in[0], out);
    default: *out = *in[0]; return NULL;
  }
}

/* ---- arithmetic ---- */

/* Elements to step in `shape` for one step along each dimension of `out`; 0 where `shape` is broadcast. */
static void broadcast_strides(const Shape *shape, const Shape *out, int64_t stride[MAX_RANK]) {
  int64_t step = 1;
  for (int i = 0; i < out->rank; i++) {
    int64_t size = dim_from_right(shape, i);
    stride[out->rank - 1 - i] = size == 1 ? 0 : step;
    step *= size;
  }
}

/* Where, in a broadcast operand, the `index`-th element of the first `rank` dimensions of `out` lies. */
static int64_t broadcast_offset(const Shape *out, int rank, const int64_t stride[MAX_RANK], int64_t index) {
  int64_t offset = 0;
  for (int i = rank - 1; i >= 0; i--) {
    offset += index % out->dim[i] * stride[i];
    index /= out->dim[i];
  }
  return offset;
}

#define BINARY_ROW(OPERATION)                                                                        \
  if (step_a && step_b) for (int64_t i = 0; i < n; i++) out[i] = a[i] OPERATION b[i];                \
  else for (int64_t i = 0; i < n; i++) out[i] = a[i * step_a] OPERATION b[i * step_b]

static void binary_row(OpKind kind, const float *a, int64_t step_a, const float *b, int64_t step_b, float *out,
                       int64_t n) {
  if (kind == OP_ADD) { BINARY_ROW(+); }
  else if (kind == OP_SUB) { BINARY_ROW(-); }
  else { BINARY_ROW(*); }
}

static bool same_shape(const Shape *a, const Shape *b) {
  return a->rank == b->rank && memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0;
}

static void run_binary(OpKind kind, const float *a, const Shape *sa, const float *b, const Shape *sb, float *out,
                       const Shape *so) {
  int64_t total = shape_count(so), stride_a[MAX_RANK], stride_b[MAX_RANK];
  if (so->rank == 0 || same_shape(sa, sb)) {
    binary_row(kind, a, 1, b, 1, out, total);
    return;
  }
  broadcast_strides(sa, so, stride_a);
  broadcast_strides(sb, so, stride_b);
  int last = so->rank - 1;
  int64_t row = so->dim[last], rows = row ? total / row : 0;
  for (int64_t r = 0; r < rows; r++) {
    binary_row(kind, a + broadcast_offset(so, last, stride_a, r), stride_a[last],
               b + broadcast_offset(so, last, stride_b, r), stride_b[last], out + r * row, row);
  }
}

/* Past the caches, if it is large, for the same reason as copies (see refdevice_device.h). */
static void run_relu(const float *in, float *out, int64_t n) {
  int64_t at = 0;
#ifdef __SSE2__
  for (; n >= 1 << 16 && (uintptr_t)out % 16 == 0 && at + 16 <= n; at += 16) {
    _mm_prefetch((const char *)(in + at + 128), _MM_HINT_NTA);
    for (int64_t i = at; i < at + 16; i += 4) {
      _mm_stream_ps(out + i, _mm_max_ps(_mm_setzero_ps(), _mm_loadu_ps(in + i)));
    }
  }
  _mm_sfence();
#endif
  for (; at < n; at++) out[at] = in[at] < 0 ? 0 : in[at];
}

static void run_unary(OpKind kind, const float *in, float *out, int64_t n) {
  if (kind == OP_RELU) run_relu(in, out, n);
  else if (kind == OP_SIGMOID) for (int64_t i = 0; i < n; i++) out[i] = 1.0f / (1.0f + expf(-in[i]));
  else if (kind == OP_TANH) for (int64_t i = 0; i < n; i++) out[i] = tanhf(in[i]);
  else memcpy(out, in, (size_t)n * sizeof *out);
}

static void run_clip(const float *in, const float *low, const float *high, float *out, int64_t n) {
  float least = low ? *low : -INFINITY, most = high ? *high : INFINITY;
  for (int64_t i = 0; i < n; i++) {
    float value = in[i] < least ? least : in[i];
    out[i] = value > most ? most : value;
  }
}

/* out (m x n) = alpha * A x B; the strides say how A and B are stored, so that neither is ever transposed. */
static void multiply(const float *a, int64_t a_row, int64_t a_column, const float *b, int64_t b_row, int64_t b_column,
                     float *out, int64_t m, int64_t k, int64_t n, float alpha) {
  for (int64_t i = 0; i < m; i++) {
    float *row = out + i * n;
    memset(row, 0, (size_t)n * sizeof *row);
    for (int64_t j = 0; j < k; j++) {
      float factor = alpha * a[i * a_row + j * a_column];
      const float *other = b + j * b_row;
      if (b_column == 1) for (int64_t c = 0; c < n; c++) row[c] += factor * other[c];
      else for (int64_t c = 0; c < n; c++) row[c] += factor * other[c * b_column];
    }
  }
}

static void run_matmul(const float *a, const Shape *sa, const float *b, const Shape *sb, float *out, const Shape *so) {
  int64_t m = so->dim[so->rank - 2], n = so->dim[so->rank - 1], k = sa->dim[sa->rank - 1];
  int64_t stride_a[MAX_RANK], stride_b[MAX_RANK];
  Shape batch = batch_of(so), batch_a = batch_of(sa), batch_b = batch_of(sb);
  broadcast_strides(&batch_a, &batch, stride_a);
  broadcast_strides(&batch_b, &batch, stride_b);
  for (int64_t i = 0; i < shape_count(&batch); i++) {
    multiply(a + broadcast_offset(&batch, batch.rank, stride_a, i) * m * k, k, 1,
             b + broadcast_offset(&batch, batch.rank, stride_b, i) * k * n, n, 1, out + i * m * n, m, k, n, 1.0f);
  }
}

static void run_gemm(const OpNode *op, const float *const in[], const Shape *const shape[], float *out,
                     const Shape *so) {
  int64_t m = so->dim[0], n = so->dim[1], k = shape[0]->dim[!op->trans_a];
  multiply(in[0], op->trans_a ? 1 : k, op->trans_a ? m : 1, in[1], op->trans_b ? 1 : n, op->trans_b ? k : 1, out, m, k,
           n, op->alpha);
  if (!in[2]) return;
  int64_t stride[MAX_RANK];
  broadcast_strides(shape[2], so, stride);
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < n; j++) out[i * n + j] += op->beta * in[2][i * stride[0] + j * stride[1]];
  }
}

static void softmax_line(const float *in, float *out, int64_t n, int64_t step) {
  float most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++) most = in[i * step] > most ? in[i * step] : most;
  for (int64_t i = 0; i < n; i++) sum += out[i * step] = expf(in[i * step] - most);
  for (int64_t i = 0; i < n; i++) out[i * step] /= sum;
}

static void run_softmax(const OpNode *op, const float *in, float *out, const Shape *shape) {
  int axis = axis_of(op, shape);
  int64_t n = shape->dim[axis], step = count_between(shape, axis + 1, shape->rank);
  for (int64_t outer = 0; outer < count_between(shape, 0, axis); outer++) {
    for (int64_t inner = 0; inner < step; inner++) {
      int64_t start = outer * n * step + inner;
      softmax_line(in + start, out + start, n, step);
    }
  }
}

/* Any input may be empty, and then has no memory. */
static void run_concat(const OpNode *op, const float *const in[], const Shape *const shape[], float *out,
                       const Shape *so) {
  int axis = axis_of(op, so);
  for (int64_t outer = 0; outer < count_between(so, 0, axis); outer++) {
    for (int i = 0; i < MAX_INPUTS && shape[i]; i++) {
      int64_t part = count_between(shape[i], axis, so->rank);
      if (part) memcpy(out, in[i] + outer * part, (size_t)part * sizeof *out);
      out += part;
    }
  }
}

/* One output pixel of one channel, summed over the channels of its group. */
static float conv_pixel(const OpNode *op, const float *x, const Shape *sx, const float *w, const Shape *sw, int64_t row,
                        int64_t column) {
  float sum = 0;
  int64_t height = sx->dim[2], width = sx->dim[3];
  for (int64_t c = 0; c < sw->dim[1]; c++) {
    for (int64_t i = 0; i < sw->dim[2]; i++) {
      int64_t y = row * op->strides[0] - op->pads[0] + i * op->dilations[0];
      if (y < 0 || y >= height) continue;
      for (int64_t j = 0; j < sw->dim[3]; j++) {
        int64_t z = column * op->strides[1] - op->pads[1] + j * op->dilations[1];
        if (z < 0 || z >= width) continue;
        sum += x[(c * height + y) * width + z] * w[(c * sw->dim[2] + i) * sw->dim[3] + j];
      }
    }
  }
  return sum;
}

static void run_conv(const OpNode *op, const float *const in[], const Shape *const shape[], float *out,
                     const Shape *so) {
  const Shape *sx = shape[0], *sw = shape[1];
  int64_t image = count_between(sx, 2, 4), kernel = count_between(sw, 1, 4), per_group = sw->dim[0] / op->group;
  for (int64_t n = 0; n < so->dim[0]; n++) {
    for (int64_t m = 0; m < so->dim[1]; m++) {
      const float *x = in[0] + (n * sx->dim[1] + m / per_group * sw->dim[1]) * image;
      for (int64_t row = 0; row < so->dim[2]; row++) {
        for (int64_t column = 0; column < so->dim[3]; column++) {
          *out++ = conv_pixel(op, x, sx, in[1] + m * kernel, sw, row, column) + (in[2] ? in[2][m] : 0);
        }
      }
    }
  }
}

static void run_pool(const float *in, const Shape *shape, float *out) {
  int64_t area = count_between(shape, 2, shape->rank);
  for (int64_t i = 0; i < count_between(shape, 0, 2); i++) {
    double sum = 0;
    for (int64_t j = 0; j < area; j++) sum += in[i * area + j];
    out[i] = (float)(sum / (double)area);
  }
}

/* Computes one node. `in` and `shape` hold NULL for a missing optional input. */
static void op_run(const OpNode *op, const float *const in[MAX_INPUTS], const Shape *const shape[MAX_INPUTS],
                   float *out, const Shape *out_shape) {
  switch (op->kind) {
    case OP_ADD:
    case OP_SUB:
    case OP_MUL: run_binary(op->kind, in[0], shape[0], in[1], shape[1], out, out_shape); break;
    case OP_CLIP: run_clip(in[0], in[1], in[2], out, shape_count(out_shape)); break;
    case OP_MATMUL: run_matmul(in[0], shape[0], in[1], shape[1], out, out_shape); break;
    case OP_GEMM: run_gemm(op, in, shape, out, out_shape); break;
    case OP_SOFTMAX: run_softmax(op, in[0], out, out_shape); break;
    case OP_CONCAT: run_concat(op, in, shape, out, out_shape); break;
    case OP_CONV: run_conv(op, in, shape, out, out_shape); break;
    case OP_GLOBAL_AVERAGE_POOL: run_pool(in[0], shape[0], out); break;
    default: run_unary(op->kind, in[0], out, shape_count(out_shape)); break;
  }
}

#endif
