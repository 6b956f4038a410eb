# SPDX-License-Identifier: GPL-2.0-or-later
"""The life of packages on a cluster in use: installed, switched on, upgraded, refused, removed; jobs run all along.
And a login node, with a plugin that is missing or another release's."""

import re

import install
import packages
import pytest
from gpus import OPEN, opened
from installed import ALL, FILES, REFUSED, SHARE, could_open, could_open_in, healthy, no_step_is_left, plugin_in_memory
from lab import EXAMPLES

EXTRA = "/etc/slurm/extra.conf"
RULES = "/etc/slurm/gpushare.conf"
FRAGMENT = "/etc/slurm/plugstack.conf.d/50-gpushare.conf"
LINKS = ["/etc/slurm/prolog.d/50-gpushare", "/etc/slurm/epilog.d/50-gpushare"]
OUT = "/lab/out"
FOLDERS = "find /usr /etc -type d | LC_ALL=C sort"
PLUGIN = packages.PLUGIN_DIR
NODE_PLUGIN = f"{PLUGIN}/spank_gpushare.so"


@pytest.fixture(scope="module")
def cluster(packaged):
    """With nothing of gpushare, and packages in /lab/out, each kind in a folder: "first", and "second", which is a
    later version of gpushare with other builds; "micro" and "release" are for another Slurm. Built in the box."""
    release = packaged.release
    here = packages.slurm_of(release)
    for name in ("first", "second", "micro", "release"):
        folder = packaged.out / name / "sources"
        folder.mkdir(parents=True)
        install.sources(release, folder)
        version, slurm = "1.0.0", here
        built = folder / "target/release"
        if name == "second":
            version = "1.1.0"
            for file in built.iterdir():
                file.write_bytes(file.read_bytes() + b"newer")
            with open(folder / "packaging/gpushare.conf", "a") as settings:
                settings.write("# Of the second.\n")
        if name in ("micro", "release"):
            slurm = packages.Slurm(here.number + (1 if name == "micro" else 0x100))
            packages.restamp(built, slurm)
        manifest = (folder / "Cargo.toml").read_text()
        (folder / "Cargo.toml").write_text(re.sub(r'(?m)^version = ".*"$', f'version = "{version}"', manifest, count=1))
        environment = [f"{name}={value}" for name, value in packages.QUICKLY.items()]
        environment += [f"SLURM_VERSION={slurm.micro}"] if slurm != here else []
        build = ["bash", f"{OUT}/{name}/sources/packaging/deb/build"]
        said = packaged.ok(["env", *environment, f"PACKAGES={OUT}/{name}", *build], timeout=300)
        assert f"_{version}+slurm{slurm.micro}-1_" in said
    packaged.ok(f"rm {RULES}; cd /etc/slurm && mkdir prolog.d epilog.d && ln -s /bin/true prolog.d/10-site")
    packaged.ok("ln -s /bin/true /etc/slurm/epilog.d/10-site")
    return packaged


def dpkg(cluster, *words):
    """The result of dpkg; its words may have patterns of the shell."""
    return cluster.run(f"cd {OUT} && dpkg {' '.join(words)}", timeout=60)


def archives(folder, *names):
    return [f"{folder}/{name}_*.deb" for name in names]


def must(result):
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def states(cluster):
    """{package: dpkg's letter for its state}, of gpushare's: i, installed; c, only its settings are left."""
    lines = cluster.run("dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' 'gpushare*' 2>/dev/null").stdout
    return {line.split()[1]: line[1] for line in lines.splitlines() if line[1] != "n"}


def restart(cluster, daemon="slurmctld"):
    cluster.ok(f"/lab/service restart {daemon}", timeout=60)


def identities(cluster):
    """What files are, so that one that was written anew differs."""
    return cluster.ok(
        f"stat -c '%n %i %Y %s' {PLUGIN}/*gpushare* /usr/sbin/gpushare-* /usr/bin/gpushare {RULES} {FRAGMENT}"
    )


