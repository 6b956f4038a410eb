# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks one look at a cluster: do the jobs that run hold more GPUs than their QOS and association allow? Do they hold
more CPUs or memory than the site gives with their GPUs, or run without a GPU where each job has one?

Pure: takes text that the client printed and the limits, gives violations. GPUs are counted twice, as Slurm's accounting
does (AllocTRES) and by the devices themselves: which node, which index. So are units of shares: by AllocTRES, and by
what each node gave. A type comes from the node's own Gres, never from a name that a user gave.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import unquote

from limits import SHARE, counted

RUNNING, SUSPENDED, COMPLETING = 1, 2, 1 << 15
TYPED = re.compile(r"gpu[:=/]([^:=,;(]*[^:=,;(0-9][^:=,;(]*)")


@dataclass
class Look:
    jobs: list = field(default_factory=list)
    nodes: dict = field(default_factory=dict)  # the type of each GPU
    shares: dict = field(default_factory=dict)  # the types of shares
    steady: bool = True


@dataclass(frozen=True)
class Violation:
    kind: str  # limit, foreign, miscounted, uncounted, outside, cap, gpuless, down
    who: str  # "QOS qos_lafferty GrpTRES" …
    tres: str  # gpu:a40, gpushare; of a cap CPUs or MiB
    held: int
    limit: int
    counted_by: str  # AllocTRES or devices
    jobs: tuple

    def __str__(self):
        jobs = ",".join(map(str, self.jobs))
        if self.kind == "limit":
            return f"{self.who}: {self.held} of {self.tres} by {self.counted_by}, limit {self.limit} (jobs {jobs})"
        if self.kind == "cap":
            return f"{self.who}: {self.held} {self.tres} by {self.counted_by}, its GPUs allow {self.limit} (job {jobs})"
        if self.kind == "gpuless":
            return f"{self.who}: runs without a GPU (job {jobs})"
        if self.kind == "uncounted":
            return f"{self.who}: holds {self.held} of {self.tres}, of which it has no limit (job {jobs})"
        if self.kind == "outside":
            return f"{self.who}: holds {self.held} of {self.tres} outside of its reservations (job {jobs})"
        if self.kind == "down":
            return f"{self.who} has ended or hangs"
        if self.kind == "foreign":
            return f"{self.who}: holds {self.held} of {self.tres}, which its request does not name (job {jobs})"
        return f"{self.who}: AllocTRES has {self.limit} of {self.tres}, the devices are {self.held} (job {jobs})"


DOWN = Violation("down", "slurmctld", "", 0, 0, "", ())


def read(text):
    """The look that the client printed."""
    look = Look()
    for line in text.splitlines():
        what, *fields = line.split("\t")
        if what == "steady":
            look.steady = fields == ["1"]
            continue
        record = {"detail": []}
        for name, value in (one.split("=", 1) for one in fields):
            if name == "detail":
                record["detail"].append(unquote(value, errors="replace"))
            else:
                record[name] = unquote(value, errors="replace")
        if what == "job":
            for name in ("id", "state", "user", "nodes_n", "array", "het"):
                record[name] = int(record[name])
            look.jobs.append(record)
        elif what == "node":
            gres = record.get("gres", "")
            look.nodes[record["name"]], look.shares[record["name"]] = device_types(gres), share_types(gres)
    return look


def device_types(gres):
    """The type of each GPU of a node, by index: "gpu:a40:2,gpu:h100:2" has a40, a40, h100, h100."""
    types = []
    for name, count in re.findall(r"gpu:([^:,(]+):(\d+)", gres):
        types += [name] * int(count)
    return types


def share_types(gres):
    return re.findall(rf"{SHARE}:([^:,(]+):\d+", gres)


def hosts(text):
    """The nodes of a host list."""
    names = []
    for prefix, inside in re.findall(r"([^,\[]+)(?:\[([^\]]*)\])?,?", text or ""):
        if not inside:
            names.append(prefix)
        for part in inside.split(",") if inside else []:
            first, _, last = part.partition("-")
            names += [f"{prefix}{n:0{len(first)}}" for n in range(int(first), int(last or first) + 1)]
    return names


def indices(detail):
    """The GPUs' numbers in one node's detail, "gpu:a40:2(IDX:0-1),gpu:h100:1(IDX:3)"."""
    found = set()
    for text in re.findall(r"gpu[^()]*\(IDX:([0-9,-]+)\)", detail):
        for part in text.split(","):
            first, _, last = part.partition("-")
            found |= set(range(int(first), int(last or first) + 1))
    return found


def runs(job):
    return job["state"] & 0xFF in (RUNNING, SUSPENDED) and not job["state"] & COMPLETING


def by_accounting(job):
    """{TRES: number} in AllocTRES."""
    return Counter(counted(job.get("allocated", "")))


