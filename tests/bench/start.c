// SPDX-License-Identifier: GPL-2.0-or-later
//
// start: times `srun true`, from its start to its end, with and without the SPANK plugin. Runs in a box, as a user, inside
// an allocation (as salloc's command).
// Decides: nothing. Touches: /lab/out/plugstack, which the node's plugstack.conf includes: a link to /lab/out/KIND. Every
// srun and every slurmstepd reads it anew.
//
// Reads lines "KIND", each the name of a file in /lab/out, and answers with the nanoseconds of one srun.
#define _DEFAULT_SOURCE // usleep
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

#define INCLUDED "/lab/out/plugstack"
#define PATIENCE 60 // seconds a visit; then SIGALRM ends the program
#define PAUSE 20000 // microseconds in which the slurmstepd of the visit before comes to its end

extern char **environ;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void change_to(const char *kind) {
    if (symlink(kind, INCLUDED ".new") != 0 || rename(INCLUDED ".new", INCLUDED) != 0) fail(INCLUDED);
}

static void start(void) {
    // Slurm may think for a while longer that the step before still runs: --overlap does not wait for that.
    char *command[] = {"srun", "--overlap", "true", NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&pid, command[0], &actions, NULL, command, environ) != 0) fail(command[0]);
    if (waitpid(pid, &status, 0) != pid || status != 0) fail("srun true");
    posix_spawn_file_actions_destroy(&actions);
}

int main(void) {
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        alarm(PATIENCE);
        change_to(line);
        usleep(PAUSE);
        long long begin = now();
        start();
        printf("%lld\n", now() - begin);
        fflush(stdout);
        alarm(0);
    }
    return 0;
}