def test_packages_from_beginning_to_end(cluster):
    assert could_open(cluster) == [ALL] and healthy(cluster)
    files, folders = cluster.ok(FILES), cluster.ok(FOLDERS)
    old_job = cluster.sbatch(script=f"until [ -e {OUT}/go ]; do sleep 0.1; done; {OPEN}")
    cluster.wait_state(old_job, "RUNNING")

    # Installed, and nothing has changed for jobs; dpkg finds each file as it is in the package.
    must(dpkg(cluster, "-i", *archives("first", "gpushare", "gpushare-slurmctld", "gpushare-slurmd")))
    assert must(dpkg(cluster, "--verify", *states(cluster))) == ""
    assert could_open(cluster) == [ALL]
    assert cluster.ok(["cat", FRAGMENT]).splitlines().count("required spank_gpushare.so") == 1
    linked = [cluster.ok(["readlink", link]) for link in LINKS]
    assert linked == ["/usr/sbin/gpushare-prolog", "/usr/sbin/gpushare-epilog"]
    cluster.ok(f"touch {OUT}/go")
    assert cluster.finished(old_job) == "COMPLETED" and opened(cluster.output(old_job)) == [ALL]
    assert healthy(cluster)

    # Switched on.
    cluster.ok(f"cat >{RULES}", stdin=(EXAMPLES / "own/gpushare.conf").read_text() + "# Edited here.\n")
    cluster.ok(f"echo JobSubmitPlugins=gpushare >>{EXTRA}")
    restart(cluster)
    assert could_open(cluster) == [set()]
    assert len(could_open(cluster, SHARE)[0]) == 1
    refused = cluster.run(REFUSED, "alice")
    assert refused.returncode != 0 and ("GS122" in refused.stderr or cluster.release == "22.05")
    restart(cluster, "slurmd")
    check = cluster.run(["gpushare", "check"])
    assert check.returncode == 0, check.stdout

    # A later version, while a share runs and slurmctld has the plugin in memory.
    job = cluster.sbatch(SHARE, script=f"sleep 1000 & wait; {OPEN}")
    cluster.wait_state(job, "RUNNING")
    (fenced,) = could_open_in(cluster, job)
    pid, lines = plugin_in_memory(cluster)
    assert lines and not any("(deleted)" in line for line in lines)
    before = cluster.ok(f"stat -c '%n %i' {PLUGIN}/*gpushare*").splitlines()
    cluster.ok(f"echo '# Edited here.' >>{FRAGMENT}; rm {LINKS[1]}; ln -s /usr/sbin/gpushare-epilog {LINKS[1]}-site")
    said = must(
        dpkg(cluster, "--force-confold", "-i", *archives("second", "gpushare", "gpushare-slurmctld", "gpushare-slurmd"))
    )
    assert "gpushare-slurmctld: slurmctld keeps the plugin that it has loaded until you restart it" in said
    after = cluster.ok(f"stat -c '%n %i' {PLUGIN}/*gpushare*").splitlines()
    assert len(after) == 3 and not set(before) & set(after), "files are replaced, not written into"
    again, lines = plugin_in_memory(cluster)
    assert again == pid and lines and all("(deleted)" in line for line in lines)
    assert cluster.state(job) == "RUNNING" and could_open_in(cluster, job) == [fenced] and len(fenced) == 1
    assert cluster.run(REFUSED, "alice").returncode != 0
    assert len(could_open(cluster, SHARE)[0]) == 1
    assert "# Edited here." in cluster.ok(["cat", RULES])
    assert "# Of the second." in cluster.ok(["cat", f"{RULES}.dpkg-dist"])
    assert "# Edited here." in cluster.ok(["cat", FRAGMENT])
    assert cluster.run(["test", "-L", LINKS[1]]).returncode != 0, "a link that was taken away comes back"
    cluster.ok(f"mv {LINKS[1]}-site {LINKS[1]}; rm {RULES}.dpkg-dist")

    # Builds for another Slurm are refused before anything is written.
    there = identities(cluster)
    for folder, names in (("micro", ["gpushare-slurmctld"]), ("release", ["gpushare-slurmctld", "gpushare-slurmd"])):
        for name in names:
            refused = dpkg(cluster, "-i", *archives(folder, name))
            assert refused.returncode != 0, refused.stderr
            assert re.search(rf"{name} breaks slurm(ctld|d) ", refused.stderr), refused.stderr
    assert identities(cluster) == there and set(states(cluster).values()) == {"i"}

    # Not removed while it is needed, and whole after the attempt.
    refused = dpkg(cluster, "--remove", "gpushare-slurmd")
    assert refused.returncode != 0
    assert (
        f"gpushare-slurmd: Slurm still needs it, and would fail: running jobs with GPUs ({job}); "
        f"running steps (slurmstepd: [{job}."
        in refused.stderr
    )
    refused = dpkg(cluster, "--purge", "gpushare", "gpushare-slurmctld")
    assert refused.returncode != 0
    assert "gpushare-slurmctld: Slurm still needs it, and would fail: slurmctld (process " in refused.stderr
    assert identities(cluster) == there and set(states(cluster).values()) == {"i"}
    assert could_open_in(cluster, job) == [fenced] and cluster.shares()[0]["JOB"] == job
    cluster.cancel_all()
    cluster.wait_no_shares()
    assert no_step_is_left(cluster)
    cluster.ok("mv /etc/slurm/prolog.d/10-site /tmp")
    refused = dpkg(cluster, "--remove", "gpushare-slurmd")
    assert refused.returncode != 0 and ") runs /etc/slurm/prolog.d/*. First take" in refused.stderr
    cluster.ok("mv /tmp/10-site /etc/slurm/prolog.d")
    restart(cluster)
    assert cluster.run(REFUSED, "alice").returncode != 0 and healthy(cluster)

    # Switched off and removed: what was edited stays, until it is purged.
    cluster.ok(f"sed -i /JobSubmitPlugins/d {EXTRA}")
    restart(cluster)
    must(dpkg(cluster, "--remove", "gpushare", "gpushare-slurmctld", "gpushare-slurmd"))
    assert states(cluster) == {"gpushare": "c"}
    assert cluster.ok(FILES).splitlines() == sorted([*files.splitlines(), RULES])
    assert could_open(cluster) == [ALL] and healthy(cluster)
    must(dpkg(cluster, "--purge", "gpushare"))
    assert (cluster.ok(FILES), states(cluster)) == (files, {})
    # The root lacks folders that are other packages'.
    for folder in set(cluster.ok(FOLDERS).splitlines()) - set(folders.splitlines()):
        assert cluster.run(["dpkg-query", "-S", folder]).returncode == 0, folder
    assert cluster.run(["test", "-e", "/run/gpushare"]).returncode != 0
    restart(cluster)
    restart(cluster, "slurmd")
    assert could_open(cluster) == [ALL] and healthy(cluster)