def by_devices(job, look):
    """{TRES: number}: GPUs by index on each node, units by what each node gave."""
    counts = Counter()
    for host, detail in zip(hosts(job.get("nodes")), job["detail"]):
        for index in indices(detail):
            types = look.nodes.get(host, [])
            counts[f"gpu:{types[index] if index < len(types) else '?'}"] += 1
            counts["gpu"] += 1
        for units in map(int, re.findall(rf"{SHARE}[^()]*\(CNT:(\d+)\)", detail)):
            types = look.shares.get(host, [])
            # Of two types it can't be told; AllocTRES has each.
            counts.update({SHARE: units} | ({f"{SHARE}:{types[0]}": units} if len(types) == 1 else {}))
    return counts


def amounts(job):
    """CPUs and MiB in AllocTRES."""
    tres = dict(part.split("=", 1) for part in job.get("allocated", "").split(",") if "=" in part)
    size, unit = re.fullmatch(r"([\d.]+)([MGT]?)", tres.get("mem", "0")).groups()
    return int(tres.get("cpu", 0)), float(size) * {"": 1, "M": 1, "G": 1 << 10, "T": 1 << 20}[unit]


def over_caps(job, held, caps):
    """Whether JOB, which holds these GPUs, has more than CAPS give with them, or none where each job has one."""
    if not held["gpu"] and not held[SHARE] and job.get("partition") in caps.partitions:
        yield Violation("gpuless", f"partition {job['partition']}", "", 0, 1, "devices", (job["id"],))
    # Slurm gives all CPUs of whole nodes, and no plugin is asked: docs/limits.md.
    cpus = {} if job.get("whole") == "1" else caps.cpus
    for name, each, amount in zip(("CPUs", "MiB"), (cpus, caps.memory), amounts(job)):
        allowed = sum(each.get(tres.removeprefix("gpu:"), 0) * count for tres, count in held.items())
        if each and held["gpu"] and amount > allowed:
            yield Violation("cap", f"user {job['user']}", name, int(amount), allowed, "AllocTRES", (job["id"],))


def outside_rules(job, held, limits):
    """Whether JOB has whole GPUs under a QOS that counts only shares, shares under one that counts only GPUs, or shares
    outside of the reservations for them. Slurm gives whole nodes all that they have, and no plugin is asked."""
    qos = job.get("qos")
    if job.get("whole") != "1" and job.get("partition") not in limits.whole_partitions:
        for tres, names in (("gpu", limits.only_shares), (SHARE, limits.no_shares)):
            if held[tres] and qos in names:
                yield Violation("uncounted", f"QOS {qos}", tres, held[tres], 0, "devices", (job["id"],))
    names = limits.share_reservations
    if held[SHARE] and names and not any(name in job.get("reservation", "") for name in names):
        yield Violation("outside", "ShareReservations", SHARE, held[SHARE], 0, "devices", (job["id"],))


def named_types(job):
    """The types that the job's request names, as Slurm shows it now or counts it:
    a text that was cleared may live on."""
    parts = [job.get(name, "") for name in ("per_job", "per_node", "per_socket", "per_task")]
    counted = re.findall(r"gres/gpu:([^=,]+)=[1-9]", job.get("requested", ""))
    return {*TYPED.findall(",".join(parts)), *counted}


def judge(look, limits, exempt="maint", foreign=True):
    """Every violation in LOOK. Jobs that run in a reservation whose name begins with EXEMPT count nowhere."""
    jobs = [job for job in look.jobs if runs(job) and not job.get("reservation", "").startswith(exempt)]
    ways = {
        "AllocTRES": {job["id"]: by_accounting(job) for job in jobs},
        "devices": {job["id"]: by_devices(job, look) for job in jobs},
    }
    for counted_by, counts in ways.items():
        for who, kind, members, bound in limits.bounds(jobs):
            for tres, limit in bound.items():
                held = sum(counts[job["id"]][tres] for job in members)
                if held > limit:
                    ids = tuple(job["id"] for job in members if counts[job["id"]][tres])
                    yield Violation("limit", f"{who} {kind}", tres, held, limit, counted_by, ids)
    for job in jobs:
        alloc, held = (ways[name][job["id"]] for name in ("AllocTRES", "devices"))
        yield from over_caps(job, held, limits.caps)
        yield from outside_rules(job, alloc | held, limits)
        if job.get("qos") not in limits.governed:
            continue
        named = named_types(job)
        for tres in sorted(one for one in set(alloc) | set(held) if one.startswith("gpu:")):
            most = max(alloc[tres], held[tres])
            if foreign and most and tres.removeprefix("gpu:") not in named:
                yield Violation("foreign", f"QOS {job['qos']}", tres, most, 0, "devices", (job["id"],))
            if alloc[tres] != held[tres]:
                yield Violation(
                    "miscounted", f"QOS {job['qos']}", tres, held[tres], alloc[tres], "devices", (job["id"],)
                )


def used_up(look, limits):
    """Whether each limit that binds a running job is used to the last GPU:
    that shows that the siege tries limits at all."""
    jobs = [job for job in look.jobs if runs(job)]
    for _, _, members, bound in limits.bounds(jobs):
        for tres, limit in bound.items():
            yield limit > 0 and sum(by_devices(job, look)[tres] for job in members) == limit
