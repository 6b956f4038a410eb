# SPDX-License-Identifier: GPL-2.0-or-later
"""Every command of every page: README.md and all below docs. Those of a page are run in its order on a cluster as the
page presumes it; each ends with the status that is its own, and prints what the page shows. What can't be run here is
in NOT_RUN."""

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import client
import install
import packages
import pytest
from lab import BOXES, EXAMPLES, TOP
from pages import PROGRAMS, blocks, commands, has_prompts, is_printed, steps, unindented

RULES, LIBRARY = "/etc/slurm/gpushare.conf", "/lab/out/libnvidia-ml.so.1"
PAGES = {
    str(path.relative_to(TOP)): path.read_text() for path in [TOP / "README.md", *sorted((TOP / "docs").rglob("*.md"))]
}
COMMANDS = [command for page, text in PAGES.items() for command in commands(page, text)]

# Pages that another test goes through, all of it.
GONE_THROUGH = {
    "docs/admin-guide.md": "test_guide.py",
    "docs/users.md": "test_guide.py",
    "docs/migration.md": "test_migration.py",
    "docs/switching.md": "test_switching.py",
    "docs/tools.md": "test_tools.py",
}
# The pages that are gone through here, by the fixture that has their cluster; some need none.
HERE = {
    "nodes": ["docs/conf.md", "docs/check.md", "docs/status.md", "docs/leaks.md", "docs/qos.md"],
    "own": ["docs/explain.md", "docs/gpushare.conf.md", "docs/slurm-faults.md", "docs/upgrade.md"],
    "mps": ["docs/metrics.md", "docs/mps.md", "docs/containers.md", "docs/audit.md"],
    "packaged": ["docs/install.md", "README.md"],
    "nothing": ["docs/new-slurm-release.md"],
}
COMPILES = "it compiles for minutes; tests/build does the same, and every test needs it"
IS_A_TEST = "it is a part of `make test`, or all of it"
MEASURES = "it measures for minutes; `make test` runs it with --quick, or what it is made of"
A_SOURCE = "it compiles a Slurm of which the source isn't here"
DOWNLOADS = "it needs the network"
NOT_RUN = {
    "make demo": "it makes a root of its own; tests/fresh runs it",
    "make test": IS_A_TEST,
    "make": COMPILES,
    "make SLURM_INCLUDE_DIR=/path/to/the/new/headers": COMPILES,
    "pip install ziglang cargo-zigbuild": DOWNLOADS,
    "packaging/glibc 2.28": "it needs zig, of PyPI",
    "make rpm BUILT=target/glibc-2.28 SLURM_PLUGIN_DIR=/usr/lib64/slurm": "it packs what packaging/glibc has built",
    "apt install prometheus-node-exporter": DOWNLOADS,
    "tests/gpu/prove": "it needs a GPU",
    "make test RELEASES=25.11 SLURM_SOURCE=/path/to/slurm": A_SOURCE,
    "tests/lab/lab root 25.11 --source /path/to/slurm": A_SOURCE,
    "make test RELEASES=25.11": A_SOURCE,
    "tests/lab/lab root 25.11 --source slurm-25.11.7.tar.bz2 && tests/build 25.11": A_SOURCE,
    "cd tests/live && GPUSHARE_RELEASES=25.11 pytest-3 -p no:cacheprovider ../abi "
    "test_{bypasses,caps,check,explain,fence,migration,"
    "other_plugins,packages,package_files,placements,rules,surf}.py": A_SOURCE,
    "tests/differential/run 25.11": A_SOURCE,
    "tests/build 26.05": COMPILES,
    "make test-abi RELEASES=26.05": IS_A_TEST,
    "tests/differential/run 26.05": IS_A_TEST,
    "tests/host/run 26.05": IS_A_TEST,
    "make test-live RELEASES=26.05": IS_A_TEST,
    "tests/differential/run --count 1000000 --seed $RANDOM 26.05": "it is a part of `make test-long`",
    "make bench": MEASURES,
    "tests/bench/run --release 24.11 --only steps": MEASURES,
    "tests/bench/run --release 24.11 --only nodes": MEASURES,
    "tests/bench/scale": MEASURES,
    "tests/bench/daemons 60": MEASURES,
    "tests/host/speed 24.11": MEASURES,
    "cargo run --release -p gpushare-node --example placing": MEASURES,
    "GPUSHARE_TEST_KERNEL=1 cargo test --release -p gpushare-node --test cgroup2 -- time": MEASURES,
    "tests/bench/run --release 24.11 --quick": IS_A_TEST,
    "make simulate": MEASURES,
    "tests/bench/simulate --quick": IS_A_TEST,
    "tests/siege/table": "it runs every way on six clusters, and writes the page",
    "make dist": "it packs the crates that cargo has downloaded; .github/workflows has it",
    "tar xf target/dist/gpushare-0.1.0.tar.gz && cd gpushare-0.1.0": "of what `make dist` packs",
}
# What a reader writes otherwise, as the page says or as it is here.
INSTEAD = {
    "make && make deb": "make deb",
    "systemctl restart slurmctld": "/lab/service restart slurmctld",
}


