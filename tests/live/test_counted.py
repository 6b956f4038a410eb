# SPDX-License-Identifier: GPL-2.0-or-later
"""What slurmctld counts against what it gives: requests and updates that name their types and would still run beyond a
limit. Jobs have no processes; slurmctld's own record says what they got."""

import contextlib
import re

import pytest


class Counted:
    """Submitting and updating, and what ran."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.prefix = "gres/" if cluster.newer_than("23.11") else "gres:"
        # Up to 23.11 Slurm counts what it picked.
        self.predicts = cluster.newer_than("24.05")
        self.moves = cluster.newer_than("23.02")

    def submit(self, options, user="alice"):
        return self.cluster.run(f"sbatch --parsable -o /dev/null {options} --wrap 'sleep 60'", user)

    def job(self, options, user="alice"):
        result = self.submit(options, user)
        assert result.returncode == 0, f"{options}: {result.stderr}"
        return result.stdout.strip()

    def refused(self, number, options):
        """Refused with that message; what it says to try is accepted. Returns the job of that."""
        result = self.submit(options)
        assert result.returncode != 0 and number in result.stderr, f"{options}: {result.stdout}{result.stderr}"
        advice = re.search(r"try: (.*)", result.stderr)
        return advice and self.job(advice.group(1).replace("TYPE", "a40"))

    def update(self, job, changes):
        return self.cluster.run(f"scontrol update job={job} {changes.replace('{P}', self.prefix)}", "alice")

    def update_refused(self, number, job, changes):
        """Refused with that message, and no field has changed."""
        before, seen = self.cluster.fields(job), len(self.cluster.log("slurmctld"))
        result = self.update(job, changes)
        assert result.returncode != 0, f"{changes} was accepted"
        assert f"refused {number}" in self.cluster.log("slurmctld")[seen:], (changes, result.stderr)
        now = self.cluster.fields(job)
        same = ("QOS", "Account", "Partition", "Reservation", "TresPerNode", "TresPerJob", "TresPerTask", "NumTasks")
        assert {key: now.get(key) for key in same} == {key: before.get(key) for key in same}, changes
        return result.stderr

    def given(self, job, tres="gres/gpu"):
        """How many a running job has."""
        found = re.search(rf"[=,]{tres}=(\d+)", self.cluster.fields(job).get("AllocTRES", ""))
        return int(found.group(1)) if found else 0

    def runs(self, job):
        self.cluster.wait_state(job, "RUNNING")
        return self.given(job)

    @contextlib.contextmanager
    def rules(self, more):
        """gpushare.conf with these lines as well."""
        conf = self.cluster.ok("cat /etc/slurm/gpushare.conf") + "\n"
        self.write(conf + more + "\n")
        try:
            yield
        finally:
            self.write(conf)

    def write(self, content):
        read = lambda: self.cluster.log("slurmctld").count("gpushare.conf read again")
        before = read()
        self.cluster.write("/etc/slurm/gpushare.conf", content)

        def seen():
            self.cluster.run("sbatch --test-only --wrap true", "alice")
            return read() > before

        self.cluster.wait(seen, "the new gpushare.conf")


@pytest.fixture
def count(counted):
    yield Counted(counted)
    counted.cancel_all()


def test_a_share_whose_name_begins_with_gpu_counts_under_an_account(count):
    """The QOS counts every such share, the account those of one type."""
    count.refused("GS101", "--qos=with_shares -A lab --gres=gpushare:40")
    count.refused("GS102", "--qos=with_shares -A lab --gres=gpushare:mAA0zxtUzzzz:40")
    job = count.job("--qos=with_shares -A lab --gres=gpushare:a40:40")
    reason = lambda: count.cluster.fields(job)["Reason"]
    count.cluster.wait(lambda: reason().startswith("Assoc"), "the account's limit")
