// SPDX-License-Identifier: GPL-2.0-or-later
//
// Loads a job_submit plugin as slurmctld does (src/common/plugin.c): RTLD_LAZY and local, three data symbols, the
// version's three parts, init(), then the two functions.
#include "host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *needed(void *handle, const char *path, const char *symbol) {
    void *address = dlsym(handle, symbol);
    if (!address) give_up("%s: no symbol '%s'", path, symbol);
    return address;
}

plugin_t load_plugin(const char *path, const char *type) {
    plugin_t plugin;
    void *handle = dlopen(path, RTLD_LAZY);
    if (!handle) give_up("%s", dlerror());
    needed(handle, path, "plugin_name");
    if (strcmp(needed(handle, path, "plugin_type"), type) != 0) give_up("%s: not of type %s", path, type);
    uint32_t version = *(uint32_t *)needed(handle, path, "plugin_version");
    if ((version & 0xffffff) != (SLURM_VERSION_NUMBER & 0xffffff))
        give_up("%s: version %x, not %x", path, version, SLURM_VERSION_NUMBER);
    int (*init)(void) = (int (*)(void))dlsym(handle, "init");
    if (init && init() != SLURM_SUCCESS) give_up("%s: init() failed", path);
    *(void **)&plugin.submit = needed(handle, path, "job_submit");
    *(void **)&plugin.modify = needed(handle, path, "job_modify");
    return plugin;
}
