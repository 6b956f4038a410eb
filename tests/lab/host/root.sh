# SPDX-License-Identifier: GPL-2.0-or-later
#
# Roots: one small Debian tree per Slurm release, made once and then only read. Decides which Debian suite has a
# release, and when a cached root is stale. Touches $LAB_STATE/roots. Sourced by `lab`; root/recipe.sh makes the roots,
# and host/source.sh those of releases that no suite has.

readonly DEBIAN_RELEASES=(22.05 24.11 26.05)

readonly DEBIAN_KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# What a signal must undo while a root is made.
BUILD_PID='' BUILD_DIR=''

suite_of() {
    case $1 in
    22.05) echo bookworm ;;
    24.11) echo trixie ;;
    26.05) echo sid ;;
    *) if is_from_source "$1"; then suite_of "$SOURCE_BASE"; else return 1; fi ;;
    esac
}

root_of() {
    echo "$LAB_STATE/roots/$1"
}

# recipe_stamp RELEASE: a root is stale when the recipe that made it changes.
recipe_stamp() {
    local scripts=(debian.sh recipe.sh database.sh)
    ! is_from_source "$1" || scripts+=(compiler.sh slurm.sh graft.sh)
    stamp_of "${scripts[@]}"
}

root_is_fresh() {
    local stamp
    stamp=$(cat "$(root_of "$1")/.lab-stamp" 2>/dev/null) && [[ $stamp == "$(recipe_stamp "$1")" ]]
}

# Such as "24.11.5", from the header against which plugins are compiled.
version_in_root() {
    local header number
    header=$(root_of "$1")/usr/include/slurm/slurm_version.h
    number=$(sed -n 's/^#define SLURM_VERSION_NUMBER *\(0x[0-9a-f]*\).*/\1/p' "$header")
    printf '%02d.%02d.%d\n' $((number >> 16 & 255)) $((number >> 8 & 255)) $((number & 255))
}

# sid changes: its Slurm may be a later one than the release that it represents here.
warn_of_other_release() {
    local version
    version=$(version_in_root "$1")
    [[ $version == "$1".* ]] && return 0
    say "*** WARNING: suite $(suite_of "$1") has Slurm $version, NOT $1."
    say "*** WARNING: everything tested in this root is tested with $version."
}

# The mirror that this machine's apt uses, or $GPUSHARE_LAB_MIRROR.
debian_mirror() {
    local mirror
    mirror=${GPUSHARE_LAB_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null |
        grep -E '/debian/?$' | head -1)}
    [[ -n $mirror ]] || return 1
    echo "$mirror"
}

# Logs of builds may be published, so this hides the mirror's name.
hide_mirror() {
    sed -u -E 's#(https?://)[^/ "]+#\1MIRROR#g'
}

refuse_mirror() {
    refuse "$STATUS_NOT_HERE" \
        "apt's configuration names no Debian mirror (a URI that ends in /debian): set GPUSHARE_LAB_MIRROR"
}

# ensure_root RELEASE [SOURCE]: returns when a fresh root is there; exits with 3 if it cannot be made.
ensure_root() {
    local release=$1
    if is_from_source "$release"; then
        ensure_source_root "$release" "${2:-}"
        return
    fi
    lock "$LAB_STATE/roots/$release.lock" "the root of $release"
    if ! root_is_fresh "$release"; then
        refuse_if_used "$release"
        build_root "$release"
    fi
    unlock
    warn_of_other_release "$release"
}

# A running box reads its root and NVIDIA's programs through an overlay, so these must not disappear.
refuse_if_used() {
    local name
    name=$(running_box_of_release "$1") || return 0
    refuse "$STATUS_FAILED" "the root of $1, or NVIDIA's programs for it, are stale or to be purged," \
        "but box '$name' runs on them: lab down $name"
}

build_root() {
    local release=$1 suite mirror log started=$SECONDS
    suite=$(suite_of "$release")
    log=$LAB_STATE/roots/$release.log
    mirror=$(debian_mirror) || refuse_mirror
    say "making the root of $release from $suite"
    begin_tree "$LAB_STATE/roots/$release.new"
    if ! follow_recipe "$log" recipe.sh "$suite" "$BUILD_DIR" "$mirror"; then
        hide_mirror <"$log" | tail -20 >&2
        refuse "$STATUS_NOT_HERE" "the root of $release cannot be made here; the whole log is $log"
    fi
    recipe_stamp "$release" >"$BUILD_DIR/.lab-stamp"
    finish_tree "$(root_of "$release")"
    say "root of $release: Slurm $(version_in_root "$release"), $((SECONDS - started)) s," \
        "$(du -sm "$(root_of "$release")" | cut -f1) MB"
}

# begin_tree DIR: an empty directory, which is removed unless finish_tree is reached.
begin_tree() {
    undo_at_exit abandon_tree
    BUILD_DIR=$1
    remove_root_directory "$BUILD_DIR" # of a lab that was killed
    mkdir -p "$BUILD_DIR"
}

# finish_tree DIR: moves what was begun into its place.
finish_tree() {
    remove_root_directory "$1"
    mv "$BUILD_DIR" "$1"
    BUILD_DIR=''
    undo_at_exit
}

# follow_recipe LOG SCRIPT ARG...: runs a script of root/ and shows its steps ("I: ..."); returns its exit status.
follow_recipe() {
    local log=$1 script=$LAB_HOME/root/$2 shown=0 pid
    shift 2
    : >"$log" # show_steps may read it first
    # In separate namespaces, so that no process and no mount of it is ever left.
    (
        close_inherited_descriptors
        exec setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc \
            bash "$script" "$@" </dev/null >"$log" 2>&1
    ) &
    BUILD_PID=$! pid=$!
    while start_time_of "$pid" >/dev/null; do
        show_steps
        sleep 0.2
    done
    show_steps
    BUILD_PID=''
    wait "$pid"
}

# Shows the new lines in follow_recipe's log.
show_steps() {
    local lines
    lines=$(wc -l <"$log")
    ((lines > shown)) || return 0
    sed -n "$((shown + 1)),${lines}s/^I: /lab:   /p" "$log" | hide_mirror >&2
    shown=$lines
}

abandon_tree() {
    [[ -z $BUILD_PID ]] || end_namespace "$BUILD_PID"
    [[ -z $BUILD_DIR ]] || remove_root_directory "$BUILD_DIR"
}

remove_root_directory() {
    rm -rf --one-file-system "$1"
}

purge_roots() {
    local release
    for release in "${DEBIAN_RELEASES[@]}" "${SOURCE_RELEASES[@]}"; do
        refuse_if_used "$release" # before any is removed
    done
    for release in "${DEBIAN_RELEASES[@]}" "${SOURCE_RELEASES[@]}"; do
        purge_tree "$(root_of "$release")" "the root of $release"
    done
}

# purge_tree TREE WHAT
purge_tree() {
    lock "$1.lock" "$2"
    remove_root_directory "$1"
    remove_root_directory "$1.new"
    rm -f "$1.log"
    unlock
}
