# SPDX-License-Identifier: GPL-2.0-or-later
"""What may be in the ledger's place, and what slurmd may do with prologs and epilogs."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import time

from bare_node import LEDGER, PROGRAMS, RUN, Node, as_user, fill, read_only

JOBS = LEDGER / "jobs"


def says(lines, *parts):
    """One line, and what it must hold."""
    assert len(lines) == 1 and all(part in lines[0] for part in parts), (lines, parts)


def test_requeued():
    """A start while the entry of the one before lives counts once; a late epilog leaves it, its own takes it back."""
    node = Node()
    node.prolog(7, 80)
    node.prolog(7, 80, restart=1)
    assert node.entries() == {7: (1, 0, 80)}
    assert node.prolog(7, 80, restart=1) == [], "the same start again changes nothing"
    node.epilog(7, restart=0)
    assert node.entries() == {7: (1, 0, 80)}
    node.epilog(7, restart=1)
    node.check_empty()


def test_epilog_twice_or_alone():
    node = Node()
    assert node.epilog(7) == [] and not LEDGER.exists(), "no prolog, nothing to do"
    node.prolog(7)
    says(node.epilog(7), "job 7: share released")
    assert node.epilog(7) == []
    node.check_empty()


def test_rebooted():
    node = Node(units=40)
    node.prolog(7)
    node.prolog(8)
    subprocess.run(["umount", RUN], check=True)
    node.mount("16m")
    assert node.entries() == {} and node.fits() == 2


def test_damaged():
    """Set aside with a line; the others' entries count."""
    node = Node()
    node.prolog(1)
    good = (JOBS / "1").read_text()
    (JOBS / "2").write_text(good[:-5])
    (JOBS / "3").write_bytes(os.urandom(4000))
    (JOBS / "4").write_text("\n")
    (JOBS / "5").mkdir()
    (JOBS / "5/x").touch()
    (JOBS / "6").symlink_to("/etc/passwd")
    os.mkfifo(JOBS / "7")
    (JOBS / "8").write_text(good)
    (JOBS / "nine").write_text(good)
    assert len(node.status()["garbage"]) == 8
    lines = node.prolog(10)
    assert sum("set aside" in line for line in lines) == 8, lines
    assert node.entries() == {1: (0, 0, 40), 10: (0, 1, 40)} and len(os.listdir(LEDGER / "garbage")) == 8
    assert (LEDGER / "garbage/3.0").stat().st_size == 4000, "nothing is lost"


def test_damaged_in_use():
    """An entry that is damaged under its job is set aside with a line, and nothing else is."""
    node = Node(gpus=1)
    node.prolog(1)
    node.prolog(2)
    (JOBS / "1").write_text("garbage")
    lines = node.prolog(3)
    assert "set aside" in lines[1] and set(node.entries()) == {2, 3}, lines
    node.prolog(4)
    assert "40 of its 80 units free" in node.failure(4)
    assert node.epilog(1) == [] and set(node.entries()) == {2, 3}


def test_of_another_version():
    """Not read, not lost, and no share is placed beside it until its job is gone."""
    node = Node()
    node.prolog(1)
    (JOBS / "2").write_text("gpushare-ledger 6\nsomething=else\n")
    says(node.prolog(3), "'2': another version of gpushare")
    assert set(node.entries()) == {1} and (JOBS / "2").exists() and "another version" in node.failure(3)
    says(node.epilog(2), "job 2")
    node.prolog(3)
    assert set(node.entries()) == {1, 3} and node.failure(3) is None


def test_one_file_says_all():
    """What is true of a job is in one file, whether it has a GPU, can't have one, or has failed with one."""
    node = Node()
    node.prolog(1)
    node.prolog(2, 81)
    text = (JOBS / "1").read_text()
    for line in ("gpushare-ledger 5", "job=1", "state=placed", "user=2001", "holding=share", "units=40", "end"):
        assert line in text.splitlines(), text
    assert "env=GPUSHARE_UNITS=40" in text and re.search("^gpu=0 .* /dev/", text, re.M), text
    text = (JOBS / "2").read_text()
    assert "state=failed\nreason=it asks for 81 units" in text and "holding=nothing" in text, text
    assert sorted(os.listdir(LEDGER)) == ["counts", "jobs", "lock", "reconciled"]


