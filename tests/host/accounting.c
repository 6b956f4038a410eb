// SPDX-License-Identifier: GPL-2.0-or-later
//
// Fills Slurm's real cache of the accounting database (src/common/assoc_mgr.c) through the functions that slurmdbd's
// messages go through, so lists, hash tables, limit arrays and locks are Slurm's own. Nothing is replaced.
#include "host.h"

#include <stdio.h>
#include <string.h>

#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(23, 11, 0)
typedef List host_list_t;
#else
typedef list_t *host_list_t;
#endif

void slurm_xfree_ptr(void *item); // src/common/xmalloc.h

// src/common/assoc_mgr.h
extern host_list_t associations __asm__("assoc_mgr_assoc_list");
extern host_list_t qoses __asm__("assoc_mgr_qos_list");
extern host_list_t users __asm__("assoc_mgr_user_list");
extern host_list_t coordinators __asm__("assoc_mgr_coord_list") __attribute__((weak)); // not in the first releases
extern slurmdb_assoc_rec_t *root_association __asm__("assoc_mgr_root_assoc");
int assoc_mgr_update_tres(slurmdb_update_object_t *update, bool locked);
int assoc_mgr_update_qos(slurmdb_update_object_t *update, bool locked);
int assoc_mgr_update_users(slurmdb_update_object_t *update, bool locked);
int assoc_mgr_update_assocs(slurmdb_update_object_t *update, bool locked);

typedef int (*updater_t)(slurmdb_update_object_t *, bool);

static void *zeroed(size_t size) {
    return slurm_xcalloc(1, size, true, false, __FILE__, __LINE__, __func__);
}

// One message of slurmdbd with one record, which Slurm takes over.
static void push(updater_t updater, uint16_t type, void *record) {
    slurmdb_update_object_t update = {.type = type, .objects = slurm_list_create(NULL)};
    slurm_list_append(update.objects, record);
    if (updater(&update, false) != SLURM_SUCCESS) give_up("assoc_mgr refuses an update of type %u", type);
    slurm_list_destroy(update.objects);
}

static void add_tres(uint32_t id, const char *type, const char *name) {
    slurmdb_tres_rec_t *tres = zeroed(sizeof *tres);
    tres->id = id;
    tres->type = slurm_xstrdup(type);
    tres->name = name ? slurm_xstrdup(name) : NULL;
    push(assoc_mgr_update_tres, SLURMDB_ADD_TRES, tres);
}

void add_gpu_type(uint32_t id) {
    char name[32];
    snprintf(name, sizeof name, "gpu:type%u", id);
    add_tres(id, "gres", name);
}

static slurmdb_qos_rec_t *new_qos(uint32_t id, const char *name, const char *grp_tres, uint32_t initial) {
    slurmdb_qos_rec_t *qos = zeroed(sizeof *qos);
    slurmdb_init_qos_rec(qos, false, initial);
    qos->id = id;
    qos->name = slurm_xstrdup(name);
    qos->grp_tres = grp_tres ? slurm_xstrdup(grp_tres) : NULL;
    return qos;
}

void add_qos(uint32_t id, const char *name, const char *grp_tres) {
    slurmdb_qos_rec_t *qos = new_qos(id, name, grp_tres, INFINITE);
    qos->flags = 0;
    qos->priority = 0;
    push(assoc_mgr_update_qos, SLURMDB_ADD_QOS, qos);
}

void modify_qos(uint32_t id, const char *grp_tres) {
    push(assoc_mgr_update_qos, SLURMDB_MODIFY_QOS, new_qos(id, "", grp_tres, NO_VAL));
}

void remove_qos(uint32_t id) {
    push(assoc_mgr_update_qos, SLURMDB_REMOVE_QOS, new_qos(id, "", NULL, NO_VAL));
}

static void add_user(const char *name) {
    slurmdb_user_rec_t *user = zeroed(sizeof *user);
    user->name = slurm_xstrdup(name);
    user->default_acct = slurm_xstrdup("acct");
    user->default_wckey = slurm_xstrdup("");
    user->uid = NO_VAL;
    push(assoc_mgr_update_users, SLURMDB_ADD_USER, user);
}

typedef struct {
    uint32_t id, parent;
    const char *account, *above, *user;
    uint32_t default_qos;
    const char *grp_tres, *max_tres;
} association_t;

