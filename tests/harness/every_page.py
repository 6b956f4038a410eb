# SPDX-License-Identifier: GPL-2.0-or-later
"""Every page that tells its reader commands, and what runs each command: a test that goes through the page, another
test or a part of `make test`, or nothing, with the reason."""

import re

from lab import TOP
from pages import commands, parts, text_of
from told import of_comments, of_makefile, of_manual_page, of_sentences

# For those who change gpushare: their tables tell commands too.
FOR_CONTRIBUTORS = [TOP / "CONTRIBUTING.md", TOP / "SECURITY.md", *sorted((TOP / "tests").rglob("README.md"))]
WITH_COMMENTS = [
    path
    for folder in ("packaging", "docs")
    for path in sorted((TOP / folder).rglob("*"))
    if path.suffix in (".conf", ".service", ".timer", ".fstab", ".yml") or path.name in ("accounting", "gpushare.sh")
]
PAGES = {
    page: text_of(page)
    for path in [
        TOP / "README.md", *sorted((TOP / "docs").rglob("*.md")), *FOR_CONTRIBUTORS, *sorted((TOP / "man").iterdir()),
        *WITH_COMMENTS, TOP / "Makefile",
    ]
    for page in parts(str(path.relative_to(TOP)))
}


def told(page, text):
    """The commands of a page, in its order."""
    if page == "Makefile":
        return of_makefile(page, text)
    if page.startswith("man/"):
        return of_manual_page(page, text)
    if not page.split("#")[0].endswith(".md"):
        return of_comments(page, text)
    sentences = of_sentences(page, text) if TOP / page in FOR_CONTRIBUTORS else ()
    return sorted([*commands(page, text), *sentences], key=lambda command: command.line)


COMMANDS = [command for page, text in PAGES.items() for command in told(page, text)]

# gpushare's own commands in the sentences of the other pages; in a table | is written \\|.
OURS_IN_SENTENCES = {
    command.text.replace("\\|", "|"): command
    for page, text in PAGES.items()
    if page.split("#")[0].endswith(".md") and TOP / page not in FOR_CONTRIBUTORS
    for command in of_sentences(page, text)
    if command.text.startswith("gpushare ")
}

