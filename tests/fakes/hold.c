// SPDX-License-Identifier: GPL-2.0-or-later
//
// hold SOCKET PROGRAM [ARGUMENT...]: runs a program whose system calls that other processes can notice wait until the
// other end of SOCKET, a file number, lets them be made. It gets the file of seccomp_unotify(2) through the socket.

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

// What tests/harness/held.py knows by number: it prints names, and looks after those that change something.
static const int held[] = {
#ifdef SYS_mkdir
    SYS_mkdir, SYS_rmdir, SYS_unlink, SYS_rename, SYS_chmod, SYS_open,
#endif
    SYS_mkdirat, SYS_unlinkat, SYS_renameat, SYS_renameat2, SYS_fchmod, SYS_fchmodat, SYS_openat, SYS_getdents64,
    SYS_flock, SYS_write, SYS_pwrite64, SYS_ftruncate, SYS_fsync, SYS_utimensat, SYS_clock_nanosleep, SYS_kill,
    SYS_exit_group,
};
enum { COUNT = sizeof held / sizeof *held };

static void fail(const char *what)
{
    fprintf(stderr, "hold: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void give(int to, int file)
{
    char byte = 0, room[CMSG_SPACE(sizeof file)] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(header), &file, sizeof file);
    if (sendmsg(to, &message, 0) != 1)
        fail("sendmsg");
}

int main(int count, char **words)
{
    if (count < 3)
        return fprintf(stderr, "usage: hold SOCKET PROGRAM [ARGUMENT...]\n"), 2;
    struct sock_filter filter[COUNT + 3];
    filter[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    for (int at = 0; at < COUNT; at++)
        filter[at + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, held[at], COUNT - at, 0);
    filter[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    struct sock_fprog program = {COUNT + 3, filter};
    int to = atoi(words[1]);
    int file = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    if (file < 0)
        fail("seccomp");
    give(to, file);
    close(file);
    close(to);
    execv(words[2], words + 2);
    fail(words[2]);
}
