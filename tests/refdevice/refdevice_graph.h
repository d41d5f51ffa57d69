/* Graphs as ONNX Runtime hands them over: which nodes the device can compute, how they are compiled, and what one inference
 * does. A part of refdevice.c.
 */
#ifndef REFDEVICE_GRAPH_H
#define REFDEVICE_GRAPH_H

#include "refdevice_device.h"
#include "refdevice_ops.h"
#include "refdevice_ort.h"

/* ---- reading a graph ---- */

static Status *tensor_type(const void *value_info, int *type, size_t *rank) {
  const void *type_info = NULL, *tensor_info = NULL;
  *type = 0;
  *rank = 0;
  TRY(API(GET_VALUE_INFO_TYPE_INFO, const void *, const void **)(value_info, &type_info));
  if (!type_info) return NULL;
  TRY(API(CAST_TYPE_INFO_TO_TENSOR_INFO, const void *, const void **)(type_info, &tensor_info));
  if (!tensor_info) return NULL;
  TRY(API(GET_DIMENSIONS_COUNT, const void *, size_t *)(tensor_info, rank));
  return API(GET_TENSOR_ELEMENT_TYPE, const void *, int *)(tensor_info, type);
}

/* Reads an attribute into `data`; returns its size in bytes, 0 if the node has none of that name and type. */
static size_t read_attribute(const void *node, const char *name, int type, void *data, size_t bytes) {
  const void *attribute = NULL;
  size_t size = 0;
  Status *status =
      API(NODE_GET_ATTRIBUTE_BY_NAME, const void *, const char *, const void **)(node, name, &attribute);
  if (!status && attribute) {
    status = API(READ_OP_ATTR, const void *, int, void *, size_t, size_t *)(attribute, type, data, bytes, &size);
    if (status) size = 0;
  }
  if (status) release_status(status);
  return size;
}

static int64_t int_attribute(const void *node, const char *name, int64_t otherwise) {
  int64_t value;
  return read_attribute(node, name, ATTR_INT, &value, sizeof value) ? value : otherwise;
}

static float float_attribute(const void *node, const char *name, float otherwise) {
  float value;
  return read_attribute(node, name, ATTR_FLOAT, &value, sizeof value) ? value : otherwise;
}

static void ints_attribute(const void *node, const char *name, int64_t *values, int count, int64_t otherwise) {
  if (read_attribute(node, name, ATTR_INTS, values, (size_t)count * sizeof *values)) return;
  for (int i = 0; i < count; i++) values[i] = otherwise;
}

static void read_attributes(const void *node, OpNode *op) {
  op->alpha = float_attribute(node, "alpha", 1);
  op->beta = float_attribute(node, "beta", 1);
  op->trans_a = int_attribute(node, "transA", 0) != 0;
  op->trans_b = int_attribute(node, "transB", 0) != 0;
  op->axis = int_attribute(node, "axis", op->kind == OP_FLATTEN ? 1 : -1);
  op->group = int_attribute(node, "group", 1);
  ints_attribute(node, "pads", op->pads, 4, 0);
  ints_attribute(node, "strides", op->strides, 2, 1);
  ints_attribute(node, "dilations", op->dilations, 2, 1);
}

/* The target of a Reshape, which must be a constant: shapes have to be known before anything is computed. */
static Status *read_reshape(const void *node, const void *target, OpNode *op, bool *supported) {
  const void *value = NULL, *data = NULL;
  bool constant = false;
  size_t bytes = 0;
  int type;
  size_t rank;
  *supported = false;
  TRY(tensor_type(target, &type, &rank));
  TRY(API(VALUE_INFO_IS_CONSTANT_INITIALIZER, const void *, bool *)(target, &constant));
  if (!constant || type != TYPE_INT64 || int_attribute(node, "allowzero", 0)) return NULL;
  TRY(API(VALUE_INFO_GET_INITIALIZER_VALUE, const void *, const void **)(target, &value));
  if (!value) return NULL;
  TRY(API(GET_TENSOR_SIZE_IN_BYTES, const void *, size_t *)(value, &bytes));
  TRY(API(GET_TENSOR_DATA, const void *, const void **)(value, &data));
  *supported = bytes <= sizeof op->target;
  op->target_rank = (int)(bytes / sizeof *op->target);
  if (*supported) memcpy(op->target, data, bytes);
  return NULL;
}

