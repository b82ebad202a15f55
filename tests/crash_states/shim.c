/* Preloaded into a broker: every change it makes to files below CRASH_ROOT is noted in CRASH_TRACE, in one order.

   A record is one write to a file opened with O_APPEND, so records of several threads and of the load driver (which
   writes markers to the same file) have one order:

       total u32 | kind u8 | flag u8 | path bytes u16 | inode u64 | a i64 | b i64 | path | data        little-endian

   A change is noted after it was made and before the caller knows of it; a sync is noted before it is asked for and
   again after it came back. So whatever the program did before it asked for a sync stands before that in the trace,
   and whatever it did because the sync came back stands behind it.

   CRASH_FAULT = "KIND PART FROM COUNT": calls of KIND (sync, space) on paths that contain PART fail, from the
   FROM-th on, COUNT of them: a sync with EIO, an allocation or write with ENOSPC.
   CRASH_SYNC_US: a sync of the log takes up to so long, so that what is answered too early is answered before it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN = 1, WRITE, TRUNCATE, SYNC_BEGIN, SYNC_END, RENAME, UNLINK, LINK, MKDIR, RMDIR, MAPPED, START };

#define REAL(result, name, ...) \
    static result (*real_##name)(__VA_ARGS__); \
    if (real_##name == NULL) real_##name = dlsym(RTLD_NEXT, #name)

#pragma pack(push, 1)
struct head { uint32_t total; uint8_t kind, flag; uint16_t path_bytes; uint64_t inode; int64_t a, b; };
#pragma pack(pop)

static char root[PATH_MAX];
static size_t root_bytes;
static int trace = -1;
static char fault_kind[16], fault_part[128];
static long fault_from = -1, fault_count, fault_seen, sync_us, sync_number;
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;

/* --- paths -------------------------------------------------------------------------------------- */

/* The part of the path below the root, or NULL. The root itself is "". */
static const char *below(const char *path) {
    if (trace < 0 || path == NULL) return NULL;
    if (strncmp(path, root, root_bytes) == 0) return path + root_bytes;
    if (strlen(path) == root_bytes - 1 && strncmp(path, root, root_bytes - 1) == 0) return "";
    return NULL;
}

static const char *path_of(int fd, char *buffer, size_t size) {
    char link[64];
    ssize_t length;
    if (trace < 0 || fd < 0) return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, buffer, size - 1);
    if (length < 0) return NULL;
    buffer[length] = 0;
    return below(buffer);
}

static const char *path_at(int folder, const char *path, char *buffer, size_t size) {
    char link[64];
    ssize_t length;
    if (trace < 0 || path == NULL) return NULL;
    if (path[0] == '/') return below(path);
    if (folder == AT_FDCWD) {
        if (getcwd(buffer, size) == NULL) return NULL;
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        length = readlink(link, buffer, size - 1);
        if (length < 0) return NULL;
        buffer[length] = 0;
    }
    length = (ssize_t)strlen(buffer);
    snprintf(buffer + length, size - (size_t)length, "/%s", path);
    return below(buffer);
}

/* --- the trace ---------------------------------------------------------------------------------- */

static void note(int kind, int flag, const char *path, uint64_t inode, int64_t a, int64_t b, const void *data,
                 size_t bytes) {
    struct head head;
    struct iovec parts[3];
    int saved = errno;
    size_t path_bytes = strlen(path);
    head.total = (uint32_t)(sizeof head + path_bytes + bytes);
    head.kind = (uint8_t)kind;
    head.flag = (uint8_t)flag;
    head.path_bytes = (uint16_t)path_bytes;
    head.inode = inode;
    head.a = a;
    head.b = b;
    parts[0] = (struct iovec){&head, sizeof head};
    parts[1] = (struct iovec){(void *)path, path_bytes};
    parts[2] = (struct iovec){(void *)data, bytes};
    if (syscall(SYS_writev, trace, parts, 3) != (long)head.total) abort(); /* half a record would spoil all of it */
    errno = saved;
}

__attribute__((constructor)) static void begin(void) {
    const char *where = getenv("CRASH_ROOT"), *path = getenv("CRASH_TRACE"), *fault = getenv("CRASH_FAULT");
    const char *slow = getenv("CRASH_SYNC_US");
    if (where == NULL || path == NULL) return;
    snprintf(root, sizeof root, "%s/", where);
    root_bytes = strlen(root);
    trace = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    note(START, 0, "", 0, 0, 0, NULL, 0);
    if (slow != NULL) sync_us = atol(slow);
    if (fault != NULL && sscanf(fault, "%15s %127s %ld %ld", fault_kind, fault_part, &fault_from, &fault_count) != 4)
        fault_from = -1;
}