# ---- What is listed.

def where(command):
    return f"{command.page}:{command.line}: {command.text}"


def test_every_command_is_run_or_has_a_reason_why_not():
    here = {page for pages in HERE.values() for page in pages}
    assert not here & set(GONE_THROUGH)
    by_steps = {page: {step.command for step in steps(TOP / page)} for page in GONE_THROUGH}
    missing = [
        where(command)
        for command in COMMANDS
        if command.page not in here
        and command.text not in NOT_RUN
        and command.text not in by_steps.get(command.page, ())
    ]
    assert not missing, "these commands are run by no test: " + "\n".join(missing)


def test_nothing_is_listed_that_no_page_has():
    texts, pages = {command.text for command in COMMANDS}, {command.page for command in COMMANDS}
    assert not [text for text in [*NOT_RUN, *INSTEAD] if text not in texts]
    assert not [key for key in PREPARED if key not in {(command.page, command.text) for command in COMMANDS}]
    runs = {command.page for command in COMMANDS if command.text not in NOT_RUN}
    assert not [page for named in HERE.values() for page in named if page not in runs]
    assert set(GONE_THROUGH) <= pages


def test_what_is_not_run_is_there():
    """The scripts, and the targets of `make`; and what is said to be a part of `make test` is one."""
    makefile, parts = (TOP / "Makefile").read_text(), (TOP / "tests/run").read_text()
    for text, reason in NOT_RUN.items():
        words = text.split()
        for script in (word for word in words if re.fullmatch(r"(tests|packaging)/[a-z/]+", word) and words[0] != "cd"):
            assert os.access(TOP / script, os.X_OK), text
            assert reason != IS_A_TEST or script in parts, text
        if words[0] == "make" and words[1:] and "=" not in words[1]:
            assert re.search(rf"^{words[1]}:", makefile, re.M), text


@pytest.mark.parametrize("page", GONE_THROUGH)
def test_a_page_that_another_test_goes_through_is_read_there(page):
    text = (TOP / "tests/live" / GONE_THROUGH[page]).read_text()
    assert "from pages import steps" in text and re.search(rf'"(docs/)?{re.escape(page.removeprefix("docs/"))}"', text)


def test_no_command_is_taken_for_text():
    """In a block without prompts a command begins with a known program:
    no line begins with another one of this machine's."""
    programs = {path.name for folder in ("/bin", "/sbin", "/usr/bin", "/usr/sbin") for path in Path(folder).iterdir()}
    unknown = [
        f"{page}:{number}: {line}"
        for page, text in PAGES.items()
        for block in map(unindented, blocks(text))
        if not has_prompts(block)
        for number, line in block
        if line.strip() and line.split()[0] in programs - PROGRAMS
    ]
    assert not unknown, "\n".join(unknown)


# ---- What is run.

PREPARED = {}
# What depends on the release, or on what else the machine has: how many lines of `gpushare check` are right,
# and may be; processes.
VARIES = [(r"\d+(?= ok,)|\d+(?= to check)|\d+(?= \\\(user)", r"\\d+")]


def prepared(page, text, status=0):
    """What is done before a command, which then ends with STATUS. It may give another way to run it."""
    def note(function):
        PREPARED[f"docs/{page}.md" if page.islower() else page, text] = (function, status)
        return function
    return note


def nothing(session):
    pass