static bool conv_supported(const void *node, size_t rank) {
  char auto_pad[16] = "";
  read_attribute(node, "auto_pad", ATTR_STRING, auto_pad, sizeof auto_pad - 1);
  return rank == 4 && (!*auto_pad || strncmp(auto_pad, "NOTSET", 6) == 0);
}

typedef struct { /* a node's values as ORT names them; NULL for a missing optional input */
  const void *input[MAX_INPUTS], *output;
} NodeValues;

static Status *node_values(const void *node, NodeValues *values, bool *fits) {
  size_t inputs = 0, outputs = 0;
  TRY(API(NODE_GET_NUM_INPUTS, const void *, size_t *)(node, &inputs));
  TRY(API(NODE_GET_NUM_OUTPUTS, const void *, size_t *)(node, &outputs));
  *values = (NodeValues){0};
  *fits = inputs >= 1 && inputs <= MAX_INPUTS && outputs == 1;
  if (!*fits) return NULL;
  TRY(API(NODE_GET_INPUTS, const void *, const void **, size_t)(node, values->input, inputs));
  return API(NODE_GET_OUTPUTS, const void *, const void **, size_t)(node, &values->output, 1);
}

/* All values are float32; what only changes a shape takes int32 too, which has as many bytes. */
static Status *all_known(const NodeValues *values, int inputs, bool moves, bool *all) {
  int type, wanted;
  size_t rank;
  TRY(tensor_type(values->output, &wanted, &rank));
  *all = wanted == TYPE_FLOAT || (moves && wanted == TYPE_INT32);
  for (int i = 0; i < inputs && *all; i++) {
    if (!values->input[i]) continue;
    TRY(tensor_type(values->input[i], &type, &rank));
    *all = type == wanted && rank <= MAX_RANK;
  }
  return NULL;
}

/* Reads a node. Where the device cannot compute it, its kind is OP_NONE. */
static Status *read_node(const void *node, OpNode *op, NodeValues *values) {
  const char *name, *domain;
  int since, type;
  size_t rank;
  bool supported = false;
  *op = (OpNode){.kind = OP_NONE};
  TRY(API(NODE_GET_OPERATOR_TYPE, const void *, const char **)(node, &name));
  TRY(API(NODE_GET_DOMAIN, const void *, const char **)(node, &domain));
  TRY(API(NODE_GET_SINCE_VERSION, const void *, int *)(node, &since));
  if (*domain && strcmp(domain, "ai.onnx") != 0) return NULL;
  OpKind kind = op_find(name, since);
  if (kind == OP_NONE) return NULL;
  TRY(node_values(node, values, &supported));
  if (supported) TRY(all_known(values, kind == OP_RESHAPE ? 1 : MAX_INPUTS, kind == OP_FLATTEN, &supported));
  if (!supported) return NULL;
  TRY(tensor_type(values->input[0], &type, &rank));
  op->kind = kind;
  read_attributes(node, op);
  if (kind == OP_CONV) supported = conv_supported(node, rank);
  if (kind == OP_RESHAPE) TRY(read_reshape(node, values->input[1], op, &supported));
  if (!supported) op->kind = OP_NONE;
  return NULL;
}

static Status *graph_nodes(const void *graph, const void ***nodes, size_t *count) {
  *nodes = NULL;
  TRY(API(GRAPH_GET_NUM_NODES, const void *, size_t *)(graph, count));
  *nodes = zeroed(*count * sizeof **nodes);
  return API(GRAPH_GET_NODES, const void *, const void **, size_t)(graph, *nodes, *count);
}

/* ---- compiled graphs ---- */

typedef struct { /* of what it compiles: entries of the session's configuration */
  bool wanted, embeds; /* ep.context_enable, ep.context_embed_mode */
  char path[4096];     /* ep.context_file_path */
} Saving;

