#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# containers.sh SUITE DIR MIRROR ROOT: unpacks into DIR programs that start containers as a plain user, and what they need beyond
# ROOT, a release's root, which is only read: podman, Charliecloud, bubblewrap, and Apptainer where the suite has it (sid). Touches
# DIR only. No maintainer script runs. Run by host/layer.sh.
set -euo pipefail
suite=$1 dir=$2 mirror=$3 root=$4
. "$(dirname "$0")/apt.sh"

echo "I: fetching podman, Charliecloud, bubblewrap"
packages=(podman crun uidmap bubblewrap charliecloud-runtime)
[[ $suite != sid ]] || packages+=(apptainer)
fetch_packages "$root" "${packages[@]}"
unpack_packages
check_programs usr/bin/{podman,crun,ch-run,bwrap}
