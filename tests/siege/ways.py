# SPDX-License-Identifier: GPL-2.0-or-later
"""Every known way round a typed limit as a script of actions. Limits: tests/siege/conf/accounting."""

from dataclasses import dataclass

from action import Action

COLLISION = "mAA0zxtUzzzz"  # hashes like a40
LIMITED = {"qos": "qos_lafferty"}  # 2 a40
NODES_OF_A40 = {"exc_nodes": "h1,m1"}


@dataclass
class Way:
    title: str
    actions: list
    without_zero: bool = False  # tried where the QOS has no limit of 0 on other types


def act(verb, user="alice", **fields):
    return Action(user, verb, {name: str(value) for name, value in fields.items()})


def held(**fields):
    return act("allocate", **{"priority": 0, **fields})


def update(**fields):
    return act("update", **fields)


def release():
    return act("update", priority="INFINITE")


def cli(*argv):
    return Action("alice", "cli", argv=list(argv))


def root(*argv):
    return Action("root", "root", argv=list(argv))


def sbatch(*options):
    return cli("sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", "sleep 600")


def gpu(type="", count=4):
    return f"{{P}}gpu:{type}{':' if type else ''}{count}"


def share(type="", units=40):
    return f"{{P}}gpushare:{type}{':' if type else ''}{units}"


def reserve(name):
    return root("scontrol", "create", f"reservation={name}", "starttime=now+1hour", "duration=5", "users=alice",
                "nodes=n2", "flags=ignore_jobs")


def end_reservation(name):
    """Of one that is in use root can only move the end; slurmctld looks for ended ones now and then."""
    return root("bash", "-c", f"scontrol update reservation={name} starttime=now endtime=now+1; for i in $(seq 90); do "
                f"scontrol show reservation {name} >/dev/null 2>&1 || break; sleep 1; done")


def scrontab(options):
    return cli("bash", "-c", f"printf '#SCRON {options}\\n* * * * * sleep 600\\n' | scrontab -")


SAME_TYPE = NODES_OF_A40
RESERVE, UNRESERVE = reserve("maint1"), end_reservation("maint1")

