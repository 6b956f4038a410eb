#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# ssh.sh SUITE DIR MIRROR ROOT: unpacks into DIR the suite's OpenSSH, pdsh and ClusterShell, what Ansible's modules use
# (Python, apt), and what they need beyond ROOT, a release's root, which is only read. Touches DIR only. No maintainer
# script runs, so the sshd's user is a line of its own. Run by host/layer.sh.
set -euo pipefail
suite=$1 dir=$2 mirror=$3 root=$4
. "$(dirname "$0")/apt.sh"

echo "I: fetching OpenSSH, pdsh, ClusterShell"
fetch_packages "$root" openssh-server openssh-client pdsh clustershell python3-apt apt
unpack_packages
mkdir -p "$dir/etc"
{ cat "$root/etc/passwd"; echo sshd:x:2222:65534::/run/sshd:/usr/sbin/nologin; } >"$dir/etc/passwd"
check_programs usr/sbin/sshd usr/bin/{ssh,ssh-keygen,pdsh,clush,python3,apt-get}
