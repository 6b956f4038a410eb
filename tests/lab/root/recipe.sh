#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# recipe.sh SUITE DIR MIRROR: fills DIR with a small Debian that has a whole Slurm.
# Touches DIR only. Run by host/root.sh in namespaces of its own. A change to this
# file, to debian.sh or to database.sh makes every cached root stale.
set -euo pipefail
suite=$1 dir=$2 mirror=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/debian.sh"

packages=(
    slurmctld slurmd slurmdbd slurm-client munge
    libslurm-dev               # the headers that plugins are compiled with
    slurm-wlm-basic-plugins    # every plugin, job_submit_lua.so too (it depends on liblua5.1-0)
    slurmrestd                 # another way to submit
    mount                      # for tests of a full or read-only /run
    mariadb-server-core        # the server alone: mariadb-server would add 370 MB
    systemd-standalone-sysusers # satisfies Slurm's packages without systemd
)

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

install_debian "$suite" "$dir" "$mirror" "${packages[@]}"
echo "I: removing what no box needs"
remove_ballast "$dir"
rm -rf "$dir"/usr/lib/*/perl/debian-config-data*
echo "I: adding alice and bob"
add_users
echo "I: making the empty database"
bash "$here/database.sh" "$dir"
check_root
