# SPDX-License-Identifier: GPL-2.0-or-later
"""The kinds of clusters that the tests have."""

import os

import bypass_table
import pytest
from clusters import clusters, placed_clusters, started
from lab import CASES, EXAMPLES, PANICKING, RELEASES, TOP, UPGRADES


def either(release):
    """One release on v1, if this machine has it, the others on v2."""
    return None if release == "22.05" else "v2"


# No gpushare configured: what Slurm does by itself.
plain = clusters("plain")
# The contributors' QOSes, with a second type of GPU on a second node.
contributors = clusters("contributors", conf=[EXAMPLES / "contributors", CASES / "two-types"])
# A node whose name isn't its machine's, with settings that many sites have.
shapes = clusters("shapes", conf=[EXAMPLES / "own", CASES / "shapes"], cgroup="v2", in_turn=True)
# A node whose slurmd is told to run hooks of plugins within jobs' namespaces; the test does that.
spank_contained = clusters("cs", conf=[EXAMPLES / "own"], cgroup="v2")
# The same with a second controller.
two_controllers = clusters("ctl", conf=[EXAMPLES / "contributors", CASES / "controllers"], cgroup=either)
# The same group on two nodes with everything that a request can name, for what a refusal says to try.
advised = clusters("advice", conf=[EXAMPLES / "contributors", CASES / "advice"])
# A node for shares and nothing of gpushare on it, which a test installs.
bare = clusters(
    "install", conf=[EXAMPLES / "own", CASES / "install"], cgroup="v2", plugins=CASES / "install", in_turn=True,
)
# The same for packages, with what their scripts speak to: systemd.
packaged = clusters(
    "pk", conf=[EXAMPLES / "own", CASES / "install"], cgroup="v2", plugins=CASES / "install", systemd=True,
    in_turn=True,
)
# Limits on a type of GPU that associations have.
accounts = clusters("accounts", conf=[EXAMPLES / "contributors", CASES / "accounts"])
# The same group beside a site's script that writes into updates, and names as sites have them.
moves = clusters("moves", conf=[EXAMPLES / "contributors", CASES / "moves"])
# What `gpushare explain` is compared on: the contributors' cluster with more accounts, and one with a site's settings.
EXPLAINED = [EXAMPLES / "contributors", CASES / "two-types", CASES / "explain"]
explained = clusters("explain", conf=EXPLAINED)
explained_site = clusters("explain-site", conf=[*EXPLAINED, CASES / "explain-site"])
# Limits of each kind, for jobs of which `gpushare explain` says why they wait; and jobs with shares.
waiting_jobs = clusters("explain-jobs", conf=[EXAMPLES / "contributors", CASES / "explain-jobs"])
# The same for limits on minutes.
minutes = clusters("explain-minutes", conf=[EXAMPLES / "contributors", CASES / "explain-minutes"])
# Nodes of two types, and one with both, for jobs that take whole nodes.
whole_nodes = clusters("whole", conf=[CASES / "whole-nodes"])
# Two types of GPU, and memory that is counted, for caps on what a job may have with each GPU.
capped = clusters("caps", conf=[CASES / "caps"])
# Two nodes of one type and one of another, with jobs that need no process: what is counted, and what is given.
counted = clusters("counted", conf=[CASES / "counted"])
# Limits on a type of Slurm's own shards.
share_types = clusters("share-types", conf=[CASES / "share-types"])
# Shares that are asked for by their GPU memory.
by_memory = clusters("mem", conf=[EXAMPLES / "own", CASES / "by-memory"], cgroup=either)
# The same in a partition with three types of GPU.
by_memory_nodes = clusters(
    "memn", conf=[EXAMPLES / "own", *(CASES / one for one in ("by-memory", "nodes", "nodes-own", "by-memory-nodes"))],
    cgroup="v2",
)
# The same group, and what the known ways round its limit need: shards, partitions, scrontab.
ways = clusters("ways", conf=[EXAMPLES / "contributors", CASES / "ways"])
# The same group where slurmctld is Debian's own unit of a real systemd, with daemons of syslog.
logged = clusters("log", conf=[EXAMPLES / "contributors"], cgroup="v2", systemd=True, syslog=True)
# The same group, with tools that submit jobs.
tools = clusters("tools", conf=[EXAMPLES / "contributors", CASES / "tools"], cgroup="v2", python=True)


