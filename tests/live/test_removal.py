# SPDX-License-Identifier: GPL-2.0-or-later
"""A package goes only when no running daemon needs it: daemons are known by what they have in memory, after `scontrol
reconfigure` too, under Debian's names of Slurm's programs and under SchedMD's."""

import install
import packages
import pytest
from gpus import OPEN
from installed import ALL, REFUSED, could_open, healthy, no_step_is_left
from lab import EXAMPLES

EXTRA = "/etc/slurm/extra.conf"
RULES = "/etc/slurm/gpushare.conf"
OUT = "/lab/out"
PARTS = ["gpushare", "gpushare-slurmctld", "gpushare-slurmd"]
LOADED = r"slurmctld (process PID) has loaded job_submit_gpushare.so"


@pytest.fixture(scope="module")
def cluster(packaged):
    """With nothing of gpushare, and its packages in /lab/out."""
    folder = packaged.out / "first/sources"
    folder.mkdir(parents=True)
    install.sources(packaged.release, folder)
    slurm = packages.slurm_of(packaged.release).micro
    packaged.ok(f"SLURM_VERSION={slurm} PACKAGES={OUT}/first bash {OUT}/first/sources/packaging/deb/build", timeout=300)
    packaged.ok(f"rm {RULES}; cd /etc/slurm && mkdir prolog.d epilog.d && cp {EXTRA} /tmp")
    return packaged


@pytest.fixture(params=["Debian's", "SchedMD's"])
def switched_on(cluster, request):
    """With packages that are in use, and without them at the end."""
    for name in ("slurmctld", "slurmd"):
        path = f"/usr/sbin/{name}"
        if request.param == "Debian's":
            assert cluster.ok(f"readlink -f {path}") == f"{path}-wlm"
        else:
            cluster.ok(f"mv {path} {path}.debian && cp -L {path}.debian {path}")
    files = " ".join(f"first/{name}_*.deb" for name in PARTS)
    cluster.ok(f"cd {OUT} && dpkg -i {files}", timeout=60)
    cluster.ok(f"cat >{RULES}", stdin=(EXAMPLES / "own/gpushare.conf").read_text())
    cluster.ok(f"echo JobSubmitPlugins=gpushare >>{EXTRA}")
    restart(cluster, "slurmctld")
    restart(cluster, "slurmd")
    yield cluster
    cluster.ok(f"cp /tmp/extra.conf {EXTRA}")
    restart(cluster, "slurmctld")
    restart(cluster, "slurmd")
    cluster.cancel_all()
    cluster.ok(f"GPUSHARE_REMOVE=anyway dpkg --purge {' '.join(PARTS)}", timeout=60)
    cluster.ok("cd /usr/sbin && for name in slurmctld slurmd; do [ ! -e $name.debian ] || mv $name.debian $name; done")


def restart(cluster, daemon):
    cluster.ok(f"/lab/service restart {daemon}", timeout=90)


def reconfigure(cluster):
    """Until the daemons that come of it answer: from 23.11 on they are other processes."""
    before = pids(cluster)
    cluster.ok("scontrol reconfigure", timeout=60)
    if cluster.newer_than("23.11"):
        cluster.wait(lambda: not set(before) & set(pids(cluster)), "new daemons")
    assert healthy(cluster)


def pids(cluster):
    """A daemon that just reconfigures has no such file for a moment."""
    def found():
        read = cluster.run("cat /run/slurm/slurmctld.pid /run/slurm/slurmd-*.pid")
        return read.returncode == 0 and read.stdout.split()

    return cluster.wait(found, "the daemons' numbers")


def removal(cluster, name):
    return cluster.run(f"dpkg --remove {name}", timeout=60)


def is_refused(cluster, name, *reasons):
    result = removal(cluster, name)
    ctld, node = pids(cluster)
    assert result.returncode != 0, result.stdout
    assert f"{name}: Slurm still needs it, and would fail: " in result.stderr
    for reason in reasons:
        assert reason.replace("PID", ctld if "slurmctld" in reason else node) in result.stderr, result.stderr
    remedy = (
        "First take gpushare out of JobSubmitPlugins=, Prolog=, Epilog= and plugstack.conf, "
        "restart slurmctld and slurmd"
    )
    assert remedy in result.stderr
    return True


