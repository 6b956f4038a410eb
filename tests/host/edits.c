// SPDX-License-Identifier: GPL-2.0-or-later
//
// What an administrator, an editor or a half-finished copy does to gpushare.conf. Under every one of these
// configurations qos_lafferty is governed and normal and free are not; a broken one must change nothing. All that are
// right name the same file of counts, as a site's do.
#define _GNU_SOURCE
#include "host.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const contents[] = {
    "GovernedQOS=auto\n",
    "GovernedQOS=qos_laff*\nForeignTypes=allow\n",
    "# nothing\n",
    "GovernedQOS=auto\nForeignTypes=deny\n",
    "Govern",                      // half a copy
    "GovernedQOS=auto\nNoSuch=1\n", // a mistake
    "\xff\xfe\x01",                // no text
};
#define RIGHT 4 // of them, the first

static void write_file(const char *path, const char *text, int flags) {
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
    if (file < 0) give_up("cannot write %s", path);
    if (write(file, text, strlen(text)) < 0) give_up("cannot write into %s", path);
    close(file);
}

void edit_configuration(const char *path, unsigned number) {
    unsigned which = number % (sizeof contents / sizeof *contents);
    char text[8192], aside[4096];
    int length = snprintf(text, sizeof text, "%s", contents[which]);
    if (which < RIGHT) snprintf(text + length, sizeof text - (size_t)length, "RefusalCounts=%s.counts\n", path);
    switch (number / 2 % 4) {
    case 0: // in place, in one go
        write_file(path, text, O_TRUNC);
        break;
    case 1: // in place, in two steps: a reader may see the first
        write_file(path, "", O_TRUNC);
        usleep(500);
        write_file(path, text, O_APPEND);
        break;
    case 2:
        unlink(path);
        break;
    default:
        snprintf(aside, sizeof aside, "%s.new", path);
        write_file(aside, text, O_TRUNC);
        if (rename(aside, path) != 0) give_up("cannot rename %s", aside);
    }
}