UNTYPED = [
    Way("untyped, --gres", [sbatch("--qos=qos_lafferty", "--gres=gpu:4", "-xh1,m1")]),
    Way("untyped, --gpus", [sbatch("--qos=qos_lafferty", "--gpus=4", "-N1", "-xh1,m1")]),
    Way("untyped, --gpus-per-node", [sbatch("--qos=qos_lafferty", "--gpus-per-node=4", "-xh1,m1")]),
    Way("untyped, --gpus-per-task", [sbatch("--qos=qos_lafferty", "-n4", "--gpus-per-task=1", "-xh1,m1")]),
    Way("untyped, --gpus-per-socket", [
        sbatch("--qos=qos_lafferty", "--gpus-per-socket=2", "--sockets-per-node=2", "-xh1,m1")]),
    Way("no GPU option, --ntasks-per-gpu", [sbatch("--qos=qos_lafferty", "-n4", "--ntasks-per-gpu=1", "-xh1,m1")]),
    Way("untyped, salloc", [cli("salloc", "--qos=qos_lafferty", "--gres=gpu:4", "-xh1,m1", "sleep", "5")]),
    Way("untyped, srun", [cli("srun", "--qos=qos_lafferty", "--gres=gpu:4", "-xh1,m1", "sleep", "5")]),
    Way("untyped, a job array", [sbatch("--qos=qos_lafferty", "--array=0-3", "--gres=gpu:1", "-xh1,m1")]),
    Way("untyped, a component of a het job", [
        sbatch("--qos=qos_lafferty", "--gres=gpu:a40:1", ":", "--qos=qos_lafferty", "--gres=gpu:3", "-xh1,m1")]),
    Way("untyped, a list of QOSes", [sbatch("--qos=qos_lafferty,qos_job", "--gres=gpu:4", "-xh1,m1")]),
    Way("untyped, the QOS in capitals", [sbatch("--qos=QOS_LAFFERTY", "--gres=gpu:4", "-xh1,m1")]),
    Way("untyped, by scrontab", [scrontab("--qos=qos_lafferty --gres=gpu:4 -xh1,m1"), act("wait", **{"for": 65})]),
    Way("untyped, a list of partitions", [sbatch("--qos=qos_lafferty", "-px,p", "--gres=gpu:4", "-xh1,m1")]),
    Way("untyped, by slurmrestd", [Action("alice", "rest", {"qos": "qos_lafferty", "tres_per_job": gpu()})]),
    Way("untyped, own client", [act("allocate", **LIMITED, tres_per_node=gpu(), **SAME_TYPE)]),
    Way("typed and untyped together", [
        act("allocate", **LIMITED, tres_per_node=gpu("a40", 1), tres_per_job=gpu(), **SAME_TYPE)]),
    Way("another type, no limit on it", [act("allocate", **LIMITED, tres_per_node=gpu("h100", 1))], without_zero=True),
]
NAMES = [
    Way("a type that hashes alike", [act("allocate", **LIMITED, tres_per_node=gpu(COLLISION))]),
    Way("a type that hashes alike, per job", [act("allocate", **LIMITED, tres_per_job=gpu(COLLISION), **SAME_TYPE)]),
    Way("a type that hashes to 0", [act("allocate", **LIMITED, tres_per_node=gpu("UUUUUUUUVUUU"), **SAME_TYPE)]),
    Way("an empty type", [act("allocate", **LIMITED, tres_per_node="{P}gpu::4", **SAME_TYPE)]),
    Way("gresgpu", [act("allocate", **LIMITED, tres_per_task="gresgpu", num_tasks=4, **SAME_TYPE)]),
    Way("a licence with a GPU inside", [
        act("allocate", **LIMITED, tres_per_task="license/gres/gpu:4", num_tasks=1, **SAME_TYPE)]),
    Way("text before the GPU", [act("allocate", **LIMITED, tres_per_node="x{P}gpu:4", **SAME_TYPE)]),
]
MOVES = [
    Way("scontrol update qos=", [
        sbatch("-H", "--gres=gpu:4", "-xh1,m1"), cli("scontrol", "update", "job={job}", "qos=qos_lafferty"),
        release()]),
    Way("scontrol update TresPerNode=", [
        sbatch("-H", "--qos=qos_lafferty", "-xh1,m1"), cli("scontrol", "update", "job={job}", "TresPerNode={P}gpu:4"),
        release()]),
    Way("update of the QOS, own client", [held(tres_per_node=gpu(), **SAME_TYPE), update(**LIMITED), release()]),
    Way("--ntasks-per-gpu, then moved", [
        held(num_tasks=4, ntasks_per_tres=1, **SAME_TYPE), update(**LIMITED), release()]),
    Way("a task of an array moved", [
        act("submit", priority=0, array_inx="0-1", tres_per_node=gpu(), **SAME_TYPE),
        act("update", job_id_str="{job}_1", **LIMITED), act("update", job_id_str="{job}_1", priority="INFINITE")]),
    Way("cleared, then moved", [
        held(tres_per_node=gpu(), **SAME_TYPE), update(tres_per_node="", **LIMITED), release()]),
    Way("requeued, then moved", [
        act("submit", requeue=1, tres_per_node=gpu(), **SAME_TYPE), act("wait"), act("requeuehold"),
        act("wait", **{"for": 2}), update(**LIMITED), release()]),
    Way("moved while it runs", [act("allocate", tres_per_node=gpu(), **SAME_TYPE), act("wait"), update(**LIMITED)]),
    Way("a type that hashes alike, then moved and restated", [
        held(tres_per_node=gpu(COLLISION)), update(tres_per_node=gpu("a40"), **LIMITED), release()]),
]
FIELDS = [
    Way("CpusPerTres with a type that hashes alike, update", [
        held(**LIMITED, tres_per_node=gpu("a40")), update(cpus_per_tres=gpu(COLLISION, 1)), release()]),
    Way("CpusPerTres first, then the GPUs", [
        held(**LIMITED), update(cpus_per_tres=gpu(COLLISION, 1)), update(tres_per_node=gpu("a40")), release()]),
    Way("CpusPerTres with a type that hashes alike, submission", [
        act("allocate", **LIMITED, tres_per_node=gpu("a40"), cpus_per_tres=gpu(COLLISION, 1))]),
    Way("CpusPerTres of a free QOS, then moved and restated", [
        held(tres_per_node=gpu("a40")), update(cpus_per_tres=gpu(COLLISION, 1)),
        update(tres_per_node=gpu("a40"), **LIMITED), release()]),
    Way("CpusPerTres with the type in capitals, update", [
        held(**LIMITED, tres_per_node=gpu("a40")), update(cpus_per_tres=gpu("A40", 1)), release()]),
    Way("MemPerTres with the type in capitals, update", [
        held(**LIMITED, tres_per_node=gpu("a40")), update(mem_per_tres=gpu("A40", 1)), release()]),
    Way("ntasks_per_tres=0, update", [
        held(**LIMITED, num_tasks=4, tres_per_job=gpu("a40"), ntasks_per_tres=1, **SAME_TYPE),
        update(tres_per_job="", ntasks_per_tres=0, num_tasks=4), release()]),
]
NODES = [
    Way("--gpus=a40:1 over two nodes, more tasks than CPUs", [sbatch("--qos=qos_job", "-n70", "--gpus=a40:1")]),
    Way("--gpus=a40:1 over two nodes, more CPUs than a node has", [
        act("allocate", qos="qos_job", min_cpus=70, tres_per_job=gpu("a40", 1))]),
    Way("--gpus=a40:2 over three nodes", [
        act("allocate", **LIMITED, num_tasks=140, min_cpus=140, tres_per_job=gpu("a40", 2))]),
    Way("--gpus=a40:1, then NumNodes=2", [
        held(qos="qos_job", tres_per_job=gpu("a40", 1)), update(min_nodes=2), release()]),
    Way("--gpus=a40:1, then NumTasks=70", [
        held(qos="qos_job", tres_per_job=gpu("a40", 1)), update(num_tasks=70, min_cpus=70), release()]),
]
PER_TASK = ["--gpus-per-task=a40:1", "-xh1,m1"]
TASKS = [
    Way("--gpus-per-task, tasks that don't fill their nodes", [
        sbatch("--qos=qos_three", "-N2", "-n3", "-c2", "--ntasks-per-node=2", "--ntasks-per-core=1", *PER_TASK)]),
    Way("--gpus-per-task, tasks that don't fill their nodes, an account's limit", [
        sbatch("--account=sub", "-N2", "-n3", "-c2", "--ntasks-per-node=2", "--ntasks-per-core=1", *PER_TASK)]),
    Way("--gpus-per-task without a number of nodes", [
        sbatch("--qos=qos_three", "-n3", "-c4", "--ntasks-per-node=2", *PER_TASK)]),
]
# Where a core is a task's (CR_ONE_TASK_PER_CORE).
CORES = [
    Way("--gpus-per-task, a core for each task", [
        sbatch("--qos=qos_three", "-N2", "-n3", "-c2", "--ntasks-per-node=2", *PER_TASK)]),
    Way("--gpus-per-task, a core for each task, an account's limit", [
        sbatch("--account=sub", "-N2", "-n3", "-c2", "--ntasks-per-node=2", *PER_TASK)]),
]
HALF = "TresPerJob={P}gpu:a40:2 TresPerNode={P}gpu:a40:1"
BEGINS = "--begin=now+3"


