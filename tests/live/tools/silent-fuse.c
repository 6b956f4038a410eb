/* SPDX-License-Identifier: GPL-2.0-or-later */
/* silent-fuse PATH: what a user may do with fusermount3 on a directory or file of their own: mounts a FUSE file system that lets everybody in
 * and answers nothing but the first question. Prints "mounted", ends when its standard input does; run by root for user 2001. */
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static char buffer[FUSE_MIN_READ_BUFFER + 65536];
	struct fuse_in_header *in = (void *)buffer;
	struct { struct fuse_out_header head; struct fuse_init_out init; } answer;
	char options[128];
	struct stat found;
	int fuse = open("/dev/fuse", O_RDWR);

	if (argc != 2 || fuse < 0 || stat(argv[1], &found)) {
		perror("silent-fuse");
		return 1;
	}
	snprintf(options, sizeof(options), "fd=%d,rootmode=%o,user_id=2001,group_id=2001,allow_other", fuse, found.st_mode & S_IFMT);
	if (mount("silent", argv[1], "fuse", MS_NOSUID | MS_NODEV, options)) {
		perror("silent-fuse: mount");
		return 1;
	}
	if (read(fuse, buffer, sizeof(buffer)) <= 0)
		return 1;
	memset(&answer, 0, sizeof(answer));
	answer.head.len = sizeof(answer);
	answer.head.unique = in->unique;
	answer.init.major = FUSE_KERNEL_VERSION;
	answer.init.minor = FUSE_KERNEL_MINOR_VERSION;
	answer.init.max_write = 4096;
	if (write(fuse, &answer, sizeof(answer)) != sizeof(answer))
		return 1;
	puts("mounted");
	fflush(stdout);
	for (;;) {
		struct pollfd ends[2] = {{.fd = fuse, .events = POLLIN}, {.fd = 0, .events = POLLIN}};

		if (poll(ends, 2, -1) < 0 || ends[1].revents)
			return 0;
		/* Taken, so that no signal can take the question back; and never answered. */
		if (ends[0].revents && read(fuse, buffer, sizeof(buffer)) <= 0)
			return 0;
	}
}
