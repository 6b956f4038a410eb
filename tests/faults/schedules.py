# SPDX-License-Identifier: GPL-2.0-or-later
"""Three programs at once on one node, in chosen orders of their system calls: they are interrupted twice before calls
that have to do with the ledger or an MPS daemon, and go on later, or are killed there. No order may leave what one
program after the other couldn't leave, and no reader may see half of something, or what never was (scenes.py).

--schedules=COUNT[:SEED] plays so many orders, of all that there are, chosen at random. --schedule='SCENE: TURNS' plays
one again; a failure prints it. In TURNS, '0:12' lets the first program make 12 calls, '0' lets it end, '0:12!' kills it
after 12, and with '0?' it insists for a while on a lock that another holds, and else lets the others go on."""

import ctypes
import itertools
import json
import os
import random
import signal
import subprocess
import time
import traceback

import bare_node
import held
import mps_node
import pytest
from bare_node import SITE, TOP
from scenes import SCENES, Stage

# Namespaces of mounts and of processes.
NEW = 0x00020000 | 0x20000000
WORKERS = os.cpu_count()


def pytest_generate_tests(metafunc):
    wanted = (metafunc.config.getoption("schedule") or "").partition(":")[0]
    found = [scene for scene in SCENES if wanted in ("", scene.name)]
    if not found:
        raise pytest.UsageError(f"no scene is called '{wanted}'")
    metafunc.parametrize("scene", found, ids=lambda scene: scene.name)


@pytest.fixture(scope="module")
def tools():
    """What is only built for this, outside of /run."""
    if held.CALLS is None:
        pytest.skip("NOT TESTED: orders of system calls, whose numbers on this machine held.py doesn't know")
    subprocess.run(
        ["cargo", "build", "--quiet", "--locked", "-p", "gpushare-node", "--example", "step"], cwd=TOP, check=True
    )
    folder = SITE / "schedules"
    folder.mkdir()
    held.build(folder)
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-O1", "-static", "-o", folder / "control",
                    TOP / "tests/fakes/control.c"], check=True)
    return folder


@pytest.fixture(scope="module")
def order(pytestconfig):
    """How many orders of all scenes, and the seed."""
    count, _, seed = pytestconfig.getoption("schedules").partition(":")
    return int(count), int(seed or random.randrange(1 << 32))


def all_orders(points):
    """Every order of the programs with two interruptions at these points, of which one may be a kill, and those in
    which the second program insists on a lock."""
    for who in itertools.permutations(range(len(points))):
        first, second, *rest = who
        others = [(which, None, None) for which in rest]
        for early in points[first]:
            for late in points[second]:
                yield (first, early, None), (second, late, None), *others
                yield (first, early, None), (second, late, held.KILL), *others
                yield (first, early, held.KILL), (second, late, None), *others
            for late in points[first]:
                if late > early:
                    yield (first, early, None), (second, None, None), (first, late, None), *others
            yield (first, early, None), (second, None, held.INSIST), *others


def written(schedule):
    return " ".join(f"{which}{'' if at is None else f':{at}'}{fate or ''}" for which, at, fate in schedule)


def read(text):
    for word in text.split():
        fate = word[-1] if word[-1] in (held.KILL, held.INSIST) else None
        which, _, at = word.removesuffix(fate or " ").partition(":")
        yield int(which), int(at) if at else None, fate


def alone(work, number):
    """What WORK returns in a process with its own /run, /proc and directory; or the text of its exception."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    try:
        if ctypes.CDLL(None, use_errno=True).unshare(NEW):
            raise OSError(ctypes.get_errno(), "unshare")
        child = os.fork()
        if child:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
        bare_node.SITE = SITE / f"schedules/{number}"
        bare_node.SITE.mkdir(exist_ok=True)
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[number % len(os.sched_getaffinity(0))]})
        signal.signal(signal.SIGALRM, held.late)
        found = work()
    except BaseException:
        found = {"wrong": traceback.format_exc()}
    with os.fdopen(writer, "w") as told:
        json.dump(found, told)
    os._exit(0)


def answers(running):
    for pid, reader in running:
        with os.fdopen(reader) as told:
            text = told.read()
        os.waitpid(pid, 0)
        yield json.loads(text) if text else {"wrong": "the process that plays has ended"}


def played(scene, tools, schedules):
    """Plays them until one is wrong."""
    stage = Stage(scene, tools)
    for count, schedule in enumerate(schedules):
        try:
            stage.reset()
            stage.check(schedule, stage.play(schedule))
        except Exception:
            again = f"tests/faults/run schedules --schedule='{scene.name}: {written(schedule)}'"
            return {"count": count, "wrong": f"{traceback.format_exc()}\nagain: {again}"}
    return {"count": len(schedules)}


def test_orders(scene, tools, order, pytestconfig, figure):
    mps_node.know_users()
    only = pytestconfig.getoption("schedule")
    if only:
        chosen = [list(read(only.partition(":")[2]))]
    else:
        count, seed = order
        [points] = answers([alone(lambda: Stage(scene, tools).points(), 0)])
        if "wrong" in points:
            pytest.fail(points["wrong"], pytrace=False)
        every = list(all_orders(points))
        share = round(count * scene.weight / sum(scene.weight for scene in SCENES))
        chosen = random.Random(f"{seed} {scene.name}").sample(every, min(share, len(every)))
        print(f"seed {seed}: {len(chosen)} of {len(every)} orders")
    started = time.monotonic()
    parts = [chosen[number::WORKERS] for number in range(WORKERS)]
    running = [alone(lambda part=part: played(scene, tools, part), number) for number, part in enumerate(parts) if part]
    found = list(answers(running))
    wrong = [one["wrong"] for one in found if "wrong" in one]
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)
    if not only:
        took = time.monotonic() - started
        figure(f"orders of '{scene.name}', seed {seed}: {len(chosen)} of {len(every)} in {took:.1f} s")
