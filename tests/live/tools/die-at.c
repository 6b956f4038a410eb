// SPDX-License-Identifier: GPL-2.0-or-later
//
// die-at.so: a plugin of slurmstepd that kills at one hook of one step. /lab/out/die-at has `STEP HOOK WHOM SLURMD`: WHOM is
// "slurmd", whose process is SLURMD, "slurmstepd", or "both"; "nobody" means that the hook fails. The file is removed
// first, so that only one process dies at it.
#include <signal.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

SPANK_PLUGIN(die_at, 1);

#ifndef FILE_NAME
#define FILE_NAME "/lab/out/die-at"
#endif

static const char *step_of(spank_t spank) {
    uint32_t step = 0;
    if (spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
        return "none";
    return step == SLURM_EXTERN_CONT ? "extern" : step == SLURM_BATCH_SCRIPT ? "batch" : "srun";
}

// The process that runs the hook, and slurmstepd where that is its parent.
static int die_at(spank_t spank, const char *hook, int in_task) {
    char step[20], at[40], whom[20];
    int slurmd = 0;
    uid_t user = geteuid();
    FILE *file = fopen(FILE_NAME, "r");
    if (!file)
        return 0;
    int words = fscanf(file, "%19s %39s %19s %d", step, at, whom, &slurmd);
    fclose(file);
    if (words != 4 || strcmp(at, hook) || strcmp(step, step_of(spank)))
        return 0;
    // user_init runs as the user, but can be root again.
    if (seteuid(0) || unlink(FILE_NAME))
        return 0;
    if (strcmp(whom, "slurmd") == 0 || strcmp(whom, "both") == 0)
        kill(slurmd, SIGKILL);
    if (strcmp(whom, "slurmd") == 0 || strcmp(whom, "nobody") == 0) {
        if (seteuid(user))
            _exit(1);
        return strcmp(whom, "nobody") ? 0 : -1;
    }
    if (in_task)
        kill(getppid(), SIGKILL);
    kill(getpid(), SIGKILL);
    return 0;
}

#define HOOK(name, in_task)                                                                                                     \
    int slurm_spank_##name(spank_t spank, int count, char **arguments) {                                                        \
        (void) count, (void) arguments;                                                                                         \
        return die_at(spank, #name, in_task);                                                                                   \
    }

HOOK(job_prolog, 0)
HOOK(init, 0)
HOOK(init_post_opt, 0)
HOOK(user_init, 0)
HOOK(task_init_privileged, 1)
HOOK(task_post_fork, 0)