def test_other_things():
    """Directories that are files or links, a temporary file that is a directory, a lock that is one,
    a /run that others can change."""
    for name in ("jobs", "failed", "witness", "env", "garbage"):
        node = Node()
        LEDGER.mkdir()
        (LEDGER / name).write_text("x")
        node.prolog(1)
        node.prolog(2, 81)
        assert set(node.entries()) == {1} and node.failure(2), (name, node.status())
    node = Node()
    node.prolog(1)
    (RUN / "decoy").write_text("x")
    for make in (lambda path: path.mkdir(), lambda path: path.symlink_to(RUN / "decoy"), lambda path: os.mkfifo(path)):
        make(JOBS / "2")
        node.prolog(2)
        assert set(node.entries()) == {1, 2}
        node.epilog(2)
        assert set(node.entries()) == {1}
    assert (RUN / "decoy").read_text() == "x", "no link is followed"
    for make in (lambda path: path.mkdir(), lambda path: path.symlink_to(RUN / "decoy")):
        node = Node()
        LEDGER.mkdir()
        make(LEDGER / "lock")
        says(node.prolog(1), "lock /run/gpushare/lock")
        assert node.entries() == {}
    node = Node()
    LEDGER.mkdir()
    LEDGER.chmod(0o777)
    says(node.prolog(1), "must be a directory that only root can change")
    node = Node()
    (RUN / "elsewhere").mkdir()
    LEDGER.symlink_to(RUN / "elsewhere")
    says(node.prolog(1), "must be a directory that only root can change")
    assert not os.listdir(RUN / "elsewhere")
    node = Node()
    LEDGER.write_text("x")
    says(node.prolog(1), "must be a directory")


def test_counted():
    """Every placement and failure once; a file of counts that is damaged, or none,
    counts from 0 and disturbs nobody."""
    node = Node()
    node.prolog(1)
    node.prolog(1)
    node.prolog(2)
    node.prolog(3, 81)
    node.prolog(3, 81)
    counts = LEDGER / "counts"
    assert node.counts() == {"share": 2, "whole": 0, "overcommitted": 0, "failed": 1}
    assert counts.stat().st_mode & 0o777 == 0o644
    good = counts.read_bytes()
    (RUN / "decoy").write_text("x")
    damages = [good[:-1], b"", good + b"x", good[:20] + os.urandom(len(good)), good.replace(b"tally 1", b"tally 2")]
    for number, damage in enumerate(damages):
        counts.write_bytes(damage)
        assert len(node.prolog(10 + number, 1)) == 1 and node.counts()["share"] == 1, damage[:80]
    for make in (
        lambda: counts.mkdir(), lambda: counts.symlink_to(RUN / "decoy"), lambda: os.mkfifo(counts),
        lambda: counts.write_bytes(os.urandom(len(good))), lambda: counts.write_bytes(bytes(1 << 20)),
    ):
        counts.unlink()
        make()
        assert len(node.prolog(30, 1)) == 1
        node.epilog(30)
        assert len(node.prolog(30, 1)) == 1 and node.counts()["share"] == 1, "set aside, and counted from then on"
        node.epilog(30)
    assert (RUN / "decoy").read_text() == "x", "no link is followed"


def test_gpustat():
    """jobstats' files: one for each GPU that one job has, whatever else happens; they go with the key."""
    node = Node(more="Nvml=off\nJobstatsDir=/run/gpustat\n")
    folder = RUN / "gpustat"

    def files():
        return {path.name: path.read_text() for path in folder.iterdir()}

    node.prolog(1)
    node.prolog(2, user=2002)
    assert files() == {"0": "1 2001\n", "1": "2 2002\n"} and (folder / "0").stat().st_mode & 0o777 == 0o644
    node.prolog(3)
    assert files() == {"1": "2 2002\n"}, "of two jobs none is named"
    node.epilog(1)
    assert files() == {"0": "3 2001\n", "1": "2 2002\n"}
    (folder / "1").unlink()
    (folder / "1").mkdir()
    says(node.prolog(3, restart=1)[1:], "JobstatsDir", "gpustat/1")
    (folder / "1").rmdir()
    node.reconfigure("JobstatsDir", "#")
    node.prolog(4)
    assert files() == {} and not (LEDGER / "gpustat").exists()
    for job, restart in ((2, 0), (3, 1), (4, 0)):
        node.epilog(job, restart=restart)
    node.check_empty()


