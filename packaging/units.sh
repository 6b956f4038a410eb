# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a package's scripts and packaging/install tell systemd about the timers gpushare-metrics, gpushare-guard and
# gpushare-idle and their services. Nothing switches a timer on but an administrator. Where no systemd runs (a
# container, a chroot), only files are changed. PREFIX is the directory of the programs. For bash.

units=(gpushare-{metrics,guard,idle}.{timer,service})

# systemd looks for units nowhere else.
has_units() { [[ $PREFIX == /usr || $PREFIX == /usr/local ]]; }

tell_systemd() {
    [[ ! -d /run/systemd/system ]] || systemctl "$@" >/dev/null || true
}

# After the units' files were installed, replaced or removed: a timer that is on goes on, with the new files.
reload_units() {
    ! has_units || tell_systemd daemon-reload
}

# Before the units' files go. The numbers go too: node_exporter would serve the last ones forever.
take_units() {
    local figures=() file link
    has_units || return 0
    figures=("$(figures_file gpushare-metrics gpushare)" "$(figures_file gpushare-guard gpushare-guard)")
    tell_systemd stop "${units[@]}"
    tell_systemd reset-failed "${units[@]}" 2>/dev/null
    # What `systemctl disable` would do. There may be no systemctl.
    for link in /etc/systemd/system/*.{wants,requires}/gpushare-{metrics,guard,idle}.timer; do
        [[ ! -L $link ]] || { rm -f "$link" || true; rmdir "${link%/*}" 2>/dev/null || true; }
    done
    for file in "${figures[@]}"; do
        rm -f "$file" "${file%/*}/.${file##*/}".[0-9]*
    done
}

# figures_file SERVICE NAME: the file that the service writes. `systemctl edit` may have changed it.
figures_file() {
    local command=''
    [[ ! -d /run/systemd/system ]] ||
        command=$(systemctl show --property=ExecStart --value "$1.service" 2>/dev/null || true)
    if [[ $command =~ \ --out[\ =](/[^\ \;]*\.prom)\  ]]; then
        echo "${BASH_REMATCH[1]}"
    else
        echo "/var/lib/prometheus/node-exporter/$2.prom"
    fi
}
