# SPDX-License-Identifier: GPL-2.0-or-later
"""Three nodes with different GPUs, a ledger each:
jobs over several nodes, het jobs, arrays of several users, and daemons and nodes that go away meanwhile."""

import re
import threading
import time

import pytest
from gpus import OPEN, Share

SHARES = {
    "own": Share("gpushare", full=80, half=40),
    "override": Share("mps", full=80, half=40),
    "follow-mps": Share("mps", full=100, half=50),
}
# {node: how many GPUs it has}
GPUS = {"n1": 4, "n2": 2, "n3": 8}
# Where a task runs, its GPU, the GPU's UUID, and what it can open.
TELL = f"echo at $SLURMD_NODENAME gpu=$GPUSHARE_GPU cuda=$CUDA_VISIBLE_DEVICES:$NVIDIA_VISIBLE_DEVICES $({OPEN})"
# The ledgers of all nodes at one time; a job's entry is one line.
LEDGERS = r"""
    for node in n1 n2 n3; do
        for entry in /proc/$(cat /run/lab/nodes/$node)/root/run/gpushare/jobs/*; do
            [ ! -e $entry ] || echo $node $(cat $entry)
        done
    done 2>/dev/null"""


class Nodes:
    """The cluster's nodes with what is on their GPUs."""

    def __init__(self, cluster):
        self.cluster, self.share = cluster, SHARES[cluster.kind]

    def entries(self):
        """[(node, job, GPU indices, units)] of jobs with GPUs; units are 0 where they are whole."""
        found = []
        for line in self.cluster.ok(LEDGERS).splitlines():
            node, _, text = line.partition(" ")
            # One that goes while it is read.
            if not text.endswith(" end") or " gpu=" not in text:
                continue
            job = re.search(r" job=(\d+)", text).group(1)
            units = re.search(r" units=(\d+)", text)
            found.append(
                (node, job, tuple(map(int, re.findall(r" gpu=(\d+)", text))), int(units.group(1)) if units else 0)
            )
        return found

    def of(self, job):
        """{node: GPU indices} of one job."""
        return {node: gpus for node, id, gpus, _ in self.entries() if id == job}

    def assigned(self, entries):
        """{node: [units on each GPU]}"""
        sums = {node: [0] * count for node, count in GPUS.items()}
        for node, _, gpus, units in entries:
            for gpu in gpus:
                sums[node][gpu] += units or self.share.full
        return sums

    def states(self):
        lines = self.cluster.ok(["sinfo", "-h", "-N", "-o", "%N %T %E"]).splitlines()
        return {line.split()[0]: line.split(" ", 1)[1].replace("planned", "idle", 1) for line in lines}

    def are_idle(self):
        return all(state.split()[0] == "idle" for state in self.states().values())

    def wait_empty(self):
        self.cluster.wait(lambda: not self.entries(), "empty ledgers")

    def submit(self, *options, script="sleep 100", user="alice"):
        """The number of a job that runs and has an entry on each of its nodes."""
        job = self.cluster.sbatch(*options, script=script, user=user)
        self.cluster.wait_state(job, "RUNNING")
        self.cluster.wait(lambda: self.of(job), f"an entry of job {job}")
        return job

    def uuid(self, node, gpu):
        lines = self.cluster.ok("grep -v ^# /lab/gpus", node=node).splitlines()
        return lines[gpu].split()[2]

    def own_pid(self, node):
        """slurmd's, as the node numbers it."""
        return self.cluster.ok(f"cat /run/slurm/slurmd-{node}.pid")


@pytest.fixture
def nodes(several):
    """Every test begins and ends with empty, healthy nodes."""
    found = Nodes(several)
    several.cancel_all()
    yield found
    several.cancel_all()
    several.wait(found.are_idle, f"idle nodes, not {found.states()}")
    found.wait_empty()


def told(text):
    """{node: (GPU index, UUID, what could be opened)} of TELL's lines; those of one node must be the same."""
    lines = re.findall(r"^at (\S+) gpu=(\d*) cuda=0?:(\S*) open=(\S+) denied=\S+ other=-$", text, re.M)
    assert len(lines) == len(re.findall("^at ", text, re.M)), text
    found = {node: (gpu, uuid, opened) for node, gpu, uuid, opened in lines}
    assert all(found[node] == tuple(rest) for node, *rest in lines), text
    return found


def gate(name):
    """A command that waits until the file exists."""
    return f"until test -e /lab/out/{name}; do sleep 0.5; done"


