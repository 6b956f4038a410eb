# SPDX-License-Identifier: GPL-2.0-or-later
#
# Roots of releases that no Debian suite has: Slurm is compiled from its source, once, and replaces Debian's in a copy
# of the root of 24.11. Decides which releases these are, and when the compiled files are stale. Touches
# $LAB_STATE/build, and the roots of these releases. Sourced by `lab`; root/{compiler,slurm,graft}.sh make the files.
#
# $LAB_STATE/build:
#   trixie    the tree in which Slurm is compiled
#   RELEASE   what "make install" installed; .lab-version has its version. A new root doesn't need the source again.

readonly SOURCE_RELEASES=(23.02 23.11 24.05 25.05 25.11)
readonly SOURCE_BASE=24.11

is_from_source() {
    [[ " ${SOURCE_RELEASES[*]} " == *" $1 "* ]]
}

# The release whose layers a release uses: NVIDIA's programs, systemd and others.
layer_release() {
    if is_from_source "$1"; then echo "$SOURCE_BASE"; else echo "$1"; fi
}

# The releases that use a release's layers.
sharers_of() {
    echo "$1"
    [[ $1 != "$SOURCE_BASE" ]] || printf '%s\n' "${SOURCE_RELEASES[@]}"
}

build_of() {
    echo "$LAB_STATE/build/$1"
}

# stamp_of SCRIPT...: what these scripts of root/ make is stale when they change.
stamp_of() {
    (cd "$LAB_HOME/root" && cat "$@") | sha256sum | cut -d' ' -f1
}

build_is_fresh() { # RELEASE
    [[ $(cat "$(build_of "$1")/.lab-stamp" 2>/dev/null) == "$(stamp_of debian.sh compiler.sh slurm.sh)" ]]
}

# version_of_source SOURCE: "25.11.7", from the file META of a folder or a tar archive.
version_of_source() {
    local version
    if [[ -d $1 ]]; then
        version=$(cat "$1/META" 2>/dev/null)
    else
        version=$(tar -xOf "$1" --wildcards --no-wildcards-match-slash --occurrence=1 '*/META' 2>/dev/null)
    fi
    version=$(sed -nE 's/^ *Version:[[:space:]]*([0-9]{2}\.[0-9]{2}\.[0-9]\S*).*/\1/p' <<<"$version" | head -1)
    [[ -n $version ]] && echo "$version"
}

# check_source SOURCE: exits if it isn't a source of Slurm.
check_source() {
    [[ -e $1 ]] || refuse "$STATUS_USAGE" "there is no '$1': --source takes a folder or a tar archive of Slurm's source"
    version_of_source "$1" >/dev/null ||
        refuse "$STATUS_USAGE" "'$1' is not Slurm's source: no file META in its top folder says a version"
}

root_has() { # RELEASE VERSION
    root_is_fresh "$1" && [[ $(version_in_root "$1") == "${2%%-*}" ]]
}

# ensure_source_root RELEASE SOURCE: returns when a fresh root exists. With SOURCE it is made anew; $SLURM_SOURCE is
# used only if there is no root, or one of another version.
ensure_source_root() {
    local release=$1 source=$2 version=''
    if [[ -n $source ]]; then
        check_source "$source"
        version=$(version_of_source "$source")
        [[ $version == "$release".* ]] || refuse "$STATUS_USAGE" "'$source' is Slurm $version, not $release"
    elif [[ -n ${SLURM_SOURCE:-} ]]; then
        check_source "$SLURM_SOURCE"
        version=$(version_of_source "$SLURM_SOURCE")
        if [[ $version == "$release".* ]] && ! root_has "$release" "$version"; then source=$SLURM_SOURCE; fi
    fi
    [[ -n $source ]] || ! root_is_fresh "$release" || return 0
    [[ -n $source ]] || build_is_fresh "$release" || refuse "$STATUS_NOT_HERE" \
        "no Debian suite has Slurm $release, so its root is made from source: lab root $release --source DIR" \
        "${version:+(\$SLURM_SOURCE is Slurm $version)}"
    ensure_root "$SOURCE_BASE"
    [[ -z $source ]] || compile_slurm "$release" "$source" "$version"
    graft_root "$release"
}

ensure_compiler() {
    local suite log mirror
    suite=$(suite_of "$SOURCE_BASE")
    lock "$(build_of "$suite").lock" "what compiles Slurm"
    if [[ $(cat "$(build_of "$suite")/.lab-stamp" 2>/dev/null) != "$(stamp_of debian.sh compiler.sh)" ]]; then
        log=$(build_of "$suite").log
        mirror=$(debian_mirror) || refuse_mirror
        say "making what compiles Slurm, from $suite"
        begin_tree "$(build_of "$suite").new"
        if ! follow_recipe "$log" compiler.sh "$suite" "$BUILD_DIR" "$mirror"; then
            hide_mirror <"$log" | tail -20 >&2
            refuse "$STATUS_NOT_HERE" "what compiles Slurm cannot be made here; the whole log is $log"
        fi
        stamp_of debian.sh compiler.sh >"$BUILD_DIR/.lab-stamp"
        finish_tree "$(build_of "$suite")"
    fi
    unlock
}

compile_slurm() { # RELEASE SOURCE VERSION
    local release=$1 source=$2 version=$3 log started=$SECONDS
    log=$(build_of "$release").log
    refuse_if_used "$release" # early, to save minutes, and again before its root is removed
    ensure_compiler
    lock "$(build_of "$release").lock" "the build of Slurm $release"
    begin_tree "$(build_of "$release").new"
    if ! follow_recipe "$log" slurm.sh "$(build_of "$(suite_of "$release")")" "$source" "$BUILD_DIR"; then
        tail -20 "$log" >&2
        refuse "$STATUS_FAILED" "Slurm $version of '$source' can't be compiled; the whole log is $log"
    fi
    echo "$version" >"$BUILD_DIR/.lab-version"
    stamp_of debian.sh compiler.sh slurm.sh >"$BUILD_DIR/.lab-stamp"
    refuse_if_used "$release"
    rm -f "$(root_of "$release")/.lab-stamp" # it has an older build
    finish_tree "$(build_of "$release")"
    unlock
    say "Slurm $version compiled in $((SECONDS - started)) s"
}

graft_root() { # RELEASE
    local release=$1 log version
    log=$LAB_STATE/roots/$release.log
    lock "$LAB_STATE/roots/$release.lock" "the root of $release"
    if root_is_fresh "$release"; then # meanwhile made by another lab
        unlock
        return
    fi
    refuse_if_used "$release"
    version=$(cat "$(build_of "$release")/.lab-version")
    begin_tree "$LAB_STATE/roots/$release.new"
    if ! follow_recipe "$log" graft.sh \
        "$(root_of "$SOURCE_BASE")" "$(build_of "$release")" "$BUILD_DIR" "$version"; then
        tail -20 "$log" >&2
        refuse "$STATUS_FAILED" "the root of $release can't be made; the whole log is $log"
    fi
    recipe_stamp "$release" >"$BUILD_DIR/.lab-stamp"
    finish_tree "$(root_of "$release")"
    unlock
    say "root of $release: Slurm $version, compiled from source, $(du -sm "$(root_of "$release")" | cut -f1) MB"
}

purge_builds() {
    local name
    for name in "$(suite_of "$SOURCE_BASE")" "${SOURCE_RELEASES[@]}"; do
        purge_tree "$(build_of "$name")" "the build of Slurm $name"
    done
}