typedef struct { /* OrtEp */
  Table table;
  const char *name;
  int device; /* counted from 1 */
  double compute_ns;
  bool ha_copies;
  Honesty honesty;
  Outputs outputs;
  uint32_t session;
  const void *accessible_info; /* OrtMemoryInfo */
  Saving saving;
} Ep;

typedef struct { /* OrtNodeComputeInfo: one fused node */
  Table table;
  Ep *ep;
  OpNode *nodes;
  size_t node_count;
  char **names; /* of the values; everything below counts in values */
  int value_count;
  int *inputs, *outputs; /* the values at the boundary, in the fused node's order */
  size_t input_count, output_count;
  float **scratch; /* room for the values inside; used by one inference at a time, since queues are in order */
  size_t *scratch_bytes;
  bool *constant; /* weights, which an inference never copies */
} Graph;

static int value_named(Graph *graph, const char *name) {
  for (int i = 0; i < graph->value_count; i++) {
    if (strcmp(graph->names[i], name) == 0) return i;
  }
  graph->names = realloc(graph->names, (size_t)(graph->value_count + 1) * sizeof *graph->names);
  if (!graph->names) abort();
  graph->names[graph->value_count] = strdup(name);
  return graph->value_count++;
}

static Status *value_index(Graph *graph, const void *value_info, int *index) {
  const char *name = "";
  *index = -1;
  if (value_info) TRY(API(GET_VALUE_INFO_NAME, const void *, const char **)(value_info, &name));
  if (*name) *index = value_named(graph, name);
  return NULL;
}

static Status *compile_node(Graph *graph, const void *node, OpNode *op) {
  NodeValues values;
  TRY(read_node(node, op, &values));
  if (op->kind == OP_NONE) return fail("a node was claimed that cannot be compiled");
  for (int i = 0; i < MAX_INPUTS; i++) TRY(value_index(graph, values.input[i], &op->input[i]));
  if (op->kind == OP_RESHAPE) op->input[1] = -1;
  return value_index(graph, values.output, &op->output);
}

static Status *boundary(Graph *graph, const void *fused, int count_slot, int get_slot, int **indices, size_t *count) {
  TRY(API(count_slot, const void *, size_t *)(fused, count));
  const void **infos = zeroed(*count * sizeof *infos);
  *indices = zeroed(*count * sizeof **indices);
  Status *status = API(get_slot, const void *, const void **, size_t)(fused, infos, *count);
  for (size_t i = 0; i < *count && !status; i++) status = value_index(graph, infos[i], &(*indices)[i]);
  free(infos);
  return status;
}

static Status *compile_nodes(Graph *graph, const void **nodes) {
  graph->nodes = zeroed(graph->node_count * sizeof *graph->nodes);
  for (size_t i = 0; i < graph->node_count; i++) TRY(compile_node(graph, nodes[i], &graph->nodes[i]));
  return NULL;
}

static Status *find_constants(Graph *graph, const void *fused) {
  const void **infos = zeroed(graph->input_count * sizeof *infos);
  Status *status = API(NODE_GET_INPUTS, const void *, const void **, size_t)(fused, infos, graph->input_count);
  for (size_t i = 0; i < graph->input_count && !status; i++) {
    if (!infos[i] || graph->inputs[i] < 0) continue;
    bool *constant = &graph->constant[graph->inputs[i]];
    status = API(VALUE_INFO_IS_CONSTANT_INITIALIZER, const void *, bool *)(infos[i], constant);
  }
  free(infos);
  return status;
}

static void no_work(Op *op) { (void)op; }

static void release_op(Op *op) { free(op); }

static void compile_for_a_while(size_t node_count) {
  Op *op = zeroed(sizeof *op);
  host_call();
  *op = (Op){.work = no_work, .finish = no_work, .release = release_op};
  op->event = (Event){.kind = COMPILE, .bytes = node_count, .queued_ns = now_ns()};
  op->ready_ns = op->event.queued_ns;
  op->duration_ns = (int64_t)device_config.compile_ns;
  queue_run(&default_queue, op);
}