def check_each_has_its_own(nodes, text, where):
    """Each of the nodes WHERE told of the GPU that its ledger has, and could open that one only."""
    found = told(text)
    assert set(found) == set(where), text
    for node, gpus in where.items():
        (gpu,) = gpus
        assert found[node] == (str(gpu), nodes.uuid(node, gpu), str(gpu)), f"{node}: {text}"


def test_each_node_has_its_own_gpus_and_ledger(nodes):
    """What the other tests rest on, and the commands that an administrator would use there."""
    cluster, share = nodes.cluster, nodes.share
    jobs = {node: nodes.submit(f"-w{node}", share.half_gpu) for node in GPUS}
    for node, count in GPUS.items():
        assert cluster.ok("hostname", node=node) == node
        assert cluster.ok("ls -d /dev/nvidia[0-9]* | wc -l", node=node) == str(count)
        assert list(cluster.ledger(node)) == [jobs[node]]
        assert len(cluster.status(node=node)["gpus"]) == count
        checked = cluster.run(["gpushare", "check", "--all"], node=node)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        printed = cluster.ok(["gpushare", "conf", "gres"], node=node)
        assert f"NodeName={node} " in printed and not re.search(rf"NodeName=(?!{node} )n\d", printed), printed
    assert cluster.shares() == [], "this is no node"


def test_a_job_over_all_nodes_has_a_gpu_on_each(nodes):
    cluster, share = nodes.cluster, nodes.share
    # So that the job's GPU has another number on every node.
    for node, count in {"n1": 1, "n3": 3}.items():
        for _ in range(count):
            nodes.submit(f"-w{node}", share.full_gpu, user="bob")
    script = f"{TELL}; srun bash -c '{TELL}'; touch /lab/out/$SLURM_JOB_ID.done; sleep 100"
    job = nodes.submit("-N3", "--ntasks-per-node=1", share.half_gpu, script=script)
    cluster.wait(lambda: cluster.run(f"test -e /lab/out/{job}.done").returncode == 0, "its steps")
    where = nodes.of(job)
    assert where.keys() == GPUS.keys()
    if cluster.kind != "follow-mps":
        assert where == {"n1": (1,), "n2": (0,), "n3": (3,)}
    check_each_has_its_own(nodes, cluster.output(job), where)
    # Tasks more than one a node, and a step over two of the three.
    for options in (["-N3", "-n6", "--overcommit"], ["-N2", "-n2", "-wn2,n3"]):
        command = ["srun", f"--jobid={job}", "--overlap", *options, "bash", "-c", TELL]
        done = cluster.run(command, "alice")
        assert done.returncode == 0, done.stderr
        check_each_has_its_own(nodes, done.stdout, {node: where[node] for node in told(done.stdout)})
    cluster.ok(["scancel", job])
    cluster.wait(lambda: not nodes.of(job), "its entries to be taken back on every node")
    assert len(nodes.entries()) == 4, "the others' stay"


def test_srun_and_salloc_over_two_nodes(nodes):
    cluster, share = nodes.cluster, nodes.share
    nodes.submit("-wn2", share.full_gpu, user="bob")
    for command in (
        ["srun", "-N2", "-n2", "-wn2,n3", share.half_gpu, "bash", "-c", TELL],
        ["salloc", "-N2", "-n2", "-wn2,n3", share.half_gpu, "srun", "bash", "-c", TELL],
    ):
        done = cluster.run(command, "alice")
        assert done.returncode == 0, done.stderr
        found = told(done.stdout)
        assert set(found) == {"n2", "n3"}, done.stdout
        for node, (gpu, uuid, opened) in found.items():
            assert (uuid, opened) == (nodes.uuid(node, int(gpu)), gpu), done.stdout
        assert found["n2"][0] == "1", "GPU 0 is taken"
        cluster.wait(lambda: len(nodes.entries()) == 1, "the entries to be taken back")


