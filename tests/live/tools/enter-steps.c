// SPDX-License-Identifier: GPL-2.0-or-later
//
// enter-steps HIERARCHY SECONDS: as a user, goes into every directory of a step of his other jobs in that cgroup v1
// hierarchy that he can make a directory in, again and again, and opens the GPUs of /lab/gpus there. Prints, at the end
// and at SIGTERM:
//	entered=3 open=0,2
// "entered" counts the steps, "open" is every GPU that opened anywhere (ENXIO: the cgroup let us through).
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MOST 16

static char gpus[MOST][80];
static int count, entered, opened[MOST];
static volatile sig_atomic_t ended;

static void end(int signal) {
    (void)signal;
    ended = 1;
}

static void read_gpus(void) {
    char line[512], name[64];
    FILE *file = fopen("/lab/gpus", "re");
    while (file && count < MOST && fgets(line, sizeof line, file))
        if (sscanf(line, "%63s", name) == 1 && name[0] != '#') snprintf(gpus[count++], sizeof gpus[0], "/dev/%s", name);
}

static void open_gpus(void) {
    for (int i = 0; i < count; i++) {
        int file = open(gpus[i], O_RDWR | O_CLOEXEC);
        if (file >= 0 || errno == ENXIO) opened[i] = 1;
        if (file >= 0) close(file);
    }
}

static void enter(const char *step, const char *own_job) {
    char path[4200];
    if (strstr(step, own_job)) return;
    int length = snprintf(path, sizeof path, "%s/entered-%d", step, getpid());
    if (mkdir(path, 0755) != 0) return;
    snprintf(path + length, sizeof path - (size_t)length, "/cgroup.procs");
    int procs = open(path, O_WRONLY | O_CLOEXEC);
    if (procs >= 0 && write(procs, "0", 1) == 1) {
        entered++;
        open_gpus();
    }
    if (procs >= 0) close(procs);
}

int main(int argc, char **argv) {
    char pattern[200], own_job[40];
    if (argc != 3) return 2;
    snprintf(own_job, sizeof own_job, "/job_%s/", getenv("SLURM_JOB_ID") ? getenv("SLURM_JOB_ID") : "-");
    snprintf(pattern, sizeof pattern, "/sys/fs/cgroup/%s/slurm*/uid_%d/job_*/step_*", argv[1], getuid());
    signal(SIGTERM, end);
    read_gpus();
    for (time_t last = time(NULL) + atoi(argv[2]); !ended && time(NULL) < last;) {
        glob_t found;
        if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0)
            for (size_t i = 0; i < found.gl_pathc; i++) enter(found.gl_pathv[i], own_job);
        globfree(&found);
    }
    printf("entered=%d open=", entered);
    int any = 0;
    for (int i = 0; i < count; i++)
        if (opened[i]) printf("%s%d", any++ ? "," : "", i);
    printf("%s\n", any ? "" : "-");
    return 0;
}
