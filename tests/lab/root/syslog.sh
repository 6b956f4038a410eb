#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# syslog.sh SUITE DIR MIRROR ROOT: unpacks into DIR the suite's rsyslog, syslog-ng and busybox, which has a syslogd, and
# what they need beyond ROOT, a release's root, which is only read. Touches DIR only. No maintainer script runs. Run by
# host/layer.sh.
set -euo pipefail
suite=$1 dir=$2 mirror=$3 root=$4
. "$(dirname "$0")/apt.sh"

echo "I: fetching rsyslog, syslog-ng, busybox"
fetch_packages "$root" rsyslog busybox
fetch_packages "$root" syslog-ng-core # not installable beside rsyslog, but they have no file in common
unpack_packages
check_programs usr/sbin/{rsyslogd,syslog-ng} usr/bin/busybox