static uint64_t inode_of(int fd) {
    struct stat found;
    return fstat(fd, &found) == 0 ? (uint64_t)found.st_ino : 0;
}

static uint64_t inode_at(const char *path) {
    struct stat found;
    return lstat(path, &found) == 0 ? (uint64_t)found.st_ino : 0;
}

static int fails(const char *kind, const char *path) {
    int hit = 0;
    if (fault_from < 0 || strcmp(kind, fault_kind) != 0 || (fault_part[0] != '*' && !strstr(path, fault_part)))
        return 0;
    pthread_mutex_lock(&fault_lock);
    hit = fault_seen >= fault_from && fault_seen < fault_from + fault_count;
    fault_seen++;
    pthread_mutex_unlock(&fault_lock);
    return hit;
}

/* --- files -------------------------------------------------------------------------------------- */

static int opened(int fd, int folder, const char *path, int flags) {
    char buffer[PATH_MAX];
    const char *where;
    if (fd >= 0 && (flags & (O_CREAT | O_TRUNC)) && (where = path_at(folder, path, buffer, sizeof buffer)))
        note(OPEN, (flags & O_CREAT ? 1 : 0) | (flags & O_TRUNC ? 2 : 0), where, inode_of(fd), 0, 0, NULL, 0);
    return fd;
}

static int refuse_open(int folder, const char *path, int flags) {
    char buffer[PATH_MAX];
    const char *where;
    if (!(flags & O_CREAT) || !(where = path_at(folder, path, buffer, sizeof buffer)) || !fails("space", where))
        return 0;
    errno = ENOSPC;
    return 1;
}

static mode_t mode_of(int flags, va_list list) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; }

