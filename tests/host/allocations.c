// SPDX-License-Identifier: GPL-2.0-or-later
//
// allocations: how often one submission allocates, and who does it. The program's own malloc() stands before libc's and
// looks at who called it: the plugin, Slurm's library, or something else (libc on their behalf, which counts as the
// plugin's). An accepted submission must not allocate but through Slurm, in whose memory answers lie.
#define _GNU_SOURCE
#include "host.h"

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP 100
#define CALLS 1000

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

typedef enum { PLUGIN, SLURM, OTHER, OWNERS } owner_t;
static struct {
    uintptr_t start, end;
} ranges[2]; // of PLUGIN and SLURM
static bool counting; // one thread only
static unsigned long counts[OWNERS];

static void count(void *caller) {
    if (!counting) return;
    uintptr_t address = (uintptr_t)caller;
    owner_t owner = PLUGIN;
    while (owner < OTHER && (address < ranges[owner].start || address >= ranges[owner].end)) owner++;
    counts[owner]++;
}
#define COUNT() count(__builtin_return_address(0))

void *malloc(size_t size) {
    COUNT();
    return __libc_malloc(size);
}
void *calloc(size_t number, size_t size) {
    COUNT();
    return __libc_calloc(number, size);
}
void *realloc(void *old, size_t size) {
    COUNT();
    return __libc_realloc(old, size);
}
void *memalign(size_t alignment, size_t size) {
    COUNT();
    return __libc_memalign(alignment, size);
}
void *aligned_alloc(size_t alignment, size_t size) {
    COUNT();
    return __libc_memalign(alignment, size);
}
int posix_memalign(void **place, size_t alignment, size_t size) {
    COUNT();
    *place = __libc_memalign(alignment, size);
    return *place ? 0 : ENOMEM;
}

static int note_range(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    int owner = strstr(info->dlpi_name, "job_submit_") ? PLUGIN : strstr(info->dlpi_name, "libslurmfull") ? SLURM : -1;
    if (owner < 0) return 0;
    ranges[owner].start = info->dlpi_addr;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD) ranges[owner].end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
    }
    return 0;
}

static void measure(const plugin_t *plugin, const request_t *request) {
    memset(counts, 0, sizeof counts);
    for (int i = -WARM_UP; i < CALLS; i++) {
        job_desc_msg_t *job = describe(request);
        char *message = NULL;
        counting = i >= 0;
        plugin->submit(job, request->user, &message);
        counting = false;
        slurm_xfree((void **)&message);
        slurm_free_job_desc_msg(job);
    }
}

int main(int argc, char **words) {
    static const char *const limited[] = {"typed", "CPU only", "CPU only, governed", "default, typed", "ungoverned",
                                           "default, ungoverned", "share", "share beside variables",
                                           "untouched variables", "forged share"};
    static const char *const others[] = {"untyped", "default, untyped", "list"};
    bool wrong = false;
    if (argc != 3) give_up("usage: allocations SLURM.CONF PLUGIN");
    char path[4096], tally[4200];
    snprintf(path, sizeof path, "%.*s/gpushare.conf", (int)(strrchr(words[1], '/') - words[1]), words[1]);
    snprintf(tally, sizeof tally, "%s.counts", path);
    count_into(path, tally); // what an accepted one must not pay for
    start_daemon(words[1]);
    plugin_t plugin = load_plugin(words[2], "job_submit/gpushare");
    dl_iterate_phdr(note_range, NULL);
    if (!ranges[PLUGIN].end || !ranges[SLURM].end) give_up("cannot find the plugin and libslurmfull in memory");
    printf("%-28s %8s %8s %8s   allocations a submission\n", "", "plugin", "Slurm", "other");
    for (unsigned i = 0; i < sizeof limited / sizeof *limited + sizeof others / sizeof *others; i++) {
        bool is_limited = i < sizeof limited / sizeof *limited;
        const char *name = is_limited ? limited[i] : others[i - sizeof limited / sizeof *limited];
        measure(&plugin, request_named(name));
        // The parts of its strings, and the share's text for the node.
        bool of_gpus = strncmp(name, "CPU", 3) && !strstr(name, "share") && !strstr(name, "variables");
        unsigned long most = !strncmp(name, "share", 5) ? 3 : of_gpus ? 2 : 0;
        bool bad = is_limited && counts[PLUGIN] + counts[OTHER] > most * CALLS;
        printf("%-28s %8.2f %8.2f %8.2f   %s", name, (double)counts[PLUGIN] / CALLS, (double)counts[SLURM] / CALLS,
               (double)counts[OTHER] / CALLS, is_limited ? "" : "not limited");
        if (bad) printf("  WRONG: at most %lu", most);
        printf("\n");
        wrong |= bad;
    }
    if (counted_refusals(tally) <= 0) {
        printf("WRONG: no refusal is counted in %s\n", tally);
        wrong = true;
    }
    return wrong;
}
