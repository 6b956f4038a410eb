# SPDX-License-Identifier: GPL-2.0-or-later
#
# What the packages' scripts do. Slurm acts on a fragment for plugstack.conf and on a link in prolog.d as soon as it
# exists. dpkg and rpm would install them before the plugin and the program that they name; dpkg would keep the fragment
# when the plugin is removed. So the scripts install them last and remove them first, and keep what an administrator has
# there.

fragment=$SYSCONFDIR/plugstack.conf.d/50-gpushare.conf

is_there() { [[ -e $1 || -L $1 ]]; }

put_fragments() { # for a new installation
    local hook link template=$SHARED/plugstack.conf
    if is_shared; then
        echo "$PACKAGE: $SYSCONFDIR is on another file system than /etc, perhaps shared: it is not changed"
        return 0
    fi
    [[ $PACKAGE == gpushare-slurmd ]] || template=$SHARED/plugstack-login.conf
    # rpm removes gpushare-client after this, and also its line if that is still there.
    if ! is_there "$fragment" || cmp -s "$SHARED/plugstack-login.conf" "$fragment"; then
        install -m 644 "$template" "$SYSCONFDIR/plugstack.conf.d/.50-gpushare.new"
        mv "$SYSCONFDIR/plugstack.conf.d/.50-gpushare.new" "$fragment"
    fi
    [[ $PACKAGE == gpushare-slurmd ]] || return 0
    for hook in prolog epilog; do
        link=$SYSCONFDIR/$hook.d/50-gpushare
        is_there "$link" || ln -s "$PREFIX/sbin/gpushare-$hook" "$link"
    done
}

# For a login node, removes only its own line: where jobs run, another package has written it.
take_fragments() {
    local hook link
    ! is_shared || return 0
    if [[ $PACKAGE == gpushare-slurmd ]] || cmp -s "$SHARED/plugstack-login.conf" "$fragment"; then
        rm -f "$fragment"
    fi
    [[ $PACKAGE == gpushare-slurmd ]] || return 0
    for hook in prolog epilog; do
        link=$SYSCONFDIR/$hook.d/50-gpushare
        [[ $(readlink "$link") != "$PREFIX/sbin/gpushare-$hook" ]] || rm -f "$link"
    done
}

# Whether the package may be removed: not while Slurm would fail without it, unless root insists.
may_go() {
    local still
    case $PACKAGE in
    # rpm continues with this package even if another one of the same command has refused.
    gpushare) still=$(compgen -G "$PLUGIN_DIR/*_gpushare*.so" | sed 's/$/ is still there/' || true) ;;
    gpushare-slurmctld) still=$(needed_by_slurmctld) ;;
    gpushare-slurmd) still=$(needed_by_steps && needed_by_slurmd) ;;
    # Where jobs run, another package has the plugin.
    gpushare-client) still=$([[ -e $PREFIX/sbin/gpushare-prolog ]] || needed_by_steps) ;;
    esac
    [[ -z $still || ${GPUSHARE_REMOVE:-} == anyway ]] && return 0
    echo "$PACKAGE: Slurm still needs it, and would fail: ${still//$'\n'/; }. $REMEDY" >&2
    return 1
}

put_package() { # [new]
    case $PACKAGE in
    gpushare)
        reload_units
        return 0
        ;;
    gpushare-slurmctld)
        [[ -z $(needed_by_slurmctld) ]] || echo "$PACKAGE: slurmctld keeps the plugin that it has loaded until you restart it"
        return 0
        ;;
    gpushare-slurmd)
        ! command -v systemd-tmpfiles >/dev/null || systemd-tmpfiles --create "$PREFIX/lib/tmpfiles.d/gpushare.conf" || true
        ;;
    esac
    [[ ${1:-} != new ]] || put_fragments
}

take_package() {
    case $PACKAGE in
    gpushare) take_units ;;
    gpushare-slurmctld) ;;
    gpushare-slurmd)
        take_fragments
        take_ledger
        ;;
    gpushare-client) take_fragments ;;
    esac
}

# What is left once the package's files have gone: dpkg's purge, rpm's removal.
take_rest() {
    case $PACKAGE in
    gpushare)
        take_ledger
        take_drained
        ;;
    gpushare-slurmctld) take_rules ;;
    esac
}
