// SPDX-License-Identifier: GPL-2.0-or-later
//
// What slurmctld exports to its plugins and libslurmfull does not: variables, one function, and the users that Slurm
// looks up by name. Everything else a plugin calls is Slurm's own.
#define _GNU_SOURCE
#include "host.h"

#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// src/slurmctld/slurmctld.h. Enforced: associations, limits, QOS.
void *acct_db_conn = NULL;
uint16_t accounting_enforce = 0x0001 | 0x0002 | 0x0008;
char *default_part_name = "p";
time_t control_time = 1;

// job_submit/lua wants these to exist; without partitions, jobs and reservations it has less to do than in a cluster.
void *job_list, *resv_list;
struct xlist *part_list;
time_t last_job_update, last_part_update, last_resv_update;

void give_up(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("host: ", stdout);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
    exit(1);
}

int slurm_conf_init(const char *path); // src/common/read_config.h

void start_daemon(const char *slurm_conf_path) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (slurm_conf_init(slurm_conf_path) != SLURM_SUCCESS) give_up("Slurm does not take %s", slurm_conf_path);
    job_list = slurm_list_create(NULL);
    part_list = slurm_list_create(NULL);
    resv_list = slurm_list_create(NULL);
    fill_accounting();
}

static char *copy(const char *text) {
    return text ? slurm_xstrdup(text) : NULL;
}

// As slurmctld makes it of a job (src/slurmctld/job_mgr.c): in Slurm's memory, `environment` one block with the first
// entry at its start, so whoever frees it must free that block and clear env_size before slurm_free_job_desc_msg().
job_desc_msg_t *copy_job(fake_job_t *job) {
    job_desc_msg_t *copied = slurm_xcalloc(1, sizeof *copied, true, false, __FILE__, __LINE__, __func__);
    slurm_init_job_desc_msg(copied);
    copied->user_id = job->user_id;
    copied->qos = copy(job->qos);
    copied->tres_per_node = copy(job->tres_per_node);
    copied->tres_per_job = copy(job->tres_per_job);
    copied->partition = copy(job->partition);
    copied->account = copy(job->account);
    copied->name = slurm_xstrdup("existing");
    static const char block[] = "PATH=/usr/bin\0HOME=/home/alice\0LANG=C";
    copied->environment = slurm_xcalloc(4, sizeof(char *), true, false, __FILE__, __LINE__, __func__);
    char *start = slurm_xcalloc(1, sizeof block, true, false, __FILE__, __LINE__, __func__);
    memcpy(start, block, sizeof block);
    for (int i = 0; i < 3; i++) {
        copied->environment[i] = start;
        start += strlen(start) + 1;
    }
    copied->env_size = 3;
    copied->num_tasks = 0; // as slurmctld has it when the user gave none
    copied->ntasks_per_tres = 0;
    return copied;
}

struct part_record *find_part_record(char *name) { // no partition has a bound on nodes
    (void)name;
    return NULL;
}

void pack_part(struct part_record *part, packed_t *buffer, uint16_t version) {
    (void)part, (void)buffer, (void)version;
}

void pack_job(struct job_record *job, uint16_t flags, packed_t *buffer, uint16_t version, uid_t user, bool locked) {
    (void)job, (void)flags, (void)buffer, (void)version, (void)user, (void)locked; // shows nothing, so jobs are copied
}

struct job_record *find_job_array_rec(uint32_t array, uint32_t task) { // no job is one of an array
    (void)array, (void)task;
    return NULL;
}

void *get_job_script(void *job) { // for job_submit/lua, which the bench never makes call it
    (void)job;
    return NULL;
}

// The host's own users, whatever the machine's are: Slurm asks libc by name when associations come in.
int getpwnam_r(const char *name, struct passwd *entry, char *buffer, size_t size, struct passwd **found) {
    static const struct {
        const char *name;
        uid_t uid;
    } users[] = {{"root", 0}, {"alice", ALICE}, {"bob", BOB}};
    *found = NULL;
    for (unsigned i = 0; i < sizeof users / sizeof *users; i++) {
        if (strcmp(name, users[i].name) != 0) continue;
        if (snprintf(buffer, size, "%s", name) >= (int)size) return ERANGE;
        *entry = (struct passwd){.pw_name = buffer, .pw_passwd = "x", .pw_uid = users[i].uid, .pw_gid = users[i].uid,
                                 .pw_gecos = "", .pw_dir = "/", .pw_shell = "/bin/false"};
        *found = entry;
        return 0;
    }
    return 0;
}
