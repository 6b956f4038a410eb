# SPDX-License-Identifier: GPL-2.0-or-later
#
# How the lab prints messages and refuses commands, and the check of what it needs on the machine. Sourced by `lab`.
# Touches nothing. All messages go to stderr: stdout is for answers.

readonly STATUS_FAILED=1 STATUS_USAGE=2 STATUS_NOT_HERE=3 STATUS_NO_BOX=125

say() {
    printf 'lab: %s\n' "$*" >&2
}

# refuse STATUS SENTENCE
refuse() {
    local status=$1
    shift
    say "$*"
    exit "$status"
}

refuse_usage() {
    say "$*"
    print_usage >&2
    exit "$STATUS_USAGE"
}

# Names each missing program with its package, all in one sentence.
require_host() {
    local pair program package missing=''
    ((EUID == 0)) || refuse "$STATUS_FAILED" "the lab makes namespaces and device nodes: run it as root"
    for pair in mmdebstrap:mmdebstrap gcc:gcc ip:iproute2 unshare:util-linux nsenter:util-linux \
        setpriv:util-linux flock:util-linux mount:mount sha256sum:coreutils apt-get:apt; do
        program=${pair%%:*} package=${pair#*:}
        command -v "$program" >/dev/null || missing+=" $program (package $package)"
    done
    [[ -r $DEBIAN_KEYRING ]] || missing+=" $DEBIAN_KEYRING (package debian-archive-keyring)"
    [[ -z $missing ]] || refuse "$STATUS_FAILED" "missing on this machine:$missing"
}
