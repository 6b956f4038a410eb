# SPDX-License-Identifier: GPL-2.0-or-later
"""Every command of every page, which harness/every_page.py lists. Those of a page are run in its order on a cluster as
the page presumes it; each ends with the status that is its own, and prints what the page shows. What another test runs
is in RUN_INSTEAD and RUN_BY, and what can't be run in NOT_RUN."""

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
from every_page import (
    COMMANDS, GONE_THROUGH, HERE, INSTEAD, NO_PAGES, NOT_RUN, OURS_IN_SENTENCES, PAGES, RUN_BY, TABLES, left, tables_of,
    where,
)
from lab import BOXES, EXAMPLES, TOP
from pages import PROGRAMS, blocks, has_prompts, is_printed, steps, unindented
from terminal import Terminal
from told import unescaped

RULES, LIBRARY = "/etc/slurm/gpushare.conf", "/lab/out/libnvidia-ml.so.1"


# ---- What is listed.

def goes_through(page):
    """The test that goes through a page: its text."""
    return (TOP / "tests/live" / GONE_THROUGH[page]).read_text()


def test_every_command_is_run_or_has_a_reason_why_not():
    here = [page for pages in HERE.values() for page in pages]
    assert not set(here) & set(GONE_THROUGH)
    # These tests know commands with a prompt only.
    by_steps = {
        page: {step.command for step in steps(page)}
        for page in GONE_THROUGH if "from pages import steps" in goes_through(page)
    }
    missing = [
        where(command)
        for command in COMMANDS
        if not tables_of(command) and command.page not in [*here, *NO_PAGES]
        and (command.page not in GONE_THROUGH or command.text not in by_steps.get(command.page, [command.text]))
    ]
    assert not missing, "these commands are run by no test: " + "\n".join(missing)


def test_a_command_has_one_place():
    """And the test that goes through a page runs something of it."""
    twice = [f"{where(command)}: {names}" for command in COMMANDS if len(names := tables_of(command)) > 1]
    assert not twice, "\n".join(twice)
    gone_through = [*GONE_THROUGH, *(page for pages in HERE.values() for page in pages)]
    assert not [page for page in gone_through if not left(page)]


def test_nothing_is_listed_that_no_page_has():
    known = {command.text for command in COMMANDS} | {f"{command.page}: {command.text}" for command in COMMANDS}
    assert not [f"{name}: {text}" for name, table in TABLES.items() for text in table if text not in known]
    assert not [text for text in INSTEAD if text not in known]
    run_here = {(page, command.text) for pages in HERE.values() for page in pages for command in left(page)}
    assert not [key for key in PREPARED if key not in run_here]
    assert set(NO_PAGES) <= {command.page for command in COMMANDS}


def test_what_another_test_runs_is_there():
    """The words that run it, in a test that is a part of `make test`."""
    wrong = [
        f"{text}: {file} hasn't {words}"
        for text, (file, words) in RUN_BY.items()
        if words not in (TOP / "tests" / file).read_text()
    ]
    assert not wrong, "\n".join(wrong)


def test_what_is_not_run_is_there():
    """The scripts, and the targets of `make`."""
    makefile = (TOP / "Makefile").read_text()
    for text in [*NOT_RUN, *RUN_BY]:
        words = text.split(": ")[-1].split()
        for script in (word for word in words if re.fullmatch(r"(tests|packaging)/[a-z/]+", word)):
            assert os.access(TOP / script, os.X_OK), text
        if words[0] == "make" and words[1:] and "=" not in words[1]:
            assert re.search(rf"^{words[1]}:", makefile, re.M), text


@pytest.mark.parametrize("page", GONE_THROUGH)
def test_a_page_that_another_test_goes_through_is_read_there(page):
    text = goes_through(page)
    assert re.search(r"^from (pages|told) import ", text, re.M)
    assert re.search(rf'"(docs/)?({re.escape(page.removeprefix("docs/"))}|{re.escape(page.split("/")[-1])})"', text)


