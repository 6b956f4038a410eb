# SPDX-License-Identifier: GPL-2.0-or-later
"""Updates of a whole array whose tasks have records of their own. slurmctld asks about each record, and gpushare checks
those that are alike once. Jobs are held and never run."""

import pytest


class Arrays:
    """Arrays of tasks with records of their own."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.prefix = "gres/" if cluster.newer_than("23.11") else "gres:"
        # 22.05 moves no job under a limit.
        self.moves = cluster.newer_than("23.02")

    def submit(self, options, tasks=8, before=""):
        batch = f"sbatch --parsable -H -o /dev/null --array=0-{tasks - 1} {options} --wrap true"
        job = self.cluster.ok(f"{before} {batch}", "alice").strip()
        # Not Nice, which releases a held job under priority/basic.
        assert self.update(f"{job}_[0-{tasks - 2}]", "Comment=x").returncode == 0
        return job

    def update(self, job, changes):
        return self.cluster.run(f"scontrol update job={job} {changes.replace('{P}', self.prefix)}", "alice")

    def logged(self, job, changes):
        """What the update says, and what the log has of it."""
        seen = len(self.cluster.log("slurmctld"))
        result = self.update(job, changes)
        return result, self.cluster.log("slurmctld")[seen:]

    def shown(self, job, what):
        """{task: what squeue shows}."""
        lines = self.cluster.ok(f"squeue -h -r -j {job} -o '%K {what}'").splitlines()
        return {int(task): shown for task, _, shown in (line.partition(" ") for line in lines)}


@pytest.fixture
def arrays(counted):
    yield Arrays(counted)
    counted.cancel_all()


@pytest.mark.parametrize("task", [0, 3, 7])
def test_a_task_that_was_changed_alone_is_judged_alone(arrays, task):
    """It alone has a GPU, or none, so it alone may use the partition, or none but it may."""
    job = arrays.submit("-n1")
    assert arrays.update(f"{job}_{task}", "TresPerNode={P}gpu:a40:1").returncode == 0
    result, log = arrays.logged(job, "partition=g")
    assert arrays.shown(job, "%P") == {other: "g" if other == task else "p" for other in range(8)}, result.stderr
    assert result.returncode and log.count("refused GS126") == 1, log


CHANGES = {
    "untyped": "TresPerNode={P}gpu:2",
    "per task": "TresPerNode= TresPerTask={P}gpu:1",
    "for the job": "TresPerNode= TresPerJob={P}gpu:1",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_task_with_other_gpus_stays_below_no_limit(arrays, change):
    """The others' GPUs would count in the partition, and this one's not."""
    if not arrays.moves:
        pytest.skip("22.05 adds no entry without a type to a request")
    arrays.cluster.ok("echo GovernedPartitions=all >>/etc/slurm/gpushare.conf")
    try:
        refused = lambda: arrays.cluster.run("sbatch --test-only -p all --gres=gpu:1 --wrap true", "alice").returncode
        arrays.cluster.wait(refused, "the new gpushare.conf")
        job = arrays.submit("--gres=gpu:a40:1")
        assert arrays.update(f"{job}_2", CHANGES[change]).returncode == 0
        _, log = arrays.logged(job, "partition=all")
        assert arrays.shown(job, "%P")[2] == "p", log
        assert "refused GS" in log, log
    finally:
        arrays.cluster.ok("sed -i /GovernedPartitions/d /etc/slurm/gpushare.conf")
        accepted = lambda: not refused()
        arrays.cluster.wait(accepted, "the old gpushare.conf")


def test_an_array_of_which_no_task_may_move_is_refused_once(arrays):
    job = arrays.submit("--gres=gpu:2")
    result, log = arrays.logged(job, "qos=three")
    assert result.returncode and log.count("refused GS") == 1, result.stderr + log
    assert set(arrays.shown(job, "%q").values()) == {"normal"}


LARGE = "env " + " ".join(f"V{number}=$(printf %0120000d 0)" for number in range(9))


@pytest.mark.parametrize("options", ["--gres=gpu:a40:1", "--gres=gpu:1", "-n2"])
def test_no_environment_is_read_if_it_makes_no_difference(arrays, options):
    """12 of 1 MB would be more than GS120 allows."""
    job = arrays.submit(options, 12, before=LARGE)
    for task in range(0, 12, 2):  # each is different
        assert arrays.update(f"{job}_{task}", f"MinCPUsNode={task + 1}").returncode == 0
    result, log = arrays.logged(job, "partition=all")
    assert result.returncode == 0, result.stderr + log
    assert set(arrays.shown(job, "%P").values()) == {"all"}
