// SPDX-License-Identifier: GPL-2.0-or-later
//
// What the two halves of the siege's client share.
#pragma once
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
#define JOB_ID(record) (record)->step_id.job_id
#else
#define JOB_ID(record) (record)->job_id
#endif

// Prints TEXT with %XX for whatever would end a field or a line.
void print_quoted(const char *text);
// Turns %XX into bytes, in place.
void unquote(char *text);
// Prints every job and node as one moment has them; returns 0 or an error number.
int look(void);
