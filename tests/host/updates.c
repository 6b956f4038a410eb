// SPDX-License-Identifier: GPL-2.0-or-later
//
// Updates of jobs that exist, as `scontrol update` sends them.
#include "host.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    const char *name;
    fake_job_t job;            // as it is
    const char *qos, *node;    // what the update says
    bool refused;              // must be
    const char *account;       // what it says, too
} update_t;

#define KEEPS_OLD (!SINCE_23_02) // parts of the old request, so no job is moved in

static const update_t updates[] = {
    {"time limit", {ALICE, "qos_lafferty", GRES "gpu:a40:1", NULL, "p", "acct"}, NULL, NULL, false, NULL},
    {"into the QOS, untyped before", {ALICE, "free", GRES "gpu:2", NULL, "p", "acct"}, "qos_lafferty", NULL, true, NULL},
    {"into the QOS, restated, untyped before", {ALICE, "free", GRES "gpu:2", NULL, "p", "acct"}, "qos_lafferty", GRES "gpu:a40:2", true, NULL},
    {"into the QOS, restated", {ALICE, "free", GRES "gpu:a40:1", NULL, "p", "acct"}, "qos_lafferty", GRES "gpu:a40:2", KEEPS_OLD, NULL},
    {"untyped in the QOS", {BOB, "qos_lafferty", GRES "gpu:a40:2", NULL, "p", "acct"}, NULL, GRES "gpu:2", true, NULL},
    {"typed in the QOS", {BOB, "qos_lafferty", GRES "gpu:a40:2", NULL, "p", "acct"}, NULL, GRES "gpu:a40:1", false, NULL},
    {"look-alike in the QOS", {BOB, "qos_lafferty", NULL, NULL, "p", "acct"}, NULL, GRES "gpu:mAA0zxtUzzzz:1", true, NULL},
    {"out of the QOS", {BOB, "qos_lafferty", GRES "gpu:a40:2", NULL, "p", "acct"}, "free", NULL, false, NULL},
    {"into the account", {ALICE, "free", GRES "gpu:a40:2", NULL, "p", "acct"}, NULL, NULL, true, "child"},
    {"into the account, restated, untyped before", {ALICE, "free", GRES "gpu:2", NULL, "p", "acct"}, NULL, GRES "gpu:a40:2", true, "child"},
    {"into the account, restated", {ALICE, "free", GRES "gpu:a40:1", NULL, "p", "acct"}, NULL, GRES "gpu:a40:2", KEEPS_OLD, "child"},
    {"untyped in the account", {ALICE, "free", GRES "gpu:a40:2", NULL, "p", "child"}, NULL, GRES "gpu:2", true, NULL},
    {"out of the account", {ALICE, "free", GRES "gpu:a40:2", NULL, "p", "child"}, NULL, NULL, false, "acct"},
    {"elsewhere", {ALICE, "free", NULL, GRES "gpu:1", "p", "acct"}, NULL, GRES "gpu:3", false, NULL},
};
const unsigned update_count = sizeof updates / sizeof *updates;

void copy_and_free(void) { // src/slurmctld/fed_mgr.c
    fake_job_t job = updates[0].job;
    job_desc_msg_t *copied = copy_job(&job);
    slurm_xfree((void **)&copied->environment[0]);
    slurm_xfree((void **)&copied->environment);
    copied->env_size = 0;
    slurm_free_job_desc_msg(copied);
}

bool update_and_check(const plugin_t *plugin, unsigned number) {
    const update_t *update = &updates[number % update_count];
    fake_job_t job = update->job;
    job_desc_msg_t *change = slurm_xcalloc(1, sizeof *change, true, false, __FILE__, __LINE__, __func__);
    slurm_init_job_desc_msg(change);
    change->user_id = job.user_id; // slurmctld writes it before it asks the plugins
    if (!update->qos && !update->node && !update->account) change->time_limit = 10; // a move is a command of its own
    change->qos = update->qos ? slurm_xstrdup(update->qos) : NULL;
    change->account = update->account ? slurm_xstrdup(update->account) : NULL;
    change->tres_per_node = update->node ? slurm_xstrdup(update->node) : NULL;
    char *message = NULL;
#if SINCE_23_02
    int code = plugin->modify(change, &job, job.user_id, &message);
    bool silent = code != SLURM_SUCCESS && !message;
#else
    int code = plugin->modify(change, &job, job.user_id);
    bool silent = false;
#endif
    if (code != SLURM_SUCCESS) atomic_fetch_add(&refusals, 1);
    bool right = !silent && (code != SLURM_SUCCESS) == update->refused;
    if (!right) printf("WRONG: update '%s': code %d, %.300s\n", update->name, code, message ? message : "no message");
    slurm_xfree((void **)&message);
    slurm_free_job_desc_msg(change);
    return right;
}
