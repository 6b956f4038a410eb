# SPDX-License-Identifier: GPL-2.0-or-later
"""GPUs for free as the page of Savio's users describes it, from docs/examples/savio;
only the wait before a job that was preempted starts again is shorter."""

import re
import shlex

import pytest
from shares import NOTHING, field, qos

FREE, PAID = "--qos=savio_lowprio", "--qos=a5k_gpu4_normal"
PAGE = ["-A", "fc_chenlab", "-p", "savio4_gpu"]

# A batch script with the page's options.
SCRIPT = """#!/bin/bash
#SBATCH --account=fc_chenlab
#SBATCH --partition=savio4_gpu
#SBATCH --gres=gpu:A5000:1 --cpus-per-task=4
#SBATCH --qos=savio_lowprio
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=/lab/out/page.%j
echo "gpus $SLURM_GPUS_ON_NODE"
"""
# Starts from scratch each time, and is through at the second.
PLAIN = """echo "run ${SLURM_RESTART_COUNT:-0}"
[ ${SLURM_RESTART_COUNT:-0} != 0 ] || sleep 600
echo done"""
# Saves its work every epoch, as the page's PyTorch programs do, and goes on from there.
EPOCHS = """file=/lab/out/epoch.$SLURM_JOB_ID
if [ -e $file ]; then echo "resumed after epoch $(cat $file)"; exit 0; fi
while true; do
    epoch=$((epoch + 1)); sleep 0.1; echo $epoch >$file.new; mv $file.new $file; echo "epoch $epoch"
done"""


@pytest.fixture(scope="module", autouse=True)
def applied(savio):
    # A requeued job starts again only when the credential of its first start has run out: two minutes, if nobody says
    # so.
    savio.ok("echo AuthInfo=cred_expire=5 >>/etc/slurm/extra.conf; /lab/service restart slurmctld")
    result = qos(savio, "apply", conf=None)
    assert result.returncode == 0 and result.stderr == "", result.stderr


@pytest.fixture(autouse=True)
def clean(savio):
    yield
    savio.cancel_all()


def seen(cluster, job):
    """What slurmctld shows of a job."""
    text = cluster.ok(["scontrol", "-o", "show", "job", job]).splitlines()[0]
    return dict(word.split("=", 1) for word in shlex.split(text, posix=False) if "=" in word)


def told(cluster, *options, user="alice"):
    """A job that must be accepted, held: its number, and what the user reads."""
    result = cluster.run(["sbatch", "-H", "--parsable", "-o", "/dev/null", *PAGE, *options, "--wrap", "true"], user)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip(), result.stderr


def test_everybody_may_use_the_free_qos(savio):
    assert qos(savio, "apply", conf=None).stdout == NOTHING
    # The page's own line.
    ask = "sacctmgr -p show associations user=$USER | grep savio_lowprio"
    rows = {user: savio.ok(ask, user).splitlines() for user in ("alice", "bob")}
    assert sorted(row.split("|")[:4] for row in rows["alice"]) == [
        ["lab", "fc_chenlab", "alice", "savio3_gpu"], ["lab", "fc_chenlab", "alice", "savio4_gpu"]]
    assert [row.split("|")[:4] for row in rows["bob"]] == [["lab", "others", "bob", ""]]
    assert all("a5k_gpu4_normal" in row for row in rows["alice"]) and "a5k_gpu4_normal" not in rows["bob"][0]
    # slurmctld knows it as well as the database, without a restart.
    for user, partition, kind in (
            ("alice", "savio4_gpu", "A5000"), ("alice", "savio3_gpu", "A40"), ("bob", "savio3_gpu", "V100")):
        savio.sbatch("-H", FREE, f"-p{partition}", f"--gres=gpu:{kind}:1", user=user)
    refused = savio.run(["sbatch", PAID, "--gres=gpu:A5000:1", "--wrap", "true"], "bob")
    assert refused.returncode != 0 and "Invalid qos specification" in refused.stderr