def half_taken(*moves, submitted=()):
    """Slurm takes the names of an update and refuses the sizes that its GPUs would give the job."""
    first = sbatch(BEGINS, "--gres=gpu:4", "-xh1,m1", *submitted)
    changes = ["NumCPUs=1-1", " ".join([*moves, HALF])]
    return [first, *(cli("scontrol", "update", "job={job}", *change.split()) for change in changes),
            act("wait", **{"for": 5})]


HALVES = [
    Way("an update of which Slurm takes the QOS and not the sizes", half_taken("qos=qos_lafferty")),
    Way("an update of which Slurm takes the account and not the sizes", half_taken("account=capped")),
    Way("CPUs for each GPU, and an update of which Slurm takes the QOS", [
        sbatch(BEGINS, "--gres=gpu:4", "--cpus-per-gpu=2", "-xh1,m1"),
        cli("scontrol", "update", "job={job}", "NumCPUs=1-1"),
        cli("scontrol", "update", "job={job}", "qos=qos_lafferty", "TresPerNode={P}gpu:a40:2"),
        act("wait", **{"for": 5})]),
]
ALL_GPUS = [
    Way("a limit on all GPUs, --gpus over three nodes", [sbatch("--qos=qos_all", "-n130", "--gpus=1")]),
    Way("a limit on all GPUs, --gpus-per-task", [
        sbatch("--qos=qos_total", "-N2", "-n3", "-c2", "--ntasks-per-node=2", "--ntasks-per-core=1", *PER_TASK)]),
    Way("a limit on all GPUs, in a list of QOSes", [sbatch("--qos=qos_all,qos_total", "-n200", "--gpus=1")]),
]
# Where partition b bills an a40 as 1.
BILLED = [
    Way("a limit on billing, untyped", [sbatch("--qos=qos_billed", "-pb", "--gres=gpu:4", "-xh1,m1")]),
    Way("a limit on billing, --ntasks-per-gpu", [
        sbatch("--qos=qos_billed", "-pb", "-n4", "--ntasks-per-gpu=1", "-xh1,m1")]),
    Way("a limit on billing, an account's", [sbatch("--account=billed", "-pb", "--gpus=4", "-N1", "-xh1,m1")]),
    Way("a limit on billing, in the reservation's partition", [
        root("scontrol", "create", "reservation=billed", "starttime=now", "duration=5", "users=alice", "nodes=n2",
             "partition=b"),
        sbatch("--qos=qos_billed", "--reservation=billed", "--gres=gpu:4")]),
    Way("a limit on billing, moved there", [
        held(qos="qos_billed", tres_per_node=gpu(), **SAME_TYPE), update(partition="b"), release()]),
]
UNITS = [
    Way("shares of a name of the site's own", [sbatch("--qos=qos_lafferty", "--gres=gpushare:40")]),
    Way("an account's limit on a type of shares, untyped", [sbatch("--account=lab", "--gres=gpushare:40")]),
    Way("an account's limit on a type of shares, untyped, under a QOS that counts all", [
        sbatch("--account=lab", "--qos=qos_share", "--gres=gpushare:40")]),
    Way("shares of a type that hashes alike", [
        act("allocate", account="lab", qos="qos_share", tres_per_node=share(COLLISION))]),
    Way("whole GPUs under a limit on shares", [sbatch("--qos=qos_units", "--gres=gpu:a40:1")]),
    Way("whole GPUs under a limit on shares, by task", [sbatch("--qos=qos_units", "-n2", "--gpus-per-task=a40:1")]),
]
# Where ShareReservations=course.
COURSE = [
    Way("a share in no reservation", [sbatch("--gres=gpushare:40")]),
    Way("a share moved out of its reservation", [
        reserve("course1"), held(reservation="course1", tres_per_node=share()), update(reservation=""), release()]),
    Way("a share whose reservation ends", [
        reserve("course1"), held(reservation="course1", tres_per_node=share()), end_reservation("course1"), release()]),
]
SITES = {"cores": CORES, "course": COURSE}
WHOLE = [
    Way("--exclusive, a node of the type", [sbatch("--qos=qos_lafferty", "--exclusive", "-w", "n2")]),
    Way("--exclusive with one GPU typed", [
        sbatch("--qos=qos_lafferty", "--exclusive", "--gres=gpu:a40:1", "-w", "n2")]),
]
OTHER = [
    ("--exclusive, a node of another type", sbatch("--qos=qos_lafferty", "--exclusive", "-w", "h1")),
    ("--exclusive with one GPU typed, a node of two types",
     sbatch("--qos=qos_lafferty", "--exclusive", "--gres=gpu:a40:1", "-w", "m1")),
    ("a partition with OverSubscribe=EXCLUSIVE, another type", sbatch("--qos=qos_lafferty", "-p", "x", "-w", "h1")),
    ("core specialization, another type", act("allocate", **LIMITED, core_spec=1, req_nodes="h1")),
]
WHOLE += [Way(f"{title}, limit 0 on it", [action]) for title, action in OTHER]
WHOLE += [Way(f"{title}, no limit on it", [action], without_zero=True) for title, action in OTHER]
ACCOUNTS = [
    Way("an account's GrpTRES, untyped", [act("allocate", account="capped", tres_per_node=gpu(), **SAME_TYPE)]),
    Way("an account's GrpTRES, a type that hashes alike", [
        act("allocate", account="capped", tres_per_node=gpu(COLLISION))]),
    Way("an account's GrpTRES, CpusPerTres", [
        act("allocate", account="capped", tres_per_node=gpu("a40"), cpus_per_tres=gpu(COLLISION, 1))]),
    Way("a parent account's GrpTRES, untyped", [act("allocate", account="sub", tres_per_node=gpu(), **SAME_TYPE)]),
    Way("a user's MaxTRES, untyped", [act("allocate", "bob", account="personal", tres_per_node=gpu(), **SAME_TYPE)]),
    Way("a user's MaxTRES, --gpus=a40:1 over two nodes", [
        act("allocate", "bob", account="personal", min_cpus=70, tres_per_job=gpu("a40", 1))]),
    Way("untyped in a free account, then moved to a limited one", [
        held(tres_per_node=gpu(), **SAME_TYPE), update(account="capped"), release()]),
]
RESERVATIONS = [
    Way("exempt by a reservation, then moved out", [
        RESERVE, held(**LIMITED, reservation="maint1", tres_per_node=gpu(), **SAME_TYPE), update(reservation=""),
        release()]),
    Way("tasks for each GPU, exempt by a reservation, which ends", [
        RESERVE, sbatch("-H", "--qos=qos_lafferty", "--reservation=maint1", "-n4", "--ntasks-per-gpu=1", "-xh1,m1"),
        UNRESERVE, release()]),
    Way("exempt by a reservation, which ends", [
        RESERVE, held(**LIMITED, reservation="maint1", tres_per_node=gpu(), **SAME_TYPE), UNRESERVE, release()]),
]
MIXTURES = [
    Way("--gpus of one type beside --gres of another", [
        act("allocate", qos="qos_h", tres_per_job=gpu("a40", 1), tres_per_node=gpu("h100", 2), req_nodes="m1")]),
    Way("--gpus-per-socket beside --gpus-per-task", [
        act("allocate", qos="qos_job", num_tasks=1, tres_per_task=gpu("a40", 1), tres_per_socket=gpu("a40", 1),
            sockets_per_node=2, **SAME_TYPE)]),
    Way("--gpus=a40:1 --gpus-per-node=a40:1, then NumNodes=2", [
        held(qos="qos_job", tres_per_job=gpu("a40", 1), tres_per_node=gpu("a40", 1)), update(min_nodes=2), release()]),
    Way("an update of which Slurm takes the QOS and refuses the rest", [
        held(tres_per_node=gpu(), **SAME_TYPE),
        cli("scontrol", "update", "job={job}", "qos=qos_lafferty", "TresPerNode={P}gpu:a40:1", "Nice=-5"), release()]),
]
GROUPS = {
    "Requests without a type": UNTYPED, "Names": NAMES, "Updates and moves": MOVES, "Other fields": FIELDS,
    "More nodes than GPUs": NODES, "Tasks that don't fill their nodes": TASKS, "Updates taken by halves": HALVES,
    "Limits on all GPUs": ALL_GPUS, "Limits on billing": BILLED, "Shares and units": UNITS,
    "Several counts at once": MIXTURES, "Whole nodes": WHOLE,
    "Limits of accounts and users": ACCOUNTS, "Reservations": RESERVATIONS,
}


