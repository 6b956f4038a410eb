// SPDX-License-Identifier: GPL-2.0-or-later
//
// One moment of the cluster: a line for each job and node, fields separated by tabs, NAME=VALUE. Jobs are read before and after
// the nodes, until nothing has started or ended in between.
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void text(const char *name, const char *value) {
    if (value && *value) {
        printf("\t%s=", name);
        print_quoted(value);
    }
}

static void print_job(const slurm_job_info_t *job) {
    printf("job\tid=%u\tstate=%u\tuser=%u\treason=%u\tnodes_n=%u\ttasks=%u\tarray=%u\ttask=%u\thet=%u\twhole=%d",
           JOB_ID(job), job->job_state, job->user_id, job->state_reason, job->num_nodes, job->num_tasks, job->array_job_id,
           job->array_task_id, job->het_job_id, job->shared == JOB_SHARED_NONE || job->core_spec != NO_VAL16);
    text("account", job->account);
    text("qos", job->qos);
    text("partition", job->partition);
    text("reservation", job->resv_name);
    text("nodes", job->nodes);
    text("requested", job->tres_req_str);
    text("allocated", job->tres_alloc_str);
    text("per_job", job->tres_per_job);
    text("per_node", job->tres_per_node);
    text("per_socket", job->tres_per_socket);
    text("per_task", job->tres_per_task);
    text("cpus_per", job->cpus_per_tres);
    text("mem_per", job->mem_per_tres);
    for (uint32_t i = 0; i < job->gres_detail_cnt; i++)
        text("detail", job->gres_detail_str[i] && *job->gres_detail_str[i] ? job->gres_detail_str[i] : "-");
    putchar('\n');
}

static int same(const job_info_msg_t *first, const job_info_msg_t *second) {
    if (first->record_count != second->record_count)
        return 0;
    for (uint32_t i = 0; i < first->record_count; i++)
        if (JOB_ID(&first->job_array[i]) != JOB_ID(&second->job_array[i]) ||
            first->job_array[i].job_state != second->job_array[i].job_state)
            return 0;
    return 1;
}

int look(void) {
    job_info_msg_t *first = NULL, *second = NULL;
    node_info_msg_t *nodes = NULL;
    int tries = 5, steady = 0, failed = 0;
    while (tries-- && !steady && !failed) {
        failed = slurm_load_jobs(0, &first, SHOW_ALL | SHOW_DETAIL) || slurm_load_node(0, &nodes, SHOW_ALL | SHOW_DETAIL) ||
                 slurm_load_jobs(0, &second, SHOW_ALL | SHOW_DETAIL);
        if (!failed && ((steady = same(first, second)) || !tries)) {
            for (uint32_t i = 0; i < second->record_count; i++)
                print_job(&second->job_array[i]);
            for (uint32_t i = 0; i < nodes->record_count; i++) {
                printf("node\tname=%s\tstate=%u", nodes->node_array[i].name, nodes->node_array[i].node_state);
                text("gres", nodes->node_array[i].gres);
                text("used", nodes->node_array[i].gres_used);
                putchar('\n');
            }
            printf("steady\t%d\n", steady);
        }
        if (first)
            slurm_free_job_info_msg(first);
        if (second)
            slurm_free_job_info_msg(second);
        if (nodes)
            slurm_free_node_info_msg(nodes);
        first = second = NULL;
        nodes = NULL;
    }
    return failed ? (errno ? errno : SLURM_ERROR) : 0;
}
