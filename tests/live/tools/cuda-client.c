/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * cuda-client [hold SECONDS] [MIB]...: what a CUDA program meets here, as lines of NAME=VALUE.
 *
 * Calls cuInit of libcuda.so.1, which speaks to the MPS daemon before it looks for a GPU: without a GPU too it is seen in
 * the daemon's log ("NEW CLIENT"). With a GPU it goes on: the GPU's name and memory, the multiprocessors that it may use,
 * and whether it can allocate each MIB in turn (each is freed again, and with "hold" the last one is kept so long).
 * Ends with 0 if cuInit succeeded, 1 if not, 2 if there is no libcuda or the arguments are wrong.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As in cuda.h, which is not free. */
typedef int result;
typedef unsigned long long address;
struct exec_affinity {
    int type;
    unsigned int multiprocessors;
    char more[256];
};
enum { MULTIPROCESSORS = 16, AFFINITY_OF_MULTIPROCESSORS = 0, LONGEST = 120 };

static void *library;

/* The function NAME of libcuda; a driver that lacks it ends the program, as a missing library does. */
static result (*function(const char *name))() {
    result (*found)();
    *(void **)&found = dlsym(library, name);
    if (!found) {
        printf("error=no %s in libcuda.so.1\n", name);
        exit(2);
    }
    return found;
}

static result say(const char *name, result value) {
    printf("%s=%d\n", name, value);
    fflush(stdout);
    return value;
}

/* What the GPU is and how much of it this process may use: needs a context. */
static result describe(int device) {
    char name[256] = "";
    size_t free = 0, total = 0;
    int all = 0;
    struct exec_affinity affinity;

    function("cuDeviceGetName")(name, (int)sizeof name, device);
    printf("gpu=%s\n", name);
    function("cuDeviceGetAttribute")(&all, MULTIPROCESSORS, device);
    say("multiprocessors", all);
    memset(&affinity, 0, sizeof affinity);
    if (dlsym(library, "cuCtxGetExecAffinity") &&
        function("cuCtxGetExecAffinity")(&affinity, AFFINITY_OF_MULTIPROCESSORS) == 0)
        say("usable_multiprocessors", (int)affinity.multiprocessors);
    if (function("cuMemGetInfo_v2")(&free, &total) == 0)
        printf("free_mib=%zu\ntotal_mib=%zu\n", free >> 20, total >> 20);
    return 0;
}

int main(int count, char **words) {
    int next = 1, device = 0;
    unsigned int seconds = 0;
    void *context = NULL;
    address memory = 0;

    if (count > 2 && !strcmp(words[1], "hold")) {
        seconds = (unsigned int)atoi(words[2]);
        next = 3;
    }
    alarm(LONGEST + seconds); /* a server that hangs makes cuInit hang */
    printf("pid=%d\nuid=%d\n", getpid(), getuid());
    fflush(stdout);
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        printf("error=%s\n", dlerror());
        return 2;
    }
    if (say("cuInit", function("cuInit")(0)) != 0)
        return 1;
    if (say("cuDeviceGet", function("cuDeviceGet")(&device, 0)) != 0)
        return 1;
    if (say("cuCtxCreate", function("cuCtxCreate_v2")(&context, 0, device)) != 0)
        return 1;
    describe(device);
    for (; next < count; next++) {
        long mib = atol(words[next]);
        result done;
        if (memory)
            function("cuMemFree_v2")(memory);
        memory = 0;
        done = function("cuMemAlloc_v2")(&memory, (size_t)mib << 20);
        printf("cuMemAlloc %ld MiB=%d\n", mib, done);
        fflush(stdout);
    }
    sleep(seconds);
    return 0;
}
