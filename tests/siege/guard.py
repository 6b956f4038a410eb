# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare guard` beside the judge, on a cluster with or without the plugin: it must find each breach that the judge
sees in what runs, and nothing where the judge sees none."""

import json
from collections import Counter
from dataclasses import dataclass, field

import judge

KINDS = {
    "foreign": "unnamed", "miscounted": "miscounted", "gpuless": "no_gpu", "uncounted": "uncounted",
    "outside": "outside_reservation",
}
CAPS = {"CPUs": "cpus", "MiB": "memory"}


@dataclass
class Tally:
    asked: int = 0
    found: Counter = field(default_factory=Counter)  # breaches by kind that guard found too
    gone: int = 0  # ended before guard had looked
    missed: list = field(default_factory=list)  # with guard's findings, and the jobs as they were before and after
    alarms: list = field(default_factory=list)  # findings of guard's where the judge sees none
    clean: int = 0  # looks without a breach, at which guard found none

    def bad(self):
        return len(self.missed) + len(self.alarms)

    def __str__(self):
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.found.items())) or "none"
        return (
            f"guard: asked {self.asked} times; breaches found: {kinds}; gone before it looked: {self.gone}; missed: "
            f"{len(self.missed)}; clean looks: {self.clean}; false alarms: {len(self.alarms)}"
        )


def ask(cluster):
    """Guard's findings. Beside a busy slurmctld a command of Slurm's may fail, and then guard couldn't look."""
    for _ in range(3):
        done = cluster.run("gpushare guard --json")
        if done.returncode != 2:
            break
    assert done.returncode in (0, 1), done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert bool(report["over"]) == bool(done.returncode), done.stdout
    return report["over"]


def is_same(violation, finding):
    """Whether guard's FINDING is the judge's VIOLATION."""
    jobs = {job["id"] for job in finding["jobs"]}
    if not jobs & set(violation.jobs):
        return False
    if violation.kind == "cap":
        return finding["what"] == CAPS[violation.tres]
    if violation.kind != "limit":
        tres = f"gres/{violation.tres}"
        return finding["what"] == KINDS[violation.kind] and (not violation.tres or finding["tres"] == tres)
    who, kind = violation.who.rsplit(" ", 1)
    kind = "MaxTRESPerJob" if kind == "MaxTRES" else kind
    tres = violation.tres if violation.tres == "billing" else f"gres/{violation.tres}"
    same = (finding["limit_kind"], finding["tres"], finding["counted_by"]) == (kind, tres, violation.counted_by)
    return same and (finding["whose"] == who if who.startswith("QOS ") else not finding["whose"].startswith("QOS "))


def judged(box):
    """The breaches now; and those as guard can know them: up to 22.05 scontrol doesn't show what Slurm counted for the
    request of a job that runs, and there only its text names types."""
    look = box.look()
    found = list(judge.judge(look, box.limits))
    if not box.cluster.newer_than("23.02"):
        for job in look.jobs:
            job.pop("requested", None)
    return look, found, [*found, *judge.judge(look, box.limits)]


def compare(box, tally):
    """Asks guard between two looks of the judge. What both looks have, guard must have; what it has, one must have."""
    first, before, known_before = judged(box)
    findings = ask(box.cluster)
    last, after, known_after = judged(box)
    tally.asked += 1
    both = [one for one in before if any(known.who == one.who and known.tres == one.tres and known.kind == one.kind
                                         and set(known.jobs) & set(one.jobs) for known in after)]
    tally.gone += len(before) - len(both)
    for violation in both:
        if any(is_same(violation, finding) for finding in findings):
            tally.found[violation.kind] += 1
        else:
            jobs = [job for look in (first, last) for job in look.jobs if job["id"] in violation.jobs]
            tally.missed.append((violation, findings, jobs))
    alarms = [one for one in findings if not any(is_same(violation, one) for violation in known_before + known_after)]
    tally.alarms += alarms
    tally.clean += not (before or after or findings)
