# SPDX-License-Identifier: GPL-2.0-or-later
"""What a refusal says to try: Slurm takes it as it stands, it could run, and it is the job that was asked for.

Requests as people write them are submitted untyped under a free QOS, which shows what Slurm makes of them; then under
the group's QOS, which refuses them. What the message says is put in the place of what it replaces.
"""

import re
import shlex

import pytest

QOS = "--qos=qos_lafferty"

REQUESTS = """
--gres=gpu
--gres=gpu:2
--gres=gpu:2 -n2
--gres=gpu:2 -N1
--gres=gpu:2 -N2
--gres=gpu:2 -N1-2
--gres=gpu:1 -N2 -n4
--gres=gpu:1 -N2 --ntasks-per-node=2
--gres=gpu:1 -n4 --ntasks-per-node=2
--gres=gpu:4 --ntasks-per-node=4
--gres=gpu:2 -c4
--gres=gpu:2 -n2 -c4
--gres=gpu:2 --cpus-per-gpu=4
--gres=gpu:2 --mem-per-gpu=100
--gres=gpu:2 --cpus-per-gpu=4 --mem-per-gpu=1G
--gres=gpu:1 --array=1-4
--gres=gpu:1 --array=1-4%2 -n2 -c2
--gres=gpu:1 -C a40 --mem=100 --time=10
--gres=gpu:2,nic:1
--gres=nic:1,gpu:1 -n2
--gres=gpu:1 -w other
--gres=gpu:1 -B 2:4:1
--gres=gpu:1 -N1 --sockets-per-node=2
--gres=gpu:1 --exclusive
--gpus=1
-G2
--gpus=4 -n4
--gpus=4 -N2
--gpus=2 -N1
--gpus=2 -N1-2
--gpus=2 -N1-8
--gpus=4 -N2 --ntasks-per-node=2
--gpus=2 -c8
--gpus=2 --cpus-per-gpu=4
--gpus=2 --mem-per-gpu=1G
--gpus=2 --gres=nic:1
--gpus=2 --gpus-per-node=1
--gpus=4 --gpus-per-node=2 -n4
--gpus=4 --gres=gpu:4
--gpus=2 --gpus-per-task=1
--gpus=4 --gpus-per-task=2 -c2
--gpus=2 --ntasks-per-gpu=2
--gpus-per-node=1
--gpus-per-node=2 -N2
--gpus-per-node=2 -N2 -n8
--gpus-per-node=2 --gpus-per-task=1 -n4
--gpus-per-node=2 --gpus-per-socket=1 --sockets-per-node=2
--gpus-per-task=1 -n2
--gpus-per-task=1 -n2 -c4
--gpus-per-task=1 -N2
--gpus-per-task=1 -N2 --ntasks-per-node=2
--gpus-per-task=1 -n2 --cpus-per-gpu=4
--gpus-per-task=1 -n2 --mem-per-gpu=100
--gpus-per-task=2 -n2 --array=0-3
--gpus-per-socket=1 --sockets-per-node=2
--gpus-per-socket=1 --sockets-per-node=2 -N2
--gpus-per-socket=2 --sockets-per-node=1 -n1
--ntasks-per-gpu=1 -n2
--ntasks-per-gpu=2 -n4
--ntasks-per-gpu=2 -n4 -c2
--ntasks-per-gpu=1 -N2
--ntasks-per-gpu=4 --gpus=1
--ntasks-per-gpu=2 --gres=gpu:2 -N1
--gres=shard:2
--gres=mps:50
--gres=mps:50 -n1 -c2
""".strip().splitlines()

# What 22.05 has no option for.
NEWER = """
--tres-per-task=gres/gpu:1 -n2
--tres-per-task=cpu=2,gres/gpu:1 -n2
--tres-per-task=cpu=2,gres/gpu=1,gres/nic:1 -n2
""".strip().splitlines()

# What the options above ask for, under names of their own: what a line to try has instead of them.
REPLACED = re.compile(
    r"(--(gres|gpus(-per-\w+)?|tres-per-task|n?tasks-per-(gpu|node)|cpus-per-gpu|mem-per-gpu|sockets-per-node)="
    r"|-[nNcG]\d)"
)