def test_components_of_a_het_job_on_different_nodes(nodes):
    cluster, share = nodes.cluster, nodes.share
    nodes.submit("-wn3", share.full_gpu, user="bob")
    lines = [
        "#!/bin/bash",
        f"#SBATCH -wn2 -n1 -o /lab/out/het {share.full_gpu}", "#SBATCH hetjob",
        f"#SBATCH -wn3 -n1 {share.half_gpu}", "#SBATCH hetjob",
        "#SBATCH -wn1 -n1",
        f"srun --het-group=0,1,2 bash -c '{TELL}'", "echo ended; sleep 100",
    ]
    cluster.ok("rm -f /lab/out/het && cat >/tmp/het && chmod 644 /tmp/het", stdin="\n".join(lines) + "\n")
    first = int(cluster.ok(["sbatch", "--parsable", "/tmp/het"], "alice"))
    cluster.wait(lambda: "ended" in cluster.output("het"), "the het job")
    text = cluster.output("het")
    found = told(text)
    assert set(found) == set(GPUS), text
    assert found["n1"][2] == "-", "no share, no GPU"
    for node, job in {"n2": first, "n3": first + 1}.items():
        (gpu,) = nodes.of(str(job))[node]
        assert found[node] == (str(gpu), nodes.uuid(node, gpu), str(gpu)), text
    assert not nodes.of(str(first + 2)) and found["n3"][0] == "1"
    cluster.ok(["scancel", str(first)])
    cluster.wait(lambda: len(nodes.entries()) == 1, "the components' entries to be taken back")


def test_each_component_of_a_het_job_is_judged(nodes):
    """Under a governed QOS one untyped component refuses the whole job; typed ones run, whole GPUs on their nodes."""
    cluster = nodes.cluster
    if cluster.kind == "own":
        pytest.skip("the nodes have no gpu GRES")
    rest = ["bash", "-c", TELL]
    command = ["srun", "--qos=qos_two", "-n1", "--gres=gpu:a40:1", *rest, ":", "--qos=qos_two", "-n1", "%s", *rest]
    for untyped in ("--gres=gpu:1", "--gpus=1"):
        refused = cluster.run([untyped if word == "%s" else word for word in command], "alice")
        assert refused.returncode != 0 and "GS101" in refused.stderr, refused.stdout + refused.stderr
    foreign = cluster.run(["--gres=gpu:t4:1" if word == "%s" else word for word in command], "alice")
    assert foreign.returncode != 0 and "GS103" in foreign.stderr, foreign.stderr
    typed = cluster.run(["--gres=gpu:a100:1" if word == "%s" else word for word in command], "alice")
    assert typed.returncode == 0, typed.stderr
    found = re.findall(r"at (\S+) .*open=(\S+) ", typed.stdout)
    assert {node for node, _ in found} == {"n1", "n2"}, typed.stdout
    assert all(re.fullmatch(r"\d", gpu) for _, gpu in found), typed.stdout


class Watch(threading.Thread):
    """Reads the ledgers until it is ended."""

    def __init__(self, nodes):
        super().__init__(daemon=True)
        self.nodes, self.seen, self.failure, self.end = nodes, [], None, threading.Event()

    def __enter__(self):
        self.start()
        return self

    def run(self):
        while not self.end.is_set():
            try:
                self.seen.append(self.nodes.assigned(self.nodes.entries()))
            except Exception as failure:  # for the test to raise
                self.failure = failure
                return

    def __exit__(self, *_):
        self.end.set()
        self.join()

    def check(self):
        """No GPU ever had more than fits."""
        assert self.failure is None and len(self.seen) > 3, self.failure
        for sums in self.seen:
            assert all(units <= self.nodes.share.full for gpus in sums.values() for units in gpus), sums


NO_GPU = "gpushare: this job can't have its GPU here: gpushare-prolog gave it no GPU on this node"


def end_of(nodes, arrays, tasks, restarted=False):
    """Waits for the arrays and checks that every task ran and had one GPU, each its own. Where slurmctld was RESTARTED,
    it starts jobs before it knows the nodes' GPUs, and mps jobs then without one (`scontrol show job -d` has an empty
    GRES=): those fail."""
    cluster = nodes.cluster
    cluster.wait(lambda: not cluster.ok(["squeue", "-h"]), "the arrays", patience=150)
    for array in arrays:
        text = cluster.ok(f"cat /lab/out/{array}_*")
        lines = re.findall(r"^at (n\d) gpu=(\d) cuda=0:GPU-\S+ open=(\d) ", text, re.M)
        without = text.count(NO_GPU) if restarted and nodes.share.gres == "mps" else 0
        assert len(lines) + without == tasks and all(gpu == opened for _, gpu, opened in lines), text


