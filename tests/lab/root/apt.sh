# SPDX-License-Identifier: GPL-2.0-or-later
#
# Packages of a suite in a folder, without installing them: apt is given a state of its own there, and no maintainer script
# runs. Sourced by the recipes of layers, which set suite, dir and mirror; touches $dir only.

apt=$dir/apt

# apt-get checks the suite's signature and the packages' sums.
run_apt() {
    apt-get -qq -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State="$apt/state" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" \
        -o APT::Sandbox::User=root -o APT::Install-Recommends=false -o Acquire::Languages=none \
        -o Acquire::Check-Valid-Until=false -o Acquire::Retries=2 -o Acquire::http::Timeout=20 "$@"
}

# begin_apt COMPONENT STATUS: knows what the suite has. STATUS is dpkg's list of what is installed.
begin_apt() {
    mkdir -p "$apt"/{state/lists/partial,cache/archives/partial}
    cp "$2" "$apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite $1" >"$apt/sources.list"
    run_apt update
}

# fetch_packages ROOT PACKAGE...: with all that they need and a release's root hasn't.
fetch_packages() {
    local root=$1
    shift
    begin_apt main "$root/var/lib/dpkg/status"
    run_apt --yes --download-only install "$@"
}

# unpack_packages [EXCLUDE...]: what was fetched, as dpkg does on a merged /usr: an archive's lib/ must not hide the root's link.
unpack_packages() {
    local file
    for file in "$apt"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$file" | tar -x -C "$dir" --transform='s,^\./lib,./usr/lib,;s,^\./sbin,./usr/sbin,;s,^\./bin,./usr/bin,' \
            --exclude=./usr/share/{doc,man,locale,lintian,bug} "${@/#/--exclude=}"
    done
    rm -rf "$apt"
}

# check_programs FILE...: below $dir.
check_programs() {
    local wanted
    for wanted in "$@"; do
        [[ -x $dir/$wanted ]] || { echo "E: $wanted is not in the packages"; return 1; }
    done
}
