# SPDX-License-Identifier: GPL-2.0-or-later
"""What Slurm does with a broken configuration, a build for another Slurm, and a build that panics."""

import contextlib
import re
import struct
import time

import elf
import pytest
from lab import BUILDS

CONF = "/etc/slurm/gpushare.conf"


def restart(cluster):
    return cluster.run("/lab/service restart slurmctld", timeout=60)


@pytest.fixture
def broken(contributors):
    """A cluster whose gpushare.conf may be broken: mended at the end, but slurmctld is not started again."""
    contributors.ok(f"cp -a {CONF} /tmp/good.conf")
    yield contributors
    contributors.ok(f"rm -rf {CONF}; cp -a /tmp/good.conf {CONF}")


@pytest.fixture
def whole(contributors):
    """A cluster whose slurmctld runs, at the beginning and at the end."""
    if contributors.run("/lab/service status slurmctld").returncode != 0:
        assert restart(contributors).returncode == 0
    yield contributors
    assert contributors.run("/lab/service status slurmctld").returncode == 0


BROKEN = {
    "unknown-key": (
        "echo GouvernedQOS=auto > CONF",
        ["line 1: unknown key 'GouvernedQOS'", "did you mean GovernedQOS?"],
    ),
    "wrong-value": ("printf '#\\nForeignTypes=no\\n' > CONF", ["line 2: ForeignTypes can't be 'no'", "deny or allow"]),
    "no-equals-sign": ("echo GovernedQOS > CONF", ["line 1", "Key=Value"]),
    "given-twice": ("printf 'ForeignTypes=deny\\nForeignTypes=allow\\n' > CONF", ["line 2", "twice", "line 1"]),
    "a-folder": ("rm CONF; mkdir CONF", ["gpushare.conf: Is a directory"]),
    "not-readable": ("chmod 000 CONF", ["gpushare.conf: Permission denied"]),
    "link-to-nowhere": ("ln -sf /nowhere CONF", ["gpushare.conf: No such file"]),
    "not-text": ("printf 'ForeignTypes=\\377\\n' > CONF", ["line 1", "UTF-8"]),
}


COPY = "/var/lib/slurm/slurmctld/gpushare_last_good"
# What the defaults refuse.
IN_FORCE = "sbatch --qos=qos_lafferty --gres=gpu:2 --wrap true"


def errors(cluster, since):
    lines = cluster.log("slurmctld").splitlines()[since:]
    return [line for line in lines if "error: job_submit/gpushare:" in line]


def pid_of(cluster):
    return cluster.run("pidof -s slurmctld slurmctld-wlm").stdout.strip()


def reconfigure(cluster):
    """Until the slurmctld that comes of it answers: from 23.11 on it is another process."""
    before = pid_of(cluster)
    cluster.run("scontrol reconfigure", timeout=60)
    if cluster.newer_than("23.11"):
        cluster.wait(lambda: pid_of(cluster) not in ("", before), "another slurmctld")
    cluster.wait(lambda: cluster.run("scontrol ping").stdout.count("is UP"), "slurmctld's answer")


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_configuration_without_an_earlier_one_is_refused_with_the_reason(broken, case):
    command, reasons = BROKEN[case]
    before = len(broken.log("slurmctld").splitlines())
    broken.ok(f"/lab/service stop slurmctld; rm -f {COPY}; " + command.replace("CONF", CONF))
    assert restart(broken).returncode != 0, "slurmctld came up with a broken gpushare.conf"
    lines = errors(broken, before)
    assert len(lines) == 1 and CONF in lines[0], lines
    for reason in [*reasons, "there is no copy of an earlier gpushare.conf"]:
        assert reason in lines[0], lines[0]


