// SPDX-License-Identifier: GPL-2.0-or-later
//
// siege-client: talks to slurmctld as a program of a user's own can, with any value in any member of a job's description.
// Reads a line for each action: VERB<TAB>MEMBER=VALUE..., values with %XX for bytes; of a het job, a field ":" begins the next
// component. Answers a line: NUMBER<TAB>JOB<TAB>TEXT, where NUMBER is Slurm's error, 0 if there was none, and TEXT what Slurm
// says to it and what it printed. `look` answers with lines of their own, and then ".".
#define _GNU_SOURCE
#include "client.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct member {
    const char *name;
    size_t offset;
    size_t width; // 0: a string
};
static const struct member members[] = {
#include "members.h"
};
enum { COMPONENTS = 8, MEMBERS = sizeof members / sizeof members[0] };

static int said; // what libslurm prints goes here

void unquote(char *text) {
    char *to = text;
    for (; *text; text++) {
        char digits[3] = {0};
        if (*text == '%' && text[1] && text[2]) {
            memcpy(digits, text + 1, 2);
            *to++ = (char) strtol(digits, NULL, 16);
            text += 2;
        } else {
            *to++ = *text;
        }
    }
    *to = 0;
}

void print_quoted(const char *text) {
    for (; text && *text; text++) {
        unsigned char byte = (unsigned char) *text;
        if (byte < ' ' || byte == '%' || byte > '~')
            printf("%%%02x", byte);
        else
            putchar(byte);
    }
}

// NO_VAL and INFINITE are other numbers in members of other widths.
static uint64_t number(const char *text, size_t width) {
    uint64_t all = width == 8 ? UINT64_MAX : ((uint64_t) 1 << (8 * width)) - 1;
    if (!strcmp(text, "NO_VAL"))
        return all - 1;
    if (!strcmp(text, "INFINITE"))
        return all;
    return strtoull(text, NULL, 0);
}

// Sets the member that FIELD ("NAME=VALUE") names; 0 if this release has none of the name.
static int set_member(job_desc_msg_t *job, char *field) {
    char *value = strchr(field, '=');
    if (!value)
        return 0;
    *value++ = 0;
    for (size_t i = 0; i < MEMBERS; i++) {
        if (strcmp(members[i].name, field))
            continue;
        char *place = (char *) job + members[i].offset;
        if (!members[i].width) {
            unquote(value);
            *(char **) place = value;
        } else {
            uint64_t n = number(value, members[i].width);
            memcpy(place, &n, members[i].width); // little-endian, as all of the lab
        }
        return 1;
    }
    return 0;
}

static void describe_new(job_desc_msg_t *job, int batch) {
    static char *environment[] = {"PATH=/usr/bin:/bin", NULL};
    slurm_init_job_desc_msg(job);
    job->name = "siege";
    job->work_dir = "/tmp";
    job->user_id = getuid();
    job->group_id = getgid();
    job->alloc_node = "localhost";
    if (!batch)
        return;
    job->script = "#!/bin/sh\nsleep 600\n";
    job->std_out = job->std_err = job->std_in = "/dev/null";
    job->environment = environment;
    job->env_size = 1;
}

static uint32_t submit(job_desc_msg_t *jobs, int count) {
    submit_response_msg_t *response = NULL;
    uint32_t id = 0;
    int failed;
    if (count == 1) {
        failed = slurm_submit_batch_job(jobs, &response);
    } else {
        struct xlist *list = slurm_list_create(NULL);
        for (int i = 0; i < count; i++)
            slurm_list_append(list, &jobs[i]);
        failed = slurm_submit_batch_het_job(list, &response);
        slurm_list_destroy(list);
    }
    if (!failed && response) {
        id = JOB_ID(response);
        errno = 0;
    } else if (!errno) {
        errno = SLURM_ERROR;
    }
    if (response)
        slurm_free_submit_response_response_msg(response);
    return id;
}

static uint32_t allocate(job_desc_msg_t *job) {
    resource_allocation_response_msg_t *response = NULL;
    uint32_t id = 0;
    if (slurm_allocate_resources(job, &response) || !response) {
        if (!errno)
            errno = SLURM_ERROR;
        return 0;
    }
    id = JOB_ID(response);
    slurm_free_resource_allocation_response_msg(response);
    errno = 0;
    return id;
}

