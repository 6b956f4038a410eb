/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * cuda.c: as much of libcuda.so.1 as tests/gpu calls, without a GPU, for `tests/gpu/one --pretend`: one GPU,
 * /dev/nvidia0, of 108 multiprocessors and 40960 MiB.
 *
 *     gcc -shared -fPIC -o DIR/libcuda.so.1 cuda.c
 *
 * It does what NVIDIA's documents say of the real one: who can't open the device node finds no GPU; a client of an MPS
 * daemon is kept to its own variables and to the daemon's limits (here: what gpushare wrote beside the daemon's pipe
 * directory), and runs beside other clients; without MPS, programs take turns, and so do servers, in whose turn a limit on
 * threads costs time; a fault of one client ends all clients of its server. Each process with a context has a file in
 * the directory STATE, which everybody can write to; the words of STATE/broken make it misbehave:
 *
 *     none     there is no GPU      limits   no limit holds      turns   MPS clients take turns too
 *     unfair   half of the users get a tenth of the steps        kin     a client that is killed ends all others
 *     hang     no kernel ends
 *     spread   a fault ends every client of every server         wound   a server that had a fault stays bad
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE "/dev/shm/gpushare-fake-cuda"

typedef unsigned long long memory;
enum { OUT_OF_MEMORY = 2, NO_DEVICE = 100, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719 };
enum { MULTIPROCESSORS = 108, MIB = 40960, STEP_US = 4000, SWITCH_US = 1000, VERSION = 12040 };

static long faults_before;
static int is_lost, is_faulting, killed_before;

static int is_broken(const char *word) {
    char text[256] = "";
    FILE *file = fopen(STATE "/broken", "r");
    if (!file) return 0;
    if (!fgets(text, sizeof text, file)) *text = 0;
    fclose(file);
    return strstr(text, word) != NULL;
}

/* The directory of the daemon that this process is a client of; NULL without one. */
static const char *pipe_folder(void) {
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char path[4096];
    snprintf(path, sizeof path, "%s/control", folder ? folder : "/nonexistent");
    return access(path, F_OK) == 0 ? folder : NULL;
}

/* The daemon's limit named KEY; MOST if it has none. */
static long of_daemon(const char *key, long most) {
    char path[4096], line[256];
    size_t length = strlen(key);
    FILE *file;
    snprintf(path, sizeof path, "%s/../state", pipe_folder());
    file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, length) && line[length] == '=' && atol(line + length + 1) > 0) most = atol(line + length + 1);
    if (file) fclose(file);
    return most;
}

static long lower(long one, long other) { return one < other ? one : other; }

static long percent(void) {
    const char *text = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    if (!pipe_folder() || is_broken("limits")) return 100;
    return lower(of_daemon("percent", 100), text ? atol(text) : 100);
}

static long limit(void) {
    const char *text = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    long mib = MIB;
    if (!pipe_folder() || is_broken("limits")) return MIB;
    if (text) sscanf(text, "0=%ldM", &mib);
    return lower(of_daemon("memory", MIB), mib);
}

static unsigned long server(void) {
    struct stat about = {0};
    return pipe_folder() && stat(pipe_folder(), &about) == 0 ? (unsigned long)about.st_ino : 0;
}

/* How many servers the processes with a context are clients of. */
static unsigned servers(void) {
    unsigned long known[64], one;
    unsigned found = 0, at;
    char path[512];
    struct dirent *entry;
    DIR *folder = opendir(STATE);
    while (folder && (entry = readdir(folder))) {
        FILE *file;
        snprintf(path, sizeof path, STATE "/%s", entry->d_name);
        if (strncmp(entry->d_name, "pid.", 4) || !(file = fopen(path, "r"))) continue;
        if (fscanf(file, "%lu", &one) != 1) one = 0;
        fclose(file);
        for (at = 0; at < found && known[at] != one; at++);
        if (one && at == found && found < 64) known[found++] = one;
    }
    if (folder) closedir(folder);
    return found ? found : 1;
}

/* The file with a byte for each fault of this process's server. */
static void fault_file(char *path, size_t size) {
    struct stat about = {0};
    if (!is_broken("spread") && pipe_folder()) stat(pipe_folder(), &about);
    snprintf(path, size, STATE "/faults.%lu", (unsigned long)about.st_ino);
}