@dataclass
class Session:
    """A page on a cluster. `names`: what is called otherwise here than on the page; `before`: folders and variables
    that the page has changed to; `node`: where it is run, the machine of the cluster if it says nothing."""

    cluster: object
    page: str
    names: dict = field(default_factory=dict)
    before: str = ""
    node: str = None
    user: str = "root"
    status: int = 0

    def here(self, text):
        if not self.names:
            return text
        longest_first = sorted(self.names, key=len, reverse=True)
        return re.sub("|".join(map(re.escape, longest_first)), lambda found: self.names[found[0]], text)

    def run(self, text):
        return self.cluster.run(f"exec 2>&1; {text}", self.user, node=self.node, timeout=90)


def perform(session, command):
    function, session.status = PREPARED.get((command.page, command.text), (nothing, 0))
    runs = function(session) or session.run
    session.user = command.who if command.who in ("alice", "bob") else session.user
    text = session.here(INSTEAD.get(command.text, command.text))
    said = [session.here(line) for line in command.said]
    result = None

    def is_said():
        nonlocal result
        result = runs(session.before + text)
        return result.returncode == session.status and is_printed(said, result.stdout, VARIES)

    if not is_said() and (not command.looks or not waited(session, is_said)):
        raise AssertionError(
            f"{where(command)}\nas {text}\nends with {result.returncode}, not {session.status}, "
            f"and prints\n{result.stdout}"
        )
    if re.match(r"cd |[A-Z]=", text):
        session.before += f"{text}; "


def waited(session, condition):
    """Whether it comes to be."""
    try:
        return session.cluster.wait(condition, "the page's words", patience=15)
    except AssertionError:
        return False


def go_through(cluster, page, names={}):
    session = Session(cluster, page, dict(names))
    for command in COMMANDS:
        if command.page == page and command.text not in NOT_RUN:
            perform(session, command)


def versions(cluster):
    """The Slurm of a cluster, as 24.11.5, and the one after it."""
    slurm = packages.slurm_of(cluster.release)
    return slurm.micro, packages.Slurm(slurm.number + 1).micro


def restart(cluster, *daemons):
    for daemon in daemons:
        cluster.ok(f"/lab/service restart {daemon}", timeout=60)


def settings(cluster, text):
    cluster.write(RULES, text)


# ---- Three nodes, of which Slurm shares the GPUs of two.

@pytest.mark.parametrize("page", HERE["nodes"])
def test_pages_of_a_cluster(paged_nodes, page):
    go_through(paged_nodes, page, {"hpc'": "lab'"})


@prepared("check", "gpushare check", status=1)
def on_a_node(session):
    session.node = "n1"


@prepared("check", "gpushare check --nodes", status=1)
def with_faults(session):
    session.node, cluster = None, session.cluster
    cluster.ok("sed -i s/gpushare,lua/lua,gpushare/ /etc/slurm/extra.conf")
    restart(cluster, "slurmctld")
    cluster.ok("mkdir -p /run/gpushare && chmod 777 /run/gpushare", node="n1")
    cluster.ok(f"cp {RULES} /lab/out/other.conf && echo Mode=warn >>/lab/out/other.conf")
    cluster.ok(f"mount --bind /lab/out/other.conf {RULES}", node="n2")
    cluster.ok("scontrol update nodename=n3 state=drain reason=test")


@prepared("check", "gpushare check --for 24.11.6", status=1)
def without_faults(session):
    cluster = session.cluster
    cluster.ok("chmod 755 /run/gpushare", node="n1")
    cluster.ok(f"umount {RULES}", node="n2")
    cluster.ok("scontrol update nodename=n3 state=resume")
    here, later = versions(cluster)
    session.names.update({"24.11.6": later, "24.11.5": here})


@prepared("qos", "cat /etc/slurm/gpushare.conf")
def write_the_records(session):
    (shown,) = [command for command in COMMANDS if command.page == session.page and command.text.startswith("cat ")]
    settings(session.cluster, "\n".join(shown.said) + "\n")


def share(session, name, user, gres):
    """A job on the first node that runs."""
    job = session.cluster.sbatch("-w", "n1", "-J", name, f"--gres={gres}", user=user, script="sleep 300")
    session.cluster.wait_state(job, "RUNNING")
    return job


