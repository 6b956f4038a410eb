#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# nvidia.sh SUITE DIR MIRROR: unpacks into DIR what a node with an NVIDIA driver has for
# MPS, from that Debian suite's non-free. Touches DIR only. Nothing is installed and no maintainer script runs. Run by host/layer.sh.
set -euo pipefail
suite=$1 dir=$2 mirror=$3
. "$(dirname "$0")/apt.sh"

packages=(nvidia-cuda-mps libcuda1 libnvidia-ml1)
# A newer driver: experimental has its libraries only in part, and the daemon needs none.
[[ $suite != experimental ]] || packages=(nvidia-cuda-mps)

# They need a whole driver, which no root has: only what is named is fetched.
fetch_named() {
    mkdir -p "$apt/debs"
    begin_apt non-free /dev/null
    (cd "$apt/debs" && run_apt download "${packages[@]}")
}

extract_named() {
    local file
    for file in "$apt"/debs/*.deb; do
        dpkg-deb --extract "$file" "$dir"
        dpkg-deb --field "$file" Version | sed 's/-[^-]*$//' >"$dir/.lab-version"
    done
    rm -rf "$apt" "$dir"/usr/share/{bug,lintian,man} "$dir"/usr/share/doc/*/changelog*
}

# Where the loader looks, as Debian's alternatives make it.
link_libraries() {
    local library
    for library in "$dir"/usr/lib/*/nvidia/current/lib{cuda,nvidia-ml}.so.1; do
        [[ ! -e $library ]] || ln -s "nvidia/current/${library##*/}" "${library%/nvidia/current/*}/${library##*/}"
    done
}

check_tree() {
    check_programs usr/bin/nvidia-cuda-mps-control usr/sbin/nvidia-cuda-mps-server
    [[ $suite == experimental ]] || compgen -G "$dir/usr/lib/*/libcuda.so.1" >/dev/null ||
        { echo "E: libcuda.so.1 is not in the packages"; return 1; }
}

echo "I: fetching ${packages[*]}"
fetch_named
extract_named
link_libraries
check_tree
