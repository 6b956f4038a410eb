# SPDX-License-Identifier: GPL-2.0-or-later
"""Stories in which time matters: a job that begins later, requeues itself or comes by scrontab, a reservation that
ends, and gpushare.conf whose mode changes while a job waits."""

import geometry
import words
from action import Action
from story import RELEASE, USERS, Story

BATCH = ["sbatch", "--parsable", "-o", "/dev/null"]
ENDS = "endtime=now+1"
REQUEUES = "#!/bin/sh\nscontrol requeue $SLURM_JOB_ID\nsleep 600\n"


def wait(user, seconds):
    return Action(user, "wait", {"for": str(seconds)})


def crontab(user, lines):
    return Action(user, "cli", argv=["bash", "-c", f"printf '{lines}' | scrontab -"])


class Times:
    """A part of the author of stories."""

    def shaped(self):
        """By sbatch or salloc alone; some are changed by scontrol."""
        user, pick = self.random.choice(USERS), self.random.choice
        whose = self.limited()
        limit = [f"--{name}={value}" for name, value in whose.items()]
        shape = [*limit, *geometry.options(self.random, self.release)]
        if pick([True, False, False, False]):
            return Story("shaped", [Action(user, "cli", argv=["salloc", *shape, "sleep", "3"])])
        if pick([True, True, False]):
            return Story("shaped", [Action(user, "cli", argv=[*BATCH, *shape, "--wrap", "sleep 600"])])
        change = pick(["NumTasks=3", "NumTasks=5", "NumNodes=2", "NumNodes=1-2", "NumCPUs=1-1", "Name=y", "Nice=5"])
        actions = [
            Action(user, "cli", argv=[*BATCH, "-H", *shape, "--wrap", "sleep 600"]),
            Action(user, "cli", argv=["scontrol", "update", "job={job}", change]),
            self.act(user, "update", RELEASE),
        ]
        return Story("shaped", actions)

    def later(self):
        """Nobody releases it, so nothing is checked when it starts."""
        user = self.random.choice(USERS)
        actions = [Action(user, "cli", argv=[*BATCH, "--begin=now+2", *self.options(), "--wrap", "sleep 600"])]
        for _ in range(self.random.randint(0, 2)):
            change = self.pick(self.random.choice(words.GPU_STRINGS)) | (
                self.limited() if self.random.random() < 0.6 else {})
            actions.append(self.act(user, "update", change))
        return Story("later", [*actions, wait(user, 3)])

    def itself(self):
        """It requeues itself, and may be changed before it starts again."""
        user = self.random.choice(USERS)
        start = self.request() | (self.limited() if self.random.random() < 0.6 else {})
        actions = [self.act(user, "submit", start, script=REQUEUES, requeue="1"), wait(user, 1)]
        for _ in range(self.random.randint(0, 2)):
            change = self.change() | (self.limited() if self.random.random() < 0.5 else {})
            actions.append(self.act(user, "update", change))
        return Story("itself", [*actions, wait(user, 1)])

    def cron(self):
        user = self.random.choice(USERS)
        options = " ".join(one for one in self.options() if one.isascii() and not set(one) & set("'\\%\n "))
        return Story("cron", [crontab(user, f"#SCRON {options}\\n* * * * * sleep 600\\n")])

    def mode(self):
        """It comes while everything passes, and is changed when nothing does any more."""
        user = self.random.choice(USERS)
        actions = [
            Action("root", "mode", {"mode": "audit"}), wait(user, 1.5),  # slurmctld looks once a second
            self.act(user, "allocate", self.limited() | self.request(), priority="0"),
            Action("root", "mode", {"mode": "enforce"}), wait(user, 3),
            self.act(user, "update", self.change()),
        ]
        return Story("mode", [*actions, self.act(user, "update", RELEASE)])

    def ended(self):
        """Its reservation ends by time; Slurm then holds it, and its user lets it go."""
        user, name = self.random.choice(USERS), self.reservation()
        fields = self.limited() | self.request()
        actions = [
            self.reserve(name, "now+1hour"),
            self.act(user, "allocate", fields, reservation=name, priority="0"),
            Action("root", "root", argv=["scontrol", "update", f"reservation={name}", "starttime=now", ENDS]),
            wait(user, 35),
        ]
        return Story("ended", [*actions, self.act(user, "update", RELEASE)])
