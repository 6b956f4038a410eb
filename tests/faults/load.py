# SPDX-License-Identifier: GPL-2.0-or-later
"""What NVML may do to a prolog, and what it says:
with tests/fakes/nvml.c in its place, and NVIDIA's own library without a driver."""

import contextlib
import functools
import json
import os
import resource
import subprocess
import time
from pathlib import Path

import pytest
from bare_node import DEVICES, LEDGER, PROGRAMS, RUN, SITE, Node, as_user
from fake_nvml import (
    BUSY, FIRST_BUSY, IDLE, SECOND_BUSY, UNINITIALISED, UUIDS, gpus, known_to_the_driver, library, nobody_is_left,
    own_dev,
)
from fake_nvml import says, told
from lab import layer

NO_LOAD = "no load from NVML, shares are placed by the ledger alone: "
# A test on a loaded machine must not run into it where an answer is wanted.
PATIENT, SHORT = 10_000, 100
HANG = 600_000

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def asking(path, patience=PATIENT, more="", **rest):
    return Node(more=f"Nvml={path}\nNvmlTimeout={patience}\n{more}", **rest)


def remembered():
    path = LEDGER / "nvml"
    return path.read_text().strip() if path.exists() else None


class Row:
    """A thing that NVML may do, the GPU that a share then gets, and what is logged:
    NO_LOAD once, a fault at each job."""

    def __init__(
        self, what, state, gpu, reason=None, fault=None, path=None, patience=PATIENT, around=contextlib.nullcontext,
        without=(),
    ):
        self.what, self.state, self.gpu, self.reason, self.fault = what, state, gpu, reason, fault
        self.path, self.patience, self.around, self.without = path, patience, around, without

    def run(self):
        path = self.path or library(*self.without)
        if self.state is not None:
            says(path, self.state)
        with self.around():
            node = asking(path, self.patience)
            self.check([self.job(node, job) for job in (1, 2, 3)])
        nobody_is_left()

    def job(self, node, job):
        """(its GPU, lines about the load, lines about faults)"""
        lines = node.prolog(job, 20)
        gpu = node.entries()[job][1]
        node.epilog(job)
        node.check_empty()
        load = [line for line in lines if NO_LOAD in line]
        fault = [line for line in lines if "takes no shares, NVML says: " in line]
        assert len(load) + len(fault) + 1 == len(lines), lines
        return gpu, load, fault

    def check(self, jobs):
        for number, (gpu, load, fault) in enumerate(jobs):
            where = f"{self.what}, job {number + 1}: GPU {gpu}, {load}, {fault}"
            assert gpu == self.gpu, where
            assert len(load) == (number == 0 and self.reason is not None), where
            assert all(self.reason in line for line in load), where
            assert len(fault) == (self.fault is not None), where
            assert all(self.fault in line for line in fault), where
        assert (remembered() is not None) == (self.reason is not None), remembered()
        assert self.reason is None or self.reason in remembered(), remembered()


LOST, RESET_REQUIRED, NOT_SUPPORTED, UNKNOWN, TIMEOUT = 15, 16, 3, 999, 10


def unusable(what, words, fault):
    """The idle GPU has it, so a share goes to the busy one."""
    return Row(what, gpus(f"{IDLE} {words}", BUSY), 1, fault=fault)


def usable(what, words):
    return Row(what, gpus(f"{IDLE} {words}", BUSY), 0)


def fails(call, code, gpu=""):
    return f"fail nvmlDevice{call} {code} {gpu}\n"