# What users try against the caps of tests/siege/conf-caps: 8 CPUs and 16G with an a40, 16 CPUs and 32G with an h100,
# and partition g for jobs that have a GPU.
A40 = "--gres=gpu:a40:1"
LITTLE = "--mem=1G"
FITS = [sbatch("-H", A40, "-c8", "--mem=16G")]
BINDING = "--gres-flags=enforce-binding"
MORE_CPUS = [
    ("-c", [A40, "-c9"]),
    ("-c, no type", ["--gres=gpu:1", "-c9", "-xh1,m1"]),
    ("--ntasks", [A40, "-n9"]),
    ("--ntasks with -c", [A40, "-n3", "-c3"]),
    ("--ntasks-per-node", [A40, "-N1", "--ntasks-per-node=9"]),
    ("--ntasks-per-gpu", ["--gpus=a40:1", "--ntasks-per-gpu=9"]),
    ("--cpus-per-gpu", ["--gpus=a40:1", "--cpus-per-gpu=9"]),
    ("--mincpus", [A40, "--mincpus=9"]),
    ("--gpus-per-task", ["-n2", "--gpus-per-task=a40:1", "-c9"]),
    ("--gpus-per-node on two nodes", ["-N2", "--gpus-per-node=a40:1", "-n17"]),
    ("--gres-flags=enforce-binding", [A40, BINDING]),
    ("--gres-flags=enforce-binding with --gpus", ["-N1", "--gpus=a40:1", "-c8", BINDING]),
    ("--gres-flags=enforce-binding on two nodes", ["-N2", "--gpus-per-node=a40:1", BINDING]),
    ("a job array", [A40, "-c9", "--array=0-1"]),
    ("a component of a het job", [A40, "-c1", LITTLE, ":", A40, "-c9"]),
]
MORE_MEMORY = [
    ("--mem", [A40, "--mem=17G"]),
    ("--mem=0", [A40, "--mem=0"]),
    ("no memory named", [A40]),
    ("--mem-per-cpu", [A40, "-c8", "--mem-per-cpu=3G"]),
    ("--mem-per-cpu with --gres-flags=enforce-binding", [A40, "-c8", "--mem-per-cpu=2G", BINDING]),
    ("--mem-per-gpu", ["--gpus=a40:1", "--mem-per-gpu=17G"]),
    ("--mem on two nodes", ["-N2", "--gpus-per-node=a40:1", "--mem=17G"]),
]
# Of a job that has an a40, 8 CPUs and 16G.
CPU_UPDATES = [
    "CPUsPerTask=9 NumCPUs=9", "NumCPUs=16", "MinCPUsNode=16 NumCPUs=16", "NumTasks=2 NumCPUs=16",
    "CpusPerTres={P}gpu:9",
    "CPUsPerTask=16 NumCPUs=16 TresPerNode={P}gpu:a40:2 Nice=-5",
]
MEMORY_UPDATES = ["MinMemoryNode=17408", "MinMemoryNode=0", "MinMemoryCPU=4096", "MemPerTres={P}gpu:17408"]


