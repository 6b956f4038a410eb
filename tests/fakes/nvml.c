/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * nvml.c: a libnvidia-ml.so.1 without a GPU, for tests. Symbols, numbers and structures are those of NVIDIA's NVML API
 * reference, as far as gpushare-nvml and nvml-wrapper use them.
 *
 *     gcc -shared -fPIC -o DIR/libnvidia-ml.so.1 nvml.c [-DNO_LIMITS] [-DNO_MEMORY_V2] [-DNO_SHUTDOWN]
 *
 * What it says is in the file LIBRARY.state, a line each; what is set goes to LIBRARY.log:
 *
 *     gpu GPU-aaaa 3 total=81920 reserved=600 used=1200 utilization=37 mode=0 processes=2 clients=1 mig=0 field=145:1
 *     fail CALL CODE [GPU]      the call, of all GPUs or the one with this place in the file, gives this nvmlReturn_t
 *     delay CALL MILLISECONDS   before it does anything
 *     crash CALL
 *
 * Beside its made-up processes a GPU has those that pid=NUMBER[:MIB] names, with busy=NUMBER:PERCENT for NVML's samples of it.
 * Memory is in MiB. CALL is a function's whole name. A process that both lists have is one process.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, VERSION_MISMATCH = 25 };
enum { MOST_GPUS = 64, MOST_FIELDS = 8, MOST_PIDS = 16, FIRST_PID = 4000000 };
enum { VALUE_UNSIGNED_INT = 1 };

struct gpu {
    char uuid[96];
    unsigned minor, total, reserved, used, utilization, mode, processes, clients, mig, fields;
    unsigned field[MOST_FIELDS], value[MOST_FIELDS];
    unsigned pids, pid[MOST_PIDS], mib[MOST_PIDS], samples, sampled[MOST_PIDS], busy[MOST_PIDS];
};
typedef struct gpu *device;

static struct gpu gpus[MOST_GPUS];
static unsigned count;

static FILE *beside(const char *suffix, const char *mode) {
    Dl_info self;
    char path[4096];
    if (!dladdr(gpus, &self)) abort();
    snprintf(path, sizeof path, "%s.%s", self.dli_fname, suffix);
    return fopen(path, mode);
}

static void read_gpu(const char *line) {
    struct gpu *gpu = &gpus[count];
    char words[1024], *word, *rest;
    if (count == MOST_GPUS || sscanf(line, "gpu %95s %u %1023[^\n]", gpu->uuid, &gpu->minor, words) < 3) abort();
    for (word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        unsigned number, value;
        if (sscanf(word, "total=%u", &number) == 1) gpu->total = number;
        else if (sscanf(word, "reserved=%u", &number) == 1) gpu->reserved = number;
        else if (sscanf(word, "used=%u", &number) == 1) gpu->used = number;
        else if (sscanf(word, "utilization=%u", &number) == 1) gpu->utilization = number;
        else if (sscanf(word, "mode=%u", &number) == 1) gpu->mode = number;
        else if (sscanf(word, "mig=%u", &number) == 1) gpu->mig = number;
        else if (sscanf(word, "processes=%u", &number) == 1) gpu->processes = number;
        else if (sscanf(word, "clients=%u", &number) == 1) gpu->clients = number;
        else if (value = 0, sscanf(word, "pid=%u:%u", &number, &value) >= 1 && gpu->pids < MOST_PIDS) {
            gpu->mib[gpu->pids] = value;
            gpu->pid[gpu->pids++] = number;
        }
        else if (sscanf(word, "busy=%u:%u", &number, &value) == 2 && gpu->samples < MOST_PIDS) {
            gpu->sampled[gpu->samples] = number;
            gpu->busy[gpu->samples++] = value;
        } else if (sscanf(word, "field=%u:%u", &number, &value) == 2 && gpu->fields < MOST_FIELDS) {
            gpu->field[gpu->fields] = number;
            gpu->value[gpu->fields++] = value;
        } else abort();
    }
    count++;
}

/* What the state says of this call: it may take its time, crash, or give an error. */
static int behave(const char *call, device gpu) {
    FILE *state = beside("state", "r");
    char line[1200], name[128];
    int result = SUCCESS, code, index;
    while (state && fgets(line, sizeof line, state)) {
        index = -1;
        if (sscanf(line, "delay %127s %d", name, &code) == 2 && !strcmp(name, call)) usleep(1000u * code);
        else if (sscanf(line, "crash %127s", name) == 1 && !strcmp(name, call)) abort();
        else if (sscanf(line, "fail %127s %d %d", name, &code, &index) >= 2 && !strcmp(name, call) &&
                 (index < 0 || (gpu && gpu == &gpus[index])))
            result = code;
    }
    if (state) fclose(state);
    return result;
}

#define BEHAVE(gpu) do { int code = behave(__func__, gpu); if (code) return code; } while (0)

int nvmlInit_v2(void) {
    FILE *state = beside("state", "r");
    char line[1200];
    count = 0;
    memset(gpus, 0, sizeof gpus);
    while (state && fgets(line, sizeof line, state))
        if (!strncmp(line, "gpu ", 4)) read_gpu(line);
    if (state) fclose(state);
    BEHAVE(NULL);
    return SUCCESS;
}

