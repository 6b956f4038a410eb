#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# containers.sh SUITE DIR MIRROR ROOT: unpacks into DIR programs that start containers as a plain user, and what they need beyond
# ROOT, a release's root, which is only read: podman, Charliecloud, bubblewrap, and Apptainer where the suite has it (sid). Touches
# DIR only: apt is given a state of its own there. No maintainer script runs. Run by host/layer.sh.
set -euo pipefail
suite=$1 dir=$2 mirror=$3 root=$4
apt=$dir/apt

# apt-get checks the suite's signature and the packages' sums.
run_apt() {
    apt-get -qq -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State="$apt/state" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" \
        -o APT::Sandbox::User=root -o APT::Install-Recommends=false -o Acquire::Languages=none \
        -o Acquire::Check-Valid-Until=false -o Acquire::Retries=2 -o Acquire::http::Timeout=20 "$@"
}

# The root's own list of packages tells apt what is missing.
fetch_packages() {
    local packages=(podman crun uidmap bubblewrap charliecloud-runtime)
    mkdir -p "$apt"/{state/lists/partial,cache/archives/partial}
    cp "$root/var/lib/dpkg/status" "$apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/sources.list"
    run_apt update
    [[ $suite != sid ]] || packages+=(apptainer)
    run_apt --yes --download-only install "${packages[@]}"
}

unpack_packages() {
    local file
    for file in "$apt"/cache/archives/*.deb; do
        # As dpkg does on a merged /usr: an archive's lib/ must not hide the root's link.
        dpkg-deb --fsys-tarfile "$file" | tar -x -C "$dir" --transform='s,^\./lib,./usr/lib,;s,^\./sbin,./usr/sbin,;s,^\./bin,./usr/bin,' \
            --exclude=./usr/share/{doc,man,locale,lintian,bug}
    done
    rm -rf "$apt"
}

echo "I: fetching podman, Charliecloud, bubblewrap"
fetch_packages
unpack_packages
for wanted in podman crun ch-run bwrap; do
    [[ -x $dir/usr/bin/$wanted ]] || { echo "E: $wanted is not in the packages"; exit 1; }
done