static long faults(void) {
    char path[256];
    struct stat about;
    fault_file(path, sizeof path);
    return pipe_folder() && stat(path, &about) == 0 ? (long)about.st_size : 0;
}

static int fault(void) {
    char path[256];
    int file;
    is_lost = 1;
    if (!pipe_folder()) return ILLEGAL_ADDRESS;
    fault_file(path, sizeof path);
    file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (file < 0 || fchmod(file, 0666) + write(file, "x", 1) < 0) return ILLEGAL_ADDRESS;
    close(file);
    return ILLEGAL_ADDRESS;
}

static void unlist(void) {
    char path[256];
    snprintf(path, sizeof path, STATE "/pid.%d", getpid());
    unlink(path);
}

/* How many listed processes have ended without a word. */
static int killed(void) {
    char path[512];
    struct dirent *entry;
    DIR *folder = opendir(STATE);
    int found = 0;
    while (folder && (entry = readdir(folder))) {
        snprintf(path, sizeof path, "/proc/%s", entry->d_name + 4 * !strncmp(entry->d_name, "pid.", 4));
        found += !strncmp(entry->d_name, "pid.", 4) && access(path, F_OK);
    }
    if (folder) closedir(folder);
    return found;
}

static int can_open(void) {
    int node = open("/dev/nvidia0", O_RDWR);
    if (node >= 0) close(node);
    return node >= 0 || (errno != EPERM && errno != EACCES && errno != ENOENT);
}

int cuInit(unsigned flags) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (is_broken("none")) return NO_DEVICE;
    if (visible && strcmp(visible, "0") && strncmp(visible, "GPU-", 4)) return NO_DEVICE;
    if (!can_open()) return NO_DEVICE;
    killed_before = killed();
    faults_before = is_broken("wound") ? -1 : faults();
    return (int)flags;
}

int cuDriverGetVersion(int *version) { return *version = VERSION, 0; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = 0, ordinal; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 16 ? (int)(MULTIPROCESSORS * percent() / 100) : 0;
    return device;
}

int cuCtxCreate_v2(void **context, unsigned flags, int device) {
    char path[256];
    FILE *file;
    snprintf(path, sizeof path, STATE "/pid.%d", getpid());
    file = fopen(path, "w");
    if (file) fprintf(file, "%lu\n", server()), fclose(file);
    atexit(unlist);
    *context = context;
    return (int)flags + device;
}

int cuMemFree_v2(memory address) { return address == 0; }
int cuMemAlloc_v2(memory *address, size_t size) {
    *address = 1;
    return (long)(size >> 20) > limit() ? OUT_OF_MEMORY : 0;
}

/* A kernel: some time of the GPU's. */
int cuCtxSynchronize(void) {
    int file = -1, is_alone = !pipe_folder() || is_broken("turns");
    unsigned turns = is_alone ? 1 : servers();
    unsigned step = is_alone ? STEP_US + SWITCH_US : STEP_US * turns * (turns > 1 && percent() < 100 ? 2 : 1);
    if (is_faulting) return is_faulting = 0, fault();
    if (is_broken("kin") && killed() > killed_before) return is_lost = 1, LAUNCH_FAILED;
    if (is_lost || faults() != (faults_before < 0 ? 0 : faults_before)) return is_lost = 1, LAUNCH_FAILED;
    if (is_alone) {
        file = open(STATE "/turn", O_RDONLY | O_CREAT, 0644);
        if (file >= 0) flock(file, LOCK_EX);
    }
    if (is_broken("hang")) sleep(3600);
    usleep(step);
    if (file >= 0) close(file);
    if (is_broken("unfair") && getuid() % 2) usleep(10 * step);
    return 0;
}

int cuMemsetD8_v2(memory address, unsigned char value, size_t size) { return !address || (!value && !size); }
int cuModuleLoadData(void **module, const void *text) { return *module = module, text == NULL; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    return *function = module, strcmp(name, "nowhere") != 0;
}
int cuLaunchKernel(void *function) { return is_faulting = function != NULL, 0; }
