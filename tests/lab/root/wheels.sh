# SPDX-License-Identifier: GPL-2.0-or-later
#
# Packages of PyPI for a suite's Python in a layer, where that Python looks by itself. Nothing of them runs on the
# machine. Sourced by the recipes of layers, which set dir and root; touches $dir, and $dir.tree and $dir.work until the
# script ends.

# find_python: sets version, such as 3.13, and packages, the folder for what is installed.
find_python() {
    version=$(readlink "$dir/usr/bin/python3")
    version=${version#python}
    packages=$dir/usr/local/lib/python$version/dist-packages
}

# install_wheels VERSION ARGUMENT...: only files that need no build, for that Python.
install_wheels() {
    local version=$1
    shift
    /usr/bin/pip3 --quiet --disable-pip-version-check --no-cache-dir install --no-deps --require-hashes --no-compile \
        --only-binary :all: --python-version "$version" --upgrade --target "$packages" "$@"
}

# Programs belong into PATH.
move_programs() {
    mkdir -p "$dir/usr/local/bin"
    mv "$packages"/bin/* "$dir/usr/local/bin/"
    rmdir "$packages/bin"
}

# mount_tree: $dir.tree is the layer over its root, for chroot. The mounts end with the script.
mount_tree() {
    trap 'umount --recursive "$dir.tree"; rm -rf --one-file-system "$dir.tree" "$dir.work"' EXIT
    rm -rf --one-file-system "$dir.work" "$dir.tree" # of one that was killed
    mkdir "$dir.work" "$dir.tree"
    mount -t overlay -o "lowerdir=$root,upperdir=$dir,workdir=$dir.work" overlay "$dir.tree"
    mkdir -p "$dir.tree/proc" "$dir.tree/dev"
    mount -t proc proc "$dir.tree/proc"
    # A root that was made in a container has no device nodes. Python compiles side by side only with a /dev/shm.
    mount -t tmpfs -o mode=755 dev "$dir.tree/dev"
    mknod -m 666 "$dir.tree/dev/null" c 1 3
    mkdir -m 1777 "$dir.tree/dev/shm"
}

# Else each process compiles what it imports: nobody but root may keep that. Some files are templates, and no Python.
compile_packages() {
    chroot "$dir.tree" python3 -m compileall -q -j2 "/usr/lib/python$version" "${packages#"$dir"}" || true
}
