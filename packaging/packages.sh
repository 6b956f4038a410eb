# SPDX-License-Identifier: GPL-2.0-or-later
#
# What deb/build and rpm/build share: versions, which file is in which package, the tree of all files, and the scripts
# that packages run. For bash, in the top directory. In addition to the variables of packaging/install:
#
#   PACKAGES           target/packages, the directory for the result
#   REVISION           1, that of the packages; a rebuild of the same gpushare for the same Slurm needs a higher one
#   SLURM_VERSION      for example 24.11.5, if not that of the headers
#   SOURCE_DATE_EPOCH  the time in the packages; by default that of the last commit, or of CHANGELOG.md

# A failure in $(…) fails the build.
shopt -s inherit_errexit

NAMES=(gpushare gpushare-slurmctld gpushare-slurmd gpushare-client)
PREFIX=${PREFIX:-/usr}
SYSCONFDIR=${SYSCONFDIR:-/etc/slurm}
BUILT=${BUILT:-target/release}
PACKAGES=${PACKAGES:-target/packages}
REVISION=${REVISION:-1}
SHARED=$PREFIX/share/gpushare

stop() {
    echo "${0#"$PWD/"}: $*" >&2
    exit 1
}

# The spec has the texts.
summary() { # NAME
    local part=${1#gpushare}
    sed -n "${part:+/^%package ${part#-}\$/,}/^Summary:/s/^Summary: *//p" packaging/rpm/gpushare.spec | head -n 1
}

description() { # NAME
    local part=${1#gpushare}
    sed -n "/^%description${part:+ ${part#-}}\$/,/^\$/p" packaging/rpm/gpushare.spec | sed '1d; /^$/d'
}

# find_packages PATH: sets `packages` to those that contain an installed file or link. This is the only such list.
find_packages() {
    case $1 in
    */job_submit_gpushare.so) packages=gpushare-slurmctld ;;
    */spank_gpushare.so) packages="gpushare-slurmd gpushare-client" ;;
    "$SHARED/plugstack-login.conf") packages=gpushare-client ;;
    */spank_gpushare_prolog.so | "$PREFIX"/sbin/gpushare-* | "$PREFIX/lib/tmpfiles.d/gpushare.conf" | \
        "$SHARED/plugstack.conf") packages=gpushare-slurmd ;;
    "$PREFIX/bin/gpushare" | "$PREFIX"/lib/systemd/* | "$PREFIX"/share/*) packages=gpushare ;;
    *) stop "packaging/packages.sh doesn't say in which package $1 belongs" ;;
    esac
}

# folders_of NAME: the empty directories that belong to it.
folders_of() {
    case $1 in
    gpushare-slurmd) echo "$SYSCONFDIR"/{plugstack.conf.d,prolog.d,epilog.d} ;;
    gpushare-client) echo "$SYSCONFDIR/plugstack.conf.d" ;;
    esac
}

# The beginning of a script: where things are, and what it calls.
script_head() { # NAME
    printf '#!/bin/bash\n# SPDX-License-Identifier: GPL-2.0-or-later\nset -euo pipefail\n'
    printf 'PACKAGE=%q SYSCONFDIR=%q PREFIX=%q SHARED=%q PLUGIN_DIR=%q\n\n' "$1" "$SYSCONFDIR" "$PREFIX" "$SHARED" "$PLUGIN_DIR"
    sed -s 1,2d packaging/{needed,units,state,fragments}.sh
    echo
}

# script NAME FILE: a package's script, with all that it calls; FILE is one of packaging/deb/*.sh or packaging/rpm/*.sh.
script() {
    script_head "$1"
    case $1:$2 in
    gpushare:*/deb/prerm.sh) ;;
    gpushare:*/deb/*) sed 1,2d packaging/deb/settings.sh ;;
    esac
    cat "$2"
}

find_versions() {
    local number header
    VERSION=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
    [[ -n $VERSION ]] || stop "Cargo.toml has no version"
    if [[ -z ${SLURM_VERSION:-} ]]; then
        header=$(packaging/headers)/slurm/slurm_version.h
        number=$(sed -n 's/^#define SLURM_VERSION_NUMBER \(0x[0-9a-f]*\)$/\1/p' "$header" 2>/dev/null || true)
        [[ -n $number ]] || stop "$header doesn't have Slurm's version: set SLURM_VERSION"
        SLURM_VERSION=$(printf '%d.%02d.%d' $((number >> 16)) $((number >> 8 & 255)) $((number & 255)))
    fi
    [[ $SLURM_VERSION =~ ^([0-9]+)\.([0-9]+)\.([0-9]+)$ ]] || stop "SLURM_VERSION can't be '$SLURM_VERSION'"
    SLURM_RELEASE=${BASH_REMATCH[1]}.${BASH_REMATCH[2]}
    # The next versions that are no longer the same micro release, or no longer the same release.
    NEXT_MICRO=$SLURM_RELEASE.$((10#${BASH_REMATCH[3]} + 1))
    NEXT_RELEASE=${BASH_REMATCH[1]}.$(printf '%02d' $((10#${BASH_REMATCH[2]} + 1)))
    # Not the time of a repository that has these sources in a subdirectory.
    : "${SOURCE_DATE_EPOCH:=$({ [[ -e .git ]] && git log -1 --format=%ct 2>/dev/null; } || stat -c %Y CHANGELOG.md)}"
    export SOURCE_DATE_EPOCH
}

# Slurm checks what the plugin contains, not the package's name. Without readelf, this can't be checked.
check_plugin() { # FILE
    local address offset found
    command -v readelf >/dev/null || return 0
    address=$(readelf -W --dyn-syms "$1" | awk '$8 == "plugin_version" { print $2 }')
    # Address and file offset of the section that contains it.
    offset=$(readelf -SW "$1" | sed 's/^ *\[ *[0-9]*\] *//' | while read -r _ _ start from size _; do
        [[ $start$size =~ ^[0-9a-f]+$ ]] && ((16#$start)) || continue
        ((16#$address < 16#$start || 16#$address >= 16#$start + 16#$size)) || echo $((16#$address - 16#$start + 16#$from))
    done)
    found=$(od -An -tu4 -N4 -j"$offset" "$1")
    found=$(printf '%d.%02d.%d' $((found >> 16)) $((found >> 8 & 255)) $((found & 255)))
    [[ $found == "$SLURM_VERSION" ]] ||
        stop "$1 is built for Slurm $found, and the headers are of $SLURM_VERSION: build it again, or set SLURM_INCLUDE_DIR"
}

# make_tree FOLDER: all files of all packages, as packaging/install installs them. The packages' scripts install what
# Slurm acts on immediately (fragments.sh), after everything else.
make_tree() {
    local tree=$1 file
    DESTDIR=$tree PREFIX=$PREFIX SYSCONFDIR=$SYSCONFDIR BUILT=$BUILT packaging/install >/dev/null
    file=$(find "$tree" -name job_submit_gpushare.so)
    check_plugin "$file"
    PLUGIN_DIR=${file#"$tree"}
    PLUGIN_DIR=${PLUGIN_DIR%/*}
    rm -r "${tree:?}$SYSCONFDIR"/{plugstack.conf.d,prolog.d,epilog.d}
    install -d -m 755 "$tree$SHARED"
    install -m 644 packaging/plugstack.conf packaging/plugstack-login.conf "$tree$SHARED"
    gzip -9n "$tree$PREFIX"/share/man/man*/*
    gzip -9n <CHANGELOG.md >"$tree$PREFIX/share/doc/gpushare/changelog.gz"
}

# files_of NAME TREE: its files and links, without the tree's name.
files_of() {
    local path packages
    (cd "$2" && find . ! -type d | LC_ALL=C sort) | while read -r path; do
        find_packages "${path#.}"
        [[ " $packages " != *" $1 "* ]] || echo "${path#.}"
    done
}