# One process for all of them: a shell starts thrice a release, not three hundred times.
ASK = """
while IFS= read -r words; do
    echo "=free"; sbatch -H --parsable -o /dev/null $words --wrap true 2>&1
    echo "=group"; sbatch -H -o /dev/null QOS $words --wrap true 2>&1
    echo "=explain"; gpushare explain -- QOS $words --wrap true 2>&1
    echo "=end"
done
""".replace("QOS", QOS)
TAKE = """
while IFS= read -r words; do
    echo "=job"; sbatch -H --parsable -o /dev/null $words --wrap true 2>&1
    echo "=test"; sbatch --test-only -o /dev/null $words --wrap true 2>&1; echo "status $?"
    echo "=end"
done
"""


def answers(cluster, script, lines):
    """For each line what was said under each heading."""
    text = cluster.ok(["bash", "-c", script], "alice", stdin="\n".join(lines) + "\n", timeout=120)
    blocks = [block for block in text.split("=end") if block.strip()]
    assert len(blocks) == len(lines), text
    return [
        dict(part.split("\n", 1) for part in re.split("^=", block.strip(), flags=re.M)[1:] if "\n" in part)
        for block in blocks
    ]


def jobs(cluster):
    """What Slurm made of each job that waits, types apart."""
    found = {}
    for line in cluster.ok(["scontrol", "-o", "show", "job"]).splitlines():
        fields = dict(re.findall(r"(\S+?)=(\S*)", line))
        # Up to 22.05 there is only TRES.
        tres = re.sub(r",?gres/gpu:a40=\d+", "", fields.get("ReqTRES") or fields.get("TRES"))
        job = dict(part.split("=") for part in tres.split(","))
        kept = ("NumTasks", "CPUs/Task", "CpusPerTres", "MemPerTres", "NtasksPerTRES", "ArrayTaskId", "Features")
        job.update((key, fields.get(key)) for key in kept)
        found.setdefault(fields.get("ArrayJobId", fields["JobId"]), job)
    return found


def difference(words, was, now):
    """What is not the same; None where all is."""
    was, now = dict(was), dict(now)
    if "--cpus-per-gpu" in words:
        # Of a typed request Slurm shows it for each GPU alone.
        del was["CPUs/Task"], now["CPUs/Task"]
    if "--gpus=" in words and "--gpus-per-task" in words:
        # Only where -n is named Slurm multiplies the processors before the job starts.
        now = {**now, **{key: was[key] for key in ("cpu", "billing") if int(now[key]) >= int(was[key])}}
    return None if was == now else f"{was} became {now}"


def said(text):
    """The message as the plugin gave it."""
    return [
        re.sub("^sbatch: error: ", "", line)
        for line in text.splitlines()
        if not line.startswith("sbatch: error: Batch")
    ]


@pytest.fixture(scope="module")
def requests(advised):
    newer = NEWER if advised.newer_than("23.11") else []
    # 23.11 takes `cpu=2` and forgets it; only `cpu:2` counts there.
    return REQUESTS + [words.replace("cpu=", "cpu:") if advised.release == "23.11" else words for words in newer]


def test_what_is_tried_is_accepted_and_is_the_same_job(advised, requests):
    wrong = []
    advised.cancel_all()
    asked = dict(zip(requests, answers(advised, ASK, requests)))
    commands = {}
    for words, answer in asked.items():
        advice = re.search("try: (.*)", answer["group"])
        if not answer["free"].strip().isdigit():
            wrong.append(f"{words}: Slurm itself: {answer['free']}")
        elif not advice:
            wrong.append(f"{words}: no advice: {answer['group']}")
        else:
            kept = [word for word in shlex.split(words) if not REPLACED.match(word)]
            commands[words] = " ".join([*advice.group(1).split(), *kept])
        if said(answer["group"]) != answer.get("explain", "").strip().splitlines():
            wrong.append(f"{words}: sbatch said {answer['group']}explain {answer.get('explain')}")
    taken = dict(zip(commands, answers(advised, TAKE, list(commands.values()))))
    made = jobs(advised)
    for words, answer in taken.items():
        if not answer["job"].strip().isdigit() or "status 0" not in answer["test"]:
            wrong.append(f"{words}: {commands[words]}: {answer}")
            continue
        was, now = made[asked[words]["free"].strip()], made[answer["job"].strip()]
        changed = difference(words, was, now)
        if changed and "GS109" not in asked[words]["group"]:
            wrong.append(f"{words}: {commands[words]}: {changed}")
    advised.cancel_all()
    assert not wrong, "\n".join(wrong)
    assert len(taken) == len(requests) > 60


