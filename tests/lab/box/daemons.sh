# SPDX-License-Identifier: GPL-2.0-or-later
#
# Starts and stops Slurm's daemons inside a box, by pid file. Sourced by init.sh and, for `status`, by `service`.
# Decides when a daemon counts as up, and which log lines say why it isn't. The daemons run in the background as in
# production: in the foreground, a failed `scontrol reconfigure` would end slurmctld instead of keeping the old one.

readonly LOGS=/var/log/slurm

# A box waits most of its time, and many boxes wait at once, so a pause starts no process.
pause() { # SECONDS
    read -rt "$1" <>/run/lab/never || true
}

# wait_for SECONDS COMMAND...
wait_for() {
    local deadline=$((SECONDS + $1))
    shift
    while ((SECONDS <= deadline)); do
        "$@" >/dev/null 2>&1 && return 0
        pause "${PAUSE:-0.02}"
    done
    return 1
}

# The nodes whose slurmd runs here: all of slurm.conf's except cloud nodes, which are switched off (`idle~`). slurmctld
# must be up.
list_nodes() {
    sinfo -h -N -o '%N %T' | grep -v '~$' | cut -d' ' -f1 | sort -u
}

# pid_file DAEMON [NODE]
pid_file() {
    echo "/run/slurm/$1${2:+-$2}.pid"
}

# log_file DAEMON [NODE]
log_file() {
    echo "$LOGS/$1${2:+-$2}.log"
}

# Prints the pid of a running daemon. Ignores zombies, which slurmd leaves to process 1.
running_pid() {
    local pid node=${1##*/slurmd-}
    { read -r pid <"$1"; } 2>/dev/null || return 1
    if is_machine "${node%.pid}"; then
        pid=$(number_here "$(machine "${node%.pid}")" "$pid") || return 1
    fi
    [[ -e /proc/$pid/exe ]] && echo "$pid"
}

# Whether a node has its own namespaces; node.sh makes them.
is_machine() {
    [[ -e /lab/gpus.$1 ]]
}

# Prints the number of such a node's process 1 in the box.
machine() {
    local pid
    pid=$(cat "/run/lab/nodes/$1" 2>/dev/null) && [[ -e /proc/$pid/exe ]] && echo "$pid"
}

# number_here MACHINE PID: the number of a machine's process PID in the box.
number_here() {
    local status pid
    for status in $(grep -lE "^NSpid:.*[[:space:]]$2\$" /proc/[0-9]*/status 2>/dev/null); do
        pid=${status//[!0-9]/}
        [[ $(readlink "/proc/$pid/ns/pid") != "$(readlink "/proc/$1/ns/pid")" ]] || { echo "$pid"; return 0; }
    done
    return 1
}

# The cgroups of a node with its own namespaces.
machine_cgroups() {
    case $KIND in
    v1) echo /sys/fs/cgroup/{devices,freezer}/"node-$1" ;;
    v2) echo "/sys/fs/cgroup/node-$1" ;;
    esac
}

# Starts a node's machine, also after it was killed.
start_machine() {
    local directory
    ! machine "$1" >/dev/null || return 0
    [[ ! -d /run/systemd/system ]] || { echo "no gpus.$1 in a box with systemd"; return 1; }
    for directory in $(machine_cgroups "$1"); do
        find "$directory" -depth -type d -exec rmdir {} \; 2>/dev/null
        mkdir "$directory" || return 1
    done
    rm -f "/run/lab/nodes/$1"
    (
        for directory in $(machine_cgroups "$1"); do echo "$BASHPID" >"$directory/cgroup.procs"; done
        exec unshare --mount --uts --pid --cgroup --fork bash /lab/node.sh "$1" "$KIND"
    ) </dev/null >"$LOGS/node-$1.log" 2>&1 &
    wait_for 20 test -e "/run/lab/nodes/$1" || { cat "$LOGS/node-$1.log"; return 1; }
}

# The lines that say what is wrong ("log levels: ... syslog=fatal" doesn't).
complaints() {
    grep -v 'log levels:' | grep -E 'error|fatal|ncompatible|symbol' | tail -n 12
}

size_of() {
    stat -c %s "$1" 2>/dev/null || echo 0
}

# new_lines FILE FROM
new_lines() {
    tail -c +$(($2 + 1)) "$1" 2>/dev/null
}

start_daemon() {
    case $1 in
    slurmdbd) start_one slurmdbd '' ;;
    slurmctld) start_one slurmctld '' && wait_for_nodes ;;
    slurmd) start_slurmds "${2:-}" ;;
    esac
}

# A new slurmctld notices a running slurmd only after 2 or 3 s, and until then srun reports "Required node not
# available". So this waits, but `start slurmctld` succeeds even if the nodes don't answer.
wait_for_nodes() {
    local file node PAUSE=0.4 # for sinfo, which runs each time
    for file in /run/slurm/slurmd-*.pid; do
        running_pid "$file" >/dev/null || continue
        node=${file##*/slurmd-}
        wait_for 8 node_answers "${node%.pid}" || true
    done
}

node_answers() {
    local state
    state=$(sinfo -h -N -n "$1" -o %T)
    state=${state%%$'\n'*}
    [[ -n $state && $state != *'*' && $state != unknown* && $state != down* && $state != future* ]]
}

stop_daemon() {
    local file
    case $1 in
    slurmd) for file in /run/slurm/slurmd-${2:-*}.pid; do stop_by_pid_file "$file"; done ;;
    *) stop_by_pid_file "$(pid_file "$1")" ;;
    esac
}

