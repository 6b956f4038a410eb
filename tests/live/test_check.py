# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare check` says "ok" of each example as it stands, and names what is wrong of copies that were broken."""

import json
import shutil

import pytest
from lab import BUILDS, RELEASES

EXTRA = "/etc/slurm/extra.conf"
RULES = "/etc/slurm/gpushare.conf"
# slurmd too: one that is older than its files is wrong.
RESTART = "/lab/service restart slurmctld && /lab/service restart slurmd"

UPDATE = "scontrol update nodename=$(hostname -s)"

# What is broken, how, and the keys that are named for it.
BROKEN = {
    "a rule that is none": (f"echo Placemnt=own >>{RULES}", {"gpushare.conf", "slurmctld's rules"}),
    "rules that others can change": (f"chmod o+w {RULES}", {"gpushare.conf"}),
    "an optional fence": ("sed -i s/required/optional/ /etc/slurm/plugstack.conf", {"plugstack.conf"}),
    "no fence": (": >/etc/slurm/plugstack.conf", {"plugstack.conf"}),
    "another unit": (f"sed -i s/UnitsPerGpu=.*/UnitsPerGpu=80/ {RULES}", {"UnitsPerGpu"}),
    "another placement": (f"sed -i s/Placement=.*/Placement=own/ {RULES}", {"Placement"}),
    "a GPU that is not there": (f"echo GpuFile=/dev/nvidia[0-4] >>{RULES}", {"GpuFile", "UnitsPerGpu"}),
    "a ledger for everybody": ("mkdir -p /run/gpushare && chmod 777 /run/gpushare", {"ledger"}),
    "no MPS program": (f"printf 'Mps=per-user\\nMpsControl=/no/such\\n' >>{RULES}", {"Mps"}),
    "another order of plugins": (
        f"sed -i s/JobSubmitPlugins=.*/JobSubmitPlugins=gpushare,all_partitions/ {EXTRA} && {RESTART}",
        {"JobSubmitPlugins"},
    ),
    "no plugin": (f"sed -i /JobSubmitPlugins/d {EXTRA} && {RESTART}", {"JobSubmitPlugins"}),
    "a prolog that is not there": ("chmod 644 /usr/sbin/gpushare-prolog", {"Prolog"}),
    "no prolog": (f"sed -i /Prolog=/d {EXTRA} && {RESTART}", {"Prolog"}),
    "no step for ssh": (f"sed -i s/PrologFlags=.*/PrologFlags=Alloc/ {EXTRA} && {RESTART}", {"PrologFlags"}),
    "limits that nobody enforces": (
        f"echo AccountingStorageEnforce=associations >>{EXTRA} && {RESTART}",
        {"AccountingStorageEnforce"},
    ),
    "no fence of Slurm's by this node's own file": (
        "sed -i /ConstrainDevices/d /etc/slurm/cgroup.conf && /lab/service restart slurmd",
        {"ConstrainDevices"},
    ),
    "shares on one GPU at a time": (
        "sed -i 's/ Flags=all_sharing//' /etc/slurm/gres.conf && /lab/service restart slurmd",
        {"gres.conf"},
    ),
    "a slurmd that is stopped": ("/lab/service stop slurmd", {"slurmd"}),
    "a node that takes no jobs": (f"{UPDATE} state=drain reason='GPU 2 is hot'", {"node"}),
    "a QOS that preempts in vain": (
        "sacctmgr -i modify qos qos_lafferty set preempt=normal",
        {"PreemptType", "PreemptMode"},
    ),
    "a priority in vain": ("sacctmgr -i modify qos qos_lafferty set priority=7", {"PriorityWeightQOS"}),
}
MEND = (
    "cp -a /lab/out/slurm/. /etc/slurm/ && chmod 755 /run/gpushare /usr/sbin/gpushare-prolog;"
    f"sacctmgr -i modify qos qos_lafferty set preempt= priority=0 >/dev/null; {UPDATE} state=resume; {RESTART}"
)


def check(cluster):
    """{key: finding} and the exit status; the lines for people must have the same keys."""
    result = cluster.run(["gpushare", "check", "--json"])
    assert result.returncode in (0, 1), result.stderr
    findings = json.loads(result.stdout)["findings"]
    lines = cluster.run(["gpushare", "check", "--all"])
    assert lines.returncode == result.returncode
    assert all(finding["about"] in lines.stdout for finding in findings), lines.stdout
    return {finding["about"]: finding for finding in findings}, result.returncode


