# SPDX-License-Identifier: GPL-2.0-or-later
"""The limits on GPUs and on units of shares that the accounting database has, and which of the running jobs each one
binds; and the caps of gpushare.conf.

As Slurm has it: what a job's QOS limits, an association doesn't limit again; MaxTRES of an association is inherited
from its account; MaxTRESPerNode is an average over the job's nodes, rounded down.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, field

QOS_KINDS = {"GrpTRES": "grp", "MaxTRESPerJob": "job", "MaxTRESPerUser": "user", "MaxTRESPerAccount": "account",
             "MaxTRESPerNode": "node"}


SHARE = "gpushare"  # the GRES of shares in tests/siege/conf


def counted(tres):
    """{name: number} of a TRES list: gpu and gpushare are those of all types, gpu:a40 those of one; and billing."""
    found = re.findall(rf"(?:gres/((?:gpu|{SHARE})(?::[^=,]+)?)|(billing))=(\d+)", tres)
    return {gres or billing: int(count) for gres, billing, count in found}


@dataclass
class Caps:
    """What the site gives with each GPU, {type: number}, and the partitions for jobs that have a GPU."""

    cpus: dict = field(default_factory=dict)
    memory: dict = field(default_factory=dict)  # MiB
    partitions: set = field(default_factory=set)

    @classmethod
    def read(cls, text):
        """From gpushare.conf of tests/siege/conf-caps: plain lines only, memory in G."""
        keys = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        by_type = lambda key: {name: int(number) for name, number in re.findall(r"(\w+):(\d+)", keys.get(key, ""))}
        memory = {name: gib * 1024 for name, gib in by_type("MaxMemPerGpu").items()}
        return cls(by_type("MaxCPUsPerGpu"), memory, set(filter(None, keys.get("GpuPartitions", "").split(","))))


class Limits:
    def __init__(self, qos, associations, users):
        """QOS: {name: {kind: {TRES: limit}}}; ASSOCIATIONS: {(account, user or ""): {"parent", "grp", "max"}}; USERS:
        {number: name}."""
        self.qos, self.associations, self.users = qos, associations, users
        self.caps = Caps()
        self.whole_partitions, self.share_reservations = set(), []
        has = lambda kinds, start: any(tres.startswith(start) for kind in kinds.values() for tres in kind)
        self.governed = {name for name, kinds in qos.items() if has(kinds, "gpu:")}
        self.only_shares = {name for name, kinds in qos.items() if has(kinds, SHARE) and not has(kinds, "gpu:")
                            and not any("gpu" in kind for kind in kinds.values())}
        self.no_shares = {name for name in self.governed if not has(qos[name], SHARE)}

    @classmethod
    def read(cls, qos_text, association_text, users):
        """From `sacctmgr -nP show qos format=name,…` with the columns of QOS_KINDS, and `show assoc
        format=account,user,parentname,grptres,maxtres`."""
        qos = {}
        for line in qos_text.splitlines():
            name, *columns = line.split("|")
            qos[name] = {kind: counted(column) for kind, column in zip(QOS_KINDS, columns)}
        associations = {}
        for line in association_text.splitlines():
            account, user, parent, grp, most = line.split("|")
            parent = account if user else parent
            associations[account, user] = {"parent": parent, "grp": counted(grp), "max": counted(most)}
        return cls(qos, associations, users)

    def levels(self, job):
        """The associations above a job: its user's, its account's, and so on to root's."""
        key = job.get("account", ""), self.users.get(job["user"], "")
        seen = set()
        while key in self.associations and key not in seen:
            seen.add(key)
            yield key
            key = (self.associations[key]["parent"], "")

    def bounds(self, jobs):
        """(whose, kind of limit, the jobs that together must keep it, {TRES: limit})"""
        yield from self.qos_bounds(jobs)
        yield from self.association_bounds(jobs)

    def qos_bounds(self, jobs):
        groups = defaultdict(list)
        for job in jobs:
            name = job.get("qos", "")
            groups["GrpTRES", name, ""].append(job)
            groups["MaxTRESPerJob", name, job["id"]].append(job)
            groups["MaxTRESPerUser", name, job["user"]].append(job)
            groups["MaxTRESPerAccount", name, job.get("account")].append(job)
            groups["MaxTRESPerNode", name, job["id"]].append(job)
        for (kind, name, _), members in groups.items():
            bound = self.qos.get(name, {}).get(kind, {})
            if kind == "MaxTRESPerNode":
                count = len(members[0]["detail"]) or members[0]["nodes_n"]
                bound = {type: limit * count + count - 1 for type, limit in bound.items()}
            if bound:
                yield f"QOS {name}", kind, members, bound

    def association_bounds(self, jobs):
        groups = defaultdict(list)
        for job in jobs:
            own = self.qos.get(job.get("qos", ""), {})
            most = {}
            for key in self.levels(job):
                for type, limit in self.associations[key]["max"].items():
                    most.setdefault(type, limit)
                for type in self.associations[key]["grp"]:
                    if type not in own.get("GrpTRES", {}):
                        groups[key, type].append(job)
            most = {type: limit for type, limit in most.items() if type not in own.get("MaxTRESPerJob", {})}
            if most:
                yield f"association {job.get('account')}/{self.users.get(job['user'])}", "MaxTRES", [job], most
        for (key, type), members in groups.items():
            yield f"association {key[0]}/{key[1]}", "GrpTRES", members, {type: self.associations[key]["grp"][type]}