start_slurmds() { # [NODE]
    local node failed=0
    for node in ${1:-$(list_nodes)}; do
        ! is_machine "$node" || start_machine "$node" || { failed=1; continue; }
        start_one slurmd "$node" || failed=1
    done
    return $failed
}

# start_one DAEMON NODE: returns when the daemon is up; otherwise returns 1 and prints its complaints.
start_one() {
    local daemon=$1 node=$2 file log from early
    file=$(pid_file "$daemon" "$node")
    log=$(log_file "$daemon" "$node")
    early=$LOGS/$daemon${node:+-$node}.early # its messages before its log is open
    if running_pid "$file" >/dev/null; then
        echo "$daemon runs already"
        return 0
    fi
    rm -f "$file"
    from=$(size_of "$log")
    if spawn "$daemon" "$node" </dev/null >"$early" 2>&1 && wait_until_up "$daemon" "$node" "$file" "$log" "$from"; then
        return 0
    fi
    echo "$daemon${node:+ of node $node} did not come up:"
    { cat "$early"; new_lines "$log" "$from"; } | complaints ||
        echo "(no error in $log; '$daemon -D' may say more)"
    return 1
}

# As Debian's unit does, with what a test puts into its environment and its options.
spawn_slurmctld() {
    (
        set -a
        [[ ! -e /etc/default/slurmctld ]] || . /etc/default/slurmctld
        # shellcheck disable=SC2086
        exec slurmctld ${SLURMCTLD_OPTIONS:-}
    )
}

spawn() {
    case $1 in
    slurmctld) spawn_slurmctld ;;
    slurmdbd) setpriv --reuid=slurm --regid=slurm --clear-groups slurmdbd ;;
    slurmd) spawn_slurmd "$2" ;;
    esac
}

# On v2 slurmd runs in its own cgroup and, on a hybrid machine, with the shim; slurmstepd inherits both. Under systemd
# it is a unit, as in Slurm's own unit file.
spawn_slurmd() (
    if [[ -d /run/systemd/system ]]; then exec systemctl start "slurmd@$1"; fi
    enter=() tops=/sys/fs/cgroup options=(-N "$1")
    [[ ! -e /etc/slurm/slurmd.options ]] || . /etc/slurm/slurmd.options
    if is_machine "$1"; then
        enter=(nsenter --target "$(machine "$1")" --mount --uts --pid --cgroup --)
        tops=$(machine_cgroups "$1")
        # nsenter stays outside until the process that it started ends, and slurmd must be alone in its cgroup.
        enter+=(bash -c '{ for try in {1..500}; do grep -qsx 0 "$0" || break; sleep 0.01; done; exec "$@"; } &')
        enter+=(/sys/fs/cgroup/slurmd.service/cgroup.procs)
    elif [[ -d /lab/next ]]; then
        # If there is a release to upgrade to, a node is a separate machine: /lab/upgrade reaches it at slurmd's next
        # start.
        enter=(unshare --mount)
    fi
    if [[ $KIND == v2 ]]; then tops+=/slurmd.service; fi
    if [[ $KIND == v2 ]] || is_machine "$1"; then
        self=$BASHPID
        for top in $tops; do
            if ! why=$( (echo "$self" >"$top/cgroup.procs") 2>&1); then
                echo "error: slurmd of $1 stays outside of its cgroup: $why; $(ls -dmw 0 "${top%/*}"/*/)"
                exit 1
            fi
        done
    fi
    exec "${enter[@]}" env ${PRELOAD:+LD_PRELOAD="$PRELOAD"} slurmd "${options[@]}"
)

# wait_until_up DAEMON NODE PIDFILE LOG FROM: gives up at once if the daemon has died.
wait_until_up() {
    local deadline=$((SECONDS + 50)) seen='' grace
    grace=$((SECONDS + 3))
    while ((SECONDS < deadline)); do
        is_up "$1" "$2" "$4" "$5" && return 0
        if running_pid "$3" >/dev/null; then
            seen=yes
        elif [[ -n $seen ]] || ((SECONDS >= grace)) || [[ $(new_lines "$4" "$5") == *' fatal: '* ]]; then
            return 1
        fi
        pause 0.05
    done
    return 1
}

# is_up DAEMON NODE LOG FROM
is_up() {
    case $1 in
    slurmctld) scontrol ping 2>/dev/null | grep -q 'is UP' ;;
    slurmdbd) (exec 4<>/dev/tcp/127.0.0.1/6819) 2>/dev/null ;;
    slurmd)
        # The node's state alone may still be that of the previous slurmd.
        [[ $(new_lines "$3" "$4") == *'slurmd started on'* ]] && node_answers "$2"
        ;;
    esac
}

stop_by_pid_file() {
    local pid
    pid=$(running_pid "$1") || return 0
    kill -TERM "$pid"
    wait_for 20 test ! -e "/proc/$pid/exe" || kill -KILL "$pid" 2>/dev/null
    rm -f "$1"
}
