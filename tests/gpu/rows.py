# SPDX-License-Identifier: GPL-2.0-or-later
"""The questions that only a GPU answers, and the file of answers: gpu.json, written anew with each answer, so that a
run that is cut off keeps what it has.

    {"format": 1, "date": "2026-11-27", "pretended": false, "machine": {"gpu": ..., "driver": ..., ...},
     "seconds": 287, "rows": [{"name": "share", "verdict": "ok", "said": "...", "seconds": 4.1, "data": {...}}]}

A verdict is ok, WRONG or "not tried"; said is the answer or the reason.
"""

import contextlib
import json
import time

QUESTIONS = {
    "Inventory": {
        "driver": "Which GPU, driver and CUDA?",
        "mps-control": "Where is nvidia-cuda-mps-control, and of which version?",
        "kernel": "Which cgroups does the kernel offer? Can they limit GPU memory (dmem)?",
        "uuid": "Does /proc know the GPU's UUID before anything has used the GPU?",
    },
    "Times": {
        "nvml": "How fast does NVML answer, first and later?",
        "cuinit": "How long does a program's first cuInit take, and the next one?",
        "prolog": "How long does the prolog of a share take, first and later?",
    },
    "Fence": {
        "no-share": "Does PyTorch find a GPU in a job without a share?",
        "share": "Does it find one in a job with a share?",
        "forged": "Do variables that a user sets open the GPU?",
        "open-before": "Does a program that opened the GPU before the fence closed go on?",
        "inside": "What does a job that is submitted inside a share get of that share?",
    },
    "Eight training jobs on one GPU": {
        "turns": "Two users with four each, one after the other: how many images per second?",
        "together": "Together without MPS?",
        "per-user": "Together with `Mps=per-user`?",
        "multiuser": "Together with `Mps=multiuser`?",
        "lone": "One of them alone with `Mps=multiuser`?",
        "users": "With `Mps=per-user`, if each is of another user?",
        "capped": "And if each of those is limited to 12 % of the threads?",
        "headline": "In what part of the time do eight jobs end?",
    },
    "Limits of a share": {
        "multiprocessors": "How many multiprocessors does a share of 12 % see with `Mps=multiuser`?",
        "memory": "Is memory above the share refused, and do the neighbors notice?",
        "raised": "And if the program raises its own limit?",
    },
    "Trouble": {
        "kill": "Who notices if a program is killed (SIGKILL)?",
        "fault-per-user": "Who ends with a program that writes to an illegal address, with `Mps=per-user`?",
        "fault-multiuser": "And with `Mps=multiuser`?",
    },
    "Processes": {
        "foreign": "Does `gpushare status` name a process of no job?",
        "idle": "Does `gpushare status` show what a job's programs hold and use?",
        "end": "What is left after the last job?",
    },
}
NAMES = [name for part in QUESTIONS.values() for name in part]


class Wrong(Exception):
    """Not as promised; what was seen."""


class NotTried(Exception):
    """It can't be seen here; why."""


class Row:
    said, data = "", None


class Rows:
    def __init__(self, path, seconds, pretended):
        self.path, self.begin, self.end = path, time.monotonic(), time.monotonic() + seconds
        self.rows = {}
        self.all = {"format": 1, "date": time.strftime("%Y-%m-%d"), "pretended": pretended, "machine": {}}

    def left(self):
        return self.end - time.monotonic()

    @contextlib.contextmanager
    def row(self, name):
        """Answers a question: what is asked sets said and data, or raises why not."""
        row, begin = Row(), time.monotonic()
        try:
            yield row
        except Wrong as why:
            self.answer(name, "WRONG", str(why), begin, row.data)
        except NotTried as why:
            self.answer(name, "not tried", str(why), begin)
        except Exception as error:  # Whatever goes wrong in one row, the others are asked.
            self.answer(name, "WRONG", f"{type(error).__name__}: {error}", begin, row.data)
        else:
            self.answer(name, "ok", row.said, begin, row.data)

    def answer(self, name, verdict, said, begin=None, data=None):
        assert name in NAMES, name
        seconds = round(time.monotonic() - begin, 1) if begin else 0
        self.rows[name] = {"name": name, "verdict": verdict, "said": said, "seconds": seconds}
        if data is not None:
            self.rows[name]["data"] = data
        print(f"{verdict:10} {name:16} {said}", flush=True)
        self.write()

    def open(self, names):
        return [name for name in names if name not in self.rows]

    def skip(self, names, why, verdict="not tried"):
        for name in self.open(names):
            self.answer(name, verdict, why)

    def write(self):
        self.all["seconds"] = round(time.monotonic() - self.begin)
        self.all["rows"] = [self.rows[name] for name in NAMES if name in self.rows]
        new = self.path.with_name(self.path.name + ".new")
        new.write_text(json.dumps(self.all, indent=1) + "\n")
        new.rename(self.path)

    def wrong(self):
        return [name for name, row in self.rows.items() if row["verdict"] == "WRONG"]
