// SPDX-License-Identifier: GPL-2.0-or-later
//
// Submissions as they reach slurmctld's plugins, the answers that are right, and the comparison. The rules themselves
// are tested as tables elsewhere; here it is one of each kind, so that every path through Slurm's memory is walked.
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEBIBYTE (1U << 20)
#define LAFFERTY .qos = "qos_lafferty"

const request_t requests[] = {
    {"typed", ALICE, LAFFERTY, .node = GRES "gpu:a40:2"},
    {"typed, QOS in capitals", ALICE, .qos = "QOS_LAFFERTY", .job = GRES "gpu:a40:2"},
    {"typed, twice", ALICE, LAFFERTY, .node = GRES "gpu:a40:1," GRES "gpu:a40:2"},
    {.name = "CPU only", .user = ALICE},
    {"CPU only, governed", ALICE, LAFFERTY},
    {"ungoverned", ALICE, .qos = "free", .node = GRES "gpu:2", .account_after = "acct"},
    {"default, ungoverned", ALICE, .node = GRES "gpu:2", .qos_after = "normal", .account_after = "acct"},
    {"default, typed", BOB, .node = GRES "gpu:a40:1", .qos_after = "qos_lafferty"},
    {"no such QOS", ALICE, .qos = "nobody", .node = GRES "gpu:2"},
    {"share", ALICE, .qos = "free", .node = GRES "mps:40", .environment_after = {"GPUSHARE_SHARE=mps:40"}},
    {"share beside variables", ALICE, .node = GRES "mps:40", .qos_after = "normal",
     .environment = {"OTHER=1", "GPUSHARE_SHARE=mps:1", "SPANK_GPUSHARE_SHARE=mps:2"},
     .environment_after = {"OTHER=1", "GPUSHARE_SHARE=mps:40"}},
    {"forged share", ALICE, .environment = {"SPANK_GPUSHARE_SHARE=mps:9", "OTHER=2"}, .environment_after = {"OTHER=2"}},
    {"untouched variables", ALICE, .environment = {"A=1", "B=2"}, .environment_after = {"A=1", "B=2"}},
    {"untyped", ALICE, LAFFERTY, .node = GRES "gpu:2", .rule = "GS101"},
    {"untyped, --gpus", ALICE, LAFFERTY, .job = GRES "gpu", .rule = "GS101"},
    {"default, untyped", BOB, .node = GRES "gpu:1", .rule = "GS101"},
    {"share, governed", ALICE, LAFFERTY, .node = GRES "mps:40", .rule = "GS109", .certainty = BY_CONFIGURATION,
     .environment_after = {"GPUSHARE_SHARE=mps:40"}},
    {"share, default governed", BOB, .node = GRES "mps:40", .qos_after = "qos_lafferty", .rule = "GS109",
     .certainty = BY_CONFIGURATION, .environment_after = {"GPUSHARE_SHARE=mps:40"}},
    {"look-alike", ALICE, LAFFERTY, .node = GRES "gpu:mAA0zxtUzzzz:2", .rule = "GS102"},
    {"type in capitals", ALICE, LAFFERTY, .node = GRES "gpu:A40:1"},
    {"unreadable", ALICE, LAFFERTY, .node = GRES "gpu:a40=x=1", .rule = "GS104"},
    {"without a slash", ALICE, LAFFERTY, .node = "gresgpu:1", .rule = "GS104"},
    {"bytes", ALICE, LAFFERTY, .node = GRES "gpu:\xff\xfe\x01%s%n\x80:1", .rule = "GS104"},
    {"bytes, default", BOB, .job = "\xc3\x28\xa0\xa1\n\r\t\x7f" GRES, .rule = "GS104"},
    {"tasks for each GPU", ALICE, LAFFERTY, .ntasks_per_tres = 2, .rule = "GS105"},
    {"list", ALICE, .qos = "normal,qos_lafferty", .node = GRES "gpu:a40:1", .rule = "GS106"},
    {"comma form", ALICE, .qos = "qos_lafferty,--gres=gpu:a40:2", .rule = "GS107"},
    {"long GRES", ALICE, LAFFERTY, .node = GRES "gpu:", .filler = MEBIBYTE, .rule = "GS108"},
    {"long QOS", ALICE, .qos = "qos_lafferty", .filler = MEBIBYTE, .rule = "GS108"},
    {"foreign type", ALICE, LAFFERTY, .node = GRES "gpu:h100:1", .rule = "GS103", .certainty = BY_CONFIGURATION},
    {"account, typed", ALICE, .qos = "free", .account = "child", .node = GRES "gpu:a40:2"},
    {"account, foreign type", ALICE, .qos = "free", .account = "child", .node = GRES "gpu:h100:2"},
    {"account, untyped", ALICE, .qos = "free", .account = "child", .node = GRES "gpu:2", .rule = "GS101"},
    {"account, default QOS", ALICE, .account = "child", .node = GRES "gpu:2", .rule = "GS101"},
    {"account, look-alike", ALICE, .qos = "free", .account = "child", .job = GRES "gpu:mAA0zxtUzzzz", .rule = "GS102"},
    {"account, tasks", ALICE, .qos = "free", .account = "child", .ntasks_per_tres = 2, .rule = "GS105"},
    {"own limit, untyped", ALICE, .qos = "free", .account = "MINE", .node = GRES "gpu:2", .rule = "GS101"},
    {"own limit, share", ALICE, .qos = "free", .account = "mine", .node = GRES "mps:40",
     .environment_after = {"GPUSHARE_SHARE=mps:40"}},
    {"no such account", ALICE, .qos = "free", .account = "nobody", .node = GRES "gpu:2"},
    {"coming and going", ALICE, .qos = "coming", .node = GRES "gpu:1", .rule = "GS101", .certainty = BY_CONFIGURATION},
    {"coming, typed", ALICE, .qos = "coming", .node = GRES "gpu:a40:1"},
};
const unsigned request_count = sizeof requests / sizeof *requests;