def test_what_the_free_qos_is(savio):
    assert field(savio, "savio_lowprio", "UsageFactor,Flags,PreemptMode") == "0.000000|NoReserve|requeue"
    for owner in ("a5k_gpu4_normal", "a40_gpu3_normal", "v100_gpu3_normal", "gtx2080_gpu3_normal"):
        assert field(savio, owner, "Preempt") == "savio_lowprio"


def test_the_pages_commands(savio):
    line = (
        "srun --pty -A fc_chenlab -p savio4_gpu --qos savio_lowprio --gres gpu:A5000:1 "
        "--cpus-per-task 4 -t 02:00:00 bash"
    )
    said = savio.ok(
        shlex.split(line), "alice", stdin='echo "gpus $SLURM_GPUS_ON_NODE, cpus $SLURM_CPUS_PER_TASK"\nexit\n'
    )
    assert "gpus 1, cpus 4" in said, said
    savio.ok("cat >/lab/out/slurm_job.sh", stdin=SCRIPT)
    result = savio.run(["sbatch", "--parsable", "/lab/out/slurm_job.sh"], "alice")
    assert result.returncode == 0 and result.stderr == "", "nothing is left to say to who says it all"
    job = result.stdout.strip()
    assert savio.finished(job) == "COMPLETED"
    assert savio.output(f"page.{job}") == "gpus 1\n"


def test_types_have_capitals(savio):
    """Slurm's database keeps them in small letters, and nodes are found by the capitals."""
    for wrong, number in (("gpu:2", "GS101"), ("gpu:a5000:2", "GS102")):
        refused = savio.run(["sbatch", *PAGE, PAID, f"--gres={wrong}", "--wrap", "true"], "alice")
        assert refused.returncode != 0 and number in refused.stderr, refused.stderr
        assert "this QOS has: A5000 (12)" in refused.stderr
        advice = re.search(r"try: (.*)", refused.stderr).group(1).split()
        assert advice == [PAID, "--gres=gpu:A5000:2"]
        explained = savio.run(["gpushare", "explain", "--", *PAGE, PAID, f"--gres={wrong}"], "alice")
        assert explained.returncode == 1 and "this QOS has: A5000 (12)" in explained.stdout, explained
    first = savio.sbatch(*PAGE, *advice)
    savio.wait_state(first, "RUNNING")
    assert "gres/gpu:a5000=2" in savio.ok(["scontrol", "show", "job", first])
    # The limit holds, whatever the capitals.
    second = savio.sbatch(*PAGE, PAID, "--gres=gpu:A5000:11")
    savio.wait(lambda: seen(savio, second)["Reason"] == "QOSGrpGRES", "the limit on the type")
    table = savio.ok(["gpushare", "qos", "docs"], "alice")
    assert "a5k_gpu4_normal" in table and "--gres=gpu:A5000:" in table, table


def test_a_free_job_gives_way_and_runs_again(savio):
    plain = savio.sbatch(FREE, "-psavio4_gpu", "--gres=gpu:A5000:6", script=PLAIN, user="bob")
    saving = savio.sbatch(FREE, *PAGE, "--gres=gpu:A5000:6", script=EPOCHS)
    for job in (plain, saving):
        savio.wait_state(job, "RUNNING")
    savio.wait(lambda: "run 0" in savio.output(plain) and "epoch 3" in savio.output(saving), "both to be at work")

    paid = savio.sbatch(PAID, *PAGE, "--gres=gpu:A5000:12", script="sleep 1; echo paid")
    assert savio.finished(paid) == "COMPLETED" and savio.output(paid) == "paid\n"
    assert [seen(savio, job)["Restarts"] for job in (plain, saving, paid)] == ["1", "1", "0"], "both were queued again"
    for job in (plain, saving):
        assert savio.finished(job) == "COMPLETED"
    # Nobody said --requeue or --open-mode.
    text = savio.output(plain)
    assert "DUE TO PREEMPTION ***\n" in text
    assert [line for line in text.splitlines() if "***" not in line] == ["run 0", "run 1", "done"], text
    text = savio.output(saving)
    assert text.startswith("epoch 1\n") and re.search(r"resumed after epoch ([3-9]|\d\d+)\n$", text), text