def test_dcgm():
    """dcgm-exporter's files: a line for each job on a GPU. Whatever stands in their place, no job fails for it."""
    node = Node(more="Nvml=off\nDcgmJobMappingDir=/run/mapping\n")
    folder = RUN / "mapping"

    def files():
        return {path.name: path.read_text() for path in folder.iterdir()}

    node.prolog(1)
    node.prolog(2, user=2002)
    assert files() == {"0": "1\n", "1": "2\n"} and (folder / "0").stat().st_mode & 0o777 == 0o644
    assert folder.stat().st_mode & 0o777 == 0o755, "the exporter needn't be root"
    node.prolog(13)
    assert files() == {"0": "1\n13\n", "1": "2\n"}
    node.epilog(1)
    assert files() == {"0": "13\n", "1": "2\n"}
    for restart, damage in enumerate((b"", b"\0" * 5000, b"1\n" * 100_000), 1):
        (folder / "0").write_bytes(damage)
        (folder / "7").write_bytes(damage)
        node.prolog(13, restart=restart)
        assert files() == {"0": "13\n", "1": "2\n"}, damage[:10]
    (folder / "0.1").write_text("MIG's\n")
    (folder / "1").unlink()
    (folder / "1").mkdir()
    says(node.prolog(13, restart=4)[1:], "DcgmJobMappingDir", "mapping/1")
    assert node.entries().keys() == {2, 13}
    shutil.rmtree(folder)
    node.prolog(13, restart=5)
    assert files() == {"0": "13\n", "1": "2\n"}
    shutil.rmtree(folder)
    folder.symlink_to("/tmp")
    says(node.prolog(13, restart=6)[1:], "DcgmJobMappingDir")
    folder.unlink()
    node.epilog(2)
    node.reconfigure("DcgmJobMappingDir", "#")
    node.prolog(4)
    assert files() == {} and not (LEDGER / "dcgm").exists()
    for job, restart in ((13, 6), (4, 0)):
        node.epilog(job, restart=restart)
    node.check_empty()


def test_full():
    """However many pages are left: a whole entry, or the job fails and has none; no other job notices."""
    for pages in range(9):
        node = Node(size="40k")
        node.prolog(1)
        fill(RUN / "fill")
        os.truncate(RUN / "fill", max((RUN / "fill").stat().st_size - 4096 * pages, 0))
        lines = node.prolog(2)
        placed = 2 in node.entries()
        assert node.entries()[1] == (0, 0, 40) and node.status()["garbage"] == [] and not (LEDGER / "new").exists()
        assert placed or "No space left" in lines[0], lines
        assert placed == (node.failure(2) is None), "Slurm's own variables don't tell the steps of the share under own"
        assert len(lines) == 1, lines
        node.epilog(1)
        assert 1 not in node.entries(), "room can be made on a full disk"
        (RUN / "fill").unlink()
        node.epilog(2)
        assert node.fits() == 4
        node.check_empty()
    assert placed


def test_unwritable():
    node = Node()
    node.prolog(1)
    with read_only():
        says(node.prolog(2), "Read-only file system")
        says(node.epilog(1), "Read-only file system")
        assert node.entries() == {1: (0, 0, 40)}
    says(node.epilog(1), "job 1")
    node = Node()
    with read_only():
        says(node.prolog(2), "Read-only file system")
        assert node.epilog(1) == []


