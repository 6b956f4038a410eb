# SPDX-License-Identifier: GPL-2.0-or-later
#
# Processes and locks of the lab. Sourced by `lab`.
# Touches: processes the lab itself started, by number and start time, never by name.

# A number alone can be taken by another process later; with the start time it cannot.
# Field 22 of /proc/PID/stat, counted after the name, which may hold blanks.
start_time_of() {
    find_start "$1" && echo "$START"
}

# The same, into START.
find_start() {
    local stat
    read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
    stat=${stat##*) }
    set -- $stat
    [[ $1 != Z ]] || return 1 # a zombie is gone; nobody has waited for it yet
    START=${20}
}

# remember_process PID FILE
remember_process() {
    echo "$1" >"$2"
    start_time_of "$1" >"$2.started" || true
}

# Prints the remembered number if that very process still lives.
remembered_process() {
    find_remembered "$1" && echo "$REMEMBERED"
}

# The same, into REMEMBERED.
find_remembered() {
    local started
    [[ -s $1 && -s $1.started ]] || return 1
    read -r REMEMBERED <"$1"
    read -r started <"$1.started"
    find_start "$REMEMBERED" && [[ $START == "$started" ]]
}

# Prints the first process of the namespace that `unshare --fork`, process $1, made.
namespace_init_of() {
    find_init "$1" && echo "$INIT"
}

# The same, into INIT.
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

# Ends a whole pid namespace. Its first process is killed and not unshare: the kernel
# ends and reaps all others before the first one is gone, and unshare exits only then,
# so when this returns nothing of the namespace is left, mounts included.
end_namespace() {
    local outer=$1 init
    if init=$(namespace_init_of "$outer"); then
        kill -KILL "$init" 2>/dev/null || true
    else
        kill -KILL "$outer" 2>/dev/null || true # --kill-child takes the rest
    fi
    wait_until_gone "$outer" || say "process $outer does not end"
}

# lock FILE WHAT: holds FILE's lock on descriptor LOCK_FD until unlock or exit.
# flock runs in the background so that a signal to lab is handled at once.
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

# A box outlives `lab up`: were it to keep the caller's pipes or a lock open, the
# caller would wait for their end for ever.
close_inherited_descriptors() {
    local path fd
    for path in /proc/"$BASHPID"/fd/*; do
        fd=${path##*/}
        ((fd <= 2 || fd == 255)) || exec {fd}>&- # 255 is bash's own
    done
}

# A signal ends lab at once, with the usual status, and whatever undo_at_exit named runs.
# Without a trap bash forgets a SIGINT that came while it waited for a child.
heed_signals() {
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
}

# undo_at_exit [UNDO]: from now on UNDO runs if lab exits, by itself or by a signal.
# Without UNDO: what was begun is complete, nothing is to be undone.
# What UNDO calls must say `return 0`: in an EXIT trap a bare `return` gives the exit
# status that lab is leaving with.
undo_at_exit() {
    trap "${1:--}" EXIT
}
