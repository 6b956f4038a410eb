// SPDX-License-Identifier: GPL-2.0-or-later
//
// empty_spank.so: a SPANK plugin with the hooks of spank_gpushare.so that does nothing. What a step takes longer with it is
// the price of having any plugin at all.
#include <slurm/slurm.h>
#include <slurm/spank.h>

SPANK_PLUGIN(empty, 1)

static int nothing(spank_t spank, int count, char **arguments) {
    (void)spank, (void)count, (void)arguments;
    return 0;
}

int slurm_spank_init(spank_t spank, int count, char *arguments[]) { return nothing(spank, count, arguments); }
int slurm_spank_user_init(spank_t spank, int count, char *arguments[]) { return nothing(spank, count, arguments); }
int slurm_spank_task_post_fork(spank_t spank, int count, char *arguments[]) { return nothing(spank, count, arguments); }
int slurm_spank_task_init(spank_t spank, int count, char *arguments[]) { return nothing(spank, count, arguments); }
int slurm_spank_exit(spank_t spank, int count, char *arguments[]) { return nothing(spank, count, arguments); }
