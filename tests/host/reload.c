// SPDX-License-Identifier: GPL-2.0-or-later
//
// reload: gpushare.conf is changed under a running plugin: what is right must come to hold, and what is wrong must change
// nothing. The plugin's clock is moved on between submissions, so nobody waits for it.
#define _GNU_SOURCE
#include "host.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STEP 300      // milliseconds between two submissions, by the plugin's clock
#define PATIENCE 1000 // submissions until a change must hold
#define WATCHED 50    // submissions for which a mistake must change nothing

typedef struct {
    const char *what, *text;
    bool renamed;  // a new file over the old one; else the same file
    bool accepted; // is a GPU type that the QOS has no limit on, then?
    bool mistake;  // so nothing changes
} change_t;

static const change_t changes[] = {
    {"allowed, in place", "ForeignTypes=allow\n", false, true, false},
    {"a mistake, by rename", "ForeignTypes=deny\nNoSuchKey=1\n", true, true, true},
    {"half a copy, in place", "ForeignTypes=de", false, true, true},
    {"denied, by rename", "ForeignTypes=deny\n", true, false, false},
    {"a mistake, in place", "ForeignTypes=allow\nForeignTypes=allow\n", false, false, true},
    {"allowed, by rename", "ForeignTypes=allow\n", true, true, false},
    {"denied, same length", "ForeignTypes=deny \n", false, false, false},
};

static void write_file(const char *path, const change_t *change) {
    char aside[4096];
    snprintf(aside, sizeof aside, "%s.new", path);
    const char *written = change->renamed ? aside : path;
    int file = open(written, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    size_t length = strlen(change->text);
    if (file < 0 || write(file, change->text, length) != (ssize_t)length) give_up("cannot write %s", written);
    close(file);
    if (change->renamed && rename(aside, path) != 0) give_up("cannot rename %s", aside);
}

static bool is_accepted(const plugin_t *plugin) {
    job_desc_msg_t *job = describe(request_named("foreign type"));
    char *message = NULL;
    int code = plugin->submit(job, ALICE, &message);
    slurm_xfree((void **)&message);
    slurm_free_job_desc_msg(job);
    return code == SLURM_SUCCESS;
}

static bool holds(const plugin_t *plugin, const change_t *change) {
    for (int i = 0; i < (change->mistake ? WATCHED : PATIENCE); i++) {
        bool as_wanted = is_accepted(plugin) == change->accepted;
        if (change->mistake && !as_wanted) return false;
        if (!change->mistake && as_wanted) return true;
        advance_clock(STEP);
        usleep(10000);
    }
    return change->mistake;
}

int main(int count, char **words) {
    bool wrong = false;
    char path[4096];
    if (count != 3) give_up("usage: reload SLURM.CONF PLUGIN");
    snprintf(path, sizeof path, "%.*s/gpushare.conf", (int)(strrchr(words[1], '/') - words[1]), words[1]);
    write_file(path, &(change_t){.text = "ForeignTypes=deny\n"});
    start_daemon(words[1]);
    plugin_t plugin = load_plugin(words[2], "job_submit/gpushare");
    for (unsigned i = 0; i < sizeof changes / sizeof *changes; i++) {
        write_file(path, &changes[i]);
        bool right = holds(&plugin, &changes[i]);
        printf("%s'%s'\n", right ? "" : "WRONG: after ", changes[i].what);
        wrong |= !right;
    }
    return wrong;
}
