// SPDX-License-Identifier: GPL-2.0-or-later
//
// Stands between a plugin and assoc_mgr: the executable's symbols come before libslurmfull's, so these wrappers are
// called, and they note how long Slurm's own functions take. Calls that Slurm makes inside of such a call are part of it.
#define _GNU_SOURCE
#include "lookups.h"
#include "host.h"

#include <dlfcn.h>
#include <stdlib.h>

lookups_t lookups;
static int depth;
static int64_t began;

static inline void enter(void) {
    if (depth++ == 0) began = now();
}

static inline void leave(void) {
    if (--depth > 0) return;
    lookups.inside += now() - began;
    lookups.calls++;
}

static struct {
    __typeof__(assoc_mgr_lock) *lock, *unlock;
    __typeof__(assoc_mgr_fill_in_assoc) *fill_in_assoc;
    __typeof__(assoc_mgr_fill_in_qos) *fill_in_qos;
    __typeof__(assoc_mgr_get_default_qos_info) *get_default_qos_info;
} slurms;

static void *original(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) give_up("libslurmfull has no %s", name);
    return found;
}

__attribute__((constructor)) static void find_originals(void) {
    *(void **)&slurms.lock = original("assoc_mgr_lock");
    *(void **)&slurms.unlock = original("assoc_mgr_unlock");
    *(void **)&slurms.fill_in_assoc = original("assoc_mgr_fill_in_assoc");
    *(void **)&slurms.fill_in_qos = original("assoc_mgr_fill_in_qos");
    *(void **)&slurms.get_default_qos_info = original("assoc_mgr_get_default_qos_info");
}

void assoc_mgr_lock(assoc_mgr_lock_t *locks) {
    enter();
    slurms.lock(locks);
    leave();
}

void assoc_mgr_unlock(assoc_mgr_lock_t *locks) {
    enter();
    slurms.unlock(locks);
    leave();
}

int assoc_mgr_fill_in_assoc(void *db, slurmdb_assoc_rec_t *wanted, int enforce, slurmdb_assoc_rec_t **found,
                            bool locked) {
    enter();
    int code = slurms.fill_in_assoc(db, wanted, enforce, found, locked);
    leave();
    return code;
}

int assoc_mgr_fill_in_qos(void *db, slurmdb_qos_rec_t *wanted, int enforce, slurmdb_qos_rec_t **found, bool locked) {
    enter();
    int code = slurms.fill_in_qos(db, wanted, enforce, found, locked);
    leave();
    return code;
}

void assoc_mgr_get_default_qos_info(slurmdb_assoc_rec_t *association, slurmdb_qos_rec_t *qos) {
    enter();
    slurms.get_default_qos_info(association, qos);
    leave();
}

static int ascending(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

int64_t median_of(int64_t *times, unsigned count) {
    qsort(times, count, sizeof *times, ascending);
    return times[count / 2];
}

#define TRIES 20001
static void do_nothing(assoc_mgr_lock_t *locks) {
    (void)locks;
}

overhead_t measure_overhead(void) {
    static int64_t clocks[TRIES], wrappers[TRIES];
    __typeof__(assoc_mgr_lock) *kept = slurms.lock, *volatile called = assoc_mgr_lock;
    overhead_t overhead;
    for (int i = 0; i < TRIES; i++) {
        int64_t start = now();
        clocks[i] = now() - start;
    }
    overhead.clock = median_of(clocks, TRIES);
    slurms.lock = do_nothing;
    for (int i = 0; i < TRIES; i++) {
        lookups = (lookups_t){0};
        int64_t start = now();
        called(NULL);
        wrappers[i] = now() - start - lookups.inside - overhead.clock;
    }
    slurms.lock = kept;
    overhead.wrapper = median_of(wrappers, TRIES);
    return overhead;
}