# Pages that another test goes through, all of it.
GONE_THROUGH = {
    "docs/guide.md": "test_guide.py",
    "docs/users.md": "test_guide.py",
    "docs/running-cluster.md": "test_switching.py",
    "docs/running-cluster.md#Migrate": "test_migration.py",
    "docs/users.md#Tools that submit jobs": "test_tools.py",
    "docs/dev/releasing.md": "../abi/test_dist.py",
    "docs/examples/containers/apptainer.conf": "test_containers.py",
}
# The pages that test_pages.py goes through, by the fixture that has their cluster; some need none.
HERE = {
    "nodes": [
        *(f"docs/commands.md#gpushare {command}" for command in ("conf", "check", "status")), "docs/leaks.md",
        "docs/qos.md", "man/gpushare.1",
        "man/gpushare.conf.5", "man/gpushare-prolog.8", "man/job_submit_gpushare.8", "SECURITY.md",
        "packaging/gpushare.conf", "CONTRIBUTING.md", "docs/metrics/alerts.yml", "docs/examples/qos-2009/gpushare.conf",
        "docs/examples/guide/nodes.conf",
    ],
    "own": [
        "docs/commands.md#gpushare explain", "docs/gpushare.conf.md", "docs/dev/slurm-faults.md", "docs/upgrade.md",
    ],
    "mps": [
        "docs/metrics.md", "docs/mps.md", "docs/containers.md", "docs/commands.md#gpushare audit",
        "packaging/gpushare-metrics.service",
        "packaging/gpushare-metrics.timer", "packaging/gpushare-guard.timer", "packaging/gpushare-idle.timer",
    ],
    "packaged": ["docs/install.md", "README.md"],
    "nothing": ["docs/dev/new-slurm-release.md"],
}
# What test_pages_of_source.py runs in place of a command, which may be on any page; "" is the command as it stands.
# {include}: the headers of the release {release}, which tests/build has built last; {box}: the name of clusters of
# this test's own; {folder}: an empty folder.
MAKES = "make SLURM_INCLUDE_DIR={include}"
DIFFERENTIAL = "tests/differential/run --count 1000 --seed 1 {release}"
RUN_INSTEAD = {
    # ---- Builds: nothing is left to do when tests/build has been run.
    "make": MAKES,
    "make SLURM_INCLUDE_DIR=/path/to/include": MAKES,
    "make SLURM_INCLUDE_DIR=/path/to/the/new/headers": MAKES,
    "make demo": "GPUSHARE_DEMO_BOX={box} make demo RELEASE={release}",
    "tests/demo": "GPUSHARE_DEMO_BOX={box} make demo RELEASE={release}",
    "make clean": "CARGO_TARGET_DIR={folder}/target make clean",
    "make distclean": "CARGO_TARGET_DIR={folder}/target GPUSHARE_LAB_DIR={folder} make distclean",
    "lab purge": "GPUSHARE_LAB_DIR={folder} tests/lab/lab purge",
    # ---- One test of each kind.
    "tests/differential/run --count 1000 24.11": DIFFERENTIAL,
    "tests/differential/run [--count N] [--seed S] RELEASE...": DIFFERENTIAL,
    "tests/differential/run --count 1000000 --seed $RANDOM 26.05": DIFFERENTIAL,
    "pytest-3 -p no:cacheprovider tests/abi -k version": "",
    "CALLS=2000 tests/host/run --only storm 24.11": "CALLS=2000 tests/host/run --only storm {release}",
    "packaging/programs && tests/faults/run state -k requeued": "",
    "GPUSHARE_RELEASES=24.11 pytest-3 -p no:cacheprovider tests/live/test_surf.py -k eight_shares":
        "GPUSHARE_BOXES={box} GPUSHARE_RELEASES={release} "
        "pytest-3 -p no:cacheprovider tests/live/test_surf.py -k eight_shares",
    "tests/siege/run --release 24.11 --actions 100 --seed 7":
        "GPUSHARE_SIEGE_BOX={box} tests/siege/run --release {release} --actions 100 --seed 7",
    "pytest-3 -p no:cacheprovider tests/siege": "",
    # ---- The lab.
    "lab include RELEASE": "tests/lab/lab include {release}",
    "make lab-up": "make lab-up RELEASE={release} CGROUP=v2 BOX={box}",
    "lab list": "tests/lab/lab list",
    "tests/lab/lab list": "",
    "make lab-shell": "echo hostname | make lab-shell BOX={box}",
    "lab exec NAME [--user alice|bob] [--node NODE] -- CMD…":
        "tests/lab/lab exec {box} --user alice -- hostname",
    "lab logs NAME [slurmctld|slurmd|slurmdbd|syslog]": "tests/lab/lab logs {box}",
    "tests/lab/lab logs NAME slurmctld": "tests/lab/lab logs {box} slurmctld",
    "lab logs NAME syslog": "tests/lab/lab logs {box} syslog",
    "tests/lab/README.md: scontrol reconfigure": "tests/lab/lab exec {box} -- scontrol reconfigure",
    "make lab-down": "make lab-down BOX={box}",
    "lab up NAME --release RELEASE [--cgroup v1|v2] [--conf DIR]... [--plugins DIR] [--nvidia] [--systemd] [--python] "
    "[--jupyterhub] [--containers] [--ssh] [--syslog] [--next RELEASE]":
        "tests/lab/lab up {box} --release {release} --cgroup v2",
    "lab down NAME": "tests/lab/lab down {box}",
    "tests/lab/lab up try --release 24.11 --conf docs/examples/own && tests/lab/lab exec try -- bash":
        "tests/lab/lab up {box} --release {release} --conf docs/examples/own && "
        "echo hostname | tests/lab/lab exec {box} -- bash",
    "tests/lab/lab down try": "tests/lab/lab down {box}",
}
# What another test runs, or a part of `make test`: the command, the file of it below tests/, and its words there. The
# release, and how much it does, may be another.
TEST_PARTS = ["unit", "lint", "faults", "abi", "host", "live", "differential", "fuzz"]
BUILD, LIVE, CARGO = ("run", "part build tests/build"), ("run", "part live live"), ("run", "cargo test --locked")
COMPARED, HOST = ("run", "part differential tests/differential/run"), ("run", "part host tests/host/run")
SPEED, BENCH = ("run", "tests/host/speed --quick"), ("run", "tests/bench/run --quick --release")
PACKAGES = ("harness/packages.py", 'TOP / "Makefile", kind]')
APPLIED_BY_MISHA = ("live/test_misha.py", "apply(misha, text")
APPLIED_BY_SAVIO = ("live/test_savio.py", 'qos(savio, "apply"')
RUN_BY = {
    "make test": LIVE,
    **{f"make test-{part}": ("run", f"wanted {part}") for part in TEST_PARTS
       if part not in ("abi", "faults", "host", "live")},
    "make test-host": HOST,
    "make test-faults": ("run", "[[ $only != faults ]] || part faults faults"),
    **dict.fromkeys(["make test-live", "make test-live RELEASES=26.05"], LIVE),
    "tests/build 25.11 && make test-live RELEASES=25.11": LIVE,
    **dict.fromkeys(["make test-abi", "make test-abi RELEASES=26.05"], ("run", "abi) part abi abi")),
    # ---- Builds, and what they make.
    **dict.fromkeys(["cargo build", "cargo test"], CARGO),
    **dict.fromkeys(["tests/build", "tests/build RELEASE", "tests/build 24.11", "tests/build 26.05"], BUILD),
    "packaging/install": ("../Makefile", "@packaging/install"),
    "make install": ("live/test_make_install.py", 'make("install"'),
    "make uninstall": ("live/test_make_install.py", 'make("uninstall"'),
    "Makefile: make deb": PACKAGES,
    "make rpm": PACKAGES,
    "Makefile: make dist": ("abi/test_dist.py", "DIST.split()"),
    "tests/setup": ("../Makefile", "@tests/setup"),
    "tests/lint": ("run", "    tests/lint\n"),
    # ---- Parts of the tests.
    "cargo test -p gpushare --lib policy::tests::corrections": CARGO,
    "cargo test --test grammar_table": CARGO,
    "tests/fuzz/run --runs 10000 grammar": ("run", "part fuzz tests/fuzz/run"),
    "tests/differential/run 26.05": COMPARED,
    "tests/host/run 26.05": HOST,
    "tests/host/run 22.05 24.11 26.05": HOST,
    "tests/host/run --only storm 24.11": HOST,
    "tests/host/speed 24.11": SPEED,
    "tests/bench/simulate --quick": ("run", "tests/bench/simulate --quick"),
    "tests/bench/run --release 24.11 --quick": BENCH,
    "tests/bench/run --release 24.11 --only steps": BENCH,
    "tests/bench/run --release 24.11 --only nodes": BENCH,
    "tests/bench/run --only arrays": BENCH,
    "tests/bench/run --quick --release 24.11 --only inside": BENCH,
    "tests/bench/daemons 60": ("run", "tests/bench/daemons 2"),
    "tests/siege/run --release 24.11 --ways": ("live/test_siege.py", "ways.every()"),
    "tests/siege/run --release 24.11 --caps": ("live/test_siege.py", "ways.CAPS"),
    "tests/siege/run --release 24.11 --caps --actions 300": (
        "live/test_siege.py", "Siege(caps_box, seed=1, actions=300)"
    ),
    "tests/siege/run --release 24.11 --actions 300 --seed 7": (
        "live/test_siege.py", "Siege(random_box, seed=1, actions=300)"
    ),
    "tests/siege/run --release 24.11 --site cores --ways": ("live/test_siege.py", "ways.CORES"),
    "tests/siege/run --release 24.11 --site course --actions 300": (
        "live/test_siege.py", "Siege(course_box, seed=1, actions=150)"
    ),
    "tests/siege/run --release 24.11 --lending --stories 1000": ("live/test_siege.py", "lending.Lending(cluster, 1)"),
    "tests/siege/run --release 24.11 --replay FILE": ("live/test_pages.py", "--plain --replay tests/siege/"),
    # ---- The lab.
    "lab root RELEASE [--source DIR|TARBALL]": ("run", 'tests/lab/lab root "$release"'),
    "lab nvidia RELEASE|555": ("run", 'tests/lab/lab nvidia "$version"'),
    "lab nvidia": ("run", 'tests/lab/lab nvidia "$version"'),
    "lab systemd RELEASE": ("run", 'tests/lab/lab systemd "$release"'),
    "lab python RELEASE": ("run", 'tests/lab/lab python "$release"'),
    "lab python": ("run", 'tests/lab/lab python "$release"'),
    "lab jupyterhub RELEASE": ("run", 'tests/lab/lab jupyterhub "$release"'),
    "lab jupyterhub": ("run", 'tests/lab/lab jupyterhub "$release"'),
    "lab containers RELEASE": ("run", 'tests/lab/lab containers "$release"'),
    "lab ssh RELEASE": ("run", 'tests/lab/lab ssh "$release"'),
    "lab syslog RELEASE": ("run", 'tests/lab/lab syslog "$release"'),
    "lab exec NAME --node NODE": ("live/test_lab.py", '["--node", node]'),
    "lab down --stale": ("live/test_lab.py", '[LAB, "down", "--stale"]'),
    "tests/lab/lab down --stale": ("live/test_lab.py", '[LAB, "down", "--stale"]'),
    # ---- GPUs out of service.
    **dict.fromkeys(
        ['gpushare gpu drain 2 --reason "the fan is broken"', "gpushare gpu drain"],
        ("live/test_drained.py", '"gpu", "drain"'),
    ),
    **dict.fromkeys(["gpushare gpu resume 2", "gpushare gpu resume"], ("live/test_drained.py", '"gpu", "resume"')),
    # ---- What examples say of themselves.
    "docs/examples/misha/accounting: gpushare qos apply": APPLIED_BY_MISHA,
    "docs/examples/misha/gpushare.conf: gpushare qos apply": APPLIED_BY_MISHA,
    "docs/examples/savio/accounting: gpushare qos apply": APPLIED_BY_SAVIO,
    "docs/examples/savio/gpushare.conf: gpushare qos apply": APPLIED_BY_SAVIO,
    "docs/examples/qos-2009/accounting: gpushare qos apply": ("live/test_qos_2009.py", "apply(qos_2009, text"),
}
COMPILES = "it compiles for minutes"
MEASURES = "it measures for minutes; `make test` runs what it is made of, for a shorter time"
A_SOURCE = "it compiles a Slurm of which the source isn't here"
NEEDS_A_GPU = "it needs a GPU; test_gpu.py runs it with stand-ins"
OF_ITS_OWN = "it makes a Debian or a container, and compiles all in it"
WRITES = "it writes into the source; `cargo test` compares what is there with what it would write"
NOT_RUN = {
    "make test-long": "it takes far longer than `make test`",
    # ---- What isn't here.
    "pip install ziglang cargo-zigbuild": "PyPI's ziglang is 80 MB",
    "packaging/glibc 2.28": "it needs zig, of PyPI, and compiles for minutes; `make test-long` runs it",
    "packaging/glibc": "it needs zig, of PyPI, and compiles for minutes; `make test-long` runs it",
    "apt install prometheus-node-exporter": "it needs the network; test_metrics.py runs that package's program",
    **dict.fromkeys(["make test RELEASES=25.11 SLURM_SOURCE=/path/to/slurm", "make test RELEASES=25.11"], A_SOURCE),
    "tests/lab/lab root 25.11 --source /path/to/slurm": A_SOURCE,
    "lab root 25.11 --source DIR": A_SOURCE,
    "lab root 25.11": A_SOURCE,
    "tests/build 24.11 && tests/gpu/bundle": COMPILES + "; test_gpu.py runs the second",
    "sudo python3 gpu-bundle/one": NEEDS_A_GPU,
    "tests/host/footprint --write 24.11": WRITES,
    # ---- What takes too long.
    "docs/dev/releasing.md: make": COMPILES + "; test_dist.py has cargo check the crates there, without a network",
    **dict.fromkeys(
        ["make fresh", "tests/fresh make test", "make container", "sudo tests/container/run",
         "sudo tests/container/run make test", "sudo tests/container/run COMMAND…"],
        OF_ITS_OWN,
    ),
    **dict.fromkeys(["make bench", "make simulate", "tests/bench/scale", "tests/bench/scale --quick"], MEASURES),
    "cargo run --release -p gpushare-node --example placing": MEASURES,
    "tests/bench/run --only inside --before 9c7fd0f": MEASURES,
    "tests/bench/page --record inside tests/bench/run --only inside --before 9c7fd0f": MEASURES,
    "GPUSHARE_TEST_KERNEL=1 cargo test --release -p gpushare-node --test cgroup2 -- time": MEASURES,
    "tests/siege/run --release 24.11 --actions 5000 --keep-going": "5000 actions take minutes; test_siege.py has 300",
    "tests/siege/run --release 24.11 --plain --guard --ways": "two minutes; test_guard.py has one way of each kind",
    "tests/siege/run --release 24.11 --guard --actions 5000": "5000 actions take minutes; `make test-long` has 20,000",
    "tests/siege/mends": "it is a part of `make test-long`",
    "make test-quick": "its parts are in `make test`",
    "tests/bench/compare HEAD 9c7fd0f": MEASURES,
    "tests/siege/run --release 24.11 --pairs": "it takes a quarter of an hour",
    "tests/siege/run --release 24.11 --pairs --only 'pair 1'": "it is a part of `make test-long`",
    "tests/differential/run --all [--part K/N] RELEASE...": "`make test` runs a part, and `make test-long` all",
    "tests/host/sanitized 24.11": "it builds the standard library; `make test-long` runs it",
    **dict.fromkeys(
        ["tests/mutants/run", "tests/mutants/run src/submit/policy/merged.rs", "tests/mutants/run --continue",
         "tests/mutants/run --continue --shard 1/2", "tests/mutants/run --report",
         "cargo install --locked cargo-mutants"],
        "it takes hours, and cargo-mutants is fetched by hand",
    ),
    **dict.fromkeys(
        ["tests/coverage/run", "tests/coverage/run --only live report -- tests/live/test_fence.py",
         "tests/coverage/run --only report"],
        "it takes more than an hour, and needs llvm-tools",
    ),
    "tests/siege/table": "it runs every way on six clusters, and writes the page",
    **dict.fromkeys(
        ["GPUSHARE_WRITE_DOCS=1 cargo test -p gpushare-cli generated_docs",
         "GPUSHARE_WRITE_DOCS=1 cargo test -p gpushare-cli --test leaks"],
        WRITES,
    ),
}
# Pages of which nothing is run.
NO_PAGES = {"tests/gpu/README.md": NEEDS_A_GPU}
# What a reader writes otherwise, as the page says or as it is here.
INSTEAD = {
    "make && make deb": "make deb",
    "systemctl restart slurmctld": "/lab/service restart slurmctld",
}


TABLES = {"RUN_INSTEAD": RUN_INSTEAD, "RUN_BY": RUN_BY, "NOT_RUN": NOT_RUN}


def tables_of(command):
    """The names of the tables that have a command: on its page, or else on any."""
    for key in (f"{command.page}: {command.text}", command.text):
        if names := [name for name, table in TABLES.items() if key in table]:
            return names
    return []


def left(page):
    """The commands of a page that the test which goes through it runs."""
    return [command for command in COMMANDS if command.page == page and not tables_of(command)]


def where(command):
    return f"{command.page}:{command.line}: {command.text}"
