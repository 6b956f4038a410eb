/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Linked into every instrumented file: where its counters are, because Slurm's daemons start programs without the
 * caller's environment. DIRECTORY is the same on this machine and in the lab's clusters. %c: the counters are mapped
 * from the file, so they outlive the process and a fork shares them. %m: one file for each program or .so.
 */
#include <sys/stat.h>
#include <unistd.h>

/* compiler-rt's */
void __llvm_profile_set_filename(const char *);

/* 101: before compiler-rt reads its own settings. */
__attribute__((constructor(101))) static void set_directory(void)
{
	/* Every user's processes write to it. */
	mode_t mask = umask(0);
	/* A container may not have it, and a process without it must not print anything. */
	__llvm_profile_set_filename(access(DIRECTORY, W_OK) == 0 ? DIRECTORY "/%m%c.profraw" : "/dev/null");
	umask(mask);
}
