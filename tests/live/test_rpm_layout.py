# SPDX-License-Identifier: GPL-2.0-or-later
"""The .rpms beside SchedMD's packages of Slurm, with RHEL's directories, in a root that looks so to rpm and dnf."""

import re
import shutil
import subprocess

import install
import packages
import pytest
from lab import RELEASES, TOP
from packages import Slurm, slurm_of
from rhel import PLUGIN_DIR, in_rhel, slurm_packages

RELEASE = RELEASES[0]
HERE = slurm_of(RELEASE)
MICRO, NEXT = Slurm(HERE.number + 1), Slurm(HERE.number + 0x100)
FRAGMENT = "etc/slurm/plugstack.conf.d/50-gpushare.conf"
LINKS = ["etc/slurm/epilog.d/50-gpushare", "etc/slurm/prolog.d/50-gpushare"]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A directory with packages: "here" of gpushare and "slurm" for the release's Slurm;
    "micro" and "slurm-micro" for the one after it; "slurm-next" of the next release."""
    out = tmp_path_factory.mktemp("rpms")
    built = install.built(RELEASE, out / "built")
    packages.built("rpm", TOP, RELEASE, out / "here", BUILT=str(built), SLURM_PLUGIN_DIR=PLUGIN_DIR)
    packages.restamp(built, MICRO)
    packages.built(
        "rpm", TOP, RELEASE, out / "micro", BUILT=str(built), SLURM_PLUGIN_DIR=PLUGIN_DIR, SLURM_VERSION=MICRO.micro
    )
    for name, slurm in (("slurm", HERE), ("slurm-micro", MICRO), ("slurm-next", NEXT)):
        slurm_packages(out / name, slurm.micro)
    return out


def said(out, script):
    """What a script says, in which HERE/, SLURM/, SLURM_MICRO/ and so on are the directories of packages."""
    for name in ("slurm-micro", "slurm-next", "slurm", "micro", "here"):
        script = script.replace(name.upper().replace("-", "_") + "/", f"{out}/{name}/")
    return in_rhel(RELEASE, out, script)


def statuses(text):
    return [int(status) for status in re.findall(r"(?m)^=(\d+)$", text)]


def part(text, number):
    """What the line with that number said, from 0."""
    return re.split(r"(?m)^=\d+\n", text)[number].strip()


def version_for(slurm):
    """gpushare's packages' version."""
    return re.search(r'(?m)^version = "(.*)"$', (TOP / "Cargo.toml").read_text()).group(1) + f"+slurm{slurm.micro}"


CONTROLLER = "HERE/gpushare-[0-9]*.rpm HERE/gpushare-slurmctld-*.rpm"
NODE = "HERE/gpushare-[0-9]*.rpm HERE/gpushare-slurmd-*.rpm"


def test_nothing_is_installed_without_its_slurm(out):
    text = said(out, f"""
        rpm -i SLURM/rhel-*.rpm
        tree >before
        rpm -i {CONTROLLER}
        rpm -i {NODE}
        rpm -i SLURM_NEXT/slurm-*.rpm
        rpm -i {CONTROLLER}
        rpm -i {NODE}
        rpm -e slurm slurm-slurmctld slurm-slurmd
        tree | diff before -
    """)
    assert statuses(text) == [0, 0, 2, 2, 0, 2, 2, 0, 0], text
    for number in (2, 5):
        assert f"slurm-slurmctld = {HERE.micro} is needed by gpushare-slurmctld" in part(text, number)
    assert f"slurm-slurmd >= {HERE.release} is needed by gpushare-slurmd" in part(text, 3)
    assert "slurm-slurmd < " in part(text, 6)


def test_it_is_installed_beside_slurm_and_leaves_nothing(out):
    ours = f"{PLUGIN_DIR}/job_submit_gpushare.so {PLUGIN_DIR}/spank_gpushare.so"
    text = said(out, f"""
        rpm -i SLURM/*.rpm
        tree >before
        rpm -i {CONTROLLER} {NODE.split()[1]}
        rpm -V gpushare gpushare-slurmctld gpushare-slurmd slurm slurm-slurmctld slurm-slurmd
        rpm -qf --qf '%{{NAME}}\\n' {PLUGIN_DIR} /etc/slurm {ours}
        tree | diff before - | grep '^[<>].*slurm/' | grep -v /doc/
        inside 'gpushare check --all --for {HERE.micro}'
        rpm -e gpushare gpushare-slurmctld gpushare-slurmd
        tree | diff before -
    """)
    assert part(text, 3) == "" and part(text, 8) == "", text
    assert part(text, 4).split() == ["slurm", "slurm", "gpushare-slurmctld", "gpushare-slurmd"]
    folders = {f"etc/slurm/{name}" for name in ("plugstack.conf.d", "prolog.d", "epilog.d")}
    plugins = {f"usr/lib64/slurm/{name}.so" for name in install.PLUGINS}
    assert set(part(text, 5).split()) - {">"} == {FRAGMENT, *LINKS, *folders, *plugins}
    for name in ("job_submit_gpushare", "spank_gpushare"):
        assert f"{PLUGIN_DIR}/{name}.so is built for Slurm {HERE.micro}" in part(text, 6), text
    assert statuses(text) == [0] * 9, text


def test_slurm_and_gpushare_are_upgraded_together(out):
    text = said(out, f"""
        rpm -i SLURM/*.rpm {CONTROLLER} {NODE.split()[1]}
        echo '# Edited.' >>root/{FRAGMENT}
        rpm -U SLURM_MICRO/slurm-*.rpm
        rpm -U SLURM_NEXT/slurm-*.rpm
        rpm -U SLURM_MICRO/slurm-*.rpm MICRO/gpushare-[0-9]*.rpm MICRO/gpushare-slurm*.rpm
        rpm -q --qf '%{{NAME}} %{{VERSION}}\\n' slurm-slurmctld gpushare-slurmctld gpushare-slurmd
        rpm -V gpushare gpushare-slurmctld gpushare-slurmd
        tail -n 1 root/{FRAGMENT}
        rpm -U --oldpackage SLURM/slurm-*.rpm HERE/gpushare-[0-9]*.rpm HERE/gpushare-slurm*.rpm
    """)
    assert f"slurm-slurmctld = {HERE.micro} is needed by (installed) gpushare-slurmctld" in part(text, 2)
    assert "slurm-slurmd < " in part(text, 3) and "is needed by (installed) gpushare-slurmd" in part(text, 3)
    version = version_for(MICRO)
    assert part(text, 5).splitlines() == [
        f"slurm-slurmctld {MICRO.micro}", f"gpushare-slurmctld {version}", f"gpushare-slurmd {version}",
    ]
    assert part(text, 6) == "" and part(text, 7) == "# Edited."
    assert [bool(status) for status in statuses(text)] == [
        False, False, True, True, False, False, False, False, False,
    ], text


def test_a_login_node_is_no_compute_node(out):
    text = said(out, f"""
        rpm -i SLURM/rhel-*.rpm SLURM/slurm-{HERE.micro}.rpm HERE/gpushare-[0-9]*.rpm HERE/gpushare-client-*.rpm
        grep -c '^optional spank_gpushare.so' root/{FRAGMENT}
        rpm -i SLURM/slurm-slurmd-*.rpm
        rpm -i HERE/gpushare-slurmd-*.rpm
        rpm -e gpushare-client
        rpm -i HERE/gpushare-slurmd-*.rpm
        grep -c '^required spank_gpushare.so' root/{FRAGMENT}
        rpm -i HERE/gpushare-client-*.rpm
    """)
    assert "gpushare-client conflicts with" in part(text, 3) or "conflicts with gpushare-client" in part(text, 3), text
    assert part(text, 1) == part(text, 6) == "1", text
    assert "conflicts with" in part(text, 7), text
    assert [bool(status) for status in statuses(text)] == [False, False, False, True, False, False, False, True], text


# A program with slurmctld's name that has in memory what slurmctld would have: four lines.
RUNNING = r"""cp root/bin/sleep root/tmp/slurmctld
        cp root/lib/x86_64-linux-gnu/libm.so.6 root/tmp/job_submit_gpushare.so
        chroot root env LD_PRELOAD=/tmp/job_submit_gpushare.so /tmp/slurmctld 1000 >/dev/null 2>&1 & true
        for try in {1..500}; do grep -qs job_submit root/proc/[0-9]*/maps && break; sleep 0.01; done"""


def test_what_runs_keeps_its_package(out):
    text = said(out, f"""
        rpm -i SLURM/*.rpm {CONTROLLER}
        {RUNNING}
        rpm -e gpushare-slurmctld gpushare
        rpm -V gpushare-slurmctld gpushare
        rpm -U --replacepkgs HERE/gpushare-slurmctld-*.rpm
        GPUSHARE_REMOVE=anyway rpm -e gpushare-slurmctld gpushare
    """)
    assert "gpushare-slurmctld: Slurm still needs it, and would fail: slurmctld (process " in part(text, 5), text
    # rpm goes on with the other package.
    assert "gpushare: Slurm still needs it" in part(text, 5), text
    assert [bool(status) for status in statuses(text)] == [False] * 5 + [True, False, False, False], text


def repository(folder, *sources):
    """The options with which dnf takes the packages of some directories, and no others."""
    folder.mkdir()
    for source in sources:
        for package in source.glob("*.rpm"):
            shutil.copy(package, folder)
    subprocess.run(["createrepo_c", "--quiet", folder], check=True, capture_output=True)
    return f"--repofrompath {folder.name},file://{folder}"


@pytest.fixture
def dnf(out, tmp_path):
    """For repositories with both; with a newer Slurm; and with gpushare for that, too:
    the words with which dnf uses it."""
    if shutil.which("dnf") is None or shutil.which("createrepo_c") is None:
        pytest.skip("NOT TESTED: dnf, which is not installed, or createrepo_c")
    here = repository(tmp_path / "here", out / "slurm", out / "here")
    alone = repository(tmp_path / "alone", out / "slurm-micro")
    both = repository(tmp_path / "both", out / "slurm-micro", out / "micro")
    return [f"dnf {options}" for options in (here, alone, both)]


def test_dnf_upgrades_slurm_and_gpushare_together(out, dnf):
    here, alone, both = dnf
    query = "rpm -q --qf '%{NAME} %{VERSION}\\n' slurm-slurmctld gpushare-slurmctld"
    text = said(out, f"""
        {here} install rhel gpushare-slurmctld gpushare-slurmd
        {query}
        {alone} upgrade
        {query}
        {both} upgrade
        {query}
    """)
    before, after = (
        [f"slurm-slurmctld {slurm.micro}", f"gpushare-slurmctld {version_for(slurm)}"] for slurm in (HERE, MICRO)
    )
    assert [part(text, number).splitlines() for number in (1, 3, 5)] == [before, before, after], text


def test_dnf_makes_a_login_node_a_compute_node_if_it_may_erase(out, dnf):
    text = said(out, f"""
        {dnf[0]} install rhel gpushare-client
        {dnf[0]} install gpushare-slurmd
        {dnf[0]} --allowerasing install gpushare-slurmd
        rpm -qa --qf '%{{NAME}}\\n' 'gpushare*'
        grep -c '^required spank_gpushare.so' root/{FRAGMENT}
    """)
    assert "conflicts with gpushare-client" in part(text, 1)
    assert set(part(text, 3).split()) == {"gpushare", "gpushare-slurmd"} and part(text, 4) == "1", text
    assert statuses(text) == [0, 1, 0, 0, 0], text


def test_dnf_removes_no_package_that_slurm_needs(out, dnf):
    text = said(out, f"""
        {dnf[0]} install rhel slurm slurm-slurmctld
        {dnf[0]} install gpushare-slurmctld
        {RUNNING}
        {dnf[0]} remove gpushare-slurmctld gpushare
        rpm -V slurm slurm-slurmctld gpushare gpushare-slurmctld
        GPUSHARE_REMOVE=anyway {dnf[0]} remove gpushare-slurmctld gpushare
        rpm -qa --qf '%{{NAME}}\\n'
    """)
    assert "Error in PREUN scriptlet in rpm package gpushare-slurmctld" in part(text, 6), text
    assert part(text, 7) == "" and set(part(text, 9).split()) == {"rhel", "slurm", "slurm-slurmctld"}, text
    assert statuses(text) == [0] * 6 + [1, 0, 0, 0], text