@prepared("status", "gpushare status")
def a_node_with_load(session):
    cluster = session.cluster
    session.node = "n1"
    settings(cluster, (EXAMPLES / "follow-mps/gpushare.conf").read_text() + f"Nvml={LIBRARY}\nNvmlTimeout=10000\n")
    fake = client.compiled(
        TOP / "tests/fakes/nvml.c", cluster.release, cluster.out / "libnvidia-ml.so.1", "-shared", "-fPIC"
    )
    fake.chmod(0o755)
    uuids = cluster.ok("sed -n 's/^GPU UUID:\\s*//p' /proc/driver/nvidia/gpus/*/information", node="n1").split()
    loads = [
        "used=30412 utilization=37 processes=2",
        "used=65310 utilization=100 processes=1",
        *["used=0 utilization=0"] * 2,
    ]
    cluster.write(f"{LIBRARY}.state", "".join(
        f"gpu {uuid} {minor} total=81920 reserved=920 {load}\n" for minor, (uuid, load) in enumerate(zip(uuids, loads))
    ))
    for gres, user in (("mps:50", "alice"), ("mps:25", "bob"), ("gpu:a40:1", "alice")):
        share(session, "x", user, gres)


@prepared("status", "gpushare status --nodes")
def shares_on_a_node(session):
    cluster = session.cluster
    session.node = None
    cluster.cancel_all()
    settings(cluster, (EXAMPLES / "follow-mps/gpushare.conf").read_text())
    session.names.update(course1="n1", course2="n2")
    first, second, third, whole = (
        share(session, "x", user, gres)
        for gres, user in (("mps:50", "alice"), ("mps:25", "bob"), ("mps:50", "bob"), ("gpu:a40:1", "alice"))
    )
    session.names.update(
        {"  1,2": f" {first},{second}", "bob        3": f"bob {third}", "alice      4": f"alice {whole}"}
    )
    cluster.ok("scontrol update nodename=n2 state=drain reason='GPU 2 is hot'")


@prepared("status", "gpushare status --nodes --jobs")
def jobs_with_names(session):
    cluster = session.cluster
    cluster.cancel_all()
    cluster.ok("scontrol update nodename=n2 state=resume")
    for name, user, gres in (("train", "alice", "mps:50"), ("eval", "alice", "mps:25"), ("big", "alice", "gpu:a40:1"),
                             ("notebook", "bob", "mps:25")):
        share(session, name, user, gres)


@prepared(
    "status", "d=/shared/gpushare n=$(hostname -s); gpushare status --json >$d/.$n.new && mv $d/.$n.new $d/$n.json"
)
def a_folder_of_reports(session):
    session.cluster.ok("mkdir -p /shared/gpushare")


MONTH = TOP / "tests/data/leaks/month"


@prepared("leaks", "gpushare leaks --start 2026-10-01 --end 2026-11-01", status=1)
def a_month(session):
    session.cluster.write("/lab/out/month", MONTH.read_bytes())
    session.names["gpushare leaks"] = "gpushare leaks --from /lab/out/month"


prepared("leaks", "gpushare leaks --start 2026-10-01 --end 2026-11-01 --csv", status=1)(nothing)


# ---- A node whose GPUs are gpushare's own to give, and one with whole GPUs.

@pytest.mark.parametrize("page", HERE["own"])
def test_pages_of_a_node_of_its_own(paged_own, page):
    paged_own.cancel_all()
    go_through(paged_own, page)


@prepared("explain", "gpushare explain 2")
def a_job_that_waits(session):
    cluster = session.cluster
    first = cluster.sbatch("--qos=two", "--gres=gpu:a40:1", user="alice")
    cluster.wait_state(first, "RUNNING")
    session.names["explain 2"] = "explain " + cluster.sbatch("--qos=two", "--gres=gpu:a40:2", user="bob")


@prepared("explain", "gpushare explain 1")
def a_share_that_runs(session):
    job = session.cluster.sbatch("--gres=gpushare:40")
    session.cluster.wait_state(job, "RUNNING")
    session.node = "n1"
    session.names.update({"explain 1": f"explain {job}", "gpu1": "n1"})


@prepared("explain", "gpushare explain -- -p nosuch --gres=gpu:a40:1")
def nothing_of_a_node(session):
    session.node, session.user = None, "alice"


