# SPDX-License-Identifier: GPL-2.0-or-later
#
# Commands in a box. Sourced by `lab`. Tests run them tens of thousands of times, so nothing here starts an extra
# process, and for them `lab` reads only say.sh and process.sh.

run_exec() {
    local name=${1:-} user=root node=''
    [[ -n $name ]] || refuse_usage "exec needs a NAME"
    check_name "$name"
    shift
    while (($#)); do
        case $1 in
        --user | --node)
            (($# >= 2)) || refuse_usage "'$1' needs a value"
            if [[ $1 == --user ]]; then user=$2; else node=$2; fi
            shift 2
            ;;
        --)
            shift
            break
            ;;
        *) refuse_usage "exec does not know '$1'; put '--' before the command" ;;
        esac
    done
    (($#)) || refuse_usage "exec needs a command after '--'"
    exec_in_box "$name" "$user" "$node" "$@"
}

# exec_in_box NAME USER NODE CMD...: becomes CMD, by tools/enter.c. NODE, if not empty, is a node with its own
# namespaces.
exec_in_box() {
    local name=$1 dir=$LAB_STATE/run/$1
    shift
    find_remembered "$dir/pid" && [[ -e $dir/state/ready ]] && find_init "$REMEMBERED" ||
        refuse "$STATUS_NO_BOX" "box '$name' does not run"
    exec "$LAB_STATE/tools/enter" "/proc/$INIT" "$@"
}
