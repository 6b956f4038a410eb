# SPDX-License-Identifier: GPL-2.0-or-later
"""The life of packages on a running cluster, with a real systemd and Debian's own slurmctld.service: installed,
switched on, upgraded, downgraded, refused, removed, purged; jobs run all along, and the timer for metrics is on. And a
login node, with a plugin that is missing or another release's."""

import re

import install
import packages
import pytest
from gpus import OPEN, opened
from installed import ALL, FILES, REFUSED, SHARE, could_open, could_open_in, healthy, no_step_is_left, plugin_in_memory
from lab import EXAMPLES

# dpkg takes them in this order: it refuses `gpushare` while another version of a part is there.
PARTS = ["gpushare-slurmctld", "gpushare-slurmd", "gpushare"]
WHOLE = "--gres=gpushare:80"

EXTRA = "/etc/slurm/extra.conf"
RULES = "/etc/slurm/gpushare.conf"
FRAGMENT = "/etc/slurm/plugstack.conf.d/50-gpushare.conf"
LINKS = ["/etc/slurm/prolog.d/50-gpushare", "/etc/slurm/epilog.d/50-gpushare"]
OUT = "/lab/out"
FOLDERS = "find /usr /etc -type d | LC_ALL=C sort"
PLUGIN = packages.PLUGIN_DIR
TIMER, FIGURES = "gpushare-metrics.timer", "/var/lib/prometheus/node-exporter/gpushare.prom"
# What timer() says of that of the first version and of the second.
OFF, ON = ("disabled", "inactive", "1min", "30s"), ("enabled", "active", "1min", "30s")
ON_SECOND = ("enabled", "active", "2min", "45s")
STATE = "/var/lib/slurm/slurmctld"
COUNTS, LAST_GOOD = f"{STATE}/gpushare.counts", f"{STATE}/gpushare_last_good"
# Anywhere but in this test's own directory; /run is a file system of its own.
OURS = "find / /run -xdev -name '*gpushare*' ! -path '/lab/*' | LC_ALL=C sort"
NODE_PLUGIN = f"{PLUGIN}/spank_gpushare.so"


@pytest.fixture(scope="module")
def cluster(packaged):
    """With nothing of gpushare, and packages in /lab/out, each kind in a directory: "first", and "second", which is a
    later version of gpushare with other builds and another unit; "micro" and "release" are for another Slurm. Built in
    the box. slurmctld runs in Debian's unit."""
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
            for unit, now, then in (("service", "TimeoutStartSec=30", "45"), ("timer", "OnUnitActiveSec=1min", "2min")):
                path = folder / f"packaging/gpushare-metrics.{unit}"
                key = now.split("=")[0]
                assert now in path.read_text()
                path.write_text(path.read_text().replace(now, f"{key}={then}"))
        if name in ("micro", "release"):
            slurm = packages.Slurm(here.number + (1 if name == "micro" else 0x100))
            packages.restamp(built, slurm)
        packages.number(folder, version)
        environment = [f"{name}={value}" for name, value in packages.QUICKLY.items()]
        environment += [f"SLURM_VERSION={slurm.micro}"] if slurm != here else []
        build = ["bash", f"{OUT}/{name}/sources/packaging/deb/build"]
        said = packaged.ok(["env", *environment, f"PACKAGES={OUT}/{name}", *build], timeout=300)
        assert f"_{version}+slurm{slurm.micro}-1_" in said
    packaged.ok(f"rm {RULES}; cd /etc/slurm && mkdir prolog.d epilog.d && ln -s /bin/true prolog.d/10-site")
    packaged.ok(f"ln -s /bin/true /etc/slurm/epilog.d/10-site; mkdir -p {FIGURES.rsplit('/', 1)[0]}")
    # Debian's unit wants the network, which the box has no way to set up.
    packaged.ok("systemctl mask --now systemd-networkd.{service,socket} systemd-networkd-wait-online.service")
    packaged.ok("/lab/service stop slurmctld && systemctl start slurmctld", timeout=60)
    assert healthy(packaged)
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
    if daemon == "slurmd":
        cluster.ok(f"/lab/service restart {daemon}", timeout=60)
    else:
        cluster.ok(f"systemctl restart {daemon}", timeout=60)
        cluster.wait(lambda: "is UP" in cluster.run("scontrol ping").stdout, "slurmctld")
        assert healthy(cluster)


