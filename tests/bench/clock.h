// SPDX-License-Identifier: GPL-2.0-or-later
//
// clock: nanoseconds on a clock that nobody sets.
#pragma once
#include <time.h>

static inline long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}