@prepared("explain", "gpushare explain steps.sh")
def a_script(session):
    script = "#!/bin/bash\n#SBATCH --qos=two --gpus=a40:2\nsrun --gres=gpu:1 ./train\n"
    session.cluster.write("/lab/out/steps.sh", script)
    session.before = "cd /lab/out; "


@prepared("gpushare.conf", "tail -n +2 StateSaveLocation/gpushare_last_good >/etc/slurm/gpushare.conf")
def a_lost_file(session):
    session.names["StateSaveLocation"] = session.cluster.ok(
        "scontrol show config | sed -n 's/^StateSaveLocation *= *//p'"
    )
    text = session.cluster.ok(["cat", RULES])
    session.cluster.ok(["rm", RULES])

    def is_back(command):
        result = session.run(command)
        assert session.cluster.ok(["cat", RULES]) == text
        return result
    return is_back


@prepared("gpushare.conf", "scontrol update job=7 qos=qos_lafferty TresPerNode=gres/gpu:a40:2")
def a_pending_job(session):
    job = session.cluster.sbatch("--hold", "--gres=gpu:a40:1")
    session.names["job=7"] = f"job={job}"
    if not session.cluster.newer_than("23.02"):
        session.names["gres/gpu:a40:2"], session.status = "gres:gpu:a40:2", 1


@prepared("slurm-faults", "salloc --gres=gpu:2")
def in_a_job(session):
    session.user = "alice"
    session.cluster.write("/tmp/open-every-gpu", "#!/bin/sh\n/lab/open-gpus >/lab/out/epilog\n", 755)
    return lambda command: session.run(f"{command} true")


@prepared("slurm-faults", "srun --gres=gpu:1 --exact --task-epilog=/tmp/open-every-gpu true")
def in_the_jobs_shell(session):
    return lambda command: session.run(f"salloc --gres=gpu:2 {command}; cat /lab/out/epilog")


@prepared("slurm-faults", r"sbatch --qos=$'x\n[2026-11-24T12:00:00.000] error: anything' --wrap=true", status=1)
def who_writes_into_the_log(session):
    def forges(command):
        result = session.run(command)
        assert "\n[2026-11-24T12:00:00.000] error: anything" in session.cluster.log("slurmctld")
        return result
    return forges


@prepared("slurm-faults", "tests/siege/run --release 24.11 --plain --replay tests/siege/slurm-faults/arbitrary")
def on_a_cluster_of_its_own(session):
    """Half a minute: slurmctld is given up. Once is enough, on the release that the command names."""
    def runs(command):
        if session.cluster.release != "24.11":
            return subprocess.CompletedProcess(command, 0, "")
        environment = os.environ | {"GPUSHARE_SIEGE_BOX": f"{BOXES}-pg"}
        done = subprocess.run(command.split(), cwd=TOP, env=environment, capture_output=True, text=True, timeout=200)
        assert "down" in done.stdout.splitlines(), done.stdout + done.stderr
        return done
    return runs


@prepared("upgrade", "gpushare check --for 26.05.5", status=1)
def before_an_upgrade(session):
    here = packages.slurm_of(session.cluster.release)
    later = packages.Slurm(here.number + 0x100)
    session.names = {"26.05.5": later.micro, "26.05": later.release, "24.11.5": here.micro}


@prepared("upgrade", "srun --gres=gpushare:40 /lab/open-gpus")
def with_an_optional_plugin(session):
    cluster = session.cluster
    here = packages.slurm_of(cluster.release)
    other = packages.Slurm(here.number - 0x100)
    cluster.ok("sed -i s/required/optional/ /etc/slurm/plugstack.conf")
    folder = install.built(cluster.release, cluster.out / "other")
    packages.restamp(folder, other)
    cluster.write(f"{packages.PLUGIN_DIR}/spank_gpushare.so", (folder / "libspank_gpushare.so").read_bytes())
    session.names = {"26.05.5": here.micro, "26.05": here.release, "24.11.5": other.micro}


@prepared("upgrade", "gpushare check", status=1)
def on_that_node(session):
    session.node, session.user = "n1", "root"


# ---- NVIDIA's MPS daemons, under systemd.

@pytest.fixture(scope="module")
def with_nvml(paged_mps, tmp_path_factory):
    fake = client.compiled(
        TOP / "tests/fakes/nvml.c", paged_mps.release, tmp_path_factory.mktemp("f") / "libnvidia-ml.so.1", "-shared",
        "-fPIC",
    )
    client.install(paged_mps, fake, LIBRARY)
    return paged_mps