@pytest.fixture(scope="module", params=[
    # Shares are spread by LL_SHARED_GRES, which 22.05 doesn't have.
    release for release in RELEASES if release >= "23.11"
][: None if "GPUSHARE_EVERY_RELEASE" in os.environ else 1])
def classroom(request):
    """A course's node, and JupyterHub."""
    conf = [EXAMPLES / "jupyterhub", CASES / "jupyterhub"]
    with started("hub", request.param, "v2", conf=conf, jupyterhub=True) as cluster:
        yield cluster


# Contributors of three types of GPU, each QOS a line of gpushare.conf; the database has none of them yet.
MISHA = [EXAMPLES / "misha", CASES / "many-gpus"]
shared = clusters("shares", conf=MISHA)
misha = clusters("misha", conf=MISHA, in_turn=True)
# Groups that lend their GPUs to each other.
lending = clusters("lend", conf=[TOP / "tests/siege/conf-lending", CASES / "many-gpus"])
# The QOS page of 2009.
qos_2009 = clusters("q2009", conf=[EXAMPLES / "qos-2009"], in_turn=True)
# A free QOS and those that preempt it; GPUs of four types. Fair-share on two types. More GPUs than the lab has by
# itself.
savio = clusters("savio", conf=[EXAMPLES / "savio", CASES / "many-gpus"], in_turn=True)
fairshare = clusters("fairshare", conf=[EXAMPLES / "fairshare", CASES / "many-gpus"], in_turn=True)
# SURF's node: 4 GPUs, 1280 mps units. As it stands, with shares for courses only, and for everybody.
course = clusters("course", conf=[EXAMPLES / "surf"])
SURF = [EXAMPLES / "surf", CASES / "surf-open"]
surf = clusters("surf", conf=SURF)
# Only the devices of docs/guide.md; the test does what the guide says.
guide = clusters("guide", conf=[CASES / "guide"], nvidia=True, cgroup=either, in_turn=True)


# As the pages have it that test_pages.py goes through: nodes with shares, a node of gpushare's own and one of Slurm's,
# MPS daemons and systemd, and a machine without gpushare.
paged_nodes = clusters("pg-nodes", conf=[EXAMPLES / "follow-mps", CASES / "pages-nodes"], cgroup="v2", in_turn=True)
paged_own = clusters("pg-own", conf=[EXAMPLES / "own", CASES / "pages-own"], cgroup="v2", in_turn=True)
paged_mps = clusters(
    "pg-mps", conf=[EXAMPLES / "surf-mps", CASES / "surf-governed", CASES / "metrics", CASES / "systemd"], cgroup="v2",
    nvidia=True, systemd=True, in_turn=True,
)
paged_bare = clusters(
    "pg-bare", conf=[EXAMPLES / "own", CASES / "install"], cgroup="v2", plugins=CASES / "install", in_turn=True,
)
# Two nodes in use, with nothing of gpushare's configured; the test does what docs/running-cluster.md says.
in_use = clusters("use", conf=[CASES / "switching"], cgroup=either, in_turn=True)
# The same with a site's own scripts, rules in lua, Slurm's own mps or shard, or an MPS daemon of the site's;
# the tests do what docs/running-cluster.md says.
with_scripts, with_lua, with_mps, with_shard, with_daemon = (
    clusters(
        f"mv-{one}", conf=[CASES / "switching", CASES / f"migrate-{one}"], cgroup=either, nvidia=one == "daemon",
        in_turn=True,
    )
    for one in ("scripts", "lua", "mps", "shard", "daemon")
)


def example(placement):
    return SURF if placement == "override" else [EXAMPLES / placement]