def test_held_lock():
    """Whoever holds the lock for ever, the prolog ends in time."""
    node = Node()
    node.prolog(1)
    with open(LEDGER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        start = time.monotonic()
        says(node.prolog(2), "was held by others for 10 s")
        assert time.monotonic() - start < 15
    node.prolog(2)
    assert set(node.entries()) == {1, 2}


def test_tight_umask():
    """Users' steps read the ledger, whatever umask slurmd has."""
    node = Node()
    before = os.umask(0o077)
    try:
        node.prolog(1)
        node.prolog(2, 81)
    finally:
        os.umask(before)
    for path, mode in (("", 0o755), ("jobs", 0o755), ("jobs/1", 0o644), ("jobs/2", 0o644)):
        assert (LEDGER / path).stat().st_mode & 0o777 == mode, path


def test_over():
    """A job whose extern step is gone, and that has no other, is dropped when it is in the way;
    one that lives never."""
    node = Node(gpus=1)
    node.prolog(1, 40)
    node.prolog(2, 40)
    for job in (1, 2):
        node.is_over(job)
    # The process's name counts, and its title.
    shutil.copy("/bin/sleep", LEDGER.parent / "slurmstepd")
    with subprocess.Popen(["bash", "-c", f"exec -a 'slurmstepd: [2.batch]' {LEDGER.parent}/slurmstepd 60"]) as step:
        time.sleep(0.2)
        lines = node.prolog(3, 40)
        assert any("job 1: it has ended; its share is released before its epilog" in line for line in lines), lines
        assert set(node.entries()) == {2, 3}
        node.prolog(4, 40)
        assert set(node.entries()) == {2, 3}
        step.kill()
    node.epilog(4)
    node.prolog(4, 40)
    assert set(node.entries()) == {3, 4}


def test_shown():
    """`gpushare status` in every form, whoever asks and whatever is broken."""
    node = Node()
    node.prolog(1, user=2001)
    node.prolog(2, user=2002)
    node.prolog(3, 81, user=2001)

    def status(*options, user=0, code=0, conf="gpushare.conf"):
        command = as_user(user, [PROGRAMS / "gpushare", "status", *options, "--conf", node.site / conf])
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == code, done
        return done

    (RUN / "bin").mkdir()
    assert "job 3 failed here" in status().stdout and "2002" in status().stdout
    told = json.loads(status("--json").stdout)
    assert len(told["jobs"]) == 2, told
    assert [told["gpus"][0][name] for name in ("units", "free", "capacity", "shares")] == [40, 40, 80, 1], told
    subprocess.run(["install", "-m755", PROGRAMS / "gpushare", RUN / "bin/gpushare"], check=True)
    own = subprocess.run(
        as_user(2002, [RUN / "bin/gpushare", "status", "--json", "--conf", node.site / "gpushare.conf"]),
        capture_output=True, text=True, check=True)
    own = json.loads(own.stdout)
    assert [job["job"] for job in own["jobs"]] == [2] and [gpu["units"] for gpu in own["gpus"]] == [40, 40], own
    assert own["failures"] == [] and own["own_jobs_only"] is True
    (node.site / "broken.conf").write_text("Placement=sideways\n")
    for conf in ("broken.conf", "missing.conf"):
        done = status("--json", conf=conf)
        assert len(json.loads(done.stdout)["jobs"]) == 2 and done.stderr.startswith("gpushare: "), done
    subprocess.run(["umount", RUN], check=True)
    assert "no shares on this node" in status().stdout
    assert json.loads(status("--json").stdout)["jobs"] == []
    node.mount("16m")
    LEDGER.mkdir()
    JOBS.write_text("x")
    assert "gpushare: reading" in status(code=2).stderr


def test_by_hand():
    """Without slurmd's environment it says what is missing, and fails nothing."""
    for variables, said in (
        ({}, "SLURM_JOB_ID is not set"), ({"SLURM_JOB_ID": "7"}, "job 7: SLURM_JOB_UID is not set"),
    ):
        done = subprocess.run([PROGRAMS / "gpushare-prolog"], env=variables, capture_output=True, text=True)
        assert done.returncode == 0 and f"gpushare-prolog: {said}" in done.stderr, done


def test_forgotten():
    """slurmctld 24.11 gives jobs that it starts first no share: nothing is placed, and the log says so."""
    node = Node()
    node.reconfigure("own", "follow")
    node.reconfigure("ShareGRES=gpushare", "ShareGRES=mps")
    noted = node.variables(7) | {"SPANK_GPUSHARE_SHARE": "mps:40"}
    done = subprocess.run([PROGRAMS / "gpushare-prolog"], env=noted, capture_output=True, text=True)
    said = "job 7: it asked for mps:40, but Slurm gave it none on this node"
    assert done.returncode == 0 and said in done.stderr, done
    done = subprocess.run([PROGRAMS / "gpushare-prolog"], env=node.variables(8), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), "a job without a share"
    assert node.entries() == {}


def test_nobody_knows_whether():
    """A step's question about a job without an entry, where Slurm's squeue isn't installed."""
    node = Node()
    asks = lambda: subprocess.run(
        [PROGRAMS / "gpushare-prolog", "missed"], env=node.variables(7), capture_output=True, text=True, check=True
    ).stdout
    assert "squeue" in asks(), "the job may have a share"
    node.reconfigure("own", "sideways")
    assert asks() == "no share\n", "a mistake in gpushare.conf doesn't end every job"
