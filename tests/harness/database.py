# SPDX-License-Identifier: GPL-2.0-or-later
"""What no command of Slurm's can do to a cluster's accounting: a statement of SQL, and the past."""

import socket

from lab import STATE


def statement(cluster, sql):
    """Has the cluster's database execute a statement, as any of its users; it asks for no password."""
    outer = (STATE / "run" / cluster.name / "pid").read_text().strip()

    def packet():
        head = stream.read(4)
        return stream.read(int.from_bytes(head[:3], "little"))

    def send(number, payload):
        stream.write(len(payload).to_bytes(3, "little") + bytes([number]) + payload)
        stream.flush()

    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"/proc/{outer}/root/run/mysqld/mysqld.sock")
        with client.makefile("rwb") as stream:
            packet()
            # CLIENT_CONNECT_WITH_DB, CLIENT_PROTOCOL_41, CLIENT_SECURE_CONNECTION; the longest packet; utf8.
            flags = 0x8 | 0x200 | 0x8000
            send(1, flags.to_bytes(4, "little") + (1 << 24).to_bytes(4, "little") + bytes([33] + [0] * 23)
                 + b"root\0\0slurm_acct\0")
            answer = packet()
            assert answer[:1] == b"\0", answer
            send(0, b"\x03" + sql.encode())
            answer = packet()
            assert answer[:1] == b"\0", answer


def cluster_name(cluster):
    return cluster.ok("scontrol show config | sed -n 's/^ClusterName *= *//p'").strip()


JOBS = {"job": "submit eligible start end", "suspend": "start end", "event": "start end"}
RESERVATIONS = {"resv": "start end"}


def make_older(cluster, hours, tables=JOBS):
    """All jobs ran that many hours before, and slurmdbd sums them again, as it does when it starts."""
    name, seconds = cluster_name(cluster), hours * 3600
    for table, columns in tables.items():
        times = [f"time_{column}" for column in columns.split()]
        moved = ", ".join(f"{time} = if({time} > 0, {time} - {seconds}, 0)" for time in times)
        # Events of nodes would be before the cluster was there.
        where = " where node_name = ''" if table == "event" else ""
        statement(cluster, f"update `{name}_{table}_table` set {moved}{where}")
    rolled = ", ".join(f"{of}_rollup = {of}_rollup - {2 * seconds}" for of in ("hourly", "daily", "monthly"))
    statement(cluster, f"update `{name}_last_ran_table` set {rolled}")
    cluster.ok("/lab/service restart slurmdbd", timeout=90)
