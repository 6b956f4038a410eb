# SPDX-License-Identifier: GPL-2.0-or-later
"""Requests that ask for what they mean, within every limit. gpushare must accept each of them."""

import geometry
from action import Action
from story import USERS, Story
from times import BATCH, crontab

# As far as each QOS allows GPUs of one type at once.
TYPED = [("qos_lafferty", 2), ("qos_h", 2), ("qos_job", 1), ("qos_user", 2), ("qos_acct", 2), ("qos_node", 1)]
# Under limits of other kinds: shares and their types, accounts, all GPUs, no limit at all.
OTHERS = [
    ["--qos=qos_share", "--gres=gpushare:40"], ["--qos=qos_share", "--gres=gpushare:a40:40"],
    ["--qos=qos_share", "--gres=gpu:a40:3"], ["--qos=qos_units", "--gres=gpushare:30"], ["--qos=qos_units", "-c2"],
    ["--qos=qos_units", "--gres=gpushare:h100:60"], ["--account=lab", "--gres=gpushare:a40:20"],
    ["--account=lab", "--gres=gpu:1"], ["--account=capped", "--gres=gpu:a40:2"],
    ["--account=capped", "--gres=gpushare:40"],
    ["--account=sub", "--gpus=a40:3"], ["--qos=qos_all", "--gres=gpu:2"], ["--qos=qos_all", "--gpus=2"],
    ["--qos=qos_all", "--gpus-per-node=h100:1"], ["--qos=qos_total", "--gpus=a40:2", "-n2"],
    ["--qos=qos_total", "-n2", "--gpus-per-task=1"], ["--qos=free", "--gres=gpu:3"], ["--qos=free", "--gpus=2"],
    ["--qos=free", "-n2", "--ntasks-per-gpu=1"], ["--qos=free", "--gres=gpushare:40"],
]
PARTITIONS = [["-pp,x"], ["-px,p"], ["-px"], []]
# One of which Slurm picks; from 23.11 on.
QOS_LISTS = [["--qos=free,normal", "--gres=gpu:2"], ["--qos=normal,qos_all", "--gres=gpu:1"]]


def shapes(count):
    return [
        [f"--gres=gpu:a40:{count}"], [f"--gpus=a40:{count}", "-N1"], [f"--gpus-per-node=a40:{count}"],
        ["--gpus-per-task=a40:1", f"-n{count}"], [f"--gpus=a40:{count}"], [f"--gres=gpu:a40:{count}", "-c2"],
        [f"--gres=gpu:a40:{count}", "-n2"], [f"--gres=gpu:a40:{count}", "--exclusive"],
        ["--gres=gpu:a40:1", f"-N{count}"], [f"--gpus=a40:{count}", "--cpus-per-gpu=2"],
    ]


class Plain:
    """A part of the author of stories."""

    def plain(self):
        pick = self.random.choice
        qos, most = pick(TYPED)
        count = self.random.randint(1, most)
        chance = self.random.random()
        if chance < 0.2 and not self.caps:
            # Where shares need a reservation, none is plain.
            others = [one for one in OTHERS if self.site != "course" or "gpushare" not in one[1]]
            return self.plain_command(pick(others + geometry.PLAIN) + pick(PARTITIONS))
        if chance < 0.25 and not self.caps and self.release != "22.05":
            return self.plain_command(pick(QOS_LISTS) + pick(PARTITIONS))
        if chance < 0.3 and not self.caps:
            return self.plain_command([f"--qos={qos}", *pick(shapes(count)), "--begin=now+2"])
        if chance < 0.32 and not self.caps and self.release != "22.05":
            lines = f"#SCRON --qos={qos} --gres=gpu:a40:{count}\\n* * * * * sleep 600\\n"
            return Story("plain", [crontab(pick(USERS), lines)], plain=True)
        if chance < 0.5:
            more = ["--mem-per-cpu=1000", *pick([["-pp,g"], ["-pg"], []])] if self.caps else pick(PARTITIONS)
            return self.plain_command([f"--qos={qos}", *pick(shapes(count)), *more])
        gpus = f"{{P}}gpu:a40:{count}"
        fields = pick(
            [
                {"tres_per_node": gpus}, {"tres_per_job": gpus, "min_nodes": "1", "max_nodes": "1"},
                {"tres_per_job": gpus}, {"tres_per_task": "{P}gpu:a40:1", "num_tasks": str(count)},
                {"tres_per_node": gpus, "num_tasks": "2"}, {"tres_per_node": gpus, "cpus_per_task": "4"},
                {"tres_per_node": gpus, "shared": "0"}, {"tres_per_node": "{P}gpu:a40:1", "min_nodes": str(count)},
            ]
        )
        if self.caps:
            fields["pn_min_memory"] = "1024"
        return Story("plain", [Action(pick(USERS), "allocate", {"qos": qos, **fields})], plain=True)

    def plain_command(self, options):
        argv = [*BATCH, *options, "--wrap", "sleep 600"]
        return Story("plain", [Action(self.random.choice(USERS), "cli", argv=argv)], plain=True)