def timer(cluster):
    """Whether the timer is enabled and runs, and how often, and how long its service may take; nothing may have
    failed."""
    assert cluster.ok("systemctl --failed --plain --no-legend") == ""
    fields = ["UnitFileState", "ActiveState", "NeedDaemonReload"]
    said = cluster.ok(["systemctl", "show", TIMER, *(f"--property={field}" for field in fields)])
    found = dict(line.split("=", 1) for line in said.splitlines())
    assert found["NeedDaemonReload"] == "no"
    timeout = cluster.ok("systemctl show gpushare-metrics.service --property TimeoutStartUSec --value")
    every = re.findall(r"OnUnitActiveUSec=(\w+)", cluster.ok(f"systemctl show {TIMER} --property TimersMonotonic"))
    return found["UnitFileState"], found["ActiveState"], *every, timeout


def writes_figures(cluster):
    """After its file was taken away."""
    cluster.ok(f"rm -f {FIGURES}; systemctl start gpushare-metrics.service")
    return "gpushare_up 1" in cluster.ok(["cat", FIGURES])


def identities(cluster):
    """What files are, so that one that was written anew differs."""
    return cluster.ok(
        f"stat -c '%n %i %Y %s' {PLUGIN}/*gpushare* /usr/sbin/gpushare-* /usr/bin/gpushare {RULES} {FRAGMENT}"
    )