def says(cluster, words):
    """NVML's words of every GPU."""
    uuids = cluster.ok("sed -n 's/^GPU UUID:\\s*//p' /proc/driver/nvidia/gpus/*/information").split()
    cluster.write(
        f"{LIBRARY}.state",
        "".join(
            f"gpu {uuid} {minor} total=46068 reserved=260 used=100 utilization=1 {words}\n"
            for minor, uuid in enumerate(uuids)
        ),
    )


@pytest.mark.parametrize("page", HERE["mps"])
def test_pages_of_a_node_with_mps(with_nvml, page):
    with_nvml.tidy()
    go_through(with_nvml, page)


HALF = "--gres=mps:40"


@prepared("mps", "echo get_server_list | nvidia-cuda-mps-control")
def in_a_step(session):
    job = session.cluster.start(HALF)[0]
    session.user, inside = "alice", f"srun --jobid={job} --overlap bash -c "
    session.run = lambda text: Session.run(session, inside + shlex.quote(text))


@prepared("mps", "systemctl status 'gpushare-mps-*'")
def as_root(session):
    session.user = "root"
    del session.run
    in_the_journal(session)


@prepared("mps", "journalctl -t gpushare-prolog")
@prepared("mps", "journalctl -u 'gpushare-mps-*'")
def in_the_journal(session):
    def tells(command):
        result = session.run(command)
        assert "gpushare-mps-" in result.stdout, result.stdout
        return result
    return tells


@prepared("metrics", "systemctl enable --now gpushare-metrics.timer")
def with_its_unit(session):
    for kind in ("service", "timer"):
        text = (TOP / f"packaging/gpushare-metrics.{kind}").read_text()
        session.cluster.write(f"/etc/systemd/system/gpushare-metrics.{kind}", text)
    session.cluster.ok("mkdir -p /var/lib/prometheus/node-exporter; systemctl daemon-reload")


@prepared("metrics", "gpushare metrics")
def half_a_gpu_each(session):
    for user in ("alice", "bob", "alice"):
        session.cluster.start(HALF, user=user)
    refused = session.cluster.run("sbatch --qos=qos_titan --gres=gpu:1 --wrap=true", "alice")
    assert "GS101" in refused.stderr


@prepared("metrics", "gpushare status")
def with_squatters(session):
    cluster = session.cluster
    cluster.ok(f"printf '%s\\n' Nvml={LIBRARY} NvmlTimeout=10000 >>{RULES}; rm -f /run/gpushare/nvml")
    squatter = cluster.ok("setsid sleep 300 >/dev/null 2>&1 & echo $!", "bob")
    job = cluster.sbatch(HALF, script="echo $$; sleep 300")
    task = cluster.wait(lambda: cluster.output(job).strip(), "its output")
    says(cluster, f"pid={squatter} pid={task}")
    session.names["user 2003, job 12"] = f"user 2001, job {job}"


@prepared("containers", "gpushare status")
def round_mps(session):
    cluster = session.cluster
    cluster.ok(
        f"grep -q ^Nvml= {RULES} || printf '%s\\n' Nvml={LIBRARY} NvmlTimeout=10000 >>{RULES}; rm -f /run/gpushare/nvml"
    )
    says(cluster, "processes=3 clients=2")
    cluster.start(HALF)


@prepared("audit", "gpushare audit --log slurmctld.log --start 2026-11-16 --end 2026-11-23", status=1)
def the_pages_log(session):
    session.cluster.write("/lab/out/slurmctld.log", (TOP / "tests/data/audit/slurmctld.log").read_bytes())
    session.before = "cd /lab/out; "


@prepared("audit", "journalctl -u slurmctld -o short-iso --since -7days | gpushare audit --log -")
def slurmctld_in_the_journal(session):
    session.cluster.run("sbatch --qos=qos_titan --gres=gpu:1 --wrap=true", "alice")
    unit = "[Service]\nType=oneshot\nExecStart=/bin/cat /var/log/slurm/slurmctld.log\n"
    session.cluster.write("/etc/systemd/system/slurmctld.service", unit)
    session.cluster.ok("systemctl daemon-reload; systemctl start slurmctld")
    session.cluster.wait(lambda: "GS101" in session.cluster.ok("journalctl -u slurmctld"), "the journal")


