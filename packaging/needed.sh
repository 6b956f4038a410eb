# SPDX-License-Identifier: GPL-2.0-or-later
#
# What of the running Slurm would fail if gpushare were taken away now, a line each, and whether Slurm's folder is this machine's
# alone; SYSCONFDIR is where slurm.conf is, PREFIX where the programs are. For bash; packaging/install sources it, and the
# packages' scripts have it in them. A daemon that doesn't run needs nothing; jobs that run do.

REMEDY="First take gpushare out of JobSubmitPlugins=, Prolog=, Epilog= and plugstack.conf, restart slurmctld and slurmd, and \
let the node's jobs end; or set GPUSHARE_REMOVE=anyway"

# One folder for all machines: to change it here would change Slurm on machines that don't have gpushare.
is_shared() { [[ -d $SYSCONFDIR && $(stat -Lc %d "$SYSCONFDIR") != "$(stat -Lc %d /etc)" ]]; }

# A daemon is known by the file that it runs, and not by its process's name: after `scontrol reconfigure` that is another
# one (slurmctld-wlm). What it needs is what it has in memory: Slurm's files may say something else since it read them. One
# in a container has files of its own, and is not meant.

# has_file PID FILE: whether FILE is the same one for the process as it is here.
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

# The paths in a process's heap, a line each.
paths_in_memory() { # PID
    local from to
    grep -sF '[heap]' "/proc/$1/maps" | while IFS=' -' read -r from to _; do
        dd if="/proc/$1/mem" bs=4096 skip=$((16#$from / 4096)) count=$((16#$to / 4096 - 16#$from / 4096)) 2>/dev/null |
            LC_ALL=C grep -az '^/' | tr '\n\0' ' \n'
    done | sort -u || true
}

# slurmctld doesn't start, and doesn't reconfigure itself, without a plugin that it is to load.
needed_by_slurmctld() {
    local pid
    for pid in $(loaded_by job_submit_gpushare.so); do
        echo "slurmctld (process $pid) has loaded job_submit_gpushare.so"
    done
}

# Steps, and srun and sbatch, fail without a plugin that plugstack.conf requires.
needed_by_steps() {
    grep -hsE '^[^#]*spank_gpushare' "$SYSCONFDIR/plugstack.conf" || true
    # Elsewhere this one goes with the plugin.
    ! is_shared || grep -sHE '^ *required.*spank_gpushare' "$SYSCONFDIR/plugstack.conf.d/50-gpushare.conf" |
        sed 's/$/ (of all machines)/' || true
}

# Whether ours is all that is in the folder.
is_last() { [[ $(echo "$1"/*) == "$1/50-gpushare" ]]; }

# The steps that run under gpushare's plugin. Later steps of their jobs would have no fence.
running_steps() {
    local pid
    for pid in $(loaded_by spank_gpushare.so); do
        ! runs "$pid" slurmstepd || tr '\0' ' ' <"/proc/$pid/cmdline"
    done 2>/dev/null
}

# slurmd drains a node whose Prolog= can't be run, also where it is FOLDER/* and nothing is there; and a job that has a GPU
# would go on without a fence, and without its epilog.
needed_by_slurmd() {
    local exe pid paths folder entries steps
    # They go on while slurmd is stopped.
    mapfile -t entries < <(compgen -G "/run/gpushare/jobs/*" || true)
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
