# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs that take whole nodes get all GPUs of these, and name none: a limit of 0 keeps other types from them.

The group has a40. Node `other` has h100, `mixed` has both. What counts is what runs, not what is refused."""

import re

import pytest
from shares import FILE, NOTHING, apply, field, plan, qos, write

RULES = "/etc/slurm/gpushare.conf"
MINE = "QOS=qos_mine Account=acct GPUs=a40:4\n"
OPEN = "ForeignTypes=allow\n" + MINE
# Each takes whole nodes.
FORMS = {"exclusive": ["--exclusive"], "partition": ["--partition=x"], "core-spec": ["--core-spec=1"]}
# With a QOS of one type, what gets round it: a node, and what else the job says.
WAYS = [("other", []), ("mixed", []), ("mixed", ["--gres=gpu:a40:1"])]


@pytest.fixture(autouse=True)
def clean(whole_nodes):
    yield
    whole_nodes.cancel_all()


def held(cluster, job):
    """GPUs of each type that a job has, by what is charged and by what its nodes gave."""
    shown = cluster.ok(["scontrol", "-d", "-o", "show", "job", job])
    # 22.05 has TRES= for it, and that also of a job that waits.
    charged = re.findall(r"gres/gpu:(\w+)=(\d+)", (re.findall(r"(?:Alloc)?TRES=(\S+)", shown) or [""])[-1])
    given = re.findall(r"gpu:(\w+):(\d+)\(IDX", shown)
    types = {kind for kind, _ in charged}
    assert types == {kind for kind, _ in given}, shown
    return {kind: int(number) for kind, number in charged}


def outcome(cluster, *options):
    """What a job has when it runs; why it waits, if it does."""
    job = cluster.sbatch(*options)

    def seen():
        state, reason = cluster.ok(["squeue", "-h", "-j", job, "-o", "%T %r"]).split(maxsplit=1)
        return held(cluster, job) if state == "RUNNING" else reason if "GRES" in reason else None

    found = cluster.wait(seen, f"a job with {options} to run or to wait for its QOS")
    cluster.cancel_all()
    return found


@pytest.mark.parametrize("form", FORMS)
def test_without_a_limit_whole_nodes_bring_types_that_the_qos_lacks(whole_nodes, form):
    """Slurm as it is; the next test must find what this one finds."""
    apply(whole_nodes, OPEN)
    assert "h100" not in field(whole_nodes, "qos_mine", "GrpTRES")
    for node, more in WAYS:
        found = outcome(whole_nodes, "--qos=qos_mine", "-w", node, *FORMS[form], *more)
        assert "h100" in found, (node, more)


@pytest.mark.parametrize("form", FORMS)
def test_with_a_limit_of_0_no_whole_node_job_has_another_type(whole_nodes, form):
    apply(whole_nodes, MINE)
    for node, more in WAYS:
        found = outcome(whole_nodes, "--qos=qos_mine", "-w", node, *FORMS[form], *more)
        assert found == "QOSGrpGRES", (node, more)
    # Its own type's nodes are the group's, and so are single GPUs of any node.
    assert outcome(whole_nodes, "--qos=qos_mine", "-w", whole_nodes.name, *FORMS[form]) == {"a40": 4}
    assert outcome(whole_nodes, "--qos=qos_mine", "-C", "a40", *FORMS[form]) == {"a40": 4}
    assert outcome(whole_nodes, "--qos=qos_mine", "-w", "mixed", "--gres=gpu:a40:2") == {"a40": 2}


def test_two_nodes_of_which_one_has_the_other_type(whole_nodes):
    write(whole_nodes, MINE.replace("a40:4", "a40:6"))
    assert qos(whole_nodes, "apply").returncode == 0
    found = outcome(whole_nodes, "--qos=qos_mine", "--exclusive", "-N2", "-w", f"{whole_nodes.name},mixed")
    assert found == "QOSGrpGRES"


@pytest.mark.parametrize("limit", ["MaxTRESPerJob", "MaxTRESPerUser", "MaxTRESPerAccount", "MaxTRESPerNode"])
def test_a_limit_of_0_of_another_kind_does_as_well(whole_nodes, limit):
    """Such a line is left as it is."""
    text = MINE.replace("\n", f" {limit}=gres/gpu:h100=0\n")
    apply(whole_nodes, text)
    assert "h100" not in field(whole_nodes, "qos_mine", "GrpTRES")
    for node, more in WAYS:
        found = outcome(whole_nodes, "--qos=qos_mine", "-w", node, "--exclusive", *more)
        assert isinstance(found, str) and "GRES" in found, (node, more, found)


def test_apply_sets_the_limits_and_takes_them_away(whole_nodes):
    apply(whole_nodes, OPEN)
    assert plan(whole_nodes, MINE).splitlines()[0] == "~ qos qos_mine  GrpTRES gres/gpu:h100: none -> 0"
    apply(whole_nodes, MINE)
    assert plan(whole_nodes, MINE) == NOTHING
    assert sorted(field(whole_nodes, "qos_mine", "GrpTRES").split(",")) == [
        "gres/gpu:a40=4", "gres/gpu:h100=0", "gres/gpu=4"]
    # By hand, and back.
    whole_nodes.ok("sacctmgr -i modify qos qos_mine set GrpTRES=gres/gpu:h100=2")
    assert plan(whole_nodes, MINE).splitlines()[0] == "~ qos qos_mine  GrpTRES gres/gpu:h100: 2 -> 0"
    assert apply(whole_nodes, OPEN) == "~ qos qos_mine  GrpTRES gres/gpu:h100: 2 -> none\n"
    apply(whole_nodes, MINE)
    # Nobody is told that he has none.
    table = qos(whole_nodes, "docs").stdout
    assert re.search(r"^qos_mine +4 a40 +--qos=qos_mine --gres=gpu:a40:2$", table, re.M), table
    shown = qos(whole_nodes, "show").stdout
    assert "    none of  h100\n" in shown and "    in use   0 of 4 a40; 0 jobs\n" in shown, shown
    write(whole_nodes, OPEN)
    shown = qos(whole_nodes, "show").stdout
    assert "    none of  h100\n" in shown and "~ qos qos_mine  GrpTRES gres/gpu:h100: 0 -> none\n" in shown, shown
    apply(whole_nodes, OPEN)
    assert "none of" not in qos(whole_nodes, "show").stdout


def test_a_new_type_is_a_change_of_the_plan(whole_nodes):
    apply(whole_nodes, MINE)
    counted = "AccountingStorageTRES=gres/gpu,gres/gpu:a40,gres/gpu:h100"
    whole_nodes.ok(f"sed -i 's|^{counted}$|&,gres/gpu:B200|' /etc/slurm/extra.conf; /lab/service restart slurmctld")
    try:
        planned = plan(whole_nodes, MINE)
        assert re.fullmatch(
            r"~ qos qos_mine  GrpTRES gres/gpu:b200: none -> 0\n1 to change, in 1 step\n", planned, re.I
        ), planned
        apply(whole_nodes, MINE)
        assert plan(whole_nodes, MINE) == NOTHING
    finally:
        whole_nodes.ok(f"sed -i 's|^{counted}.*|{counted}|' /etc/slurm/extra.conf; /lab/service restart slurmctld")
    # Slurm keeps a TRES for ever, and its limits; the file's QOS has none on what this cluster doesn't count.
    whole_nodes.run("sacctmgr -i modify qos qos_mine set GrpTRES=gres/gpu:b200=-1")
    apply(whole_nodes, MINE)


def test_nobody_is_offered_what_has_a_limit_of_0(whole_nodes):
    apply(whole_nodes, MINE)
    for options, number in [(["--gres=gpu:1"], "GS101"), (["--gres=gpu:h100:1"], "GS103")]:
        options = ["--qos=qos_mine", *options]
        for words in (["sbatch", *options, "--wrap", "true"], ["gpushare", "explain", "--", *options]):
            result = whole_nodes.run(words, "alice")
            said = result.stdout + result.stderr
            assert result.returncode != 0 and number in said, said
            assert "this QOS has: a40 (4)\n" in said and "try: --qos=qos_mine --gres=gpu:a40:1" in said, said


def test_check_names_the_qoses_that_lack_it_with_the_command(whole_nodes):
    apply(whole_nodes, OPEN)
    assert whole_nodes.findings("ForeignTypes", "--conf", FILE) == [], "other types are allowed"
    found = whole_nodes.findings("ForeignTypes")
    said = "without a limit on gres/gpu:h100 a job that takes whole nodes (--exclusive) gets these GPUs too"
    assert {(one["status"], one["said"]) for one in found} == {
        ("wrong", f"QOS qos_lafferty: {said}"), ("wrong", f"QOS qos_mine: {said}")}
    for fix in (one["fix"] for one in found):
        command = fix.replace("sacctmgr ", "sacctmgr -i ", 1).replace("qos apply", "qos apply -i")
        whole_nodes.ok(command)
    assert [one["status"] for one in whole_nodes.findings("ForeignTypes")] == ["ok"]
    # That of the QOS without a line was done by hand, and holds.
    for node, more in WAYS:
        assert outcome(whole_nodes, "--qos=qos_lafferty", "--exclusive", "-w", node, *more) == "QOSGrpGRES"
    whole_nodes.ok("sacctmgr -i modify qos qos_lafferty set GrpTRES=gres/gpu:h100=-1")


def test_check_names_a_partition_whose_qos_takes_the_place_of_the_jobs(whole_nodes):
    """There Slurm doesn't look at the same limit of the job's QOS, unless that has a flag."""
    text = MINE.replace("a40:4", "a40:2")
    apply(whole_nodes, text)
    own = "--qos=qos_mine", "--partition=owned"
    whole_nodes.ok("sacctmgr -i add qos of_partition set GrpTRES=gres/gpu=8,gres/gpu:a40=8,gres/gpu:h100=8;"
                   "scontrol create PartitionName=owned Nodes=ALL State=UP QOS=of_partition")
    try:
        assert outcome(whole_nodes, "--gres=gpu:a40:4", *own) == {"a40": 4}, "the limit of 2 is not looked at"
        assert outcome(whole_nodes, "--exclusive", "-w", "other", *own) == {"h100": 4}, "nor that of 0"
        [found] = whole_nodes.findings("GovernedPartitions")
        assert found["status"] == "wrong" and found["said"].startswith(
            "partition owned has QOS of_partition, whose "
        ), found
        whole_nodes.ok(found["fix"].split(";")[0].replace("sacctmgr ", "sacctmgr -i ", 1))
        assert whole_nodes.findings("GovernedPartitions") == []
        assert outcome(whole_nodes, "--gres=gpu:a40:4", *own) == "QOSGrpGRES"
        assert outcome(whole_nodes, "--exclusive", "-w", "other", *own) == "QOSGrpGRES"
    finally:
        whole_nodes.cancel_all()
        whole_nodes.ok("scontrol delete PartitionName=owned; sacctmgr -i delete qos of_partition;"
                       "sacctmgr -i modify qos qos_lafferty set Flags=-1")


FLAG = "NO_HOLD_JOBS_AFTER_END"


def test_check_names_a_reservation_that_its_jobs_outlive(whole_nodes):
    """With that flag a job that still waits at its end starts, and no plugin is asked."""
    write(whole_nodes, MINE + "ExemptReservations=course*\n")
    make = "scontrol create reservation reservationname=%s users=alice starttime=now duration=60 nodes=%s flags=%s"
    about = lambda: whole_nodes.findings("ExemptReservations", "--conf", FILE)
    try:
        whole_nodes.ok(make % ("course1", "other", "MAINT") + " && " + make % ("later", "mixed", FLAG))
        assert about() == []
        whole_nodes.ok(make % ("course2", whole_nodes.name, FLAG))
        [found] = about()
        assert found["status"] == "wrong" and found["said"].startswith(f"course2 has {FLAG}: "), found
        # The command that one would try first.
        assert whole_nodes.run(f"scontrol update reservationname=course2 flags-={FLAG}").returncode != 0
    finally:
        whole_nodes.run("for name in course1 course2 later; do scontrol delete reservationname=$name; done")
    assert [(found["status"], found["said"]) for found in about()] == [("unknown", "no reservation matches 'course*'.")]


def test_gpus_to_which_slurm_conf_gives_no_type_pass_every_limit_on_types_and_are_told(whole_nodes):
    """gres.conf alone has their type."""
    def written(one, other):
        whole_nodes.ok(f"sed -i '/NodeName=other/s/Gres={one}/Gres={other}/' /etc/slurm/nodes.conf;"
                       "/lab/service restart slurmd && /lab/service restart slurmctld", timeout=90)

    written("gpu:h100:4", "gpu:4")
    try:
        job = whole_nodes.sbatch("--qos=qos_lafferty", "--exclusive", "-w", "other")
        whole_nodes.wait_state(job, "RUNNING")
        assert "gpu:4(IDX:0-3)" in whole_nodes.ok(["scontrol", "-d", "show", "job", job])
        said = whole_nodes.run("gpushare guard")
        assert said.returncode == 1 and "QOS qos_lafferty: gres/gpu, of which it has no limit: 4" in said.stdout, said
        [found] = whole_nodes.findings("Gres")
        assert found["status"] == "wrong" and "the GPUs of other have no type" in found["said"], found
        assert "qos_lafferty" in found["said"], found
    finally:
        whole_nodes.cancel_all()
        written("gpu:4", "gpu:h100:4")
    assert whole_nodes.findings("Gres") == []
