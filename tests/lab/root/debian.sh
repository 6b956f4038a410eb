# SPDX-License-Identifier: GPL-2.0-or-later
#
# A small Debian in an empty folder. Sourced by the recipes that make one; touches that folder only. A change to this file
# makes all that they made stale.

# install_debian SUITE DIR MIRROR PACKAGE...
install_debian() {
    local suite=$1 dir=$2 mirror=$3 include
    shift 3
    include=$(IFS=,; echo "$*")
    # variant essential: no apt inside, but maintainer scripts run (users munge and
    # slurm, the munge key). Check-Valid-Until: a mirror's index of sid may be old.
    # check/empty: DIR was made, empty, by the caller.
    mmdebstrap --mode=root --variant=essential --skip=check/empty \
        --aptopt='Apt::Install-Recommends "false"' \
        --aptopt='Acquire::Languages "none"' \
        --aptopt='Acquire::Check-Valid-Until "false"' \
        --include="$include" "$suite" "$dir" \
        "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
}

# remove_ballast DIR: space, and nothing that names the mirror. Afterwards, since dpkg's path-exclude is slower.
remove_ballast() {
    rm -rf "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d "$1"/var/lib/apt/lists "$1"/var/cache/apt \
        "$1"/var/log/apt "$1"/var/log/dpkg.log "$1"/var/log/bootstrap.log \
        "$1"/usr/share/{doc,man,locale,info,lintian,bug}
}