static void add_association(association_t wanted) {
    static const char *const allowed[] = {"1", "2", "3", "5"};
    slurmdb_assoc_rec_t *association = zeroed(sizeof *association);
    slurmdb_init_assoc_rec(association, false);
    association->id = wanted.id;
    association->parent_id = wanted.parent;
    association->cluster = slurm_xstrdup("fake");
    association->acct = slurm_xstrdup(wanted.account);
    if (wanted.parent) association->parent_acct = slurm_xstrdup(wanted.above);
    association->user = wanted.user ? slurm_xstrdup(wanted.user) : NULL;
    association->is_def = wanted.user && strcmp(wanted.account, "acct") == 0;
    association->def_qos_id = wanted.default_qos;
    association->grp_tres = wanted.grp_tres ? slurm_xstrdup(wanted.grp_tres) : NULL;
    association->max_tres_pj = wanted.max_tres ? slurm_xstrdup(wanted.max_tres) : NULL;
    association->shares_raw = 1;
    association->qos_list = slurm_list_create(slurm_xfree_ptr);
    for (unsigned i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        slurm_list_append(association->qos_list, slurm_xstrdup(allowed[i]));
    }
    push(assoc_mgr_update_assocs, SLURMDB_ADD_ASSOC, association);
}

static void check_accounting(void) {
    slurmdb_assoc_rec_t wanted = {.uid = BOB}, *found = NULL;
    slurmdb_qos_rec_t qos = {.id = 0}, *named = NULL;
    if (assoc_mgr_fill_in_assoc(NULL, &wanted, accounting_enforce, &found, false) != SLURM_SUCCESS || !found)
        give_up("assoc_mgr has no association of bob");
    assoc_mgr_get_default_qos_info(found, &qos);
    if (assoc_mgr_fill_in_qos(NULL, &qos, accounting_enforce, &named, false) != SLURM_SUCCESS || !named ||
        named->id != QOS_LAFFERTY)
        give_up("assoc_mgr does not give bob his default QOS");
    if (!root_association) give_up("assoc_mgr has no root association");
}

void fill_accounting(void) {
    static const char *const fixed[] = {"cpu", "mem", "energy", "node", "billing", "fs", "vmem", "pages"};
    associations = slurm_list_create(slurmdb_destroy_assoc_rec);
    qoses = slurm_list_create(slurmdb_destroy_qos_rec);
    users = slurm_list_create(slurmdb_destroy_user_rec);
    if (&coordinators) coordinators = slurm_list_create(NULL);
    for (uint32_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        add_tres(i + 1, fixed[i], strcmp(fixed[i], "fs") == 0 ? "disk" : NULL);
    }
    add_tres(1001, "gres", "gpu");
    add_tres(1002, "gres", "gpu:a40");
    add_tres(1003, "gres", "gpu:h100");
    add_tres(1004, "gres", "mps");
    add_qos(QOS_NORMAL, "normal", NULL);
    add_qos(QOS_LAFFERTY, "qos_lafferty", "1002=4");
    add_qos(QOS_FREE, "free", NULL);
    add_qos(QOS_TAIL, "qos_tail", "1002=4");
    add_user("root");
    add_user("alice");
    add_user("bob");
    static const association_t associations_of[] = {
        {1, 0, "root", NULL, NULL, QOS_NORMAL, NULL, NULL},
        {2, 1, "acct", "root", NULL, QOS_NORMAL, NULL, NULL},
        {3, 2, "acct", "acct", "alice", QOS_NORMAL, NULL, NULL},
        {4, 2, "acct", "acct", "bob", QOS_LAFFERTY, NULL, NULL},
        // An account above with a limit on a type, and a limit of a user's own.
        {5, 1, "dept", "root", NULL, QOS_NORMAL, "1002=2", NULL},
        {6, 5, "child", "dept", NULL, QOS_NORMAL, NULL, NULL},
        {7, 6, "child", "child", "alice", QOS_NORMAL, NULL, NULL},
        {8, 1, "mine", "root", NULL, QOS_NORMAL, NULL, NULL},
        {9, 8, "mine", "mine", "alice", QOS_NORMAL, NULL, "1002=1"},
    };
    for (unsigned i = 0; i < sizeof associations_of / sizeof *associations_of; i++) add_association(associations_of[i]);
    check_accounting();
}
