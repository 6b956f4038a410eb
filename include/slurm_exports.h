/*
 * What slurmctld and libslurmfull export and no installed header declares.
 * Each declaration was compared with Slurm's sources from 22.05 to 26.05 (the file named is where Slurm declares it)
 * and is looked up in the daemons of each tested release by tests/abi. Nothing else in the project declares C.
 */
#ifndef GPUSHARE_SLURM_EXPORTS_H
#define GPUSHARE_SLURM_EXPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* src/common/xmalloc.h, xstring.h: memory that Slurm frees must come from Slurm's allocator, and the reverse */
void *slurm_xcalloc(size_t count, size_t size, bool clear, bool try_only, const char *file, int line,
		    const char *func);
void slurm_xfree(void **item);
char *slurm_xstrdup(const char *str);

/* src/common/read_config.h: the configuration as the daemon has it; .slurm_conf is the path of slurm.conf */
extern slurm_conf_t slurm_conf;

/* src/common/assoc_mgr.h: the daemon's cache of the accounting database. Lock levels: 0 none, 1 read, 2 write */
typedef struct {
	int assoc;
	int file;
	int qos;
	int res;
	int tres;
	int user;
	int wckey;
} assoc_mgr_lock_t;

void assoc_mgr_lock(assoc_mgr_lock_t *locks);
void assoc_mgr_unlock(assoc_mgr_lock_t *locks);
int assoc_mgr_fill_in_assoc(void *db_conn, slurmdb_assoc_rec_t *assoc, int enforce,
			    slurmdb_assoc_rec_t **assoc_pptr, bool locked);
int assoc_mgr_fill_in_qos(void *db_conn, slurmdb_qos_rec_t *qos, int enforce, slurmdb_qos_rec_t **qos_pptr,
			  bool locked);
void assoc_mgr_get_default_qos_info(slurmdb_assoc_rec_t *assoc_ptr, slurmdb_qos_rec_t *qos);

/* src/common/assoc_mgr.h: every QOS (slurmdb_qos_rec_t); read under the qos lock */
extern struct xlist *assoc_mgr_qos_list;

/* src/common/assoc_mgr.h: every association of this cluster (slurmdb_assoc_rec_t); read under the assoc lock */
extern struct xlist *assoc_mgr_assoc_list;

/* src/common/assoc_mgr.h: names ("gres/gpu:a40") in the order of the *_ctld limit arrays; read under the tres lock */
extern char **assoc_mgr_tres_name_array;
extern uint32_t g_tres_count;

/* src/common/slurm_protocol_defs.h: frees a job description and all that it owns */
void slurm_free_job_desc_msg(job_desc_msg_t *msg);

/* src/slurmctld/slurmctld.h: exported by slurmctld only, so a SPANK plugin must not use them */
struct job_record; /* opaque: its layout changes between micro releases */
job_desc_msg_t *copy_job_record_to_job_desc(struct job_record *job_ptr);
/* a task of the array; with INFINITE any. Read under the job lock */
struct job_record *find_job_array_rec(uint32_t array_job_id, uint32_t array_task_id);
extern void *acct_db_conn;
extern uint16_t accounting_enforce;
extern char *default_part_name;
extern time_t control_time; /* 0: a standby */

/* src/common/pack.h: what is written for a client. Only the first members, which are the same in every release */
typedef struct {
	uint32_t magic;
	char *head;
	uint32_t size;
	uint32_t processed;
} packed_t;
packed_t *init_buf(uint32_t size);
void free_buf(packed_t *buffer);

/* src/slurmctld/partition_mgr.c: a partition as it is sent to clients; read under the partition lock */
struct part_record; /* opaque, as job_record */
struct part_record *find_part_record(char *name);
extern struct xlist *part_list; /* every partition */
extern time_t last_part_update; /* when one was last changed, made or deleted */
void pack_part(struct part_record *part_ptr, packed_t *buffer, uint16_t protocol_version);

/* src/slurmctld/job_mgr.c: a job as it is sent to clients, without script and environment; read under the job lock */
void pack_job(struct job_record *job_ptr, uint16_t show_flags, packed_t *buffer, uint16_t protocol_version, uid_t uid,
	      bool has_qos_lock);

/* src/common/slurm_protocol_defs.h, slurm_protocol_pack.h: a message between Slurm's programs, and what makes one of
 * what was packed. Only its first members. What slurm_msg_t_init() writes shows whether they are where they are here */
typedef struct {
	uint64_t address[16];
	void *auth_cred;
	int auth_index;
	uid_t auth_uid;
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
	gid_t auth_gid;
#endif
	bool auth_ids_set;
	uid_t restrict_uid;
	bool restrict_uid_set;
	uint32_t body_offset;
	void *buffer;
	void *conn;
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(25, 5, 0)
	int conn_fd;
#endif
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 11, 0)
	void *conmgr_fd;
#endif
	void *data;
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(24, 5, 0)
	uint32_t data_size;
#endif
	uint16_t flags;
	uint8_t hash_index;
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0)
	char *tls_cert;
	void *tls_conn;
#endif
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
	bool conn_is_mtls;
#endif
	uint16_t msg_type;
	uint16_t protocol_version;
	uint64_t rest[128];
} message_t;
void slurm_msg_t_init(message_t *msg);
int unpack_msg(message_t *msg, packed_t *buffer);

/* src/common/node_conf.h: the node of that name, read under the node lock; says nothing if there is none */
struct node_record; /* opaque, as job_record */
struct node_record *find_node_record2(char *name);

#endif
