// SPDX-License-Identifier: GPL-2.0-or-later
//
// storm: many threads submit at once while jobs are updated, slurmdbd changes QOSes and gpushare.conf is rewritten.
// Every answer is compared, every refusal must be counted, and memory in use must be the same after the first tenth and at the end.
//
// Harder than the daemon on purpose: slurmctld 22.05 calls its plugins one at a time, and no release updates a job while
// one is submitted. Here nothing is locked but what the plugin and Slurm lock.
#define _GNU_SOURCE
#include "host.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// What the C library may keep for itself more at the end, its arenas being as full as the threads happened to fill them.
#define RESIDENT_KIB 65536
#define STACK (1U << 20) // what slurmctld's threads have, up to 24.11

static plugin_t plugin;
static const char *configuration;
static unsigned calls;    // of each thread, in this phase
static bool warming_up;   // this is the first tenth
static atomic_bool over;  // the submissions are
static atomic_ulong wrong, submissions, updates_done, edits, pushes;

static uint32_t next_random(uint32_t *state) { // xorshift
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

static void *submit_many(void *argument) {
    uint32_t state = 2463534242U ^ (uint32_t)(uintptr_t)argument;
    for (unsigned i = 0; i < calls; i++) {
        const request_t *request = &requests[next_random(&state) % request_count];
        if (request->filler && next_random(&state) % 64 != 0) request = &requests[0]; // now and then
        if (!submit_and_check(&plugin, request, next_random(&state) % 8 == 0)) atomic_fetch_add(&wrong, 1);
    }
    atomic_fetch_add(&submissions, calls);
    return NULL;
}

static void *update_many(void *unused) {
    for (unsigned i = 0; !over && i < 4 * calls; i++) {
        if (!update_and_check(&plugin, i)) atomic_fetch_add(&wrong, 1);
        atomic_fetch_add(&updates_done, 1);
    }
    return unused;
}

// Mostly bursts; now and then unchanged for long enough, by the plugin's clock, to be adopted. In between, slurmctld
// takes control again, as after a time as a standby.
static void *edit_many(void *unused) {
    for (unsigned i = 0; !over; i++) {
        edit_configuration(configuration, i);
        atomic_fetch_add(&edits, 1);
        if (i % 16 == 11) control_time++;
        if (i % 8 < 7) usleep(1000 * (i % 4 + 1));
        for (unsigned rest = 0; i % 8 == 7 && rest < 15 && !over; rest++) {
            advance_clock(300);
            usleep(3000);
        }
    }
    edit_configuration(configuration, 0);
    return unused;
}

// slurmdbd's messages: the governed QOS gets another limit, another one comes and goes with all its memory, and as long
// as memory is not weighed, new TRES make Slurm allocate its tables anew.
static void *push_many(void *unused) {
    for (unsigned i = 0; !over; i++) {
        if (warming_up && i % 4 == 0 && i < 400) add_gpu_type(2000 + i);
        modify_qos(QOS_LAFFERTY, i % 2 ? "1002=4" : "1002=8");
        add_qos(QOS_COMING, "coming", "1002=2");
        usleep(20);
        remove_qos(QOS_COMING);
        usleep(20);
        atomic_fetch_add(&pushes, 1);
    }
    return unused;
}

static void start(pthread_t *thread, void *(*run)(void *), uintptr_t argument) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    if (pthread_create(thread, &attributes, run, (void *)argument) != 0) give_up("no more threads");
    pthread_attr_destroy(&attributes);
}

static void run_phase(unsigned threads, unsigned calls_each) {
    pthread_t submitters[threads], others[3];
    calls = calls_each;
    over = false;
    start(&others[0], update_many, 0);
    start(&others[1], edit_many, 0);
    start(&others[2], push_many, 0);
    for (unsigned i = 0; i < threads; i++) start(&submitters[i], submit_many, (i + 1) * 7919);
    for (unsigned i = 0; i < threads; i++) pthread_join(submitters[i], NULL);
    over = true;
    for (unsigned i = 0; i < 3; i++) pthread_join(others[i], NULL);
}

static size_t resident_kib(void) {
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%*u %zu", &pages) != 1) give_up("cannot read /proc/self/statm");
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

// All arenas; called when no thread of ours is left, so nothing hides in a thread's own cache.
static size_t bytes_in_use(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

int main(int count, char **words) {
    if (count != 6)
        give_up("usage: storm SLURM.CONF PLUGIN THREADS CALLS BYTES\n"
                "BYTES: how much memory in use may grow (0: not looked at)");
    unsigned threads = (unsigned)atoi(words[3]), each = (unsigned)atoi(words[4]);
    size_t allowed = strtoul(words[5], NULL, 10);
    char path[4096];
    snprintf(path, sizeof path, "%.*s/gpushare.conf", (int)(strrchr(words[1], '/') - words[1]), words[1]);
    configuration = path;
    char counts[4200];
    snprintf(counts, sizeof counts, "%s.counts", path);
    unlink(counts);
    count_into(configuration, counts);
    start_daemon(words[1]);
    copy_and_free();
    plugin = load_plugin(words[2], "job_submit/gpushare");

    printf("%u threads, %u submissions each\n", threads, each); // stdout gets its buffer before memory is weighed
    warming_up = true;
    run_phase(threads, each / 10 + 1);
    warming_up = false;
    size_t resident = resident_kib(), used = bytes_in_use();
    run_phase(threads, each - each / 10);
    long grown = (long)(bytes_in_use() - used), grown_kib = (long)(resident_kib() - resident);
    printf("%lu submissions, %lu updates, %lu edits, %lu changes of QOSes: %lu wrong\n", submissions, updates_done, edits,
           pushes, wrong);
    long counted = counted_refusals(counts);
    printf("%lu refused, %ld counted\n", refusals, counted);
    if (counted < 0 || (unsigned long)counted != refusals) {
        printf("WRONG: %lu were refused, and %ld are counted in %s\n", refusals, counted, counts);
        wrong++;
    }
    printf("memory in use: %zu bytes after a tenth, %+ld at the end; resident: %zu KiB, %+ld\n", used, grown, resident,
           grown_kib);
    if (allowed && grown > (long)allowed) {
        printf("WRONG: memory in use grew by %ld bytes; %zu are allowed\n", grown, allowed);
        wrong++;
    }
    if (allowed && grown_kib > RESIDENT_KIB) {
        printf("WRONG: resident memory grew by %ld KiB; %d are allowed\n", grown_kib, RESIDENT_KIB);
        wrong++;
    }
    return wrong ? 1 : 0;
}
