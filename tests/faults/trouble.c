/* Preloaded into a member: its syncs take their time or fail, its clock is wrong, as a mapped file says.

   TROUBLE names the file; 64-bit numbers, in the machine's order:
       0  how long each sync takes, in milliseconds
       1  the error every sync fails with; 0: none
       2  what is added to the time of day, in milliseconds
       3  how many syncs have failed so far
   Clocks that count from the start of the machine are not touched, as when somebody sets the date. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { SYNC_MS, SYNC_ERRNO, CLOCK_MS, FAILED, NUMBERS };

static volatile int64_t *told;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("TROUBLE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *at;
    if (fd < 0)
        return;
    at = mmap(NULL, NUMBERS * sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED)
        told = at;
}

/* 0, or -1 with errno: what a sync of a disk in trouble returns. */
static int sync_as_told(void) {
    int64_t left_ms;
    if (told == NULL)
        return 0;
    for (left_ms = told[SYNC_MS]; left_ms > 0 && told[SYNC_MS] > 0; left_ms -= 10)
        usleep(10000);
    if (told[SYNC_ERRNO] == 0)
        return 0;
    __sync_fetch_and_add(&told[FAILED], 1);
    errno = (int)told[SYNC_ERRNO];
    return -1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int fsync(int fd) {
    return sync_as_told() ? -1 : NEXT(fsync)(fd);
}

int fdatasync(int fd) {
    return sync_as_told() ? -1 : NEXT(fdatasync)(fd);
}

int msync(void *at, size_t size, int flags) {
    return sync_as_told() ? -1 : NEXT(msync)(at, size, flags);
}

int syncfs(int fd) {
    return sync_as_told() ? -1 : NEXT(syncfs)(fd);
}

static int is_time_of_day(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static __typeof__(&clock_gettime) next;
    int64_t ns;
    int result;
    if (next == NULL)
        next = NEXT(clock_gettime);
    result = next(clock, now);
    if (result == 0 && told != NULL && is_time_of_day(clock) && told[CLOCK_MS] != 0) {
        ns = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + told[CLOCK_MS] * 1000000;
        now->tv_sec = ns / 1000000000;
        now->tv_nsec = ns % 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (at != NULL)
        *at = exact.tv_sec;
    return exact.tv_sec;
}