def one(cluster, about):
    """The one finding about something."""
    found, = cluster.findings(about)
    return found


def cgroups(cluster):
    """What checks have left of their own."""
    return cluster.ok("find /sys/fs/cgroup -maxdepth 2 -name 'gpushare-check-*'")


def wrong(findings):
    return {about for about, finding in findings.items() if finding["status"] == "wrong"}


def test_an_example_is_all_right(checked):
    findings, status = check(checked)
    assert wrong(findings) == set() and status == 0, findings
    assert {"JobSubmitPlugins", "Placement", "GpuFile", "spank_gpushare.so", "job_submit_gpushare.so"} <= set(findings)
    said = findings["fence"]["said"]
    assert said.startswith("a test process with a share could open 1 of 4 GPUs"), findings["fence"]
    assert cgroups(checked) == ""


def test_the_example_with_daemons_is_all_right(mps):
    findings, status = check(mps)
    assert wrong(findings) == set() and status == 0 and findings["Mps"]["status"] == "ok", findings
    fence = findings["fence"]
    assert fence["status"] == "ok" and f"cgroup {mps.cgroup}" in fence["said"], fence
    assert cgroups(mps) == ""


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
    "GPUs that nobody counts": (
        "sed -i 's/^SelectTypeParameters=.*/SelectTypeParameters=CR_Memory/' {EXTRA} && "
        "echo SelectType=select/linear >>{EXTRA} && {RESTART}", {"SelectType"}
    ),
    "preempted jobs that are lost": ("sed -i s/JobRequeue=1/JobRequeue=0/ {EXTRA} && {RESTART}", {"JobRequeue"}),
    "a misspelt QOS": ("sed -i 's/^GovernedQOS=.*/GovernedQOS=qos_*,djik/' {RULES}", {"GovernedQOS"}),
    "a misspelt partition": ("echo GovernedPartitions=nonesuch >>{RULES}", {"GovernedPartitions"}),
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
    if "PriorityWeightQOS" in named and not whole.newer_than("23.11"):
        named = named | {"PriorityType"}  # priority/basic was the default
    whole.ok(how)
    findings, status = check(whole)
    assert wrong(findings) == named and status == 1, findings
    assert all(findings[about]["fix"] for about in named)


PLUGINS = ("job_submit_gpushare.so", "spank_gpushare.so")


def test_a_plugin_of_another_version_is_named(whole):
    other = next((release for release in RELEASES if release != whole.release), None)
    if not other:
        pytest.skip("NOT TESTED: a plugin of another version, without builds for two releases")
    folder = whole.ok("scontrol show config | sed -n 's/^PluginDir *= //p'")
    for plugin in PLUGINS:
        shutil.copy(BUILDS / other / plugin, whole.out / plugin)
        # By rename: the daemons have the old one open.
        whole.ok(
            f"cp -a {folder}/{plugin} /lab/out/{plugin}.old && cp /lab/out/{plugin} {folder}/new && "
            f"mv {folder}/new {folder}/{plugin}"
        )
    try:
        findings, _ = check(whole)
        assert wrong(findings) == set(PLUGINS), findings
        assert f"built for Slurm {other}" in findings["spank_gpushare.so"]["said"], findings
    finally:
        for plugin in PLUGINS:
            whole.ok(f"cp -a /lab/out/{plugin}.old {folder}/new && mv {folder}/new {folder}/{plugin}")
    # The file is another one than slurmctld has in memory.
    # In the second of its start, nobody can tell.
    changed = "changed after slurmctld started"
    replace = f"cp -a {folder}/{PLUGINS[0]} {folder}/new && mv {folder}/new {folder}/{PLUGINS[0]}"
    seen = lambda: [one for one in whole.findings(PLUGINS[0]) if changed in one["said"]]
    whole.wait(lambda: whole.ok(replace) or seen(), "its line")
    whole.ok("/lab/service restart slurmctld", timeout=60)
    whole.wait(lambda: one(whole, PLUGINS[0])["status"] == "ok", "its line to go")


def test_a_node_with_fewer_shares_than_slurmctld_counts(whole):
    """Slurm's slurmd ends at once with that, and its message names no file."""
    whole.run("sed -i s/Count=400/Count=300/ /etc/slurm/gres.conf; /lab/service restart slurmd", timeout=90)
    findings, _ = check(whole)
    assert wrong(findings) == {"gres.conf", "slurmd"}, findings
    assert "has 300 mps for this node, but slurmctld counts 400" in findings["gres.conf"]["said"]


