# SPDX-License-Identifier: GPL-2.0-or-later
#
# Sourced: compiles the fake slurmctld for a release of the lab and runs it with that release's loader and libraries,
# which are read and never changed. Touches: a directory of its own, removed at the end.

HOST_HOME=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
TOP=$HOST_HOME/../..
DAEMON='daemon.c accounting.c plugin.c requests.c'

work=$(mktemp -d "${TMPDIR:-/tmp}/gpushare-host-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

# enter_release RELEASE: where its files are, and a slurm.conf with nothing but what a plugin asks for
enter_release() {
    local library
    root=$("$TOP/tests/lab/lab" root "$1") || return
    library=$(echo "$root"/usr/lib/*/libslurm.so)
    libraries=${library%/*}
    folder=$work/$1
    conf=$folder/slurm.conf
    plugin=${GPUSHARE_BUILD:-$TOP/target/lab}/$1/job_submit_gpushare.so
    log=$folder/log
    mkdir -p "$folder/state"
    printf '%s\n' ClusterName=fake SlurmctldHost=localhost JobSubmitPlugins=gpushare \
        "PluginDir=$libraries/slurm-wlm" "StateSaveLocation=$folder/state" >"$conf"
}

# compile PROGRAM SOURCES FLAG...: PROGRAM into the release's directory
compile() {
    local program=$folder/$1 sources=$2
    shift 2
    # SOURCES are several words. The root's libraries may want a newer libc than this machine's; they meet it when run.
    # shellcheck disable=SC2086
    (cd "$HOST_HOME" && gcc -std=gnu11 -g -O2 -Wall -Wextra -Werror -rdynamic -I"$root/usr/include" -I"$TOP/include" -I. \
        "$@" -o "$program" $sources $DAEMON -L"$libraries/slurm-wlm" -lslurmfull -lpthread -ldl \
        -Wl,--allow-shlib-undefined)
}

# in_release [WRAPPER... --] PROGRAM ARGUMENT...: runs what compile made; stderr, which is Slurm's log, into $log
in_release() {
    local wrapper=() program
    if [[ " $* " == *' -- '* ]]; then
        while [[ $1 != -- ]]; do
            wrapper+=("$1")
            shift
        done
        shift
    fi
    program=$folder/$1
    shift
    local loader
    loader=$(readelf -lW "$program" | sed -n 's/.*interpreter: \(.*\)].*/\1/p')
    # Lines of refusals are many and expected.
    { "${wrapper[@]}" "$root$loader" --library-path "$libraries:$libraries/slurm-wlm" "$program" "$conf" "$plugin" "$@" \
        2>&1 >&3 | grep -av ': refused GS' >"$log"; } 3>&1
    return "${PIPESTATUS[0]}"
}