def submit_arrays(nodes, tasks, script):
    """Arrays of shares of half a GPU, of three users at once."""
    def one(user):
        command = ["sbatch", "--parsable", f"--array=1-{tasks}", "-n1", "-o", "/lab/out/%A_%a", nodes.share.half_gpu]
        return nodes.cluster.ok([*command, "--wrap", f"{TELL}; {script}"], user)

    return [one(user) for user in ("alice", "bob", "root")]


def test_arrays_of_three_users_fill_every_gpu_and_none_beyond(nodes):
    # 42 tasks of half a GPU; 28 fit.
    cluster = nodes.cluster
    cluster.ok("rm -f /lab/out/go")
    full = {node: [nodes.share.full] * count for node, count in GPUS.items()}
    with Watch(nodes) as watch:
        arrays = submit_arrays(nodes, 14, gate("go"))
        cluster.wait(lambda: full in watch.seen or watch.failure, "every GPU to be full")
        cluster.ok("touch /lab/out/go")
        end_of(nodes, arrays, 14)
    watch.check()
    nodes.wait_empty()


def test_while_nodes_fill_their_gpus_differ_by_one_share_at_the_most(nodes):
    if nodes.cluster.kind == "follow-mps":
        pytest.skip("Slurm picks the GPU")
    with Watch(nodes) as watch:
        jobs = [nodes.cluster.sbatch("-n1", nodes.share.half_gpu, user=user) for user in ("alice", "bob") * 10]
        for job in jobs:
            nodes.cluster.wait(lambda: nodes.of(job), f"an entry of job {job}")
    watch.check()
    for sums in watch.seen:
        assert all(max(gpus) - min(gpus) <= nodes.share.half for gpus in sums.values()), sums


def test_slurmctld_and_a_slurmd_restart_in_the_middle(nodes):
    """Tasks start, run and end meanwhile; nothing is lost and nothing is left."""
    cluster = nodes.cluster
    cluster.ok("rm -f /lab/out/restarted")
    # A slurmctld that has just started gives no step for some seconds, and srun would ask again after a minute.
    step = f"until timeout 10 srun bash -c '{TELL}'; do sleep 1; done"
    script = f"{step}; {gate('restarted')}; {step}; sleep 100"
    long = nodes.submit("-N3", "--ntasks-per-node=1", nodes.share.half_gpu, script=script)
    cluster.wait(lambda: len(told(cluster.output(long))) == 3, "the first step of the long job")
    where = nodes.of(long)
    with Watch(nodes) as watch:
        arrays = submit_arrays(nodes, 10, "sleep 3")
        cluster.ok("/lab/service restart slurmctld", timeout=80)
        cluster.ok("/lab/service restart slurmd n1", timeout=80)
        cluster.ok("/lab/service restart slurmctld", timeout=80)
        cluster.ok("touch /lab/out/restarted")
        cluster.wait(lambda: cluster.output(long).count("open=") == 6, "the second step of the long job", patience=90)
        check_each_has_its_own(nodes, cluster.output(long), where)
        assert nodes.of(long) == where and cluster.state(long) == "RUNNING"
        cluster.ok(["scancel", long])
        end_of(nodes, arrays, 10, restarted=True)
    watch.check()
    nodes.wait_empty()


def test_a_job_requeued_to_another_node_leaves_the_first(nodes):
    cluster = nodes.cluster
    job = nodes.submit("--requeue", nodes.share.full_gpu, script=f"{TELL}; sleep 100")
    (first,) = nodes.of(job)
    cluster.ok(["scontrol", "update", f"NodeName={first}", "State=DRAIN", "Reason=test"])
    try:
        cluster.ok(["scontrol", "requeue", job])
        cluster.wait_state(job, "PENDING")
        cluster.wait(lambda: not nodes.of(job), "the entry to be taken back")
        if not cluster.newer_than("23.02"):
            time.sleep(3)  # 22.05 sometimes runs no prolog for a job that starts again within a second or two
        else:
            time.sleep(1 - time.time() % 1)  # not in the second of its kill: see start_now
        # Refused where it has started by itself.
        cluster.run(["scontrol", "update", f"JobId={job}", "StartTime=now"])
        cluster.wait_state(job, "RUNNING")
        where = cluster.wait(lambda: nodes.of(job), "its entry")
        assert len(where) == 1 and first not in where, where
        cluster.wait(lambda: told(cluster.output(job)).keys() == where.keys(), "its output")
        check_each_has_its_own(nodes, cluster.output(job), where)
    finally:
        cluster.ok(["scontrol", "update", f"NodeName={first}", "State=RESUME"])


