// SPDX-License-Identifier: GPL-2.0-or-later
//
// Slurm's look-ups, timed from outside: see lookups.c.
#ifndef GPUSHARE_LOOKUPS_H
#define GPUSHARE_LOOKUPS_H

#include <stdint.h>
#include <time.h>

typedef struct {
    int64_t inside; // nanoseconds in Slurm's functions
    int64_t calls;  // locks and unlocks included
} lookups_t;

extern lookups_t lookups; // of the calls since it was last cleared; for one thread

// What one wrapped call costs outside of the time that it notes, and what two looks at the clock cost.
typedef struct {
    int64_t wrapper, clock;
} overhead_t;
overhead_t measure_overhead(void);

int64_t median_of(int64_t *times, unsigned count); // sorts them

static inline int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

#endif