def rows():
    lost = fails("GetHandleByIndex_v2", LOST, 0) + fails("GetHandleByUUID", LOST, 0)
    hang = {"patience": SHORT, "reason": f"no answer in {SHORT} ms"}
    crash = "gpushare-nvml ended with signal: 6 (SIGABRT)"
    return [
        Row("it answers", FIRST_BUSY, 1),
        Row("it answers, and the ledger's first is the idler", SECOND_BUSY, 0),
        Row("a library without memory_info v2 (before 510)", FIRST_BUSY, 1, without=["NO_MEMORY_V2"]),
        Row("a library without nvmlShutdown", FIRST_BUSY, 1, without=["NO_SHUTDOWN"]),
        Row("no library", None, 0, "library not found", path=SITE / "no/libnvidia-ml.so.1"),
        Row("a library that is none", None, 0, "library not found", path="/etc/passwd"),
        Row("no driver", FIRST_BUSY + "fail nvmlInit_v2 9\n", 0, "driver not loaded"),
        Row("driver and library differ", FIRST_BUSY + "fail nvmlInit_v2 18\n", 0, "version mismatch"),
        Row("hangs at init", FIRST_BUSY + f"delay nvmlInit_v2 {HANG}\n", 0, **hang),
        Row("hangs at a query", FIRST_BUSY + f"delay nvmlDeviceGetUtilizationRates {HANG}\n", 0, **hang),
        Row("crashes at init", FIRST_BUSY + "crash nvmlInit_v2\n", 0, crash),
        Row("crashes at a query", FIRST_BUSY + "crash nvmlDeviceGetFieldValues\n", 0, crash),
        Row(
            "GPUs can't be counted", FIRST_BUSY + fails("GetCount_v2", UNKNOWN), 0, "an internal driver error occurred"
        ),
        Row("lies: more in use than there is", gpus("used=90000 utilization=90", IDLE), 0),
        Row("lies: utilization 300", gpus("used=40000 utilization=300", IDLE), 0),
        Row("no utilization of one (as with MIG)", FIRST_BUSY + fails("GetUtilizationRates", NOT_SUPPORTED, 0), 0),
        Row("no memory figures", FIRST_BUSY + fails("GetMemoryInfo_v2", UNKNOWN), 0),
        Row("lost, can't even be named", SECOND_BUSY + lost, 1, fault="fell off the bus", around=known_to_the_driver),
        Row(
            "unknown error, can't even be named",
            SECOND_BUSY + fails("GetHandleByIndex_v2", UNKNOWN, 0) + fails("GetHandleByUUID", UNKNOWN, 0), 1,
            fault="fell off the bus", around=known_to_the_driver,
        ),
        Row(
            "times out, can't even be named",
            SECOND_BUSY + fails("GetHandleByIndex_v2", TIMEOUT, 0) + fails("GetHandleByUUID", TIMEOUT, 0), 1,
            fault="fell off the bus", around=known_to_the_driver,
        ),
        Row(
            "lost since boot, without a UUID", SECOND_BUSY + fails("GetHandleByIndex_v2", LOST, 0), 1,
            fault="fell off the bus", around=functools.partial(known_to_the_driver, [UNINITIALISED, UUIDS[1]]),
        ),
        Row("lost while it is asked", SECOND_BUSY + fails("GetUtilizationRates", LOST, 0), 1, fault="fell off the bus"),
        Row(
            "a call wants a reset", SECOND_BUSY + fails("GetComputeMode", RESET_REQUIRED, 0), 1,
            fault="requires a reset",
        ),
        unusable("uncorrectable pages wait for retirement", "field=93:1", "wait for a reset to be retired"),
        unusable("row remapping has failed", "field=145:1", "could not be remapped"),
        unusable("needs a reset (field of older drivers)", "field=226:1", "must be reset"),
        unusable("Xid: recovery action reset", "field=230:1", "must be reset"),
        unusable("Xid: recovery action reboot", "field=230:2", "node must be rebooted"),
        unusable("Xid: recovery action drain and reset", "field=230:4", "drained and reset"),
        unusable("MIG mode without instances", "mig=1", "MIG mode, without instances"),
        usable("a row waits to be remapped: still usable", "field=144:1 field=145:0 field=230:0"),
        usable("correctable pages wait: still usable", "field=92:1 field=93:0"),
        Row("no health fields", SECOND_BUSY + fails("GetFieldValues", NOT_SUPPORTED), 0),
    ]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.what)
def test_what_nvml_may_do(row):
    row.run()


def test_nvidias_own_library_finds_no_driver():
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("NOT TESTED: NVIDIA's own library without a driver, since this machine has one")
    found = list(Path(layer("nvidia", "24.11") or "/nonexistent").glob("usr/lib/*/libnvidia-ml.so.1"))
    if not found:
        pytest.skip("NOT TESTED: NVIDIA's own library, which can't be had here")
    Row("NVIDIA's own library, no driver", None, 0, "driver not loaded", path=found[0], around=own_dev).run()


