/* What the device compiled, kept in a model: EPContext nodes, which sessions open without compiling again. And which nodes
 * the device claims, these among them. A part of refdevice.c.
 *
 * With the knob `context_bytes` a session that is asked for them (`ep.context_enable`, which ONNX Runtime's ModelCompiler
 * sets) makes one of each fused node. What is compiled is a head, the nodes, the names of their values, and zeros up to the
 * size that the knob names: in the attribute `ep_cache_context`, or in a file beside the model, which that attribute names.
 * Weights stay in the model, and come as inputs of the node.
 */
#ifndef REFDEVICE_CONTEXT_H
#define REFDEVICE_CONTEXT_H

#include "refdevice_graph.h"

typedef struct {
  char magic[8];
  uint32_t nodes, values;
} ContextHead;
static const char context_magic[8] = "REFCTX1";

static bool is_context(const void *node, const char *ep_name) {
  const char *type = "";
  char source[128] = "";
  Status *status = API(NODE_GET_OPERATOR_TYPE, const void *, const char **)(node, &type);
  if (status) release_status(status);
  if (strcmp(type, "EPContext") != 0) return false;
  read_attribute(node, "source", ATTR_STRING, source, sizeof source - 1);
  return strcmp(source, ep_name) == 0;
}

static Status *claim(void *support, const void **nodes, size_t count) {
  if (!count) return NULL;
  return EP_API(GRAPH_SUPPORT_ADD_NODES_TO_FUSE, Status *, void *, const void **, size_t, const void *)(support, nodes, count,
                                                                                                       NULL);
}

/* Claims every run of supported nodes that is unbroken in topological order, as no path can leave it and return, and each
 * node that it compiled before by itself. */
static Status *claim_nodes(const Ep *ep, const void **nodes, size_t count, void *support) {
  NodeValues values;
  size_t first = 0;
  for (size_t i = 0; i <= count; i++) {
    OpNode op = {.kind = OP_NONE};
    if (i < count) TRY(read_node(nodes[i], &op, &values));
    if (op.kind != OP_NONE) continue;
    TRY(claim(support, nodes + first, i - first));
    if (i < count && is_context(nodes[i], ep->name)) TRY(claim(support, nodes + i, 1));
    first = i + 1;
  }
  return NULL;
}

static Status *ep_get_capability(const Ep *self, const void *graph, void *support) {
  const void **nodes;
  size_t count;
  Status *status = graph_nodes(graph, &nodes, &count);
  if (!status) status = claim_nodes(self, nodes, count, support);
  free(nodes);
  return status;
}

/* ---- saving ---- */

static char *context_of(const Graph *graph, size_t *bytes) {
  size_t nodes = graph->node_count * sizeof *graph->nodes, used = sizeof(ContextHead) + nodes;
  *bytes = used;
  for (int i = 0; i < graph->value_count; i++) *bytes += strlen(graph->names[i]) + 1;
  if ((size_t)device_config.context_bytes > *bytes) *bytes = (size_t)device_config.context_bytes;
  char *data = zeroed(*bytes);
  ContextHead head = {.nodes = (uint32_t)graph->node_count, .values = (uint32_t)graph->value_count};
  memcpy(head.magic, context_magic, sizeof head.magic);
  memcpy(data, &head, sizeof head);
  memcpy(data + sizeof head, graph->nodes, nodes);
  for (int i = 0; i < graph->value_count; i++) used += (size_t)sprintf(data + used, "%s", graph->names[i]) + 1;
  return data;
}

/* The folder of a path, with its slash, and a name in it. */
static void beside(const char *path, const char *name, char *found, size_t space) {
  const char *slash = strrchr(path, '/');
  snprintf(found, space, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, name);
}

/* Where the model with the nodes will be: as the session was told, else as ONNX Runtime names it. */
static Status *context_path(const Ep *ep, const void *source, char *path, size_t space) {
  const char *model = "";
  snprintf(path, space, "%s", ep->saving.path);
  if (*path) return NULL;
  TRY(API(GRAPH_GET_MODEL_PATH, const void *, const char **)(source, &model));
  const char *end = strrchr(model, '.');
  snprintf(path, space, "%.*s_ctx.onnx", end ? (int)(end - model) : (int)strlen(model), model);
  return NULL;
}

static Status *write_context(const char *path, const char *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  bool written = file && fwrite(data, 1, bytes, file) == bytes;
  if (file && fclose(file) != 0) written = false;
  return written ? NULL : fail("%s cannot be written: %s", path, strerror(errno));
}

typedef struct {
  void *attribute[6]; /* OrtOpAttr */
  size_t count;
} Attributes;

static Status *add_attribute(Attributes *to, const char *name, int type, const void *data, size_t length) {
  return API(CREATE_OP_ATTR, const char *, const void *, int, int, void **)(name, data, (int)length, type,
                                                                          &to->attribute[to->count++]);
}

