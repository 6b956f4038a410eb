# SPDX-License-Identifier: GPL-2.0-or-later
#
# Boxes: one running cluster each, in its own namespaces. Sourced by `lab`. Decides what goes into a box (configuration,
# plugins, tools) and whether it runs. Touches $LAB_STATE/run/NAME, $LAB_STATE/tools and cgroups gpushare-lab-NAME.
#
# $LAB_STATE/run/NAME:
#   pid, pid.started   the `unshare` process: with it the whole box ends
#   release, cgroup    what it was started with; hierarchies: what cgroup_directories takes
#   conf/              becomes /etc/slurm      lab/       becomes /lab
#   install/           plugins and programs    mnt/       where the box mounts its root
#   install-next/      those for the release that it can be upgraded to
#   state/             ready or failed         log/, out/ stay after `down`

# What a signal must undo while a box starts.
STARTING_BOX=''

box_dir() {
    echo "$LAB_STATE/run/$1"
}

box_pid() {
    remembered_process "$(box_dir "$1")/pid"
}

# running_box_of_release RELEASE: the first box that runs on that root, or that can be upgraded to it.
running_box_of_release() {
    local dir name
    for dir in "$LAB_STATE"/run/*/; do
        name=$(basename "$dir")
        [[ " $(cat "$dir/release" "$dir/next" 2>/dev/null | tr '\n' ' ')" == *" $1 "* ]] || continue
        box_pid "$name" >/dev/null || continue
        echo "$name"
        return 0
    done
    return 1
}

# start_box NAME RELEASE KIND PLUGINS NVIDIA SYSTEMD MORE NEXT [OVERLAY]...: NVIDIA and SYSTEMD are empty or not; MORE
# are other layers; NEXT is the release for /lab/upgrade, or empty.
start_box() {
    local name=$1 release=$2 kind=$3 plugins=$4 nvidia=$5 systemd=$6 more=$7 next=$8 dir hierarchies layers layer
    shift 8
    dir=$(box_dir "$name")
    hierarchies=$kind
    if [[ $kind == v1 && -n $systemd ]]; then
        [[ $release == 22.05 ]] || refuse "$STATUS_NOT_HERE" "the systemd of $release no longer starts with cgroup v1"
        hierarchies=v1-systemd
    fi
    cgroup_directories "$name" "$hierarchies" >/dev/null ||
        refuse "$STATUS_NOT_HERE" "this machine has no cgroup $kind hierarchy that a box could use"
    lock "$LAB_STATE/run/$name.lock" "box '$name'"
    ! box_pid "$name" >/dev/null || refuse "$STATUS_FAILED" "box '$name' runs already"
    ensure_root "$release" # the box's lock stays held until lab exits
    [[ -z $next ]] || ensure_root "$next"
    layers=$(root_of "$release")
    for layer in ${systemd:+systemd} $more ${nvidia:+nvidia}; do
        ensure_layer "$layer" "$(layer_release "$release")"
        layers=$(layer_of "$layer" "$(layer_release "$release")"):$layers
    done
    plugins=${plugins:-${GPUSHARE_BUILD:-$LAB_HOME/../../target/lab}/$release}
    [[ -d $plugins ]] || say "box '$name' has nothing of gpushare: there is no $plugins; it is made by: tests/build $release"
    build_tools
    remove_cgroups "$name" "$hierarchies" # of a box that was killed from outside
    rm -rf --one-file-system "$dir"
    mkdir -p "$dir"/{conf,lab,install,mnt,state,log,out}
    chmod 1777 "$dir/out"
    echo "$release" >"$dir/release"
    [[ -z $next ]] || echo "$next" >"$dir/next"
    echo "$kind" >"$dir/cgroup"
    echo "$hierarchies" >"$dir/hierarchies"
    lay_configuration "$name" "$kind" "$@"
    gather_lab_files "$dir"
    gather_plugins "$dir/install" "$plugins"
    if [[ -n $next ]]; then
        mkdir "$dir/install-next"
        gather_plugins "$dir/install-next" "${GPUSHARE_BUILD:-$LAB_HOME/../../target/lab}/$next"
    fi
    launch "$name" "$layers" "$hierarchies" "$systemd" "${next:+$(root_of "$next")}"
    say "box '$name' is up: Slurm $(version_in_root "$release"), cgroup $kind, $(cat "$dir/state/ready")"
    # Only now, because a signal up to here ends the box, so that no box stays unnoticed.
    STARTING_BOX=''
    undo_at_exit
}

# The default files, then each overlay; @NODE@ becomes the node's name.
lay_configuration() {
    local name=$1 kind=$2 conf layer
    conf=$(box_dir "$name")/conf
    shift 2
    for layer in "$LAB_HOME/conf/common" "$LAB_HOME/conf/$kind" "$@"; do
        # accounting.more is added to that of the layers below; all other files replace them.
        [[ ! -e $layer/accounting.more ]] || cat "$layer/accounting.more" >>"$conf/more"
        cp -rL --preserve=mode --no-preserve=ownership "$layer/." "$conf/"
    done
    [[ ! -e $conf/more ]] || mv "$conf/more" "$conf/accounting.more"
    find "$conf" -type f -name '*.conf' -exec sed -i "s/@NODE@/$name/g" {} +
    chmod -R a+rX,u+w "$conf"
}

# What the box has under /lab; accounting and gpus are the lab's files, not Slurm's.
gather_lab_files() {
    local dir=$1 file
    cp "$LAB_HOME"/box/{init.sh,daemons.sh,devices.sh,node.sh,syslog.pl,service,upgrade,lab.service,lab.target,slurmd@.service} "$dir/lab/"
    cp "$LAB_HOME/host/cgroups.sh" "$dir/lab/"
    cp "$LAB_STATE"/tools/{open-gpus,cgroup2-only.so} "$dir/lab/"
    for file in "$dir"/conf/{accounting,accounting.more,gpus,devices} "$dir"/conf/gpus.*; do
        [[ ! -e $file ]] || mv "$file" "$dir/lab/"
    done
    chmod 755 "$dir"/lab/{service,upgrade,open-gpus}
}

# Copies, so that a rebuild doesn't change a running box. Skips missing files.
gather_plugins() {
    local file
    for file in job_submit_gpushare.so spank_gpushare.so spank_gpushare_prolog.so gpushare-prolog gpushare-epilog gpushare-nvml gpushare; do
        [[ ! -f $2/$file ]] || cp -L "$2/$file" "$1/$file"
    done
}

# open-gpus is static, because it runs with three libcs; the shim needs only symbols that the oldest of them has. enter
# is static to start faster.
build_tools() {
    local source target
    local -A flags=([enter]='-O1 -static' [open-gpus]='-O1 -static' [cgroup2-only.so]='-O2 -shared -fPIC')
    mkdir -p "$LAB_STATE/tools"
    for target in "${!flags[@]}"; do
        source=$LAB_HOME/tools/${target%.so}.c
        [[ ! -e $source || ! $LAB_STATE/tools/$target -nt $source ]] || continue
        gcc -Wall -Wextra ${flags[$target]} -o "$LAB_STATE/tools/$target.$$" "$source" ||
            refuse "$STATUS_FAILED" "$source cannot be compiled"
        mv "$LAB_STATE/tools/$target.$$" "$LAB_STATE/tools/$target"
    done
}

# launch NAME LAYERS HIERARCHIES SYSTEMD NEXT: starts the box's processes and waits until its node is idle. LAYERS:
# trees for an overlay, the first wins. NEXT: the next release's tree.
launch() {
    local name=$1 layers=$2 hierarchies=$3 systemd=$4 next=$5 dir
    dir=$(box_dir "$name")
    undo_at_exit abandon_box
    STARTING_BOX=$name
    # setsid: a later Ctrl-C in the caller's terminal must not reach the box.
    (
        close_inherited_descriptors
        exec setsid unshare --mount --net --uts --ipc --pid --fork --kill-child --propagation private -- \
            bash "$LAB_HOME/box/enter.sh" "$name" "$layers" "$hierarchies" "$dir" "$systemd" "$next" </dev/null >"$dir/log/box.log" 2>&1
    ) &
    remember_process $! "$dir/pid"
    wait_until_ready "$name" || refuse "$STATUS_FAILED" "box '$name' did not come up; 'lab logs $name' has it all"
}

wait_until_ready() {
    local name=$1 dir deadline=$((SECONDS + 120))
    dir=$(box_dir "$name")
    while ((SECONDS < deadline)); do
        if [[ -e $dir/state/ready ]]; then return 0; fi
        if [[ -e $dir/state/failed ]]; then
            cat "$dir/state/failed" >&2
            return 1
        fi
        if ! find_remembered "$dir/pid"; then
            [[ ! -e $dir/state/failed ]] || continue
            tail -n 15 "$dir/log/box.log" >&2
            return 1
        fi
        sleep 0.1
    done
    say "two minutes were not enough"
    tail -n 15 "$dir/log/box.log" >&2
    return 1
}

abandon_box() {
    [[ -z $STARTING_BOX ]] || end_box "$STARTING_BOX"
}

# Ends the box's processes and removes its cgroups; logs and out/ stay.
end_box() {
    local dir pid kind
    dir=$(box_dir "$1")
    if pid=$(box_pid "$1"); then end_namespace "$pid"; fi
    kind=$(cat "$dir/hierarchies" 2>/dev/null || cat "$dir/cgroup" 2>/dev/null) && remove_cgroups "$1" "$kind"
    rm -f "$dir/pid" "$dir/pid.started" "$dir/state/ready"
}

stop_box() {
    lock "$LAB_STATE/run/$1.lock" "box '$1'"
    end_box "$1"
}

# print_logs NAME [DAEMON]
print_logs() {
    local dir file pattern=${2:-}
    dir=$(box_dir "$1")/log
    [[ -d $dir ]] || refuse "$STATUS_FAILED" "there was never a box '$1'"
    # slurmd has one file per node, and each daemon one for its messages before its log is open.
    for file in "$dir/${pattern:-*}"*; do
        [[ $pattern != slurmd || $file != */slurmdbd* ]] || continue
        [[ -s $file ]] || continue
        printf '==> %s <==\n' "${file##*/}"
        cat "$file"
    done
}

