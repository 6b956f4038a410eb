#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# nvidia.sh SUITE DIR MIRROR: unpacks into DIR what a node with an NVIDIA driver has for
# MPS, from that Debian suite's non-free. Touches DIR only: apt is given a state of its
# own there. Nothing is installed and no maintainer script runs. Run by host/layer.sh.
set -euo pipefail
suite=$1 dir=$2 mirror=$3
apt=$dir/apt

packages=(nvidia-cuda-mps libcuda1 libnvidia-ml1)
# A newer driver: experimental has its libraries only in part, and the daemon needs none.
[[ $suite != experimental ]] || packages=(nvidia-cuda-mps)

# apt-get checks the suite's signature and the packages' sums.
run_apt() {
    apt-get -qq -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State="$apt/state" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" \
        -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Check-Valid-Until=false \
        -o Acquire::Retries=2 -o Acquire::http::Timeout=20 "$@"
}

fetch_packages() {
    mkdir -p "$apt"/{state/lists/partial,cache/archives/partial,debs}
    : >"$apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite non-free" >"$apt/sources.list"
    run_apt update
    (cd "$apt/debs" && run_apt download "${packages[@]}")
}

unpack_packages() {
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
    local wanted
    for wanted in usr/bin/nvidia-cuda-mps-control usr/sbin/nvidia-cuda-mps-server; do
        [[ -x $dir/$wanted ]] || { echo "E: $wanted is not in the packages"; return 1; }
    done
    [[ $suite == experimental ]] || compgen -G "$dir/usr/lib/*/libcuda.so.1" >/dev/null ||
        { echo "E: libcuda.so.1 is not in the packages"; return 1; }
}

echo "I: fetching ${packages[*]}"
fetch_packages
unpack_packages
link_libraries
check_tree