#ifndef NO_SHUTDOWN
int nvmlShutdown(void) {
    BEHAVE(NULL);
    return SUCCESS;
}
#endif

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    BEHAVE(NULL);
    snprintf(version, length, "615.10.01");
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *number) {
    BEHAVE(NULL);
    *number = count;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *gpu) {
    if (index >= count) return INVALID_ARGUMENT;
    BEHAVE(&gpus[index]);
    *gpu = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device *gpu) {
    unsigned index;
    for (index = 0; index < count; index++) {
        if (strcmp(gpus[index].uuid, uuid)) continue;
        BEHAVE(&gpus[index]);
        *gpu = &gpus[index];
        return SUCCESS;
    }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(device gpu, char *uuid, unsigned length) {
    BEHAVE(gpu);
    snprintf(uuid, length, "%s", gpu->uuid);
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(device gpu, unsigned *minor) {
    BEHAVE(gpu);
    *minor = gpu->minor;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(device gpu, unsigned *current, unsigned *pending) {
    BEHAVE(gpu);
    *current = *pending = gpu->mig;
    return SUCCESS;
}

#define MIB(number) ((unsigned long long)(number) << 20)

/* The older call counts the driver's own part as used. */
struct memory { unsigned long long total, free, used; };

int nvmlDeviceGetMemoryInfo(device gpu, struct memory *memory) {
    BEHAVE(gpu);
    memory->total = MIB(gpu->total);
    memory->used = MIB(gpu->used) + MIB(gpu->reserved);
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

#ifndef NO_MEMORY_V2
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo_v2(device gpu, struct memory_v2 *memory) {
    BEHAVE(gpu);
    if (memory->version != (sizeof *memory | 2 << 24)) return VERSION_MISMATCH;
    memory->total = MIB(gpu->total);
    memory->reserved = MIB(gpu->reserved);
    memory->used = MIB(gpu->used);
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}
#endif

struct rates { unsigned gpu, memory; };

int nvmlDeviceGetUtilizationRates(device gpu, struct rates *rates) {
    BEHAVE(gpu);
    rates->gpu = gpu->utilization;
    rates->memory = 0;
    return SUCCESS;
}

struct process { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; };

static int list(unsigned number, const struct gpu *gpu, unsigned pids, unsigned *room, struct process *processes) {
    unsigned index, fits = processes ? *room : 0;
    *room = number + pids;
    if (number + pids > fits) return INSUFFICIENT_SIZE;
    for (index = 0; index < number + pids; index++) {
        int is_made_up = index < number;
        unsigned long long mib = is_made_up ? 0 : gpu->mib[index - number];
        unsigned pid = is_made_up ? FIRST_PID + index : gpu->pid[index - number];
        processes[index] = (struct process){pid, mib ? mib << 20 : ~0ULL, ~0u, ~0u};
    }
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(device gpu, unsigned *room, struct process *processes) {
    BEHAVE(gpu);
    return list(gpu->processes, gpu, gpu->pids, room, processes);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(device gpu, unsigned *room, struct process *processes) {
    BEHAVE(gpu);
    return list(gpu->clients, gpu, 0, room, processes);
}

struct sample { unsigned pid; unsigned long long time; unsigned sm, memory, encoder, decoder; };

int nvmlDeviceGetProcessUtilization(device gpu, struct sample *samples, unsigned *room, unsigned long long since) {
    unsigned index, fits = samples ? *room : 0;
    BEHAVE(gpu);
    *room = gpu->samples;
    if (!gpu->samples) return NOT_FOUND;
    if (gpu->samples > fits) return INSUFFICIENT_SIZE;
    for (index = 0; index < gpu->samples; index++)
        samples[index] = (struct sample){gpu->sampled[index], since + 1, gpu->busy[index], 0, 0, 0};
    return SUCCESS;
}

int nvmlDeviceGetComputeMode(device gpu, unsigned *mode) {
    BEHAVE(gpu);
    *mode = gpu->mode;
    return SUCCESS;
}

int nvmlDeviceSetComputeMode(device gpu, unsigned mode) {
    FILE *log;
    BEHAVE(gpu);
    log = beside("log", "a");
    if (log && fprintf(log, "mode %s %u\n", gpu->uuid, mode) > 0) fclose(log);
    return SUCCESS;
}

struct field {
    unsigned id, scope;
    long long timestamp, latency;
    unsigned type;
    int result;
    union { unsigned number; unsigned long long bytes; } value;
};

int nvmlDeviceGetFieldValues(device gpu, int number, struct field *fields) {
    int asked;
    unsigned known;
    BEHAVE(gpu);
    for (asked = 0; asked < number; asked++) {
        fields[asked].result = NOT_SUPPORTED;
        for (known = 0; known < gpu->fields; known++) {
            if (gpu->field[known] != fields[asked].id) continue;
            fields[asked].type = VALUE_UNSIGNED_INT;
            fields[asked].result = SUCCESS;
            fields[asked].value.number = gpu->value[known];
        }
    }
    return SUCCESS;
}

#ifndef NO_LIMITS
struct limits { const char *name_space; unsigned long long soft, hard; };

int nvmlDeviceSetMemoryLimits_v1(device gpu, struct limits *limits) {
    FILE *log;
    BEHAVE(gpu);
    log = beside("log", "a");
    if (log && fprintf(log, "limit %s %s %llu %llu\n", gpu->uuid, limits->name_space, limits->soft, limits->hard) > 0)
        fclose(log);
    return SUCCESS;
}
#endif