def start_slurmd(nodes, node):
    nodes.cluster.ok(f"/lab/service start slurmd {node}", timeout=80)
    nodes.cluster.wait(lambda: nodes.states()[node].split()[0] in ("idle", "mixed", "allocated"), f"{node}")


def test_a_node_whose_slurmd_dies_gives_its_share_back_when_it_returns(nodes):
    """slurmctld takes it for down and starts the job on another node, while its first start still runs on this one."""
    cluster = nodes.cluster
    job = nodes.submit("--requeue", nodes.share.half_gpu, script="sleep 600")
    (first,) = nodes.of(job)
    others = sorted(GPUS.keys() - {first})
    where = ["-N2", "--ntasks-per-node=1", f"-w{','.join(others)}"]
    beside = nodes.submit(*where, nodes.share.half_gpu, user="bob", script="echo begun; sleep 600")
    cluster.wait(lambda: cluster.output(beside), "its script to begin")
    cluster.ok(f"kill -KILL {nodes.own_pid(first)}", node=first)
    try:
        cluster.wait(lambda: "down" in nodes.states()[first], f"{first} to be taken for down", patience=90)
        cluster.wait(lambda: len(nodes.of(job)) == 2, "the second start beside the first", patience=90)
    finally:
        start_slurmd(nodes, first)
    cluster.wait(lambda: first not in nodes.of(job), "the first start's share to be given back")
    assert len(nodes.of(job)) == 1 and cluster.state(job) == "RUNNING"
    shown = cluster.ok(["scontrol", "show", "job", beside])
    assert set(nodes.of(beside)) == set(others) and " Restarts=0 " in shown, shown
    # What comes next finds all of it free.
    jobs = [nodes.submit(f"-w{first}", nodes.share.full_gpu) for _ in range(GPUS[first])]
    assert sorted(nodes.of(one)[first] for one in jobs) == [(gpu,) for gpu in range(GPUS[first])]


def test_a_node_that_loses_power_comes_back_with_nothing(nodes):
    cluster = nodes.cluster
    both = nodes.submit(
        "--no-requeue", "-N2", "--ntasks-per-node=1", "-wn1,n2", nodes.share.half_gpu, script="srun sleep 100"
    )
    cluster.ok("kill -KILL $(cat /run/lab/nodes/n2)")
    try:
        cluster.wait(lambda: "down" in nodes.states()["n2"], "n2 to be taken for down", patience=90)
        assert cluster.wait_state(both, "NODE_FAIL", "FAILED", "CANCELLED")
        cluster.wait(lambda: not nodes.of(both), "its entry on the node that lives to be taken back")
    finally:
        start_slurmd(nodes, "n2")
    assert not nodes.of(both)
    script = f"srun bash -c '{TELL}'; sleep 100"
    again = nodes.submit("-N2", "--ntasks-per-node=1", "-wn1,n2", nodes.share.half_gpu, script=script)
    cluster.wait(lambda: len(told(cluster.output(again))) == 2, "its output")
    check_each_has_its_own(nodes, cluster.output(again), nodes.of(again))


def test_no_room_on_one_node_fails_a_job_there_only(nodes):
    cluster, share = nodes.cluster, nodes.share
    if cluster.kind == "follow-mps":
        pytest.skip("Slurm picks the GPU")
    cluster.ok("echo Overcommit=refuse >>/etc/slurm/gpushare.conf")
    try:
        # Slurm counts 60 units on n2, which are 30 on each of its GPUs.
        for _ in range(2):
            nodes.submit("-wn2", f"--gres={share.gres}:50", user="bob")
        script = f"{TELL}; srun -K bash -c '{TELL}; sleep 100'"
        job = cluster.sbatch("-N2", "--ntasks-per-node=1", "-wn1,n2", f"--gres={share.gres}:40", script=script)
        assert cluster.finished(job) == "FAILED", cluster.output(job)
        # srun may be gone before it has all of what n2 says.
        text = cluster.output(job) + cluster.ok(f"grep -F '[{job}.' /var/log/slurm/slurmd-n2.log")
        assert "no GPU has 40 of its 80 units free" in text, text
        assert "at n2" not in text, "nothing ran there"
        cluster.wait(lambda: not nodes.of(job), "its entry on the other node to be taken back")
        assert all(not re.search("drain|down", state) for state in nodes.states().values()), nodes.states()
    finally:
        cluster.ok("sed -i /Overcommit/d /etc/slurm/gpushare.conf")