// An update by number of an array's task or a whole job; of several answers the first that is an error counts.
static void take(job_array_resp_msg_t *response, int rc) {
    int first = rc ? (errno ? errno : SLURM_ERROR) : 0;
    for (uint32_t i = 0; response && i < response->job_array_count; i++)
        if (!first)
            first = (int) response->error_code[i];
    if (response)
        slurm_free_job_array_resp(response);
    errno = first;
}

static uint32_t act(const char *verb, job_desc_msg_t *jobs, int count) {
    job_array_resp_msg_t *response = NULL;
    will_run_response_msg_t *when = NULL;
    char *job = jobs->job_id_str ? jobs->job_id_str : "0";
    errno = 0;
    if (!strcmp(verb, "submit"))
        return submit(jobs, count);
    if (!strcmp(verb, "allocate"))
        return allocate(jobs);
    int rc = 0;
    if (!strcmp(verb, "willrun")) {
        rc = slurm_job_will_run2(jobs, &when);
    } else if (!strcmp(verb, "update1")) { // the older request, by number alone
        JOB_ID(jobs) = (uint32_t) strtoul(job, NULL, 10);
        jobs->job_id_str = NULL;
        rc = slurm_update_job(jobs);
    } else if (!strcmp(verb, "cancel")) {
        rc = slurm_kill_job2(job, 9, 0, NULL);
    } else if (!strcmp(verb, "top")) {
        rc = slurm_top_job(job);
    } else {
        if (!strcmp(verb, "update"))
            rc = slurm_update_job2(jobs, &response);
        else if (!strcmp(verb, "requeue"))
            rc = slurm_requeue2(job, 0, &response);
        else if (!strcmp(verb, "requeuehold"))
            rc = slurm_requeue2(job, JOB_REQUEUE_HOLD, &response);
        else if (!strcmp(verb, "suspend"))
            rc = slurm_suspend2(job, &response);
        else if (!strcmp(verb, "resume"))
            rc = slurm_resume2(job, &response);
        else
            rc = -1, errno = EINVAL;
        take(response, rc);
        return 0;
    }
    if (rc && !errno)
        errno = SLURM_ERROR;
    if (!rc)
        errno = 0;
    return 0;
}

static void answer(int error, uint32_t job) {
    char text[4096];
    ssize_t length = pread(said, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = 0;
    printf("%d\t%u\t", error, job);
    print_quoted(error ? slurm_strerror(error) : "");
    printf("%%0a");
    print_quoted(text);
    putchar('\n');
    fflush(stdout);
    if (ftruncate(said, 0) || lseek(said, 0, SEEK_SET))
        exit(3);
}

static void line(char *text) {
    static job_desc_msg_t jobs[COMPONENTS];
    int count = 1;
    char *verb = strsep(&text, "\t"), *field;
    int batch = !strcmp(verb, "submit") || !strcmp(verb, "willrun");
    if (!strcmp(verb, "members")) {
        for (size_t i = 0; i < MEMBERS; i++)
            printf("%s\t%zu\n", members[i].name, members[i].width);
        puts(".");
        fflush(stdout);
        return;
    }
    if (!strcmp(verb, "look")) {
        answer(look(), 0);
        return;
    }
    if (batch || !strcmp(verb, "allocate"))
        describe_new(jobs, batch);
    else
        slurm_init_job_desc_msg(jobs);
    while ((field = strsep(&text, "\t"))) {
        if (!strcmp(field, ":") && count < COMPONENTS) {
            describe_new(&jobs[count++], batch);
        } else if (!set_member(&jobs[count - 1], field)) {
            printf("-2\t0\tno member '%s' in this release\n", field);
            fflush(stdout);
            return;
        }
    }
    uint32_t job = act(verb, jobs, count);
    answer(errno, job);
}

int main(void) {
    char *text = NULL;
    size_t size = 0;
    said = memfd_create("said", 0);
    if (said < 0 || dup2(said, 2) < 0)
        return 3;
    slurm_init(NULL);
    while (getline(&text, &size, stdin) > 0) {
        text[strcspn(text, "\n")] = 0;
        line(text);
    }
    return 0;
}
