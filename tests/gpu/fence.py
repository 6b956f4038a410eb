# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows about the machine, its times, and what jobs can open. Each function answers the rows that SCENES in `one` names
beside it; MPS plays no part, except in the prolog's time."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from cluster import EIGHTH, Failed, until
from node import HOME, USERS, WORK
from rows import NotTried, Wrong

# gpushare's defaults, in ms: how long a prolog waits for NVML, and for an MPS daemon (or a GPU never used before).
NVML_TIMEOUT, MPS_TIMEOUT = 500, 5000
UNKNOWN = "?"
FIRST_JOB = 4_000_000_001
NO_DEVICE = 100
FORGED = {"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "UUID"}, {"NVIDIA_VISIBLE_DEVICES": "all"}
# What a share sets, and no other job should have.
OF_A_SHARE = "CUDA_MPS_", "GPUSHARE_", "NVIDIA_VISIBLE_DEVICES", "XLA_PYTHON_CLIENT_MEM_FRACTION"


def look(test, user=None):
    """What cuda.py sees outside of jobs."""
    command = [sys.executable, test.node.programs / "cuda.py", "look"]
    done = test.cluster.run(*command, user=user or "root")
    return json.loads(done.stdout)


def inventory(test):
    machine = test.machine
    about = test.rows.all["machine"]
    with test.rows.row("uuid") as row:
        # Nothing has called NVML or CUDA yet.
        if not machine.in_proc:
            raise NotTried("no /proc/driver/nvidia")
        row.said = machine.gpu["uuid"] or "no UUID"
        if UNKNOWN in row.said:
            row.said = "not yet; after the first query of NVML"
        elif not row.said.startswith("GPU-"):
            raise Wrong(f"/proc says '{row.said}'")
    with test.rows.row("driver") as row:
        about |= {"gpu": machine.gpu["model"], "driver": machine.driver()}
        row.said = f"{machine.gpu['model']}, driver {machine.driver()}, libcuda at {machine.libcuda}"
        if not machine.libcuda:
            raise Wrong(f"{row.said}: no libcuda.so.1")
    with test.rows.row("mps-control") as row:
        if not machine.control:
            raise NotTried("no nvidia-cuda-mps-control in PATH, /usr/bin, /usr/local/nvidia/bin or beside libcuda")
        about["mps"] = machine.control_version()
        row.said = f"{machine.control}, {about['mps']}"
    with test.rows.row("kernel") as row:
        kinds = [test.found(kind) for kind in test.node.kinds()]
        about["kernel"] = os.uname().release
        row.said = f"Linux {os.uname().release}; {'; '.join(kinds) or 'no cgroups'}"


def times(test):
    machine = test.machine
    with test.rows.row("nvml") as row:
        if not machine.libnvml:
            raise NotTried("no libnvidia-ml.so.1")
        cold, warm = (nvml(test) for _ in (1, 2))
        row.data = {"first_ms": cold, "later_ms": warm}
        row.said = f"{cold:.0f} ms, then {warm:.0f} ms (NvmlTimeout={NVML_TIMEOUT})"
        if warm > NVML_TIMEOUT or cold > MPS_TIMEOUT:
            raise Wrong(row.said)
    machine.gpu = machine.first_gpu()
    if machine.in_proc and (not machine.gpu["uuid"].startswith("GPU-") or UNKNOWN in machine.gpu["uuid"]):
        test.rows.answer("uuid", "WRONG", f"after NVML too: '{machine.gpu['uuid']}'")
    with test.rows.row("cuinit") as row:
        seen = [look(test) for _ in (1, 2)]
        if any(one.get("init") for one in seen):
            raise Wrong(f"cuInit outside of jobs: {seen}")
        test.multiprocessors = seen[0]["multiprocessors"]
        test.rows.all["machine"]["cuda"] = seen[0]["version"]
        row.data = {"first_ms": seen[0]["ms"], "later_ms": seen[1]["ms"]}
        row.said = f"{seen[0]['ms']:.0f} ms, then {seen[1]['ms']:.0f} ms"
    with test.rows.row("prolog") as row:
        row.data = {"plain": prologs(test, "off")}
        if test.no_mps() is None:
            row.data["mps"] = prologs(test, "per-user")
        row.said = "; ".join(
            f"{'with an MPS daemon' if how == 'mps' else 'without MPS'} {first:.0f} ms, then {later:.0f} ms"
            for how, (first, later) in row.data.items()
        )
        slow = [one for pair in row.data.values() for one in pair if one > NVML_TIMEOUT]
        # Stand-ins say nothing about a real machine's time, unless one is told to be slow.
        if slow and (not test.machine.pretended or "slow" in test.machine.broken):
            raise Wrong(f"{row.said}: more than NvmlTimeout ({NVML_TIMEOUT} ms)")


def nvml(test):
    """How many ms one query takes."""
    begin = time.monotonic()
    done = test.cluster.run(HOME / "gpushare/sbin/gpushare-nvml", "--library", test.machine.libnvml)
    if done.returncode:
        raise Wrong(done.stderr.strip())
    return (time.monotonic() - begin) * 1000


def prologs(test, mps):
    """The ms of two prologs in turn, each with its epilog, as slurmd would run them."""
    test.cluster.configure(Mps=mps)
    taken = []
    for job in (FIRST_JOB, FIRST_JOB + 1):
        environment = {
            "SLURM_JOB_ID": str(job), "SLURM_JOB_UID": str(USERS["alice"]), "SLURM_JOB_RESTART_COUNT": "0",
            "SPANK_GPUSHARE_SHARE": f"gpushare:{EIGHTH}", "SLURM_CONF": "/etc/slurm/slurm.conf",
        }
        for program in ("gpushare-prolog", "gpushare-epilog"):
            begin = time.monotonic()
            done = subprocess.run(
                [HOME / "gpushare/sbin" / program], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, timeout=60, cwd=WORK,
            )
            if program == "gpushare-prolog":
                taken.append(round((time.monotonic() - begin) * 1000, 1))
                failed = [one["reason"] for one in test.cluster.status()["failures"] if one["job"] == job]
                if done.returncode or failed:
                    raise Wrong(f"{failed or done.stderr}")
    return taken


def fence(test):
    cluster, view = test.cluster, test.cluster.program("view.py")
    cluster.configure()
    uuid = test.machine.gpu["uuid"]
    forged = [{name: uuid if value == "UUID" else value for name, value in one.items()} for one in FORGED]
    none = cluster.submit("alice", view)
    share = cluster.submit("bob", view, EIGHTH)
    jobs = [cluster.submit("alice", view, environment=one) for one in forged]
    with test.rows.row("no-share") as row:
        seen = cluster.json(none)
        row.data = test.without = seen
        if seen["available"] or seen["nodes"] or seen["init"] != NO_DEVICE:
            raise Wrong(f"available {seen['available']}, opened {seen['nodes']}, cuInit {seen['init']}")
        row.said = f"no (cuInit {seen['init']}); a program that asks for it anyway: {seen['error']}"
    with test.rows.row("share") as row:
        seen = row.data = cluster.json(share)
        if not seen["available"] or seen["count"] != 1 or seen["error"]:
            raise Wrong(f"available {seen['available']}, {seen['count']} GPUs, cuInit {seen['init']}: {seen['error']}")
        row.said = "yes, one"
    with test.rows.row("forged") as row:
        seen = [cluster.json(job) for job in jobs]
        opened = [one for one, saw in zip(forged, seen) if saw["available"] or saw["nodes"] or saw["init"] == 0]
        if opened:
            raise Wrong(f"yes: {opened}")
        row.said = f"no: {', '.join(sorted({name for one in forged for name in one}))}"
    with test.rows.row("open-before") as row:
        row.said = open_before(test)
    with test.rows.row("inside") as row:
        row.said = inside(test)
    cluster.end()


def open_before(test):
    """A program that computes joins a job without a share, in which nothing can open the GPU."""
    cluster, node = test.cluster, test.node
    command = [sys.executable, node.programs / "cuda.py", "hold", 6, 64]
    holder = node.start(*node.as_user("alice", *command), environment=node.environment("alice"))
    try:
        return joined(cluster, node, holder)
    finally:
        holder.kill()


def joined(cluster, node, holder):
    said = json.loads(holder.stdout.readline())
    if said.get("allocated") != 0:
        raise Wrong(f"outside of jobs: {said}")
    # The job's end would be the holder's too.
    script = f"echo pid=$$; sleep 1; {cluster.program('cuda.py', 'look')}; tail --pid={holder.pid} -f /dev/null"
    job = cluster.submit("alice", script)
    found = until(lambda: re.search(r"pid=(\d+)", cluster.output(job)), 30, f"output of job {job}")
    (node.cgroup_of(found[1]) / "cgroup.procs").write_text(str(holder.pid))
    inside = cluster.json(job)
    said = json.loads(holder.communicate(timeout=60)[0].splitlines()[-1])
    if inside.get("init") != NO_DEVICE:
        raise Wrong(f"a new program of that job: {inside}")
    if said["error"] or not said["steps"]:
        raise Wrong(f"no: {said}")
    return f"yes ({said['steps']} steps); new programs there get cuInit {inside['init']}"


def inside(test):
    cluster = test.cluster
    view = cluster.program("view.py")
    mps = "off" if test.no_mps() else "per-user"
    cluster.configure(Mps=mps)
    outer = cluster.submit("alice", f"sbatch --parsable -o {WORK}/out/%j --wrap '{view}'", EIGHTH)
    number = until(lambda: re.search(r"^\d+$", cluster.output(outer), re.M) or cluster.is_over(outer), 30, "inner job")
    if number is True:
        raise Failed(f"no job from inside: {cluster.why(outer)}")
    seen = cluster.json(number[0])
    left = {name: value for name, value in seen["variables"].items() if name.startswith(OF_A_SHARE)}
    if seen["available"] or seen["nodes"] or left:
        raise Wrong(f"available {seen['available']}, opened {seen['nodes']}, variables {left}")
    return f"nothing: no GPU, no variables (Mps={mps})"


def processes(test):
    cluster, node = test.cluster, test.node
    cluster.configure()
    command = [sys.executable, node.programs / "cuda.py", "hold", test.machine.patience, 512]
    stranger = node.start(*node.as_user("bob", *command), environment=node.environment("bob"))
    try:
        job = cluster.submit("alice", cluster.program("cuda.py", "hold", test.machine.patience, 512), EIGHTH)
        with test.rows.row("foreign") as row:
            cluster.json(job)
            json.loads(stranger.stdout.readline())
            seen = until(lambda: cluster.status()["gpus"][0].get("foreign"), 5, "foreign process in `gpushare status`")
            if [(one["pid"], one["user_id"]) for one in seen] != [(stranger.pid, USERS["bob"])]:
                raise Wrong(f"{seen}, not process {stranger.pid} of user {USERS['bob']}")
            row.said = f"yes: process {stranger.pid} of user {USERS['bob']}"
        with test.rows.row("idle") as row:
            [seen] = [one for one in cluster.status()["jobs"] if one["job"] == int(job)]
            used = seen["gpus"][0]
            row.data = used
            # The stand-in for NVML says 500.
            if (used["used"] or 0) < 500:
                raise Wrong(f"{used}: not the 512 MiB that it holds")
            row.said = f"yes: {used['used']} MiB, {used['utilization']} % of the time"
    finally:
        stranger.kill()
        stranger.wait()
        cluster.end()


def end(test):
    with test.rows.row("end") as row:
        test.cluster.end()
        mps = Path("/run/gpushare/mps")
        folders = [path.name for path in mps.iterdir()] if mps.exists() else []
        ours = {USERS[user]: user for user in USERS}
        def left():
            return [
                path.name for path in Path("/proc").glob("[0-9]*") if is_of(path, ours) or is_new_daemon(path, test)
            ]
        try:
            until(lambda: not left(), 10, "end of all processes")
        except Failed:
            raise Wrong(f"processes {' '.join(left())}") from None
        used = memory(test)
        if folders or used > test.used + 64:
            raise Wrong(f"directories {folders}, {used} MiB in use, {test.used} MiB at the beginning")
        row.said = f"no process, no directory; {used} MiB in use, as at the beginning ({test.used})"


def is_of(path, users):
    try:
        return path.stat().st_uid in users
    except OSError:
        return False


def is_new_daemon(path, test):
    try:
        return (path / "comm").read_text().startswith("nvidia-cuda-mps") and int(path.name) not in test.daemons
    except OSError:
        return False


def memory(test):
    """MiB in use by NVML."""
    test.machine.refresh()
    said = test.cluster.run(HOME / "gpushare/sbin/gpushare-nvml", "--library", test.machine.libnvml or "none").stdout
    found = re.search(r"\bused=(\d+)", said)
    return int(found[1]) if found else 0