#define OPENING(name) \
    int name(const char *path, int flags, ...) { \
        va_list list; mode_t mode; \
        REAL(int, name, const char *, int, ...); \
        va_start(list, flags); mode = mode_of(flags, list); va_end(list); \
        if (refuse_open(AT_FDCWD, path, flags)) return -1; \
        return opened(real_##name(path, flags, mode), AT_FDCWD, path, flags); \
    }
#define OPENING_AT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        va_list list; mode_t mode; \
        REAL(int, name, int, const char *, int, ...); \
        va_start(list, flags); mode = mode_of(flags, list); va_end(list); \
        if (refuse_open(folder, path, flags)) return -1; \
        return opened(real_##name(folder, path, flags, mode), folder, path, flags); \
    }
OPENING(open)
OPENING(open64)
OPENING_AT(openat)
OPENING_AT(openat64)

static void wrote(int fd, const char *path, off_t at, const void *data, ssize_t done) {
    if (path != NULL && done > 0) note(WRITE, 0, path, inode_of(fd), at, done, data, (size_t)done);
}

static const char *file_path(int fd, char *buffer, size_t size) {
    struct stat found;
    if (trace < 0 || fd == trace || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) return NULL;
    return path_of(fd, buffer, size);
}

#define PWRITING(name, offset_type) \
    ssize_t name(int fd, const void *data, size_t bytes, offset_type at) { \
        char buffer[PATH_MAX]; const char *path; ssize_t done; \
        REAL(ssize_t, name, int, const void *, size_t, offset_type); \
        path = file_path(fd, buffer, sizeof buffer); \
        if (path != NULL && fails("space", path)) { errno = ENOSPC; return -1; } \
        done = real_##name(fd, data, bytes, at); \
        wrote(fd, path, at, data, done); \
        return done; \
    }
PWRITING(pwrite, off_t)
PWRITING(pwrite64, off64_t)

ssize_t write(int fd, const void *data, size_t bytes) {
    char buffer[PATH_MAX];
    const char *path;
    ssize_t done;
    REAL(ssize_t, write, int, const void *, size_t);
    path = file_path(fd, buffer, sizeof buffer);
    if (path != NULL && fails("space", path)) { errno = ENOSPC; return -1; }
    done = real_write(fd, data, bytes);
    if (path != NULL && done > 0) wrote(fd, path, lseek(fd, 0, SEEK_CUR) - done, data, done);
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    char buffer[PATH_MAX];
    REAL(ssize_t, writev, int, const struct iovec *, int);
    if (file_path(fd, buffer, sizeof buffer) != NULL) abort(); /* nobody does; a trace without it would lie */
    return real_writev(fd, parts, count);
}

static void cut(int fd, int64_t size) {
    char buffer[PATH_MAX];
    const char *path = file_path(fd, buffer, sizeof buffer);
    if (path != NULL) note(TRUNCATE, 0, path, inode_of(fd), size, 0, NULL, 0);
}

#define CUTTING(name, offset_type) \
    int name(int fd, offset_type size) { \
        char buffer[PATH_MAX]; const char *path; int result; \
        REAL(int, name, int, offset_type); \
        path = file_path(fd, buffer, sizeof buffer); \
        if (path != NULL && fails("space", path)) { errno = ENOSPC; return -1; } \
        result = real_##name(fd, size); \
        if (result == 0) cut(fd, size); \
        return result; \
    }
CUTTING(ftruncate, off_t)
CUTTING(ftruncate64, off64_t)

#define CUTTING_PATH(name, offset_type) \
    int name(const char *path, offset_type size) { \
        int result; \
        REAL(int, name, const char *, offset_type); \
        result = real_##name(path, size); \
        if (result == 0 && below(path)) note(TRUNCATE, 0, below(path), inode_at(path), size, 0, NULL, 0); \
        return result; \
    }
CUTTING_PATH(truncate, off_t)
CUTTING_PATH(truncate64, off64_t)

#define ALLOCATING(name, offset_type) \
    int name(int fd, offset_type at, offset_type bytes) { \
        char buffer[PATH_MAX]; const char *path; int result; struct stat before; \
        REAL(int, name, int, offset_type, offset_type); \
        path = file_path(fd, buffer, sizeof buffer); \
        if (path != NULL && fails("space", path)) return ENOSPC; \
        if (path == NULL || fstat(fd, &before) != 0) return real_##name(fd, at, bytes); \
        result = real_##name(fd, at, bytes); \
        if (result == 0 && at + bytes > before.st_size) cut(fd, at + bytes); /* it may grow the file */ \
        return result; \
    }
ALLOCATING(posix_fallocate, off_t)
ALLOCATING(posix_fallocate64, off64_t)

/* --- syncs -------------------------------------------------------------------------------------- */

enum { WHOLE = 0, RANGE = 1, ALL = 2 };

static int before_sync(int how, const char *path, uint64_t inode, int64_t at, int64_t end) {
    int failing = fails("sync", path);
    int64_t thread = (int64_t)syscall(SYS_gettid);
    note(SYNC_BEGIN, how, path, inode, at, end, &thread, sizeof thread);
    if (sync_us > 0 && strstr(path, "commitlog/")) {
        /* no clock, no random numbers: a spread that the order of the syncs gives */
        usleep((useconds_t)(__sync_fetch_and_add(&sync_number, 1) * 7919 % sync_us));
    }
    return failing;
}

static int after_sync(int how, int result, int failing, const char *path, uint64_t inode, int64_t at, int64_t end) {
    int64_t thread = (int64_t)syscall(SYS_gettid);
    if (failing) result = -1;
    note(SYNC_END, how | (result == 0 ? 0 : 16), path, inode, at, end, &thread, sizeof thread);
    if (failing) errno = EIO;
    return result;
}

#define SYNCING(name) \
    int name(int fd) { \
        char buffer[PATH_MAX]; const char *path; uint64_t inode; int failing; \
        REAL(int, name, int); \
        path = path_of(fd, buffer, sizeof buffer); \
        if (path == NULL) return real_##name(fd); \
        inode = inode_of(fd); \
        failing = before_sync(WHOLE, path, inode, 0, -1); \
        return after_sync(WHOLE, real_##name(fd), failing, path, inode, 0, -1); \
    }
SYNCING(fsync)
SYNCING(fdatasync)

int syncfs(int fd) {
    char buffer[PATH_MAX];
    const char *path;
    int failing;
    REAL(int, syncfs, int);
    path = path_of(fd, buffer, sizeof buffer);
    if (path == NULL) return real_syncfs(fd);
    failing = before_sync(ALL, path, 0, 0, -1);
    return after_sync(ALL, real_syncfs(fd), failing, path, 0, 0, -1);
}

int msync(void *address, size_t bytes, int flags) {
    char line[PATH_MAX + 128], found[PATH_MAX] = "";
    const char *path;
    unsigned long low, high, offset, inode = 0, start = (unsigned long)address;
    int64_t at = 0;
    int failing;
    FILE *maps;
    REAL(int, msync, void *, size_t, int);
    if (trace < 0 || (maps = fopen("/proc/self/maps", "re")) == NULL) return real_msync(address, bytes, flags);
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %*s %lx %*s %lu %4095[^\n]", &low, &high, &offset, &inode, found) == 5
            && low <= start && start < high) {
            at = (int64_t)(start - low + offset);
            break;
        }
        found[0] = 0;
    }
    fclose(maps);
    path = below(found);
    if (path == NULL) return real_msync(address, bytes, flags);
    /* What was stored through a mapping nobody saw being stored: it is noted here, at the latest moment. */
    note(MAPPED, 0, path, inode, at, (int64_t)bytes, address, bytes);
    failing = before_sync(RANGE, path, inode, at, at + (int64_t)bytes);
    return after_sync(RANGE, real_msync(address, bytes, flags), failing, path, inode, at, at + (int64_t)bytes);
}

