#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# enter.sh NAME ROOTS HIERARCHIES DIR SYSTEMD NEXT: the first process of a box, still in the machine's tree. Decides
# nothing. Touches the box's own mounts, devices, network and host name, and its cgroup directories on the machine. At
# the end it becomes init.sh inside the box, or systemd, which starts that.
#
# It runs in new mount, net, uts, ipc and pid namespaces, from which no mount propagates back. The root, or several
# roots with ':' between them of which the first wins, is the lower layer of an overlay, so a run never changes it.
set -euo pipefail
name=$1 roots=$2 hierarchies=$3 dir=$4 systemd=$5 next=$6
kind=${hierarchies%-systemd}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../host/cgroups.sh"
. "$here/devices.sh"
tree=$dir/mnt/tree

# The box has its own cgroups and a cgroup namespace on them, so that two Slurms don't interfere, and because cgroup/v2
# refuses a top directory with processes of another pid namespace.
enter_cgroups() {
    local directory
    for directory in $(cgroup_directories "$name" "$hierarchies"); do
        mkdir -p "$directory"
        echo 0 >"$directory/cgroup.procs" # 0 is the writer itself
    done
}

mount_tree() {
    mount -t tmpfs -o size=4G tmpfs "$dir/mnt"
    mkdir "$dir"/mnt/{upper,work,tree}
    mount -t overlay -o "lowerdir=$roots,upperdir=$dir/mnt/upper,workdir=$dir/mnt/work" overlay "$tree"
    mkdir -p "$tree"/{proc,sys,dev,run,tmp}
    mount -t proc proc "$tree/proc"
    mount -t sysfs sysfs "$tree/sys"
    mount -t tmpfs -o mode=755 tmpfs "$tree/dev"
    mount -t tmpfs -o mode=755 tmpfs "$tree/run"
    mount -t tmpfs -o mode=1777 tmpfs "$tree/tmp"
}

# On a machine with any v1 hierarchy, Slurm's cgroup/v2 refuses to work ("Hybrid mode is not supported"). slurmd then
# gets the shim, see tools/cgroup2-only.c.
slurmd_preload() {
    [[ $kind == v2 ]] || return 0
    (($(wc -l </proc/self/cgroup) == 1)) || echo /lab/cgroup2-only.so
}

