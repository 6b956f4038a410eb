# SPDX-License-Identifier: GPL-2.0-or-later
"""tests/gpu/one with stand-ins for what needs silicon: each of its rows is green, each is red if what it is about is
broken, and nothing of it is left. Without any of Slurm's files but the bundle's own."""

import collections
import concurrent.futures
import contextlib
import json
import subprocess
import time
from pathlib import Path

import client
import pytest
from clusters import started
from lab import CASES, RELEASES, TOP, nvidia

# What tests/gpu/bundle takes.
RELEASE = "24.11"
OUT = "/lab/out"
# Readings: whatever they say is the answer.
READINGS = {"driver", "mps-control", "kernel", "lone"}
# {what is broken: (the scenes that run, {a row that must be red: a word of its reason})}
BROKEN = {
    "fence": ("fence", {
        "no-share": "opened ['nvidia0']", "forged": "CUDA_VISIBLE_DEVICES", "open-before": "'init': 0",
        "inside": "opened ['nvidia0']",
    }),
    "none": ("fence,without_mps", {
        "cuinit": "'init': 100", "share": "cuInit 100", "turns": "No CUDA GPUs", "together": "No CUDA GPUs",
    }),
    "nameless": ("end", {"uuid": "after NVML too"}),
    "unfair kin": ("per_user,multiuser,eight_users", {
        "per-user": "below 0.9", "multiuser": "below 0.9", "users": "below 0.9", "kill": "CUDA error 719",
    }),
    "turns limits blind remains": ("without_mps,per_user,multiuser,eight_users,headline,processes,end", {
        "headline": "no gain", "multiprocessors": "108 of 108", "memory": "'refused': None",
        "capped": "of the speed without a limit",
        "raised": "raised its variable", "foreign": "no foreign process", "idle": "not the 512 MiB", "end": "processes",
    }),
    "spread slow": ("per_user", {
        "fault-per-user": "another user's too", "nvml": "(NvmlTimeout=", "prolog": "more than NvmlTimeout",
    }),
    "wound": ("multiuser", {"fault-multiuser": "no new job of alice"}),
}
# {what a machine lacks: (the scenes that run, the reason, what is then not tried)}
MPS = {
    "per-user", "multiprocessors", "memory", "raised", "kill", "fault-per-user", "multiuser", "fault-multiuser",
    "headline", "users", "capped", "lone",
}
BY_SLURM = MPS | {"no-share", "share", "forged", "open-before", "inside", "turns", "together", "foreign", "idle", "end"}
MISSING = {
    "without-mps": (
        "fence,per_user,multiuser,eight_users,headline", "no nvidia-cuda-mps-control", MPS | {"mps-control"},
    ),
    "without-proc": ("per_user,multiuser,eight_users,headline,processes", "no /proc/driver/nvidia", MPS | {"uuid"}),
    "without-bpf": ("end", "no bpf(2)", BY_SLURM),
    "without-munge": ("end", "Slurm does not start", BY_SLURM),
}
STATE = """
    find /sys/fs/cgroup -type d; grep -v ' /proc ' /proc/mounts; find /usr/sbin /etc/slurm /usr/lib/x86_64-linux-gnu
    find /run/gpushare* /dev/shm; ps -eo comm | grep -E 'munged|slurm|nvidia|sleep|python'; cat /etc/passwd"""


@contextlib.contextmanager
def bundled(kind, cgroup, made):
    """A cluster of the lab that is only a machine with the bundle, stand-ins for the GPU, and NVIDIA's MPS programs."""
    if RELEASE not in RELEASES:
        pytest.skip(f"the bundle is of Slurm {RELEASE}")
    newest = nvidia("555")
    if not newest:
        pytest.skip("NOT TESTED: NVIDIA's programs of 555, which has a daemon for all users, can't be had here")
    subprocess.run([TOP / "tests/gpu/bundle", made / "bundle"], check=True)
    with started(kind, RELEASE, cgroup, conf=[CASES / "one-gpu"], nvidia=True, python=True) as cluster:
        for path in (made / "bundle").rglob("*"):
            if path.is_file():
                target = f"{OUT}/gpu/{path.relative_to(made / 'bundle')}"
                cluster.ok(["mkdir", "-p", target.rpartition("/")[0]])
                cluster.write(target, path.read_bytes())
        for source, library in (("cuda.c", "libcuda.so.1"), ("nvml.c", "libnvidia-ml.so.1")):
            client.compiled(TOP / "tests/fakes" / source, RELEASE, made / library, "-shared", "-fPIC", "-ldl")
            cluster.ok(["mkdir", "-p", f"{OUT}/fakes"])
            client.install(cluster, made / library, f"{OUT}/fakes/{library}")
        client.install(cluster, newest / "usr/bin/nvidia-cuda-mps-control", "/usr/bin/nvidia-cuda-mps-control")
        leave_no_slurm(cluster)
        yield cluster


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with bundled("gpu", "v2", tmp_path_factory.mktemp("gpu")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory):
    """A machine with v1 hierarchies, on which v2 can be mounted."""
    with bundled("gpu-v1", "v1", tmp_path_factory.mktemp("gpu")) as cluster:
        yield cluster


# What every machine has; the bundle brings no library in its place.
USERLAND = "bash find grep ps umount unshare mount setpriv sleep tar"