/* --- names -------------------------------------------------------------------------------------- */

/* Two paths in one record: the second is the data. */
static void note_two(int kind, const char *from, const char *to, uint64_t inode) {
    if (from != NULL && to != NULL) note(kind, 0, from, inode, 0, 0, to, strlen(to));
    else if (from != NULL || to != NULL) abort(); /* in or out of the store: no model has that */
}

int rename(const char *from, const char *to) {
    int result;
    REAL(int, rename, const char *, const char *);
    result = real_rename(from, to);
    if (result == 0) note_two(RENAME, below(from), below(to), inode_at(to));
    return result;
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    char one[PATH_MAX], two[PATH_MAX];
    const char *a = path_at(from_folder, from, one, sizeof one), *b = path_at(to_folder, to, two, sizeof two);
    struct stat found;
    int result;
    REAL(int, renameat, int, const char *, int, const char *);
    result = real_renameat(from_folder, from, to_folder, to);
    if (result == 0 && fstatat(to_folder, to, &found, AT_SYMLINK_NOFOLLOW) == 0) note_two(RENAME, a, b, found.st_ino);
    return result;
}

int link(const char *from, const char *to) {
    int result;
    REAL(int, link, const char *, const char *);
    result = real_link(from, to);
    if (result == 0) note_two(LINK, below(from), below(to), inode_at(to));
    return result;
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    char one[PATH_MAX], two[PATH_MAX];
    const char *a = path_at(from_folder, from, one, sizeof one), *b = path_at(to_folder, to, two, sizeof two);
    struct stat found;
    int result;
    REAL(int, linkat, int, const char *, int, const char *, int);
    result = real_linkat(from_folder, from, to_folder, to, flags);
    if (result == 0 && fstatat(to_folder, to, &found, AT_SYMLINK_NOFOLLOW) == 0) note_two(LINK, a, b, found.st_ino);
    return result;
}

int unlink(const char *path) {
    int result;
    REAL(int, unlink, const char *);
    result = real_unlink(path);
    if (result == 0 && below(path)) note(UNLINK, 0, below(path), 0, 0, 0, NULL, 0);
    return result;
}

int unlinkat(int folder, const char *path, int flags) {
    char buffer[PATH_MAX];
    const char *where = path_at(folder, path, buffer, sizeof buffer);
    int result;
    REAL(int, unlinkat, int, const char *, int);
    result = real_unlinkat(folder, path, flags);
    if (result == 0 && where) note(flags & AT_REMOVEDIR ? RMDIR : UNLINK, 0, where, 0, 0, 0, NULL, 0);
    return result;
}

int rmdir(const char *path) {
    int result;
    REAL(int, rmdir, const char *);
    result = real_rmdir(path);
    if (result == 0 && below(path)) note(RMDIR, 0, below(path), 0, 0, 0, NULL, 0);
    return result;
}

int mkdir(const char *path, mode_t mode) {
    int result;
    REAL(int, mkdir, const char *, mode_t);
    result = real_mkdir(path, mode);
    if (result == 0 && below(path)) note(MKDIR, 0, below(path), inode_at(path), 0, 0, NULL, 0);
    return result;
}

int mkdirat(int folder, const char *path, mode_t mode) {
    char buffer[PATH_MAX];
    const char *where = path_at(folder, path, buffer, sizeof buffer);
    struct stat found;
    int result;
    REAL(int, mkdirat, int, const char *, mode_t);
    result = real_mkdirat(folder, path, mode);
    if (result == 0 && where && fstatat(folder, path, &found, 0) == 0) note(MKDIR, 0, where, found.st_ino, 0, 0, NULL, 0);
    return result;
}
