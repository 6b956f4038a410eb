# SPDX-License-Identifier: GPL-2.0-or-later
"""The fixes of `gpushare check`, followed to the letter: each broken state becomes "0 wrong"."""

import json
import re

import pytest

RULES = "/etc/slurm/gpushare.conf"
RESTART = "/lab/service restart slurmd && /lab/service restart slurmctld"
KEEP = "mkdir -p /lab/out/slurm && cp -a /etc/slurm/. /lab/out/slurm/"


def wrong(cluster):
    """{key: finding} of what is wrong."""
    findings = json.loads(cluster.run(["gpushare", "check", "--json"]).stdout)["findings"]
    return {found["about"]: found for found in findings if found["status"] == "wrong"}


def correct(cluster, fix):
    """Does what a fix says about gpushare.conf."""
    for step in fix.removeprefix("gpushare.conf: ").split("; "):
        if found := re.fullmatch(r"(\w+): (\S+) instead of (\S+)", step):
            key, right, false = found.groups()
            cluster.ok(rf"sed -i '/{key}=/s/\(=.*\)\b{false}\b/\1{right}/;/{key}=/s/={false}\b/={right}/' {RULES}")
        elif found := re.fullmatch(r"(\w+): without (\S+), or create it in Slurm", step):
            name = rf"\b{found[2]}\b"
            cluster.ok(rf"sed -i -e '/{found[1]}=/s/,{name}\|{name},\?//' -e '/^{found[1]}=\( .*\)\?$/d' {RULES}")
        elif found := re.fullmatch(r"take (\S+) out of (\w+)", step):
            cluster.ok(f"sed -i '/^{found[2]}=/s/,{found[1]}//' {RULES}")
        elif found := re.fullmatch(r"correct or remove (\S+)", step):
            cluster.ok(f"sed -i '/^{found[1]}/d' {RULES}")
        else:
            assert re.fullmatch(r"\w+=\S+( \w+=\S+)*", step), step
            cluster.ok(f"echo '{step}' >>{RULES}")


@pytest.fixture
def right(check_broken):
    """A cluster without a fault, before and after."""
    check_broken.ok(KEEP)
    assert wrong(check_broken) == {}
    yield check_broken
    check_broken.cancel_all()
    check_broken.ok(f"cp -a /lab/out/slurm/. /etc/slurm/ && {RESTART}", timeout=90)
    check_broken.wait(lambda: wrong(check_broken) == {}, "a cluster without a fault")


# Lines with a name that nothing has, and the name that may be meant.
NAMES = {
    "GovernedQOS=qos_laferty": "qos_lafferty",
    "GovernedQOS=normal,nosuch": None,
    "QOS=qos_laferty Mode=audit": "qos_lafferty",
    "GovernedAccounts=acct,accct": "acct",
    "GovernedPartitions=p,qq": None,
    "ShareOnlyPartitions=nosuch": None,
    "GpuPartitions=P": "p",
    "PartitionName=nosuch MaxCPUsPerGpu=64": None,
    "NodeName=titan9 Placement=own UnitsPerGpu=100": None,
    "MaxCPUsPerGpu=a4O:64": "a40",
    "GpuWeight=a4O:8": "a40",
    "ShareSizes=25,50,200": None,
}


@pytest.mark.parametrize("line", NAMES)
def test_a_misspelt_name_is_named_and_mended_by_its_fix(right, line):
    right.ok(f"echo '{line}' >>{RULES}")
    key = line.split("=")[0]
    found = wrong(right)
    assert key in found and (NAMES[line] is None or f"did you mean '{NAMES[line]}'?" in found[key]["said"]), found
    # No other fix follows the misspelt name.
    others = {"TRESBillingWeights", "AccountingStorageTRES", "QOS"} & set(found) - {key}
    assert all("first the names" in found[other]["fix"] for other in others), found
    correct(right, found[key]["fix"])
    assert key not in wrong(right)
    # Fair-share by weights has needs of its own.
    assert wrong(right) == {} or key == "GpuWeight", wrong(right)


def test_a_misspelt_qos_is_not_mended_by_weaker_limits(right):
    """Under GovernedQOS=qos_laferty the types that qos_lafferty may not have lose their zeros in a plan."""
    record = "QOS=qos_lafferty Users=alice,bob Account=acct GPUs=a40:4"
    right.ok(f"echo '{record}' >>{RULES} && gpushare qos apply -i && echo GovernedQOS=qos_laferty >>{RULES}")
    found = wrong(right)
    assert all("apply" not in one["fix"] for one in found.values()), found
    correct(right, found["GovernedQOS"]["fix"])
    assert wrong(right) == {}


def test_types_with_capitals_have_the_line_that_makes_advice_work(right):
    right.ok(f"cd /etc/slurm && sed -i s/a40/A40/g gres.conf nodes.conf extra.conf && {RESTART}", timeout=90)
    right.wait(lambda: "GPU types" in wrong(right), "the nodes' new type")
    found = wrong(right)["GPU types"]
    assert found["said"].startswith("nodes spell 'A40', limits 'a40': "), found
    assert found["fix"] == "gpushare.conf: QOS=qos_lafferty DefaultType=A40", found
    correct(right, found["fix"])
    assert wrong(right) == {}

    def advised():
        refused = right.run(["sbatch", "--qos=qos_lafferty", "--gres=gpu:1", "--wrap=true"], "alice")
        return (re.search(r"try: (.*)", refused.stderr) or [None, ""])[1]

    right.wait(lambda: "gpu:A40" in advised(), "slurmctld to have read the line")
    right.ok(f"sbatch {advised()} --wrap=true", "alice")
