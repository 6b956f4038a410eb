# SPDX-License-Identifier: GPL-2.0-or-later
#
# Deletes what gpushare has written while it ran: for dpkg's purge, for a removal by rpm, and for packaging/install
# --uninstall. SYSCONFDIR is the directory of slurm.conf. For bash.

# The ledger. Jobs that still run would need its content; those that failed need nothing.
take_ledger() {
    [[ -n $(grep -Ls '^holding=nothing$' /run/gpushare/jobs/*) ]] || rm -rf /run/gpushare
}

# Which GPUs are out of service.
take_drained() {
    rm -rf /var/lib/gpushare
}

# What the controller's plugin keeps: the last good rules, and the counts of its messages. All controllers share
# StateSaveLocation, so this asks the one in control whether it still uses them.
take_rules() {
    local config folder counts plugins
    [[ -e $SYSCONFDIR/slurm.conf ]] || return 0
    config=$(timeout 10 scontrol show config 2>/dev/null || true)
    folder=$(sed -n 's/^StateSaveLocation *= *//p' <<<"$config")
    plugins=$(sed -n 's/^JobSubmitPlugins *= *//p' <<<"$config")
    if [[ $folder != /* ]]; then
        echo "gpushare: slurmctld doesn't answer: gpushare_last_good stays in its StateSaveLocation"
    elif [[ $plugins == *gpushare* ]]; then
        echo "gpushare: a controller still uses gpushare: $folder/gpushare_last_good stays"
    else
        rm -f "$folder"/gpushare_last_good "$folder"/.gpushare_last_good.[0-9]*
        counts=$(sed -n 's/^[[:space:]]*RefusalCounts[[:space:]]*=[[:space:]]*\([^[:space:]#]*\).*/\1/Ip' \
            "$SYSCONFDIR/gpushare.conf" 2>/dev/null || true)
        [[ $counts != /* || ! -f $counts ]] || rm -f "$counts"
    fi
}