def test_a_ledger_that_is_broken_on_one_node_opens_nothing_there(nodes):
    cluster, share = nodes.cluster, nodes.share
    cluster.ok("mkdir -p /run/gpushare && rm -f /run/gpushare/lock && mkdir /run/gpushare/lock", node="n2")
    try:
        script = f"srun bash -c '{TELL}'"
        job = cluster.sbatch("-N2", "--ntasks-per-node=1", "-wn1,n2", share.half_gpu, script=script)
        end = cluster.finished(job)
        text = cluster.output(job)
        found = told(text)
        assert "n2" not in found or found["n2"][2] == "-", text
        # Under own only the prolog knows that the job has a share.
        assert end == "FAILED" or cluster.kind == "own", text
        assert all(not re.search("drain|down", state) for state in nodes.states().values()), nodes.states()
        cluster.wait(lambda: not nodes.of(job), "its entry on the other node to be taken back")
    finally:
        cluster.ok("rmdir /run/gpushare/lock", node="n2")
    nodes.submit("-wn2", share.half_gpu)


def test_whole_gpus_beside_shares_on_several_nodes(nodes):
    cluster, share = nodes.cluster, nodes.share
    if cluster.kind != "follow-mps":
        pytest.skip("whole GPUs and shares are on the same nodes under follow only")
    script = f"srun bash -c '{TELL}'; sleep 100"
    whole = [
        nodes.submit("-N2", "--ntasks-per-node=1", "-wn1,n2", "--gres=gpu:1", user="bob", script=script),
        nodes.submit("-wn3", "--gres=gpu:t4:3", user="root"),
    ]
    mixed = nodes.submit("-N3", "--ntasks-per-node=1", share.full_gpu, script=script)
    taken = [(node, gpu) for node, _, gpus, _ in nodes.entries() for gpu in gpus]
    assert len(taken) == len(set(taken)) == 2 + 3 + 3, taken
    cluster.wait(lambda: len(told(cluster.output(mixed))) == 3, "its output")
    check_each_has_its_own(nodes, cluster.output(mixed), nodes.of(mixed))
    text = cluster.wait(lambda: cluster.output(whole[0]).count("open=") == 2 and cluster.output(whole[0]), "its output")
    for node, gpus in nodes.of(whole[0]).items():
        assert re.search(rf"at {node} .*open={gpus[0]} ", text), text


def full_while_another_has_room(nodes, share):
    """Whether a GPU of n1 or n2 has more units than fill it, though another one has room for such a share."""
    assigned = nodes.assigned(nodes.entries())
    units = [*assigned["n1"], *assigned["n2"]]
    return max(units) > nodes.share.full >= min(units) + share


def test_lln_keeps_shares_from_meeting_where_another_node_has_room(nodes):
    """As `gpushare conf slurm` and `gpushare check` say. Slurm counts units, so by itself it fills n1 first."""
    cluster = nodes.cluster
    if cluster.kind == "follow-mps":
        pytest.skip("Slurm chooses the GPU, too")
    line = "# Add to PartitionName=p: LLN=YES"
    assert line in cluster.ok("gpushare conf slurm") and "LLN" in cluster.ok("gpushare check --all", node="n1")
    # In eightieths of a GPU: four fill n1 but for its rests, and each of the others fits a GPU of n2.
    units = [nodes.share.full * part // 80 for part in (65, 65, 65, 65, 38, 38, 38)]

    def all_at_once():
        for share in units:
            nodes.submit("-xn3", f"--gres={nodes.share.gres}:{share}")
        met = full_while_another_has_room(nodes, units[-1])
        cluster.cancel_all()
        nodes.wait_empty()
        return met

    assert all_at_once(), "what LLN is for"
    before = cluster.ok("cat /etc/slurm/nodes.conf") + "\n"
    try:
        cluster.ok("sed -i '/^PartitionName=p /s/$/ LLN=YES/' /etc/slurm/nodes.conf; /lab/service restart slurmctld")
        cluster.wait(nodes.are_idle, "idle nodes")
        assert not all_at_once()
        assert line not in cluster.ok("gpushare conf slurm")
        assert " LLN " not in cluster.ok("gpushare check --all", node="n1")
    finally:
        cluster.write("/etc/slurm/nodes.conf", before)
        cluster.ok("/lab/service restart slurmctld")
        cluster.wait(nodes.are_idle, "idle nodes")
