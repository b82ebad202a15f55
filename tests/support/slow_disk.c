/* A disk that takes its time: preloaded into a broker, each write to the log waits as long as a file says.
   SLOW_DISK names the file; what stands in it is the wait in milliseconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is_log(int fd) {
    char link[64], path[4096];
    ssize_t size;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, path, sizeof path - 1);
    if (size < 0)
        return 0;
    path[size] = 0;
    return strstr(path, "/commitlog/") != NULL;
}

static void wait_as_told(void) {
    const char *path = getenv("SLOW_DISK");
    FILE *file = path ? fopen(path, "r") : NULL;
    int wait_ms = 0;
    if (file == NULL)
        return;
    if (fscanf(file, "%d", &wait_ms) == 1 && wait_ms > 0)
        usleep((useconds_t)wait_ms * 1000);
    fclose(file);
}

typedef ssize_t (*Write)(int, const void *, size_t, off_t);

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    static Write next;
    if (next == NULL)
        next = (Write)dlsym(RTLD_NEXT, "pwrite");
    if (is_log(fd))
        wait_as_told();
    return next(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) {
    return pwrite(fd, data, size, at);
}
