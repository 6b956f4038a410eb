/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * enter PROCESS USER NODE COMMAND [ARGUMENT]...: runs COMMAND as USER in the box whose process 1 has the
 * folder PROCESS in /proc, or on a NODE of it with its own namespaces ("" for none). COMMAND has only the
 * variables PATH, HOME, USER and LANG, and ends when this process ends.
 *
 * Tests do this tens of thousands of times. nsenter, env and setpriv in a row take three times as long.
 *
 * PROCESS may be a descriptor of such a folder, /proc/PID/fd/N. It leads nowhere after the box has died, whatever
 * process then has the number.
 *
 * Exit status: COMMAND's own, or its signal; 126 and 127 if COMMAND can't be started, as in a shell; 125 if
 * the box, the user or the node isn't there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOT_THERE 125
#define MOST 8

_Noreturn static void give_up(const char *what, const char *why)
{
	fprintf(stderr, "enter: %s: %s\n", what, why);
	exit(NOT_THERE);
}

static int open_in(int folder, const char *name, int flags)
{
	int descriptor = openat(folder, name, flags | O_CLOEXEC);
	if (descriptor < 0)
		give_up(name, strerror(errno));
	return descriptor;
}

/* Opens all namespaces before it enters the first: `folder` is in a /proc that may then be out of sight. */
static void enter(int folder, const char *const *namespaces)
{
	int descriptors[MOST], count;

	for (count = 0; namespaces[count]; count++)
		descriptors[count] = open_in(folder, namespaces[count], O_RDONLY);
	for (int one = 0; one < count; one++) {
		if (setns(descriptors[one], 0))
			give_up(namespaces[one], strerror(errno));
		close(descriptors[one]);
	}
}

/* Only a child is in the pid namespace that was entered. The parent waits for it, and ends as it does. */
static void go_on_in_child(void)
{
	int status;
	pid_t child = fork();

	if (child < 0)
		give_up("fork", strerror(errno));
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		return;
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			give_up("wait", strerror(errno));
	if (WIFSIGNALED(status)) {
		/* The core, if any, is COMMAND's. */
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		signal(WTERMSIG(status), SIG_DFL);
		kill(getpid(), WTERMSIG(status));
		exit(128 + WTERMSIG(status));
	}
	exit(WEXITSTATUS(status));
}

/* Of a node with its own namespaces, the box has the number of process 1 in this file. */
static void enter_node(const char *node)
{
	char path[256];
	int number = 0, folder;
	FILE *file;

	snprintf(path, sizeof path, "/run/lab/nodes/%s", node);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%d", &number) != 1)
		give_up(node, "the box has no such node with namespaces of its own");
	fclose(file);
	snprintf(path, sizeof path, "/proc/%d", number);
	folder = open_in(AT_FDCWD, path, O_PATH | O_DIRECTORY);
	enter(folder, (const char *const[]){ "ns/mnt", "ns/uts", "ns/pid", NULL });
	close(folder);
}

/* The box's users are all in its files. */
static struct passwd find_user(const char *name)
{
	FILE *file = fopen("/etc/passwd", "re");
	struct passwd *user;

	while (file && (user = fgetpwent(file)))
		if (!strcmp(user->pw_name, name)) {
			fclose(file);
			return *user;
		}
	give_up(name, "the box has no such user");
}

static void become(const struct passwd *user)
{
	gid_t groups[64] = { user->pw_gid };
	size_t count = 1;
	FILE *file = fopen("/etc/group", "re");
	struct group *group;

	while (file && (group = fgetgrent(file)))
		for (char **member = group->gr_mem; *member; member++)
			if (!strcmp(*member, user->pw_name) && group->gr_gid != user->pw_gid &&
			    count < sizeof groups / sizeof *groups)
				groups[count++] = group->gr_gid;
	if (file)
		fclose(file);
	if (setgroups(count, groups) || setresgid(user->pw_gid, user->pw_gid, user->pw_gid) ||
	    setresuid(user->pw_uid, user->pw_uid, user->pw_uid))
		give_up(user->pw_name, strerror(errno));
	/* Another user's process doesn't keep it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

int main(int count, char **arguments)
{
	struct passwd user;
	char home[256];
	int folder, root;

	if (count < 5) {
		fprintf(stderr, "usage: enter PROCESS USER NODE COMMAND [ARGUMENT]...\n");
		return 2;
	}
	folder = open_in(AT_FDCWD, arguments[1], O_PATH | O_DIRECTORY);
	root = open_in(folder, "root", O_PATH | O_DIRECTORY);
	enter(folder, (const char *const[]){ "ns/mnt", "ns/net", "ns/uts", "ns/ipc", "ns/pid", NULL });
	if (fchdir(root) || chroot("."))
		give_up("root", strerror(errno));
	close(folder);
	close(root);
	go_on_in_child();
	user = find_user(arguments[2]);
	if (*arguments[3]) {
		enter_node(arguments[3]);
		go_on_in_child();
	}
	snprintf(home, sizeof home, strcmp(user.pw_name, "root") ? "/home/%s" : "/root", user.pw_name);
	if (chdir(home))
		give_up(home, strerror(errno));
	clearenv();
	setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	setenv("HOME", home, 1);
	setenv("USER", user.pw_name, 1);
	setenv("LANG", "C.UTF-8", 1);
	become(&user);
	execvp(arguments[4], arguments + 4);
	fprintf(stderr, "enter: %s: %s\n", arguments[4], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}
