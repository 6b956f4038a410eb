# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/examples/jupyterhub as it stands: twelve students start notebooks at once on a node of four GPUs, and two of
them read on the hub's page why they get none. With GPUSHARE_WRITE_DOCS=1 the picture of that page is written anew."""

import json
import os
import re
import shutil
import signal
import subprocess
from collections import Counter

import pytest
from gpus import OPEN, opened
from lab import EXAMPLES, TOP
from test_rules import CONF, configured

COURSE = "jupyterhub_course_vision"
PICTURE = EXAMPLES / "jupyterhub/refused.png"
QUARTER = {"gres": "mps:25", "reservation": COURSE}
# `big` has an old page with a size that the site no longer allows; carol isn't in the course.
FORMS = {
    **{f"s{number:02}": QUARTER for number in range(1, 9)},
    **{f"half{number}": {**QUARTER, "gres": "mps:50"} for number in (1, 2)},
    "big": {**QUARTER, "gres": "mps:75"},
    "carol": {**QUARTER, "reservation": ""},
}
RUNNING = list(FORMS)[:10]
# Their notebooks get batchspawner's own script: conf/jupyterhub/hub.py.
STOCK = ("stock1", "stock2")
# What the profile says, and what the user could open when a shell read it.
PROFILE = f"export MODULEPATH=/opt/modules\n{OPEN} >>/lab/out/shells.$(id -un)\n"
CLIENT = TOP / "tests/live/tools/hub.py"
PORT = 9222


def ask(cluster, what, *words, stdin=None, user="root"):
    return cluster.ok(["python3", "/lab/out/client.py", what, *words], user, stdin=stdin, timeout=200)


@pytest.fixture(scope="module")
def hub(classroom):
    classroom.write("/lab/out/client.py", CLIENT.read_text())
    classroom.write("/etc/profile.d/modules.sh", PROFILE)
    classroom.ok(["groupadd", COURSE])
    for name in (*FORMS, *STOCK):
        group = ["-G", COURSE] if name != "carol" else []
        classroom.ok(["useradd", "--create-home", "--shell", "/bin/bash", *group, name])
    classroom.ok(["sacctmgr", "-i", "add", "user", ",".join((*FORMS, *STOCK)), "account=course"])
    classroom.ok(f"scontrol create reservation={COURSE} starttime=now duration=120 nodes=ALL groups={COURSE}")
    classroom.ok(
        "mkdir /run/hub && cd /run/hub && { setsid jupyterhub -f /etc/slurm/hub.py >/lab/out/hub.log 2>&1 </dev/null & "
        "echo $! >pid; }"
    )
    classroom.wait(lambda: "JupyterHub is now running" in classroom.ok("cat /lab/out/hub.log"), "the hub", 120)
    yield classroom
    # It ends the notebooks and the proxy.
    classroom.ok("kill $(cat /run/hub/pid)")
    classroom.wait(lambda: classroom.run("kill -0 $(cat /run/hub/pid)").returncode, "the hub's end", 120)


@pytest.fixture(scope="module")
def pages(hub):
    """{student: (status, URL, text)} of the page on which each ends."""
    return json.loads(ask(hub, "spawn", stdin=json.dumps(FORMS)))


def test_ten_notebooks_start_at_once_on_four_gpus_and_none_has_more_than_it_holds(hub, pages):
    for name in RUNNING:
        assert pages[name][0] == 200 and pages[name][1].endswith(f"/user/{name}/"), pages[name]
    units = Counter()
    for row in hub.shares():
        units[row["index"]] += row["units"]
    assert len(hub.ledger()) == 10 and sum(units.values()) == 300
    assert len(units) == 4 and max(units.values()) <= 100, units


def test_a_notebook_opens_only_its_gpu(hub, pages):
    outputs = json.loads(ask(hub, "terminal", stdin=json.dumps(dict.fromkeys(RUNNING, OPEN))))
    # Without the terminal's echo and controls.
    lines = {name: "\n".join(re.findall(r"open=\S+ denied=\S+ other=-", text)) for name, text in outputs.items()}
    assert {name: opened(text) for name, text in lines.items()} == {
        row["user"]: [{row["index"]}] for row in hub.shares()
    }