/* Reads nodes that are to be compiled, which takes the device as long as the knob says. */
static Status *compile_graph(Graph *graph, const void *source) {
  const void **nodes;
  Status *status = graph_nodes(source, &nodes, &graph->node_count);
  if (!status) status = compile_nodes(graph, nodes);
  free(nodes);
  if (!status && device_config.compile_ns > 0) compile_for_a_while(graph->node_count);
  return status;
}

static Status *connect_graph(Graph *graph, const void *fused) {
  TRY(boundary(graph, fused, NODE_GET_NUM_INPUTS, NODE_GET_INPUTS, &graph->inputs, &graph->input_count));
  TRY(boundary(graph, fused, NODE_GET_NUM_OUTPUTS, NODE_GET_OUTPUTS, &graph->outputs, &graph->output_count));
  graph->scratch = zeroed((size_t)graph->value_count * sizeof *graph->scratch);
  graph->scratch_bytes = zeroed((size_t)graph->value_count * sizeof *graph->scratch_bytes);
  graph->constant = zeroed((size_t)graph->value_count * sizeof *graph->constant);
  return find_constants(graph, fused);
}

static void release_graph(Graph *graph) {
  for (int i = 0; i < graph->value_count; i++) {
    free(graph->names[i]);
    if (graph->scratch) free(graph->scratch[i]);
  }
  free(graph->names);
  free(graph->nodes);
  free(graph->inputs);
  free(graph->outputs);
  free(graph->scratch);
  free(graph->scratch_bytes);
  free(graph->constant);
  free(graph);
}

/* ---- inferences ---- */

typedef struct { /* one Compute call; the arrays count in values */
  Op op;
  Graph *graph;
  Shape *shapes;
  char **data; /* NULL: lives in the graph's scratch */
  Block **blocks;
  char **published; /* where a value goes that is computed in scratch because the host could watch it come about */
  bool wrong;
  bool has_unbound_type; /* knob `unbound_type` */
  bool *late; /* outputs that are computed in memory of the device's own, until they have a shape: knob `outputs` */
  size_t late_count;
  bool touches_host; /* a boundary value lies in ordinary host memory, which may be gone after Compute */
} Inference;

static float *room_for(Graph *graph, int value, size_t bytes) {
  if (graph->scratch_bytes[value] < bytes) {
    free(graph->scratch[value]);
    graph->scratch[value] = zeroed(bytes);
    graph->scratch_bytes[value] = bytes;
  }
  return graph->scratch[value];
}

static size_t value_bytes(const Inference *job, int value) {
  return (size_t)shape_count(&job->shapes[value]) * sizeof(float);
}

static float *value_data(Inference *job, int value) {
  if (job->data[value]) return (float *)job->data[value];
  return room_for(job->graph, value, value_bytes(job, value));
}

static void node_operands(Inference *job, const OpNode *op, const Shape *shapes[MAX_INPUTS], const float **data) {
  for (int i = 0; i < MAX_INPUTS; i++) {
    shapes[i] = op->input[i] < 0 ? NULL : &job->shapes[op->input[i]];
    if (data) data[i] = op->input[i] < 0 ? NULL : value_data(job, op->input[i]);
  }
}

static void publish(Inference *job, void (*copy)(char *, const char *, size_t)) {
  for (size_t i = 0; i < job->graph->output_count; i++) {
    int value = job->graph->outputs[i];
    if (job->published[value]) copy(job->published[value], (char *)value_data(job, value), value_bytes(job, value));
  }
}

/* Rounds to the nearest bfloat16, of two equally near ones to the even one: knob `bfloat16`. */
static void lower_precision(float *data, size_t bytes) {
  for (size_t i = 0; i < bytes / sizeof *data; i++) {
    uint32_t bits;
    if (!isfinite(data[i])) continue;
    memcpy(&bits, &data[i], sizeof bits);
    bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
    memcpy(&data[i], &bits, sizeof bits);
  }
}

