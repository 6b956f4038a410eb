# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare check` says "ok" of each example as it stands, and names what is wrong of copies that were broken."""

import json
import shutil

import pytest
from lab import BUILDS, RELEASES

EXTRA = "/etc/slurm/extra.conf"
RULES = "/etc/slurm/gpushare.conf"
RESTART = "/lab/service restart slurmctld"

# What is broken, how, and the keys that are named for it.
BROKEN = {
    "a rule that is none": (f"echo Placemnt=own >>{RULES}", {"gpushare.conf"}),
    "rules that others can change": (f"chmod o+w {RULES}", {"gpushare.conf"}),
    "an optional fence": ("sed -i s/required/optional/ /etc/slurm/plugstack.conf", {"plugstack.conf"}),
    "no fence": (": >/etc/slurm/plugstack.conf", {"plugstack.conf"}),
    "another unit": (f"sed -i s/UnitsPerGpu=.*/UnitsPerGpu=80/ {RULES}", {"UnitsPerGpu"}),
    "another placement": (f"sed -i s/Placement=.*/Placement=own/ {RULES}", {"Placement"}),
    "a GPU that is not there": (f"echo GpuFile=/dev/nvidia[0-4] >>{RULES}", {"GpuFile", "UnitsPerGpu"}),
    "a ledger for everybody": ("mkdir -p /run/gpushare && chmod 777 /run/gpushare", {"ledger"}),
    "no MPS program": (f"printf 'Mps=per-user\\nMpsControl=/no/such\\n' >>{RULES}", {"Mps"}),
    "another order of plugins": (
        f"sed -i s/JobSubmitPlugins=.*/JobSubmitPlugins=gpushare,all_partitions/ {EXTRA} && {RESTART}", {"JobSubmitPlugins"}
    ),
    "no plugin": (f"sed -i /JobSubmitPlugins/d {EXTRA} && {RESTART}", {"JobSubmitPlugins"}),
    "a prolog that is not there": ("chmod 644 /usr/sbin/gpushare-prolog", {"Prolog"}),
    "no prolog": (f"sed -i /Prolog=/d {EXTRA} && {RESTART}", {"Prolog"}),
    "no step for ssh": (f"sed -i s/PrologFlags=.*/PrologFlags=Alloc/ {EXTRA} && {RESTART}", {"PrologFlags"}),
    "limits that nobody enforces": (f"echo AccountingStorageEnforce=associations >>{EXTRA} && {RESTART}", {"AccountingStorageEnforce"}),
    "a QOS that preempts in vain": ("sacctmgr -i modify qos qos_lafferty set preempt=normal", {"PreemptType", "PreemptMode"}),
    "a priority in vain": ("sacctmgr -i modify qos qos_lafferty set priority=7", {"PriorityWeightQOS"}),
}
MEND = (
    "cp -a /lab/out/slurm/. /etc/slurm/ && chmod 755 /run/gpushare /usr/sbin/gpushare-prolog;"
    "sacctmgr -i modify qos qos_lafferty set preempt= priority=0 >/dev/null; " + RESTART
)


def check(cluster):
    """{key: finding} and the exit status; the lines for people must have the same keys."""
    result = cluster.run(["gpushare", "check", "--json"])
    assert result.returncode in (0, 1), result.stderr
    findings = json.loads(result.stdout)["findings"]
    lines = cluster.run(["gpushare", "check"])
    assert lines.returncode == result.returncode
    assert all(finding["about"] in lines.stdout for finding in findings), lines.stdout
    return {finding["about"]: finding for finding in findings}, result.returncode


def wrong(findings):
    return {about for about, finding in findings.items() if finding["status"] == "wrong"}


def test_an_example_is_all_right(checked):
    findings, status = check(checked)
    assert wrong(findings) == set() and status == 0, findings
    assert {"JobSubmitPlugins", "Placement", "GpuFile", "spank_gpushare.so", "job_submit_gpushare.so"} <= set(findings)


def test_the_example_with_daemons_is_all_right(mps):
    findings, status = check(mps)
    assert wrong(findings) == set() and status == 0 and findings["Mps"]["status"] == "ok", findings


def test_an_example_with_shares_is_all_right_when_they_are_applied(checked_shares):
    findings, status = check(checked_shares)
    if checked_shares.kind not in ("contributors", "fairshare"):
        assert wrong(findings) == {"QOS"} and status == 1, findings
        assert "gpushare qos apply" in findings["QOS"]["fix"]
        checked_shares.ok(["gpushare", "qos", "apply", "-i"])
        findings, status = check(checked_shares)
        assert findings["QOS"]["status"] == "ok"
    assert wrong(findings) == set() and status == 0, findings


