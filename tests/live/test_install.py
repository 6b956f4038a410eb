# SPDX-License-Identifier: GPL-2.0-or-later
"""An administrator's way on a running cluster: install, switch on, install anew, uninstall; jobs run all along."""

import install
import pytest
from gpus import OPEN
from installed import ALL, FILES, REFUSED, SHARE, could_open, healthy, no_step_is_left, plugin_in_memory
from lab import EXAMPLES

EXTRA = "/etc/slurm/extra.conf"
RULES = "/etc/slurm/gpushare.conf"
SOURCES = "/lab/out/sources"


@pytest.fixture(scope="module")
def cluster(bare):
    """With what `make` has built on it, and without the configuration that goes with it."""
    install.sources(bare.release, bare.out / "sources")
    # With `Prolog=/etc/slurm/prolog.d/*` slurmd drains a node where that is missing or empty.
    bare.ok(
        f"rm {RULES}; cd /etc/slurm && mkdir prolog.d epilog.d && ln -s /bin/true prolog.d/10-site && "
        "ln -s /bin/true epilog.d/10-site"
    )
    return bare


def run_install(cluster, *words):
    return cluster.ok(["bash", f"{SOURCES}/packaging/install", *words])


def switch_on(cluster):
    cluster.ok(f"cat >{RULES}", stdin=(EXAMPLES / "own/gpushare.conf").read_text())
    cluster.ok(f"echo JobSubmitPlugins=gpushare >>{EXTRA} && /lab/service restart slurmctld", timeout=60)


def test_an_installation_from_beginning_to_end(cluster):
    assert could_open(cluster) == [ALL] and healthy(cluster)
    before = cluster.ok(FILES).splitlines()

    # Installed, and nothing has changed: the plugin of steps is loaded, prolog and epilog run.
    said = run_install(cluster)
    plugin_dir = cluster.ok("scontrol show config | sed -n 's/^PluginDir *= *//p'")
    assert f"with the plugins in {plugin_dir}. " in said
    assert could_open(cluster) == [ALL] and healthy(cluster)
    assert "error" not in cluster.run("gpushare check 2>&1").stdout.lower()
    assert cluster.run(["test", "-e", RULES]).returncode != 0

    switch_on(cluster)
    assert could_open(cluster) == [set()]
    opened_by_share = could_open(cluster, SHARE)
    assert len(opened_by_share[0]) == 1
    cluster.ok("/lab/service restart slurmd", timeout=60)
    check = cluster.run(["gpushare", "check", "--all"])
    assert check.returncode == 0 and "\nok     Prolog " in check.stdout, check.stdout
    assert "GS122" in cluster.run(REFUSED, "alice").stderr or cluster.release == "22.05"

    # Other builds, while a job runs and slurmctld has the plugin in memory.
    pid, lines = plugin_in_memory(cluster)
    assert lines and not any("(deleted)" in line for line in lines)
    job = cluster.sbatch(SHARE, script=f"sleep 1000 & wait; {OPEN}")
    cluster.wait_state(job, "RUNNING")
    cluster.ok(f"for file in {SOURCES}/target/release/*; do echo newer >>$file; done")
    run_install(cluster)
    assert cluster.run(REFUSED, "alice").returncode != 0
    again, lines = plugin_in_memory(cluster)
    assert again == pid and lines and all("(deleted)" in line for line in lines)
    assert len(could_open(cluster, SHARE)[0]) == 1
    assert cluster.shares()[0]["job"] == job
    cluster.cancel_all()
    cluster.wait_no_shares()
    assert no_step_is_left(cluster)
    cluster.ok("/lab/service restart slurmctld", timeout=60)
    assert cluster.run(REFUSED, "alice").returncode != 0 and healthy(cluster)

    # Taken away, but not before Slurm can do without it; the rules are the administrator's, and stay.
    installed = cluster.ok(FILES)
    refused = cluster.run(["bash", f"{SOURCES}/packaging/install", "--uninstall"])
    assert "Slurm still needs it, and would fail: slurmctld (process " in refused.stderr
    cluster.ok(f"sed -i /JobSubmitPlugins/d {EXTRA} && /lab/service restart slurmctld", timeout=60)
    cluster.ok("mv /etc/slurm/prolog.d/10-site /tmp")
    refused = cluster.run(["bash", f"{SOURCES}/packaging/install", "--uninstall"])
    assert ") runs /etc/slurm/prolog.d/*. First take" in refused.stderr
    cluster.ok("mv /tmp/10-site /etc/slurm/prolog.d")
    assert cluster.ok(FILES) == installed
    cluster.ok("mkdir -p /var/lib/gpushare; touch /var/lib/gpushare/drained")
    assert run_install(cluster, "--uninstall") == ""
    assert cluster.ok(FILES).splitlines() == sorted([*before, RULES])
    assert cluster.ok("find /run /var/lib -name '*gpushare*'") == ""
    assert could_open(cluster) == [ALL] and healthy(cluster)
    cluster.ok("/lab/service restart slurmctld && /lab/service restart slurmd", timeout=60)
    assert could_open(cluster) == [ALL] and healthy(cluster)
