// SPDX-License-Identifier: GPL-2.0-or-later
//
// launch: runs a prolog and an epilog (gpushare's, or the bash scripts of original/), or /bin/true twice, at the least cost
// of its own (posix_spawn of a small static program), and takes the time from before the first starts to after the second
// ended. Runs in a box, as root.
// Decides: what the programs see of a job (what slurmd gives them: no variable of a login, not even PATH).
// Touches: the box's ledger and the scripts' state (through the programs), and /dev/log: in the place of the box's syslog,
// which would take time of a processor, it takes the lines, between two visits, and drops them.
//
// Reads lines "share", "no-share", "bash-ls", "bash-glob" or "true" and answers each with "NANOSECONDS KIB": the time of
// both programs, and the peak memory of the first.
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

#define OTHERS 7    // shares on the node beside the measured one: two on each of four GPUs, with it
#define PATIENCE 60 // seconds a visit; then SIGALRM ends the program

static char id[32], id_too[32];
// As slurmd 24.11 sets it. What only a job with a share has comes first, so that the rest is a job's without one.
static char *environment[] = {
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=12", "SPANK_GPUSHARE_SHARE=mps:40", "CUDA_VISIBLE_DEVICES=0", "SLURM_JOB_GPUS=0",
    id, id_too, "SLURM_JOB_USER=alice", "SLURM_JOB_UID=2001", "SLURM_UID=2001", "SLURM_JOB_GID=2001",
    "SLURM_JOB_RESTART_COUNT=0", "SLURM_JOB_ACCOUNT=course", "SLURM_JOB_PARTITION=p", "SLURM_JOB_NUM_NODES=1",
    "SLURM_JOB_CPUS_PER_NODE=1", "SLURM_JOB_NODELIST=node", "SLURM_NODELIST=node", "SLURMD_NODENAME=node",
    "SLURM_JOB_CORE_SPEC_COUNT=0", "SLURM_JOB_CORE_SPEC_TYPE=cores", "SLURM_JOB_OVERSUBSCRIBE=OK",
    "SLURM_JOB_STDIN=/dev/null", "SLURM_JOB_STDOUT=/dev/null", "SLURM_JOB_WORK_DIR=/home/alice",
    "SLURM_JOB_START_TIME=1767225600", "SLURM_JOB_END_TIME=1767229200", "SLURM_CLUSTER_NAME=lab",
    "SLURM_CONF=/etc/slurm/slurm.conf", "SLURM_SCRIPT_CONTEXT=prolog_slurmd", NULL};
#define NO_SHARE (environment + 4)

static posix_spawn_file_actions_t actions;
static int syslog_socket;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void open_syslog(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};
    syslog_socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unlink(address.sun_path);
    if (syslog_socket < 0 || bind(syslog_socket, (struct sockaddr *)&address, sizeof address) != 0) fail("/dev/log");
}

static void empty_syslog(void) {
    char line[1024];
    while (recv(syslog_socket, line, sizeof line, 0) > 0) continue;
}

static long run(char **command, char **variables) { // gives its peak memory
    struct rusage usage;
    pid_t pid;
    int status;
    if (posix_spawn(&pid, command[0], &actions, NULL, command, variables) != 0) fail(command[0]);
    if (wait4(pid, &status, 0, &usage) != pid || status != 0) fail(command[0]);
    return usage.ru_maxrss;
}

static void next_job(void) {
    static unsigned job;
    job++;
    snprintf(id, sizeof id, "SLURM_JOB_ID=%u", job);
    snprintf(id_too, sizeof id_too, "SLURM_JOBID=%u", job);
}

static void visit(char **first, char **second, char **variables) {
    next_job();
    long long start = now();
    long peak = run(first, variables);
    run(second, variables);
    printf("%lld %ld\n", now() - start, peak);
    fflush(stdout);
    empty_syslog();
}

int main(void) {
    char line[64], state[] = "/run/original";
    char *prolog[] = {"/usr/sbin/gpushare-prolog", NULL}, *epilog[] = {"/usr/sbin/gpushare-epilog", NULL};
    char *by_ls[] = {"/usr/local/sbin/prolog", state, "ls", NULL};
    char *by_glob[] = {"/usr/local/sbin/prolog", state, "glob", NULL};
    char *original_epilog[] = {"/usr/local/sbin/epilog", state, NULL};
    char *yes[] = {"/bin/true", NULL};
    open_syslog();
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    for (int i = 0; i < OTHERS; i++) {
        next_job();
        run(prolog, environment);
        run(by_ls, environment);
        empty_syslog();
    }
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        alarm(PATIENCE);
        if (strcmp(line, "share") == 0) visit(prolog, epilog, environment);
        else if (strcmp(line, "no-share") == 0) visit(prolog, epilog, NO_SHARE);
        else if (strcmp(line, "bash-ls") == 0) visit(by_ls, original_epilog, environment);
        else if (strcmp(line, "bash-glob") == 0) visit(by_glob, original_epilog, environment);
        else if (strcmp(line, "true") == 0) visit(yes, yes, environment);
        else {
            fprintf(stderr, "launch: not a visit: %s\n", line);
            return 2;
        }
        alarm(0);
    }
    return 0;
}