static void inference_work(Op *op) {
  Inference *job = (Inference *)op;
  for (size_t i = 0; i < job->graph->node_count; i++) {
    const OpNode *node = &job->graph->nodes[i];
    const Shape *shapes[MAX_INPUTS];
    const float *data[MAX_INPUTS];
    node_operands(job, node, shapes, data);
    op_run(node, data, shapes, value_data(job, node->output), &job->shapes[node->output]);
    if (device_config.bfloat16 != 0) lower_precision(value_data(job, node->output), value_bytes(job, node->output));
  }
  int first = job->graph->outputs[0];
  if (job->wrong && value_bytes(job, first)) value_data(job, first)[0] += 1 + fabsf(value_data(job, first)[0]);
  publish(job, copy_tail);
}

static void inference_finish(Op *op) { publish((Inference *)op, copy_head); }

static void inference_release(Op *op) {
  Inference *job = (Inference *)op;
  for (int i = 0; i < job->graph->value_count; i++) drop_block(job->blocks[i]);
  free(job->shapes);
  free(job->data);
  free(job->blocks);
  free(job->published);
  free(job->late);
  free(job);
}

static Inference *new_inference(Graph *graph, int64_t entry) {
  Inference *job = zeroed(sizeof *job);
  size_t values = (size_t)graph->value_count;
  job->op = (Op){.work = inference_work, .finish = inference_finish, .release = inference_release};
  job->op.event = (Event){.kind = INFERENCE, .queued_ns = entry, .run = this_run.number, .session = graph->ep->session};
  job->op.ready_ns = entry;
  job->op.duration_ns = (int64_t)graph->ep->compute_ns;
  job->graph = graph;
  job->shapes = zeroed(values * sizeof *job->shapes);
  job->data = zeroed(values * sizeof *job->data);
  job->blocks = zeroed(values * sizeof *job->blocks);
  job->published = zeroed(values * sizeof *job->published);
  job->late = zeroed(values * sizeof *job->late);
  return job;
}

static Status *bind_value(Inference *job, int value, const void *tensor) {
  const void *data;
  TRY(API(GET_TENSOR_DATA, const void *, const void **)(tensor, &data));
  if (!data && value_bytes(job, value)) return no_memory();
  drop_block(job->blocks[value]);
  job->data[value] = resolve(data, &job->blocks[value]);
  if (!job->blocks[value] && value_bytes(job, value)) job->touches_host = true; /* what is empty lies nowhere */
  return NULL;
}

static Status *read_shape(const void *tensor, int *type, Shape *shape) {
  const int64_t *dims = NULL;
  size_t rank = 0;
  TRY(API(GET_TENSOR_TYPE_AND_SHAPE_REFERENCE, const void *, int *, const int64_t **, size_t *)(tensor, type, &dims, &rank));
  if (rank > MAX_RANK) return fail("tensors have at most %d dimensions on the reference device", MAX_RANK);
  shape->rank = (int)rank;
  for (size_t i = 0; i < rank; i++) shape->dim[i] = dims[i];
  return NULL;
}

static Status *bind_input(Inference *job, size_t index, void *context) {
  const void *tensor = NULL;
  int type, value = job->graph->inputs[index];
  TRY(API(KERNEL_CONTEXT_GET_INPUT, void *, size_t, const void **)(context, index, &tensor));
  if (!tensor || value < 0) return NULL;
  TRY(read_shape(tensor, &type, &job->shapes[value]));
  if (type == (int)device_config.unbound_type) job->has_unbound_type = true;
  return bind_value(job, value, tensor);
}

static Status *infer_shapes(Inference *job) {
  for (size_t i = 0; i < job->graph->node_count; i++) {
    const OpNode *node = &job->graph->nodes[i];
    const Shape *shapes[MAX_INPUTS];
    node_operands(job, node, shapes, NULL);
    const char *error = op_shape(node, shapes, &job->shapes[node->output]);
    if (error) return fail("%s", error);
  }
  return NULL;
}

static Status *get_output(size_t index, const Shape *shape, void *context, void **tensor) {
  return API(KERNEL_CONTEXT_GET_OUTPUT, void *, size_t, const int64_t *, size_t, void **)(context, index, shape->dim,
                                                                                         (size_t)shape->rank, tensor);
}

