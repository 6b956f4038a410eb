/* Everything that bindgen reads for slurm-sys. */
#include <slurm/slurm_version.h>	/* SLURM_VERSION_NUMBER: the release that plugins must match */
#include <slurm/slurm.h>		/* job_desc_msg_t, slurm_conf_t, NO_VAL and its kin */
#include <slurm/slurm_errno.h>		/* ESLURM_*: what job_submit returns to the user */
#include <slurm/slurmdb.h>		/* QOS, association and TRES records of the accounting cache */
#include <slurm/spank.h>		/* SPANK hooks' handle and items; slurm_info() and its kin */
#include "slurm_exports.h"		/* what the daemons export and no installed header declares */

/* Flags of slurmdb_qos_rec_t, made in the same way */
static const uint32_t QOS_DENIES_ON_LIMIT = QOS_FLAG_DENY_LIMIT;	/* DenyOnLimit */
static const uint32_t QOS_PASSES_MAX_NODES = QOS_FLAG_PART_MAX_NODE;	/* PartitionMaxNodes */

/* Flags of job_desc_msg_t.bitflags that slurm.h makes of a macro with arguments, which bindgen doesn't evaluate */
static const uint64_t JOB_USE_MIN_NODES = USE_MIN_NODES;	/* --use-min-nodes */
static const uint64_t JOB_SPREAD = SPREAD_JOB;			/* --spread-job */
static const uint64_t JOB_ENFORCES_BINDING = GRES_ENFORCE_BIND;	/* --gres-flags=enforce-binding */
static const uint64_t JOB_OF_CRONTAB = CRON_JOB;		/* scrontab */
static const uint32_t JOB_WAITS = JOB_PENDING;			/* a state */
static const uint64_t JOB_NAMES_MEMORY = JOB_MEM_SET;		/* slurmctld's own: the memory isn't a default */
static const uint64_t JOB_SAYS_DEFAULTS =			/* what every message says that names no account, … */
	USE_DEFAULT_ACCT | USE_DEFAULT_PART | USE_DEFAULT_QOS | USE_DEFAULT_WCKEY;
static const uint64_t JOB_TASKS_ARE_SET = 0			/* slurmctld's own, in an update that changes tasks */
#ifdef JOB_NTASKS_SET
	| JOB_NTASKS_SET
#endif
#ifdef TASKS_CHANGED
	| TASKS_CHANGED
#endif
	;
#ifdef JOB_IMPLICIT_MAX_NODES
static const uint64_t JOB_MOST_NODES_ARE_TASKS = JOB_IMPLICIT_MAX_NODES;	/* from 26.05 on, slurmctld's own */
#else
static const uint64_t JOB_MOST_NODES_ARE_TASKS = 0;
#endif
