# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether an installation on a running cluster works, however it was made."""

from gpus import OPEN, opened

SHARE = "--gres=gpushare:40"
# A request for more units than any GPU has.
REFUSED = ["sbatch", "--gres=gpushare:81", "--wrap", "true"]
ALL = {0, 1, 2, 3}
FILES = "find /usr /etc ! -type d | LC_ALL=C sort"


def could_open(cluster, *options):
    """The GPUs that a job could open; the job must complete."""
    job = cluster.sbatch(*options, script=OPEN)
    assert cluster.finished(job) == "COMPLETED", cluster.output(job)
    return opened(cluster.output(job))


def could_open_in(cluster, job):
    """The same for a new step of a job."""
    return opened(cluster.ok(["srun", f"--jobid={job}", "--overlap", "-n1", OPEN], "alice"))


def healthy(cluster):
    cluster.wait_idle()
    return True


def no_step_is_left(cluster):
    cluster.wait(lambda: not cluster.run("pgrep slurmstepd").stdout, "the end of the last step")
    return True


def plugin_in_memory(cluster):
    """slurmctld's process, and the plugin's lines in its memory."""
    # In Debian's unit, slurmctld writes no file.
    pid = cluster.ok("cat /run/slurm/slurmctld.pid 2>/dev/null || systemctl show --property MainPID --value slurmctld")
    return pid, cluster.run(f"grep job_submit_gpushare /proc/{pid}/maps").stdout.splitlines()