/* The memory that the caller has bound for an output, if that is of the output's shape, which ONNX Runtime has not checked; or if the
 * output fits where the device should have checked and does not. */
static Status *preallocated_output(size_t index, const Shape *shape, bool checked, const void *context, void **tensor) {
  int type;
  Shape bound = {0};
  TRY(API(KERNEL_CONTEXT_GET_PREALLOCATED_OUTPUT, const void *, size_t, void **)(context, index, tensor));
  if (!*tensor) return NULL;
  TRY(read_shape(*tensor, &type, &bound));
  bool fits = shape_count(&bound) >= shape_count(shape);
  for (int i = 0; checked && fits && i < shape->rank; i++) fits = bound.rank == shape->rank && bound.dim[i] == shape->dim[i];
  if (!fits) *tensor = NULL;
  return NULL;
}

static Status *bind_output(Inference *job, size_t index, void *context) {
  void *tensor = NULL;
  int value = job->graph->outputs[index];
  Outputs outputs = job->graph->ep->outputs;
  Shape *shape = &job->shapes[value];
  if (!index && shape->rank && shape->dim[0] && fails(&device_config.shape_run, MEM_NONE)) shape->dim[0]--;
  job->op.event.bytes += value_bytes(job, value);
  if (outputs == KNOWN) TRY(get_output(index, shape, context, &tensor));
  if (outputs >= PREALLOCATED) TRY(preallocated_output(index, shape, outputs == PREALLOCATED, context, &tensor));
  if (tensor) return bind_value(job, value, tensor);
  job->blocks[value] = allocate_block(value_bytes(job, value), MEM_DEFAULT);
  if (!job->blocks[value]) return no_memory();
  job->data[value] = job->blocks[value]->storage;
  job->late[value] = true;
  job->late_count++;
  return NULL;
}

static Status *bind_values(Inference *job, void *context) {
  for (size_t i = 0; i < job->graph->input_count; i++) TRY(bind_input(job, i, context));
  TRY(infer_shapes(job));
  for (size_t i = 0; i < job->graph->output_count; i++) TRY(bind_output(job, i, context));
  return NULL;
}

static Memory memory_of_run(const Inference *job) {
  const Graph *graph = job->graph;
  bool accessible = false, fresh = job->touches_host;
  for (size_t i = 0; i < graph->input_count; i++) {
    const Block *block = graph->inputs[i] < 0 ? NULL : job->blocks[graph->inputs[i]];
    if (block && block->memory == MEM_HOST_ACCESSIBLE) accessible = true;
    if (block && block->run == this_run.number) fresh = true;
  }
  for (size_t i = 0; i < graph->output_count; i++) {
    if (memory_of(job->blocks[graph->outputs[i]]) == MEM_HOST_ACCESSIBLE) accessible = true;
  }
  return accessible ? MEM_HOST_ACCESSIBLE : fresh ? MEM_HOST : MEM_DEFAULT;
}

/* What the knobs want of this run. Asked once a run, also if its graph was claimed in several parts. */
static Status *judge_run(const Inference *job) {
  if (this_run.memory != MEM_NONE) return NULL;
  Memory memory = this_run.memory = memory_of_run(job);
  if (faulty(AT_RUN, memory, job->graph->ep->device)) return fail("the reference device was told to fail this run");
  if (job->has_unbound_type && memory != MEM_HOST) {
    return fail("the reference device takes no tensor of type %d where it is bound", (int)device_config.unbound_type);
  }
  if (fails(&device_config.abort_run, memory)) abort();
  this_run.wrong = fails(&device_config.wrong_run, memory);
  return NULL;
}

static void submit(Op *op, bool wait) {
  if (!wait) {
    queue_push(&default_queue, op);
    return;
  }
  int server = server_take();
  queue_run(servers.queue[server], op);
  server_give(server);
}

/* With `ha_copies`: whether a value is copied. Those in ordinary host memory are where the device has no DEFAULT memory. */
static bool is_diverted(const Inference *job, int value) {
  if (value < 0 || job->graph->constant[value]) return false;
  Memory memory = memory_of(job->blocks[value]);
  return memory == MEM_HOST_ACCESSIBLE || (memory == MEM_HOST && !device_config.default_memory);
}

