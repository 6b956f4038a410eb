/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * cgroup2-only.so: for tests on a machine with hybrid cgroups, and for nothing else.
 *
 * Slurm's cgroup/v2 takes the first line of /proc/PID/cgroup and gives up ("Hybrid mode is
 * not supported") when that is not the "0::" line, which it never is while any v1 hierarchy
 * is mounted on the machine. Preloaded into slurmd, and so into slurmstepd, this lets them
 * see only the "0::" line of such a file. Nothing else is changed: the cgroups and the
 * device programs in them are real.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int open_function(const char *, int, ...);

static int is_proc_cgroup(const char *path)
{
	size_t length = strlen(path);

	return length >= 14 && !strncmp(path, "/proc/", 6) && !strcmp(path + length - 7, "/cgroup");
}

/* A memory file that holds only the "0::" line of the file fd, which is closed. */
static int keep_unified_line(int fd)
{
	char text[8192], *line;
	size_t length = 0;
	ssize_t got;

	while (length < sizeof text - 1 && (got = read(fd, text + length, sizeof text - 1 - length)) > 0)
		length += (size_t) got;
	text[length] = '\0';
	close(fd);

	line = text;
	if (strncmp(text, "0::", 3) && (line = strstr(text, "\n0::")))
		line++;
	fd = memfd_create("cgroup", MFD_CLOEXEC);
	if (fd < 0 || !line)
		return fd;
	if (write(fd, line, strlen(line)) < 0 || lseek(fd, 0, SEEK_SET) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

int open(const char *path, int flags, ...)
{
	static open_function *real_open;
	mode_t mode = 0;
	int fd;

	if (flags & (O_CREAT | O_TMPFILE)) {
		va_list arguments;

		va_start(arguments, flags);
		mode = va_arg(arguments, mode_t);
		va_end(arguments);
	}
	if (!real_open)
		*(void **) &real_open = dlsym(RTLD_NEXT, "open");
	fd = real_open(path, flags, mode);
	return fd >= 0 && is_proc_cgroup(path) ? keep_unified_line(fd) : fd;
}
