/* Makes the n-th system call of a kind fail, in a process that has it preloaded and calls `fault_arm`; counts all that come by.
 * Of mmap the main thread's count: Python's own `Thread.start` waits for ever for a thread that gets no memory for its stack of frames.
 * Calls of a path count where it begins with the case's folder, writes where they go there, to a pipe or to a socket. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN, WRITE, RENAME, MKDIR, CLONE, MMAP, PIPE, PRINT, KINDS };
enum { PIDS = 64, TEXT = 256 };

static struct {
    _Atomic long counts[KINDS];
    _Atomic long forked;
    long pids[PIDS]; /* of all that it forked */
    char what[TEXT]; /* the call that failed */
} *seen;
static int fails, error;
static long nth;
static char folder[TEXT];

/* Counts in `file` from here on. Call `at` of `kind` fails with `number`; none where it is 0. */
int fault_arm(const char *file, const char *place, int kind, long at, int number)
{
    int handle = open(file, O_RDWR);
    if (handle < 0) return -1;
    void *map = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    close(handle);
    if (map == MAP_FAILED) return -1;
    snprintf(folder, sizeof folder, "%s", place);
    fails = kind, nth = at, error = number;
    seen = map;
    return 0;
}

static int counted(int kind, const char *what)
{
    if (!seen) return 0;
    if (atomic_fetch_add(&seen->counts[kind], 1) + 1 != nth || kind != fails) return 0;
    snprintf(seen->what, TEXT, "%s", what);
    errno = error;
    return 1;
}

static int path_counted(int kind, const char *path)
{
    if (!seen || !path || (*path == '/' && strncmp(path, folder, strlen(folder)) != 0)) return 0;
    return counted(kind, path);
}

static int write_counted(int handle)
{
    char link[32], to[TEXT];
    if (!seen || handle == 2) return 0;
    if (handle == 1) return counted(PRINT, "stdout");
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t length = readlink(link, to, sizeof to - 1);
    if (length < 0) return 0;
    to[length] = 0;
    if (strncmp(to, folder, strlen(folder)) && strncmp(to, "pipe:", 5) && strncmp(to, "socket:", 7)) return 0;
    return counted(WRITE, to);
}

#define REAL(type, name, ...) static type (*real)(__VA_ARGS__); if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)
#define MODE(flags) mode_t mode = 0; if ((flags) & (O_CREAT | __O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }

#define OPENS(name) \
    int name(const char *path, int flags, ...) \
    { MODE(flags) REAL(int, name, const char *, int, mode_t); return path_counted(OPEN, path) ? -1 : real(path, flags, mode); }
#define OPENS_AT(name) \
    int name(int at, const char *path, int flags, ...) \
    { MODE(flags) REAL(int, name, int, const char *, int, mode_t); return path_counted(OPEN, path) ? -1 : real(at, path, flags, mode); }
#define FOPENS(name) \
    FILE *name(const char *path, const char *how) \
    { REAL(FILE *, name, const char *, const char *); return path_counted(OPEN, path) ? NULL : real(path, how); }
#define MAPS(name, offset) \
    void *name(void *at, size_t length, int protection, int flags, int handle, offset from) \
    { REAL(void *, name, void *, size_t, int, int, int, offset); return gettid() == getpid() && counted(MMAP, "memory") ? MAP_FAILED : real(at, length, protection, flags, handle, from); }

OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)
FOPENS(fopen)
FOPENS(fopen64)
MAPS(mmap, off_t)
MAPS(mmap64, off64_t)

ssize_t write(int handle, const void *data, size_t length)
{
    REAL(ssize_t, write, int, const void *, size_t);
    return write_counted(handle) ? -1 : real(handle, data, length);
}

int rename(const char *from, const char *to)
{
    REAL(int, rename, const char *, const char *);
    return path_counted(RENAME, to) ? -1 : real(from, to);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(int, mkdir, const char *, mode_t);
    return path_counted(MKDIR, path) ? -1 : real(path, mode);
}

int pipe(int ends[2])
{
    REAL(int, pipe, int *);
    return counted(PIPE, "pipe") ? -1 : real(ends);
}

int pipe2(int ends[2], int flags)
{
    REAL(int, pipe2, int *, int);
    return counted(PIPE, "pipe") ? -1 : real(ends, flags);
}

int socketpair(int domain, int type, int protocol, int ends[2])
{
    REAL(int, socketpair, int, int, int, int *);
    return counted(PIPE, "socketpair") ? -1 : real(domain, type, protocol, ends);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    return counted(CLONE, "thread") ? errno : real(thread, attributes, start, argument);
}

pid_t fork(void)
{
    REAL(pid_t, fork, void);
    if (counted(CLONE, "fork")) return -1;
    pid_t pid = real();
    if (pid == 0) seen = NULL; /* who wants to count there says so */
    else if (pid > 0 && seen) {
        long number = atomic_fetch_add(&seen->forked, 1);
        if (number < PIDS) seen->pids[number] = pid;
    }
    return pid;
}

pid_t vfork(void) { return fork(); }
