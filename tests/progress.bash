# SPDX-License-Identifier: GPL-2.0-or-later
#
# Sourced by tests/setup and tests/demo, whose reader shall know at any time what they are doing. Touches: a file below
# /tmp while a command runs.

with_progress() { # WHAT COMMAND...: what COMMAND prints is shown only if it fails
    local output status=0
    output=$(mktemp)
    "${@:2}" >"$output" 2>&1 &
    wait_for_job "$1" $! || status=$?
    ((!status)) || cat "$output" >&2
    rm -f "$output"
    return $status
}
wait_for_job() { # WHAT PID: says every ten seconds what it waits for; the job's exit status
    local began=$SECONDS step=${PROGRESS_SECONDS:-10}
    local next=$step
    while kill -0 "$2" 2>/dev/null; do
        sleep 0.2
        ((SECONDS - began < next)) || { echo "${0##*/}: $1, $next s" && next=$((next + step)); }
    done
    wait "$2"
}
stop_jobs() {
    local job
    for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done
}