def test_follows_memory():
    """Each share goes to the GPU with less memory in use, of those that the ledger counts as equal."""
    fake = library()
    node = asking(fake, gpus=2, units=4)
    placed = []
    for job, state in enumerate((FIRST_BUSY, SECOND_BUSY, SECOND_BUSY, FIRST_BUSY), start=1):
        says(fake, state)
        node.prolog(job, 1)
        placed.append(node.entries()[job][1])
    assert placed == [1, 0, 0, 1], placed
    jobs = {job["job"]: job["memory"] for job in node.status()["jobs"]}
    assert jobs == {job: (81920 - 600) // 4 for job in range(1, 5)}, jobs


def test_hangs_once_in_a_while():
    """Of the jobs that come while NVML hangs, few wait for it; well again, it is heard within ten seconds."""
    fake = library()
    says(fake, SECOND_BUSY + f"delay nvmlInit_v2 {HANG}\n")
    node = asking(fake, SHORT)
    node.prolog(1, 1)
    says(fake, SECOND_BUSY)
    node.reconfigure(f"={SHORT}\n", f"={PATIENT}\n")
    node.prolog(2, 1)
    assert remembered() == f"no answer in {SHORT} ms"
    late = time.time() - 11
    os.utime(LEDGER / "nvml", (late, late))
    node.prolog(3, 1)
    assert remembered() is None


def test_told_anew():
    """Well again in between, the same trouble is told again; another trouble is told at once."""
    fake = library()
    node = asking(fake)
    heard = []
    troubles = ("", "crash nvmlInit_v2\n", "crash nvmlInit_v2\n", "", "crash nvmlInit_v2\n", "fail nvmlInit_v2 18\n")
    for job, trouble in enumerate(troubles, start=1):
        says(fake, FIRST_BUSY + trouble)
        heard.append(sum(NO_LOAD in line for line in node.prolog(job, 1)))
    assert heard == [0, 1, 0, 0, 1, 1], heard


def test_seldom_asked_where_there_is_none():
    """A node without NVML doesn't look for it at every job, and finds it within a minute of its coming."""
    path = SITE / "later/libnvidia-ml.so.1"
    node = asking(path)
    node.prolog(1, 1)
    path.parent.mkdir()
    path.symlink_to(library())
    says(path, SECOND_BUSY)
    says(library(), SECOND_BUSY)
    node.prolog(2, 1)
    assert remembered().startswith("library not found") and {gpu for _, gpu, _ in node.entries().values()} == {0, 1}
    late = time.time() - 61
    os.utime(LEDGER / "nvml", (late, late))
    assert not any(NO_LOAD in line for line in node.prolog(3, 1)) and remembered() is None
    assert node.entries()[3][1] == 0


def test_makes_no_sense():
    """A gpushare-nvml of another version, half an answer, no end of it, none at all, or a program that is missing."""
    node = asking(library())
    node.programs = RUN / "bin"
    node.programs.mkdir()
    for name in ("gpushare-prolog", "gpushare-epilog"):
        subprocess.run(["install", "-m755", PROGRAMS / name, node.programs / name], check=True)
    asked = node.programs / "gpushare-nvml"
    for job, (script, reason) in enumerate([
        ("echo gpushare-nvml 2; echo end", "its first line is not"),
        ("printf 'gpushare-nvml 1\\ngpu=GPU-a used=1'", "its last line is not"),
        ("printf 'gpushare-nvml 1\\ngpu=GPU-a used=a\\nend\\n'", "a line that can't be read"),
        ("exec yes", "printed more than"),
        ("exit 1", "it printed nothing"),
        ("printf 'one\\nline \\033[2J' >&2; exit 1", NO_LOAD + "one"),
        ("exit 77", "exit status: 77"),
        ("kill -SEGV $$", "SIGSEGV"),
    ], start=1):
        asked.write_text(f"#!/bin/sh\n{script}\n")
        asked.chmod(0o755)
        lines = [line for line in node.prolog(job, 1) if NO_LOAD in line]
        assert len(lines) == 1 and reason in lines[0] and "\033" not in lines[0], (script, lines)
        assert job in node.entries()
    asked.unlink()
    if Path("/usr/sbin/gpushare-nvml").exists():
        pytest.skip("NOT TESTED: a missing gpushare-nvml, since one is installed on this machine")
    lines = [line for line in node.prolog(20, 1) if NO_LOAD in line]
    assert len(lines) == 1 and "/usr/sbin/gpushare-nvml can't be run: No such file" in lines[0], lines


def test_not_asked():
    """Nvml=off, and jobs without a share: no process is started."""
    fake = library()
    says(fake, FIRST_BUSY)

    def started(node, units):
        trace = RUN / "trace"
        before = ["strace", "-f", "-e", "trace=execve", "-o", trace]
        process = node.start("gpushare-prolog", 1, units, before=before)
        process.communicate(timeout=60)
        assert process.returncode == 0
        return sum("gpushare-nvml" in line for line in trace.read_text().splitlines())

    assert started(asking(fake), 1) == 1
    assert started(asking(fake), None) == 0
    assert started(Node(more="Nvml=off\n"), 1) == 0


def test_can_limit():
    """What the driver can is remembered for the job's extern step, also while it doesn't answer."""
    fake, older = library(), library("NO_LIMITS")
    marker = LEDGER / "limits"
    node = asking(fake)
    says(fake, FIRST_BUSY)
    node.prolog(1, 1)
    assert marker.is_file()
    says(fake, FIRST_BUSY + "crash nvmlInit_v2\n")
    node.prolog(2, 1)
    assert marker.is_file() and remembered()
    says(fake, FIRST_BUSY)
    node.reconfigure(str(fake), str(older))
    says(older, FIRST_BUSY)
    node.prolog(3, 1)
    assert not marker.exists() and remembered() is None


def test_sets():
    """Compute mode and a cgroup's limit, as NVML gets them; and refusals, in a line."""
    fake, older = library(), library("NO_LIMITS")

    def order(*words, path=fake):
        command = [PROGRAMS / "gpushare-nvml", "--library", path, *words]
        done = subprocess.run(command, capture_output=True, text=True, env={})
        assert done.stdout == "" and (done.returncode, done.stderr.count("\n")) in ((0, 0), (1, 1)), done
        return done.stderr

    for path in (fake, older):
        says(path, FIRST_BUSY)
    assert order("compute-mode", UUIDS[1], "exclusive-process") == ""
    assert order("compute-mode", UUIDS[1], "default") == ""
    assert order("limit", UUIDS[0], "/sys/fs/cgroup/job_7", "2048") == ""
    limit = f"limit {UUIDS[0]} /sys/fs/cgroup/job_7 0 {2048 << 20}"
    assert told(fake) == [f"mode {UUIDS[1]} 3", f"mode {UUIDS[1]} 0", limit], told(fake)
    assert "function couldn't be found" in order("limit", UUIDS[0], "/sys/fs/cgroup/job_7", "2048", path=older)
    assert "GPU 'GPU-none'" in order("compute-mode", "GPU-none", "default")
    for words in (["compute-mode", UUIDS[0], "prohibited"], ["limit", UUIDS[0], "job_7", "1"], ["reset"]):
        assert "usage: gpushare-nvml" in order(*words)
    says(fake, FIRST_BUSY + fails("SetComputeMode", 4) + fails("SetMemoryLimits_v1", NOT_SUPPORTED))
    assert "does not have permission" in order("compute-mode", UUIDS[0], "default")
    assert "not available" in order("limit", UUIDS[0], "/sys/fs/cgroup/job_7", "2048")
    assert told(fake) == []


def test_shown():
    """`gpushare status` has the numbers and the fault, also for a plain user;
    what is wrong it says on standard error."""
    fake = library()
    says(fake, gpus(f"{BUSY} processes=2 clients=3", f"{IDLE} field=145:1"))
    node = asking(fake, units=4)
    node.prolog(1, 1)
    (RUN / "bin").mkdir()
    for name in ("gpushare", "gpushare-nvml"):
        subprocess.run(["install", "-m755", PROGRAMS / name, RUN / "bin" / name], check=True)

    def status(*words, user=0):
        command = as_user(user, [RUN / "bin/gpushare", "status", *words, "--conf", node.site / "gpushare.conf"])
        return subprocess.run(command, capture_output=True, text=True, check=True)

    assert "40000  81320   90%          3" in status(user=2002).stdout
    first, second = json.loads(status("--json").stdout)["gpus"]
    keys = ("used", "memory", "utilization", "processes", "fault")
    assert [first[key] for key in keys] == [40000, 81320, 90, 3, None], first
    assert second["processes"] == 0 and "remapped" in second["fault"], second
    table = status().stdout
    assert "40000  81320   90%          3" in table and "GPU 1 takes no shares, NVML says: " in table, table
    says(fake, FIRST_BUSY + "crash nvmlInit_v2\n")
    done = status()
    assert "nothing from NVML: gpushare-nvml ended with signal: 6" in done.stderr, done
    assert "MIB USED" not in done.stdout, done
    assert remembered() is None, "a status is nobody's log"
    says(fake, FIRST_BUSY + "fail nvmlInit_v2 9\n")
    assert status().stderr == ""


@contextlib.contextmanager
def processes(*users, script="exec sleep 300"):
    """A process of each of these users, outside of all jobs."""
    started = [
        subprocess.Popen(["/bin/sh", "-c", f"echo; {script}"], user=user, stdout=subprocess.PIPE) for user in users
    ]
    for process in started:
        process.stdout.readline()
    time.sleep(0.05)  # Older than gpushare-nvml by a tick of the kernel's.
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_foreign_processes():
    """those of no job are named, failed for or ended as ForeignProcesses says, and root's and the other GPU's never."""
    fake = library()
    with processes(2001, 0, 120) as (squatter, roots, system), processes(2002) as (elsewhere,):
        first = f"{IDLE} pid={squatter.pid} pid={roots.pid} pid={system.pid}"
        said = f"job 1: GPU 0 has foreign processes, in none of its jobs: {squatter.pid} (user 2001)"
        for value, told in (("ignore", []), ("warn", [said]), ("fail", [said]), ("end", [f"{said}; they were ended"])):
            node = asking(fake, more=f"ForeignProcesses={value}\n")
            says(fake, gpus(first, f"{BUSY} pid={elsewhere.pid}"))
            lines = [line.split(": ", 1)[1] for line in node.prolog(1, 40)]
            assert lines == ["job 1: 40 of 80 units on GPU 0 (/dev/null)", *told], (value, lines)
            assert node.failure(1) == (said.split(": ", 1)[1] if value == "fail" else None)
            assert [process.poll() for process in (squatter, roots, system, elsewhere)] == [
                -15 if value == "end" else None, None, None, None,
            ]
            found = [gpu["foreign"] for gpu in node.status()["gpus"]]
            assert found[0] == ([] if value == "end" else [{"pid": squatter.pid, "user_id": 2001, "job": None}]), found
            assert [one["pid"] for one in found[1]] == [elsewhere.pid]
            node.epilog(1)
            node.check_empty()
    with processes(2001, script="trap '' TERM; while :; do sleep 0.1; done") as (stubborn,):
        says(fake, gpus(f"{IDLE} pid={stubborn.pid}", BUSY))
        node = asking(fake, more="ForeignProcesses=end\n")
        assert node.prolog(2, 40)[-1].endswith("; they were ended") and stubborn.wait() == -9


def test_idle_jobs():
    """when a job last used its GPU is known from look to look, and a GPU's use is its process's job's."""
    fake = library()
    node = asking(fake)
    metrics = lambda: subprocess.run(
        [PROGRAMS / "gpushare", "metrics", "--conf", node.site / "gpushare.conf"], capture_output=True, text=True
    )
    idle = lambda: {job["job"]: [gpu["idle"] for gpu in job["gpus"]] for job in node.status()["jobs"]}
    says(fake, gpus(IDLE, BUSY))
    node.prolog(1, 40)
    assert idle() == {1: [None]}, "nobody has looked"
    time.sleep(2)
    text = metrics().stdout
    assert "gpushare_gpu_foreign_processes" in text and 'gpushare_gpu_idle_seconds{gpu="0"' in text, text
    assert 2 <= idle()[1][0] < 60, idle()
    says(fake, gpus(f"{IDLE} busy=4000000:7", BUSY))
    assert metrics().returncode == 0 and idle() == {1: [0]}, "somebody uses it, and there is one job"
    with processes(2001) as (squatter,):
        says(fake, gpus(f"used=100 utilization=0 pid={squatter.pid} busy={squatter.pid}:0", BUSY))
        time.sleep(2)
        assert metrics().returncode == 0 and idle()[1][0] >= 1, "nothing uses it"
        says(fake, gpus(f"used=100 utilization=50 pid={squatter.pid} busy={squatter.pid}:50", BUSY))
        assert metrics().returncode == 0 and idle()[1] == [0], "a foreign process may be the job's"
    used = (LEDGER / "used").read_text()
    for broken in ("", "x", "1 0 3 1\n"):
        (LEDGER / "used").write_text(broken)
        assert idle() == {1: [None]} and metrics().returncode == 0
    (LEDGER / "used").write_text(used)
    node.epilog(1)
    assert metrics().returncode == 0 and (LEDGER / "used").read_text() == ""
    node.check_empty()


def test_status_of_many(figure):
    """The time that it takes; checked by nobody here."""
    fake = library()
    node = asking(fake, gpus=8, units=1000)
    says(fake, "".join(f"gpu GPU-{number} {minor} total=81920 reserved=600 {IDLE} processes=25\n" for number, minor in
                       enumerate(os.minor(os.stat(path).st_rdev) for path in DEVICES)))
    for job in range(1, 201):
        node.prolog(job, 1, user=2000 + job)
    command = [PROGRAMS / "gpushare", "status", "--conf", node.site / "gpushare.conf"]
    times = []
    for _ in range(20):
        start = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        times.append(time.monotonic() - start)
    assert done.stdout.count("\n") == 211 and "MIB USED" in done.stdout, done.stdout
    figure(f"gpushare status of 8 GPUs and 200 jobs of as many users: {1000 * sorted(times)[10]:.1f} ms (median of 20)")
