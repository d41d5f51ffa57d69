/* A tool that listens to NVTX and writes down what is emitted, one JSON object a line.

   NVTX loads the library that NVTX_INJECTION64_PATH names into every process that emits, and calls
   InitializeInjectionNvtx2 once for each of its copies (it is compiled into whatever uses it). The record is appended to
   the file that NVTX_RECORD names; each line is one write(), so that nothing is lost however the process ends, and lines
   of several threads and processes do not mix.

   Lines: "push" and "pop" (ranges of a thread), "start" and "end" (ranges of a process), "mark", and "exit" when a process
   ends in order, which is when a tool that holds its data back would write it. A range of a thread lasts from the end of
   the call that pushes it to the beginning of the call that pops it, so that the time of writing is in no range; both
   times are in its "pop", in ns of CLOCK_MONOTONIC, which is Python's time.perf_counter_ns on Linux. Each line has the
   pid, the thread's id, the domain's name (null: the default domain) and, for a range of a thread, its depth in that
   thread and domain from 0 (in a pop with nothing open -1, without times). Events have what their attributes say; what
   they do not say, and payloads with a schema, are null. Names in wide characters are not taken. */

#define _GNU_SOURCE
#define NVTX_NO_IMPL
#include <fcntl.h>
#include <math.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
enum { LINE = 4096, NAME = 1024, DEEPEST = 64 };

/* What a handle stands for. NVTX hands out what this library gives it and never looks inside. */

struct category {
    uint32_t id;
    char *name;
    struct category *next;
};

struct domain {
    char *name;
    struct category *categories;
};

struct stack { /* of the ranges that are open in one thread and domain */
    struct domain *domain;
    int depth;
    int64_t start_ns[DEEPEST];
    struct stack *next;
};

static struct domain default_domain;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread struct stack *stacks;
static uint64_t last_range;
static int file = -1;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *must(void *memory) {
    if (memory == NULL) abort();
    return memory;
}

static struct domain *of(nvtxDomainHandle_t handle) { return handle == NULL ? &default_domain : (struct domain *)handle; }

static struct stack *stack_of(struct domain *domain) {
    struct stack *s;
    for (s = stacks; s != NULL; s = s->next)
        if (s->domain == domain) return s;
    s = must(calloc(1, sizeof *s));
    s->domain = domain;
    s->next = stacks;
    return stacks = s;
}

/* ---- lines ---- */

struct line {
    char text[LINE];
    size_t length;
};

static void add(struct line *l, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(l->text + l->length, LINE - l->length, format, arguments);
    va_end(arguments);
    if (n > 0) l->length += (size_t)n;
    if (l->length >= LINE) abort(); /* names are cut, so no line is that long */
}

static void add_text(struct line *l, const char *key, const char *text) {
    if (text == NULL) {
        add(l, ",\"%s\":null", key);
        return;
    }
    add(l, ",\"%s\":\"", key);
    for (const unsigned char *c = (const unsigned char *)text; *c != 0 && c - (const unsigned char *)text < NAME; c++) {
        if (*c == '"' || *c == '\\') add(l, "\\%c", *c);
        else if (*c < 0x20) add(l, " ");
        else add(l, "%c", *c);
    }
    add(l, "\"");
}

static struct line begin(const char *event, const struct domain *domain) {
    struct line l = {.length = 0};
    add(&l, "{\"event\":\"%s\",\"pid\":%d,\"tid\":%ld", event, (int)getpid(), (long)syscall(SYS_gettid));
    add_text(&l, "domain", domain->name);
    return l;
}

static void finish(struct line *l) {
    add(l, "}\n");
    if (write(file, l->text, l->length) != (ssize_t)l->length) abort();
}

static void add_category(struct line *l, const struct domain *domain, uint32_t id) {
    const char *name = NULL;
    pthread_mutex_lock(&lock);
    for (const struct category *c = domain->categories; c != NULL && name == NULL; c = c->next)
        if (c->id == id) name = c->name;
    pthread_mutex_unlock(&lock);
    add_text(l, "category", id == 0 ? NULL : name);
}

static void add_number(struct line *l, double value) {
    if (isfinite(value)) add(l, "%.17g", value);
    else add(l, "null");
}

