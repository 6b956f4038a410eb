/* SPDX-License-Identifier: GPL-2.0-or-later */
/* locked-map NAME...: what any user can do to those who look at their processes: for each NAME a process called so, of which the kernel
 * holds the lock of its memory map for ever. Whoever reads its /proc/PID/cmdline or environ waits until it ends. Needs /dev/fuse and user
 * namespaces, which users have. Prints "locked" when all are, and ends them when its standard input ends.
 *
 * One thread reads a FUSE file whose server doesn't answer, so the kernel keeps the page. Another maps the same file, opened for direct
 * I/O: mmap(2) throws the pages out first, and waits for that one with the map locked. */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOT = 1, FILE_ = 2, SIZE = 4096, FOREVER = 3600 };

static char path[128];

static void put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		err(1, "%s", file);
	close(fd);
}

/* Root of its own namespace, so that it may mount. */
static void become_mounter(void)
{
	unsigned user = getuid(), group = getgid();
	char map[64];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		err(1, "unshare");
	put("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", user);
	put("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", group);
	put("/proc/self/gid_map", map);
}

static struct fuse_attr attributes(uint64_t node)
{
	struct fuse_attr found = {.ino = node, .size = SIZE, .blocks = 8, .nlink = 1, .blksize = SIZE};

	found.mode = node == ROOT ? S_IFDIR | 0755 : S_IFREG | 0644;
	return found;
}

static void answer(int fuse, const struct fuse_in_header *question, int error, const void *body, size_t size)
{
	struct { struct fuse_out_header head; char body[512]; } out = {.head = {sizeof(out.head) + size, error, question->unique}};

	if (size)
		memcpy(out.body, body, size);
	if (write(fuse, &out, out.head.len) < 0)
		warn("answer to question %u", question->opcode);
}

/* One file in one directory. The second opening is for direct I/O. A read is taken and never answered, which `taken` is told. */
static void serve(int fuse, int taken)
{
	static char buffer[FUSE_MIN_READ_BUFFER + 65536];
	struct fuse_in_header *question = (void *)buffer;
	struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = SIZE};
	struct fuse_entry_out entry = {.nodeid = FILE_, .entry_valid = FOREVER, .attr_valid = FOREVER, .attr = attributes(FILE_)};
	struct fuse_attr_out attribute = {.attr_valid = FOREVER};
	struct fuse_open_out opened = {.open_flags = FOPEN_KEEP_CACHE};

	while (read(fuse, buffer, sizeof(buffer)) > 0) {
		switch (question->opcode) {
		case FUSE_INIT:
			answer(fuse, question, 0, &init, sizeof(init));
			break;
		case FUSE_LOOKUP:
			answer(fuse, question, 0, &entry, sizeof(entry));
			break;
		case FUSE_GETATTR:
			attribute.attr = attributes(question->nodeid);
			answer(fuse, question, 0, &attribute, sizeof(attribute));
			break;
		case FUSE_OPEN:
			opened.fh++;
			answer(fuse, question, 0, &opened, sizeof(opened));
			opened.open_flags |= FOPEN_DIRECT_IO;
			break;
		case FUSE_READ:
			if (write(taken, "", 1) != 1)
				exit(1);
			break;
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			break;
		default:
			answer(fuse, question, -38 /* ENOSYS */, NULL, 0);
		}
	}
	exit(1);
}

static int opened(void)
{
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		err(1, "%s", path);
	return fd;
}

static void *reader(void *unused)
{
	char byte;

	(void)unused;
	if (read(opened(), &byte, 1) >= 0)
		errx(1, "the read was answered");
	return NULL;
}

static void *mapper(void *unused)
{
	(void)unused;
	mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, opened(), 0);
	errx(1, "the mapping was made");
}

static void haunt(const char *name, int ready)
{
	char folder[64] = "/tmp/locked-map.XXXXXX", options[128], byte;
	int fuse, taken[2];
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!mkdtemp(folder) || pipe(taken))
		err(1, "%s", folder);
	become_mounter();
	fuse = open("/dev/fuse", O_RDWR);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
	if (fuse < 0 || mount("locked-map", folder, "fuse", MS_NOSUID | MS_NODEV, options))
		err(1, "/dev/fuse");
	snprintf(path, sizeof(path), "%s/file", folder);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(fuse, taken[1]);
	}
	close(fuse);
	prctl(PR_SET_NAME, name);
	if (pthread_create(&thread, NULL, reader, NULL) || read(taken[0], &byte, 1) != 1)
		errx(1, "the read was not asked for");
	if (pthread_create(&thread, NULL, mapper, NULL))
		errx(1, "no thread");
	sleep(1);
	if (write(ready, "", 1) != 1)
		exit(1);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	int ready[2];
	char byte;

	if (pipe(ready))
		err(1, "pipe");
	for (int at = 1; at < argc; at++)
		if (fork() == 0) {
			close(ready[0]);
			haunt(argv[at], ready[1]);
		}
	close(ready[1]);
	for (int at = 1; at < argc; at++)
		if (read(ready[0], &byte, 1) != 1)
			errx(1, "one of them ended");
	puts("locked");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