# ---- Packages: built from sources that `make` has been run in, installed on machines that have Slurm,
# and on a cluster.

# The machine's apt, for a root: as if it were there. It can't ask, so it says yes.
APT = r"""
rm -rf root/etc/apt && mkdir -p root/etc/apt/{apt.conf.d,preferences.d} root/var/lib/apt/lists/partial
mkdir -p root/var/cache/apt/archives/partial root/var/log/apt && touch root/etc/apt/sources.list
options="-o Dir=$PWD/root -o Dir::Bin::dpkg=/usr/bin/dpkg -o DPkg::Chroot-Directory=$PWD/root"
options+=" -o Dir::State::status=$PWD/root/var/lib/dpkg/status -o APT::Sandbox::User=root"
apt() { apt-get -qq -y $options "$@"; }
apt-mark() { command apt-mark $options "$@"; }
"""
INSTALLED = "dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' 'gpushare*' | sed -n 's/^ii *//p'"


def on_this_machine(session):
    """In a folder with all that packaging needs, and what `make` has built."""
    cluster = session.cluster
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "SLURM_INCLUDE_DIR": str(packages.root(cluster.release) / "usr/include"),
        "SLURM_PLUGIN_DIR": packages.PLUGIN_DIR, "SOURCE_DATE_EPOCH": "1700000000", **packages.QUICKLY,
    }
    return lambda text: subprocess.run(
        ["bash", "-c", f"exec 2>&1; {text}"], cwd=cluster.out / "sources", env=environment, capture_output=True,
        text=True, timeout=120,
    )


def packed(cluster, name, slurm):
    """The folder of packages for SLURM in /lab/out/NAME, which has what they are built from."""
    folder = cluster.out / name
    made = folder / "target/packages"
    if not folder.exists():
        folder.mkdir()
        install.sources(cluster.release, folder)
        shutil.copy(TOP / "Makefile", folder)
        packages.restamp(folder / "target/release", slurm)
        packages.built("deb", folder, cluster.release, made, SLURM_VERSION=slurm.micro)
    return made


def with_apt(*names):
    """On a machine that has Slurm and, of gpushare, the packages with these names;
    what it has in the end is in the session."""

    def prepare(session):
        def runs(text):
            folder = packed(session.cluster, "sources", packages.slurm_of(session.cluster.release))
            text = text.removeprefix(session.before).replace("…", " ".join(names))
            installs = (
                f"chroot root bash -c 'dpkg -i {' '.join(f'/packages/{name}_*.deb' for name in names)}' >/dev/null\n"
                if names
                else ""
            )
            outside = f"{APT}{installs}(cd root/packages && {text}) 2>&1"
            result = packages.in_root(session.cluster.release, folder, f"echo; {INSTALLED}", outside)
            has = set(result.stdout.splitlines()) & set(packages.NAMES)
            named = {name for name in packages.NAMES if re.search(rf"\b{name}(?=[_ ]|$)", text)}
            if result.returncode == 0:
                assert has == (
                    named if " install " in text else set(names) - (named if " remove " in text else set())
                ), result.stdout
            return result
        return runs
    return prepare


@pytest.fixture(scope="module")
def machine(paged_bare):
    """With packages in /lab/out/sources/target/packages,
    those of the page's version for a Slurm before in /lab/out/before/target/packages, and installed."""
    cluster, here = paged_bare, packages.slurm_of(paged_bare.release)
    cluster.before = packages.Slurm(here.number - 1)
    for name, slurm in (("before", cluster.before), ("sources", here)):
        packed(cluster, name, slurm)
    cluster.ok(
        f"rm {RULES}; cd /etc/slurm && mkdir prolog.d epilog.d && ln -s /bin/true prolog.d/10-site && "
        "ln -s /bin/true epilog.d/10-site"
    )
    cluster.ok("cd /lab/out/sources/target/packages && dpkg -i gpushare_*.deb gpushare-slurmd_*.deb")
    return cluster


