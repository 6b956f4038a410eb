#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# compiler.sh SUITE DIR MIRROR: fills DIR with a small Debian that compiles Slurm. Touches DIR only. Run by
# host/source.sh in namespaces of its own. A change to this file or to debian.sh makes every
# Slurm from source stale.
set -euo pipefail
suite=$1 dir=$2 mirror=$3
. "$(dirname "$0")/debian.sh"

# What Debian's Slurm has is here too, but for PMIx, RRDtool, FreeIPMI and the like: no test uses those.
packages=(
    gcc make libc6-dev pkgconf perl python3-minimal
    libmunge-dev libmariadb-dev libhwloc-dev libjson-c-dev libyaml-dev libjwt-dev libhttp-parser-dev liblua5.1-0-dev
    libdbus-1-dev libbpf-dev libnuma-dev libpam0g-dev libreadline-dev zlib1g-dev liblz4-dev libssl-dev
    libcurl4-openssl-dev
)
install_debian "$suite" "$dir" "$mirror" "${packages[@]}"
remove_ballast "$dir"