def test_packages_from_beginning_to_end(cluster):
    assert could_open(cluster) == [ALL] and healthy(cluster)
    files, folders, ours = cluster.ok(FILES), cluster.ok(FOLDERS), cluster.ok(OURS)
    assert timer(cluster)[:2] == ("", "inactive")
    old_job = cluster.sbatch(script=f"until [ -e {OUT}/go ]; do sleep 0.1; done; {OPEN}")
    cluster.wait_state(old_job, "RUNNING")

    # Installed, and nothing has changed for jobs; dpkg finds each file as it is in the package.
    must(dpkg(cluster, "-i", *archives("first", "gpushare", "gpushare-slurmctld", "gpushare-slurmd")))
    assert must(dpkg(cluster, "--verify", *states(cluster))) == ""
    assert could_open(cluster) == [ALL]
    assert timer(cluster) == OFF
    cluster.ok(["systemctl", "preset", TIMER])
    assert timer(cluster) == OFF, "an image's presets switch it on"
    assert cluster.run(["test", "-e", RULES]).returncode != 0
    assert cluster.ok(["cat", FRAGMENT]).splitlines().count("required spank_gpushare.so") == 1
    linked = [cluster.ok(["readlink", link]) for link in LINKS]
    assert linked == ["/usr/sbin/gpushare-prolog", "/usr/sbin/gpushare-epilog"]
    cluster.ok(f"touch {OUT}/go")
    assert cluster.finished(old_job) == "COMPLETED" and opened(cluster.output(old_job)) == [ALL]
    assert healthy(cluster)

    # Switched on.
    cluster.ok(f"cat >{RULES}", stdin=(EXAMPLES / "own/gpushare.conf").read_text() + f"RefusalCounts={COUNTS}\n")
    cluster.ok(f"echo JobSubmitPlugins=gpushare >>{EXTRA}")
    restart(cluster)
    cluster.ok(["systemctl", "enable", "--now", TIMER])
    assert timer(cluster) == ON and writes_figures(cluster)
    assert could_open(cluster) == [set()]
    assert len(could_open(cluster, SHARE)[0]) == 1
    refused = cluster.run(REFUSED, "alice")
    assert refused.returncode != 0 and ("GS122" in refused.stderr or cluster.release == "22.05")
    restart(cluster, "slurmd")
    check = cluster.run(["gpushare", "check", "--all"])
    assert check.returncode == 0, check.stdout

    # A later version, while a share and a whole GPU are in use and slurmctld has the plugin in memory.
    rules = cluster.ok(f"stat -c '%i %z' {RULES}; cat {RULES}")
    job, whole = (cluster.sbatch(units, script=f"sleep 1000 & wait; {OPEN}") for units in (SHARE, WHOLE))
    for one in (job, whole):
        cluster.wait_state(one, "RUNNING")
    (fenced,), (all_of_it,) = could_open_in(cluster, job), could_open_in(cluster, whole)
    assert len(fenced) == len(all_of_it) == 1 and fenced != all_of_it
    pid, lines = plugin_in_memory(cluster)
    assert lines and not any("(deleted)" in line for line in lines)
    before = cluster.ok(f"stat -c '%n %i' {PLUGIN}/*gpushare*").splitlines()
    cluster.ok(f"echo '# Edited here.' >>{FRAGMENT}; rm {LINKS[1]}; ln -s /usr/sbin/gpushare-epilog {LINKS[1]}-site")
    said = must(dpkg(cluster, "-i", *archives("second", *PARTS)))
    assert "gpushare-slurmctld: slurmctld keeps the plugin that it has loaded until you restart it" in said
    after = cluster.ok(f"stat -c '%n %i' {PLUGIN}/*gpushare*").splitlines()
    assert len(after) == 3 and not set(before) & set(after), "files are replaced, not written into"
    again, lines = plugin_in_memory(cluster)
    assert again == pid and lines and all("(deleted)" in line for line in lines)
    assert go_on(cluster, {job: fenced, whole: all_of_it})
    # The timer goes on, with the new unit; and the administrator's file is as it was.
    assert timer(cluster) == ON_SECOND and writes_figures(cluster)
    assert cluster.ok(f"stat -c '%i %z' {RULES}; cat {RULES}") == rules
    assert "# Edited here." in cluster.ok(["cat", FRAGMENT])
    assert cluster.run(["test", "-L", LINKS[1]]).returncode != 0, "a link that was taken away comes back"
    cluster.ok(f"mv {LINKS[1]}-site {LINKS[1]}")

    # Parts of two versions are refused, and back is as forward.
    refused = dpkg(cluster, "-i", *archives("first", "gpushare"))
    assert refused.returncode != 0 and "gpushare breaks gpushare-slurm" in refused.stderr, refused.stderr
    assert must(dpkg(cluster, "--verify", *states(cluster))) == "" and timer(cluster) == ON_SECOND
    must(dpkg(cluster, "-i", *archives("first", *PARTS)))
    assert timer(cluster) == ON and writes_figures(cluster)
    assert go_on(cluster, {job: fenced, whole: all_of_it})
    must(dpkg(cluster, "-i", *archives("second", *PARTS)))
    assert go_on(cluster, {job: fenced, whole: all_of_it}) and timer(cluster) == ON_SECOND

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
    needed = r"gpushare-slurmd: Slurm still needs it, and would fail: running jobs with GPUs \((.*?)\); running steps "
    assert set(re.search(needed, refused.stderr).group(1).split()) == {job, whole}, refused.stderr
    refused = dpkg(cluster, "--purge", "gpushare", "gpushare-slurmctld")
    assert refused.returncode != 0
    assert "gpushare-slurmctld: Slurm still needs it, and would fail: slurmctld (process " in refused.stderr
    assert identities(cluster) == there and set(states(cluster).values()) == {"i"}
    assert go_on(cluster, {job: fenced, whole: all_of_it}) and timer(cluster) == ON_SECOND
    cluster.cancel_all()
    cluster.wait_no_shares()
    assert no_step_is_left(cluster)
    cluster.ok("mv /etc/slurm/prolog.d/10-site /tmp")
    refused = dpkg(cluster, "--remove", "gpushare-slurmd")
    assert refused.returncode != 0 and ") runs /etc/slurm/prolog.d/*. First take" in refused.stderr
    cluster.ok("mv /tmp/10-site /etc/slurm/prolog.d")
    restart(cluster)
    assert cluster.run(REFUSED, "alice").returncode != 0 and healthy(cluster)

    # Switched off and removed, with the timer on: no old numbers stay for node_exporter. slurmctld's state stays until
    # it is purged; what the administrator wrote stays.
    cluster.ok(f"sed -i /JobSubmitPlugins/d {EXTRA}")
    restart(cluster)
    assert writes_figures(cluster)
    must(dpkg(cluster, "--remove", "gpushare", "gpushare-slurmctld", "gpushare-slurmd"))
    assert timer(cluster)[:2] == ("", "inactive")
    assert states(cluster) == {"gpushare": "c", "gpushare-slurmctld": "c"}
    assert cluster.ok(FILES).splitlines() == sorted([*files.splitlines(), RULES])
    found = set(cluster.ok(OURS).splitlines()) - set(ours.splitlines())
    lists = {f"/var/lib/dpkg/info/{name}.{kind}" for name in states(cluster) for kind in ("list", "postrm")}
    assert found == {RULES, COUNTS, LAST_GOOD, *lists}
    assert could_open(cluster) == [ALL] and healthy(cluster)
    job = cluster.sbatch(script=f"until [ -e {OUT}/purged ]; do sleep 0.1; done; {OPEN}")
    cluster.wait_state(job, "RUNNING")
    must(dpkg(cluster, "--purge", "gpushare", "gpushare-slurmctld"))
    assert timer(cluster)[:2] == ("", "inactive") and states(cluster) == {}
    assert cluster.ok(f"cat {RULES}") == rules.split("\n", 1)[1]
    cluster.ok(["rm", RULES])
    assert (cluster.ok(FILES), cluster.ok(OURS)) == (files, ours)
    # The root lacks directories that are other packages'.
    for folder in set(cluster.ok(FOLDERS).splitlines()) - set(folders.splitlines()):
        assert cluster.run(["dpkg-query", "-S", folder]).returncode == 0, folder
    cluster.ok(f"touch {OUT}/purged")
    assert cluster.finished(job) == "COMPLETED" and opened(cluster.output(job)) == [ALL]
    restart(cluster)
    restart(cluster, "slurmd")
    assert could_open(cluster) == [ALL] and healthy(cluster)


