#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# graft.sh BASE BUILT DIR VERSION: fills DIR with a copy of BASE, a release's root, that has BUILT, which slurm.sh has
# made, in the place of Debian's Slurm. dpkg's list in DIR says that Debian's packages are of VERSION. BASE and BUILT
# are only read; touches DIR only. Run by host/source.sh. A change to this file makes every root from source stale.
set -euo pipefail
base=$1 built=$2 dir=$3 version=$4
daemons=(slurmctld slurmd slurmstepd)

# Not what Debian's packages have in /etc and /var: a box needs their folders.
remove_debians() {
    local path
    cat "$dir"/var/lib/dpkg/info/{slurm*,libslurm*}.list | grep ^/usr/ | sort -ru | while read -r path; do
        if [[ -L $dir$path || -f $dir$path ]]; then
            rm "$dir$path"
        elif [[ -d $dir$path ]]; then
            rmdir --ignore-fail-on-non-empty "$dir$path"
        fi
    done
    # Links that a package's script made, not the package.
    rm -f "$dir"/usr/lib/*/libslurm.so*
    if compgen -G "$dir/usr/lib/*/slurm-wlm/*" || compgen -G "$dir/usr/*bin/slurm*-wlm"; then
        echo "E: these are left of Debian's Slurm"
        return 1
    fi
}

# Debian's names for the daemons. Its links from the usual names, over /etc/alternatives, are still there.
put_ours() {
    local daemon library
    cp -a "$built/usr" "$dir/"
    for daemon in "${daemons[@]}"; do
        mv "$dir/usr/sbin/$daemon" "$dir/usr/sbin/$daemon-wlm"
        ln -s "/etc/alternatives/$daemon" "$dir/usr/sbin/$daemon"
    done
    for library in "$built"/needs/*; do
        [[ -e $(echo "$dir"/usr/lib/*-linux-gnu*)/${library##*/} ]] || cp "$library" "$dir"/usr/lib/*-linux-gnu*/
    done
    chroot "$dir" ldconfig
}

rewrite_dpkgs_list() {
    local status debians
    debians=$(sed -n '/^Package: slurmctld$/,/^$/s/^Version: //p' "$dir/var/lib/dpkg/status")
    status=$(<"$dir/var/lib/dpkg/status")
    printf '%s\n' "${status//"$debians"/$version-1}" >"$dir/var/lib/dpkg/status"
}

check_root() {
    local program plugin
    # The other programs read their configuration before they answer.
    for program in slurmctld slurmd; do
        [[ $(chroot "$dir" "$program" -V) == "slurm $version"* ]] ||
            { echo "E: $program is not of $version"; return 1; }
    done
    for program in sbin/slurm{dbd,stepd,restd} bin/{srun,sacctmgr,scrontab}; do
        chroot "$dir" test -x "/usr/$program" || { echo "E: $program is not in the root"; return 1; }
    done
    # What configure leaves out without an error where it misses a library.
    for plugin in auth_munge job_submit_lua accounting_storage_mysql cgroup_v1 cgroup_v2 serializer_json; do
        compgen -G "$dir/usr/lib/*/slurm-wlm/$plugin.so" >/dev/null || { echo "E: $plugin.so was not built"; return 1; }
    done
}

cp -a "$base/." "$dir/"
rm -f "$dir/.lab-stamp"
# Before cp, which would follow the links.
remove_debians
rm -f "${daemons[@]/#/$dir/usr/sbin/}"
put_ours
rewrite_dpkgs_list
check_root