static void add_payload(struct line *l, const nvtxEventAttributes_t *a) {
    add(l, ",\"payload\":");
    switch (a->payloadType) {
        case NVTX_PAYLOAD_TYPE_UNSIGNED_INT64: add(l, "%llu", (unsigned long long)a->payload.ullValue); break;
        case NVTX_PAYLOAD_TYPE_INT64: add(l, "%lld", (long long)a->payload.llValue); break;
        case NVTX_PAYLOAD_TYPE_UNSIGNED_INT32: add(l, "%u", a->payload.uiValue); break;
        case NVTX_PAYLOAD_TYPE_INT32: add(l, "%d", a->payload.iValue); break;
        case NVTX_PAYLOAD_TYPE_DOUBLE: add_number(l, a->payload.dValue); break;
        case NVTX_PAYLOAD_TYPE_FLOAT: add_number(l, a->payload.fValue); break;
        default: add(l, "null");
    }
}

static const char *message_of(const nvtxEventAttributes_t *a) {
    if (a->messageType == NVTX_MESSAGE_TYPE_ASCII) return a->message.ascii;
    if (a->messageType == NVTX_MESSAGE_TYPE_REGISTERED) return (const char *)a->message.registered;
    return NULL;
}

static void add_attributes(struct line *l, const struct domain *domain, const nvtxEventAttributes_t *a) {
    add_text(l, "message", message_of(a));
    add_category(l, domain, a->category);
    if (a->colorType == NVTX_COLOR_ARGB) add(l, ",\"color\":%u", a->color);
    else add(l, ",\"color\":null");
    add_payload(l, a);
}

/* ---- what NVTX calls, of any domain ---- */

static void NVTX_API domain_mark(nvtxDomainHandle_t handle, const nvtxEventAttributes_t *a) {
    struct line l = begin("mark", of(handle));
    add_attributes(&l, of(handle), a);
    finish(&l);
}

static nvtxRangeId_t NVTX_API domain_start(nvtxDomainHandle_t handle, const nvtxEventAttributes_t *a) {
    uint64_t id = __atomic_add_fetch(&last_range, 1, __ATOMIC_RELAXED);
    struct line l = begin("start", of(handle));
    add_attributes(&l, of(handle), a);
    add(&l, ",\"range\":%llu", (unsigned long long)id);
    finish(&l);
    return id;
}

static void NVTX_API domain_end(nvtxDomainHandle_t handle, nvtxRangeId_t id) {
    struct line l = begin("end", of(handle));
    add(&l, ",\"range\":%llu", (unsigned long long)id);
    finish(&l);
}

static int NVTX_API domain_push(nvtxDomainHandle_t handle, const nvtxEventAttributes_t *a) {
    struct stack *s = stack_of(of(handle));
    struct line l = begin("push", s->domain);
    add(&l, ",\"depth\":%d", s->depth);
    add_attributes(&l, s->domain, a);
    finish(&l);
    int depth = s->depth++;
    if (depth < DEEPEST) s->start_ns[depth] = now_ns();
    return depth;
}

static int NVTX_API domain_pop(nvtxDomainHandle_t handle) {
    int64_t end_ns = now_ns();
    struct stack *s = stack_of(of(handle));
    int depth = s->depth > 0 ? --s->depth : -1; /* -1: nothing was open */
    struct line l = begin("pop", s->domain);
    add(&l, ",\"depth\":%d", depth);
    if (depth >= 0 && depth < DEEPEST)
        add(&l, ",\"start_ns\":%lld,\"end_ns\":%lld", (long long)s->start_ns[depth], (long long)end_ns);
    finish(&l);
    return depth;
}

static void NVTX_API domain_name_category(nvtxDomainHandle_t handle, uint32_t id, const char *name) {
    struct category *c = must(malloc(sizeof *c));
    c->id = id;
    c->name = must(strdup(name));
    pthread_mutex_lock(&lock);
    c->next = of(handle)->categories;
    of(handle)->categories = c;
    pthread_mutex_unlock(&lock);
}

static nvtxStringHandle_t NVTX_API domain_register_string(nvtxDomainHandle_t handle, const char *text) {
    (void)handle;
    return (nvtxStringHandle_t)must(strdup(text));
}

static nvtxDomainHandle_t NVTX_API domain_create(const char *name) {
    struct domain *domain = must(calloc(1, sizeof *domain));
    domain->name = must(strdup(name));
    return (nvtxDomainHandle_t)domain;
}

/* ---- the same of the default domain ---- */

static nvtxEventAttributes_t with_message(const char *message) {
    nvtxEventAttributes_t a = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};
    a.messageType = NVTX_MESSAGE_TYPE_ASCII;
    a.message.ascii = message;
    return a;
}

