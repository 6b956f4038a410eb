// SPDX-License-Identifier: GPL-2.0-or-later
//
// costly TIMES NAME=TEXT...: submits a job with these texts so often, as a program of a user's own can, which checks
// nothing before. Says nothing about the answers; slurmctld's plugin notes the times.
#include <slurm/slurm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words) {
    static char *environment[] = {"PATH=/usr/bin:/bin", NULL};
    job_desc_msg_t job;
    if (count < 2) return 2;
    slurm_init(NULL);
    slurm_init_job_desc_msg(&job);
    const struct {
        const char *name;
        char **place;
    } texts[] = {
        {"qos", &job.qos},
        {"account", &job.account},
        {"partition", &job.partition},
        {"tres_per_node", &job.tres_per_node},
        {"tres_per_job", &job.tres_per_job},
        {"tres_per_task", &job.tres_per_task},
        {"tres_per_socket", &job.tres_per_socket},
        {"cpus_per_tres", &job.cpus_per_tres},
        {"mem_per_tres", &job.mem_per_tres},
    };
    for (int i = 2; i < count; i++) {
        char *text = strchr(words[i], '=');
        if (!text) return 2;
        *text++ = 0;
        for (unsigned t = 0; t < sizeof texts / sizeof *texts; t++)
            if (strcmp(texts[t].name, words[i]) == 0) *texts[t].place = text;
    }
    job.name = "costly";
    job.script = "#!/bin/sh\n";
    job.work_dir = "/tmp";
    job.environment = environment;
    job.env_size = 1;
    job.user_id = getuid();
    job.group_id = getgid();
    job.min_nodes = 1;
    job.priority = 0;
    for (int i = atoi(words[1]); i > 0; i--) {
        submit_response_msg_t *response = NULL;
        if (slurm_submit_batch_job(&job, &response) == SLURM_SUCCESS) slurm_free_submit_response_response_msg(response);
    }
    return 0;
}
