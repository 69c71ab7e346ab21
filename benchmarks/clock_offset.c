/* Preloaded, has the time of day differ by as many seconds as the file named by CLOCK_OFFSET holds, as text. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long offset(void) {
    const char *name = getenv("CLOCK_OFFSET");
    int file = name ? open(name, O_RDONLY) : -1;
    if (file < 0) return 0;
    char text[32] = {0};
    ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    return n > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(id, now);
    if (!failed && id == CLOCK_REALTIME) now->tv_sec += offset();
    return failed;
}
