#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# python.sh SUITE DIR MIRROR ROOT: unpacks into DIR the suite's Python, beyond what ROOT, a release's root, has, and installs
# the tools of python.txt for it, where that Python looks by itself. Touches DIR only.
# No maintainer script runs, and nothing that is fetched runs on the machine. Run by host/layer.sh.
set -euo pipefail
suite=$1 dir=$2 mirror=$3 root=$4
here=$(cd "$(dirname "$0")" && pwd)
. "$here/apt.sh"
. "$here/wheels.sh"

# Its C part is for Python 3.13 at the most, and later ones go without.
print_immutables() {
    echo "immutables==0.21 --hash=sha256:b274a52da9b106db55eceb93fc1aea858c4e6f4740189e3548e38613eafc2021"
}

# What only developers and other systems need is more than half of it.
trim_packages() {
    rm -rf "$packages"/{numpy,pandas}/tests "$packages"/numpy/*/tests "$packages"/pulp/solverdir/cbc/{osx,win}
}

echo "I: fetching Python of $suite"
# connection_pool has no wheel.
fetch_packages "$root" python3 python3-connection-pool
unpack_packages
find_python
echo "I: fetching tools for Python $version"
install_wheels "$version" --requirement "$here/python.txt"
install_wheels 3.13 --requirement <(print_immutables)
trim_packages
move_programs
echo "I: compiling them"
mount_tree
compile_packages
chroot "$dir.tree" test -x /usr/local/bin/snakemake -a -x /usr/local/bin/interchange.py
chroot "$dir.tree" python3 -c 'import submitit, dask_jobqueue, parsl, simple_slurm, snakemake, snakemake_executor_plugin_slurm'
