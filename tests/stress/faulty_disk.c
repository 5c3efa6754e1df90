/* A disk that fails when it is told to, for tests/stress/write_faults.py: put before the C library with LD_PRELOAD.

   Every call that changes something below one folder is counted; the one whose number is armed fails, and if the disk
   stays broken, so does every later one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[4096];
static long n_calls, fails_at = -1;
static int with_errno, stays_broken;

void disk_arm(const char *below, long number, int error, int stays) {
    snprintf(folder, sizeof folder, "%s", below);
    n_calls = 0;
    fails_at = number;
    with_errno = error;
    stays_broken = stays;
}

long disk_calls(void) { return n_calls; }

static int fails(const char *path) {
    if (!folder[0] || !path || strncmp(path, folder, strlen(folder)) != 0) return 0;
    long number = n_calls++;
    if (fails_at < 0 || number < fails_at || (number > fails_at && !stays_broken)) return 0;
    errno = with_errno;
    return 1;
}

static int fails_fd(int fd) {
    char link[64], path[4096];
    if (!folder[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return fails(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t n) { return fails_fd(fd) ? -1 : REAL(write)(fd, data, n); }
ssize_t pwrite(int fd, const void *data, size_t n, off_t at) { return fails_fd(fd) ? -1 : REAL(pwrite)(fd, data, n, at); }
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) {
    return fails_fd(fd) ? -1 : REAL(pwrite64)(fd, data, n, at);
}
ssize_t writev(int fd, const struct iovec *parts, int n) { return fails_fd(fd) ? -1 : REAL(writev)(fd, parts, n); }
int fsync(int fd) { return fails_fd(fd) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return fails_fd(fd) ? -1 : REAL(fdatasync)(fd); }
int ftruncate(int fd, off_t n) { return fails_fd(fd) ? -1 : REAL(ftruncate)(fd, n); }
int ftruncate64(int fd, off64_t n) { return fails_fd(fd) ? -1 : REAL(ftruncate64)(fd, n); }
int rename(const char *from, const char *to) { return fails(to) ? -1 : REAL(rename)(from, to); }
int renameat(int from, const char *old, int to, const char *new) {
    return fails(new) ? -1 : REAL(renameat)(from, old, to, new);
}
int link(const char *from, const char *to) { return fails(to) ? -1 : REAL(link)(from, to); }
int linkat(int from, const char *old, int to, const char *new, int flags) {
    return fails(new) ? -1 : REAL(linkat)(from, old, to, new, flags);
}
int mkdir(const char *path, mode_t mode) { return fails(path) ? -1 : REAL(mkdir)(path, mode); }

static mode_t mode_of(int flags, va_list more) { return flags & O_CREAT ? va_arg(more, mode_t) : 0; }

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    return (flags & O_CREAT) && fails(path) ? -1 : REAL(open)(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    return (flags & O_CREAT) && fails(path) ? -1 : REAL(open64)(path, flags, mode);
}
