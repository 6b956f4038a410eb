# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes stories up: what one user does with one job, from its submission on. The same seed makes the same stories."""

import words
from action import Action
from plain import Plain
from story import RELEASE, USERS, Story
from times import Times

# Slurm's own faults, of which slurmctld ends or hangs with or without a plugin: --spread-job (24.11.5), 0 tasks a
# socket (22.05.8 and 24.11.5 divide by it when GPUs are asked for by socket), a text in `extra` (22.05.8 frees it
# twice), and --distribution=arbitrary without a list of nodes, which only a client of one's own can ask for (task_dist
# 3: 26.05.5 looks into a list that isn't there).
SPREAD_JOB = 1 << 8
# Of a time limit of 2^32-3 minutes the backfill scheduler of 24.11.5 never ends, and slurmctld answers nobody.
LONGEST = 2**31


class Author(Times, Plain):
    def __init__(self, random, members, release, caps=False):
        self.random, self.members, self.release, self.caps = random, members, release, caps
        self.free = [name for name in members if name not in words.LEFT_ALONE and (release, name) != ("22.05", "extra")]
        self.reservations = 0
        self.site = ""  # of box.SITES
        self.accounts = True  # whether those that have limits are besieged too
        self.kinds = {
            "once": (self.once, 30), "held": (self.held, 26), "moved": (self.moved, 10), "array": (self.array, 4),
            "requeued": (self.requeued, 3), "het": (self.het, 4), "running": (self.running, 5),
            "expand": (self.expand, 3), "reserved": (self.reserved, 2), "command": (self.command, 3),
            "scontrol": (self.scontrol, 2), "rest": (self.rest, 1), "asked": (self.asked, 2), "plain": (self.plain, 14),
            "shaped": (self.shaped, 14), "later": (self.later, 2), "itself": (self.itself, 1.5),
            "mode": (self.mode, 0.5), "ended": (self.ended, 0.06), "cron": (self.cron, 1 if release != "22.05" else 0),
        }

    def story(self):
        names = list(self.kinds)
        name = self.random.choices(names, [self.kinds[one][1] for one in names])[0]
        return self.kinds[name][0]()

    # What a request says

    def pick(self, *names):
        return {
            name: words.value(self.random, name, self.members[name], self.caps)
            for name in names
            if name in self.members
        }

    def limited(self):
        """A QOS or an account that has a limit; where the site has caps, they hold without, too."""
        if self.caps and self.random.random() < 0.5:
            return {}
        if self.random.random() < 0.7 or not self.accounts:
            return {"qos": self.random.choice(words.QOSES[:1] * 3 + words.QOSES)}
        return {"account": self.random.choice(["capped", "sub", "personal", "lab"])}

    def request(self, gpus=0.9):
        """A request of which most would be accepted: some GPUs, some sizes, few oddities."""
        fields = {}
        # Where memory is counted, a request that names none is for all of a node's.
        if self.caps and self.random.random() < 0.9:
            fields["pn_min_memory"] = "1024"
        if self.caps and self.random.random() < 0.2:
            fields |= self.pick("partition")
        if self.random.random() < gpus:
            name = self.random.choice(words.GPU_STRINGS[:3] + ["tres_per_node", "tres_per_job"])
            fields[name] = words.typed(self.random) if self.random.random() < 0.6 else words.gpu_list(self.random)
            if self.random.random() < 0.12:
                fields[name] = words.share(self.random)
            if name == "tres_per_task":
                fields["num_tasks"] = str(self.random.randint(1, 4))
            if name == "tres_per_socket":
                fields["sockets_per_node"] = "1"
        return fields | self.spice()

    def spice(self, most=3):
        """Any members at all, those that have to do with GPUs more often."""
        count = self.random.choice([0, 0, 1, 1, 1, 2, most])
        close = (
            list(words.ABOUT_CAPS) * (2 * self.caps)
            + words.GPU_MODIFIERS * 3
            + words.GPU_STRINGS
            + [
                "ntasks_per_tres", "num_tasks", "min_nodes", "max_nodes", "min_cpus", "shared", "partition",
                "ntasks_per_node", "core_spec", "req_nodes",
            ]
        )
        names = [self.random.choice(close if self.random.random() < 0.6 else self.free) for _ in range(count)]
        return self.pick(*names)

    def change(self):
        """What an update changes."""
        fields = self.spice(4) or self.pick(self.random.choice(words.GPU_STRINGS + words.GPU_MODIFIERS))
        if self.random.random() < 0.2:
            fields |= self.limited()
        if self.random.random() < 0.15:
            fields[self.random.choice(words.GPU_STRINGS)] = ""
        return fields

    def safe(self, fields):
        text = fields.get("bitflags")
        if text is not None:
            flags = int(text) if text.isdigit() else 0
            fields["bitflags"] = str(flags % 2**64 & ~SPREAD_JOB)
        text = fields.get("time_limit", "")
        if text.isdigit() and int(text) % 2**32 >= LONGEST:
            fields["time_limit"] = "INFINITE"
        text = fields.get("ntasks_per_socket", "1")
        if text.isdigit() and int(text) % 2**16 == 0:
            fields["ntasks_per_socket"] = "1"
        if self.release == "24.11" and "tres_per_task" in fields and fields.get("priority") == "0":
            fields.pop("ntasks_per_node", None)
        return fields

    def act(self, user, verb, fields=None, **more):
        return Action(user, verb, self.safe(dict(fields or {}) | more))

    # Stories

    def once(self):
        user = self.random.choice(USERS)
        return Story("once", [self.act(user, "allocate", self.limited() | self.request())])

    def held(self):
        user = self.random.choice(USERS)
        actions = [self.act(user, "allocate", self.limited() | self.request(0.8), priority="0")]
        for _ in range(self.random.randint(1, 4)):
            actions.append(self.act(user, self.random.choice(["update", "update", "update", "update1"]), self.change()))
        return Story("held", [*actions, self.act(user, "update", RELEASE)])

    def moved(self):
        """From a free QOS and account into limited ones."""
        user = self.random.choice(USERS)
        actions = [self.act(user, "allocate", self.request(), priority="0")]
        for _ in range(self.random.randint(0, 2)):
            actions.append(self.act(user, "update", self.change()))
        restated = self.pick(self.random.choice(words.GPU_STRINGS)) if self.random.random() < 0.7 else {}
        if restated and self.random.random() < 0.5:
            restated = {name: words.typed(self.random) for name in restated}
        actions.append(self.act(user, "update", self.limited() | restated))
        if self.random.random() < 0.3:
            actions.append(self.act(user, "update", self.change()))
        return Story("moved", [*actions, self.act(user, "update", RELEASE)])

    def array(self):
        user = self.random.choice(USERS)
        tasks = self.random.choice(["0-1", "0-2", "1,3", "0-3%2"])
        start = self.request() | (self.limited() if self.random.random() < 0.6 else {})
        actions = [self.act(user, "submit", start, array_inx=tasks, priority="0")]
        for _ in range(self.random.randint(1, 3)):
            one = self.random.choice(["{job}_1", "{job}", "{job}_[0-3]"])
            change = self.change() | (self.limited() if self.random.random() < 0.5 else {})
            actions.append(self.act(user, "update", change, job_id_str=one))
        return Story("array", [*actions, self.act(user, "update", RELEASE, job_id_str="{job}")])

    def requeued(self):
        user = self.random.choice(USERS)
        start = self.request() | (self.limited() if self.random.random() < 0.5 else {})
        actions = [self.act(user, "submit", start, requeue="1"), self.act(user, "wait"), self.act(user, "requeuehold")]
        actions.append(Action(user, "wait", {"for": "0.5"}))
        for _ in range(self.random.randint(1, 2)):
            actions.append(
                self.act(user, "update", self.change() | (self.limited() if self.random.random() < 0.5 else {}))
            )
        return Story("requeued", [*actions, self.act(user, "update", RELEASE)])

    def het(self):
        user = self.random.choice(USERS)
        parts = [
            self.safe(self.request() | (self.limited() if self.random.random() < 0.7 else {}))
            for _ in range(self.random.randint(2, 3))
        ]
        first = Action(
            user, "submit", parts[0] | {"priority": "0"}, more=[part | {"priority": "0"} for part in parts[1:]]
        )
        actions = [first]
        for _ in range(self.random.randint(0, 2)):
            actions.append(
                self.act(user, "update", self.change(), job_id_str=self.random.choice(["{job}+0", "{job}+1", "{job}"]))
            )
        return Story("het", [*actions, self.act(user, "update", RELEASE)])

    def running(self):
        """Changes of a job that runs."""
        user = self.random.choice(USERS)
        gpus = {self.random.choice(words.GPU_STRINGS[:2]): words.typed(self.random)}
        start = gpus | self.spice() | (self.limited() if self.random.random() < 0.6 else {})
        actions = [self.act(user, "allocate", start), self.act(user, "wait")]
        for _ in range(self.random.randint(1, 3)):
            actions.append(self.act(user, "update", self.change()))
        return Story("running", actions)

    def expand(self):
        user = self.random.choice(USERS)
        limited = self.limited()
        actions = [self.act(user, "allocate", limited | self.request()), self.act(user, "wait")]
        actions.append(self.act(user, "allocate", limited | self.request(), dependency="expand:{job}"))
        actions.append(self.act(user, "update", min_nodes=self.random.choice(["0", "1", "2"])))
        return Story("expand", actions)

    def reservation(self):
        self.reservations += 1
        names = ["maint", "own", *["course"] * (2 * (self.site == "course"))]
        return f"{self.random.choice(names)}{self.reservations}"

    def reserve(self, name, start):
        node = self.random.choice(["n2", "h1", "m1"])
        return Action("root", "root", argv=[
            "scontrol", "create", f"reservation={name}", f"starttime={start}", "duration=5", "users=alice,bob",
            f"nodes={node}", "flags=ignore_jobs,overlap",
        ])

    def reserved(self):
        """In a reservation, exempt or not, that is deleted."""
        user, name = self.random.choice(USERS), self.reservation()
        actions = [self.reserve(name, "now+1hour")]
        actions.append(self.act(user, "allocate", self.limited() | self.request(), reservation=name, priority="0"))
        for _ in range(self.random.randint(0, 2)):
            actions.append(self.act(user, "update", self.change()))
        if self.random.random() < 0.7:
            actions.append(self.act(user, "update", self.change(), reservation=""))
        actions.append(Action("root", "root", argv=["scontrol", "delete", f"reservation={name}"]))
        return Story("reserved", [*actions, self.act(user, "update", RELEASE)])

    def options(self):
        """Random options of sbatch, salloc and srun."""
        pick = self.random.choice
        fields = self.request()
        found = [f"--qos={pick(words.QOSES)}"] if self.random.random() < 0.7 else [f"--account={pick(words.ACCOUNTS)}"]
        plain = lambda text: text.replace("{P}", "").encode("ascii", "ignore").decode().replace("\0", "")
        names = {"tres_per_node": "--gres", "tres_per_job": "--gpus", "tres_per_socket": "--gpus-per-socket"}
        for name, value in fields.items():
            if name in names:
                strip = plain(value) if name == "tres_per_node" else plain(value).replace("gpu:", "")
                found.append(f"{names[name]}={strip[:200]}")
        extra = [
            "-N1", "-N2", "-N1-2", "-n1", "-n2", "-n4", "-n70", "-c2", "-c33", "--exclusive", "--exclusive=user", "-px",
            "-pp,x", "-Ca40", "-Ch100", "-C[a40|h100]", "--ntasks-per-node=1", "--ntasks-per-gpu=1", "--cpus-per-gpu=2",
            "--mem-per-gpu=10", "-S1", "--contiguous", "--gpus-per-task=1", "--gpus-per-task=a40:1",
            "--gpus-per-node=1", "--gpus-per-node=a40:1", "--gpus=a40:1", "--gpus=1", "--gres=gpu:a40:1",
            "--gres-flags=enforce-binding", "--gres-flags=disable-binding", "--gpu-bind=single:1", "-Ltool:1", "-wm1",
            "-wh1", "--sockets-per-node=1", "--mincpus=33", "--use-min-nodes", "--distribution=cyclic", "--overcommit",
            "--hint=nomultithread",
        ]
        return found + self.random.sample(extra, self.random.randint(0, 3))

    def command(self):
        user, name = self.random.choice(USERS), self.random.choice(["sbatch", "sbatch", "salloc", "srun"])
        if name == "sbatch":
            argv = ["sbatch", "--parsable", "-o", "/dev/null", *self.options(), "--wrap", "sleep 600"]
        else:
            argv = [name, *self.options(), "sleep", "3"]
        return Story("command", [Action(user, "cli", argv=argv)])

    def scontrol(self):
        user = self.random.choice(USERS)
        fields = {
            "tres_per_node": "TresPerNode", "tres_per_job": "TresPerJob", "tres_per_task": "TresPerTask",
            "cpus_per_tres": "CpusPerTres", "mem_per_tres": "MemPerTres", "min_nodes": "NumNodes",
            "num_tasks": "NumTasks", "min_cpus": "NumCPUs", "features": "Features",
        }
        actions = [self.act(user, "allocate", self.limited() | self.request(), priority="0")]
        for _ in range(self.random.randint(1, 2)):
            names = self.random.sample(list(fields), self.random.randint(1, 2))
            change = [f"{fields[name]}={value[:300]}" for name, value in self.pick(*names).items()]
            if self.random.random() < 0.3:
                change.append(f"qos={self.random.choice(words.QOSES)}")
            actions.append(Action(user, "cli", argv=["scontrol", "update", "job={job}", *change]))
        return Story("scontrol", [*actions, self.act(user, "update", RELEASE)])

    def rest(self):
        user = self.random.choice(USERS)
        names = ["tres_per_node", "tres_per_job", "tres_per_task"]
        fields = {"qos": self.random.choice(words.QOSES)} | self.pick(
            *self.random.sample(names, self.random.randint(1, 2))
        )
        return Story("rest", [Action(user, "rest", fields)])

    def asked(self):
        """Would it run? It never does."""
        user = self.random.choice(USERS)
        return Story("asked", [self.act(user, "willrun", self.limited() | self.request())])
