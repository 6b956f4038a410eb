// SPDX-License-Identifier: GPL-2.0-or-later
//
// queue: fills a cluster of tests/bench/scale with jobs, each with a record of its own. Runs in a box, as root, for the
// users u0, u1, ... whose numbers begin with 30000.
// Decides: what the jobs are. One of four asks for a share; the others for a GPU by type, under a group's QOS.
//
// "queue running NODES GROUPS USERS": four jobs for each node c1, c2, ...; "queue pending JOBS GROUPS USERS": for any node.
#include <errno.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_USER 30000

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
#define GRES "gres/" // what sbatch makes of --gres
#else
#define GRES "gres:"
#endif

static void submit(unsigned group, unsigned users, const char *gres, const char *node) {
    static char *environment[] = {"PATH=/usr/bin:/bin", NULL};
    char qos[32], account[32];
    job_desc_msg_t job;
    submit_response_msg_t *response = NULL;
    slurm_init_job_desc_msg(&job);
    snprintf(qos, sizeof qos, "qos_%u", group);
    snprintf(account, sizeof account, "group_%u", group);
    job.name = "train";
    job.qos = strstr(gres, "mps") ? "normal" : qos;
    job.account = account;
    job.tres_per_node = (char *)gres;
    job.req_nodes = (char *)node;
    job.script = "#!/bin/sh\ntrue\n";
    job.work_dir = "/tmp";
    job.std_out = job.std_err = job.std_in = "/dev/null";
    job.environment = environment;
    job.env_size = 1;
    job.user_id = job.group_id = FIRST_USER + group % users;
    job.min_nodes = job.num_tasks = job.min_cpus = 1;
    job.time_limit = 24 * 60;
    if (slurm_submit_batch_job(&job, &response) != SLURM_SUCCESS) {
        fprintf(stderr, "queue: a job of group %u: %s\n", group, slurm_strerror(errno));
        exit(1);
    }
    slurm_free_submit_response_response_msg(response);
}

int main(int count, char **words) {
    if (count != 5) return 2;
    unsigned number = atoi(words[2]), groups = atoi(words[3]), users = atoi(words[4]);
    slurm_init(NULL);
    if (strcmp(words[1], "running") == 0) {
        for (unsigned node = 1; node <= number; node++) {
            char name[16];
            unsigned is_h100 = node > number / 2, group = (2 * node + is_h100) % groups;
            snprintf(name, sizeof name, "c%u", node);
            submit(group, users, is_h100 ? GRES "gpu:h100:1" : GRES "gpu:a40:1", name);
            for (unsigned share = 0; share < 3; share++) submit((group + share) % groups, users, GRES "mps:40", name);
        }
    } else {
        for (unsigned job = 0; job < number; job++) {
            unsigned group = job % groups;
            submit(group, users, job % 4 == 3 ? GRES "mps:40" : group % 2 ? GRES "gpu:h100:1" : GRES "gpu:a40:1", NULL);
        }
    }
    return 0;
}
