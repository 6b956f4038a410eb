// SPDX-License-Identifier: GPL-2.0-or-later
//
// timed_spank.so: a SPANK plugin that stands in plugstack.conf in place of spank_gpushare.so, hands every call on to it, and
// notes how long it took. It has the hooks that spank_gpushare.so has, no others (steps.py makes sure of that), for Slurm
// does more work where there are more.
// In slurmstepd it adds a line "JOB STEP HOOK NANOSECONDS" to /lab/out/hooks for each call, and one for HOOK "load", the
// dlopen() of spank_gpushare.so. The file must be there and writable by all: task_init is called as the job's user.
// Elsewhere (srun, sbatch) it only hands on. Writing a line is outside of the time taken, and so is a call that fails,
// access("/lab/out/hooks/HOOK"), with which each hook begins for who traces system calls.
#define _GNU_SOURCE // dladdr
#include <dlfcn.h>
#include <fcntl.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

#define OUT "/lab/out/hooks"

SPANK_PLUGIN(timed, 1)

enum { INIT, USER_INIT, TASK_POST_FORK, TASK_INIT, EXIT, HOOKS };
static const char *const names[HOOKS] = {"init", "user_init", "task_post_fork", "task_init", "exit"};
static spank_f *hooks[HOOKS];

// One write(2) a line, so that those of other steps don't mix with it.
static void note(spank_t spank, const char *hook, long long time) {
    unsigned job = 0, step = 0;
    char line[128];
    if (spank_remote(spank) != 1) return;
    spank_get_item(spank, S_JOB_ID, &job);
    spank_get_item(spank, S_JOB_STEPID, &step);
    int length = snprintf(line, sizeof line, "%u %u %s %lld\n", job, step, hook, time);
    int file = open(OUT, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file < 0 || write(file, line, (size_t)length) != length) slurm_error("timed: %s: %m", OUT);
    if (file >= 0) close(file);
}

static int load(spank_t spank) {
    char path[4096], name[64];
    Dl_info self;
    long long start = now();
    if (!dladdr(plugin_name, &self)) return -1;
    snprintf(path, sizeof path, "%.*s/spank_gpushare.so", (int)(strrchr(self.dli_fname, '/') - self.dli_fname),
             self.dli_fname);
    void *handle = dlopen(path, RTLD_LAZY);
    if (!handle) {
        slurm_error("timed: %s", dlerror());
        return -1;
    }
    long long time = now() - start;
    for (int i = 0; i < HOOKS; i++) {
        snprintf(name, sizeof name, "slurm_spank_%s", names[i]);
        hooks[i] = (spank_f *)dlsym(handle, name);
        if (!hooks[i]) return -1;
    }
    note(spank, "load", time);
    return 0;
}

static int hand_on(int hook, spank_t spank, int count, char **arguments) {
    char begins[64];
    if (!hooks[hook] && load(spank) != 0) return -1;
    snprintf(begins, sizeof begins, OUT "/%s", names[hook]);
    access(begins, F_OK);
    long long start = now();
    int code = hooks[hook](spank, count, arguments);
    note(spank, names[hook], now() - start);
    return code;
}

int slurm_spank_init(spank_t spank, int count, char *arguments[]) { return hand_on(INIT, spank, count, arguments); }
int slurm_spank_user_init(spank_t spank, int count, char *arguments[]) {
    return hand_on(USER_INIT, spank, count, arguments);
}
int slurm_spank_task_post_fork(spank_t spank, int count, char *arguments[]) {
    return hand_on(TASK_POST_FORK, spank, count, arguments);
}
int slurm_spank_task_init(spank_t spank, int count, char *arguments[]) {
    return hand_on(TASK_INIT, spank, count, arguments);
}
int slurm_spank_exit(spank_t spank, int count, char *arguments[]) { return hand_on(EXIT, spank, count, arguments); }
