// SPDX-License-Identifier: GPL-2.0-or-later
//
// speed: time inside job_submit(), Slurm's own look-ups taken out, with more and more QOSes; and Slurm's job_submit/lua
// with an equivalent script in the same process. Prints; checks nothing.
#include "cases.h"
#include "lookups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 20000

static const unsigned qos_counts[] = {10, 100, 2000, 10000};
#define STEPS (sizeof qos_counts / sizeof *qos_counts)

typedef struct {
    int64_t ours[MOST], whole[MOST], slurms[MOST], lua[MOST];
    int64_t calls;
} sample_t;
static sample_t samples[CASES];

typedef struct {
    int64_t ours, ours_p99, whole, slurms, calls, lua;
} figures_t;

static overhead_t overhead;

// The whole call without what measuring adds to it; `lookups` then holds Slurm's part.
static int64_t time_call(const plugin_t *plugin, const measured_t *timed) {
    job_desc_msg_t *job = describe(&timed->request);
    char *message = NULL;
    lookups = (lookups_t){0};
    int64_t start = now();
    int code = plugin->submit(job, timed->request.user, &message);
    int64_t whole = now() - start - overhead.clock - lookups.calls * overhead.wrapper;
    if ((code != SLURM_SUCCESS) != (timed->request.rule != NULL))
        give_up("'%s' was answered with %d: %s", timed->title, code, message ? message : "no message");
    slurm_xfree((void **)&message);
    slurm_free_job_desc_msg(job);
    return whole;
}

// The cases take turns, so what slows the machine down slows all of them.
static void measure(const plugin_t *ours, const plugin_t *lua, unsigned calls, figures_t *figures) {
    for (int i = -100; i < (int)calls; i++) {
        for (unsigned c = 0; c < CASES; c++) {
            unsigned at = i < 0 ? 0 : (unsigned)i;
            samples[c].whole[at] = time_call(ours, &cases[c]);
            samples[c].slurms[at] = lookups.inside;
            samples[c].ours[at] = samples[c].whole[at] - lookups.inside;
            samples[c].calls = lookups.calls;
            if (lua && cases[c].lua) samples[c].lua[at] = time_call(lua, &cases[c]);
        }
    }
    for (unsigned c = 0; c < CASES; c++) {
        figures[c].ours = median_of(samples[c].ours, calls);
        figures[c].ours_p99 = samples[c].ours[calls * 99 / 100];
        figures[c].whole = median_of(samples[c].whole, calls);
        figures[c].slurms = median_of(samples[c].slurms, calls);
        figures[c].lua = lua && cases[c].lua ? median_of(samples[c].lua, calls) : 0;
        figures[c].calls = samples[c].calls;
    }
}

static void print(figures_t figures[STEPS][CASES], unsigned calls) {
    printf("Slurm %d.%02d.%d, %u calls a line. Ratios are to the line of 10 QOSes; nanoseconds are of this run alone.\n",
           SLURM_VERSION_MAJOR(SLURM_VERSION_NUMBER), SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER),
           SLURM_VERSION_MICRO(SLURM_VERSION_NUMBER), calls);
    printf("%-22s %6s | %6s %6s | %8s %8s %9s %6s | %8s %9s\n", "", "QOSes", "ours", "p99", "ours ns", "p99 ns",
           "Slurm ns", "calls", "lua/ours", "lua/whole");
    for (unsigned c = 0; c < CASES; c++) {
        for (unsigned s = 0; s < STEPS; s++) {
            figures_t f = figures[s][c], base = figures[0][c];
            printf("%-22s %6u | %6.2f %6.2f | %8ld %8ld %9ld %6ld | ", cases[c].title, qos_counts[s],
                   (double)f.ours / (double)base.ours, (double)f.ours_p99 / (double)base.ours_p99, (long)f.ours,
                   (long)f.ours_p99, (long)f.slurms, (long)f.calls);
            if (f.lua) printf("%8.1f %9.1f\n", (double)f.lua / (double)f.ours, (double)f.lua / (double)f.whole);
            else printf("%8s %9s\n", "-", "-");
        }
    }
    printf("ours: the call without Slurm's look-ups, locks included; calls: how many of them (%ld ns each for noting\n"
           "them, taken out); lua: job_submit/lua's whole call, to ours and to gpushare's whole call\n",
           (long)overhead.wrapper);
}

static void grow_to(unsigned count) {
    static uint32_t next = FIRST_FILLER;
    static unsigned have = 4; // fill_accounting's
    char name[32];
    for (; have < count; have++, next++) {
        snprintf(name, sizeof name, "filler_%u", next);
        add_qos(next, name, next % 2 ? "1002=4" : NULL);
    }
    remove_qos(QOS_TAIL);
    add_qos(QOS_TAIL, "qos_tail", "1002=4");
}

int main(int argc, char **words) {
    static figures_t figures[STEPS][CASES];
    if (argc != 4 && argc != 5) give_up("usage: speed SLURM.CONF PLUGIN CALLS [JOB_SUBMIT_LUA.SO]");
    unsigned calls = (unsigned)atoi(words[3]);
    if (calls < 100 || calls > MOST) give_up("CALLS is 100 to %d", MOST);
    start_daemon(words[1]);
    plugin_t ours = load_plugin(words[2], "job_submit/gpushare"), lua;
    if (argc == 5) lua = load_plugin(words[4], "job_submit/lua");
    overhead = measure_overhead();
    for (unsigned s = 0; s < STEPS; s++) {
        grow_to(qos_counts[s]);
        measure(&ours, argc == 5 ? &lua : NULL, calls, figures[s]);
    }
    print(figures, calls);
    return 0;
}