@pytest.mark.parametrize("case", BROKEN)
def test_the_last_good_rules_outlive_a_restart_with_a_broken_file(whole, broken, case):
    command, reasons = BROKEN[case]
    rules(broken, "GovernedQOS=norm*\n")
    assert broken.ok(f"stat -c '%U %a' {COPY}") == "slurm 600"
    lines = broken.ok(["cat", COPY]).splitlines()
    assert lines[0].startswith("# gpushare-last-good 1 ") and lines[0].endswith(f" {broken.name}:{CONF}")
    assert lines[1:] == ["GovernedQOS=norm*"]
    kept = broken.ok(["cat", COPY])
    broken.ok(command.replace("CONF", CONF))
    for start in (lambda: reconfigure(broken), lambda: restart(broken), lambda: reconfigure(broken)):
        before = len(broken.log("slurmctld").splitlines())
        start()
        refused = broken.run("sbatch --qos=normal --gres=gpu:2 --wrap true", "alice")
        assert "GS101" in refused.stderr, refused.stderr
        assert broken.run("sbatch --qos=qos_lafferty --gres=gpu:1 --wrap true", "alice").returncode == 0
        # Up to 23.02 slurmctld goes on in the same process, which knows that the file is broken,
        # or sees it after a second.
        if broken.newer_than("23.11"):
            lines = errors(broken, before)
            assert len(lines) == 1 and f"the last good rules stay in force, from {COPY}" in lines[0], lines
            assert all(reason in lines[0] for reason in reasons), lines
    assert broken.ok(["cat", COPY]) == kept, "a broken file is never kept"
    broken.cancel_all()


def rules(cluster, text):
    """slurmctld, restarted with these rules; its first request has been checked by them, and they are kept."""
    cluster.ok(f"rm -rf {CONF}; printf '{text}' >{CONF}")
    assert restart(cluster).returncode == 0
    cluster.ok("sbatch --test-only --wrap true", "alice")


def test_check_and_metrics_say_that_the_last_good_rules_are_in_force_until_the_file_is_mended(whole, broken):
    rules(broken, "GovernedQOS=norm*\n")
    assert " gpushare.conf " in broken.run(["gpushare", "check", "--all"]).stdout
    assert "slurmctld uses" not in broken.run(["gpushare", "check", "--all"]).stdout
    assert "\ngpushare_config_error 0\n" in broken.run(["gpushare", "metrics"]).stdout
    broken.ok(f"printf '#\nForeignTypes=no\n' >{CONF}")
    assert restart(broken).returncode == 0
    read_at = int(broken.ok(f"cut -d' ' -f4 {COPY} | head -n 1"))
    before = int(time.time())
    checked = broken.run(["gpushare", "check", "--all"])
    said = re.search(
        r"WRONG +slurmctld's rules +slurmctld uses the rules of (\d+):(\d+):(\d+) ago, of \S+, because line 2: "
        "ForeignTypes can't be",
        checked.stdout,
    )
    assert checked.returncode == 1 and said, checked.stdout
    hours, minutes, seconds = map(int, said.groups())
    assert before - read_at <= hours * 3600 + minutes * 60 + seconds <= time.time() - read_at, checked.stdout
    assert f"fix: correct the file; the rules in force are in {COPY}" in checked.stdout
    assert "\ngpushare_config_error 1\n" in broken.run(["gpushare", "metrics"]).stdout
    # Mended, and nobody restarts anything.
    before = broken.log("slurmctld").count("gpushare.conf read again")
    broken.ok(f"echo GovernedQOS=qos_titan >{CONF}")

    def is_taken_over():
        broken.run("sbatch --test-only --qos=normal --wrap true", "alice")
        return broken.log("slurmctld").count("gpushare.conf read again") > before

    broken.wait(is_taken_over, "the mended file")
    assert "slurmctld uses" not in broken.run(["gpushare", "check", "--all"]).stdout
    assert "\ngpushare_config_error 0\n" in broken.run(["gpushare", "metrics"]).stdout
    assert broken.run("sbatch --qos=normal --gres=gpu:2 --wrap true", "alice").returncode == 0
    # An edit this young is kept with the next request, when it has been unchanged for a second.
    kept = lambda: is_taken_over() and broken.ok(["tail", "-n", "1", COPY]) == "GovernedQOS=qos_titan"
    broken.wait(kept, "the new copy")


