# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a machine has: device nodes, what NVIDIA's driver reports about its GPUs, cgroups. Sourced by enter.sh for a box
# and by node.sh for a node with its own namespaces. Touches what is mounted below $tree, which is empty for the root.
# $kind is v1 or v2, $systemd empty or not; cgroups.sh names the controllers.

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
    [[ -n $systemd ]] || ln -s /run/lab/log "$tree/dev/log"
}

# Makes device nodes and /proc/driver/nvidia like the NVIDIA driver. procfs accepts no new entries, but /proc/driver
# always exists, and a tmpfs can be mounted on it.
make_gpus() { # GPUS DEVICES
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
    done <"$1"
    while read -r device minor; do
        mknod -m 666 "$tree/dev/$device" c 120 "$minor" # a number for local use
    done < <(grep -v '^#' "$2" 2>/dev/null)
}

# Makes the card and render node of each GPU, like nvidia-drm.
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

# nvidia-smi writes the domain with 8 uppercase digits, the kernel with 4 lowercase ones.
kernel_pci_address() {
    local address=${1,,}
    [[ ! $address =~ ^0000([0-9a-f]{4}:.*)$ ]] || address=${BASH_REMATCH[1]}
    echo "$address"
}

# The blanks are as in the real file: "Key: \t value", but no blank before the last tab.
describe_gpu() {
    local minor=$1 uuid=$2 pci=$3 model=$4 gpu=$tree/proc/driver/nvidia/gpus/$3
    mkdir "$gpu"
    printf '%s\t%s\n' 'Model: ' "	 $model" 'IRQ:   ' "	 $((100 + minor))" 'GPU UUID: ' " $uuid" \
        'Video BIOS: ' ' 94.02.5c.00.05' 'Bus Type: ' ' PCIe' 'DMA Size: ' ' 47 bits' \
        'DMA Mask: ' ' 0x7fffffffffff' 'Bus Location: ' " $pci" 'Device Minor: ' " $minor" \
        'GPU Excluded:' ' No' >"$gpu/information"
}

# Mounts only what Slurm should use; both hierarchies show the box's own cgroup as the top.
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

# As on a machine with systemd: process 1 is in init.scope, slurmd in a service, and the top directory is empty. 22.05
# needs system.slice to exist.
make_v2_cgroups() {
    mkdir "$tree"/sys/fs/cgroup/{init.scope,slurmd.service,system.slice}
    echo $$ >"$tree/sys/fs/cgroup/init.scope/cgroup.procs"
}
