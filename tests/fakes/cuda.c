/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * cuda.c: as much of libcuda.so.1 as tests/live/tools/cuda-client.c calls, without a GPU: a GPU of 108 multiprocessors and
 * 40960 MiB that keeps to the two variables of a share as NVIDIA's documents say. So that tests/gpu/prove can be tried. As
 * under MPS, the attribute is the reduced number of multiprocessors (NVIDIA: Multi-Process Service, "Limited Execution Resource
 * Provisioning"), and limits hold for clients of a daemon only.
 *
 *     gcc -shared -fPIC -o DIR/libcuda.so.1 cuda.c
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OUT_OF_MEMORY = 2, MULTIPROCESSORS = 108, MIB = 40960 };

/* Whether there is a daemon to be a client of. */
static int is_client(void) {
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char path[4096];
    snprintf(path, sizeof path, "%s/control", folder ? folder : "/nonexistent");
    return access(path, F_OK) == 0;
}

static int multiprocessors(void) {
    const char *percent = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    return is_client() && percent ? MULTIPROCESSORS * atoi(percent) / 100 : MULTIPROCESSORS;
}

static long limit(void) {
    const char *text = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    long mib;
    return is_client() && text && sscanf(text, "0=%ldM", &mib) == 1 ? mib : MIB;
}

int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal; }
int cuCtxCreate_v2(void **context, unsigned flags, int device) { *context = context; return (int)flags + device; }
int cuMemFree_v2(unsigned long long memory) { return memory == 0; }

int cuDeviceGetName(char *name, int size, int device) {
    snprintf(name, (size_t)size, "no GPU %d at all", device);
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 16 ? multiprocessors() : device;
    return 0;
}

int cuCtxGetExecAffinity(unsigned *affinity, int type) {
    affinity[0] = (unsigned)type;
    affinity[1] = (unsigned)multiprocessors();
    return 0;
}

int cuMemGetInfo_v2(size_t *free, size_t *total) {
    *free = (size_t)limit() << 20;
    *total = (size_t)MIB << 20;
    return 0;
}

int cuMemAlloc_v2(unsigned long long *memory, size_t size) {
    *memory = 1;
    return (long)(size >> 20) > limit() ? OUT_OF_MEMORY : 0;
}