def test_a_drained_node_says_why_and_since_when(whole):
    whole.ok(f"{UPDATE} state=drain reason='GPU 2 is hot'")
    assert "GPU 2 is hot [root@20" in one(whole, "node")["said"]


def test_a_drain_for_a_change_is_no_fault_and_slurms_own_is_one(whole):
    """As docs/running-cluster.md drains a node, and what slurmctld makes of it if the change is wrong."""
    whole.ok(f"{UPDATE} state=drain reason=gpushare")
    findings, status = check(whole)
    assert wrong(findings) == set() and status == 0, findings
    node = findings["node"]
    assert node["status"] == "unknown" and "with reason=gpushare: if no line is WRONG, scontrol" in node["said"], node
    whole.ok("sed -i s/mps:400/mps:500/ /etc/slurm/nodes.conf && /lab/service restart slurmctld")
    # 22.05 keeps the reason.
    whole.wait(lambda: "INVAL" in one(whole, "node")["said"], "slurmctld to drain the node by itself")
    findings, status = check(whole)
    assert "node" in wrong(findings) and status == 1, findings
    assert not whole.newer_than("24.11") or "count reported lower" in findings["node"]["said"], findings
    whole.ok("sed -i s/mps:500/mps:400/ /etc/slurm/nodes.conf && /lab/service restart slurmctld")
    whole.wait(lambda: "INVAL" not in one(whole, "node")["said"], "slurmctld to accept the node")


def test_a_slurmd_that_is_older_than_its_files_is_named(whole):
    def named(*names):
        """What is said once these have changed. A slurmd that was started in the same second may have read them."""
        def touched():
            whole.ok(["touch", *names])
            return next((found for found in whole.findings("slurmd") if "changed after" in found["said"]), None)

        found = whole.wait(touched, "slurmd to be named")
        assert f"{', '.join(names)} changed after slurmd started" in found["said"], found
        return found["status"]

    # What slurmctld alone reads may have changed in it.
    assert named("/etc/slurm/nodes.conf") == "unknown"
    wrong = "wrong" if whole.newer_than("23.11") else "unknown"
    assert named("/etc/slurm/nodes.conf", "/etc/slurm/cgroup.conf") == wrong
    whole.ok("/lab/service restart slurmd", timeout=90)
    assert one(whole, "slurmd")["status"] == "ok"


def test_a_fence_that_the_kernel_refuses_is_wrong(whole):
    capabilities = "-sys_admin,-bpf,-net_admin,-perfmon"
    result = whole.run(f"setpriv --bounding-set={capabilities} --inh-caps={capabilities} gpushare check")
    line, = [line for line in result.stdout.splitlines() if line.startswith("WRONG  fence")]
    assert "Operation not permitted" in line and result.returncode == 1, result.stdout
    assert cgroups(whole) == ""


def test_a_fence_that_cannot_be_tried_is_not_called_right(whole):
    read_only = (
        "mount --bind /sys/fs/cgroup /sys/fs/cgroup && mount -o remount,bind,ro /sys/fs/cgroup && gpushare check"
    )
    for command, user, why in (
        (["unshare", "--mount", "bash", "-c", read_only], "root", "no cgroup can be made"),
        (["gpushare", "check", "--all"], "alice", "only root can try it"),
    ):
        said = whole.run(command, user).stdout
        line, = [line for line in said.splitlines() if line.split()[1:2] == ["fence"]]
        assert line.startswith("?") and why in line, said


def test_modes_that_refuse_nothing_and_jobs_that_never_start_are_shown(whole):
    assert whole.findings("Mode") == [] and whole.findings("pending jobs") == []
    whole.ok(f"printf 'Mode=audit\nQOS=normal Mode=warn\n' >>{RULES}")
    assert [found["said"].split(":")[0] for found in whole.findings("Mode")] == ["Mode=audit", "QOS=normal Mode=warn"]
    limit = "sacctmgr -i modify qos qos_lafferty set GrpTRES="
    whole.ok(f"{limit}gres/gpu:a40=4,cpu=8")
    try:
        # The second waits for the first, the third for ever.
        ask = ["--qos=qos_lafferty", "--gres=gpu:a40:1", "-n"]
        jobs = [whole.sbatch(*ask, tasks) for tasks in ("8", "8", "9")]
        found = whole.wait(lambda: whole.findings("pending jobs"), "the job that asks for 9 of 8")
        assert [one["status"] for one in found] == ["unknown"], found
        assert (
            f"1 job asks for more than the limits ever allow and will never start: {jobs[2]} (cpu=9" in found[0]["said"]
        ), found
    finally:
        whole.cancel_all()
        whole.ok(f"{limit}gres/gpu:a40=4,cpu=-1")


