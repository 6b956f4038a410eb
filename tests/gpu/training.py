# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows about eight training jobs on one GPU: how fast they are together, what their limits are worth, and what one of
them can do to the others. The jobs start once for each way to share; see programs/train.py."""

import json
import os
import re
import shutil
import signal
import statistics
import time
from pathlib import Path

from cluster import EIGHTH, Failed, until
from node import USERS, WORK
from rows import NotTried, Wrong

NAMES = [f"{user}{number}" for user in ("alice", "bob") for number in (1, 2, 3, 4)]
EACH = [f"{user}1" for user in USERS]
PERCENT = 12
LIMIT = f"export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={PERCENT}; "
PRECISIONS = {"fp32": False, "bf16": True}
# Jain's index of the jobs' images per second: 1 if all are equal.
FAIR = 0.9
# A limit that costs less would be worth having.
COSTLY = 0.9


class Jobs:
    """The eight jobs, under one setting of Mps; each script begins with FIRST."""

    def __init__(self, test, mps, names=tuple(NAMES), first=""):
        self.test, self.cluster, self.number, self.names, self.first = test, test.cluster, 0, names, first
        self.cluster.configure(Mps=mps)
        self.results = WORK / "out/results"
        shutil.rmtree(self.results, ignore_errors=True)
        self.results.mkdir()
        self.results.chmod(0o1777)
        self.orders = WORK / "orders.json"
        self.orders.write_text('{"number": 0}')
        self.numbers = {name: self.submit(name) for name in names}
        self.about = self.answers(names, 0, test.machine.patience)
        pipes = {one["mps"] for one in self.about.values()}
        if (mps != "off") != all(pipes):
            raise Failed(f"Mps={mps}, and programs have CUDA_MPS_PIPE_DIRECTORY={pipes}")

    def submit(self, name):
        user = name.rstrip("0123456789")
        script = self.cluster.program("train.py", name, self.orders, self.results)
        return self.cluster.submit(user, f"{self.first}exec {script}", EIGHTH)

    def answers(self, names, number, seconds):
        """What each has said until then."""
        end = time.monotonic() + seconds
        return {name: self.answer(name, number, max(end - time.monotonic(), 0)) for name in names}

    def answer(self, name, number, seconds):
        path = self.results / f"{name}.{number}.json"
        try:
            until(lambda: path.exists() or self.cluster.is_over(self.numbers[name]), seconds, f"answer of {name}")
        except Failed as late:
            if number == 0:
                raise
            return {"error": f"{late}: {self.cluster.why(self.numbers[name])}"}
        if not path.exists():
            if number == 0:
                raise Failed(f"{name}: {self.cluster.why(self.numbers[name])}")
            return {"error": f"ended: {self.cluster.why(self.numbers[name])[:200]}"}
        return json.loads(path.read_text())

    def order(self, do, seconds, bf16=False, meanwhile=None, **more):
        """{name: answer} of those that get something to DO, which begins and ends at the same time for all."""
        self.number += 1
        begin = time.monotonic() + 0.1
        order = {"number": self.number, "begin": begin, "end": begin + seconds, "bf16": bf16, "do": do, **more}
        new = self.orders.with_suffix(".new")
        new.write_text(json.dumps(order))
        new.rename(self.orders)
        if meanwhile:
            time.sleep(0.1 + seconds / 2)
            meanwhile()
        return self.answers(do, self.number, seconds + 30)

    def rates(self, names, seconds, bf16):
        said = self.order({name: "train" for name in names}, seconds, bf16)
        failed = {name: one["error"] for name, one in said.items() if "error" in one}
        if failed:
            raise Wrong(f"{failed}")
        return {name: (one["images"] / one["seconds"], percentile(one["ms"])) for name, one in said.items()}

    def together(self, row, how):
        """Answers a row: all eight at once, in each precision."""
        row.data, texts = {}, []
        for precision, bf16 in PRECISIONS.items():
            rates = self.rates(self.names, self.test.machine.together, bf16)
            each = [rate for rate, _ in rates.values()]
            found = row.data[precision] = {
                "images_per_s": round(sum(each), 1), "slowest": round(min(each), 1),
                "step_p95_ms": round(statistics.median(one for _, one in rates.values()), 1),
                "fairness": round(sum(each) ** 2 / (len(each) * sum(one * one for one in each)), 3),
            }
            texts.append(
                f"{precision} {found['images_per_s']:.0f} images/s, step {found['step_p95_ms']:.0f} ms (95th "
                f"percentile), fairness {found['fairness']:.2f}"
            )
        row.said = "; ".join(texts)
        self.test.speed[how] = row.data
        # Without MPS the driver lets programs take turns as it likes.
        if how not in ("together", "capped") and min(one["fairness"] for one in row.data.values()) < FAIR:
            raise Wrong(f"{row.said}: below {FAIR}")

    def in_turn(self, row, names):
        """Answers a row: one after the other, in each precision."""
        row.data, texts = {}, []
        for precision, bf16 in PRECISIONS.items():
            rates = [self.rates([name], self.test.machine.alone, bf16)[name] for name in names]
            mean = statistics.mean(rate for rate, _ in rates)
            slowest = max(step for _, step in rates)
            row.data[precision] = {"images_per_s": round(mean, 1), "step_p95_ms": round(slowest, 1)}
            texts.append(f"{precision} {mean:.0f} images/s, step {row.data[precision]['step_p95_ms']:.0f} ms")
        row.said = "; ".join(texts)

    def end(self):
        self.cluster.end()


def percentile(times):
    times = sorted(times)
    return times[int(0.95 * (len(times) - 1))] if times else 0


def without_mps(test):
    jobs = Jobs(test, "off")
    with test.rows.row("turns") as row:
        jobs.in_turn(row, NAMES)
        test.speed["turns"] = row.data
    with test.rows.row("together") as row:
        jobs.together(row, "together")
    jobs.end()


def per_user(test):
    jobs = Jobs(test, "per-user")
    state = Path(f"/run/gpushare/mps/{test.machine.gpu['minor']}.{USERS['alice']}/state").read_text()
    found = re.search(r"^memory=(\d+)", state, re.M)
    memory = int(found[1]) if found else 0
    with test.rows.row("per-user") as row:
        jobs.together(row, "per-user")
    others = {name: "train" for name in NAMES[1:]}
    with test.rows.row("memory") as row:
        if not memory:
            raise Wrong("the share has no memory limit: NVML doesn't answer?")
        mib = memory * 11 // 10
        said = jobs.order({"alice1": "allocate"} | others, test.machine.together, mib=mib)
        refused = (said["alice1"].get("refused") or "").partition(" GPU ")[0]
        row.said = f"limit {memory} MiB: {mib} MiB refused ({refused}); no neighbor failed"
        if not said["alice1"].get("refused") or errors(said):
            raise Wrong(f"limit {memory} MiB, {mib} MiB: {said['alice1']}; neighbors: {errors(said)}")
    with test.rows.row("raised") as row:
        if not memory:
            raise NotTried("the share has no memory limit")
        said = jobs.order({"alice1": "raise"}, 0, mib=memory * 11 // 10)["alice1"]
        row.data = said
        if said["allocate"].get(str(memory * 11 // 10)) == 0:
            raise Wrong(f"limit {memory} MiB, and a program that raised its variable got {memory * 11 // 10}")
        row.said = "refused all the same"
    with test.rows.row("kill") as row:
        pid = jobs.about["alice4"]["pid"]
        said = jobs.order(
            {name: "train" for name in NAMES}, test.machine.together, meanwhile=lambda: os.kill(pid, signal.SIGKILL)
        )
        failed = errors(said, {"alice4"})
        row.data = {"healed_s": heal(jobs, "alice")}
        row.said = f"nobody; the user's next job computed after {row.data['healed_s']:.1f} s"
        if failed:
            raise Wrong(f"{failed}")
    with test.rows.row("fault-per-user") as row:
        said = fault(jobs, "alice1", {"alice4"}, row)
        ended = sorted(errors(said, {"alice1"}))
        row.said = f"{' '.join(ended) or 'nobody else'}; the next job computed after {row.data['healed_s']:.1f} s"
        if any(name.startswith("bob") for name in ended):
            raise Wrong(f"another user's too: {row.said}")
    jobs.end()


def multiuser(test):
    jobs = Jobs(test, "multiuser")
    with test.rows.row("multiuser") as row:
        jobs.together(row, "multiuser")
    with test.rows.row("lone") as row:
        jobs.in_turn(row, ["alice1"])
    with test.rows.row("multiprocessors") as row:
        seen, every = jobs.about["alice1"]["multiprocessors"], test.multiprocessors
        raised = jobs.order({"alice1": "raise"}, 0, mib=1)["alice1"].get("look", {}).get("multiprocessors")
        row.said = f"{seen} of {every}; {raised} if the program raises its own limits"
        # NVIDIA rounds; two more are of no concern.
        if not seen or not raised or max(seen, raised) > every * PERCENT / 100 + 2:
            raise Wrong(row.said)
    with test.rows.row("fault-multiuser") as row:
        said = fault(jobs, "alice1", set(), row)
        ended = sorted(errors(said, {"alice1"}))
        row.said = f"{' '.join(ended) or 'nobody else'}; the next job computed after {row.data['healed_s']:.1f} s"
    jobs.end()


def eight_users(test):
    for how, first in (("users", ""), ("capped", LIMIT)):
        jobs = Jobs(test, "per-user", EACH, first)
        with test.rows.row(how) as row:
            jobs.together(row, how)
            if how == "capped":
                cost_of_the_limit(test, row)
        jobs.end()


def cost_of_the_limit(test, row):
    """gpushare sets no limit on threads where servers of several users take turns, because it costs more than this."""
    if "users" not in test.speed:
        raise NotTried("the same without a limit was not measured")
    without = test.speed["users"]
    part = max(one["images_per_s"] / without[precision]["images_per_s"] for precision, one in row.data.items())
    row.said += f"; {part:.2f} of the speed without a limit at most"
    if part > COSTLY:
        raise Wrong(row.said)


def errors(said, beside=()):
    return {name: one["error"] for name, one in said.items() if "error" in one and name not in beside}


def fault(jobs, who, gone, row):
    """The others train while one program writes to nowhere."""
    said = jobs.order(
        {name: "fault" if name == who else "train" for name in NAMES if name not in gone}, jobs.test.machine.together
    )
    mine = said[who]
    if not mine.get("sync") and "error" not in mine:
        raise NotTried(f"the program went on: {mine}")
    row.data = {"answers": {name: one.get("error") for name, one in said.items()}}
    row.data["healed_s"] = heal(jobs, "alice")
    return said


def heal(jobs, user):
    """Seconds until a new job of a user computes."""
    cluster, begin, longest = jobs.cluster, time.monotonic(), jobs.test.machine.heal
    cluster.run("scancel", "--full", *[jobs.numbers[name] for name in NAMES if name.startswith(user)][-1:])
    while time.monotonic() < begin + longest:
        job = cluster.submit(user, cluster.program("cuda.py", "hold", 0.2, 64), EIGHTH)
        until(lambda: cluster.is_over(job), longest, f"end of job {job}")
        if '"error": 0' in cluster.output(job):
            return round(time.monotonic() - begin, 1)
    raise Wrong(f"no new job of {user} computed within {longest} s: {cluster.output(job)[-300:].strip()}")


def headline(test):
    with test.rows.row("headline") as row:
        if test.no_mps():
            raise NotTried(test.no_mps())
        if "turns" not in test.speed or not {"per-user", "multiuser"} & set(test.speed):
            raise Wrong(f"only measured: {', '.join(test.speed) or 'nothing'}")
        row.data = {
            how: {one: round(test.speed["turns"][one]["images_per_s"] / (8 * said[one]["slowest"]), 2) for one in said}
            for how, said in test.speed.items() if how not in ("turns", "capped")
        }
        words = {
            "together": "without MPS", "per-user": "Mps=per-user", "multiuser": "Mps=multiuser",
            "users": "Mps=per-user, eight users",
        }
        row.said = "; ".join(
            f"{words[how]} {', '.join(f'{value:.2f} ({one})' for one, value in said.items())}"
            for how, said in row.data.items()
        )
        if min(value for how, said in row.data.items() if how != "together" for value in said.values()) >= 1:
            raise Wrong(f"no gain: {row.said}")