def leave_no_slurm(cluster):
    """Ends the lab's own daemons and takes away every file that the bundle has too, except what Python and the userland
    need."""
    cluster.ok("for daemon in slurmd slurmctld slurmdbd; do /lab/service stop $daemon; done")
    cluster.ok("kill $(cat /run/munge/munged.pid) && rm -rf /usr/lib/*/slurm-wlm /usr/sbin/slurm* /usr/sbin/munged")
    programs = f"$(which {USERLAND}) $(readlink -f $(which python3)) /usr/lib/python3*/lib-dynload/*.so"
    needed = cluster.ok(f"ldd {programs} | grep -o '=> /[^ ]*'")
    kept = {line.rpartition("/")[2] for line in needed.splitlines()}
    packed = subprocess.run(
        ["tar", "-tJf", cluster.out / "gpu/slurm.tar.xz"], check=True, capture_output=True, text=True
    ).stdout.split()
    names = {name.rpartition("/")[2] for name in packed if ".so." in name} - kept
    assert names >= {"libmunge.so.2", "libhwloc.so.15", "libdbus-1.so.3", "libpam_misc.so.0"}, names
    # Links, and what they point to.
    patterns = " -o ".join(f"-name '{name}*'" for name in sorted(names))
    cluster.ok(f"find /usr/lib/x86_64-linux-gnu -maxdepth 1 \\( {patterns} \\) -delete")


def state(cluster):
    """What a run could leave behind; Counter's difference is shorter to read than a text's."""
    return collections.Counter(cluster.run(STATE).stdout.splitlines())


def one(cluster, *words):
    done = cluster.run(
        ["python3", f"{OUT}/gpu/one", "--pretend", f"{OUT}/fakes", "--json", f"{OUT}/gpu.json", *words], timeout=300
    )
    rows = json.loads((cluster.out / "gpu.json").read_text())["rows"]
    return done, {row["name"]: row for row in rows}


def test_every_row_is_green_and_nothing_is_left(node):
    before = state(node)
    done, rows = one(node)
    assert done.returncode == 0 and {row["verdict"] for row in rows.values()} == {"ok"}, done.stdout + done.stderr
    assert len(rows) == 29 and rows["mps-control"]["said"].endswith(", 555.58.02"), rows
    assert state(node) == before


@pytest.mark.parametrize("words, kind", [("", "v2"), ("without-bpf", "v1")])
def test_both_kinds_of_cgroups_on_a_hybrid_machine(hybrid, words, kind):
    before = state(hybrid)
    done, rows = one(hybrid, "--break", words, "--only", "fence,end")
    assert done.returncode == 0 and {row["verdict"] for row in rows.values()} == {"ok"}, done.stdout + done.stderr
    assert json.loads((hybrid.out / "gpu.json").read_text())["machine"]["cgroup"] == kind
    assert state(hybrid) == before


def test_cgroups_of_others_stay(hybrid):
    """This machine's cgroup2 has those of other clusters, some of them empty."""
    with open("/proc/mounts") as mounts:
        top = Path(next(line.split()[1] for line in mounts if line.split()[2] == "cgroup2"))
    other = top / f"gpushare-lab-{hybrid.name}-other"
    other.mkdir()
    made = []
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(one, hybrid, "--only", "fence,end")
        while not running.done():
            made.append(other / str(len(made)))
            made[-1].mkdir()
            time.sleep(0.2)
        done, _ = running.result()
    left = [path for path in made if path.exists()]
    for path in [*left, other]:
        path.rmdir()
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(made) > 10 and left == made
    assert not (top / "gpushare-gpu").exists()


@pytest.mark.parametrize("words", BROKEN)
def test_each_row_is_red_if_its_subject_is_broken(node, words):
    scenes, expected = BROKEN[words]
    before = state(node)
    done, rows = one(node, "--break", words, "--only", scenes)
    said = {name: row["said"] for name, row in rows.items() if row["verdict"] == "WRONG"}
    assert done.returncode == 1, done.stdout + done.stderr
    assert {name: why in said.get(name, "") for name, why in expected.items()} == dict.fromkeys(expected, True), said
    assert state(node) == before


def test_all_rows_are_broken_once():
    names = set().union(*(expected for _, expected in BROKEN.values()))
    questions = subprocess.run(
        ["python3", "-c", "import rows; print(*rows.NAMES)"], cwd=TOP / "tests/gpu", check=True, capture_output=True,
        text=True,
    ).stdout.split()
    assert names | READINGS == set(questions) and not names & READINGS


@pytest.mark.parametrize("words", MISSING)
def test_what_a_machine_lacks_costs_only_its_own_rows(node, words):
    scenes, why, expected = MISSING[words]
    done, rows = one(node, "--break", words, "--only", scenes)
    missed = {name: row["said"] for name, row in rows.items() if row["verdict"] == "not tried"}
    assert done.returncode == 0 and set(missed) == expected and all(why in said for said in missed.values()), done


def test_a_run_ends_in_time_and_keeps_what_it_has(node):
    before = state(node)
    done, rows = one(node, "--seconds", "12", "--break", "hang")
    late = {name: row["said"] for name, row in rows.items() if row["verdict"] == "not tried"}
    # How far it comes depends on the machine.
    assert rows["nvml"]["verdict"] == "ok" and "end" in late and len(late) > 3, done
    assert all(" left" in said for said in late.values()) and len(rows) == 29, late
    assert state(node) == before