SPOILED = {
    "damaged": "sed -i s/norm/Norm/ COPY",
    "another version's": "sed -i '1s/last-good 1/last-good 2/' COPY",
    "of others": "chown alice COPY",
    "open to others": "chmod 660 COPY",
    "a link": "mv COPY COPY.away; ln -s COPY.away COPY",
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_copy_that_can_not_be_trusted_is_not_used(whole, broken, how):
    rules(broken, "GovernedQOS=norm*\n")
    before = len(broken.log("slurmctld").splitlines())
    broken.ok(SPOILED[how].replace("COPY", COPY) + f"; echo GouvernedQOS=x >{CONF}")
    assert restart(broken).returncode != 0
    (line,) = errors(broken, before)
    assert "line 1: unknown key 'GouvernedQOS'" in line and f"; {COPY} " in line, line
    # Once the file is right, it doesn't matter any more.
    rules(broken, "GovernedQOS=norm*\n")
    assert broken.ok(f"stat -c '%U %a %F' {COPY}") == "slurm 600 regular file"


def test_the_last_good_rules_outlive_a_file_that_went_away(whole, broken):
    rules(broken, "GovernedQOS=norm*\n")
    kept = broken.ok(["cat", COPY])
    broken.ok(f"rm {CONF}")
    before = len(broken.log("slurmctld").splitlines())
    assert restart(broken).returncode == 0
    assert "GS101" in broken.run("sbatch --qos=normal --gres=gpu:2 --wrap true", "alice").stderr
    assert broken.run("sbatch --qos=qos_lafferty --gres=gpu:1 --wrap true", "alice").returncode == 0
    (line,) = errors(broken, before)
    assert f"{CONF} does not exist" in line and f"the last good rules stay in force, from {COPY}" in line, line
    assert broken.ok(["cat", COPY]) == kept
    # What the message says to do for the defaults.
    rules(broken, "# the defaults\n")
    assert "GS101" in broken.run(IN_FORCE, "alice").stderr
    assert broken.run("sbatch --qos=normal --gres=gpu:2 --wrap true", "alice").returncode == 0
    broken.cancel_all()


@contextlib.contextmanager
def changed(cluster, command, back):
    """slurmctld, started anew after COMMAND; at the end of the `with` again, after BACK."""
    cluster.ok(command)
    try:
        assert restart(cluster).returncode == 0
        yield
    finally:
        cluster.ok(back)
        assert restart(cluster).returncode == 0


def test_not_being_the_last_plugin_is_an_error_in_the_log(whole):
    line = "gpushare must be last, or a later plugin can change a request that gpushare has checked"
    assert line not in whole.log("slurmctld")
    edit = "sed -i.good s/JobSubmitPlugins=gpushare/JobSubmitPlugins=gpushare,logging/ /etc/slurm/extra.conf"
    with changed(whole, edit, "mv /etc/slurm/extra.conf.good /etc/slurm/extra.conf"):
        assert f"error: job_submit/gpushare: JobSubmitPlugins=gpushare,logging: {line}" in whole.log("slurmctld")


def test_no_configuration_and_no_copy_mean_the_defaults(whole):
    with changed(whole, f"mv {CONF} /tmp/good.conf; rm -f {COPY}", f"mv /tmp/good.conf {CONF}"):
        refused = whole.run("sbatch --qos=qos_lafferty --gres=gpu:2 --wrap true", "alice")
        assert "GS101" in refused.stderr, refused.stderr


def test_qos_named_in_the_configuration_are_governed(whole):
    edit = f"cp {CONF} /tmp/good.conf; printf 'GovernedQOS=norm*\\n' > {CONF}"
    with changed(whole, edit, f"mv /tmp/good.conf {CONF}"):
        refused = whole.run("sbatch --qos=normal --gres=gpu:2 --wrap true", "alice")
        assert "GS101" in refused.stderr, refused.stderr
        assert whole.run("sbatch --qos=normal --gres=gpu:3090:1 --wrap true", "alice").returncode == 0
        assert whole.run("sbatch --qos=qos_lafferty --gres=gpu:1 --wrap true", "alice").returncode == 0


def with_version(plugin, change):
    """The plugin's bytes, built for another Slurm."""
    data = bytearray(plugin.read_bytes())
    offset, _ = elf.place(plugin, "plugin_version")
    version, = struct.unpack_from("<I", data, offset)
    struct.pack_into("<I", data, offset, change(version))
    return bytes(data)


def install(cluster, name, data):
    """Puts a file into Slurm's plugin directory by rename and gives a command that puts the old one back."""
    folder = cluster.ok("dirname $(find /usr/lib -name spank_gpushare.so)")
    cluster.ok(f"cp {folder}/{name} /tmp/{name}.good")
    cluster.write(f"{folder}/{name}", data)
    return f"cp /tmp/{name}.good {folder}/.new; mv {folder}/.new {folder}/{name}"


def test_a_job_submit_plugin_of_another_micro_release_is_refused(whole):
    built = BUILDS / whole.release / "job_submit_gpushare.so"
    back = install(whole, built.name, with_version(built, lambda version: version + 1))
    try:
        assert restart(whole).returncode != 0
        assert "Incompatible Slurm plugin" in whole.log("slurmctld")
    finally:
        whole.ok(back)
        assert restart(whole).returncode == 0


def test_a_spank_plugin_of_another_release_is_refused(whole):
    built = BUILDS / whole.release / "spank_gpushare.so"
    whole.ok("echo required spank_gpushare.so > /etc/slurm/plugstack.conf")
    try:
        assert whole.run("srun true", "alice").returncode == 0
        micro = install(whole, built.name, with_version(built, lambda version: version ^ 1))
        assert whole.run("srun true", "alice").returncode == 0, "another micro release is all right"
        whole.ok(micro)
        back = install(whole, built.name, with_version(built, lambda version: version + 0x100))
        try:
            refused = whole.run("srun true", "alice")
            assert refused.returncode != 0 and "ncompatible" in refused.stderr, refused.stderr
        finally:
            whole.ok(back)
        assert whole.run("srun true", "alice").returncode == 0
    finally:
        whole.ok("rm /etc/slurm/plugstack.conf")


def test_a_panic_in_job_submit_is_a_refusal(panicking):
    before = panicking.ok("cat /run/slurm/slurmctld.pid")
    refused = panicking.run("sbatch -J panic --wrap true", "alice")
    assert refused.returncode != 0 and "Unspecified error" in refused.stderr, refused.stderr
    assert panicking.run("sbatch -J other --wrap true", "alice").returncode == 0
    assert panicking.run("sbatch --qos=qos_titan --gres=gpu:1 --wrap true", "alice").stderr.count("GS101")
    assert panicking.ok("cat /run/slurm/slurmctld.pid") == before
    assert panicking.run(f"kill -0 {before}").returncode == 0
    log = panicking.log("slurmctld")
    assert "gpushare: internal error in job_submit: asked to by the job's name" in log
    assert "job_submit/src/lib.rs" in log, "the place of the panic is logged"


@pytest.mark.parametrize("hook", ["user_init", "task_post_fork", "task_init"])
@pytest.mark.parametrize("kind", ["batch", "srun"])
def test_a_panic_in_a_step_fails_the_job_and_not_the_node(panicking, hook, kind):
    asked = f"--export=ALL,GPUSHARE_TEST_PANIC={hook}"
    if kind == "batch":
        job = panicking.sbatch("--gres=mps:40", asked, script="echo ran")
        assert panicking.finished(job) == "FAILED"
        output = panicking.output(job)
    else:
        result = panicking.run(["srun", "--gres=mps:40", asked, "echo", "ran"], "alice")
        assert result.returncode != 0
        output = result.stdout + result.stderr
    assert "ran" not in output.split("\n"), output
    assert "gpushare" in output, "the user is told who failed the job"
    panicking.cancel_all()
    assert panicking.node_state().split()[0] == "idle", panicking.node_state()
    assert f"internal error in slurm_spank_{hook}" in panicking.log("slurmd") + output


def test_a_panic_at_the_end_of_a_step_is_harmless(panicking):
    result = panicking.run(["srun", "--gres=mps:40", "--export=ALL,GPUSHARE_TEST_PANIC=exit", "echo", "ran"], "alice")
    assert result.returncode == 0 and "ran" in result.stdout, result.stderr
    panicking.cancel_all()
    assert panicking.node_state().split()[0] == "idle"
