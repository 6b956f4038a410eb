# SPDX-License-Identifier: GPL-2.0-or-later
#
# What would fail in the running Slurm if gpushare were removed now, one line each, and whether Slurm's directory
# belongs only to this machine. SYSCONFDIR is the directory of slurm.conf, PREFIX that of the programs. For bash;
# packaging/install sources it, and the packages' scripts include it. A stopped daemon needs nothing; running jobs do.

REMEDY="First take gpushare out of JobSubmitPlugins=, Prolog=, Epilog= and plugstack.conf, restart slurmctld and slurmd, and \
let the node's jobs end; or set GPUSHARE_REMOVE=anyway"

# Whether one directory is shared by all machines: changing it here would change Slurm on machines without gpushare.
is_shared() { [[ -d $SYSCONFDIR && $(stat -Lc %d "$SYSCONFDIR") != "$(stat -Lc %d /etc)" ]]; }

# A daemon is recognized by the file that it runs, not by its process's name, which changes after `scontrol reconfigure`
# (slurmctld-wlm). It needs what it has in memory: Slurm's files may have changed since it read them. A daemon in a
# container has its own files, and doesn't count.

# has_file PID FILE: whether FILE is the same file for the process as here.
has_file() { [[ /proc/$1/root$2 -ef $2 ]]; }

# runs PID PROGRAM
runs() { [[ $(readlink "/proc/$1/exe") =~ /$2(-wlm)?( \(deleted\))?$ ]]; }

# The processes that have loaded PLUGIN, even if its file has been replaced since.
loaded_by() { # PLUGIN
    local pid path
    grep -sE "/$1( \(deleted\))?\$" /proc/[0-9]*/maps | sed -E 's,^/proc/([0-9]+)/maps:[^/]*,\1 ,; s/ \(deleted\)$//' |
        sort -u | while read -r pid path; do
        ! has_file "$pid" "$path" || echo "$pid"
    done
}

# The paths in a process's heap, one per line.
paths_in_memory() { # PID
    local from to
    grep -sF '[heap]' "/proc/$1/maps" | while IFS=' -' read -r from to _; do
        dd if="/proc/$1/mem" bs=4096 skip=$((16#$from / 4096)) count=$((16#$to / 4096 - 16#$from / 4096)) 2>/dev/null |
            LC_ALL=C grep -az '^/' | tr '\n\0' ' \n'
    done | sort -u || true
}

# slurmctld neither starts nor reconfigures itself without a plugin that it should load.
needed_by_slurmctld() {
    local pid
    for pid in $(loaded_by job_submit_gpushare.so); do
        echo "slurmctld (process $pid) has loaded job_submit_gpushare.so"
    done
}

# Steps, and srun and sbatch, fail without a plugin that plugstack.conf requires.
needed_by_steps() {
    # A configless machine has slurmctld's.
    grep -hsE '^[^#]*spank_gpushare' "$SYSCONFDIR/plugstack.conf" /run/slurm/conf/plugstack.conf | sort -u || true
    # On other machines, this line is removed together with the plugin.
    ! is_shared || grep -sHE '^ *required.*spank_gpushare' "$SYSCONFDIR/plugstack.conf.d/50-gpushare.conf" |
        sed 's/$/ (of all machines)/' || true
}

# Whether the directory has only our file.
is_last() { [[ $(echo "$1"/*) == "$1/50-gpushare" ]]; }

# The steps that run under gpushare's plugin. Later steps of the same jobs would have no fence.
running_steps() {
    local pid
    for pid in $(loaded_by spank_gpushare.so); do
        ! runs "$pid" slurmstepd || tr '\0' ' ' <"/proc/$pid/cmdline"
    done 2>/dev/null
}

# slurmd drains a node if its Prolog= can't be run, also if that is FOLDER/* and the directory is empty. A job with a
# GPU would continue without a fence and without its epilog.
needed_by_slurmd() {
    local exe pid paths folder entries steps
    # Jobs continue while slurmd is stopped.
    # Others have no GPU here: they failed.
    mapfile -t entries < <(grep -Ls '^holding=nothing$' /run/gpushare/jobs/* || true)
    ((${#entries[@]} == 0)) || echo "running jobs with GPUs (${entries[*]##*/})"
    steps=$(running_steps)
    [[ -z $steps ]] || echo "running steps (${steps% })"
    for exe in /proc/[0-9]*/exe; do
        pid=${exe//[!0-9]/}
        runs "$pid" slurmd && has_file "$pid" "$PREFIX/sbin/gpushare-prolog" || continue
        paths=$(paths_in_memory "$pid")
        grep -E '/gpushare-(prolog|epilog)$' <<<"$paths" | sed "s/^/slurmd (process $pid) runs /" || true
        for folder in prolog epilog; do
            is_last "$SYSCONFDIR/$folder.d" || { is_shared && [[ -L $SYSCONFDIR/$folder.d/50-gpushare ]]; } || continue
            grep -E "^$SYSCONFDIR/$folder.d/\*" <<<"$paths" | sed "s/^/slurmd (process $pid) runs /" || true
        done
    done
}