# Each placement as its example configures it, on both versions of cgroups; SURF's without its rule on reservations.
placed = placed_clusters(
    "p", ["follow-mps", "follow-shard", "own", "override"], example, locked_maps=lambda release: True,
)
placed_follow = placed_clusters("l", ["follow-mps"], example)
# Ways to have jobs placed.
by_whom = placed_clusters(
    "w", ["hooks-only", "both", "run-in-job"], lambda one: [EXAMPLES / "own", CASES / one], cgroups=["v2"],
    since={"run-in-job": "24.05"}, locked_maps=lambda release: True,
)
# What NVML says and does, for jobs that the prolog places, also inside the job, and that the SPANK hooks place.
measured = placed_clusters(
    "m", ["own", "hooks-only", "run-in-job"],
    lambda one: [EXAMPLES / "own", *([CASES / one] if one != "own" else []), CASES / "nvml"], cgroups=["v2"],
    since={"run-in-job": "24.05"},
)
# Prologs that run somewhere else, with MPS.
mps_by_whom = placed_clusters(
    "mw", ["hooks-only", "run-in-job"], lambda one: [EXAMPLES / "own", CASES / one, CASES / "own-mps"], cgroups=["v2"],
    since={"run-in-job": "24.05"}, nvidia=lambda release: True,
)
# What `gpushare explain` says of a job with a share.
explained_shares = placed_clusters("ex", ["own", "follow-mps"], example, cgroups=["v2"])
# What `gpushare status --nodes` says of each.
status_nodes = placed_clusters(
    "st", ["follow-mps", "follow-shard", "own", "override"], example, cgroups=["v2"], in_turn=True,
)
# One to break.
refused = placed_clusters("r", ["own"], example, cgroups=["v2"])
# As the examples stand, and one to break.
checked = placed_clusters(
    "chk", ["follow-mps", "follow-shard", "own", "surf"], lambda one: [EXAMPLES / one], cgroups=["v2"], in_turn=True
)
# Those with contributors' shares, for `gpushare qos apply` and then check.
checked_shares = placed_clusters(
    "chks", ["contributors", "misha", "qos-2009", "savio", "fairshare"],
    lambda one: [EXAMPLES / one, CASES / "many-gpus"], cgroups=["v2"], in_turn=True,
)
# The same, for what `gpushare conf` prints.
configured = placed_clusters(
    "conf", ["follow-mps", "follow-shard", "own", "override"], example, cgroups=["v2"], in_turn=True,
)
# The same, for what shares cost.
weighed = placed_clusters("wt", ["follow-mps", "own", "override"], example, cgroups=["v2"])
misha_check = clusters("chks-broken", conf=MISHA, cgroup="v2", in_turn=True)
check_broken = clusters("chk-broken", conf=[EXAMPLES / "follow-mps"], cgroup="v2", in_turn=True)
# With a second class of devices that Slurm fences.
nic = placed_clusters("nic", ["own", "override", "follow-mps"], lambda one: [*example(one), CASES / f"nic-{one}"])
# The same, with a second node in the box.
attacked = placed_clusters("atk", ["own", "override"], lambda one: [*example(one), CASES / f"attack-{one}"])
# Three nodes, each as far as gpushare can tell a machine of its own: 4 GPUs, 2 and 8 of three types.
NODES = {"own": [EXAMPLES / "own"], "override": SURF, "follow-mps": [EXAMPLES / "follow-mps"]}
several = placed_clusters(
    "mn", list(NODES), lambda one: [*NODES[one], CASES / "nodes", CASES / f"nodes-{one}"], cgroups=["v2"], in_turn=True,
)
# The same, to be compared with each other.
fleet = clusters(
    "fleet", conf=[EXAMPLES / "follow-mps", CASES / "nodes", CASES / "nodes-follow-mps"], cgroup="v2", in_turn=True,
)
# The same with preemption, and with nodes that Slurm has powered down.
clouded = clusters(
    "cloud", conf=[EXAMPLES / "follow-mps", *(CASES / one for one in ("nodes", "nodes-follow-mps", "cloud"))],
    cgroup="v2", in_turn=True,
)
# The same with OpenSSH, pdsh and ClusterShell.
reachable = clusters(
    "reach", conf=[EXAMPLES / "follow-mps", CASES / "nodes", CASES / "nodes-follow-mps"], cgroup="v2", ssh=True,
    in_turn=True,
)
# Three nodes whose settings differ, in one gpushare.conf.
mixed_nodes = clusters(
    "mixed", conf=[EXAMPLES / "own", CASES / "nodes", CASES / "nodes-own", CASES / "nodes-mixed"], cgroup="v2",
    in_turn=True,
)
# Two nodes that have no files of Slurm's and register themselves, and what many sites have in slurm.conf besides.
configless = clusters("cl", conf=[EXAMPLES / "follow-mps", CASES / "configless"], cgroup="v2")
# What their hooks cost.
hooked = placed_clusters("hk", ["own", "override"], example)
# Builds whose fence fails when asked to.
unfenced = placed_clusters(
    "u", ["own", "override", "run-in-job"],
    lambda one: [EXAMPLES / "own", CASES / one] if one == "run-in-job" else example(one),
    since={"run-in-job": "24.05"}, plugins=lambda release: PANICKING / release,
)
# The same with NVIDIA's own MPS daemon for each user and GPU.
mps = clusters("mps", conf=[EXAMPLES / "surf-mps"], nvidia=True, cgroup=either, locked_maps=True)
# The same with a daemon for a job's own whole GPUs, on both versions of cgroups.
own_mps = placed_clusters("own-mps", ["override"], lambda _: [EXAMPLES / "surf-mps"], nvidia=lambda _: True)
# The same on nodes of their own, for het jobs.
own_mps_nodes = clusters(
    "own-mpsn", conf=[EXAMPLES / "surf-mps", CASES / "nodes", CASES / "nodes-override"], nvidia=True, cgroup="v2",
    in_turn=True,
)
haunted_node = clusters("haunted", conf=[EXAMPLES / "surf-mps"], nvidia=True, cgroup=either)
# Nodes of their own with such daemons: one's name services can differ from the controller's.
mps_nodes = clusters(
    "mpsn", conf=[EXAMPLES / "own", CASES / "nodes", CASES / "nodes-own", CASES / "own-mps"], nvidia=True, cgroup="v2",
)
# The same with programs that start containers.
contained = clusters("ct", conf=[EXAMPLES / "surf-mps"], nvidia=True, containers=True, cgroup=either)


