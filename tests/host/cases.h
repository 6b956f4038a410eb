// SPDX-License-Identifier: GPL-2.0-or-later
//
// The submissions whose cost speed and footprint measure.
#ifndef GPUSHARE_CASES_H
#define GPUSHARE_CASES_H

#include "host.h"

typedef struct {
    const char *title;
    request_t request;
    bool lua; // answered by the Lua script in the same way
} measured_t;

// qos_tail is the last of the list, where Slurm's look-up takes longest.
static const measured_t cases[] = {
    {"CPU only", {.name = "CPU only", .user = ALICE, .qos = "qos_tail"}, true},
    {"typed, governed QOS", {.name = "typed", .user = ALICE, .qos = "qos_tail", .node = GRES "gpu:a40:2"}, true},
    {"typed, default QOS", {.name = "default", .user = BOB, .node = GRES "gpu:a40:2"}, false},
    {"typed, free QOS", {.name = "typed, free", .user = ALICE, .qos = "free", .node = GRES "gpu:a40:2"}, false},
    {"untyped, free QOS", {.name = "untyped, free", .user = ALICE, .qos = "free", .node = GRES "gpu:2"}, false},
    {"untyped, refused",
     {.name = "untyped", .user = ALICE, .qos = "qos_tail", .node = GRES "gpu:2", .rule = "GS101"}, true},
};
#define CASES (sizeof cases / sizeof *cases)

#endif
