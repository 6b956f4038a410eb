# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare idle` under a real Slurm: it warns users of jobs that don't use their GPUs, and ends these jobs as
gpushare.conf says. tests/fakes/nvml.c says which processes use a GPU. cgroup v1 with 22.05, v2 with the others."""

import json

import client
import pytest
from clusters import clusters
from gpus import uuids
from lab import CASES, EXAMPLES, TOP

LIBRARY, CONF = "/lab/out/libnvidia-ml.so.1", "/etc/slurm/gpushare.conf"
CONFS = [EXAMPLES / "follow-mps"]
idle_node = clusters("idle", conf=CONFS, cgroup=lambda release: "v1" if release == "22.05" else "v2")
# The same where systemd is, for the timer's unit.
with_units = clusters("idle-unit", conf=[*CONFS, CASES / "systemd"], cgroup="v2", systemd=True, in_turn=True)
BASE = (EXAMPLES / "follow-mps/gpushare.conf").read_text() + f"Nvml={LIBRARY}\nNvmlTimeout=10000\n"
TIMES = "IdleWarn=0:00:01,0:00:02 IdleLimit=0:00:03"
RULES = TIMES.replace(" ", "\n") + "\nIdleAction=cancel\n"
WARNED = "has not used its GPUs for "
# Looks until an idle job ends: the first one, one for each warning, and the last.
LOOKS = 4


def prepared(cluster, folder):
    fake = folder / "libnvidia-ml.so.1"
    client.compiled(TOP / "tests/fakes/nvml.c", cluster.release, fake, "-shared", "-fPIC")
    client.install(cluster, fake, LIBRARY)
    return cluster


@pytest.fixture(scope="module")
def prepared_node(idle_node, tmp_path_factory):
    return prepared(idle_node, tmp_path_factory.mktemp("fake"))


@pytest.fixture
def node(prepared_node):
    says(prepared_node)
    yield prepared_node
    prepared_node.tidy()
    prepared_node.ok("rm -rf /run/gpushare/idle /run/gpushare/nvml")


def says(node, busy=None, more=""):
    """What NVML says: one job uses its GPUs."""
    idle, work, there = "total=46068 reserved=260 used=100 utilization=0", "", ""
    if busy:
        pid = node.wait(lambda: node.output(busy).partition("pid=")[2].split(), "its process")[0]
        work, there = f" pid={pid} busy={pid}:50", node.ok(["cat", f"/run/gpushare/jobs/{busy}"])
    gpus = (f"gpu {uuid} {minor} {idle}{work if uuid in there else ''}\n" for minor, uuid in enumerate(uuids(node)))
    node.write(f"{LIBRARY}.state", "".join(gpus) + more)


def rules(node, text):
    node.write(CONF, BASE + text)


def running(node, *options, user="alice"):
    job = node.sbatch("--gres=gpu:a40:1", *options, script="echo pid=$$; while :; do sleep 0.2; done", user=user)
    node.wait(lambda: "pid=" in node.output(job), f"output of {job}")
    return job


def look(node, *options):
    """The exit status, and what is said of each job."""
    said = node.run(["gpushare", "idle", "--json", *options])
    assert said.stdout.startswith("{"), said
    return said.returncode, {str(one["id"]): one for one in json.loads(said.stdout)["jobs"]}, said.stderr


def test_idle_jobs_are_warned_and_end_as_their_rule_says(node):
    if node.run("scontrol show partition quiet").returncode:
        node.ok("scontrol create PartitionName=quiet Nodes=ALL State=UP")
    rules(
        node, f"{RULES}IdleExemptUsers=bob\nIdleGrace=1:00:00\n"
        f"QOS=qos_lafferty {TIMES} IdleAction=requeue\nPartitionName=quiet {TIMES} IdleAction=warn\n"
    )
    cancelled = running(node, "--array=3")
    cancelled = node.ok(f"squeue -h -o %A -j {cancelled}")
    requeued = running(node, "--qos=qos_lafferty")
    share = "--gres=mps:20"
    warned, exempt = running(node, share, "-p", "quiet"), running(node, share, user="bob")
    busy = running(node, share)
    interactive = node.ok(f"salloc --no-shell {share} 2>&1 | sed -n 's/.*Granted job allocation //p'", "alice")
    says(node, busy)
    for number in range(LOOKS):
        assert node.state(cancelled) == node.state(requeued) == "RUNNING", number
        status, jobs, errors = look(node)
        assert not errors and busy not in jobs, (jobs, errors)
    done = {job: (one["warned"], one["step"], one["done"]) for job, one in jobs.items()}
    assert status == 1 and done == {
        cancelled: (2, "cancel", "cancelled"), requeued: (2, "requeue", "requeued"), warned: (2, "over", None),
        exempt: (0, "none", None), interactive: (0, "none", None),
    }, jobs
    assert node.finished(cancelled) == "CANCELLED"
    node.wait(lambda: node.fields(requeued)["Restarts"] == "1", "the requeue")
    for job in (warned, exempt, interactive, busy):
        assert node.state(job) == "RUNNING", job
    lines = lambda job: [line for line in node.output(job).splitlines() if WARNED in line]
    node.wait(lambda: len(lines(warned)) == 2, "both lines in the output")
    assert not lines(busy) and not lines(exempt)


def test_what_can_not_be_requeued_is_cancelled_and_each_task_ends_alone(node):
    rules(node, RULES.replace("cancel", "requeue"))
    never = running(node, "--no-requeue")
    array = node.sbatch("--gres=gpu:a40:1", "--array=0-1", script="echo pid=$$; while :; do sleep 0.2; done")
    tasks = node.wait(
        lambda: (found := node.ok(f"squeue -h -r -t R -o %A -j {array}").split()) and len(found) == 2 and found, "tasks"
    )
    using = next(task for task in tasks if task != array)
    says(node, using)
    # Their users can stop them, and let them go on themselves: they keep their GPUs.
    handles = dict(line.split() for line in node.ok(["squeue", "-h", "-r", "-o%A %i"]).splitlines())
    for job in (never, array):
        node.ok(["scancel", "--signal=STOP", handles[job]], "alice")
        node.wait(lambda: f"{job} STOPPED" in node.ok(["squeue", "-h", "-r", "-o%A %T"]), f"the signal for {job}")
    for _ in range(LOOKS):
        _, jobs, _ = look(node)
    assert {job: one["done"] for job, one in jobs.items()} == {never: "cancelled", array: "requeued"}, jobs
    assert node.finished(never) == "CANCELLED" and node.state(using) == "RUNNING"


def test_without_nvml_or_slurmctld_nobody_ends_and_a_dry_run_changes_nothing(node):
    rules(node, RULES)
    job = running(node)
    for _ in range(LOOKS - 1):
        look(node)
    kept = node.ok(["cat", f"/run/gpushare/idle/{job}"])
    assert json.loads(kept)["idle"] and len(json.loads(kept)["told"]) == 2, kept
    for trouble in ("fail nvmlInit_v2 999\n", "crash nvmlInit_v2\n"):
        says(node, more=trouble)
        status, jobs, errors = look(node)
        assert (status, jobs) == (2, {}) and "so no job counts as idle now" in errors, errors
    # Of one GPU it says nothing.
    says(node, more="fail nvmlDeviceGetUtilizationRates 999\n")
    assert look(node)[:2] == (0, {})
    says(node)
    node.ok("/lab/service stop slurmctld")
    try:
        said = node.run(["gpushare", "idle"], timeout=60)
        assert said.returncode == 2 and "slurmctld doesn't answer" in said.stderr, said
    finally:
        node.ok("/lab/service start slurmctld")
    assert node.ok(["cat", f"/run/gpushare/idle/{job}"]) == kept and node.state(job) == "RUNNING"
    status, jobs, _ = look(node, "--dry-run")
    assert (status, jobs[job]["step"], jobs[job]["done"]) == (1, "cancel", None), jobs
    assert f"job {job} of alice: idle for " in node.run("gpushare idle --dry-run").stdout
    assert node.ok(["cat", f"/run/gpushare/idle/{job}"]) == kept and node.state(job) == "RUNNING"
    node.ok(["scontrol", "suspend", job])
    assert look(node)[:2] == (0, {})
    node.ok(["scontrol", "resume", job])
    assert look(node)[1][job]["idle"] == 0, "it begins anew"
    node.ok(f"echo torn >/run/gpushare/idle/{job}")
    _, jobs, errors = look(node)
    assert jobs[job]["idle"] == 0 and f"/run/gpushare/idle/{job} can't be read" in errors, errors
    assert "run it as root" in node.run("gpushare idle", user="alice").stderr
    assert node.state(job) == "RUNNING"


def test_an_allocation_that_no_program_uses_ends_too(node):
    """`scontrol notify` can't reach it: it has neither salloc nor a step."""
    rules(node, RULES)
    job = node.ok("salloc --no-shell --gres=mps:20 2>&1 | sed -n 's/.*Granted job allocation //p'", "alice").strip()
    done = []
    for _ in range(LOOKS):
        assert node.state(job) == "RUNNING"
        _, jobs, errors = look(node)
        assert not errors, errors
        done.append(jobs[job]["done"])
    assert done == [None, *2 * ["has no output to warn on"], "cancelled"] and node.finished(job) == "CANCELLED"