def goes(cluster, name):
    result = removal(cluster, name)
    assert result.returncode == 0, result.stdout + result.stderr
    return True


def test_a_daemon_keeps_its_package_after_reconfigure_and_until_it_is_restarted(switched_on):
    cluster = switched_on
    folder = "slurmd (process PID) runs /etc/slurm/prolog.d/*"
    for step in (lambda: None, lambda: reconfigure(cluster)):
        step()
        assert is_refused(cluster, "gpushare-slurmctld", LOADED)
        assert is_refused(cluster, "gpushare-slurmd", folder)
    assert cluster.run(REFUSED, "alice").returncode != 0 and could_open(cluster) == [set()] and healthy(cluster)
    assert no_step_is_left(cluster)

    # The file says nothing of it any more, and the daemon still has it.
    cluster.ok(f"sed -i /JobSubmitPlugins/d {EXTRA}")
    assert is_refused(cluster, "gpushare-slurmctld", LOADED)
    restart(cluster, "slurmctld")
    assert goes(cluster, "gpushare-slurmctld")
    cluster.ok("ln -s /bin/true /etc/slurm/prolog.d/10-site; ln -s /bin/true /etc/slurm/epilog.d/10-site")
    assert goes(cluster, "gpushare-slurmd")
    assert could_open(cluster) == [ALL] and healthy(cluster)
    cluster.ok("rm /etc/slurm/prolog.d/10-site /etc/slurm/epilog.d/10-site")


def test_a_prolog_of_the_running_slurmd_stays(switched_on):
    cluster = switched_on
    cluster.ok(f"sed -i -E 's,^(Pro|Epi)log=.*,\\1log=/usr/sbin/gpushare-\\L\\1log,' {EXTRA}")
    restart(cluster, "slurmctld")
    restart(cluster, "slurmd")
    runs = [f"slurmd (process PID) runs /usr/sbin/gpushare-{hook}" for hook in ("prolog", "epilog")]
    assert is_refused(cluster, "gpushare-slurmd", *runs)
    reconfigure(cluster)
    assert is_refused(cluster, "gpushare-slurmd", *runs)
    # Out of slurm.conf, and slurmctld knows; slurmd does not.
    cluster.ok(f"sed -i /log=/d {EXTRA}")
    restart(cluster, "slurmctld")
    assert is_refused(cluster, "gpushare-slurmd", *runs)
    cluster.ok("/lab/service stop slurmctld")
    result = removal(cluster, "gpushare-slurmd")
    assert result.returncode != 0 and "runs /usr/sbin/gpushare-prolog" in result.stderr, "nobody can be asked"
    cluster.ok("/lab/service start slurmctld", timeout=60)
    restart(cluster, "slurmd")
    job = cluster.sbatch(script=f"until [ -e {OUT}/go ]; do sleep 0.1; done; {OPEN}")
    cluster.wait_state(job, "RUNNING")
    titled = f"grep -qa '^slurmstepd: \\[{job}\\.' /proc/[0-9]*/cmdline"
    cluster.wait(lambda: cluster.run(titled).returncode == 0, "a step")
    assert is_refused(cluster, "gpushare-slurmd", f"running steps (slurmstepd: [{job}."), "the job has a fence"
    cluster.cancel_all()
    assert no_step_is_left(cluster) and goes(cluster, "gpushare-slurmd") and healthy(cluster)


def test_what_is_stopped_needs_nothing(switched_on):
    cluster = switched_on
    assert is_refused(cluster, "gpushare-slurmctld", LOADED)
    cluster.ok("/lab/service stop slurmctld; /lab/service stop slurmd", timeout=60)
    assert goes(cluster, "gpushare-slurmctld") and goes(cluster, "gpushare-slurmd")
