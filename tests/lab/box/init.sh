#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# init.sh KIND PRELOAD: process 1 of a box, inside its root, or its lab.service if systemd is process 1. Decides the
# order of the daemons, and when the cluster is ready (/lab/state/ready) or has failed (/lab/state/failed: a sentence
# and the last lines of the log). Afterwards it serves /lab/service: a daemon is always started from here, never from
# the process that requested it, so it always has the same environment, descriptors and cgroup.
set -uo pipefail
readonly KIND=$1 PRELOAD=$2
readonly tree=''
. /lab/daemons.sh
. /lab/devices.sh

# fail SENTENCE [TEXT]: writes the file under another name and renames it, so that readers see all of it.
fail() {
    printf 'lab: %s\n%s\n' "$1" "${2:-}" >/lab/state/failed.new
    mv /lab/state/failed.new /lab/state/failed
    exit 1
}

# Seconds since the box started, for the messages.
began=${EPOCHREALTIME/[.,]/}
elapsed() {
    local now=${EPOCHREALTIME/[.,]/}
    printf '%d.%d s' $(((now - began) / 1000000)) $(((now - began) / 100000 % 10))
}

report() {
    echo "$1 after $(elapsed)"
}

make_directories() {
    install -d -o munge -g munge -m 755 /run/munge
    install -d -o munge -g munge -m 700 /var/log/munge /var/lib/munge
    install -d -o slurm -g slurm /var/lib/slurm /var/lib/slurm/slurmctld /run/slurm
    install -d /run/mysqld /run/lab/answers /run/lab/nodes
    mkfifo -m 600 /run/lab/never
    ln -s mysqld /run/mariadbd # the path that sid's libmariadb uses
    chown slurm:slurm /var/log/slurm /etc/slurm/slurmdbd.conf
    chmod 600 /etc/slurm/slurmdbd.conf # slurmdbd requires this
}

# If systemd is process 1, there is journald.
start_syslog() {
    [[ $$ == 1 ]] || return 0
    perl /lab/syslog.pl /run/lab/log "$LOGS/syslog.log" </dev/null >"$LOGS/syslog.early" 2>&1 &
    wait_for 5 test -S /run/lab/log || fail "syslog does not start" "$(cat "$LOGS/syslog.early")"
}

start_munge() {
    setpriv --reuid=munge --regid=munge --clear-groups munged || fail "munged does not start"
}

# Without TLS, logins and the performance schema, it starts in a third of a second. 26.05 logs an error unless
# innodb-snapshot-isolation is off; older servers don't know that option.
start_database() {
    mariadbd --no-defaults --user=root --datadir=/var/lib/mysql --socket=/run/mysqld/mysqld.sock \
        --skip-networking --skip-grant-tables --skip-ssl --performance-schema=OFF \
        --innodb-data-file-path=ibdata1:4M:autoextend --innodb-autoextend-increment=4 \
        --innodb-undo-tablespaces=0 --innodb-log-file-size=8M --innodb-buffer-pool-size=32M \
        --innodb-flush-log-at-trx-commit=0 --innodb-lock-wait-timeout=900 \
        --loose-innodb-snapshot-isolation=OFF </dev/null >/var/log/slurm/mariadb.log 2>&1 &
    wait_for 15 test -S /run/mysqld/mysqld.sock ||
        fail "the database does not start" "$(tail -n 10 /var/log/slurm/mariadb.log)"
}

start_or_fail() {
    local answer
    answer=$(start_daemon "$1") || fail "$1 does not start" "$answer"
    report "$1"
}

register_cluster() {
    local cluster
    cluster=$(sed -n 's/^ClusterName=//p' /etc/slurm/slurm.conf)
    run_sacctmgr add cluster "$cluster" >/tmp/sacctmgr 2>&1 ||
        fail "cluster '$cluster' cannot be added" "$(cat /tmp/sacctmgr)"
}

run_sacctmgr() {
    sacctmgr -i "$@" </dev/null
}

# One sacctmgr command per line, with quotes as in a shell; every line must succeed.
run_accounting_file() {
    local line number=0 answer
    [[ -e $1 ]] || return 0
    while IFS= read -r line || [[ -n $line ]]; do
        number=$((number + 1))
        [[ $line =~ ^[[:space:]]*(#|$) ]] && continue
        answer=$(printf '%s\n' "$line" | xargs sacctmgr -i 2>&1) ||
            fail "${1##*/} line $number: 'sacctmgr $line' failed" "$answer"
        printf 'sacctmgr %s\n%s\n' "$line" "$answer"
    done <"$1"
}

# slurmctld may have lost its registration, and then it learns of users by a restart only (docs/dev/slurm-faults.md).
tell_slurmctld() {
    local user PAUSE=0.1
    user=$(sacctmgr -nP show assoc format=user | grep -v '^root$' | tail -n 1)
    [[ -n $user ]] || return 0
    wait_for 3 knows "$user" && return
    stop_daemon slurmctld
    start_or_fail slurmctld
    wait_for 5 knows "$user" || fail "slurmctld does not know $user"
}

knows() {
    [[ $(scontrol -o show assoc_mgr "users=$1" flags=users) == *"UserName=$1"* ]]
}

# Requests are lines "ID VERB DAEMON [NODE]"; the answer is a file with the exit status in its first line. It is a file
# instead of a pipe, because a client that disappears must not stop process 1.
serve_requests() {
    local id verb daemon node answer status
    mkfifo -m 600 /run/lab/requests
    exec 3<>/run/lab/requests
    while read -r id verb daemon node <&3; do
        answer=$(serve "$verb" "$daemon" "$node" 3>&- 2>&1)
        status=$?
        printf '%s\n%s\n' "$status" "$answer" >"/run/lab/answers/$id.new"
        mv "/run/lab/answers/$id.new" "/run/lab/answers/$id"
    done
}

serve() {
    case $1 in
    start) start_daemon "$2" "$3" ;;
    stop) stop_daemon "$2" "$3" ;;
    restart) stop_daemon "$2" "$3" && start_daemon "$2" "$3" ;;
    esac
}

if [[ $KIND == v2 && $$ == 1 ]]; then make_v2_cgroups; fi
make_directories
start_syslog
start_munge
start_database
report database
start_or_fail slurmdbd
register_cluster
# slurmctld comes first: it adds the TRES gres/gpu:TYPE to the database, and no limit can be set on a TRES that doesn't
# exist.
start_or_fail slurmctld
run_accounting_file /lab/accounting
run_accounting_file /lab/accounting.more
tell_slurmctld
report accounting
start_or_fail slurmd
elapsed >/lab/state/ready.new
mv /lab/state/ready.new /lab/state/ready
serve_requests
