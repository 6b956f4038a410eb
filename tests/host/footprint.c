// SPDX-License-Identifier: GPL-2.0-or-later
//
// footprint: the instructions of one call of job_submit(), one by one, once everything is warm. Prints for each case how
// many of them are the plugin's and over how many lines of the processor's cache (64 bytes of code) these lie, which is
// what has to be fetched from memory when slurmctld is woken for one request; and how many there are in all.
//
// The plugin runs in a child, whose clock stands still: once a second it would look for a change of its file.
#define _GNU_SOURCE
#include "cases.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WARM 200
#define LINE 64
#define MOST_LINES (1 << 16) // of 4 MiB of code
#define MARK SIGUSR1         // the child's, before and after the call

// Before libc's, since the executable's symbols come first.
int clock_gettime(clockid_t clock, struct timespec *result) {
    (void)clock;
    *result = (struct timespec){.tv_sec = 1000000000};
    return 0;
}

static void call(const plugin_t *plugin, const measured_t *measured, bool marked) {
    job_desc_msg_t *job = describe(&measured->request);
    char *message = NULL;
    if (marked) raise(MARK);
    int code = plugin->submit(job, measured->request.user, &message);
    if (marked) raise(MARK);
    if ((code != SLURM_SUCCESS) != (measured->request.rule != NULL))
        give_up("'%s' was answered with %d: %s", measured->title, code, message ? message : "no message");
    slurm_xfree((void **)&message);
    slurm_free_job_desc_msg(job);
}

static void be_traced(char **words) {
    start_daemon(words[1]);
    plugin_t plugin = load_plugin(words[2], "job_submit/gpushare");
    add_qos(QOS_TAIL, "qos_tail", "1002=4");
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) give_up("can't be traced");
    for (unsigned c = 0; c < CASES; c++) {
        for (int i = 0; i < WARM; i++) call(&plugin, &cases[c], false);
        call(&plugin, &cases[c], true);
    }
    exit(0);
}

typedef struct {
    uint64_t begin, end;
} range_t;

// Where the plugin's code is.
static range_t code_of(pid_t child, const char *plugin) {
    char path[64], line[4352];
    snprintf(path, sizeof path, "/proc/%d/maps", child);
    const char *base = strrchr(plugin, '/');
    FILE *maps = fopen(path, "r");
    range_t found = {0, 0};
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        char rights[5];
        if (sscanf(line, "%lx-%lx %4s", &begin, &end, rights) == 3 && rights[2] == 'x' && strstr(line, base))
            found = (range_t){begin, end};
    }
    if (maps) fclose(maps);
    if (found.begin == 0 || found.end - found.begin > (uint64_t)MOST_LINES * LINE) give_up("where is the plugin's code?");
    return found;
}

// The signal with which the child stops when it was asked to go on.
static int stopped(pid_t child, int how, int signal) {
    int status;
    if (ptrace(how, child, NULL, (void *)(long)signal) != 0) give_up("the child can't be traced");
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) give_up("the child ended");
    return WSTOPSIG(status);
}

static void follow(pid_t child, const char *title, const char *plugin) {
    static bool seen[MOST_LINES];
    unsigned lines = 0, ours = 0, all = 0, until_ours_ended = 0;
    range_t code = code_of(child, plugin);
    memset(seen, 0, sizeof seen);
    while (stopped(child, PTRACE_SINGLESTEP, 0) == SIGTRAP) {
        uint64_t at = (uint64_t)ptrace(PTRACE_PEEKUSER, child, offsetof(struct user_regs_struct, rip), NULL);
        bool is_ours = at >= code.begin && at < code.end;
        if (!is_ours && ours == 0) continue; // still on the way to the call
        all++;
        if (!is_ours) continue;
        ours++;
        until_ours_ended = all;
        bool *line = &seen[(at - code.begin) / LINE];
        lines += !*line;
        *line = true;
    }
    printf("%s\t%u\t%u\t%u\n", title, lines, ours, until_ours_ended);
}

int main(int argc, char **words) {
    if (argc != 3) give_up("usage: footprint SLURM.CONF PLUGIN");
    // How libc copies depends on addresses.
    if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE)) give_up("run it under setarch --addr-no-randomize");
    pid_t child = fork();
    if (child == 0) be_traced(words);
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) give_up("no child to trace");
    for (unsigned c = 0; c < CASES; c++) {
        follow(child, cases[c].title, words[2]);
        if (c + 1 < CASES && stopped(child, PTRACE_CONT, 0) != MARK) give_up("the child stopped for another reason");
    }
    ptrace(PTRACE_CONT, child, NULL, NULL);
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) give_up("the child failed");
    return 0;
}