def submits(cluster):
    """Whether srun, sbatch and salloc work, and what they say."""
    results = [cluster.run([*command, "true"], "alice") for command in (["srun"], ["salloc"])]
    results.append(cluster.run(["sbatch", "--wait", "-o", "/dev/null", "--wrap=true"], "alice"))
    works = {result.returncode == 0 for result in results}
    assert len(works) == 1, results
    return works.pop(), "".join(result.stderr for result in results)


@pytest.fixture
def login(cluster):
    """With the packages of a login node, and without them at the end."""
    must(dpkg(cluster, "-i", *archives("first", "gpushare", "gpushare-client")))
    yield cluster
    cluster.ok(f"rm -f {FRAGMENT} {NODE_PLUGIN}; sed -i '/spank_gpushare/d' /etc/slurm/plugstack.conf")
    must(dpkg(cluster, "--purge", *packages.NAMES))
    cluster.cancel_all()


def test_a_login_node_works_whatever_becomes_of_the_plugin(login):
    lines = login.ok(["cat", FRAGMENT]).splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["optional spank_gpushare.so"]
    works, said = submits(login)
    assert works and "error" not in said, said
    # As a plugstack.conf that nodes have too would have it.
    others = f"{OUT}/release/sources/target/release/libspank_gpushare.so"
    both = {"missing": f"mv {NODE_PLUGIN} /tmp", "other": f"cp {others} {NODE_PLUGIN}"}
    for state, command in both.items():
        login.ok(command)
        works, said = submits(login)
        assert works, said
        login.ok(f"sed -i s/^optional/required/ {FRAGMENT}")
        works, said = submits(login)
        assert not works, state
        assert "Failed to initialize plugin stack" in said and "Plug-in initialization failed" in said, said
        login.ok(f"sed -i s/^required/optional/ {FRAGMENT}")
    login.ok(f"mv /tmp/spank_gpushare.so {NODE_PLUGIN}")
    # It is needed where the machine's own plugstack.conf has it, and root may insist.
    login.ok("echo 'required spank_gpushare.so' >>/etc/slurm/plugstack.conf")
    refused = dpkg(login, "--remove", "gpushare-client")
    assert refused.returncode != 0
    assert (
        "gpushare-client: Slurm still needs it, and would fail: required spank_gpushare.so. First take"
        in refused.stderr
    )
    must(login.run("GPUSHARE_REMOVE=anyway dpkg --remove gpushare-client"))
    assert login.run(["test", "-e", NODE_PLUGIN]).returncode != 0


def test_a_login_node_becomes_a_compute_node_and_not_the_other_way_round(login):
    must(dpkg(login, "-i", *archives("first", "gpushare-slurmd")))
    assert states(login) == {"gpushare": "i", "gpushare-slurmd": "i"}
    assert "\nrequired spank_gpushare.so" in login.ok(["cat", FRAGMENT])
    refused = dpkg(login, "-i", *archives("first", "gpushare-client"))
    assert refused.returncode != 0 and "gpushare-slurmd conflicts with gpushare-client" in refused.stderr
    assert states(login)["gpushare-slurmd"] == "i" and "\nrequired spank_gpushare.so" in login.ok(["cat", FRAGMENT])
    must(dpkg(login, "--remove", "gpushare-slurmd"))
    must(dpkg(login, "-i", *archives("first", "gpushare-client")))
    assert "optional spank_gpushare.so" in login.ok(["cat", FRAGMENT])