def test_no_command_is_taken_for_text():
    """In a block without prompts a command begins with a known program:
    no line begins with another one of this machine's."""
    programs = {path.name for folder in ("/bin", "/sbin", "/usr/bin", "/usr/sbin") for path in Path(folder).iterdir()}
    unknown = [
        f"{page}:{number}: {line}"
        for page, text in PAGES.items()
        if page.split("#")[0].endswith(".md")
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
        names = [f"docs/commands.md#gpushare {page}", f"docs/{page}.md", f"docs/dev/{page}.md", page]
        PREPARED[next(name for name in names if name in PAGES), text] = function, status
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
    for command in left(page):
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


SSH = (
    '#!/bin/sh\nwhile [ "$1" = -o ]; do shift 2; done\nnode=$1; shift\n'
    '[ $node != n3 ] || { echo ssh: connect to host n3 port 22: Connection refused >&2; exit 255; }\n'
    'exec nsenter --mount --uts --pid --cgroup -t "$(cat /run/lab/nodes/$node)" "$@"\n'
)


@prepared("check", "gpushare check --nodes --via ssh", status=1)
def with_faults(session):
    """With what stands for ssh: it enters n1 and n2, and n3 refuses."""
    session.node, cluster = None, session.cluster
    cluster.write("/usr/local/bin/ssh", SSH, 755)
    cluster.ok("sed -i s/gpushare,lua/lua,gpushare/ /etc/slurm/extra.conf")
    restart(cluster, "slurmctld")
    cluster.ok("mkdir -p /run/gpushare && chmod 777 /run/gpushare", node="n1")
    cluster.ok(f"cp {RULES} /lab/out/other.conf && echo Mode=warn >>/lab/out/other.conf")
    cluster.ok(f"mount --bind /lab/out/other.conf {RULES}", node="n2")


@prepared("check", "gpushare check --for 24.11.6", status=1)
def without_faults(session):
    cluster = session.cluster
    cluster.ok("chmod 755 /run/gpushare", node="n1")
    cluster.ok(f"umount {RULES}", node="n2")
    here, later = versions(cluster)
    session.names.update({"24.11.6": later, "24.11.5": here})


@prepared("qos", "cat /etc/slurm/gpushare.conf")
def write_the_records(session):
    (shown,) = [command for command in COMMANDS if command.page == session.page and command.text.startswith("cat ")]
    settings(session.cluster, "\n".join(shown.said) + "\n")


@prepared("qos", "gpushare qos plan")
@prepared("qos", "gpushare qos apply -i")
def without_the_warning_before_25_05(session):
    return lambda text: session.run(f"exec 2>/dev/null; {text}")


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
    for gres, user in (("mps:50", "alice"), ("mps:25", "bob"), ("mps:50", "bob"), ("gpu:a40:1", "alice")):
        share(session, "x", user, gres)
    cluster.ok("scontrol update nodename=n2 state=drain reason='GPU 2 is hot'")


@prepared(
    "status", "d=/shared/gpushare n=$(hostname -s); gpushare status --json >$d/.$n.new && mv $d/.$n.new $d/$n.json"
)
def a_folder_of_reports(session):
    session.cluster.ok("mkdir -p /shared/gpushare")


MANUAL = "man/gpushare.1"


@prepared(MANUAL, "gpushare audit")
def in_order(session):
    """Shares, and a QOS as gpushare.conf has it."""
    cluster = session.cluster
    cluster.cancel_all()
    settings(cluster, (EXAMPLES / "follow-mps/gpushare.conf").read_text() + "QOS=qos_of_the_page GPUs=a40:1\n")
    cluster.ok("gpushare qos apply -i")


@prepared(MANUAL, "gpushare metrics")
@prepared("man/gpushare.conf.5", "gpushare status")
def at_a_node(session):
    session.node = "n1"


# No GPU's memory was measured here.
for page in (MANUAL, "CONTRIBUTING.md"):
    prepared(page, "gpushare fit", status=2)(nothing)


@prepared(MANUAL, "gpushare check")
@prepared("man/gpushare-prolog.8", "gpushare check")
@prepared("man/gpushare.conf.5", "gpushare check")
@prepared("SECURITY.md", "gpushare check --json")
def ends_by_what_it_finds(session):
    session.node = "n1"

    def runs(command):
        result = session.run(command)
        session.status = int(re.search(r'^WRONG|"status": ?"wrong"', result.stdout, re.M) is not None)
        return result
    return runs


@prepared(MANUAL, "gpushare conf slurm")
@prepared(MANUAL, "gpushare qos plan")
@prepared("man/gpushare.conf.5", "gpushare qos apply")
def on_the_controller(session):
    session.node = None


@prepared(MANUAL, "gpushare command --help")
def each_with_its_options(session):
    """Of each command, the options that its section has."""
    sections = re.findall(r"^\.SS (gpushare .*)\n((?:(?!\.S[SH]).*\n)*)", unescaped(PAGES[MANUAL]), re.M)
    assert len(sections) > 12

    def runs(_):
        for command, section in sections:
            options = set(re.findall(r"^(?:-\w, )?(--[a-z-]+)", section, re.M))
            said = session.cluster.ok(f"{command} --help")
            assert options <= set(re.findall(r"--[a-z-]+", said)), said
            assert said.startswith(section.splitlines()[0].removesuffix(".")), said
        return session.run("gpushare --help")
    return runs


@prepared(MANUAL, "gpushare --version")
def the_version_of_the_source(session):
    version = re.search(r'^version = "(.*)"$', (TOP / "Cargo.toml").read_text(), re.M)[1]

    def runs(command):
        result = session.run(command)
        assert result.stdout.split()[:2] == ["gpushare", version]
        return result
    return runs


@prepared("man/job_submit_gpushare.8", "gpushare explain CODE")
def every_number_of_the_page(session):
    numbers = re.findall(r"^\.B (GS\d+)$", PAGES["man/job_submit_gpushare.8"], re.M)
    assert len(numbers) > 30
    session.names["CODE"] = " ".join(numbers)


# Commands that end with 1, each for the reason that the manual page has in its table.
NO = {
    "audit": "gpushare audit --start 2026-11-16 --end 2026-11-23 /lab/out/slurmctld.log",
    "check": "gpushare check",
    "explain": "gpushare explain --conf /lab/out/one.conf -- --wrap=true",
    "gpu": "gpushare gpu resume 0",
    "guard": "sbatch -QH --wrap true && gpushare guard --waiting --conf /lab/out/one.conf",
    "leaks": "env TZ=UTC MONTH=/lab/out/leaks/month PATH=/lab/out/leaks:$PATH gpushare leaks --conf /lab/out/none.conf "
             "--start 2026-10-01 --end 2026-11-01",
    "metrics": "gpushare metrics --out /nonexistent/gpushare.prom",
    "qos plan": "gpushare qos plan --conf /lab/out/one.conf --detailed-exitcode",
    "qos apply": "gpushare qos apply --conf /lab/out/one.conf",
}
# The same, in another test.
NO_ELSEWHERE = {"idle": "test_idle.py"}


def at_a_terminal(cluster, command, keys="", node=None):
    """COMMAND's status and output, and whoever is there types KEYS after a while."""
    words = cluster.inside("env", "TERM=xterm", "bash", "-c", command, node=node)
    with Terminal(words, rows=50, columns=120) as terminal:
        if keys:
            terminal.wait(terminal.text, "its output")
            terminal.type(keys)
        status = os.waitstatus_to_exitcode(terminal.wait_end())
        return subprocess.CompletedProcess(command, status, terminal.text(), "")


def test_exit_statuses_of_the_manual_page(paged_nodes):
    table = re.findall(r"^([a-z ]+?)  +\S.*$", re.search(r"^\.nf\n(.*?)^\.fi$", PAGES[MANUAL], re.M | re.S)[1], re.M)
    assert [command for command in table if command not in NO_ELSEWHERE] == list(NO)
    assert all((TOP / "tests/live" / name).exists() for name in NO_ELSEWHERE.values())
    answers(paged_nodes, "leaks")
    paged_nodes.write("/lab/out/slurmctld.log", (TOP / "tests/data/audit/slurmctld.log").read_bytes())
    paged_nodes.write("/lab/out/one.conf", "QOS=one GPUs=a40:1\nGpuPartitions=p\n")
    paged_nodes.ok("mkdir -p /run/gpushare && chmod 777 /run/gpushare", node="n1")
    try:
        for command in NO.values():
            if "qos apply" in command:
                done = at_a_terminal(paged_nodes, command, "no\r", node="n1")
            else:
                done = paged_nodes.run(command, node="n1")
            assert done.returncode == 1, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    finally:
        paged_nodes.ok("chmod 755 /run/gpushare", node="n1")
        paged_nodes.cancel_all()
    assert paged_nodes.run("gpushare status nosuchnode").returncode == 2


# What a sentence leaves to the reader.
CHOSEN = {
    "JOB": "{job}", "--json 12": "--json {job}", "OPTIONS": "--gres=gpu:a40:1", "NODE": "n1",
    "job.sh": "/lab/out/job.sh", "course[1-3] gpu1": "n[1-2] n3", "n[3-5]": "n[2-3]", "[QOS…]": "", "apply": "apply -i",
    "--partition gpu": "--partition p", "[--markdown]": "", "24.11.5": "{slurm}",
    "guard --out": "guard --out /lab/out/guard.prom", "--conf COPY": "--conf /etc/slurm/gpushare.conf",
    # No GPU's memory was measured here.
    "gpushare fit": "gpushare fit --help",
}


def test_gpushares_commands_in_sentences(paged_nodes):
    """They are commands: none ends with 2, with which gpushare says that the command line is wrong."""
    job = paged_nodes.sbatch("-w", "n1", "--gres=mps:50", script="sleep 300")
    paged_nodes.wait_state(job, "RUNNING")
    paged_nodes.write("/lab/out/job.sh", "#!/bin/sh\n#SBATCH --gres=gpu:a40:1\n")
    slurm, _ = versions(paged_nodes)
    wrong = []
    for text, command in OURS_IN_SENTENCES.items():
        for words in sorted(CHOSEN, key=len, reverse=True):
            text = text.replace(words, CHOSEN[words].format(job=job, slurm=slurm))
        done = paged_nodes.run(text, node="n1", timeout=60)
        if done.returncode not in (0, 1):
            wrong.append(f"{where(command)}\nas {text} ends with {done.returncode}\n{done.stdout}{done.stderr}")
    paged_nodes.cancel_all()
    assert len(OURS_IN_SENTENCES) > 30 and not wrong, "\n".join(wrong)


@prepared("docs/examples/qos-2009/gpushare.conf", "gpushare qos plan")
def todays_names(session):
    session.cluster.ok("sacctmgr -i add account physics")
    session.cluster.write("/lab/out/2009.conf", PAGES["docs/examples/qos-2009/gpushare.conf"])

    def runs(command):
        result = session.run(f"{command} --conf /lab/out/2009.conf")
        assert "GrpTRES cpu=64" in result.stdout, result.stdout
        return result
    return runs


def answers(cluster, command):
    """COMMAND's words, and the programs that answer it instead of Slurm's."""
    folder = f"/lab/out/{command}"
    cluster.ok(f"mkdir -p {folder}")
    data = TOP / "tests/data" / command
    for path in [data / "month", *(data / "bin").iterdir()]:
        cluster.write(f"{folder}/{path.name}", path.read_bytes(), mode=755)
    cluster.write("/lab/out/none.conf", "# the defaults\n")
    return f"env TZ=UTC MONTH={folder}/month PATH={folder}:$PATH gpushare {command}"


@prepared("leaks", "gpushare leaks --start 2026-10-01 --end 2026-11-01", status=1)
def a_month(session):
    session.names["gpushare leaks"] = f"{answers(session.cluster, 'leaks')} --conf /lab/out/none.conf"


prepared("leaks", "gpushare leaks --start 2026-10-01 --end 2026-11-01 --csv", status=1)(nothing)

@prepared("leaks", "gpushare fit --start 2026-10-01 --end 2026-11-01")
def a_month_with_shares(session):
    """No GPU was measured here, so other programs answer instead of Slurm's."""
    session.names["gpushare fit"] = f"{answers(session.cluster, 'fit')} --conf /lab/out/none.conf"


@prepared("leaks", "gpushare report --month 2026-10")
def a_month_of_groups(session):
    """The same, of a whole month."""
    session.names["gpushare report"] = answers(session.cluster, "report")


# ---- A node whose GPUs are gpushare's own to give, and one with whole GPUs.

@pytest.mark.parametrize("page", HERE["own"])
def test_pages_of_a_node_of_its_own(paged_own, page):
    paged_own.cancel_all()
    go_through(paged_own, page)


def test_the_example_of_the_manual_page_of_gpushare_conf(paged_own):
    """Its QOS is made, and a share of its size is half a GPU."""
    example = re.search(r"^\.EX\n(.*?)^\.EE$", PAGES["man/gpushare.conf.5"], re.M | re.S)[1]
    before = paged_own.ok(["cat", RULES])
    paged_own.cancel_all()
    settings(paged_own, example)
    try:
        assert "+ qos qos_lafferty" in paged_own.ok("sacctmgr -i add account lafferty >/dev/null; gpushare qos plan")
        job = paged_own.sbatch("-w", "n1", "--gres=gpushare:40")
        row, = paged_own.wait(lambda: paged_own.shares("n1"), "its share")
        assert (row["job"], row["units"], row["capacity"]) == (job, 40, 80), row
    finally:
        paged_own.cancel_all()
        settings(paged_own, before)


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
    session.node, session.user, session.status = None, "alice", 1


@prepared("explain", "gpushare explain steps.sh")
def a_script(session):
    script = "#!/bin/bash\n#SBATCH --qos=two --gpus=a40:2\nsrun --gres=gpu:1 ./train\n"
    session.cluster.write("/lab/out/steps.sh", script)
    session.before = "cd /lab/out; "


@prepared("docs/gpushare.conf.md", "tail -n +2 StateSaveLocation/gpushare_last_good >/etc/slurm/gpushare.conf")
def a_lost_file(session):
    # slurmctld makes the copy with its first request.
    session.cluster.sbatch("--hold", "--gres=gpu:a40:1")
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


@prepared("docs/gpushare.conf.md", "scontrol update job=7 qos=qos_lafferty TresPerNode=gres/gpu:a40:2")
def a_pending_job(session):
    job = session.cluster.sbatch("--hold", "--gres=gpu:a40:1")
    session.names["job=7"] = f"job={job}"
    if not session.cluster.newer_than("23.11"):
        session.names["gres/gpu:a40:2"] = "gres:gpu:a40:2"
    if not session.cluster.newer_than("23.02"):
        session.status = 1


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


# ---- NVIDIA's MPS daemons, under systemd.

@pytest.fixture(scope="module")
def with_nvml(paged_mps, tmp_path_factory):
    fake = client.compiled(
        TOP / "tests/fakes/nvml.c", paged_mps.release, tmp_path_factory.mktemp("f") / "libnvidia-ml.so.1", "-shared",
        "-fPIC",
    )
    client.install(paged_mps, fake, LIBRARY)
    for unit in (f"{name}.{kind}" for name in ("metrics", "guard", "idle") for kind in ("service", "timer")):
        text = (TOP / f"packaging/gpushare-{unit}").read_text()
        paged_mps.write(f"/etc/systemd/system/gpushare-{unit}", text)
    paged_mps.ok("mkdir -p /var/lib/prometheus/node-exporter; systemctl daemon-reload")
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


@prepared("packaging/gpushare-metrics.service", "systemctl edit gpushare-metrics")
def another_folder(session):
    """With an editor that writes what the comment says. systemctl wants a terminal."""
    session.cluster.ok("mkdir -p /run/gpushare")
    session.cluster.write("/lab/out/editor", f"""#!/bin/sh
for file; do :; done # some are given the number of a line first
command='/usr/bin/gpushare metrics --out /run/gpushare/elsewhere.prom'
sed -i "/^### Anything between/a [Service]\\nExecStart=\\nExecStart=$command" "$file"
""", 755)

    def runs(command):
        result = at_a_terminal(session.cluster, f"SYSTEMD_EDITOR=/lab/out/editor {command}")
        session.cluster.ok("systemctl start gpushare-metrics")
        assert "gpushare_up 1" in session.cluster.ok("cat /run/gpushare/elsewhere.prom")
        return result
    return runs


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


@prepared("audit", "gpushare audit --start 2026-11-16 --end 2026-11-23 slurmctld.log", status=1)
def the_pages_log(session):
    session.cluster.write("/lab/out/slurmctld.log", (TOP / "tests/data/audit/slurmctld.log").read_bytes())
    session.before = "cd /lab/out; "


@prepared("audit", "journalctl -u slurmctld -o short-iso | gpushare audit -")
def slurmctld_in_the_journal(session):
    """Debian's own unit, without a log of its own."""
    cluster, conf = session.cluster, "/etc/slurm/slurm.conf"
    old = cluster.ok(["cat", conf])

    def runs(command):
        cluster.ok("/lab/service stop slurmctld")
        cluster.write(conf, re.sub("(?m)^SlurmctldLogFile=.*", "", old) + "\n")
        try:
            cluster.ok("systemctl start slurmctld")
            cluster.wait(lambda: cluster.run("scontrol ping").returncode == 0, "slurmctld to be up")
            cluster.run("sbatch --qos=qos_titan --gres=gpu:1 --wrap=true", "alice")
            cluster.wait(lambda: "GS101" in cluster.ok("journalctl -u slurmctld"), "the journal")
            result = session.run(command)
        finally:
            cluster.run("systemctl stop slurmctld")
            cluster.write(conf, old + "\n")
            cluster.ok("/lab/service start slurmctld", timeout=60)
        assert "Refused: 1 request of 1 user." in result.stdout, result.stdout
        return result
    return runs


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
            text = text.replace("./target/packages/", "./")
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
prepared(
    "README.md", "apt install ./target/packages/gpushare_*.deb ./target/packages/gpushare-slurmctld_*.deb"
)(with_apt())
prepared("install", "make deb")(on_this_machine)


@prepared("install", "make rpm BUILT=target/glibc-2.28 SLURM_PLUGIN_DIR=/usr/lib64/slurm")
def of_another_build(session):
    session.names["target/glibc-2.28"] = "target/release"
    return on_this_machine(session)


prepared("install", "apt remove gpushare-slurmctld gpushare")(with_apt("gpushare", "gpushare-slurmctld"))
prepared("install", "apt remove gpushare-slurmd gpushare")(with_apt("gpushare", "gpushare-slurmd"))
prepared("install", "apt remove gpushare-client gpushare")(with_apt("gpushare", "gpushare-client"))

prepared("upgrade", "apt-mark unhold …")(with_apt("gpushare", "gpushare-slurmctld"))
prepared("upgrade", "apt -s full-upgrade")(with_apt("gpushare", "gpushare-slurmctld"))
prepared("upgrade", "apt full-upgrade")(with_apt("gpushare", "gpushare-slurmctld"))


@prepared("README.md", "echo Mode=audit >>/etc/slurm/gpushare.conf")
def on_the_cluster(session):
    session.before = ""
    session.cluster.ok("dpkg -i /lab/out/sources/target/packages/gpushare-slurmctld_*.deb")


@prepared("install", "dpkg -i gpushare-slurmctld_0.2.0+slurm24.11.4-1_amd64.deb", status=1)
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
    here = [command for page in HERE["nothing"] for command in left(page)]
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