# What is broken of the cluster with shares of three types, and what is named for it.
BROKEN_SHARES = {
    "a type that nobody counts": ("sed -i 's|,gres/gpu:h100||' {EXTRA} && {RESTART}", {"AccountingStorageTRES", "QOS"}),
    "a share that was changed by hand": ("sacctmgr -i modify qos qos_dijk set GrpTRES=gres/gpu:h100=12", {"QOS"}),
    "a type that no node has": ("sed -i s/GPUs=a40:12/GPUs=v100:12/ {RULES}", {"QOS", "AccountingStorageTRES"}),
    "memory that nobody counts": ("sed -i s/_Memory// {EXTRA} && {RESTART}", {"SelectTypeParameters"}),
    "preempted jobs that are lost": ("sed -i s/JobRequeue=1/JobRequeue=0/ {EXTRA} && {RESTART}", {"JobRequeue"}),
    "weights that nobody counts": (
        "echo GpuWeight=a40:1,h100:8 >>{RULES}", {"PriorityWeightFairshare", "TRESBillingWeights"}
    ),
}


@pytest.fixture
def applied(misha_check):
    """The same cluster, with its shares in the database before and after."""
    misha_check.ok("mkdir -p /lab/out/slurm && cp -a /etc/slurm/. /lab/out/slurm/ && gpushare qos apply -i")
    yield misha_check
    misha_check.ok("cp -a /lab/out/slurm/. /etc/slurm/; " + RESTART + " && gpushare qos apply -i")
    assert wrong(check(misha_check)[0]) == set()


@pytest.mark.parametrize("fault", BROKEN_SHARES)
def test_what_is_broken_about_shares_is_named_and_nothing_else(applied, fault):
    how, named = BROKEN_SHARES[fault]
    applied.ok(how.format(EXTRA=EXTRA, RULES=RULES, RESTART=RESTART))
    findings, status = check(applied)
    assert wrong(findings) == named and status == 1, findings
    assert all(findings[about]["fix"] for about in named)


@pytest.fixture
def whole(check_broken):
    """A cluster that is right before and after; its configuration is kept beside it meanwhile."""
    check_broken.ok("mkdir -p /lab/out/slurm && cp -a /etc/slurm/. /lab/out/slurm/")
    yield check_broken
    check_broken.ok(MEND)
    assert wrong(check(check_broken)[0]) == set()


@pytest.mark.parametrize("fault", BROKEN)
def test_what_is_broken_is_named_and_nothing_else(whole, fault):
    how, named = BROKEN[fault]
    if "PriorityWeightQOS" in named and not whole.newer_than("23.02"):
        named = named | {"PriorityType"}  # priority/basic was the default
    whole.ok(how)
    findings, status = check(whole)
    assert wrong(findings) == named and status == 1, findings
    assert all(findings[about]["fix"] for about in named)


PLUGINS = ("job_submit_gpushare.so", "spank_gpushare.so")


def test_a_plugin_of_another_version_is_named(whole):
    other = next(release for release in RELEASES if release != whole.release)
    folder = whole.ok("scontrol show config | sed -n 's/^PluginDir *= //p'")
    for plugin in PLUGINS:
        shutil.copy(BUILDS / other / plugin, whole.out / plugin)
        # By rename: the daemons have the old one open.
        whole.ok(f"cp -a {folder}/{plugin} /lab/out/{plugin}.old && cp /lab/out/{plugin} {folder}/new && mv {folder}/new {folder}/{plugin}")
    try:
        findings, _ = check(whole)
        assert wrong(findings) == set(PLUGINS), findings
        assert f"built for Slurm {other}" in findings["spank_gpushare.so"]["said"], findings
    finally:
        for plugin in PLUGINS:
            whole.ok(f"cp -a /lab/out/{plugin}.old {folder}/new && mv {folder}/new {folder}/{plugin}")


def test_without_slurm_it_says_so(whole):
    result = whole.run("SLURM_CONF=/nonexistent gpushare check")
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and "scontrol" in result.stderr, result
    # Without a slurm.conf scontrol looks for one in the network for longer than that.
    assert "did not answer" in result.stderr or "failed" in result.stderr, result
