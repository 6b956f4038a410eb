# SPDX-License-Identifier: GPL-2.0-or-later
#
# Where the machine's cgroup hierarchies are, and the lab's own directories in them. Sourced by `lab` and by
# box/enter.sh. Touches directories named gpushare-lab-NAME at the top of the hierarchies that a box uses; never a
# controller's settings (cgroup.subtree_control stays unchanged).

# v1 needs `devices` (ConstrainDevices) and `freezer` (proctrack/cgroup).
readonly CGROUP1_CONTROLLERS=(devices freezer)

# mounted_hierarchy TYPE [OPTION]: the first mount point of that type and option.
mounted_hierarchy() {
    local device point type options rest
    while read -r device point type options rest; do
        [[ $type == "$1" && ,$options, == *,${2:-${options%%,*}},* ]] || continue
        echo "$point"
        return 0
    done </proc/mounts
    return 1
}

# Prints the directories that box $1 of kind $2 has in the machine's hierarchies. Kinds:
# v1, v1-systemd (with systemd's own, which has no controller), v2.
cgroup_directories() {
    local name=$1 kind=$2 controller point controllers=("${CGROUP1_CONTROLLERS[@]}")
    case $kind in
    v1 | v1-systemd)
        [[ $kind == v1 ]] || controllers+=(name=systemd)
        for controller in "${controllers[@]}"; do
            point=$(mounted_hierarchy cgroup "$controller") || return 1
            echo "$point/gpushare-lab-$name"
        done
        ;;
    v2)
        point=$(mounted_hierarchy cgroup2) || return 1
        echo "$point/gpushare-lab-$name"
        ;;
    esac
}

# A cgroup version for which this machine has what a box needs.
any_cgroup() {
    if cgroup_directories any v1 >/dev/null; then echo v1; else echo v2; fi
}

# Removes what a box left there. Its processes are dead, but the kernel may need a moment.
remove_cgroups() {
    local directory tries
    cgroup_directories "$1" "$2" | while read -r directory; do
        for ((tries = 0; tries < 50; tries++)); do
            [[ -d $directory ]] || break
            find "$directory" -depth -type d -exec rmdir {} \; 2>/dev/null || true
            [[ ! -d $directory ]] || sleep 0.05
        done
        [[ ! -d $directory ]] || say "$directory could not be removed"
    done
}
