// SPDX-License-Identifier: GPL-2.0-or-later
//
// used COMMAND...: runs a command without its output and prints "NANOSECONDS KIB STATUS": how long it took, its own peak
// memory without that of programs that it ran, and how it ended. Runs in a box.
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

#define PAUSE 1000 // microseconds between two looks at its peak memory, which only grows

extern char **environ;

static long peak(pid_t pid) {
    char path[64], line[256];
    long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "VmHWM: %ld", &kib);
    if (file) fclose(file);
    return kib;
}

int main(int count, char **command) {
    long kib = 0, found;
    int status;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (count < 2) return 2;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    long long start = now();
    if (posix_spawnp(&pid, command[1], &actions, NULL, command + 1, environ) != 0) {
        perror(command[1]);
        return 1;
    }
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if ((found = peak(pid)) > kib) kib = found;
        usleep(PAUSE);
    }
    printf("%lld %ld %d\n", now() - start, kib, WIFEXITED(status) ? WEXITSTATUS(status) : 255);
    return 0;
}