def go_on(cluster, jobs):
    """Jobs go on with their GPUs, requests are checked, and a new share is placed."""
    for job, gpus in jobs.items():
        assert cluster.state(job) == "RUNNING" and could_open_in(cluster, job) == [gpus]
    assert {row["job"] for row in cluster.shares()} == set(jobs)
    assert cluster.run(REFUSED, "alice").returncode != 0
    assert len(could_open(cluster, SHARE)[0]) == 1
    return True


@pytest.fixture
def controller(cluster):
    """With the controller's packages, switched on, and without them at the end."""
    must(dpkg(cluster, "-i", *archives("first", "gpushare-slurmctld", "gpushare")))
    cluster.ok(f"echo RefusalCounts={COUNTS} >{RULES}; cp {EXTRA} /tmp; echo JobSubmitPlugins=gpushare >>{EXTRA}")
    restart(cluster)
    # The first request shows that this controller is in control.
    cluster.ok("sbatch --test-only --wrap true", "alice")
    cluster.ok(f"ls {LAST_GOOD} {COUNTS}")
    yield cluster
    cluster.ok(f"cp /tmp/extra.conf {EXTRA}; rm -f {RULES} {COUNTS} {LAST_GOOD}; systemctl start slurmctld", timeout=60)
    restart(cluster)
    must(dpkg(cluster, "--purge", *packages.NAMES))


def test_a_purge_leaves_what_a_controller_still_uses(controller):
    """Controllers share StateSaveLocation: the one in control is asked, here or elsewhere."""
    said = must(controller.run("GPUSHARE_REMOVE=anyway dpkg --purge gpushare-slurmctld"))
    assert f"gpushare: a controller still uses gpushare: {LAST_GOOD} stays\n" in said, said
    controller.ok(f"ls {LAST_GOOD} {COUNTS}")


def test_a_purge_leaves_what_nobody_can_say_who_uses(controller):
    controller.ok("systemctl stop slurmctld", timeout=60)
    said = must(dpkg(controller, "--purge", "gpushare-slurmctld"))
    assert "gpushare: slurmctld doesn't answer: gpushare_last_good stays in its StateSaveLocation\n" in said, said
    controller.ok(f"ls {LAST_GOOD} {COUNTS}")


def test_figures_that_go_to_another_folder_go_too(controller):
    """As docs/metrics.md changes the unit."""
    folder, dropped = "/var/lib/prometheus/elsewhere", "/etc/systemd/system/gpushare-metrics.service.d"
    controller.ok(f"mkdir -p {folder} {dropped}")
    command = f"/usr/bin/gpushare metrics --out {folder}/gpushare.prom"
    lines = ["[Service]", "ExecStart=", f"ExecStart={command}", f"ReadWritePaths={folder}", ""]
    controller.write(f"{dropped}/override.conf", "\n".join(lines))
    controller.ok(f"systemctl daemon-reload; systemctl enable --now {TIMER}; systemctl start gpushare-metrics.service")
    controller.ok(f"touch {folder}/others.prom; ls {folder}/gpushare.prom")
    must(controller.run("GPUSHARE_REMOVE=anyway dpkg --purge gpushare-slurmctld gpushare"))
    try:
        assert controller.ok(["ls", "-A", folder]) == "others.prom" and timer(controller)[1] == "inactive"
        # The administrator's, who may install it again.
        controller.ok(f"ls {dropped}/override.conf")
    finally:
        controller.ok(f"rm -r {folder} {dropped}; systemctl daemon-reload")


def test_make_install_does_the_same_for_the_timer(cluster):
    files, ours = cluster.ok(FILES), cluster.ok(OURS)
    cluster.ok(f"bash {OUT}/first/sources/packaging/install")
    assert timer(cluster) == OFF
    cluster.ok(["systemctl", "enable", "--now", TIMER])
    assert timer(cluster) == ON and writes_figures(cluster)
    cluster.ok(f"bash {OUT}/second/sources/packaging/install")
    assert timer(cluster) == ON_SECOND and writes_figures(cluster)
    cluster.ok(f"mkdir -p /run/gpushare; bash {OUT}/second/sources/packaging/install --uninstall")
    assert timer(cluster)[:2] == ("", "inactive")
    assert (cluster.ok(FILES), cluster.ok(OURS)) == (files, ours)


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
