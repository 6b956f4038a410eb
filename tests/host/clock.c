// SPDX-License-Identifier: GPL-2.0-or-later
//
// The clock as the plugin sees it, which can be moved on: what waits a second takes no second here.
#define _GNU_SOURCE
#include "host.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_llong ahead; // nanoseconds

void advance_clock(unsigned milliseconds) {
    atomic_fetch_add(&ahead, milliseconds * 1000000LL);
}

// Before libc's, since the executable's symbols come first.
int clock_gettime(clockid_t clock, struct timespec *result) {
    if (syscall(SYS_clock_gettime, clock, result) != 0) return -1;
    if (clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID) return 0;
    long long nanoseconds = result->tv_nsec + atomic_load(&ahead);
    result->tv_sec += nanoseconds / 1000000000;
    result->tv_nsec = nanoseconds % 1000000000;
    return 0;
}