/* Moves such a value of the job into private memory, and returns the copy that fills that memory before the inference, or
 * empties it afterwards. */
static Copy *divert(Inference *job, int value, bool output) {
  if (!is_diverted(job, value)) return NULL;
  Block *shared = job->blocks[value];
  size_t bytes = value_bytes(job, value);
  Block *private = allocate_block(bytes, MEM_DEFAULT);
  Block *again;
  if (!private) abort();
  Copy *copy = new_copy(bytes);
  resolve(private->address, &again); /* a second use: one for the copy, one for the inference */
  copy->from = output ? private->storage : job->data[value];
  copy->to = output ? job->data[value] : private->storage;
  copy->from_block = shared;
  copy->to_block = again;
  copy->op.event.kind = HA_COPY;
  copy->op.event.memory = memory_of(shared);
  copy->op.event.source = output ? MEM_DEFAULT : memory_of(shared);
  copy->op.event.destination = output ? memory_of(shared) : MEM_DEFAULT;
  copy->op.ready_ns = job->op.ready_ns;
  copy->op.duration_ns = link_ns(output ? &device_config.download : &device_config.upload, bytes);
  job->blocks[value] = private;
  job->data[value] = private->storage;
  return copy;
}

static void submit_with_copies(Inference *job, bool wait) {
  const Graph *graph = job->graph;
  Copy **back = zeroed(graph->output_count * sizeof *back);
  for (size_t i = 0; i < graph->output_count; i++) back[i] = divert(job, graph->outputs[i], true);
  for (size_t i = 0; i < graph->input_count; i++) {
    Copy *copy = divert(job, graph->inputs[i], false);
    if (copy) submit(&copy->op, wait);
  }
  size_t outputs = graph->output_count; /* the job may be gone after this: */
  submit(&job->op, wait);
  for (size_t i = 0; i < outputs; i++) {
    if (back[i]) submit(&back[i]->op, wait);
  }
  free(back);
}

/* Outputs the host can see are computed out of its sight, so that reading them too early never looks right. */
static void hide_outputs(Inference *job) {
  for (size_t i = 0; i < job->graph->output_count; i++) {
    int value = job->graph->outputs[i];
    if (memory_of(job->blocks[value]) != MEM_HOST_ACCESSIBLE) continue;
    job->published[value] = job->data[value];
    job->data[value] = NULL;
  }
}

typedef struct { /* an output that was computed in memory of the device's own */
  size_t index;
  Shape shape;
  Block *block;
} LateOutput;

/* Those of a job, which is gone once it was carried out. */
static LateOutput *late_outputs(const Inference *job) {
  LateOutput *outputs = zeroed((job->late_count + 1) * sizeof *outputs), *next = outputs;
  for (size_t i = 0; i < job->graph->output_count; i++) {
    int value = job->graph->outputs[i];
    if (!job->late[value]) continue;
    *next = (LateOutput){.index = i, .shape = job->shapes[value]};
    resolve(job->blocks[value]->address, &next++->block);
  }
  return outputs;
}

/* Asks for the memory of an output, whose shape is known now, and copies the output there. */
static Status *deliver(LateOutput *output, void *context) {
  void *tensor = NULL;
  const void *data;
  size_t bytes = (size_t)shape_count(&output->shape) * sizeof(float);
  TRY(get_output(output->index, &output->shape, context, &tensor));
  TRY(API(GET_TENSOR_DATA, const void *, const void **)(tensor, &data));
  if (!bytes) return NULL;
  if (!data) return no_memory();
  Copy *copy = new_copy(bytes);
  copy->from = output->block->storage;
  copy->from_block = output->block;
  output->block = NULL;
  copy->to = resolve(data, &copy->to_block);
  if (prepare_copy(copy)) {
    copy_release(&copy->op);
    return fail("the reference device was told to fail this download");
  }
  queue_run(&default_queue, &copy->op);
  return NULL;
}

