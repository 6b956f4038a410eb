# SPDX-License-Identifier: GPL-2.0-or-later
#
# Processes and locks of the lab. Sourced by `lab`. Touches only processes that the lab itself started, by number and
# start time, never by name.

# Another process can get the same number later, but not with the same start time: field 22 of /proc/PID/stat, counted
# after the name, which may contain blanks.
start_time_of() {
    find_start "$1" && echo "$START"
}

# The same; sets START.
find_start() {
    local stat
    read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
    stat=${stat##*) }
    set -- $stat
    [[ $1 != Z ]] || return 1 # a zombie has ended, but its parent hasn't waited for it yet
    START=${20}
}

# remember_process PID FILE
remember_process() {
    echo "$1" >"$2"
    start_time_of "$1" >"$2.started" || true
}

# Prints the remembered number if that process still lives.
remembered_process() {
    find_remembered "$1" && echo "$REMEMBERED"
}

# The same; sets REMEMBERED.
find_remembered() {
    local started
    [[ -s $1 && -s $1.started ]] || return 1
    read -r REMEMBERED <"$1"
    read -r started <"$1.started"
    find_start "$REMEMBERED" && [[ $START == "$started" ]]
}

# Prints the first process of the namespace that process $1, `unshare --fork`, made.
namespace_init_of() {
    find_init "$1" && echo "$INIT"
}

# The same; sets INIT.
find_init() {
    INIT=''
    read -r INIT _ 2>/dev/null <"/proc/$1/task/$1/children" || true
    [[ -n $INIT ]]
}

wait_until_gone() {
    local tries
    for ((tries = 0; tries < 400; tries++)); do
        start_time_of "$1" >/dev/null || return 0
        sleep 0.02
    done
    return 1
}

# Ends a whole pid namespace. Kills its first process and not unshare: the kernel ends and reaps all others before the
# first one is gone, and unshare exits only then. So when this returns, nothing of the namespace is left, including
# mounts.
end_namespace() {
    local outer=$1 init
    if init=$(namespace_init_of "$outer"); then
        kill -KILL "$init" 2>/dev/null || true
    else
        kill -KILL "$outer" 2>/dev/null || true # --kill-child takes the rest
    fi
    wait_until_gone "$outer" || say "process $outer does not end"
}

# lock FILE WHAT: holds FILE's lock on descriptor LOCK_FD until unlock or exit. flock runs in the background, so that a
# signal to lab is handled at once.
lock() {
    mkdir -p "$(dirname "$1")"
    exec {LOCK_FD}>"$1"
    flock --timeout 2 "$LOCK_FD" &
    wait $! && return 0
    say "waiting: another lab is busy with $2"
    flock "$LOCK_FD" &
    wait $!
}

unlock() {
    exec {LOCK_FD}>&-
}

# A box outlives `lab up`: if it kept the caller's pipes or a lock open, the caller would wait forever for their end.
close_inherited_descriptors() {
    local path fd
    for path in /proc/"$BASHPID"/fd/*; do
        fd=${path##*/}
        ((fd <= 2 || fd == 255)) || exec {fd}>&- # 255 is bash's own
    done
}

# A signal ends lab at once, with the usual status, after it runs what undo_at_exit named. Without a trap, bash forgets
# a SIGINT that arrived while it waited for a child.
heed_signals() {
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
}

# undo_at_exit [UNDO]: from now on UNDO runs if lab exits, by itself or by a signal. Without UNDO, nothing has to be
# undone any more. What UNDO calls must say `return 0`: in an EXIT trap, a bare `return` returns lab's own exit status.
undo_at_exit() {
    trap "${1:--}" EXIT
}