def test_a_free_job_does_not_preempt(savio):
    paid = savio.sbatch(PAID, *PAGE, "--gres=gpu:A5000:8")
    free = savio.sbatch(FREE, *PAGE, "--gres=gpu:A5000:4")
    for job in (paid, free):
        savio.wait_state(job, "RUNNING")
    another = savio.sbatch(FREE, "-psavio4_gpu", "--gres=gpu:A5000:1", user="bob")
    savio.wait(lambda: seen(savio, another)["Reason"] in ("Resources", "Priority"), "the job to wait")
    assert [savio.state(job) for job in (paid, free, another)] == ["RUNNING", "RUNNING", "PENDING"]
    assert [seen(savio, job)["Restarts"] for job in (paid, free)] == ["0", "0"]


def running(cluster, array):
    return len(cluster.ok(["squeue", "-h", "-r", "-t", "R", "-j", array]).splitlines())


def test_an_array_of_long_tasks_is_eight_at_a_time(savio):
    for throttle in ("%8", "%4"):
        job, said = told(savio, FREE, f"--array=0-127{throttle}", "-t3:00:00")
        assert "GS154" not in said and seen(savio, job)["ArrayTaskThrottle"] == throttle[1:], "the user's own"
    for throttle in ("", "%16"):
        job, said = told(savio, FREE, f"--array=0-127{throttle}", "-t3:00:00")
        assert seen(savio, job)["ArrayTaskThrottle"] == "8"
        assert "runs at most 8 array tasks longer than 2:00 hours at once: --array=0-127%8 was set (GS154)" in said, (
            said
        )
    _, said = told(savio, PAID, "--array=0-127", "-t3:00:00")
    assert said == "", "whoever pays has them all at once"
    savio.cancel_all()

    tasks = ["--array=0-11", "--gres=gpu:A5000:1"]
    array = savio.sbatch(FREE, *PAGE, *tasks, "-t3:00:00")
    savio.wait(lambda: running(savio, array) == 8, "eight tasks")
    why = ["squeue", "-h", "-j", array, "-t", "PD", "-o", "%r"]
    savio.wait(lambda: "JobArrayTaskLimit" in savio.ok(why), "the others to wait")
    assert running(savio, array) == 8, "though there are GPUs for twelve"
    savio.cancel_all()
    array = savio.sbatch(FREE, *PAGE, *tasks, "-t1:00:00")
    savio.wait(lambda: running(savio, array) == 12, "all the short ones")


def charged(cluster):
    """What fair-share has counted of alice's use, in billing seconds."""
    rows = cluster.ok(
        ["sshare", "-nP", "-m", "-ualice", "-Afc_chenlab", "--format=User,Partition,RawUsage"]
    ).splitlines()
    found = {tuple(column.strip() for column in row.split("|")[:2]): row.split("|")[2] for row in rows}
    return int(found["alice", "savio4_gpu"])


def test_a_free_job_costs_nothing(savio):
    before = charged(savio)
    jobs = {which: savio.sbatch(which, *PAGE, "--gres=gpu:A5000:1", "-c4", script="sleep 3") for which in (FREE, PAID)}
    for job in jobs.values():
        assert savio.finished(job) == "COMPLETED"

    def accounted(job):
        row = savio.ok(["sacct", "-nXP", "-j", job, "--format=state,elapsedraw,alloctres"])
        return row.startswith("COMPLETED") and row.split("|")[1:]

    for job in jobs.values():
        seconds, tres = savio.wait(lambda job=job: accounted(job), "the job in sacct")
        assert "billing=4" in tres.split(",") and int(seconds) >= 3, "both have the same price"
    # The one that pays is charged, and it alone.
    savio.wait(lambda: charged(savio) > before, "the usage to be counted")
    assert abs(charged(savio) - before - 4 * int(seconds)) <= 4, "a second more or less"
