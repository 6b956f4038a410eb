// SPDX-License-Identifier: GPL-2.0-or-later
//
// What the parts of the fake slurmctld share. Its release is that of the headers it is compiled against.
#ifndef GPUSHARE_HOST_H
#define GPUSHARE_HOST_H

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurmdb.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "slurm_exports.h" // include/ of this project: what the plugins think the daemon exports

void slurm_free_job_desc_msg(job_desc_msg_t *job); // src/common/slurm_protocol_defs.h

#define SINCE_23_02 (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0))
#define SINCE_23_11 (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0))
#if SINCE_23_11
#define GRES "gres/"
#else
#define GRES "gres:"
#endif

#define ALICE 2001 // her default QOS is normal
#define BOB 2002   // his is qos_lafferty

// daemon.c: what slurmctld itself exports, and its start
typedef struct { // what the plugins know as job_record_t *, without looking into it
    uint32_t user_id;
    const char *qos, *tres_per_node, *tres_per_job, *partition, *account;
} fake_job_t;
void start_daemon(const char *slurm_conf_path);
// Has a name of its own in C, since each file that declares the original knows another type of job.
job_desc_msg_t *copy_job(fake_job_t *job) __asm__("copy_job_record_to_job_desc");
__attribute__((noreturn, format(printf, 1, 2))) void give_up(const char *format, ...);

// accounting.c: Slurm's own cache of the accounting database, filled as slurmdbd fills it
void fill_accounting(void);
void add_gpu_type(uint32_t id);
void add_qos(uint32_t id, const char *name, const char *grp_tres);
void modify_qos(uint32_t id, const char *grp_tres);
void remove_qos(uint32_t id);
#define QOS_NORMAL 1
#define QOS_LAFFERTY 2
#define QOS_FREE 3
#define QOS_COMING 4
#define QOS_TAIL 5
#define FIRST_FILLER 6

// plugin.c: a job_submit plugin, loaded as slurmctld loads it
typedef struct {
    int (*submit)(job_desc_msg_t *, uint32_t, char **);
#if SINCE_23_02
    int (*modify)(job_desc_msg_t *, fake_job_t *, uint32_t, char **);
#else
    int (*modify)(job_desc_msg_t *, fake_job_t *, uint32_t);
#endif
} plugin_t;
plugin_t load_plugin(const char *path, const char *type);

// requests.c: submissions and updates, with the answers that are right
typedef enum { ALWAYS, BY_CONFIGURATION } certainty_t; // BY_CONFIGURATION: more than one answer may be right
typedef struct {
    const char *name;
    uint32_t user;
    const char *qos, *node, *job; // --qos, --gres and --gpus, the latter two without Slurm's prefix
    const char *rule;             // the rule that refuses it, or NULL
    const char *qos_after;        // what --qos must have become; NULL: left as it was
    const char *environment[4];   // the job's SPANK variables, before
    const char *environment_after[4];
    certainty_t certainty;
    uint16_t ntasks_per_tres;
    const char *account, *account_after; // --account, and what it must have become; NULL: the default or none
    uint32_t filler; // that many bytes of x after `node`
} request_t;
extern const request_t requests[];
extern const unsigned request_count;
const request_t *request_named(const char *name);
job_desc_msg_t *describe(const request_t *request);
// Submits, compares the answer and frees everything with Slurm's functions; false (and a line on stdout) if it is wrong.
bool submit_and_check(const plugin_t *plugin, const request_t *request, bool earlier_message);

extern atomic_ulong refusals; // submissions and updates so far that were refused

// updates.c
extern const unsigned update_count;
void copy_and_free(void); // a job as slurmctld copies it, freed as slurmctld frees it
bool update_and_check(const plugin_t *plugin, unsigned number);

// edits.c: what happens to gpushare.conf while jobs are submitted
void edit_configuration(const char *path, unsigned number);

// counts.c: the file of RefusalCounts
void count_into(const char *configuration, const char *counts);
long counted_refusals(const char *counts); // -1: it is no such file

// clock.c
void advance_clock(unsigned milliseconds);

#endif
