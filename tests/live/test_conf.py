# SPDX-License-Identifier: GPL-2.0-or-later
"""`gpushare conf`: of each example only gpushare.conf and the nodes stay, and the rest is what gpushare prints."""

import re

from gpus import OPEN, opened
from lab import EXAMPLES
from test_check import check, wrong

ETC = "/etc/slurm"
SERVICES = "for s in slurmctld slurmd; do /lab/service restart $s || exit; done"


def settings(text):
    """The lines that are not comments."""
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def words(text):
    """The same, whatever the order of a line's words, and of the words of a list."""
    return {frozenset(re.split("[ ,]", line)) for line in settings(text)}


def conf(cluster, *words):
    return cluster.ok(["gpushare", "conf", *words])


def write(cluster, **files):
    for name, text in files.items():
        cluster.ok(["tee", f"{ETC}/{name}.conf"], stdin=text + "\n")


def test_what_is_printed_for_a_new_cluster_is_all_right_in_it(configured):
    name, example = configured.name, EXAMPLES / {"override": "surf"}.get(configured.kind, configured.kind)
    gres = conf(configured, "gres", "--new")
    as_in_the_example = (example / "gres.conf").read_text().replace("@NODE@", name).replace("titanrtx", "a40")
    assert words(gres) == words(as_in_the_example), gres
    # The lab's nodes are called after what it thinks they have.
    gres = gres.replace("Type=a40", "Type=titanrtx") if configured.kind == "override" else gres

    cgroup = configured.ok(f"grep -v ConstrainDevices {ETC}/cgroup.conf") + "\n" + conf(configured, "cgroup", "--new")
    write(configured, extra=conf(configured, "slurm", "--new"), gres=gres, cgroup=cgroup,
          plugstack=conf(configured, "plugstack"))
    configured.ok(SERVICES)
    findings, _ = check(configured)
    # The types of a cluster that there isn't yet are known if a share names them, and here there are none.
    assert wrong(findings) == ({"AccountingStorageTRES"} if configured.kind != "own" else set()), findings

    running = conf(configured, "slurm")
    assert running.count("Now:") == len(wrong(findings)), running
    write(configured, extra=running)
    configured.ok(SERVICES)
    findings, status = check(configured)
    assert wrong(findings) == set() and status == 0, findings
    assert words(conf(configured, "slurm")) == words(running), "what runs needs nothing else"
    assert words(conf(configured, "gres")) == words(gres)

    # And a share works.
    name, *_, units = configured.ok(["sinfo", "-h", "-o", "%G"]).split(",")[-1].split("(")[0].split(":")
    job = configured.sbatch(f"--gres={name}:{int(units) // 16}", script=OPEN)
    assert configured.finished(job) == "COMPLETED"
    assert [len(found) for found in opened(configured.output(job))] == [1], configured.output(job)


def test_each_line_has_its_reason_and_keeps_what_is_the_sites(configured):
    text = conf(configured, "slurm")
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line and not line.startswith("#"):
            assert lines[number - 1].startswith("# Without it, "), line
    configured.ok(
        f"sed -i 's/^JobSubmitPlugins=.*/JobSubmitPlugins=gpushare,all_partitions/' {ETC}/extra.conf; {SERVICES}"
    )
    text = conf(configured, "slurm")
    assert re.search(r"Now: 'gpushare,all_partitions'.*\nJobSubmitPlugins=all_partitions,gpushare\n", text), text
    file, fix = check(configured)[0]["JobSubmitPlugins"]["fix"].split("; then ")[0].split(": ")
    assert file == "slurm.conf" and fix in text, "check and conf say the same"
    configured.ok(f"sed -i 's/^JobSubmitPlugins=.*/{fix}/' {ETC}/extra.conf; {SERVICES}")


def test_programs_are_named_where_they_are(configured):
    """`make install PREFIX=/opt/gpushare`; what isn't there comes from packages."""
    configured.ok(
        "cd /opt && mkdir -p gpushare/bin gpushare/sbin && cp /usr/bin/gpushare gpushare/bin && "
        "touch gpushare/sbin/gpushare-prolog"
    )
    lines = settings(configured.ok(["/opt/gpushare/bin/gpushare", "conf", "slurm", "--new"]))
    assert {"Prolog=/opt/gpushare/sbin/gpushare-prolog", "Epilog=/usr/sbin/gpushare-epilog"} <= set(lines), lines


def test_login_nodes_may_be_without(configured):
    assert settings(conf(configured, "plugstack", "--login")) == ["optional spank_gpushare.so"]


def test_without_slurm_it_says_what_to_do(configured):
    result = configured.run("SLURM_CONF=/nonexistent gpushare conf slurm --conf /etc/slurm/gpushare.conf")
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and "--new" in result.stderr, result
    result = configured.run("gpushare conf slurm --conf /nonexistent")
    assert result.returncode == 2 and "there is no such file" in result.stderr, result
