# SPDX-License-Identifier: GPL-2.0-or-later
#
# What of the running Slurm would fail if gpushare were taken away now, a line each, and whether Slurm's folder is this machine's
# alone; SYSCONFDIR is where slurm.conf is. For bash; packaging/install sources it, and the packages' scripts have it in
# them. A daemon that doesn't run needs nothing; jobs that run do.

# One folder for all machines: to change it here would change Slurm on machines that don't have gpushare.
is_shared() { [[ -d $SYSCONFDIR && $(stat -Lc %d "$SYSCONFDIR") != "$(stat -Lc %d /etc)" ]]; }

# is_running DAEMON: here, in this pid namespace.
is_running() { grep -qsx "$1" /proc/[0-9]*/comm; }

slurm_settings() {
    timeout 10 scontrol show config 2>/dev/null | sed -E 's/^(\w+)(\[[0-9]+\])? *= /\1=/' || true
}

# slurmctld doesn't start without a plugin that it is to load.
needed_by_slurmctld() {
    ! is_running slurmctld || grep -E '^JobSubmitPlugins=(.*[,/])?gpushare(,|$)' <<<"$(slurm_settings)" || true
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

# slurmd drains a node whose Prolog= can't be run, also where it is FOLDER/* and nothing is there; and a job that has a GPU
# would go on without a fence, and without its epilog.
needed_by_slurmd() {
    local settings folder entries
    # They go on while slurmd is stopped.
    mapfile -t entries < <(compgen -G "/run/gpushare/jobs/*" || true)
    ((${#entries[@]} == 0)) || echo "running jobs with GPUs (${entries[*]##*/})"
    is_running slurmd || return 0
    settings=$(slurm_settings)
    grep -E '^(Prolog|Epilog)=.*gpushare-(prolog|epilog)' <<<"$settings" || true
    for folder in prolog epilog; do
        is_last "$SYSCONFDIR/$folder.d" || { is_shared && [[ -L $SYSCONFDIR/$folder.d/50-gpushare ]]; } || continue
        grep -iE "^$folder=$SYSCONFDIR/$folder.d/" <<<"$settings" || true
    done
}
