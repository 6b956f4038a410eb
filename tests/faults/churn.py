# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs that come and go at random on a node with MPS daemons, while prologs, epilogs,
daemons and servers are killed."""

import os
import random
import signal
import time
from collections import Counter

import pytest
from mps_node import MPS, USERS, MpsNode, alive, control, stat, strangers
from waiting import wait

# Of 535, 550 and 555: the seed says which.
VERSIONS = ("22.05", "24.11", "555")
GPUS = 4
# Prologs and epilogs at once.
AT_ONCE = 6
# Of 100 prologs and epilogs, so many are killed while they run; of 100 steps, so many kill or stop a daemon or a
# server.
KILLED, HARMED = 20, 20


class Job:
    def __init__(self, number, user, units):
        self.number, self.user, self.units = number, user, units
        # Its prolog or epilog while that runs, and when it is to be killed.
        self.process = self.kill_at = None
        # waiting, starting, living (placed, and its prolog has ended by itself), ending, over
        self.state = "waiting"
        # Its daemon's directory and (PID, start), as its prolog left them.
        self.folder = self.daemon = None


class Churn:
    def __init__(self, control, seed):
        self.random = random.Random(seed)
        self.node = MpsNode(control, GPUS)
        self.jobs, self.busy, self.living, self.said = [], [], [], []
        # Daemons that this test has killed or stopped: whatever happens to them is no wonder.
        self.harmed, self.disturbed = set(), set()
        self.count = Counter()

    def step(self):
        self.node.server(self.random.choice(("live", "live", "stubborn", "crash")))
        if len(self.busy) < AT_ONCE:
            # About as many living jobs as the GPUs hold, and most of a few users': daemons have several jobs, one and
            # none.
            if self.random.random() < (0.7 if len(self.living) < 14 else 0.3):
                user = self.random.choice(USERS[:3] if self.random.random() < 0.5 else USERS)
                self.begin(Job(len(self.jobs) + 1, user, self.random.choice((10, 20, 20, 40))))
            elif self.living:
                self.leave(self.random.choice(self.living))
        if self.random.random() * 100 < HARMED:
            self.harm()
        self.look()
        time.sleep(self.random.random() * 0.01)

    def begin(self, job):
        self.jobs.append(job)
        job.state = "starting"
        self.run(job, "gpushare-prolog")

    def leave(self, job):
        self.living.remove(job)
        # From now on nothing is due to it, even if this epilog is killed and another comes later.
        job.state, job.daemon = "ending", None
        self.run(job, "gpushare-epilog")

    def run(self, job, program, killed=None):
        units = job.units if program == "gpushare-prolog" else None
        job.process = self.node.start(program, job.number, units, user=job.user)
        killed = self.random.random() * 100 < KILLED if killed is None else killed
        job.kill_at = time.monotonic() + self.random.random() * 0.05 if killed else None
        self.busy.append(job)
        self.count[program] += 1

    def look(self):
        """Ends what is to be killed, takes note of what has ended, and looks at every living job's daemon."""
        for job in list(self.busy):
            if job.kill_at and time.monotonic() > job.kill_at and job.process.poll() is None:
                job.process.kill()
            if job.process.poll() is not None:
                self.busy.remove(job)
                self.ended(job)
        for job in self.living:
            if job.daemon and job.daemon not in self.harmed and not alive(*job.daemon):
                self.lost(job)

    def ended(self, job):
        killed = job.process.returncode == -signal.SIGKILL
        _, lines = job.process.communicate()
        assert killed or job.process.returncode == 0, (job.process.returncode, lines)
        self.count["killed"] += killed
        self.note(lines + (f"job {job.number}: {job.process.args[-1].name} was killed\n" if killed else ""))
        if job.state == "starting" and not killed:
            job.state = "living"
            self.living.append(job)
            if self.node.failure(job.number) is None:
                job.folder = self.node.folder(job.number)
                job.daemon = self.node.daemon(job.folder)
                # Killed at once by this test, or there.
                assert job.daemon or job.folder in self.disturbed, (job.number, lines)
            else:
                self.count["no room" if "units free" in self.node.failure(job.number) else "failed"] += 1
        elif job.state == "starting":
            # slurmd fails the job and runs its epilog.
            job.state = "living"
            self.living.append(job)
        elif killed:
            # Once more, later; by an administrator, as slurmd runs it once.
            job.state = "living"
            self.living.append(job)
        else:
            job.state = "over"

    def lost(self, job):
        said = [line for line in self.said if job.folder.name in line or f"job {job.number}:" in line]
        raise AssertionError("\n".join(
            [f"job {job.number} lives, and its daemon {job.folder} {job.daemon} was ended; said was:", *said]))

    def note(self, lines):
        """Counts what prologs and epilogs complain of, without names and numbers."""
        self.said += lines.splitlines()
        for line in lines.splitlines():
            for words in ("no MPS daemon", "can't be ended", "had to be restarted", "internal error", "panicked"):
                if words in line:
                    self.count[words] += 1
                    if words in ("can't be ended", "internal error", "panicked"):
                        raise AssertionError(line)

    def harm(self):
        """Kills or stops a daemon, kills a server, or lets a daemon start one, as a client would."""
        folders = sorted(MPS.iterdir()) if MPS.exists() else []
        if not folders:
            return
        folder = self.random.choice(folders)
        daemon = self.node.daemon(folder)
        if not daemon:
            return
        what = self.random.choice(("kill", "stop", "kill server", "start server", "start server", "start server"))
        self.count[what] += 1
        try:
            if what == "kill":
                self.harmed.add(daemon)
                self.disturbed.add(folder)
                os.kill(daemon[0], signal.SIGKILL)
            elif what == "stop":
                self.harmed.add(daemon)
                os.kill(daemon[0], signal.SIGSTOP)
            elif what == "kill server":
                for pid in strangers():
                    found = stat(pid)
                    if found and found[1] == daemon[0] and pid != daemon[0]:
                        os.kill(pid, signal.SIGKILL)
                        break
            else:
                user = int(folder.name.split(".")[1])
                self.node.ask(folder, f"start_server -uid {user}\n", user)
        except ProcessLookupError:
            pass

    def finish(self):
        """Every job's epilog, undisturbed; then one job more,
        which sweeps up what is left of those that were killed."""
        self.drain()
        for job in list(self.living):
            while len(self.busy) >= AT_ONCE:
                self.look()
                time.sleep(0.005)
            self.living.remove(job)
            job.state = "ending"
            self.run(job, "gpushare-epilog", killed=False)
        self.drain()
        self.node.prolog(99999, 1, user=USERS[0])
        self.node.epilog(99999)
        assert self.node.entries() == {} and self.node.status()["failures"] == []
        self.node.check_empty()

    def drain(self):
        def is_over():
            self.look()
            return not self.busy

        wait(is_over, "prologs and epilogs to end", 60, 0.005, lambda: [job.process.args for job in self.busy])


def test_churn(pytestconfig, figure):
    """Whatever is killed: no daemon goes under a living job, and nothing is left at the end."""
    seconds, _, seed = pytestconfig.getoption("churn").partition(":")
    seconds, seed = int(seconds), int(seed or random.randrange(1 << 32))
    version = VERSIONS[seed % len(VERSIONS)]
    program = control(version)
    if not program:
        pytest.skip(f"NOT TESTED: NVIDIA's programs for {version} can't be had here")
    print(f"again: tests/faults/run churn --churn={seconds}:{seed}")
    run = Churn(program, seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(run.jobs) < 100:
        assert time.monotonic() < end + 300, f"only {len(run.jobs)} jobs"
        run.step()
    run.finish()
    figure(
        f"churn, seed {seed}, {version}'s MPS: {len(run.jobs)} jobs in {seconds} s: {dict(sorted(run.count.items()))}"
    )
