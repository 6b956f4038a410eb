// SPDX-License-Identifier: GPL-2.0-or-later
//
// submit-raw QOS TRES_PER_NODE [NAME=VALUE...]: submits a batch job as a program of a user's own can, with strings that
// sbatch would never send and job control variables of the user's choice. TRES_PER_NODE may be @FILE. Prints the job's
// number, or Slurm's error and exits with 1. Its script shows nothing and sleeps.
#include <errno.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
#define JOB_ID(response) (response)->step_id.job_id
#else
#define JOB_ID(response) (response)->job_id
#endif

static char *contents(const char *path) {
    static char text[4 << 20];
    FILE *file = fopen(path, "r");
    if (!file) {
        perror(path);
        exit(2);
    }
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

int main(int count, char **arguments) {
    static char *environment[] = {"PATH=/usr/bin:/bin", NULL};
    job_desc_msg_t job;
    submit_response_msg_t *response = NULL;
    if (count < 3)
        return 2;
    slurm_init(NULL);
    slurm_init_job_desc_msg(&job);
    job.name = "raw";
    job.qos = arguments[1];
    job.tres_per_node = arguments[2][0] == '@' ? contents(arguments[2] + 1) : arguments[2];
    job.script = "#!/bin/sh\nsleep 60\n";
    job.work_dir = "/tmp";
    job.std_out = job.std_err = job.std_in = "/dev/null";
    job.environment = environment;
    job.env_size = 1;
    job.user_id = getuid();
    job.group_id = getgid();
    job.min_nodes = 1;
    job.spank_job_env = arguments + 3;
    job.spank_job_env_size = count - 3;
    if (slurm_submit_batch_job(&job, &response)) {
        fprintf(stderr, "submit-raw: %s\n", slurm_strerror(errno));
        return 1;
    }
    printf("%u\n", JOB_ID(response));
    return 0;
}
