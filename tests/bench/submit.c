// SPDX-License-Identifier: GPL-2.0-or-later
//
// submit: a client that submits as cheaply and as evenly as can be. Runs in a box, as a user who may use qos_lafferty.
// Decides: what a submission of the bench is (one a40, typed, under qos_lafferty, held, so that it never starts).
// Touches: the box's slurmctld only; every job is cancelled after the visit that made it, outside of the time taken.
//
// Reads lines "library N" (libslurm, as sbatch calls it) or "sbatch N" (the command, from its start to its end), makes
// N submissions and answers with one line of N times in nanoseconds. "parallel N": 8 processes at once run sbatch N times
// each; the answer is one time, that of all divided by their number. Ends at the end of its input or at an error.
// "library N NAME" gives the jobs that name. "submit QOS ACCOUNT" submits under these.
#define _GNU_SOURCE // pipe2
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

#define MOST 1000    // submissions a visit
#define AT_ONCE 8    // processes of a parallel visit
#define PATIENCE 120 // seconds a visit; then SIGALRM ends the program

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
#define A40 "gres/gpu:a40:1" // what sbatch makes of --gres=gpu:a40:1
#else
#define A40 "gres:gpu:a40:1"
#endif
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
#define JOB_ID(response) (response)->step_id.job_id
#else
#define JOB_ID(response) (response)->job_id
#endif

static void fail(const char *what) {
    fprintf(stderr, "submit: %s: %s\n", what, slurm_strerror(errno));
    exit(1);
}

static char name[32], *qos = "qos_lafferty", *account;

static unsigned submit_by_library(void) {
    static char *environment[] = {"PATH=/usr/bin:/bin", NULL};
    job_desc_msg_t job;
    submit_response_msg_t *response = NULL;
    slurm_init_job_desc_msg(&job);
    job.name = name;
    job.qos = qos;
    job.account = account;
    job.tres_per_node = A40;
    job.script = "#!/bin/sh\ntrue\n";
    job.work_dir = "/tmp";
    job.std_out = job.std_err = job.std_in = "/dev/null";
    job.environment = environment;
    job.env_size = 1;
    job.user_id = getuid();
    job.group_id = getgid();
    job.min_nodes = job.num_tasks = job.min_cpus = 1;
    job.priority = 0; // held
    if (slurm_submit_batch_job(&job, &response) != SLURM_SUCCESS) fail("submission");
    unsigned id = JOB_ID(response);
    slurm_free_submit_response_response_msg(response);
    return id;
}

static unsigned submit_by_sbatch(void) {
    static char *command[] = {"sbatch", "--parsable", "--hold", "--job-name=bench", "--qos=qos_lafferty",
                              "--gres=gpu:a40:1", "--chdir=/tmp", "--output=/dev/null", "--wrap=true", NULL};
    extern char **environ;
    int ends[2], status;
    char answer[64] = "";
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    if (posix_spawnp(&pid, command[0], &actions, NULL, command, environ) != 0) fail("sbatch");
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    ssize_t size = read(ends[0], answer, sizeof answer - 1);
    if (waitpid(pid, &status, 0) != pid || status != 0 || size <= 0) fail("sbatch");
    close(ends[0]);
    return (unsigned)strtoul(answer, NULL, 10);
}

static void cancel(unsigned job) {
    char text[16];
    snprintf(text, sizeof text, "%u", job);
    if (slurm_kill_job2(text, SIGKILL, 0, NULL) != SLURM_SUCCESS) fail("cancelling");
}

static void visit(unsigned (*submit)(void), int count) {
    unsigned jobs[MOST];
    long long times[MOST];
    for (int i = 0; i < count; i++) {
        long long start = now();
        jobs[i] = submit();
        times[i] = now() - start;
    }
    for (int i = 0; i < count; i++) cancel(jobs[i]);
    for (int i = 0; i < count; i++) printf("%lld%c", times[i], i + 1 < count ? ' ' : '\n');
    fflush(stdout);
}

static void parallel_visit(int count) {
    unsigned job;
    int ends[2], status;
    if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
    long long start = now();
    for (int i = 0; i < AT_ONCE; i++) {
        pid_t pid = fork();
        if (pid < 0) fail("fork");
        if (pid > 0) continue;
        for (int n = 0; n < count; n++) {
            job = submit_by_sbatch();
            if (write(ends[1], &job, sizeof job) != sizeof job) fail("pipe");
        }
        _exit(0);
    }
    for (int i = 0; i < AT_ONCE; i++)
        if (wait(&status) < 0 || status != 0) fail("sbatch");
    long long time = (now() - start) / (AT_ONCE * count);
    close(ends[1]);
    while (read(ends[0], &job, sizeof job) == sizeof job) cancel(job);
    close(ends[0]);
    printf("%lld\n", time);
    fflush(stdout);
}

int main(int words, char **word) {
    char line[64], how[16];
    int count;
    if (words == 3) qos = word[1], account = word[2];
    slurm_init(NULL);
    while (fgets(line, sizeof line, stdin)) {
        strcpy(name, "bench");
        if (sscanf(line, "%15s %d %31s", how, &count, name) < 2 || count < 1 || count > MOST) {
            fprintf(stderr, "submit: not a visit: %s", line);
            return 2;
        }
        alarm(PATIENCE);
        if (strcmp(how, "parallel") == 0)
            parallel_visit(count);
        else
            visit(strcmp(how, "sbatch") == 0 ? submit_by_sbatch : submit_by_library, count);
        alarm(0);
    }
    return 0;
}