def updated(*changes):
    return [cli("scontrol", "update", "job={job}", *change.split()) for change in changes]


CAPS = [Way(f"CPUs, {title}", [sbatch(*options, LITTLE)]) for title, options in MORE_CPUS]
CAPS += [Way(f"CPUs, update {change}", [*FITS, *updated(change), release()]) for change in CPU_UPDATES]
CAPS += [
    Way("CPUs, more tasks on a node than the job has, then a name", [
        sbatch("-H", A40, LITTLE, "-n1", "--ntasks-per-node=64"), *updated("Name=y"), release()]),
    Way("CPUs, more tasks on the nodes than the job has", [
        sbatch("-N2", "-n16", "--ntasks-per-node=15", "--gpus-per-node=a40:1", LITTLE)]),
    Way("CPUs, salloc", [cli("salloc", A40, "-c9", LITTLE, "sleep", "5")]),
    Way("CPUs, srun", [cli("srun", A40, "-c9", LITTLE, "sleep", "5")]),
    Way("CPUs, own client", [act("allocate", tres_per_node=gpu("a40", 1), min_cpus=9, pn_min_memory=1024)]),
    Way("CPUs, own client, enforce-binding", [
        act("allocate", tres_per_node=gpu("a40", 1), min_cpus=8, pn_min_memory=1024, bitflags=1 << 4)]),
    Way("CPUs, own client, as a token of each task", [
        act("allocate", tres_per_job=gpu("a40", 1), num_tasks=1, tres_per_task="cpu=9", pn_min_memory=1024)]),
    Way("CPUs, fewer GPUs by an update", [
        sbatch("-H", "--gres=gpu:a40:2", "-c16", LITTLE), *updated("TresPerNode={P}gpu:a40:1"), release()]),
    Way("CPUs, GPUs by an update", [sbatch("-H", "-c9", LITTLE), *updated("TresPerNode={P}gpu:a40:1"), release()]),
    Way("CPUs, GPUs cleared, then again", [
        *FITS, *updated("TresPerNode=", "CPUsPerTask=9 NumCPUs=9", "TresPerNode={P}gpu:a40:1"), release()]),
]
CAPS += [Way(f"memory, {title}", [sbatch(*options)]) for title, options in MORE_MEMORY]
CAPS += [Way(f"memory, update {change}", [*FITS, *updated(change), release()]) for change in MEMORY_UPDATES]
CAPS += [
    Way("memory, own client", [act("allocate", tres_per_node=gpu("a40", 1), pn_min_memory=17408)]),
    Way("memory, fewer GPUs by an update", [
        sbatch("-H", "--gres=gpu:a40:2", "--mem=32G"), *updated("TresPerNode={P}gpu:a40:1"), release()]),
]
CAPS += [
    Way(f"no GPU, {title}", [sbatch(LITTLE, *options)]) for title, options in (
        ("-p", ["-p", "g"]), ("a list of partitions", ["-p", "p,g"]), ("0 GPUs", ["-p", "g", "--gres=gpu:0"]),
        ("a job array", ["-p", "g", "--array=0-1"]), ("a partition that passes its jobs on", ["-p", "old"]))
]
CAPS += [
    Way("no GPU, own client", [act("allocate", partition="g", min_cpus=1, pn_min_memory=1024)]),
    Way("no GPU, moved by an update", [sbatch("-H", LITTLE), *updated("partition=g"), release()]),
    Way("no GPU, moved to a partition that passes its jobs on", [
        sbatch("-H", LITTLE), *updated("partition=old"), release()]),
    Way("no GPU, cleared by an update", [sbatch("-H", "-p", "g", A40, LITTLE), *updated("TresPerNode="), release()]),
    Way("no GPU, 0 by an update", [sbatch("-H", "-p", "g", A40, LITTLE), *updated("TresPerNode={P}gpu:0"), release()]),
]

# What such a site has not set: the limits of 0 in tests/siege/conf/accounting.
WITHOUT_ZERO = [
    f"modify qos {name} set {kind}=gres/gpu:h100=-1" for name, kind in (
        ("qos_lafferty", "GrpTRES"), ("qos_job", "MaxTRESPerJob"), ("qos_user", "MaxTRESPerUser"),
        ("qos_node", "MaxTRESPerNode"),
        ("qos_acct", "MaxTRESPerAccount"))
]


def every():
    """All ways, those without limits of 0 last."""
    return sorted((way for group in GROUPS.values() for way in group), key=lambda way: way.without_zero)
