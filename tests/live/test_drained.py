# SPDX-License-Identifier: GPL-2.0-or-later
"""A GPU out of service: it takes no share, its jobs run on, and Slurm's count follows where Slurm only counts."""

import json
import re

import pytest
from gpus import OPEN, SHARES, opened

FILE = "/var/lib/gpushare/drained"
REASON = "the fan is broken"


@pytest.fixture
def node(placed):
    """Every test begins and ends with all GPUs in service."""
    placed.cancel_all()
    placed.run(f"rm -f {FILE}")
    yield placed
    placed.run(f"rm -f {FILE}")
    placed.tidy()


@pytest.fixture
def share(node):
    return SHARES[node.kind]


@pytest.fixture
def chosen(node, share):
    """The share of a node where gpushare chooses the GPU."""
    if node.kind.startswith("follow"):
        pytest.skip("Slurm chooses the GPU")
    return share


def drain(node, *gpus, user="root", reason=REASON):
    return node.run(["gpushare", "gpu", "drain", *gpus, "--reason", reason], user)


def resume(node, *gpus, user="root"):
    return node.run(["gpushare", "gpu", "resume", *gpus], user)


def test_it_takes_no_share_and_its_job_runs_on(node, chosen):
    first, gpu = node.start(chosen.half_gpu)
    assert gpu == "0"
    done = drain(node, "0")
    assert done.returncode == 0 and done.stdout.startswith("GPU 0 takes no more shares; 1 job on it may finish\n"), done
    # Half of what the other three GPUs have.
    jobs = [node.sbatch(chosen.half_gpu, script=f"{OPEN}; sleep 60") for _ in range(5)]
    for job in jobs:
        node.wait(lambda: opened(node.output(job)), f"output of job {job}")
    assert sorted(node.ledger()[job] for job in jobs) == [1, 1, 2, 2, 3]
    # The job that was there before still opens it.
    assert opened(node.ok(["srun", f"--jobid={first}", "--overlap", OPEN], "alice")) == [{0}]
    assert resume(node, "0").stdout.startswith("GPU 0 takes shares again\n")
    assert node.start(chosen.half_gpu)[1] in ("0", "3")


def test_a_reboot_changes_nothing(node, chosen):
    """Of what gpushare has on a node, only the ledger in /run is lost then."""
    uuid = json.loads(node.ok("gpushare status --json"))["gpus"][0]["uuid"]
    assert drain(node, uuid).returncode == 0
    node.ok("/lab/service stop slurmd; rm -rf /run/gpushare; /lab/service start slurmd", timeout=60)
    assert node.start(chosen.half_gpu)[1] == "1"
    # What nothing has initialised since boot has no UUID, but its place.
    node.ok(f"sed -i 's/^{uuid}/GPU-{'?' * 8}/; s/^GPU-????????/-/' {FILE}")
    assert node.start(chosen.half_gpu)[1] == "2"


def dated(text):
    """Without the seconds that pass meanwhile."""
    return re.sub(r"\b00:00:\d\d", "some seconds", re.sub(r"\b12-00:0\d:\d\d", "12 days", text))


def test_everyone_sees_who_why_and_how_long(node, chosen):
    assert drain(node, "2").returncode == 0
    ago = int(node.ok("date +%s")) - 12 * 86400
    node.ok(f"sed -i -E 's/ [0-9]+ root / {ago} root /' {FILE}")
    said = f"GPU 2 is drained for 12 days by root: {REASON}"
    for user in ("root", "alice"):
        assert said in dated(node.ok("gpushare status", user)).splitlines()
    row = json.loads(node.ok("gpushare status --json", "alice"))["gpus"][2]
    assert (row["free"], dated(row["fault"])) == (0, said.split(" is ", 1)[1])
    found = node.findings("drained")
    assert [(one["status"], dated(one["said"])) for one in found][0] == ("unknown", said)
    figures = node.ok("gpushare metrics").splitlines()
    drained = [line for line in figures if line.startswith("gpushare_gpu_drained{")]
    assert [line[-1] for line in drained] == ["0", "0", "1", "0"]
    assert not [line for line in figures if line.startswith("gpushare_gpu_healthy{") and line[-1] == "0"]


