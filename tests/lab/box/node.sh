#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# node.sh NODE KIND: process 1 of a node that looks to gpushare and Slurm's steps like a separate machine: with its own
# mounts, processes, cgroups and host name. Decides nothing. Touches its own mounts. Network, users and files are the
# box's. When it is killed, its processes end with it, as on a machine that loses power.
set -euo pipefail
readonly node=$1 kind=$2 tree='' systemd=''
. /lab/cgroups.sh
. /lab/devices.sh

read -r number _ </proc/self/stat # in the box: /proc is still the box's
mount -t proc proc /proc
hostname "$node"
mount --bind "/lab/gpus.$node" /lab/gpus
mount -t tmpfs -o mode=755 tmpfs /dev
make_devices
make_gpus /lab/gpus /lab/devices
mkdir -p /run/gpushare
mount -t tmpfs -o mode=755 tmpfs /run/gpushare
umount --recursive /sys/fs/cgroup # Slurm reads the list of mounts, and would use the box's for the node
mount_cgroups
[[ $kind != v2 ]] || make_v2_cgroups
echo "$number" >"/run/lab/nodes/$node.new"
mv "/run/lab/nodes/$node.new" "/run/lab/nodes/$node"
# Waits for every process that ends.
while :; do
    sleep infinity &
    wait $! || true
done
