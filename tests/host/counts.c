// SPDX-License-Identifier: GPL-2.0-or-later
//
// The file in which the plugin counts its messages: a configuration that names it, and what it says.
#include "host.h"

#include <stdio.h>
#include <string.h>

void count_into(const char *configuration, const char *counts) {
    FILE *file = fopen(configuration, "we");
    if (!file || fprintf(file, "GovernedQOS=auto\nRefusalCounts=%s\n", counts) < 0) give_up("cannot write %s", configuration);
    fclose(file);
}

long counted_refusals(const char *counts) {
    char line[128], number[16], verdict[16];
    long sum = 0, count, lines = 0;
    FILE *file = fopen(counts, "re");
    if (!file) return -1;
    bool right = fgets(line, sizeof line, file) && strcmp(line, "gpushare-tally 1\n") == 0;
    while (right && fgets(line, sizeof line, file)) {
        right = strlen(line) == 42 && sscanf(line, "%15s %15s %20ld", number, verdict, &count) == 3;
        if (right && strcmp(verdict, "refused") == 0) sum += count;
        lines++;
    }
    fclose(file);
    return right && lines > 0 ? sum : -1;
}