UPDATES = [
    # the job under a free QOS, the update, what the job then asks for
    ("--gres=gpu:a40:2", "qos=qos_lafferty", "gres/gpu=2"),
    ("--gres=gpu:a40:2,nic:1", "qos=qos_lafferty", "gres/gpu=2"),
    ("--gpus=a40:2", "qos=qos_lafferty", "gres/gpu=2"),
    ("--gpus=a40:2 --gpus-per-node=a40:1", "qos=qos_lafferty", "gres/gpu=2"),
    ("--gpus-per-task=a40:1 -n2", "qos=qos_lafferty", "gres/gpu=2"),
    ("--gpus-per-task=a40:1 -n2 -c2", "qos=qos_lafferty", "gres/gpu=2"),
    ("--gpus-per-socket=a40:1 --sockets-per-node=2", "qos=qos_lafferty", "gres/gpu=2"),
    ("--gres=gpu:a40:2 --cpus-per-gpu=4 --mem-per-gpu=100", "qos=qos_lafferty", "gres/gpu=2"),
    (f"{QOS} -n2", "TresPerTask=gres/gpu:1", "gres/gpu=2"),
    (f"{QOS} --gres=gpu:a40:1", "TresPerNode=gres/gpu:2 NumTasks=2", "gres/gpu=2"),
    (f"{QOS} --gres=gpu:a40:1", "TresPerNode=gres/gpu:2 NumNodes=2", "gres/gpu=4"),
    (f"{QOS} -n2", "TresPerJob=gres/gpu:4 NumNodes=1-2 CpusPerTres=gres/gpu:2", "gres/gpu=4"),
]


def test_an_update_that_is_tried_is_accepted(advised):
    """One command, which Slurm takes, and with which the job has the GPUs that it had, or that the update named."""
    if not advised.newer_than("23.02"):
        return  # an update is refused without a message
    wrong = []
    for options, update, expected in UPDATES:
        job = advised.sbatch("-H", *options.split())
        refused = advised.run(f"scontrol update job={job} {update}", "alice")
        advice = re.search("try: (scontrol update .*?);", refused.stderr)
        if refused.returncode == 0 or not advice:
            wrong.append(f"{options}, {update}: {refused.stderr or 'accepted'}")
            continue
        command = advice.group(1).replace("COUNT", "1")
        accepted = advised.run(command, "alice")
        shown = advised.ok(["scontrol", "-o", "show", "job", job])
        tres = re.search(r"ReqTRES=(\S*)", shown).group(1).split(",")
        typed = expected.replace("gpu", "gpu:a40")
        if accepted.returncode != 0 or "QOS=qos_lafferty" not in shown or not {expected, typed} <= set(tres):
            wrong.append(f"{options}, {update}: {command}: {accepted.stderr}{tres}")
    advised.cancel_all()
    assert not wrong, "\n".join(wrong)


def test_more_than_the_group_has_is_said(advised):
    """Fewer GPUs are offered where that is a job, and nothing where the tasks need them all."""
    for options, offered in (
        ("--gres=gpu:9", "--gres=gpu:a40:8"),
        ("--gpus=12", "--gpus=a40:8"),
        ("-N3 --gres=gpu:4", "-N3 --gres=gpu:a40:2"),
        ("--gpus=12 --gpus-per-node=4", None),
        ("-n9 --ntasks-per-gpu=1", None),
    ):
        refused = advised.run(["sbatch", QOS, *options.split(), "--wrap", "true"], "alice").stderr
        assert re.search(r"this QOS has: a40 \(8\); the job requests (9|12) in total", refused), refused
        advice = re.search("try: --qos=qos_lafferty (.*)", refused)
        assert (advice and advice.group(1)) == offered, refused


def test_gpus_for_the_job_in_partitions_of_two_sizes(advised):
    """The most nodes of the small partition bound a job that fits there, and no other."""
    advised.ok("scontrol create partition=one nodes=ALL maxnodes=1 defaulttime=10")
    try:
        def runs(*options):
            job = advised.sbatch("-pp,one", "--gpus=a40:2", QOS, *options)
            advised.wait_state(job, "RUNNING")
            return job, re.search(r"NumNodes=(\d+)", advised.ok(["scontrol", "-o", "show", "job", job])).group(1)

        assert runs()[1] == "1"
        assert runs("-n70")[1] == "2"
        advised.cancel_all()
        job, nodes = runs("-n2", "--ntasks-per-node=1")
        assert nodes == "2"
        # Asks for nothing.
        advised.ok(f"scontrol update job={job} NumNodes=ALL", "alice")
    finally:
        advised.cancel_all()
        advised.ok("scontrol delete PartitionName=one")
