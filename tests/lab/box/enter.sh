#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# enter.sh NAME ROOTS HIERARCHIES DIR SYSTEMD NEXT: the first process of a box, still in the
# machine's tree. Decides: nothing. Touches: the box's own mounts, devices, network and host
# name, and its cgroup directories on the machine. Ends by becoming init.sh inside the box,
# or systemd, which starts that.
#
# It runs in fresh mount, net, uts, ipc and pid namespaces, where no mount propagates
# back. The root, or several with ':' between them of which the first wins, is the lower
# layer of an overlay, so a run never changes it.
set -euo pipefail
name=$1 roots=$2 hierarchies=$3 dir=$4 systemd=$5 next=$6
kind=${hierarchies%-systemd}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../host/cgroups.sh"
tree=$dir/mnt/tree

# Own cgroups and a cgroup namespace on them: two Slurms do not meet, and cgroup/v2
# refuses a top directory that holds processes of another pid namespace.
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

make_devices() {
    local device major minor
    while read -r device major minor; do
        mknod -m 666 "$tree/dev/$device" c "$major" "$minor"
    done <<'DEVICES'
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
nvidiactl 195 255
DEVICES
    mkdir "$tree/dev/pts" "$tree/dev/shm"
    chmod 1777 "$tree/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$tree/dev/pts"
    ln -s pts/ptmx "$tree/dev/ptmx"
    ln -s /proc/self/fd "$tree/dev/fd"
    ln -s /proc/self/fd/0 "$tree/dev/stdin"
    ln -s /proc/self/fd/1 "$tree/dev/stdout"
    ln -s /proc/self/fd/2 "$tree/dev/stderr"
}

# Device nodes and /proc/driver/nvidia as the NVIDIA driver would make them. procfs takes
# no new entries, but /proc/driver is always there and a tmpfs can be mounted on it.
make_gpus() {
    local device minor uuid pci model
    mount -t tmpfs -o mode=755 tmpfs "$tree/proc/driver"
    mkdir -p "$tree/proc/driver/nvidia/gpus"
    mount -t tmpfs -o mode=755 tmpfs "$tree/sys/bus/pci/devices"
    while read -r device minor uuid pci model; do
        [[ -n $device && $device != '#'* ]] || continue
        [[ $minor =~ ^[0-9]+$ && -n $model ]] ||
            { echo "gpus: '$device $minor $uuid $pci $model' is not NAME MINOR UUID PCI MODEL"; exit 1; }
        mknod -m 666 "$tree/dev/$device" c 195 "$minor"
        describe_gpu "$minor" "$uuid" "$(kernel_pci_address "$pci")" "$model"
        make_drm "$minor" "$(kernel_pci_address "$pci")"
    done <"$dir/lab/gpus"
    while read -r device minor; do
        mknod -m 666 "$tree/dev/$device" c 120 "$minor" # a number for local use
    done < <(grep -v '^#' "$dir/lab/devices" 2>/dev/null)
}

# As nvidia-drm makes them: card and render node of each GPU.
make_drm() {
    local minor=$1 folder=$tree/sys/bus/pci/devices/$2/drm name number
    mkdir -p "$tree/dev/dri"
    for name in "card$minor" "renderD$((128 + minor))"; do
        number=${name##*[a-zD]}
        mkdir -p "$folder/$name"
        echo "226:$number" >"$folder/$name/dev"
        mknod -m 666 "$tree/dev/dri/$name" c 226 "$number"
    done
}

# nvidia-smi writes the domain with 8 capital digits, the kernel with 4 small ones.
kernel_pci_address() {
    local address=${1,,}
    [[ ! $address =~ ^0000([0-9a-f]{4}:.*)$ ]] || address=${BASH_REMATCH[1]}
    echo "$address"
}

# The blanks are those of the real file: "Key: \t value", but none before the last tab.
describe_gpu() {
    local minor=$1 uuid=$2 pci=$3 model=$4 gpu=$tree/proc/driver/nvidia/gpus/$3
    mkdir "$gpu"
    printf '%s\t%s\n' 'Model: ' "	 $model" 'IRQ:   ' "	 $((100 + minor))" 'GPU UUID: ' " $uuid" \
        'Video BIOS: ' ' 94.02.5c.00.05' 'Bus Type: ' ' PCIe' 'DMA Size: ' ' 47 bits' \
        'DMA Mask: ' ' 0x7fffffffffff' 'Bus Location: ' " $pci" 'Device Minor: ' " $minor" \
        'GPU Excluded:' ' No' >"$gpu/information"
}

# Only what Slurm shall use is mounted; both show the box's own cgroup as the top.
mount_cgroups() {
    local controller top=$tree/sys/fs/cgroup
    case $kind in
    v1)
        mount -t tmpfs -o mode=755 tmpfs "$top"
        for controller in "${CGROUP1_CONTROLLERS[@]}"; do
            mkdir "$top/$controller"
            mount -t cgroup -o "$controller" cgroup "$top/$controller"
        done
        [[ -n $systemd ]] || return 0
        mkdir "$top/systemd"
        mount -t cgroup -o none,name=systemd cgroup "$top/systemd"
        ;;
    v2) mount -t cgroup2 cgroup2 "$top" ;;
    esac
}

# On a machine with any v1 hierarchy Slurm's cgroup/v2 refuses to work ("Hybrid mode is
# not supported"): slurmd then gets the shim, see tools/cgroup2-only.c.
slurmd_preload() {
    [[ $kind == v2 ]] || return 0
    (($(wc -l </proc/self/cgroup) == 1)) || echo /lab/cgroup2-only.so
}

# What systemd as process 1 finds: nothing of the machine that it could change. It mounts
# every controller of /proc/cgroups, so those are only the box's.
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

# A chroot is not enough: units have mounts of their own, and those start at the real root; and in a chroot nobody may make
# a user namespace.
enter_tree() {
    cd "$tree"
    pivot_root . .
    umount --lazy .
    cd /
}

become_systemd() {
    local hierarchy=''
    # It would else mount cgroup2 too, whose top in a v1 box is the machine's.
    [[ $kind == v2 ]] || hierarchy='systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=1'
    exec env -i container=lab PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        /usr/lib/systemd/systemd --unit=lab.target --show-status=no $hierarchy
}

set_up_network() {
    ip link set lo up
    # slurmdbd cannot listen where 127.0.0.1 is the only address: getaddrinfo() with
    # AI_ADDRCONFIG does not count it.
    ip addr add 10.99.0.1/32 dev lo
    acknowledge_at_once
    hostname "$name"
    echo "$name" >"$tree/etc/hostname"
    printf '127.0.0.1 localhost %s\n' "$name" >"$tree/etc/hosts"
}

# 22.05 writes a message in two parts and waits 40 ms each time for a delayed
# acknowledgement: a sacctmgr command took 0.6 s, with this 0.02 s.
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
}

# install_programs FROM TREE
install_programs() {
    local plugins
    plugins=$(echo "$2"/usr/lib/*/slurm-wlm) # the multiarch name is the root's own
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

# The next release's tree, for /lab/upgrade.
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
make_gpus
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
