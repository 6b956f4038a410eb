// SPDX-License-Identifier: GPL-2.0-or-later
//
// variables_spank.so: a SPANK plugin that sets nine variables in user_init, as spank_gpushare.so does for a share, and does
// nothing else. What a step takes longer with it is Slurm's own work for them.
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdio.h>

SPANK_PLUGIN(variables, 1)

int slurm_spank_user_init(spank_t spank, int count, char *arguments[]) {
    (void)count, (void)arguments;
    for (int i = 0; i < 9; i++) {
        char name[32];
        snprintf(name, sizeof name, "BENCH_VARIABLE_%d", i);
        if (spank_setenv(spank, name, "GPU-00000000-0000-0000-0000-000000000000", 1) != ESPANK_SUCCESS) return -1;
    }
    return 0;
}