# Prepares what systemd finds as process 1: nothing of the machine that it could change. It mounts every controller in
# /proc/cgroups, so that file shows only the box's.
prepare_systemd() {
    local file=$dir/mnt/cgroups
    { printf '#subsys_name\thierarchy\tnum_cgroups\tenabled\n'
        printf '%s\t1\t1\t1\n' "${CGROUP1_CONTROLLERS[@]}"; } >"$file"
    mount --bind "$file" "$tree/proc/cgroups"
    mount --bind "$tree/proc/sys" "$tree/proc/sys"
    mount -o remount,bind,ro "$tree/proc/sys"
    mount -o remount,bind,ro "$tree/sys"
    rm -rf "$tree"/etc/systemd/system/*
    mkdir -p "$tree"/etc/systemd/system/{sysinit,lab}.target.wants
    cp "$tree"/lab/{lab.target,lab.service,slurmd@.service} "$tree/etc/systemd/system/"
    sed -i "s|@KIND@|$kind|; s|@PRELOAD@|$preload|" "$tree"/etc/systemd/system/*.service
    ln -s /usr/lib/systemd/system/systemd-journald{.service,.socket,-dev-log.socket} \
        "$tree/etc/systemd/system/sysinit.target.wants/"
    grep -q ^systemd-journal: "$tree/etc/group" || echo systemd-journal:x:990: >>"$tree/etc/group"
}

# A chroot is not enough: units have their own mounts, which start at the real root, and in a chroot no process may make
# a user namespace.
enter_tree() {
    cd "$tree"
    pivot_root . .
    umount --lazy .
    cd /
}

become_systemd() {
    local hierarchy=''
    # Otherwise systemd would also mount cgroup2, whose top in a v1 box is the machine's.
    [[ $kind == v2 ]] || hierarchy='systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=1'
    exec env -i container=lab PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        /usr/lib/systemd/systemd --unit=lab.target --show-status=no $hierarchy
}

set_up_network() {
    ip link set lo up
    # slurmdbd can't listen if 127.0.0.1 is the only address: getaddrinfo() with AI_ADDRCONFIG ignores it.
    ip addr add 10.99.0.1/32 dev lo
    acknowledge_at_once
    hostname "$name"
    echo "$name" >"$tree/etc/hostname"
    printf '127.0.0.1 localhost %s\n' "$name" >"$tree/etc/hosts"
    # Nodes with their own namespaces also have their own names.
    find "$dir/lab" -name 'gpus.*' -printf '127.0.0.1 %f\n' | sed 's/ gpus\./ /' >>"$tree/etc/hosts"
}

# 22.05 writes a message in two parts and each time waits 40 ms for a delayed acknowledgement: a sacctmgr command took
# 0.6 s, and takes 0.02 s with this.
acknowledge_at_once() {
    local net
    for net in 127.0.0.0/8 127.0.0.1; do
        ip route change local "$net" dev lo table local proto kernel scope host src 127.0.0.1 quickack 1 ||
            echo "this ip has no quickack: the box is only slower"
    done
}

install_files() {
    mkdir -p "$tree/etc/slurm" "$tree/lab" "$tree/var/log/slurm"
    cp -r "$dir/conf/." "$tree/etc/slurm/"
    cp -r "$dir/lab/." "$tree/lab/"
    mkdir "$tree/lab/out" "$tree/lab/state"
    mount --bind "$dir/out" "$tree/lab/out"
    mount --bind "$dir/state" "$tree/lab/state"
    mount --bind "$dir/log" "$tree/var/log/slurm"
    install_programs "$dir/install" "$tree"
    # Where programs that tests/coverage has built count.
    [[ -z ${GPUSHARE_COVERAGE:-} ]] || {
        mkdir -p "$tree$GPUSHARE_COVERAGE"
        mount --bind "$GPUSHARE_COVERAGE" "$tree$GPUSHARE_COVERAGE"
    }
}

# install_programs FROM TREE
install_programs() {
    local plugins
    plugins=$(echo "$2"/usr/lib/*/slurm-wlm) # the root sets the multiarch name
    install_if_there "$1" 644 "$plugins" job_submit_gpushare.so spank_gpushare.so spank_gpushare_prolog.so
    install_if_there "$1" 755 "$2/usr/sbin" gpushare-prolog gpushare-epilog gpushare-nvml
    install_if_there "$1" 755 "$2/usr/bin" gpushare
}

# install_if_there FROM MODE TO FILE...
install_if_there() {
    local from=$1 mode=$2 to=$3 file
    shift 3
    for file; do
        [[ ! -e $from/$file ]] || install -m "$mode" "$from/$file" "$to/$file"
    done
}

# Mounts the next release's tree, for /lab/upgrade.
mount_next() {
    [[ -n $next ]] || return 0
    mkdir -p "$dir"/mnt/next/{upper,work} "$tree/lab/next"
    mount -t overlay -o "lowerdir=$next,upperdir=$dir/mnt/next/upper,workdir=$dir/mnt/next/work" overlay "$tree/lab/next"
    install_programs "$dir/install-next" "$tree/lab/next"
}

# The cgroup namespace must be made after the move, so this file runs twice.
if [[ -z ${IN_CGROUP_NAMESPACE:-} ]]; then
    enter_cgroups
    IN_CGROUP_NAMESPACE=yes exec unshare --cgroup bash "$0" "$@"
fi
mount_tree
make_devices
make_gpus "$dir/lab/gpus" "$dir/lab/devices"
mount_cgroups
preload=$(slurmd_preload)
set_up_network
install_files
mount_next
[[ -z $systemd ]] || prepare_systemd
enter_tree
[[ -z $systemd ]] || become_systemd
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root USER=root LANG=C.UTF-8 \
    /bin/bash /lab/init.sh "$kind" "$preload"
