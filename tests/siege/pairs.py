# SPDX-License-Identifier: GPL-2.0-or-later
"""Few requests in which each two values of two options come together once: what a rule reads of one option may depend
on another. Values are those at which a rule or Slurm decides otherwise: none, within a limit, beyond it."""

import itertools
from random import Random

from action import Action
from ways import Way, release, root

ABSENT = ""
WHOSE = "whose"  # the QOS or account that has a limit: never absent
MOST = 5  # options of a row beside it: of a request with all of them, sbatch or slurmctld would refuse some first
# Of each option its values; {P} stands for "gres/", in old releases "gres:". Limits: conf/accounting; nodes of 64 CPUs.
OPTIONS = {
    "--gres=": ["gpu:1", "gpu:a40:2", "gpu:a40:3", "gpu:h100:1", "gpu:a40:1,gpu:h100:1", "gpushare:40"],
    "--gpus=": ["1", "a40:2", "a40:5"],
    "--gpus-per-node=": ["1", "a40:1", "a40:3"],
    "--gpus-per-task=": ["1", "a40:1", "a40:3"],
    "--gpus-per-socket=": ["1", "a40:1"],
    "--tres-per-task=": ["gres/gpu:a40:1", "gres/gpu:1", "cpu=2"],
    "--ntasks-per-gpu=": ["1", "2"],
    "-n": ["1", "2", "3", "65"],
    "--ntasks-per-node=": ["1", "2"],
    "-N": ["1", "2", "1-2", "5"],
    "-c": ["1", "64", "65"],
    "--cpus-per-gpu=": ["1", "65"],
    "--mem-per-gpu=": ["0", "10"],
    "--sockets-per-node=": ["1", "2"],
    "--exclusive": ["=user", "=mcs", " "],
    "-S": ["1"],
    "-p": ["x", "p,x", "b"],
    "-C": ["a40", "h100", "[a40|h100]"],
    "-x": ["h1,m1"],
    "-w": ["m1"],
    WHOSE: ["--qos=qos_lafferty", "--qos=QOS_LAFFERTY", "--qos=qos_job", "--qos=qos_node", "--qos=qos_share",
            "--qos=qos_units", "--qos=qos_all", "--qos=free,qos_lafferty", "--account=capped", "--account=sub",
            "--account=lab", "--account=billed", "--account=capped --qos=qos_share"],
    "--reservation=": ["maint1", "own1"],
    "--array=": ["0", "0-1", "0-3%1"],
    "--requeue": [" "],
    "--begin=": ["now+1"],
    ":": ["--gres=gpu:1", "--gres=gpu:a40:2 --qos=qos_lafferty", "-n2"],
    "update": ["QOS=qos_lafferty", "QOS=free", "Account=capped", "NumNodes=2", "NumTasks=3", "NumCPUs=65",
               "TresPerNode={P}gpu:4", "TresPerNode={P}gpu:a40:1", "Partition=x", "ReservationName=maint1"],
}
BY_TASK = {"--gpus-per-task=", "--tres-per-task="}


def options(of_release):
    """Those that this release's sbatch has."""
    return {name: values for name, values in OPTIONS.items() if (of_release, name) != ("22.05", "--tres-per-task=")}


def is_allowed(row, of_release):
    """24.11.5 ends of GPUs by task and tasks by node in a held job that an update was refused for."""
    has = {name for name, value in row.items() if value}
    return of_release != "24.11" or not ({"update", "--ntasks-per-node="} <= has and has & BY_TASK)


def pairs(row):
    """The pairs of values in a row, or in a part of one."""
    present = [(name, value) for name, value in row.items() if value]
    return set(itertools.combinations(sorted(present), 2))


def rows(of_release, seed=1):
    """Rows of {option: value} in which each pair that is allowed occurs. Greedy: a row begins with a pair that is still
    wanted; then the values come that add most such pairs, until none does or the row is full."""
    random = Random(seed)
    values = [(name, value) for name, known in options(of_release).items() for value in known]
    wanted = [pair for pair in itertools.combinations(sorted(values), 2) if pair[0][0] != pair[1][0]]
    random.shuffle(wanted)
    left = dict.fromkeys(pair for pair in wanted if is_allowed(dict(pair), of_release))
    while left:
        row = dict(next(iter(left)))
        while len(row) < MOST + (WHOSE in row):
            fits = [one for one in values if one[0] not in row and is_allowed({**row, one[0]: one[1]}, of_release)]
            new = {one: sum(tuple(sorted([one, known])) in left for known in row.items()) for one in fits}
            most = max(new.values())
            if not most:
                break
            name, value = random.choice([one for one in fits if new[one] == most])
            row[name] = value
        row.setdefault(WHOSE, random.choice(OPTIONS[WHOSE]))
        for pair in pairs(row):
            left.pop(pair, None)
        yield {name: row.get(name, ABSENT) for name in OPTIONS}


def way(number, row):
    """A row as what a user does: sbatch, and where there is an update, to a held job that is then released."""
    words = [f"{name}{value}".strip() for name, value in row.items() if value and name not in (WHOSE, "update", ":")]
    words = [*row[WHOSE].split(), *words]
    held = ["-H"] if row["update"] else []
    more = [":", *row[":"].split()] if row[":"] else []
    sbatch = ["sbatch", "--parsable", "-o", "/dev/null", *held, *words, *more, "--wrap", "sleep 600"]
    actions = [Action("bob", "cli", argv=sbatch)]
    if row["update"]:
        actions += [Action("bob", "cli", argv=["scontrol", "update", "job={job}", row["update"]]), release()]
        actions[-1].user = "bob"
    named = {row["--reservation="], row["update"].removeprefix("ReservationName=")} & {"maint1", "own1"}
    reservations = [
        root("scontrol", "create", f"reservation={name}", "starttime=now", "duration=5", "users=bob", "nodes=n2",
             "flags=ignore_jobs,overlap")
        for name in sorted(named)
    ]
    return Way(f"pair {number}: {' '.join([*words, *more, row['update']])}", reservations + actions)


def ways(of_release):
    return [way(number, row) for number, row in enumerate(rows(of_release), 1)]
