#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# recipe.sh: adds gpushare to a cluster that was installed with OpenHPC's recipe for Warewulf and Slurm. Run it as root
# on the master. It installs the .rpms on the master and in the compute nodes' image, writes gpushare.conf, adds
# JobSubmitPlugins=gpushare to slurm.conf, restarts slurmctld if that lacks the plugin, and runs `gpushare check`. It
# touches no running node and no job. A second run changes nothing. README.md has what to do by hand.
set -euo pipefail

stop() {
    echo "recipe: $*" >&2
    exit 1
}
inputFile=${GPUSHARE_INPUT_LOCAL:-$(dirname "$(readlink -f "$0")")/input.local}
[[ -s $inputFile ]] || stop "'$inputFile' is not there: GPUSHARE_INPUT_LOCAL names another file"
. "$(realpath "$inputFile")"

# --- Check the input ---------------------------------------------------------------------------------------------------

((EUID == 0)) || stop "run it as root"
[[ $(hostname -s) == "$sms_name" ]] || stop "this is $(hostname -s), not the master '$sms_name' (sms_name)"
[[ -x $CHROOT/usr/sbin/slurmd ]] || stop "'$CHROOT' (CHROOT) is no image with slurmd"
# rpm_of NAME: its only .rpm.
rpm_of() {
    local found=("$gpushare_rpms/$1"-[0-9]*.rpm)
    [[ ${#found[@]} == 1 && -f ${found[0]} ]] || stop "'$gpushare_rpms' (gpushare_rpms) must have one $1-*.rpm"
    echo "${found[0]}"
}
command=$(rpm_of gpushare)
slurmctld=$(rpm_of gpushare-slurmctld)
slurmd=$(rpm_of gpushare-slurmd)
client=$(rpm_of gpushare-client)
plugins=$(sed -n 's/^[[:space:]]*JobSubmitPlugins[[:space:]]*=[[:space:]]*\([^[:space:]#]*\).*/\1/Ip' /etc/slurm/slurm.conf)
[[ -z $plugins || ,$plugins, == *,gpushare,* ]] ||
    stop "slurm.conf has JobSubmitPlugins=$plugins: append gpushare to that, and run this again"

# --- Install on the master: slurmctld, and users who submit ------------------------------------------------------------

dnf -y install "$command" "$slurmctld" "$client"

# --- Install in the image of the compute nodes -------------------------------------------------------------------------

dnf -y --installroot="$CHROOT" install "$command" "$slurmd"
# slurmctld doesn't send gpushare.conf to nodes without a slurm.conf.
for root in '' "$CHROOT"; do
    [[ -e $root/etc/slurm/gpushare.conf ]] || {
        printf '%s\n' "$gpushare_conf" >"$root/etc/slurm/.gpushare.conf.new"
        chmod 644 "$root/etc/slurm/.gpushare.conf.new"
        mv "$root/etc/slurm/.gpushare.conf.new" "$root/etc/slurm/gpushare.conf"
    }
done
cmp -s /etc/slurm/gpushare.conf "$CHROOT/etc/slurm/gpushare.conf" ||
    stop "/etc/slurm/gpushare.conf and that of $CHROOT differ: copy one over the other"

# --- Check that the plugins are built for this Slurm -------------------------------------------------------------------

gpushare check --for "$(sinfo -V | sed 's/[^0-9]*//')"
gpushare conf --new plugstack >/dev/null # whether gpushare.conf can be read
chroot "$CHROOT" gpushare check --for "$(sinfo -V | sed 's/[^0-9]*//')"

# --- Enable the rules for submissions ----------------------------------------------------------------------------------

[[ -n $plugins ]] || {
    [[ -e /etc/slurm/slurm.conf.before-gpushare ]] || cp -n /etc/slurm/slurm.conf /etc/slurm/slurm.conf.before-gpushare
    [[ -z $(tail -c 1 /etc/slurm/slurm.conf) ]] || echo >>/etc/slurm/slurm.conf # the last line has no newline
    echo JobSubmitPlugins=gpushare >>/etc/slurm/slurm.conf
}
if ! scontrol show config | grep -qE '^JobSubmitPlugins *=.*\bgpushare\b'; then
    systemctl restart slurmctld
    for try in {1..30}; do
        ! scontrol ping | grep -q 'is UP' || break
        sleep 1
    done
fi

# --- Check -------------------------------------------------------------------------------------------------------------

gpushare check
echo "recipe: done. Rebuild the image, so that nodes have it at their next boot: README.md"