static Status *make_context_node(const Ep *ep, const Graph *graph, const char *name, const char *data, size_t bytes, void **node) {
  const int64_t main_context = 1, embed_mode = ep->saving.embeds;
  Attributes made = {.count = 0};
  Status *status = add_attribute(&made, "main_context", ATTR_INT, &main_context, 1);
  if (!status) status = add_attribute(&made, "embed_mode", ATTR_INT, &embed_mode, 1);
  if (!status) status = add_attribute(&made, "ep_cache_context", ATTR_STRING, data, bytes);
  if (!status) status = add_attribute(&made, "source", ATTR_STRING, ep->name, strlen(ep->name));
  if (!status) status = add_attribute(&made, "partition_name", ATTR_STRING, name, strlen(name));
  const char **names = zeroed((graph->input_count + graph->output_count) * sizeof *names), **outputs = names + graph->input_count;
  for (size_t i = 0; i < graph->input_count; i++) names[i] = graph->inputs[i] < 0 ? "" : graph->names[graph->inputs[i]];
  for (size_t i = 0; i < graph->output_count; i++) outputs[i] = graph->names[graph->outputs[i]];
  const Fn *editor = ((const Fn *(*)(void))ort[GET_MODEL_EDITOR_API])();
  if (!status) {
    status = ((Status * (*)(const char *, const char *, const char *, const char **, size_t, const char **, size_t, void **, size_t,
                            void **)) editor[CREATE_NODE])("EPContext", "com.microsoft", name, names, graph->input_count,
                                                            outputs, graph->output_count, made.attribute, made.count, node);
  }
  for (size_t i = 0; i < made.count; i++) {
    if (made.attribute[i]) ((void (*)(void *))ort[RELEASE_OP_ATTR])(made.attribute[i]); /* the node has copies */
  }
  free(names);
  return status;
}

static Status *save_graph(const Ep *ep, const Graph *graph, const void *source, const void *fused, void **node) {
  const char *name;
  char model[4096], file[4096];
  size_t bytes;
  TRY(API(NODE_GET_NAME, const void *, const char **)(fused, &name));
  TRY(context_path(ep, source, model, sizeof model));
  char *data = context_of(graph, &bytes);
  Status *status = NULL;
  if (ep->saving.embeds) {
    status = make_context_node(ep, graph, name, data, bytes, node);
  } else {
    const char *slash = strrchr(model, '/'), *base = slash ? slash + 1 : model;
    char own[1024];
    snprintf(own, sizeof own, "%.*s_%s.bin", (int)strcspn(base, "."), base, name);
    beside(model, own, file, sizeof file);
    status = write_context(file, data, bytes);
    if (!status) status = make_context_node(ep, graph, name, own, strlen(own), node);
  }
  free(data);
  return status;
}

/* ---- opening ---- */

/* The text of an attribute, which may hold any byte, with a NUL behind it; the caller frees it. */
static Status *text_attribute(const void *node, const char *name, char **text, size_t *bytes) {
  const void *attribute = NULL;
  *bytes = 0;
  TRY(API(NODE_GET_ATTRIBUTE_BY_NAME, const void *, const char *, const void **)(node, name, &attribute));
  if (!attribute) return fail("an EPContext node without %s", name);
  Status *too_small = API(READ_OP_ATTR, const void *, int, void *, size_t, size_t *)(attribute, ATTR_STRING, NULL, 0, bytes);
  if (too_small) release_status(too_small);
  *text = zeroed(*bytes + 1);
  return API(READ_OP_ATTR, const void *, int, void *, size_t, size_t *)(attribute, ATTR_STRING, *text, *bytes + 1, bytes);
}

static Status *read_context(const void *source, const char *name, char **data, size_t *bytes) {
  const char *model = "";
  char path[4096];
  TRY(API(GRAPH_GET_MODEL_PATH, const void *, const char **)(source, &model));
  beside(model, name, path, sizeof path);
  FILE *file = fopen(path, "rb");
  if (!file) return fail("%s cannot be read: %s", path, strerror(errno));
  fseek(file, 0, SEEK_END);
  *bytes = (size_t)ftell(file);
  rewind(file);
  *data = zeroed(*bytes + 1);
  size_t found = fread(*data, 1, *bytes, file);
  fclose(file);
  return found == *bytes ? NULL : fail("%s cannot be read", path);
}

static Status *graph_from(Graph *graph, const char *data, size_t bytes) {
  ContextHead head = {.nodes = 0};
  if (bytes >= sizeof head) memcpy(&head, data, sizeof head);
  size_t nodes = head.nodes * sizeof *graph->nodes;
  if (memcmp(head.magic, context_magic, sizeof head.magic) != 0 || bytes < sizeof head + nodes) {
    return fail("what an EPContext node holds was not compiled by the reference device");
  }
  graph->node_count = head.nodes;
  graph->nodes = zeroed(nodes);
  memcpy(graph->nodes, data + sizeof head, nodes);
  const char *name = data + sizeof head + nodes;
  for (uint32_t i = 0; i < head.values; i++, name += strlen(name) + 1) value_named(graph, name);
  return NULL;
}

static Status *load_graph(Graph *graph, const void *source, const void *node) {
  char *text = NULL, *data = NULL;
  size_t bytes;
  Status *status = text_attribute(node, "ep_cache_context", &text, &bytes);
  if (!status && !int_attribute(node, "embed_mode", 1)) status = read_context(source, text, &data, &bytes);
  if (!status) status = graph_from(graph, data ? data : text, bytes);
  free(text);
  free(data);
  return status;
}

/* Compiles a graph, or opens what was compiled before. */
static Status *open_graph(const Ep *ep, Graph *graph, const void *source, const void *fused, void **context_node) {
  const void **nodes;
  size_t count;
  TRY(graph_nodes(source, &nodes, &count));
  const void *context = count == 1 && is_context(nodes[0], ep->name) ? nodes[0] : NULL;
  free(nodes);
  TRY(context ? load_graph(graph, source, context) : compile_graph(graph, source));
  TRY(connect_graph(graph, fused));
  return context_node && !context ? save_graph(ep, graph, source, fused, context_node) : NULL;
}

#endif
