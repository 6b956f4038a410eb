# SPDX-License-Identifier: GPL-2.0-or-later
#
# NVIDIA's own programs for MPS and the driver's libraries, one tree per suite, for boxes
# (a layer over their root) and for tests outside of them.
# Decides: which suite, and when a tree is stale. Touches: $LAB_STATE/nvidia. Sourced by
# `lab`; root/nvidia.sh does the making. None of it is ever part of this project's files:
# it is fetched where the tests run, and where it can't be had they report NOT TESTED.

# A release's own suite; 555 is a driver that has -multiuser-server.
nvidia_suite_of() {
    if [[ $1 == 555 ]]; then echo experimental; else suite_of "$1"; fi
}

nvidia_of() {
    echo "$LAB_STATE/nvidia/$1"
}

nvidia_stamp() {
    sha256sum <"$LAB_HOME/root/nvidia.sh" | cut -d' ' -f1
}

nvidia_is_fresh() {
    [[ $(cat "$(nvidia_of "$1")/.lab-stamp" 2>/dev/null) == "$(nvidia_stamp)" ]]
}

# ensure_nvidia RELEASE|555: returns when the tree is there; exits with 3 if it can't be had.
ensure_nvidia() {
    local release=$1
    lock "$LAB_STATE/nvidia/$release.lock" "NVIDIA's programs for $release"
    nvidia_is_fresh "$release" || fetch_nvidia "$release"
    unlock
}

fetch_nvidia() {
    local release=$1 log=$LAB_STATE/nvidia/$1.log mirror
    mirror=$(debian_mirror) || refuse "$STATUS_NOT_HERE" \
        "apt's configuration names no Debian mirror (a URI that ends in /debian): set GPUSHARE_LAB_MIRROR"
    [[ ! -d $(nvidia_of "$release") ]] || refuse_if_used "$release"
    begin_tree "$LAB_STATE/nvidia/$release.new"
    if ! follow_recipe "$log" nvidia.sh "$(nvidia_suite_of "$release")" "$BUILD_DIR" "$mirror"; then
        hide_mirror <"$log" | tail -20 >&2
        refuse "$STATUS_NOT_HERE" "NVIDIA's programs for $release can't be had here; the whole log is $log"
    fi
    nvidia_stamp >"$BUILD_DIR/.lab-stamp"
    finish_tree "$(nvidia_of "$release")"
    say "NVIDIA's programs for $release: $(cat "$(nvidia_of "$release")/.lab-version")"
}

purge_nvidia() {
    local release
    for release in 22.05 24.11 26.05 555; do
        lock "$LAB_STATE/nvidia/$release.lock" "NVIDIA's programs for $release"
        remove_root_directory "$(nvidia_of "$release")"
        remove_root_directory "$(nvidia_of "$release").new"
        rm -f "$LAB_STATE/nvidia/$release.log"
        unlock
    done
}
