# SPDX-License-Identifier: GPL-2.0-or-later
#
# A release's systemd as a layer over its root, for boxes whose process 1 it is.
# Decides: when a layer is stale. Touches: $LAB_STATE/systemd. Sourced by `lab`;
# root/systemd.sh does the making.

systemd_of() {
    echo "$LAB_STATE/systemd/$1"
}

# It fits the root that it was made for.
systemd_stamp() {
    { cat "$LAB_HOME/root/systemd.sh"; recipe_stamp; } | sha256sum | cut -d' ' -f1
}

systemd_is_fresh() {
    [[ $(cat "$(systemd_of "$1")/.lab-stamp" 2>/dev/null) == "$(systemd_stamp)" ]]
}

# ensure_systemd RELEASE: returns when the layer is there; exits with 3 if it can't be had.
# The release's root must be there.
ensure_systemd() {
    local release=$1
    lock "$LAB_STATE/systemd/$release.lock" "systemd for $release"
    systemd_is_fresh "$release" || make_systemd "$release"
    unlock
}

make_systemd() {
    local release=$1 log=$LAB_STATE/systemd/$1.log mirror
    mirror=$(debian_mirror) || refuse "$STATUS_NOT_HERE" \
        "apt's configuration names no Debian mirror (a URI that ends in /debian): set GPUSHARE_LAB_MIRROR"
    [[ ! -d $(systemd_of "$release") ]] || refuse_if_used "$release"
    begin_tree "$LAB_STATE/systemd/$release.new"
    if ! follow_recipe "$log" systemd.sh "$(suite_of "$release")" "$BUILD_DIR" "$mirror" "$(root_of "$release")"; then
        hide_mirror <"$log" | tail -20 >&2
        refuse "$STATUS_NOT_HERE" "systemd for $release can't be had here; the whole log is $log"
    fi
    systemd_stamp >"$BUILD_DIR/.lab-stamp"
    finish_tree "$(systemd_of "$release")"
}

purge_systemd() {
    local release
    for release in 22.05 24.11 26.05; do
        lock "$LAB_STATE/systemd/$release.lock" "systemd for $release"
        remove_root_directory "$(systemd_of "$release")"
        remove_root_directory "$(systemd_of "$release").new"
        rm -f "$LAB_STATE/systemd/$release.log"
        unlock
    done
}