@pytest.mark.parametrize("name, lines", [
    ("big", ["gpushare: the share 'mps:75' has a size that this cluster doesn't allow", "sizes: 25, 50, 100",
             "GS122, see `gpushare explain GS122`"]),
    ("carol", ["gpushare: the share 'mps:25' is allowed only in certain reservations",
               f"their names contain one of: {COURSE.removesuffix('vision')}", "GS121, see `gpushare explain GS121`"]),
])
def test_a_refused_student_reads_why_on_the_hubs_page(hub, pages, name, lines):
    status, url, text = pages[name]
    assert status == 400 and "/hub/spawn" in url, pages[name]
    # On a busy machine the hub says so on its page for waiting.
    said = {line.removeprefix("Error: ") for line in text.splitlines()}
    assert set(lines) <= said and "sbatch:" not in text, text
    assert "Server Options" in text or "Spawn failed" in text, text


def test_a_notebook_has_the_profiles_modules_and_no_shell_ran_outside_of_the_fence(hub, pages):
    code = "import os; print(os.environ.get('MODULEPATH'))"
    assert ask(hub, "kernel", "s01", stdin=code) == "/opt/modules"
    assert "changed GS155" not in hub.log("slurmctld")
    for row in hub.shares():
        shells = opened(hub.ok(["cat", f"/lab/out/shells.{row['user']}"]))
        assert shells and all(gpus == {row["index"]} for gpus in shells), (row, shells)


def test_with_batchspawners_own_script_there_are_no_modules_and_under_allow_a_shell_opens_every_gpu(hub, pages):
    if hub.newer_than("26.05"):
        pytest.skip("this sbatch refuses batchspawner's own script: its --get-user-env takes no value")
    code = "import os; print(os.environ.get('MODULEPATH'))"

    def start(name):
        [page] = json.loads(ask(hub, "spawn", stdin=json.dumps({name: QUARTER}))).values()
        assert page[1].endswith(f"/user/{name}/"), (page, hub.run(f"cat /home/{name}/*.log").stdout)
        modules = ask(hub, "kernel", name, stdin=code)
        stop(hub, name)
        return modules

    assert start("stock1") == "None" and "changed GS155" in hub.log("slurmctld")
    assert hub.run("cat /lab/out/shells.stock1").returncode != 0, "no shell read the profile"
    with configured(hub, hub.ok(["cat", CONF]).replace("GetUserEnv=drop", "GetUserEnv=allow")):
        start("stock2")
    assert opened(hub.ok("cat /lab/out/shells.stock2"))[0] == {0, 1, 2, 3}


def stop(hub, *names):
    hub.ok(f"squeue -h -o %i -u {','.join(names)} | xargs scancel")
    hub.wait(lambda: not hub.ok(["squeue", "-h", "-u", ",".join(names)]), "the notebooks' end", 120)


def test_a_whole_gpu_that_a_notebook_asks_for_has_nothing_of_the_notebooks_share(hub, pages):
    stop(hub, *RUNNING[1:])
    ours = r"^(GPUSHARE_\w+|CUDA_MPS_\w+|XLA_PYTHON_CLIENT_\w+|TF_FORCE_\w+)="
    code = f"""
import os, subprocess
print(*(f"{{name}}={{value}}" for name, value in os.environ.items()), sep="\\n")
subprocess.run(["sbatch", "--wait", "-owhole", "--reservation={COURSE}", "--gres=gpu:1", "--wrap", "env; {OPEN}"])
print("WHOLE", open("whole").read())
"""
    notebook, job = ask(hub, "kernel", "s01", stdin=code).split("WHOLE")
    assert {"GPUSHARE_UNITS", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"} <= set(re.findall(ours, notebook, re.M)), notebook
    assert not re.findall(ours, job, re.M), job
    [gpus], [own] = opened(job), hub.ledger().values()
    assert len(gpus) == 1 and own not in gpus, (gpus, own)
    assert re.search(r"^CUDA_VISIBLE_DEVICES=0$", job, re.M), job


@pytest.fixture
def browser(hub, tmp_path):
    program = shutil.which("chromium")
    if not program:
        pytest.skip("NOT TESTED: the hub's page in a browser, without Debian's chromium")
    box = next(word for word in hub.inside("true") if word.startswith("/proc/"))
    command = [
        "nsenter", f"--net={box}/ns/net", program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
        "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={tmp_path}", f"--remote-debugging-port={PORT}", "--window-size=760,800", "--hide-scrollbars",
        "about:blank",
    ]
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        hub.wait(lambda: "DevTools listening" in (tmp_path / "log").read_text(), "chromium")
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def test_a_browser_shows_the_whole_refusal(hub, browser):
    whole, text = ask(hub, "picture", "carol", str(PORT), "/lab/out/refused.png").split("\n", 1)
    assert whole == "True" and "GS121, see `gpushare explain GS121`" in text.splitlines(), (whole, text)
    picture = (hub.out / "refused.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) < 60_000
    if "GPUSHARE_WRITE_DOCS" in os.environ:
        PICTURE.write_bytes(picture)