def test_without_the_daemons_all_else_is_printed(whole):
    local = {"gpushare.conf", "ConstrainDevices", "plugstack.conf", "GpuFile", "ledger", "slurmd", "fence"}
    for daemon, more in (
        ("slurmctld", {"GovernedQOS"}),
        ("slurmdbd", {"JobSubmitPlugins", "Placement", "gres.conf", "node"}),
    ):
        whole.ok(f"/lab/service stop {daemon}", timeout=90)
        try:
            result = whole.run(["gpushare", "check", "--json"])
            findings = {one["about"]: one for one in json.loads(result.stdout)["findings"]}
            assert result.returncode == 2 and wrong(findings) - {"slurmd"} == {daemon}, result.stdout
            assert "it doesn't answer" in findings[daemon]["said"], findings[daemon]
            assert (local | more) - set(findings) <= {"slurmd"}, findings
        finally:
            whole.ok(f"/lab/service start {daemon}", timeout=90)


def test_without_slurm_it_says_so(whole):
    result = whole.run("SLURM_CONF=/nonexistent gpushare check")
    lines = [line for line in result.stdout.splitlines() if line.startswith("WRONG  slurm")]
    assert result.returncode == 2 and len(lines) == 2 and "scontrol" in lines[0] and "sacctmgr" in lines[1], result
    # Without a slurm.conf scontrol looks for one in the network for longer than that.
    assert "did not answer" in lines[0] or "failed" in lines[0], result


def test_rules_that_are_not_there_are_an_error(whole):
    result = whole.run("gpushare check --conf /nonexistent")
    assert (result.returncode, result.stdout) == (2, ""), result
    assert "/nonexistent: there is no such file" in result.stderr, result


def test_a_cluster_without_a_database_is_checked_without_it(whole):
    """accounting_storage/none: what needs slurmdbd is no fault. With it in slurm.conf slurmctld wouldn't start."""
    whole.ok(
        "cd /etc/slurm && sed -i /^AccountingStorage/d slurm.conf extra.conf && "
        f"echo AccountingStorageType=accounting_storage/none >>slurm.conf && {RESTART}", timeout=90
    )
    findings, status = check(whole)
    assert wrong(findings) == set() and status == 0, findings
    assert findings["slurmdbd"]["status"] == "unknown" and "none by design" in findings["slurmdbd"]["said"], findings
    assert not any(about.startswith("AccountingStorage") for about in findings), findings
    assert "AccountingStorage" not in whole.ok(["gpushare", "conf", "slurm"])
    whole.ok(f"printf 'GovernedQOS=qos_lafferty\\nGpuWeight=a40:2\\n' >>{RULES}")
    findings, status = check(whole)
    assert wrong(findings) == set(), findings
    assert "without effect: GovernedQOS, GpuWeight" in findings["slurmdbd"]["said"], findings


def test_a_login_machine_whose_srun_cannot_start_says_why(whole):
    """A plugin of another release that plugstack.conf requires: sbatch and srun refuse everything, even `srun -V`."""
    other = next((release for release in RELEASES if release != whole.release), None)
    if not other:
        pytest.skip("NOT TESTED: a plugin of another release, without builds for two")
    shutil.copy(BUILDS / other / "spank_gpushare.so", whole.out / "other.so")
    folder = whole.ok("scontrol show config | sed -n 's/^PluginDir *= //p'")
    login = f"hostname login1 && mount --bind /lab/out/other.so {folder}/spank_gpushare.so"
    result = whole.run(["unshare", "--mount", "--uts", "bash", "-c", f"{login} && srun -V; gpushare check"])
    assert "Incompatible Slurm plugin" in result.stderr, result
    assert f"spank_gpushare.so is built for Slurm {other}" in " ".join(result.stdout.split()), result.stdout
    assert result.returncode == 1, result
