// SPDX-License-Identifier: GPL-2.0-or-later
//
// In the place of a program PATH: runs PATH.real under a seccomp filter that answers bpf(2) with EPERM, as a kernel in
// lockdown or a container does. The program doesn't notice otherwise.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof rules / sizeof *rules, .filter = rules};
    char path[4096], real[4200];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    (void)argc;
    if (length < 0) return 125;
    path[length] = 0;
    snprintf(real, sizeof real, "%s.real", path);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return 125;
    execv(real, argv);
    return 126;
}
