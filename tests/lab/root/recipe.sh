#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# recipe.sh SUITE DIR MIRROR: fills DIR with a small Debian that has a whole Slurm.
# Touches DIR only. Run by host/root.sh in namespaces of its own. A change to this
# file or to database.sh makes every cached root stale.
set -euo pipefail
suite=$1 dir=$2 mirror=$3
here=$(cd "$(dirname "$0")" && pwd)

packages=(
    slurmctld slurmd slurmdbd slurm-client munge
    libslurm-dev               # the headers that plugins are compiled with
    slurm-wlm-basic-plugins    # every plugin, job_submit_lua.so too (it depends on liblua5.1-0)
    slurmrestd                 # another way to submit
    mount                      # for tests of a full or read-only /run
    mariadb-server-core        # the server alone: mariadb-server would add 370 MB
    systemd-standalone-sysusers # satisfies Slurm's packages without systemd
)

install_packages() {
    local include
    include=$(IFS=,; echo "${packages[*]}")
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

# Space, and nothing that names the mirror. Afterwards, since dpkg's path-exclude is slower.
remove_ballast() {
    rm -rf "$dir"/etc/apt/sources.list "$dir"/etc/apt/sources.list.d \
        "$dir"/var/lib/apt/lists "$dir"/var/cache/apt \
        "$dir"/var/log/apt "$dir"/var/log/dpkg.log "$dir"/var/log/bootstrap.log \
        "$dir"/usr/share/{doc,man,locale,info,lintian,bug} "$dir"/usr/lib/*/perl/debian-config-data*
}

add_users() {
    chroot "$dir" useradd --create-home --user-group --uid 2001 --shell /bin/bash alice
    chroot "$dir" useradd --create-home --user-group --uid 2002 --shell /bin/bash bob
}

# What the tests lean on and what a later package could stop to carry.
check_root() {
    local wanted
    for wanted in usr/include/slurm/slurm.h usr/include/slurm/spank.h usr/include/slurm/slurm_version.h \
        usr/sbin/slurmctld usr/sbin/slurmd usr/sbin/slurmdbd usr/sbin/munged; do
        # From inside: some are absolute links (Debian's alternatives).
        chroot "$dir" test -e "/$wanted" || { echo "E: $wanted is not in the root"; return 1; }
    done
    compgen -G "$dir/usr/lib/*/slurm-wlm/job_submit_lua.so" >/dev/null ||
        { echo "E: job_submit_lua.so is not in the root"; return 1; }
    compgen -G "$dir/usr/lib/*/liblua5.1.so.0" >/dev/null || { echo "E: liblua is not in the root"; return 1; }
}

install_packages
echo "I: removing what no box needs"
remove_ballast
echo "I: adding alice and bob"
add_users
echo "I: making the empty database"
bash "$here/database.sh" "$dir"
check_root
