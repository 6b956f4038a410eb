// SPDX-License-Identifier: GPL-2.0-or-later
//
// user-init.so: a plugin of slurmstepd that does what pyxis does for containers. In `user_init` it runs a program as
// the job's user, as pyxis runs enroot; what that could open is added to /lab/out/user-init. Where the directory
// /lab/out/root/bin is there, `task_init` makes /lab/out/root the task's root, with the node's /proc and, where it has
// directories for them, MPS's and /dev/shm.
#define _GNU_SOURCE
#include <sched.h>
#include <slurm/spank.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

SPANK_PLUGIN(user_init, 1);

#define ROOT "/lab/out/root"
static const char *const MORE[] = {ROOT "/run/gpushare/mps", ROOT "/dev/shm"};

int slurm_spank_user_init(spank_t spank, int count, char **arguments) {
    (void) spank, (void) count, (void) arguments;
    uid_t user = geteuid();
    pid_t child = fork();
    if (child == 0) {
        int done = setresuid(user, user, user) || system("/lab/open-gpus >>/lab/out/user-init 2>&1");
        _exit(done != 0);
    }
    return child > 0 && waitpid(child, NULL, 0) == child ? 0 : -1;
}

int slurm_spank_task_init(spank_t spank, int count, char **arguments) {
    (void) spank, (void) count, (void) arguments;
    if (access("/lab/out/root/bin", F_OK))
        return 0;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) || mount("/proc", "/lab/out/root/proc", NULL, MS_BIND | MS_REC, NULL))
        return -1;
    for (unsigned index = 0; index < sizeof MORE / sizeof *MORE; index++)
        if (!access(MORE[index], F_OK) && mount(MORE[index] + sizeof ROOT - 1, MORE[index], NULL, MS_BIND, NULL))
            return -1;
    return chroot("/lab/out/root") || chdir("/") ? -1 : 0;
}