@pytest.mark.parametrize("page", HERE["packaged"])
def test_pages_of_packages(machine, page):
    here = packages.slurm_of(machine.release)
    installed = machine.ok("dpkg-query -W -f '${Version}' slurmctld")
    go_through(machine, page, {"24.11.5-4": installed, "24.11.5": here.micro, "24.11.4": machine.before.micro})


prepared("README.md", "make && make deb")(on_this_machine)
prepared("README.md", "cd target/packages")(on_this_machine)
prepared("README.md", "apt install ./gpushare_*.deb ./gpushare-slurmd_*.deb")(with_apt())
prepared("README.md", "apt install ./gpushare_*.deb ./gpushare-client_*.deb")(with_apt())
prepared("README.md", "apt install ./gpushare_*.deb ./gpushare-slurmctld_*.deb")(with_apt())
prepared("install", "make deb")(on_this_machine)
prepared("install", "apt remove gpushare-slurmctld gpushare")(with_apt("gpushare", "gpushare-slurmctld"))
prepared("install", "apt remove gpushare-slurmd gpushare")(with_apt("gpushare", "gpushare-slurmd"))
prepared("install", "apt remove gpushare-client gpushare")(with_apt("gpushare", "gpushare-client"))

prepared("upgrade", "apt-mark unhold …")(with_apt("gpushare", "gpushare-slurmctld"))
prepared("upgrade", "apt -s full-upgrade")(with_apt("gpushare", "gpushare-slurmctld"))
prepared("upgrade", "apt full-upgrade")(with_apt("gpushare", "gpushare-slurmctld"))


@prepared("README.md", "gpushare check --for 24.11.5")
def on_the_cluster(session):
    session.before = ""
    session.cluster.ok("dpkg -i /lab/out/sources/target/packages/gpushare-slurmctld_*.deb")


@prepared("install", "dpkg -i gpushare-slurmctld_0.1.0+slurm24.11.4-1_amd64.deb", status=1)
def of_another_slurm(session):
    session.before = "cd /lab/out/before/target/packages; "


@prepared("install", "cp /usr/share/gpushare/plugstack.conf /etc/slurm/plugstack.conf.d/50-gpushare.conf")
def without_what_the_package_has_put_there(session):
    session.before = ""
    session.cluster.ok("rm /etc/slurm/*.d/50-gpushare*")


@prepared("install", "dpkg --remove gpushare-slurmctld", status=1)
def while_it_is_loaded(session):
    session.cluster.ok("dpkg -i /lab/out/sources/target/packages/gpushare-slurmctld_*.deb")
    session.cluster.ok("echo JobSubmitPlugins=gpushare >>/etc/slurm/extra.conf")
    restart(session.cluster, "slurmctld")


# ---- Slurm's source.

OLD = """typedef struct job_descriptor {
\tint old;
} job_desc_msg_t;
int _update_job(void)
{
\treturn old;
}
"""


def test_commands_on_slurms_repository(tmp_path):
    """That they are commands: the repository has the files that the pages name, and nothing of Slurm in them."""
    here = [command for command in COMMANDS if command.page in HERE["nothing"] and command.text not in NOT_RUN]
    names = {name for command in here for name in re.findall(r"(?<= -- )[^|]*|(?<=\$B:)\S+", command.text)}
    files = subprocess.run(["bash", "-c", "echo " + " ".join(names)], capture_output=True, text=True).stdout.split()
    patterns = {word for command in here for word in re.findall(r"\w+", command.text) if not word.isupper()}
    assert len(files) > 20

    def write(text):
        for name in files:
            path = tmp_path / (name if "." in name.rsplit("/")[-1] else f"{name}/file.c")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def bash(script):
        return subprocess.run(
            ["bash", "-c", f"exec 2>&1; set -o pipefail; {script}"], cwd=tmp_path, capture_output=True, text=True
        )

    commit = "git add . && git -c user.name=a -c user.email=a@b commit -qm a && git tag"
    write(OLD)
    assert bash(f"git init -q && {commit} slurm-24-11-5-1").returncode == 0
    write(OLD.replace("old", " ".join(["FIELD", *sorted(patterns)])))
    assert bash(f"{commit} slurm-26-05-3-1").returncode == 0
    variables, *rest = here
    assert variables.text.startswith("A=")
    for command in rest:
        done = bash(f"{variables.text}; {command.text}")
        assert done.returncode == 0 and done.stdout, f"{where(command)}\n{done.stdout}"