def test_check_finds_mistakes_in_the_keys(node):
    rules(node, "QOS=q IdleWarn=1:00:00 IdleLimit=0:30:00\n")
    [said] = [one["said"] for one in node.findings("gpushare.conf")]
    assert "IdleLimit can't be '00:30:00'; allowed is off, or a time above IdleWarn" in said
    assert node.run("gpushare idle").returncode == 2
    rules(node, f"QOS=qos_laferty {TIMES}\nPartitionName=r IdleLimit=off\n")
    assert [one["said"] for one in node.findings("QOS")] == ["no QOS 'qos_laferty'; did you mean 'qos_lafferty'?"]
    assert [one["said"] for one in node.findings("PartitionName")] == ["no partition 'r'."]
    rules(node, "")
    assert node.ok("gpushare idle") == "no IdleLimit in gpushare.conf" and look(node) == (0, {}, "")


def test_a_node_that_can_not_tell_is_no_failure(node):
    rules(node, RULES)
    says(node, more="fail nvmlInit_v2 999\n")
    assert look(node) == (0, {}, ""), "no job has GPUs"
    job = running(node)
    node.write(CONF, BASE.replace(f"Nvml={LIBRARY}", "Nvml=off") + RULES)
    assert look(node) == (0, {}, "")
    node.write(CONF, f"Placement=off\n{RULES}")
    assert "Placement=off: it is unknown" in node.ok("gpushare idle") and look(node) == (0, {}, "")
    assert node.state(job) == "RUNNING"


def test_the_timers_unit_looks_and_acts(with_units, tmp_path):
    lab = prepared(with_units, tmp_path)
    says(lab)
    rules(lab, RULES)
    for kind in ("service", "timer"):
        lab.write(f"/etc/systemd/system/gpushare-idle.{kind}", (TOP / f"packaging/gpushare-idle.{kind}").read_text())
    lab.ok("systemctl daemon-reload")
    said = lab.run("systemd-analyze verify --man=no /etc/systemd/system/gpushare-idle.{service,timer}")
    assert "gpushare" not in said.stdout + said.stderr, said
    job = running(lab)
    for _ in range(LOOKS):
        lab.ok("systemctl start gpushare-idle.service", timeout=60)
    assert lab.finished(job) == "CANCELLED"
    said = lab.ok("journalctl -o cat -u gpushare-idle")
    assert f"job {job} of alice: idle for " in said and ": warned\n" in said and ": cancelled" in said, said
    rules(lab, "IdleLimit=x\n")
    assert lab.run("systemctl start gpushare-idle.service").returncode == 1
    lab.ok("systemctl reset-failed gpushare-idle.service")
