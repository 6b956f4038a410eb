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

# exec_in_box NAME USER NODE CMD...: becomes CMD. Only four variables are set. CMD ends when lab is killed (pdeathsig);
# otherwise a test that gives up would leave it in the box. NODE, if not empty, is a node with its own namespaces.
exec_in_box() {
    local name=$1 user=$2 node=$3 dir=$LAB_STATE/run/$1 init pid home=/root machine=() users
    shift 3
    find_remembered "$dir/pid" && [[ -e $dir/state/ready ]] && find_init "$REMEMBERED" ||
        refuse "$STATUS_NO_BOX" "box '$name' does not run"
    init=$INIT
    [[ $user == root ]] || home=/home/$user
    mapfile -t users <"/proc/$init/root/etc/passwd"
    printf -v users '\n%s' "${users[@]%%:*}"
    [[ $users$'\n' == *$'\n'"$user"$'\n'* ]] ||
        refuse "$STATUS_NO_BOX" "box '$name' has no user '$user'"
    if [[ -n $node ]]; then
        read -r pid 2>/dev/null <"/proc/$init/root/run/lab/nodes/$node" ||
            refuse "$STATUS_NO_BOX" "box '$name' has no node '$node' with namespaces of its own"
        machine=(/usr/bin/setpriv --pdeathsig KILL /usr/bin/nsenter --target "$pid" --mount --uts --pid --wdns="$home" --)
    fi
    exec nsenter --target "$init" --mount --net --uts --ipc --pid --root --wdns="$home" \
        ${machine[@]+"${machine[@]}"} /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        HOME="$home" USER="$user" LANG=C.UTF-8 \
        /usr/bin/setpriv --reuid="$user" --regid="$user" --init-groups --pdeathsig KILL "$@"
}
