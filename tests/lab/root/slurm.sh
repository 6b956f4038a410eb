#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# slurm.sh COMPILER SOURCE DIR: compiles SOURCE, a folder or a tar archive of Slurm, and fills DIR with what its
# "make install" installs (usr), and the libraries that this needs (needs). COMPILER is what compiler.sh has made.
# COMPILER and SOURCE are only read; touches DIR only. Run by host/source.sh in namespaces of its own, with which its
# mounts end. A change to this file makes every Slurm from source stale.
set -euo pipefail
compiler=$1 source=$2 dir=$3
work=$dir/work

# Where it is compiled: COMPILER, with a layer over it that takes what is written.
mkdir -p "$work"/{upper,over,tree}
mount -t overlay -o "lowerdir=$compiler,upperdir=$work/upper,workdir=$work/over" overlay "$work/tree"
mkdir -p "$work/tree"/{proc,dev,slurm,out}
mount -t proc proc "$work/tree/proc"
mount --bind /dev "$work/tree/dev"

echo "I: unpacking $source"
if [[ -d $source ]]; then
    tar -C "$source" -c --exclude-vcs . | tar -C "$work/tree/slurm" -x --no-same-owner
else
    tar -C "$work/tree/slurm" -x --no-same-owner --strip-components 1 -f "$source"
fi
# A tree in which somebody has built has files that its configure would take for its own.
[[ ! -e $work/tree/slurm/config.status ]] || chroot "$work/tree" make -s -C /slurm distclean >/dev/null || true

echo "I: compiling, a few minutes"
# As Debian's: its folder for plugins, and several slurmd on a host. -O1, since it compiles faster than -O2.
nice chroot "$work/tree" env -i PATH=/usr/sbin:/usr/bin LANG=C.UTF-8 bash -euo pipefail -c '
    cd /slurm
    libraries=/usr/lib/$(gcc -print-multiarch)
    # The tree may have lost its times, as a clone has: no file looks older than what it was made from.
    find . -exec touch --no-dereference --date=@1 {} +
    ./configure --prefix=/usr --sysconfdir=/etc/slurm --localstatedir=/run --libdir="$libraries" \
        --enable-multiple-slurmd --disable-static --enable-silent-rules --disable-dependency-tracking \
        --with-munge --with-hwloc --with-json --with-yaml --with-jwt --with-http-parser --with-lz4 --with-readline \
        CFLAGS="-O1 -g0 -Wno-error -Wno-deprecated-declarations"
    make -s -C src -j"$(nproc)" pkglibdir="$libraries/slurm-wlm"
    make -s -C src install pkglibdir="$libraries/slurm-wlm" DESTDIR=/out
    make -s install-pkgincludeHEADERS DESTDIR=/out
    # Libraries that it needs, of packages that no root has (libcurl).
    mkdir /out/needs
    find /out/usr -type f \( -path "*/bin/*" -o -path "*/sbin/*" -o -name "*.so*" \) -print0 |
        LD_LIBRARY_PATH=/out$libraries:/out$libraries/slurm-wlm xargs -0 ldd 2>/dev/null |
        sed -n "s,^\t.* => \(/[^ ]*\) (.*,\1,p" | grep -v ^/out | sort -u | xargs -I{} cp -L {} /out/needs/
'
mv "$work/upper/out/usr" "$work/upper/out/needs" "$dir"
umount "$work/tree/dev" "$work/tree/proc" "$work/tree"
rm -rf --one-file-system "$work"
rm -rf "$dir"/usr/share/{doc,man} "$dir"/usr/lib/*/slurm-wlm/*.la
