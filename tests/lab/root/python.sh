#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# python.sh SUITE DIR MIRROR ROOT: unpacks into DIR the suite's Python, beyond what ROOT, a release's root, has, and installs
# the tools of python.txt for it, where that Python looks by itself. Touches DIR only.
# No maintainer script runs, and nothing that is fetched runs on the machine. Run by host/layer.sh.
set -euo pipefail
suite=$1 dir=$2 mirror=$3 root=$4
here=$(cd "$(dirname "$0")" && pwd)
. "$(dirname "$0")/apt.sh"

# install_wheels VERSION ARGUMENT...: only files that need no build, for that Python.
install_wheels() {
    local version=$1
    shift
    /usr/bin/pip3 --quiet --disable-pip-version-check --no-cache-dir install --no-deps --require-hashes --no-compile \
        --only-binary :all: --python-version "$version" --upgrade --target "$packages" "$@"
}

# Its C part is for Python 3.13 at the most, and later ones go without.
print_immutables() {
    echo "immutables==0.21 --hash=sha256:b274a52da9b106db55eceb93fc1aea858c4e6f4740189e3548e38613eafc2021"
}

# What only developers and other systems need is more than half of it. Programs belong into PATH.
trim_packages() {
    rm -rf "$packages"/{numpy,pandas}/tests "$packages"/numpy/*/tests "$packages"/pulp/solverdir/cbc/{osx,win}
    mkdir -p "$dir/usr/local/bin"
    mv "$packages"/bin/* "$dir/usr/local/bin/"
    rmdir "$packages/bin"
}

# Else each process compiles what it imports: nobody but root may keep that. The mounts end with this script.
compile_packages() {
    trap 'umount --recursive "$dir.tree"; rm -rf --one-file-system "$dir.tree" "$dir.work"' EXIT
    rm -rf --one-file-system "$dir.work" "$dir.tree" # of one that was killed
    mkdir "$dir.work" "$dir.tree"
    mount -t overlay -o "lowerdir=$root,upperdir=$dir,workdir=$dir.work" overlay "$dir.tree"
    mkdir -p "$dir.tree/proc" "$dir.tree/dev"
    mount -t proc proc "$dir.tree/proc"
    # A root that was made in a container has no device nodes.
    mount -t tmpfs -o mode=755 dev "$dir.tree/dev"
    mknod -m 666 "$dir.tree/dev/null" c 1 3
    # Some files are templates, and no Python.
    chroot "$dir.tree" python3 -m compileall -q -j2 "/usr/lib/python$version" "${packages#"$dir"}" || true
    chroot "$dir.tree" test -x /usr/local/bin/snakemake -a -x /usr/local/bin/interchange.py
    chroot "$dir.tree" python3 -c 'import submitit, dask_jobqueue, parsl, simple_slurm, snakemake, snakemake_executor_plugin_slurm'
}

echo "I: fetching Python of $suite"
# connection_pool has no wheel.
fetch_packages "$root" python3 python3-connection-pool
unpack_packages
version=$(readlink "$dir/usr/bin/python3")
version=${version#python}
packages=$dir/usr/local/lib/python$version/dist-packages
echo "I: fetching tools for Python $version"
install_wheels "$version" --requirement "$here/python.txt"
install_wheels 3.13 --requirement <(print_immutables)
trim_packages
echo "I: compiling them"
compile_packages
