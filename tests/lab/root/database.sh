#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# database.sh DIR: the empty MariaDB data directory of a root, with the database
# that slurmdbd fills. Touches DIR/var/lib/mysql and DIR/run/mysqld.
# Not mariadb-install-db: that wants my_print_defaults, of a package left out here.
# slurm_acct is made beforehand: 26.05's slurmdbd fails the first time it makes one
# itself ("TLS/SSL error: SSL is required") and then waits 5 s.
set -euo pipefail
dir=$1
log=$dir/var/log/database.log

print_sql() {
    local tables=/usr/share/mariadb/mariadb_system_tables.sql
    [[ -e $dir$tables ]] || tables=/usr/share/mysql/mariadb_system_tables.sql
    [[ -e $dir$tables ]] || tables=/usr/share/mysql/mysql_system_tables.sql
    printf 'create database mysql;\nuse mysql;\n'
    cat "$dir$tables" "$dir${tables%.sql}_data.sql"
    printf 'create database slurm_acct;\n'
}

rm -rf "$dir/var/lib/mysql"
install -d "$dir/var/lib/mysql" "$dir/run/mysqld"
print_sql | chroot "$dir" mariadbd --no-defaults --bootstrap --user=root --datadir=/var/lib/mysql \
    --skip-networking --innodb-log-file-size=8M --innodb-data-file-path=ibdata1:4M:autoextend \
    --innodb-autoextend-increment=4 --innodb-undo-tablespaces=0 --innodb-fast-shutdown=0 >"$log" 2>&1 ||
    { cat "$log"; exit 1; }
if grep ERROR "$log"; then exit 1; fi