# The same with a governed QOS, counted for Prometheus; and where systemd is process 1.
COUNTED = [EXAMPLES / "surf-mps", CASES / "surf-governed", CASES / "metrics"]
met = clusters("met", conf=COUNTED, nvidia=True, cgroup=either, in_turn=True)
met_systemd = clusters(
    "met-systemd", conf=[*COUNTED, CASES / "systemd"], cgroup="v2", nvidia=True, systemd=True, in_turn=True,
)


@pytest.fixture(scope="module", params=[
    # systemd 257 and later start with cgroup v2 only.
    (release, cgroup) for release in RELEASES for cgroup in ("v1", "v2")
    if cgroup == "v2" or release == "22.05"
], ids="-".join)
def with_systemd(request):
    """The same where systemd is process 1."""
    release, cgroup = request.param
    conf = [EXAMPLES / "surf-mps", CASES / "systemd"]
    with started(f"systemd-{cgroup}", release, cgroup, conf=conf, nvidia=True, systemd=True) as cluster:
        yield cluster


# To be upgraded once: SURF's node with contributors' shares, and one whose fence is gpushare's alone.
UPGRADABLE = {"surf": [EXAMPLES / "surf", CASES / "upgrade"], "own": [EXAMPLES / "own"]}


@pytest.fixture(params=[(*step, "surf") for step in UPGRADES], ids="-".join)
def upgradable(request):
    """A cluster that can be upgraded to a release that Slurm can be upgraded to in one step."""
    release, following, kind = request.param
    if not {release, following} <= set(RELEASES):
        pytest.skip(f"NOT TESTED: the upgrade from {release} to {following}, without builds for both")
    with started(f"up-{kind}", release, either(release), conf=UPGRADABLE[kind], next=following) as cluster:
        cluster.next, cluster.kind = following, kind
        yield cluster


# The same, where device numbers are not in the order of the device names.
shuffled = clusters("shuffled", conf=[*SURF, CASES / "shuffled"])
# Builds that panic when asked to.
panicking = clusters(
    "panic",
    conf=[*SURF, CASES / "surf-governed"],
    plugins=lambda release: PANICKING / release,
)


def box_of(item):
    """Which cluster a test runs in, by its fixture and what that was asked for."""
    params = item.callspec.params.items() if getattr(item, "callspec", None) else ()
    for fixture, value in params:
        words = value if isinstance(value, tuple) else (value,)
        if any(word in RELEASES for word in words):
            return "-".join([fixture, *map(str, words)])
    return "any"


def pytest_configure(config):
    config.addinivalue_line("markers", "bypass(row, title): the test of one way round a typed limit")


def pytest_runtest_logreport(report):
    bypass_table.take(report)


# Clusters whose tests take longest, of files that would come last: the other workers would wait for them.
FIRST = ("whole_nodes-", "scripted_box-", "contributors-", "in_use-")


# Before xdist looks for the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not box_of(item).startswith(FIRST))
    for item in items:
        # Clusters run side by side; the tests in one run one after another.
        item.add_marker(pytest.mark.xdist_group(box_of(item)))
        mark = item.get_closest_marker("bypass")
        if mark:
            item.user_properties.append(("bypass", mark.args))
            item.user_properties.append(("release", item.callspec.params["ways"]))


def pytest_terminal_summary(terminalreporter):
    for line in bypass_table.lines():
        terminalreporter.write_line(line)
