// SPDX-License-Identifier: GPL-2.0-or-later
//
// job_submit_switched.so: a plugin for slurmctld that asks gpushare about a submission, or nobody about a job named
// "none", so that both take turns in one slurmctld.
#define _GNU_SOURCE // dladdr
#include <dlfcn.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h> // slurm_error()
#include <stdio.h>
#include <string.h>

const char plugin_name[] = "asks gpushare or nobody", plugin_type[] = "job_submit/switched";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;

static int (*submit)(job_desc_msg_t *, uint32_t, char **);

int init(void) {
    char path[4096];
    Dl_info self;
    if (!dladdr(plugin_name, &self)) return SLURM_ERROR;
    int folder = (int)(strrchr(self.dli_fname, '/') - self.dli_fname);
    snprintf(path, sizeof path, "%.*s/job_submit_gpushare.so", folder, self.dli_fname);
    void *handle = dlopen(path, RTLD_LAZY);
    int (*start)(void) = handle ? (int (*)(void))dlsym(handle, "init") : NULL;
    if (start && start() == SLURM_SUCCESS) *(void **)&submit = dlsym(handle, "job_submit");
    if (!submit) slurm_error("job_submit/switched: cannot load %s", path);
    return submit ? SLURM_SUCCESS : SLURM_ERROR;
}

int job_submit(job_desc_msg_t *job, uint32_t submitter, char **message) {
    return job->name && strcmp(job->name, "none") == 0 ? SLURM_SUCCESS : submit(job, submitter, message);
}

int job_modify(void *change, void *job, uint32_t submitter) { // 23.02 gives a fourth argument, which nobody reads
    (void)change, (void)job, (void)submitter;
    return SLURM_SUCCESS;
}
