// SPDX-License-Identifier: GPL-2.0-or-later
//
// Stands for nvidia-cuda-mps-control where thousands of daemons start and end: the daemon holds control_lock, keeps the
// limits that it is given and quits when it is told; it has no server. As NVIDIA's, it exits with 0 when it listens,
// and of two in one directory the second ends. A daemon makes none of the system calls that hold.c holds, which would
// wait for nobody.

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { LONGEST = 4096 };
static char percent[32] = "100.0", limit[32] = "";

static int complain(const char *what)
{
    fprintf(stderr, "%s\n", what);
    return 1;
}

static int socket_in(const char *folder, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof address->sun_path, "%s/control", folder);
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

// The answer to a line.
static void answer(char *line, char *said)
{
    char word[64] = "", last[64] = "";
    sscanf(line, "%63s", word);
    const char *space = strrchr(line, ' ');
    snprintf(last, sizeof last, "%.31s", space ? space + 1 : "");
    if (!strcmp(word, "get_default_active_thread_percentage"))
        sprintf(said + strlen(said), "%s\n", percent);
    else if (!strcmp(word, "get_default_device_pinned_mem_limit"))
        sprintf(said + strlen(said), "%s\n", limit);
    else if (!strcmp(word, "set_default_active_thread_percentage"))
        snprintf(percent, sizeof percent, "%.24s.0", last);
    else if (!strcmp(word, "set_default_device_pinned_mem_limit"))
        snprintf(limit, sizeof limit, "%.30s", strcmp(last, "0") ? last : "");
    else if (!strcmp(word, "quit"))
        _exit(0);
}

static void serve(int listener)
{
    for (;;) {
        char asked[LONGEST] = "", said[LONGEST] = "";
        int client = accept(listener, NULL, NULL);
        size_t count = 0;
        ssize_t more;
        while (count < sizeof asked - 1 && (more = recv(client, asked + count, sizeof asked - 1 - count, 0)) > 0)
            count += more;
        char *rest = asked, *line;
        while ((line = strsep(&rest, "\n")))
            answer(line, said);
        send(client, said, strlen(said), MSG_NOSIGNAL);
        close(client);
    }
}

static int start(const char *folder)
{
    char path[256], ready;
    int told[2];
    struct sockaddr_un address;
    if (pipe(told))
        return complain("pipe");
    if (fork() == 0) {
        setsid();
        snprintf(path, sizeof path, "%s/control_lock", folder);
        int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), listener = socket_in(folder, &address);
        struct flock whole = {.l_type = F_WRLCK};
        unlink(address.sun_path);
        if (fcntl(lock, F_SETLK, &whole) || bind(listener, (void *)&address, sizeof address) || listen(listener, 64))
            _exit(1);
        int null = open("/dev/null", O_RDWR);
        for (int number = 0; number < 3; number++)
            dup2(null, number);
        if (write(told[1], "", 1) != 1)
            _exit(1);
        close(told[0]);
        close(told[1]);
        serve(listener);
    }
    close(told[1]);
    return read(told[0], &ready, 1) == 1 ? 0 : complain("An instance of this daemon is already running");
}

static int ask(const char *folder)
{
    char asked[LONGEST], said[LONGEST];
    struct sockaddr_un address;
    int daemon = socket_in(folder, &address);
    ssize_t count = 0, more;
    while ((more = read(0, asked + count, sizeof asked - count)) > 0)
        count += more;
    if (connect(daemon, (void *)&address, sizeof address))
        return complain("Cannot find MPS control daemon process");
    send(daemon, asked, count, MSG_NOSIGNAL);
    shutdown(daemon, SHUT_WR);
    while ((more = recv(daemon, said, sizeof said, 0)) > 0)
        if (write(1, said, more) != more)
            return 1;
    return 0;
}

int main(int count, char **words)
{
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    if (!folder)
        return complain("no folder");
    return count > 1 && !strcmp(words[1], "-d") ? start(folder) : ask(folder);
}
