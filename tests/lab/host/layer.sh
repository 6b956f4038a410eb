# SPDX-License-Identifier: GPL-2.0-or-later
#
# Layers over a release's root: `nvidia`, NVIDIA's own programs for MPS and the driver's libraries; `systemd`, for boxes
# with it as process 1; `python`, Python and tools that submit jobs; `jupyterhub`, JupyterHub, batchspawner and their
# proxy; `containers`, programs that start containers; `ssh`, OpenSSH, pdsh and ClusterShell; `syslog`, rsyslog,
# syslog-ng and busybox. Decides from which suite a layer comes, and when it is stale. Touches $LAB_STATE/KIND. Sourced
# by `lab`; root/KIND.sh makes the layers. They are never part of this project's files: they are fetched where the tests
# run, and if they are unavailable, the tests report NOT TESTED.

layer_of() { # KIND RELEASE
    echo "$LAB_STATE/$1/$2"
}

layer_name() {
    case $1 in
    nvidia) echo "NVIDIA's programs for $2" ;;
    systemd) echo "systemd for $2" ;;
    python) echo "Python and its tools for $2" ;;
    jupyterhub) echo "JupyterHub for $2" ;;
    containers) echo "podman and others for $2" ;;
    ssh) echo "OpenSSH and others for $2" ;;
    syslog) echo "rsyslog and others for $2" ;;
    esac
}

# A release's own suite; 555 is a driver with -multiuser-server.
layer_suite() {
    if [[ $1 == nvidia && $2 == 555 ]]; then echo experimental; else suite_of "$2"; fi
}

# Layers other than NVIDIA's fit only the root for which they were made.
layer_stamp() {
    {
        cat "$LAB_HOME"/root/{apt,"$1"}.sh
        [[ $1 == nvidia ]] || recipe_stamp "$2"
        case $1 in
        python) cat "$LAB_HOME"/root/{wheels.sh,python.txt} ;;
        jupyterhub) cat "$LAB_HOME"/root/{wheels.sh,jupyterhub.txt,jupyterhub/package-lock.json} ;;
        esac
    } | sha256sum | cut -d' ' -f1
}

layer_is_fresh() {
    [[ $(cat "$(layer_of "$1" "$2")/.lab-stamp" 2>/dev/null) == "$(layer_stamp "$1" "$2")" ]]
}

# ensure_layer KIND RELEASE: returns when the layer exists; exits with 3 if it can't be made. All layers but nvidia need
# the release's root.
ensure_layer() {
    lock "$LAB_STATE/$1/$2.lock" "$(layer_name "$1" "$2")"
    layer_is_fresh "$1" "$2" || make_layer "$1" "$2"
    unlock
}

make_layer() {
    local kind=$1 release=$2 log=$LAB_STATE/$1/$2.log mirror root=() layer sharer
    layer=$(layer_of "$kind" "$release")
    mirror=$(debian_mirror) || refuse_mirror
    [[ ! -d $layer ]] || for sharer in $(sharers_of "$release"); do refuse_if_used "$sharer"; done
    [[ $kind == nvidia ]] || root=("$(root_of "$release")")
    begin_tree "$layer.new"
    if ! follow_recipe "$log" "$kind.sh" "$(layer_suite "$kind" "$release")" "$BUILD_DIR" "$mirror" \
        ${root[@]+"${root[@]}"}; then
        hide_mirror <"$log" | tail -20 >&2
        refuse "$STATUS_NOT_HERE" "$(layer_name "$kind" "$release") can't be had here; the whole log is $log"
    fi
    layer_stamp "$kind" "$release" >"$BUILD_DIR/.lab-stamp"
    finish_tree "$layer"
    say "$(layer_name "$kind" "$release"): $(cat "$layer/.lab-version" 2>/dev/null || echo made)"
}

purge_layers() {
    local kind release
    for kind in nvidia systemd python jupyterhub containers ssh syslog; do
        for release in "${DEBIAN_RELEASES[@]}" 555; do
            purge_tree "$(layer_of "$kind" "$release")" "$(layer_name "$kind" "$release")"
        done
    done
}
