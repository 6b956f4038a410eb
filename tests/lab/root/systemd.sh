#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# systemd.sh SUITE DIR MIRROR ROOT: unpacks into DIR the suite's systemd and what it needs
# beyond ROOT, a release's root, which is only read. Touches DIR only: apt is given a state
# of its own there. No maintainer script runs. Run by host/layer.sh.
set -euo pipefail
suite=$1 dir=$2 mirror=$3 root=$4
. "$(dirname "$0")/apt.sh"

# Nothing but what a box asks for is started, now and in later versions of the packages.
remove_wants() {
    rm -rf "$dir"/usr/lib/systemd/system/*.{wants,requires} "$dir"/usr/lib/systemd/system-generators
}

echo "I: fetching systemd"
fetch_packages "$root" systemd
unpack_packages ./etc
remove_wants
check_programs usr/{lib/systemd/systemd,bin/systemd-run,bin/systemctl,bin/journalctl,lib/systemd/systemd-journald}