static Status *deliver_all(LateOutput *outputs, size_t count, void *context) {
  Status *status = NULL;
  for (size_t i = 0; i < count; i++) {
    if (!status) status = deliver(&outputs[i], context);
    drop_block(outputs[i].block);
  }
  free(outputs);
  return status;
}

/* Memory that is never freed, to the byte, and written to, so that it is resident. */
static void leak(double bytes) {
  enum { CHUNK = 1 << 20 };
  static char *at;
  static size_t left;
  for (size_t wanted = (size_t)bytes; wanted;) {
    if (!left) {
      at = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (at == MAP_FAILED) abort();
      left = CHUNK;
    }
    size_t part = wanted < left ? wanted : left;
    memset(at, 1, part);
    at += part, left -= part, wanted -= part;
  }
}

/* What an inference leaks: knobs `leak_bytes` and below. `config_lock` is held. */
static void leak_of_run(uint64_t shapes) {
  enum { MOST = 1 << 16 };
  static uint64_t count, *seen;
  static double handles;
  if (device_config.leak_bytes > 0) leak(device_config.leak_bytes);
  for (handles += device_config.leak_handles; handles >= 1; handles--) (void)!dup(2);
  if (!device_config.leak_shape_bytes) return;
  if (!seen) seen = zeroed(MOST * sizeof *seen);
  for (uint64_t i = 0; i < count; i++) {
    if (seen[i] == shapes) return;
  }
  if (count < MOST) seen[count++] = shapes;
  leak(device_config.leak_shape_bytes);
}

#define IDLE_NS 20000000

/* What an inference takes because of its shapes and of what came before: knobs `item_us`, `switch_us` and `idle_us`. */
static int64_t shape_ns(const Inference *job) {
  static uint64_t before;
  static int64_t last_ns;
  int64_t begin_ns = now_ns();
  uint64_t now = 14695981039346656037u; /* FNV-1a over ranks and sizes */
  int64_t items = 0;
  for (size_t i = 0; i < job->graph->input_count; i++) {
    if (job->graph->inputs[i] < 0) continue;
    const Shape *shape = &job->shapes[job->graph->inputs[i]];
    if (!items && shape->rank) items = shape->dim[0];
    now = (now ^ (uint64_t)shape->rank) * 1099511628211u;
    for (int d = 0; d < shape->rank; d++) now = (now ^ (uint64_t)shape->dim[d]) * 1099511628211u;
  }
  pthread_mutex_lock(&config_lock);
  bool switched = before && before != now;
  before = now;
  bool idle = last_ns && begin_ns - last_ns > IDLE_NS;
  last_ns = begin_ns;
  leak_of_run(now);
  pthread_mutex_unlock(&config_lock);
  double more_ns = (switched ? device_config.switch_ns : 0) + (idle ? device_config.idle_ns : 0);
  return (int64_t)((double)items * device_config.item_ns + more_ns);
}

static Status *graph_compute(Graph *graph, void *state, void *context) {
  (void)state;
  host_call();
  take_host_time();
  Inference *job = new_inference(graph, now_ns());
  Status *status = bind_values(job, context);
  if (status) {
    inference_release(&job->op);
    return status;
  }
  job->op.duration_ns += shape_ns(job);
  status = judge_run(job);
  if (status) {
    inference_release(&job->op);
    return status;
  }
  job->wrong = this_run.wrong;
  job->op.event.memory = this_run.memory;
  size_t late = job->late_count;
  bool wait = honesty_now(graph->ep->honesty) == SYNC || job->touches_host || late;
  if (!wait && !graph->ep->ha_copies) hide_outputs(job);
  LateOutput *outputs = late_outputs(job);
  if (graph->ep->ha_copies) submit_with_copies(job, wait);
  else submit(&job->op, wait);
  return deliver_all(outputs, late, context);
}

static Status *graph_create_state(Graph *graph, void *context, void **state) {
  (void)context;
  *state = graph;
  return NULL;
}

static void graph_release_state(Graph *graph, void *state) {
  (void)graph;
  (void)state;
}

#endif