# state_of NAME: running or starting; died, if something other than `down` ended it; ended, if only its logs are left.
state_of() {
    local dir
    dir=$(box_dir "$1")
    if box_pid "$1" >/dev/null; then
        if [[ -e $dir/state/ready ]]; then echo running; else echo starting; fi
    elif [[ -e $dir/pid ]]; then
        echo died
    else
        echo ended
    fi
}

# age_of FILE: the time since it was made, such as 40s, 12m or 3h.
age_of() {
    local seconds
    seconds=$(($(date +%s) - $(stat -c %Y "$1")))
    if ((seconds < 100)); then echo "${seconds}s"; elif ((seconds < 6000)); then echo "$((seconds / 60))m"; else echo "$((seconds / 3600))h"; fi
}

# nodes_of NAME: how many of its nodes can run jobs, and how many it has; ? if slurmctld doesn't say.
nodes_of() {
    (exec_in_box "$1" root '' timeout 5 sinfo -h -N -o '%N %T') 2>/dev/null | sort -u |
        awk '{ all++ } $2 ~ /^(idle|mixed|allocated|completing|planned|reserved)$/ { up++ } END { print all ? up + 0 "/" all : "?" }'
}

list_boxes() {
    local dir name state age nodes died=0 ended=0
    printf '%-31s %-8s %-7s %-9s %-5s %s\n' NAME RELEASE CGROUP STATE AGE "NODES UP"
    for dir in "$LAB_STATE"/run/*/; do
        [[ -d $dir ]] || continue
        name=$(basename "$dir") age=- nodes=-
        state=$(state_of "$name")
        case $state in
        running) age=$(age_of "$dir/state/ready") nodes=$(nodes_of "$name") ;;
        starting) age=$(age_of "$dir/pid") ;;
        died) died=$((died + 1)) ;;
        ended)
            ended=$((ended + 1))
            continue
            ;;
        esac
        printf '%-31s %-8s %-7s %-9s %-5s %s\n' "$name" \
            "$(cat "$dir/release" 2>/dev/null)" "$(cat "$dir/cgroup" 2>/dev/null)" "$state" "$age" "$nodes"
    done
    ((died + ended == 0)) || say "$died died, and $ended ended and left logs; to remove all that: lab down --stale"
}

# What boxes left that no longer run: cgroups, folder, logs. Skips a box that another lab is starting or ending.
remove_stale_boxes() {
    local dir name removed=0
    for dir in "$LAB_STATE"/run/*/; do
        [[ -d $dir ]] || continue
        name=$(basename "$dir")
        exec {LOCK_FD}>"$LAB_STATE/run/$name.lock"
        if flock --nonblock "$LOCK_FD" && ! box_pid "$name" >/dev/null; then
            end_box "$name"
            rm -rf --one-file-system "$dir"
            removed=$((removed + 1))
        fi
        unlock
    done
    say "removed what $removed boxes left"
}