static void NVTX_API mark_ex(const nvtxEventAttributes_t *a) { domain_mark(NULL, a); }

static void NVTX_API mark_a(const char *message) {
    nvtxEventAttributes_t a = with_message(message);
    domain_mark(NULL, &a);
}

static nvtxRangeId_t NVTX_API start_ex(const nvtxEventAttributes_t *a) { return domain_start(NULL, a); }

static nvtxRangeId_t NVTX_API start_a(const char *message) {
    nvtxEventAttributes_t a = with_message(message);
    return domain_start(NULL, &a);
}

static void NVTX_API end(nvtxRangeId_t id) { domain_end(NULL, id); }

static int NVTX_API push_ex(const nvtxEventAttributes_t *a) { return domain_push(NULL, a); }

static int NVTX_API push_a(const char *message) {
    nvtxEventAttributes_t a = with_message(message);
    return domain_push(NULL, &a);
}

static int NVTX_API pop(void) { return domain_pop(NULL); }

static void NVTX_API name_category(uint32_t id, const char *name) { domain_name_category(NULL, id, name); }

/* ---- the way in, and out ---- */

struct callback {
    unsigned int id;
    NvtxFunctionPointer function;
};

#define CALLBACK(id, function) {id, (NvtxFunctionPointer)function}

static const struct callback core[] = {
    CALLBACK(NVTX_CBID_CORE_MarkEx, mark_ex),
    CALLBACK(NVTX_CBID_CORE_MarkA, mark_a),
    CALLBACK(NVTX_CBID_CORE_RangeStartEx, start_ex),
    CALLBACK(NVTX_CBID_CORE_RangeStartA, start_a),
    CALLBACK(NVTX_CBID_CORE_RangeEnd, end),
    CALLBACK(NVTX_CBID_CORE_RangePushEx, push_ex),
    CALLBACK(NVTX_CBID_CORE_RangePushA, push_a),
    CALLBACK(NVTX_CBID_CORE_RangePop, pop),
    CALLBACK(NVTX_CBID_CORE_NameCategoryA, name_category),
};

static const struct callback core2[] = {
    CALLBACK(NVTX_CBID_CORE2_DomainMarkEx, domain_mark),
    CALLBACK(NVTX_CBID_CORE2_DomainRangeStartEx, domain_start),
    CALLBACK(NVTX_CBID_CORE2_DomainRangeEnd, domain_end),
    CALLBACK(NVTX_CBID_CORE2_DomainRangePushEx, domain_push),
    CALLBACK(NVTX_CBID_CORE2_DomainRangePop, domain_pop),
    CALLBACK(NVTX_CBID_CORE2_DomainNameCategoryA, domain_name_category),
    CALLBACK(NVTX_CBID_CORE2_DomainRegisterStringA, domain_register_string),
    CALLBACK(NVTX_CBID_CORE2_DomainCreateA, domain_create),
};

static int subscribe(
    const NvtxExportTableCallbacks *table, NvtxCallbackModule module, const struct callback *callbacks, size_t count) {
    NvtxFunctionTable functions;
    unsigned int size = 0;
    if (!table->GetModuleFunctionTable(module, &functions, &size)) return 0;
    for (size_t i = 0; i < count; i++)
        if (callbacks[i].id < size) *functions[callbacks[i].id] = callbacks[i].function;
    return 1;
}

static void at_exit(void) {
    struct line l = begin("exit", &default_domain);
    finish(&l);
}

EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table) {
    const char *path = getenv("NVTX_RECORD");
    const NvtxExportTableCallbacks *table = export_table(NVTX_ETID_CALLBACKS);
    if (path == NULL || table == NULL) return 0;
    pthread_mutex_lock(&lock);
    if (file < 0) {
        file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        atexit(at_exit);
    }
    pthread_mutex_unlock(&lock);
    return file >= 0 && subscribe(table, NVTX_CB_MODULE_CORE, core, sizeof core / sizeof *core) &&
           subscribe(table, NVTX_CB_MODULE_CORE2, core2, sizeof core2 / sizeof *core2);
}

/* Asked for before a domain is said to be listened to; nothing of the extensions is taken. With NVTX_RECORD_OLD as of a tool that does
   not know the question. */
EXPORT int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module) {
    (void)module;
    return getenv("NVTX_RECORD_OLD") == NULL;
}