def test_slurms_count_follows_where_slurm_only_counts(node, chosen):
    """With a share that runs all along. If slurmctld's count isn't slurmd's, Slurm drains the node at slurmd's next
    registration, as each restart of slurmd is one."""
    if node.kind != "own":
        pytest.skip("Slurm refuses another count of a GRES with File=")
    conf = "cd /etc/slurm && "
    count = lambda: node.ok(["sinfo", "-h", "-N", "-o", "%G %T"])
    counts = lambda: [node.findings(about) for about in ("UnitsPerGpu", "gres.conf", "Placement")]

    def follow(done):
        """What the command says about the files and the order, done."""
        said = done.stdout.splitlines()[-1]
        gres, units, first, then = re.search(
            r"slurm.conf: Gres=(\S+) for \S+, and gres.conf: Count=(\d+); then restart (\w+).* then (\w+)", said
        ).groups()
        for file, key, value in (("nodes.conf", "Gres", gres), ("gres.conf", "Count", units)):
            node.ok(f"{conf}sed -i 's/{key}=[^ ]*/{key}={value}/' {file}")
        for daemon in (first, then):
            node.ok(f"/lab/service restart {daemon}", timeout=60)

    before = counts()
    node.ok(f"{conf}cp nodes.conf gres.conf /tmp")
    try:
        runs, _ = node.start(chosen.full_gpu)
        done = drain(node, "2")
        assert len(node.findings("drained")) == 2
        follow(done)
        node.wait(lambda: count() == "gpushare:240 mixed", "the lower count")
        assert len(node.findings("drained")) == 1 and counts() == before
        jobs = [runs] + [node.sbatch(chosen.full_gpu) for _ in range(3)]
        for job in jobs[:3]:
            node.wait_state(job, "RUNNING")
        assert sorted(node.ledger()[job] for job in jobs[:3]) == [0, 1, 3]
        assert node.state(jobs[3]) == "PENDING"
        # The fourth begins when all are back, and not before.
        done = resume(node, "2")
        assert [one["status"] for one in node.findings("UnitsPerGpu")] == ["wrong"]
        assert not [one for one in node.findings("gres.conf") if one["status"] != "ok"]
        follow(done)
        node.wait_state(jobs[3], "RUNNING")
        assert node.ledger()[jobs[3]] == 2
        assert count() == "gpushare:320 mixed" and counts() == before
        assert node.state(runs) == "RUNNING"
    finally:
        node.ok(f"{conf}mv /tmp/nodes.conf /tmp/gres.conf .")


def test_where_slurm_chooses_it_is_not_drained_and_one_that_is_takes_no_job(node, share):
    if not node.kind.startswith("follow"):
        pytest.skip("gpushare chooses the GPU")
    refused = drain(node, "0")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("gpushare: Placement=follow: Slurm chooses the GPU ")
    assert node.run(f"test -e {FILE}").returncode != 0
    # As after a change of Placement.
    node.ok(f"mkdir -p /var/lib/gpushare && echo '- nvidia0 1 root {REASON}' >{FILE}")
    place = node.ok("grep -l 'Minor:.* 0$' /proc/driver/nvidia/gpus/*/information").split("/")[-2]
    node.ok(f"sed -i s/nvidia0/{place}/ {FILE}")
    job = node.sbatch(share.half_gpu)
    assert node.finished(job) == "FAILED"
    assert f"drained by root: {REASON}" in node.output(job), node.output(job)
    assert node.findings("drained")[0]["status"] == "wrong"
    assert resume(node, "0").returncode == 0
    assert node.start(share.half_gpu)[1] == "0"


def test_of_two_commands_the_second_waits_and_nothing_is_lost(node, chosen):
    assert drain(node, "0").returncode == 0
    # Holds the lock until the command waits for it, and changes the file meanwhile.
    holder = f"""
        exec 9</var/lib/gpushare/lock; flock 9
        gpushare gpu drain 1 2 3 --reason '{REASON}' 9<&- & command=$!
        until grep -q lock_inode /proc/$command/wchan; do kill -0 $command || exit 1; sleep 0.01; done
        echo '- nvidia9 1 root another' >>{FILE}
        exec 9<&-; wait $command"""
    node.ok(holder)
    assert len(node.ok(f"cat {FILE}").splitlines()) == 5
    # Nobody else can take that lock.
    assert node.run("exec 9</var/lib/gpushare/lock", "alice").returncode != 0
    # Now nothing is left.
    job = node.sbatch(chosen.half_gpu)
    assert node.finished(job) == "FAILED"
    assert "every GPU is allocated whole to a job or can't be used" in node.output(job)
    assert resume(node, "0,1,2,3").returncode == 0
    assert node.start(chosen.half_gpu)[1] == "0"


def test_what_cannot_be_done_is_said_in_one_line(node, chosen):
    assert drain(node, "1").returncode == 0
    kept = node.ok(f"cat {FILE}")
    for done, status, said in [
        (drain(node, "1"), 1, f"GPU 1 is already drained for some seconds by root: {REASON}"),
        (drain(node, "0,1"), 1, f"GPU 1 is already drained for some seconds by root: {REASON}"),
        (drain(node, "4"), 2, "'4' is none of this node's 4 GPUs; see gpushare status"),
        (drain(node, "0", user="alice"), 2, "only root takes GPUs out of service, and back"),
        (drain(node, "0", reason=" "), 2, "--reason: say why, for those who see it later"),
        (resume(node, "0"), 1, "GPU 0 is not drained"),
        (resume(node, "1", "0"), 1, "GPU 0 is not drained"),
        (resume(node, "/dev/nvidia9"), 2, "'/dev/nvidia9' is none of this node's 4 GPUs; see gpushare status"),
    ]:
        assert (done.returncode, done.stdout, dated(done.stderr)) == (status, "", f"gpushare: {said}\n")
    elsewhere = resume(node, "1", "--conf", "/nowhere/gpushare.conf")
    assert elsewhere.returncode == 2 and elsewhere.stderr.count("\n") == 1, elsewhere
    assert node.ok(f"cat {FILE}") == kept