const request_t *request_named(const char *name) {
    for (unsigned i = 0; i < request_count; i++) {
        if (strcmp(requests[i].name, name) == 0) return &requests[i];
    }
    give_up("no request is named '%s'", name);
}

atomic_ulong refusals;

static void *array_of(unsigned count) { // with Slurm's NULL at the end
    return slurm_xcalloc(count + 1, sizeof(char *), true, false, __FILE__, __LINE__, __func__);
}

static char *filled(const char *text, uint32_t filler) {
    if (!text) return NULL;
    if (filler == 0) return slurm_xstrdup(text);
    size_t length = strlen(text);
    char *all = slurm_xcalloc(1, length + filler + 1, true, false, __FILE__, __LINE__, __func__);
    memcpy(all, text, length);
    memset(all + length, 'x', filler);
    return all;
}

static char *copy(const char *text) {
    return filled(text, 0);
}

job_desc_msg_t *describe(const request_t *request) {
    job_desc_msg_t *job = slurm_xcalloc(1, sizeof *job, true, false, __FILE__, __LINE__, __func__);
    slurm_init_job_desc_msg(job);
    job->user_id = job->group_id = request->user;
    job->name = copy("job");
    job->script = copy("#!/bin/sh\ntrue\n");
    job->work_dir = copy("/tmp");
    job->environment = array_of(1);
    job->environment[0] = copy("PATH=/usr/bin:/bin");
    job->env_size = 1;
    job->qos = filled(request->qos, request->node ? 0 : request->filler);
    job->tres_per_node = filled(request->node, request->filler);
    job->tres_per_job = copy(request->job);
    job->account = copy(request->account);
    if (request->ntasks_per_tres) {
        job->ntasks_per_tres = request->ntasks_per_tres;
        job->num_tasks = 4;
    }
    unsigned variables = 0;
    while (variables < 4 && request->environment[variables]) variables++;
    if (variables) job->spank_job_env = array_of(variables);
    for (unsigned i = 0; i < variables; i++) job->spank_job_env[i] = copy(request->environment[i]);
    job->spank_job_env_size = variables;
    return job;
}

static bool same(const char *a, const char *b) {
    return (!a && !b) || (a && b && strcmp(a, b) == 0);
}

static const char *fault_of_acceptance(const request_t *request, const job_desc_msg_t *job) {
    if (request->qos_after ? !same(job->qos, request->qos_after) : !same(job->qos, request->qos)) return "wrong QOS";
    const char *account = request->account_after ? request->account_after : request->account;
    if (account ? !same(job->account, account) : job->account && !same(job->account, "acct")) return "wrong account";
    if (!same(job->tres_per_node, request->node) || !same(job->tres_per_job, request->job)) return "request changed";
    unsigned count = 0;
    while (count < 4 && request->environment_after[count]) count++;
    if (job->spank_job_env_size != count) return "wrong number of variables";
    for (unsigned i = 0; i < count; i++) {
        if (!same(job->spank_job_env[i], request->environment_after[i])) return "wrong variable";
    }
    return count && job->spank_job_env[count] ? "variables do not end in NULL" : NULL;
}

static const char EARLIER[] = "said by an earlier plugin";

static const char *fault_of_message(const request_t *request, const char *message, bool earlier) {
    if (!message) return "refused without a message";
    if (earlier && strncmp(message, EARLIER, sizeof EARLIER - 1) != 0) return "lost the earlier message";
    return strstr(message, request->rule) ? NULL : "refused by another rule";
}

static int code_of(const request_t *request) {
    bool about_qos = strcmp(request->rule, "GS106") == 0 || strcmp(request->rule, "GS107") == 0;
    return about_qos ? ESLURM_INVALID_QOS : ESLURM_INVALID_GRES;
}

static const char *fault_of_answer(const request_t *request, int code, const job_desc_msg_t *job, const char *message,
                                   bool earlier) {
    if (code == SLURM_SUCCESS) {
        if (request->rule && request->certainty == ALWAYS) return "accepted";
        if (earlier ? !same(message, EARLIER) : message != NULL) return "accepted, but the message changed";
        return fault_of_acceptance(request, job);
    }
    if (!request->rule) return "refused";
    if (code != code_of(request)) return "wrong code";
    return fault_of_message(request, message, earlier);
}

bool submit_and_check(const plugin_t *plugin, const request_t *request, bool earlier) {
    job_desc_msg_t *job = describe(request);
    char *message = earlier ? slurm_xstrdup(EARLIER) : NULL;
    int code = plugin->submit(job, request->user, &message);
    if (code != SLURM_SUCCESS) atomic_fetch_add(&refusals, 1);
    const char *fault = fault_of_answer(request, code, job, message, earlier);
    if (fault) printf("WRONG: submission '%s': %s (code %d, %.300s)\n", request->name, fault, code, message);
    slurm_xfree((void **)&message);
    slurm_free_job_desc_msg(job);
    return !fault;
}
