# SPDX-License-Identifier: GPL-2.0-or-later
"""MPS daemons and what can be wrong with NVIDIA's program, with a user, and with the directories: prolog and epilog end
with 0 in time, the job fails with one line (or runs, with OnMpsFailure=run), and nothing is left."""

import contextlib
import fcntl
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from bare_node import RUN, STRACE, as_user, calls_in, fill, finished
from fake_nvml import UNINITIALISED, library, says, told
from mps_node import DRIVER, LIMITS, MPS, UNKNOWN, USERS, MpsNode, alive, stand_still, stat, strangers
from waiting import wait

ALICE, BOB = USERS[0], USERS[1]


def refused(node, *words, job=7, user=ALICE):
    """The job fails with one line; its epilog leaves nothing."""
    lines = node.prolog(job, user=user)
    about = [line for line in lines if "no MPS daemon: " in line]
    assert len(about) == 1 and all(word in about[0] for word in words), (lines, words)
    reason = node.failure(job)
    assert reason and all(word in reason for word in words), (reason, words)
    node.epilog(job, user=user)
    node.check_empty()
    return about[0].partition("no MPS daemon: ")[2]


def started(node, job=7, user=ALICE, units=40):
    """The directory and (PID, start) of a job's daemon, which works."""
    lines = node.prolog(job, units, user=user)
    assert node.failure(job) is None, lines
    folder = node.folder(job)
    daemon = node.daemon(folder)
    assert daemon, lines
    return folder, daemon


# --- as it should be -----------------------------------------------------------------------------------------------


def test_served(each_control):
    """A daemon a user and GPU, with the limits of its jobs, from the first job to the last."""
    node = MpsNode(each_control)
    folder, daemon = started(node, 1)
    assert node.ask(folder, LIMITS, ALICE) == ["100.0", "3G"], "4000 MiB, as NVIDIA shows it"
    assert stat(daemon[0])[1] == daemon[0], "a session of its own"
    other, bobs = started(node, 2, BOB)
    assert other != folder
    third, same = started(node, 3)
    assert (third, same) == (folder, daemon)
    node.epilog(1)
    assert alive(*daemon) and alive(*bobs)
    node.epilog(3)
    assert not alive(*daemon) and alive(*bobs) and not folder.exists()
    node.epilog(2)
    node.check_empty()


def test_threads(each_control):
    """Limited where no server of another user's takes turns on the GPU: to the largest of the jobs' shares."""
    node = MpsNode(each_control, 1)
    node.configure("UserMix=deny")
    folder, daemon = started(node, 1, units=20)
    assert node.ask(folder, LIMITS, ALICE)[0] == "25.0"
    assert started(node, 2) == (folder, daemon) and node.ask(folder, LIMITS, ALICE)[0] == "50.0"
    node.epilog(1)
    node.epilog(2)
    node.check_empty()


def test_limits_of_a_server(control):
    """A job with a larger share also changes the limits of the server that the daemon has."""
    node = MpsNode(control, 1, how="logged")
    node.configure("UserMix=deny")
    node.server("live")
    asked = RUN / "nvidia/asked"
    asked.touch()
    asked.chmod(0o666)
    folder, daemon = started(node, 1, units=20)
    node.ask(folder, f"start_server -uid {ALICE}\n", ALICE)
    server = int(wait(lambda: node.ask(folder, "get_server_list\n", ALICE), "a server")[0])
    assert started(node, 2) == (folder, daemon)
    limits = f"set_active_thread_percentage {server} 50\nset_device_pinned_mem_limit {server} 0 4000M\n"
    assert limits in asked.read_text(), asked.read_text()
    node.epilog(1)
    node.epilog(2)
    node.check_empty()


def test_live_servers(each_control):
    """Servers that no SIGTERM ends go with the last job, and are of the user."""
    for how in ("live", "stubborn"):
        node = MpsNode(each_control)
        node.server(how)
        folder, daemon = started(node)
        node.ask(folder, f"start_server -uid {ALICE}\n", ALICE)
        server = int(wait(lambda: node.ask(folder, "get_server_list\n", ALICE), "a server")[0])
        assert os.stat(f"/proc/{server}").st_uid == ALICE
        node.epilog(7)
        assert not Path(f"/proc/{server}/exe").exists() or stat(server)[0] in "ZX"
        node.check_empty()


def test_killed(each_control):
    """A daemon killed between two jobs is started anew; its servers go with the last job all the same."""
    node = MpsNode(each_control, 1)
    node.server("stubborn")
    folder, daemon = started(node, 1, units=20)
    node.ask(folder, f"start_server -uid {ALICE}\n", ALICE)
    server = int(wait(lambda: node.ask(folder, "get_server_list\n", ALICE), "a server")[0])
    os.kill(daemon[0], signal.SIGKILL)
    wait(lambda: not alive(*daemon), "its death")
    lines = node.prolog(2, 40, user=ALICE) + node.prolog(3, 20, user=ALICE)
    assert len([line for line in lines if "had to be restarted" in line]) == 1, lines
    assert node.daemon(folder) not in (None, daemon) and node.ask(folder, LIMITS, ALICE) == ["100.0", "3G"]
    assert stat(server)[0] not in "ZX", "the first job's programs may be at work there"
    for job in (1, 2, 3):
        node.epilog(job)
    node.check_empty()


def test_killed_again_and_again(control):
    """However many daemons a user kills, none of their servers outlives his last job."""
    node = MpsNode(control, 1, "MpsTimeout=20000")
    node.server("stubborn")
    folder, daemon = started(node, 1, units=20)
    for job in range(2, 22):
        node.ask(folder, f"start_server -uid {ALICE}\n", ALICE)
        wait(lambda: node.ask(folder, "get_server_list\n", ALICE), "a server")
        os.kill(daemon[0], signal.SIGKILL)
        wait(lambda: not alive(*daemon), "its death")
        lines = node.prolog(job, 20, user=ALICE)
        daemon = node.daemon(folder)
        assert daemon, (job, lines)
        node.epilog(job)
    node.epilog(1)
    node.check_empty()


def test_moved(control):
    """Daemons go with their last job also where MpsDir has another value by then."""
    node = MpsNode(control, 1)
    folder, daemon = started(node, 1)
    node.configure("MpsDir=/run/elsewhere")
    node.prolog(2, 20, user=ALICE)
    other = re.findall(r"^process=(\d+) (\d+)$", (RUN / "elsewhere" / folder.name / "state").read_text(), re.M)[-1]
    assert alive(*daemon) and alive(*map(int, other))
    node.epilog(1)
    node.epilog(2)
    assert not alive(*daemon) and not alive(*map(int, other)) and not os.listdir(RUN / "elsewhere")
    node.check_empty()


def test_another_version(control):
    """Daemons stay while the ledger has entries that can't be read: their jobs may be at work there."""
    node = MpsNode(control, 1)
    folder, daemon = started(node, 1)
    entry = RUN / "gpushare/jobs/1"
    text = entry.read_text()
    entry.write_text(text.replace("gpushare-ledger 5", "gpushare-ledger 99"))
    node.epilog(2)
    assert alive(*daemon)
    entry.write_text(text)
    node.epilog(1)
    node.check_empty()


# --- NVIDIA's program ----------------------------------------------------------------------------------------------


def test_missing():
    node = MpsNode(None)
    refused(node, str(node.control))
    node.control.mkdir()
    refused(node, str(node.control))
    node.control.rmdir()
    node.control.write_text("not a program\n")
    refused(node, str(node.control))
    node.control.chmod(0o755)
    refused(node, str(node.control))
    node.configure("OnMpsFailure=run")
    assert any("no MPS daemon" in line for line in node.prolog(8, user=ALICE))
    assert 8 in node.entries() and node.failure(8) is None
    node.epilog(8)
    node.check_empty()


FAULTY = {
    "hang": "no answer in 2000 ms",
    "exit": "Cannot access CUDA_MPS_PIPE_DIRECTORY=",
    "silent": "started no daemon: it printed nothing",
    "no-daemon": "started no daemon",
    "dying": "",
    "nonsense": "",
    "endless": "printed more than",
    "deaf": "did not answer in",
    "ignore-limits": "does not accept the share's limits",
}


@pytest.mark.parametrize("how, word", FAULTY.items())
def test_faulty(control, how, word):
    """A program that hangs, ends, says nothing, lies, dies or talks without end."""
    node = MpsNode(control, how=how)
    refused(node, word)
    node.configure("OnMpsFailure=run")
    assert any("no MPS daemon" in line for line in node.prolog(8, user=ALICE))
    assert 8 in node.entries() and node.failure(8) is None
    assert not (MPS / f"0.{ALICE}/pipe").exists(), "its programs would look for a daemon there"
    node.epilog(8)
    node.check_empty()


@pytest.mark.parametrize("mode", ("default", "exclusive"))
def test_fatal_error(control, mode):
    """A program's illegal access breaks its server for all its clients, as long as one of them lives: a notebook, for
    hours. The user's next job gets a daemon of its own, and the old one ends with the last job."""
    fake, exclusive = library(), mode == "exclusive"
    settings = (f"Nvml={fake}", "ComputeMode=exclusive", "UserMix=deny") if exclusive else ()
    node = MpsNode(control, 1, *settings, how="fault")
    says(fake, f"gpu {node.uuid(0)} 0 total=40960 used=0 utilization=0 mode=0\n")
    folder, old = started(node, 1)
    (folder / "pipe/fault").touch()
    lines = node.prolog(2, 20, user=ALICE)
    assert any("had to be restarted: MPS server 4242 had a fatal error" in line for line in lines), lines
    new = node.daemon(folder)
    assert node.failure(2) is None and new and new != old and alive(*new)
    assert alive(*old) != exclusive, "in that mode the GPU has room for one server"
    lines = node.prolog(3, 10, user=ALICE)
    assert node.daemon(folder) == new and not any("restarted" in line for line in lines), lines
    node.epilog(1)
    node.epilog(3)
    assert alive(*new)
    node.epilog(2)
    assert not alive(*old) and not alive(*new)
    node.check_empty()


def test_a_socket_that_its_user_has_removed(control):
    """The daemon lives, and a job's program would find none: the next job has a daemon of its own."""
    node = MpsNode(control, 1)
    folder, old = started(node, 1)
    (folder / "pipe/control").unlink()
    lines = node.prolog(2, 20, user=ALICE)
    assert any("no longer has a socket" in line for line in lines), lines
    new = node.daemon(folder)
    assert node.failure(2) is None and new and new != old and alive(*new) and (folder / "pipe/control").is_socket()
    assert alive(*old), "the first job's programs go on"
    node.epilog(1)
    node.epilog(2)
    assert not alive(*old) and not alive(*new)
    node.check_empty()


def test_heal_starts_no_daemon_that_the_job_does_not_look_for(control):
    """MpsDir has changed since the job's start; with the old value its daemon is started again."""
    node = MpsNode(control, 1)
    folder, old = started(node, 1)
    os.kill(old[0], signal.SIGKILL)
    (folder / "pipe/control").unlink()
    wait(lambda: not alive(*old), "the daemon's end")

    def heal():
        command = [node.programs / "gpushare-prolog", "heal"]
        subprocess.run(command, env=node.variables(1, user=ALICE), check=True, capture_output=True)

    node.configure("MpsDir=/run/elsewhere")
    heal()
    assert strangers() == {}
    node.configure()
    heal()
    assert alive(*node.daemon(folder)) and (folder / "pipe/control").is_socket()
    node.epilog(1)
    node.check_empty()


def test_refuses_quit(control):
    """Then it is ended without being asked."""
    node = MpsNode(control, how="refuse-quit")
    folder, daemon = started(node)
    lines = node.epilog(7)
    assert not alive(*daemon) and not any("can't be ended" in line for line in lines), lines
    node.check_empty()


def test_shows_limits_otherwise(control):
    """A driver of tomorrow: what is a number with a unit is compared;
    what can't be understood is no failure, and is told."""
    for how, said in (
        ("other-form", None),
        ("unclear", "'as configured' for 4000M"),
        ("unlimited", "refused"),
        ("other-limit", "refused"),
    ):
        node = MpsNode(control, how=how)
        if said == "refused":
            refused(node, "does not accept the share's limits")
            continue
        lines = node.prolog(7, user=ALICE)
        assert node.failure(7) is None and node.daemon(node.folder(7)), (how, lines)
        told = [line for line in lines if "may not limit memory" in line]
        assert len(told) == (said is not None) and all(said in line for line in told), (how, lines)
        node.epilog(7)
        node.check_empty()


def test_first_after_boot(control):
    """/proc has no UUID before NVML has initialised the GPU, which takes longer than a prolog else waits."""
    fake = library()
    for delay in (0, 1000):
        node = MpsNode(control, 2, f"Nvml={fake}", "NvmlTimeout=100")
        for file in DRIVER.glob("nvidia/gpus/*/information"):
            file.write_text(re.sub("GPU-.*", UNINITIALISED, file.read_text()))
        state = "".join(f"gpu {node.uuid(gpu)} {gpu} total=40960 used=0 utilization=0\n" for gpu in (0, 1))
        says(fake, state + f"delay nvmlInit_v2 {delay}\n")
        folder, daemon = started(node)
        environment = Path(f"/proc/{daemon[0]}/environ").read_bytes().split(b"\0")
        assert f"CUDA_VISIBLE_DEVICES={node.uuid(0)}".encode() in environment, environment
        node.epilog(7)
        node.check_empty()


# --- users ---------------------------------------------------------------------------------------------------------


def test_unknown_user(control):
    """One whom no name service of the node knows; one whose home isn't there is nothing special."""
    node = MpsNode(control)
    refused(node, f"has no user {UNKNOWN}", user=UNKNOWN)
    assert not Path("/nonexistent").exists()
    # slurmd has a group of theirs from the credential, as with nss_slurm or use_client_ids.
    variables = node.variables
    node.variables = lambda *job, **more: variables(*job, **more) | {"SLURM_JOB_GID": str(UNKNOWN - 1)}
    _, (daemon, _) = started(node, user=UNKNOWN)
    ids = re.findall(r"^(?:Uid|Gid|Groups):\s+(.*?) *$", Path(f"/proc/{daemon}/status").read_text(), re.M)
    nobody = "\t".join(["65534"] * 4)
    assert ids == ["\t".join([str(UNKNOWN)] * 4), nobody, str(UNKNOWN - 1)], ids
    node.epilog(7)
    node.check_empty()
    started(node)
    node.epilog(7)
    node.check_empty()


def test_stopped(control):
    """A daemon that stands still is ended and started anew where no other job has it; else the job that comes fails."""
    node = MpsNode(control, 1)
    folder, daemon = started(node, 1)
    stand_still(daemon[0])
    lines = node.prolog(4, 40, user=ALICE)
    reason = node.failure(4) or ""
    assert f"MPS daemon {daemon[0]} is in state T" in reason and "jobs that use the daemon: 1" in reason, lines
    assert alive(*daemon), "job 1 has it"
    node.epilog(4)
    # The same job once more, as after a requeue whose epilog was lost: nobody else has the daemon.
    lines = node.prolog(1, 40, user=ALICE, restart=1)
    assert any("had to be restarted" in line for line in lines) and not alive(*daemon), lines
    assert node.daemon(folder) and node.failure(1) is None
    stand_still(node.daemon(folder)[0])
    node.epilog(1, restart=1)
    node.check_empty()


def test_traced(control):
    """A daemon lives outside of the cgroups of its user's jobs:
    its user may not trace it, nor its servers, nor who asks it."""
    node = MpsNode(control, 1)
    node.server("live")
    folder, daemon = started(node)
    node.ask(folder, f"start_server -uid {ALICE}\n", ALICE)
    server = int(wait(lambda: node.ask(folder, "get_server_list\n", ALICE), "a server")[0])
    # ptrace(2): reading a process's environment and attaching to it want the same rights, but for what Yama adds.
    script = (
        "import ctypes, os, sys\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "for pid in map(int, sys.argv[1:]):\n"
        "    attached = libc.ptrace(16, pid, 0, 0) == 0\n"
        "    try: read = bool(open(f'/proc/{pid}/environ', 'rb').read())\n"
        "    except PermissionError: read = False\n"
        "    print(attached, read)\n"
    )
    own = subprocess.Popen(as_user(ALICE, ["sleep", "60"]))
    wait(
        lambda: os.stat(f"/proc/{own.pid}").st_uid == ALICE and "sleep" in Path(f"/proc/{own.pid}/cmdline").read_text(),
        "it",
    )
    try:
        with users_process(ALICE, [sys.executable, "-c", script, str(daemon[0]), str(server), str(own.pid)]) as process:
            lines = process.communicate()[0].splitlines()
    finally:
        own.kill()
        own.wait()
    assert lines[:2] == ["False False"] * 2, lines
    assert lines[2].endswith("True"), f"what could be read of a process of the user's own: {lines}"
    node.epilog(7)
    node.check_empty()


@contextlib.contextmanager
def users_process(user, command):
    with subprocess.Popen(as_user(user, command), stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


HOLD = """
import fcntl, struct, sys, time
lock = open(sys.argv[1], "w")
fcntl.fcntl(lock, fcntl.F_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))
print("held", flush=True)
time.sleep(3600)
"""


# The first thread has ended and another still has the lock: so is a daemon for a moment that was killed.
HALF_DEAD = HOLD.replace("time.sleep(3600)", """
import ctypes, threading
threading.Thread(target=time.sleep, args=(3600,)).start()
ctypes.CDLL(None).pthread_exit(None)
""")


def test_half_dead(control):
    """What is dying is dead: the job that comes gets a daemon, though another job had the one before."""
    node = MpsNode(control, 1)
    folder, daemon = started(node, 1, units=20)
    os.kill(daemon[0], signal.SIGKILL)
    wait(lambda: not alive(*daemon), "its death")
    with users_process(ALICE, [sys.executable, "-c", HALF_DEAD, folder / "pipe/control_lock"]) as process:
        assert process.stdout.readline() == "held\n"
        wait(lambda: stat(process.pid)[0] == "Z", "the end of its first thread")
        lines = node.prolog(2, 20, user=ALICE)
        assert node.failure(2) is None and node.daemon(folder), lines
    for job in (1, 2):
        node.epilog(job)
    node.check_empty()


# Deeper than anybody has open files or a stack for.
DEEP = """
import os
os.chdir("pipe")
for _ in range(100000): os.mkdir("d"); os.chdir("d")
"""


def cleared(node):
    """An epilog removes for a while only; what it leaves is the next one's."""
    def gone():
        if MPS.exists() and os.listdir(MPS):
            node.epilog(3)
        return not MPS.exists() or not os.listdir(MPS)

    wait(gone, "the user's files to be removed")


PRECIOUS = RUN / "precious"
TRICKS = {
    "everything removed": "rm -rf pipe/* log/*",
    "links": f"rm -rf pipe/* log/*; for f in control control_lock log nvidia-cuda-mps-control.pid; do ln -s {PRECIOUS} "
             f"pipe/$f; done; ln -s {PRECIOUS} log/control.log",
    "pipes that nobody writes": "rm -f pipe/*; mkfifo pipe/control_lock pipe/control",
    "folders in the way": "rm -f pipe/*; mkdir -p pipe/control/a/b pipe/control_lock/c; chmod 0 pipe/control/a",
    "closed folders": "chmod 0 pipe log",
    "open folders": "chmod 777 pipe log",
    "many files": "for i in $(seq 2000); do : >pipe/$i; done",
    "a deep tree": f"/usr/bin/python3 -c '{DEEP}'",
    "an immortal name": "rm -f pipe/*; mkdir -p pipe/$(printf %0200d 0)/$(printf %0200d 1)",
}


@pytest.mark.parametrize("kill", (True, False), ids=("daemon killed", "daemon alive"))
@pytest.mark.parametrize("trick", TRICKS)
def test_hostile_user(control, trick, kill):
    """Whatever a user does in his own two directories,
    the node's files stay as they are and his next job is served or fails."""
    node = MpsNode(control)
    PRECIOUS.write_text("root's\n")
    folder, daemon = started(node, 1)
    subprocess.run(as_user(ALICE, ["sh", "-c", TRICKS[trick]]), cwd=folder, check=True, env={"PATH": "/usr/bin:/bin"})
    if kill:
        os.kill(daemon[0], signal.SIGKILL)
        wait(lambda: not alive(*daemon), "its death")
    node.epilog(1)
    cleared(node)
    node.check_empty()
    folder, daemon = started(node, 2)
    node.epilog(2)
    cleared(node)
    assert PRECIOUS.read_text() == "root's\n" and PRECIOUS.stat().st_uid == 0
    PRECIOUS.unlink()
    node.check_empty()


def test_an_impostor_of_no_session_is_not_ended(control):
    node = MpsNode(control, 1)
    folder, daemon = started(node, 1)
    os.kill(daemon[0], signal.SIGKILL)
    with users_process(ALICE, ["/usr/bin/python3", "-c", HOLD, folder / "pipe/control_lock"]) as impostor:
        assert impostor.stdout.readline() == "held\n"
        node.prolog(2, 40, user=ALICE)
        node.epilog(2)
        assert impostor.poll() is None, "its number is not a session's: nobody of it is ended"
        node.epilog(1)
        node.check_no_folder()
    node.check_empty()


# A daemon of the user's own behind the sockets of the real one, in NVIDIA's protocol (seen with 550): it has more
# servers or clients than there can be, and takes its time.
ENDLESS = """
import os, socket, struct, sys, threading, time
pipe, how = sys.argv[1:]
answers = {
    "get_server_list": "1" if how == "clients" else "\\n".join(map(str, range(1, 1001))),
    "get_default_active_thread_percentage": "50.0",
    "get_client_list": "\\n".join(map(str, range(9000000, 9005000))),
    "get_server_status": "ACTIVE",
}
def serve(connection):
    credentials = struct.pack("iii", os.getpid(), os.getuid(), os.getgid())
    connection.sendmsg([b"OUTBHELL\\0"], [(socket.SOL_SOCKET, 2, credentials)])
    connection.recv(100), connection.recv(100)
    while (length := struct.unpack("q", connection.recv(8))[0]):
        word = connection.recv(length).decode().strip("\\0\\n").split()[0]
        if word == "terminate_client":
            return time.sleep(3600)
        if word == "get_server_status":
            time.sleep(0.5)
        text = answers.get(word, "").encode()
        for at in range(0, len(text), 4000):
            connection.send(struct.pack("i", 0) + text[at:at + 4000])
    connection.send(struct.pack("ii", 1, 0))
os.chdir(pipe)
os.unlink("control"), os.unlink("control_privileged")
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind("control"), os.symlink("control", "control_privileged")
listener.listen(50)
print("held", flush=True)
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
"""


@pytest.mark.parametrize("how", ("clients", "servers"))
def test_endless(control, how):
    """Whatever answers in a daemon's stead, and however much and slowly, prolog and epilog end."""
    node = MpsNode(control, 1)
    folder, daemon = started(node, 1)
    with users_process(ALICE, ["/usr/bin/python3", "-c", ENDLESS, folder / "pipe", how]) as impostor:
        assert impostor.stdout.readline() == "held\n"
        said = node.ask(folder, "get_server_list\nget_default_active_thread_percentage\n", ALICE)
        assert said[-1] == "50.0" and "1" in said, f"it speaks as a daemon does: {said}"
        lines = node.prolog(2, 40, user=ALICE)
        assert "jobs that use the daemon: 1" in (node.failure(2) or ""), lines
        node.epilog(2)
        node.epilog(1)
    node.check_empty()


def test_mounts(control):
    """What a user has mounted in his directories (FUSE, which here is a tmpfs) goes with them."""
    node = MpsNode(control, 1)
    folder, daemon = started(node, 1)
    os.kill(daemon[0], signal.SIGKILL)
    wait(lambda: not alive(*daemon), "its death")
    (folder / "pipe/deeper").mkdir()
    for place in ("pipe/deeper", "log", "log", "pipe/log"):
        subprocess.run(["mount", "-t", "tmpfs", "user", folder / place] if place != "pipe/log" else
                       ["mount", "--bind", "/dev/null", folder / place], check=True)
    node.prolog(2, 40, user=ALICE)
    assert node.failure(2) is None and node.daemon(folder)
    subprocess.run(["mount", "-t", "tmpfs", "user", folder / "pipe"], check=True)
    for job in (1, 2):
        node.epilog(job)
    node.check_empty()


# --- directories --------------------------------------------------------------------------------------------------


def test_foreign_folders(control):
    """What only root may change must be so; what lies in a daemon's way there is no reason to follow a link."""
    node = MpsNode(control)
    home = RUN / "home"
    home.mkdir()
    os.chown(home, ALICE, ALICE)
    node.configure(f"MpsDir={home}/mps")
    refused(node, str(home))
    assert os.listdir(home) == []
    home.chmod(0o777)
    os.chown(home, 0, 0)
    refused(node, str(home))
    home.chmod(0o755)
    (home / "elsewhere").mkdir()
    (home / "mps").symlink_to(home / "elsewhere")
    refused(node, f"{home}/mps")
    assert os.listdir(home / "elsewhere") == []
    (home / "mps").unlink()
    (home / "mps").write_text("a file\n")
    refused(node, f"{home}/mps")
    (home / "mps").unlink()
    (home / "mps").mkdir()
    os.chown(home / "mps", ALICE, ALICE)
    refused(node, f"{home}/mps")
    os.chown(home / "mps", 0, 0)
    for make in (
        lambda path: path.symlink_to(home / "elsewhere"),
        lambda path: path.write_text("a file\n"),
        lambda path: (path.mkdir(), os.chown(path, ALICE, ALICE)),
    ):
        folder = home / f"mps/0.{ALICE}"
        make(folder)
        lines = node.prolog(7, user=ALICE)
        assert node.failure(7) and str(folder) in node.failure(7), lines
        assert not os.listdir(home / "elsewhere")
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        else:
            shutil.rmtree(folder)
        node.epilog(7)
    started_at = home / f"mps/0.{ALICE}"
    started_at.mkdir()
    for name in ("pipe", "log", "state", "new"):
        (started_at / name).symlink_to(home / "elsewhere")
    node.prolog(7, user=ALICE)
    assert node.failure(7) is None and node.daemon(started_at)
    assert not (started_at / "pipe").is_symlink() and os.listdir(home / "elsewhere") == []
    node.epilog(7)
    assert os.listdir(home / "mps") == []
    node.check_empty()


def test_damaged_state(control):
    """The daemon is found again by its lock."""
    for text in (None, "", "garbage", "gpushare-mps 1\nprocess=1 1\nend\n", "gpushare-mps 2\nend\n"):
        node = MpsNode(control, 1)
        folder, daemon = started(node, 1)
        (folder / "state").unlink()
        if text is not None:
            (folder / "state").write_text(text)
        node.prolog(2, 40, user=ALICE)
        assert node.failure(2) is None and node.daemon(folder) == daemon, text
        (folder / "state").write_text(text or "")
        node.epilog(1)
        node.epilog(2)
        assert not alive(*daemon), text
        node.check_empty()


def test_another_boot(control):
    """MpsDir may outlive a boot. Then a daemon's number is that of another session, whose leader may be gone."""
    node = MpsNode(control, 1)
    folder, daemon = started(node, 1)
    state = (folder / "state").read_text()
    os.kill(daemon[0], signal.SIGKILL)
    shutil.rmtree(RUN / "gpushare/jobs")
    said = subprocess.run(
        ["setsid", "sh", "-c", "sleep 100 >/dev/null & echo $$ $!"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    session, other = map(int, said.split())
    try:
        state = re.sub("boot=.*", "boot=another", re.sub("process=.*", f"process={session} 1", state))
        (folder / "state").write_text(state)
        assert started(node, 2)[1] and stat(other), state
        node.epilog(2)
        assert stat(other), state
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(other, signal.SIGKILL)
    wait(lambda: not stat(other), "its end")
    node.check_empty()


def test_no_uuid(control):
    node = MpsNode(control)
    for file in Path("/proc/driver/nvidia/gpus").glob("*/information"):
        file.write_text("Model: \t\t NVIDIA A40\nGPU UUID: \t GPU-????????-????-????-????-????????????\n")
    refused(node, "no UUID")


def test_full(control):
    """A /run that has no room left fails the job that comes, and leaves the daemons that are there alone."""
    node = MpsNode(control)
    folder, daemon = started(node, 1)
    fill(RUN / "fill")
    lines = node.prolog(2, user=BOB)
    assert 2 not in node.entries() or node.failure(2), lines
    node.epilog(2)
    assert alive(*daemon)
    (RUN / "fill").unlink()
    node.epilog(2)
    node.epilog(1)
    node.check_empty()


@pytest.mark.parametrize("limit", ["size=128k", "nr_inodes=40,size=1m"])
def test_full_of_a_users_files(control, limit):
    """A user who fills MpsDir through their own directories stops nobody once their last job is over."""
    node = MpsNode(control)
    MPS.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"{limit},mode=755", "none", MPS], check=True)
    try:
        folder, daemon = started(node, 1)
        for number in range(100):
            with contextlib.suppress(OSError):
                (folder / f"log/{number}").touch()
        with contextlib.suppress(OSError):
            fill(folder / "log/0")
        lines = node.epilog(1)
        assert not alive(*daemon) and not folder.exists(), lines
        node.check_no_daemons()
        started(node, 2, BOB)
        node.epilog(2)
        node.check_no_daemons()
    finally:
        subprocess.run(["umount", "-l", MPS], check=True)
    node.check_empty()


def test_held_lock(control):
    """Whoever holds a daemon's lock for ever, the prolog ends in time, and nobody else's job waits."""
    node = MpsNode(control, 1)
    folder, daemon = started(node, 1, units=20)
    with open(folder / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lines = node.prolog(2, 20, user=ALICE)
        assert "locked by another process for 10000 ms" in (node.failure(2) or ""), lines
        started(node, 3, BOB)
        node.epilog(3)
    for job in (1, 2):
        node.epilog(job)
    node.check_empty()


def test_turned_off(control):
    """Daemons of before go with their last job, whatever gpushare.conf says by then."""
    node = MpsNode(control)
    folder, daemon = started(node)
    node.configure("Mps=off")
    node.epilog(7)
    assert not alive(*daemon)
    node.check_empty()
    folder, daemon = started(node) if node.configure() is None else None
    (node.site / "gpushare.conf").write_text("Placement=sideways\n")
    node.epilog(7)
    assert not alive(*daemon)
    node.configure()
    node.check_empty()


# --- at the worst moment -------------------------------------------------------------------------------------------


def test_handed_over(control):
    """An epilog that has seen no job any more, and waits for the lock while the next job's prolog is done:
    that has won."""
    node = MpsNode(control, 1)
    folder, daemon = started(node, 1)
    slow = [*STRACE, "-o", "/dev/null", "--inject=flock:delay_enter=1000000"]
    epilog = node.start("gpushare-epilog", 1, before=slow)
    wait(lambda: 1 not in node.entries(), "the first job's entry to go")
    assert started(node, 2)[1] == daemon
    assert finished(epilog)[0].startswith("gpushare-epilog: job 1: share released")
    assert alive(*daemon), "the epilog has looked again"
    node.epilog(2)
    node.check_empty()


def test_handed_over_while_it_ends(control):
    """An epilog that is killed while its program tells the daemon to go:
    the next job doesn't get a daemon that is going."""
    node = MpsNode(control, 1, "MpsTimeout=20000", how="slow-quit")
    folder, daemon = started(node, 1)
    epilog = node.start("gpushare-epilog", 1)
    wait(
        lambda: any("quit" in command or "sleep 1" in command for command in strangers().values()), "quit", pause=0.001
    )
    epilog.kill()
    epilog.communicate()
    folder, second = started(node, 2)
    time.sleep(2)
    assert alive(*second), "what the first job's epilog has sent has ended the second job's daemon"
    assert node.ask(folder, LIMITS, ALICE) == ["100.0", "3G"]
    node.epilog(2)
    node.check_empty()


def test_waits_for_its_end(control):
    """A prolog waits for longer than MpsTimeout while an epilog, which is the test here, has the daemon's lock."""
    node = MpsNode(control, 1)
    folder, daemon = started(node, 1)
    with open(folder / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        prolog = node.start("gpushare-prolog", 2, 40, user=ALICE)
        time.sleep(3)
        assert prolog.poll() is None, prolog.communicate()
    finished(prolog)
    assert node.failure(2) is None and node.daemon(folder)
    for job in (1, 2):
        node.epilog(job)
    node.check_empty()


def calls_of(node, program, job, units):
    """[(name, how many of that name)] of a program's system calls from the first on that names a daemon's folder."""
    with tempfile.NamedTemporaryFile("r") as trace:
        finished(node.start(program, job, units, user=ALICE, before=[*STRACE, "-o", trace.name]))
        return calls_in(trace, MPS)


# Of a program's system calls, so many at the most; the seed says which.
MOST = 50


@pytest.mark.parametrize("program", ("gpushare-prolog", "gpushare-epilog"))
def test_killed_anywhere(control, program):
    """A prolog or an epilog killed at any of its system calls: the next one puts all in order."""
    units = 40 if program == "gpushare-prolog" else None

    def node_before():
        node = MpsNode(control, 1)
        if not units:
            started(node, 1)
        return node

    node = node_before()
    steps = calls_of(node, program, 1, units)
    node.epilog(1)
    node.check_empty()
    seed = random.randrange(1 << 32)
    some = steps if len(steps) <= MOST else sorted(random.Random(seed).sample(steps, MOST), key=steps.index)
    for call, number in some:
        node = node_before()
        before = [*STRACE, "-o", "/dev/null", f"--inject={call}:signal=KILL:when={number}"]
        process = node.start(program, 1, units, user=ALICE, before=before)
        process.communicate(timeout=60)
        wait(
            lambda: not any("getent" in command for command in strangers().values()),
            "who asks for the user's name to end",
        )
        where = f"{program} killed at {call} number {number} (seed {seed})"
        # Another run of it makes other calls, such as pauses: then it may not have come so far.
        assert process.returncode in (0, -signal.SIGKILL), where
        # What was being written is the next writer's to replace.
        (RUN / "gpushare/new").unlink(missing_ok=True)
        try:
            node.epilog(1)
            node.check_empty()
            started(node, 2)
            node.epilog(2)
            node.check_empty()
        except AssertionError as error:
            raise AssertionError(where) from error


def test_exclusive(control):
    """A GPU stays in the compute mode of the daemon that comes while the one before it goes."""
    fake = library()
    node = MpsNode(control, 1, f"Nvml={fake}", "UserMix=deny", "ComputeMode=exclusive", "NvmlTimeout=2000")
    gpu = f"gpu {node.uuid(0)} 0 total=81920 reserved=600 used=100 utilization=0\n"
    says(fake, gpu)
    started(node, 1)
    says(fake, gpu + "delay nvmlDeviceSetComputeMode 1000\n")
    slow = node.start("gpushare-epilog", 1, user=ALICE)
    wait(lambda: 1 not in node.entries() and b"compute-mode" in b"".join(
        path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()), "its end")
    time.sleep(0.2)
    says(fake, gpu)
    started(node, 2, BOB)
    finished(slow)
    assert [line.split()[-1] for line in told(fake)][-1] == "3", told(fake)
    node.epilog(2)
    assert [line.split()[-1] for line in told(fake)][-1] == "0", told(fake)
    node.check_empty()


@pytest.mark.parametrize("fault", ["fail nvmlDeviceSetComputeMode 999", "delay nvmlDeviceSetComputeMode 60000"])
def test_exclusive_stays(control, fault):
    """A mode that NVML doesn't set back is set back by a later epilog, and said once."""
    fake = library()
    node = MpsNode(control, 2, f"Nvml={fake}", "UserMix=deny", "ComputeMode=exclusive", "NvmlTimeout=2000")
    gpus = "".join(
        f"gpu {node.uuid(gpu)} {gpu} total=81920 reserved=600 used=100 utilization=0\n" for gpu in (0, 1)
    )
    says(fake, gpus)
    folder, daemon = started(node, 1)
    says(fake, gpus + fault)
    lines = node.epilog(1)
    assert len([line for line in lines if "can't be reset to default; later epilogs" in line]) == 1, lines
    assert not alive(*daemon) and sorted(os.listdir(folder)) == ["lock", "state"], os.listdir(folder)
    assert not node.status()["mps"]
    says(fake, gpus)
    assert node.epilog(4) == [] and told(fake) == [], "not again within a minute"
    says(fake, gpus + fault)
    os.utime(folder / "state", (0, 0))
    assert node.epilog(5) == [] and folder.exists()
    says(fake, gpus)
    os.utime(folder / "state", (0, 0))
    assert node.epilog(6) == []
    assert told(fake) == [f"mode {node.uuid(0)} 0"], told(fake)
    node.check_empty()


def test_exclusive_refused(control):
    """A mode that NVML refused to set isn't set back."""
    fake = library()
    node = MpsNode(control, 1, f"Nvml={fake}", "UserMix=deny", "ComputeMode=exclusive", "NvmlTimeout=2000")
    gpu = f"gpu {node.uuid(0)} 0 total=81920 reserved=600 used=100 utilization=0\n"
    says(fake, gpu + "fail nvmlDeviceSetComputeMode 3")
    started(node, 1)
    says(fake, gpu)
    node.epilog(1)
    assert told(fake) == []
    node.check_empty()


# --- several users' daemon -----------------------------------------------------------------------------------------


def test_no_multiuser_before_555(control):
    refused(MpsNode(control, 1, "Mps=multiuser"), "has no multi-user server")


@pytest.mark.parametrize("each_control", ["555"], indirect=True)
def test_multiuser(each_control):
    """One daemon of root's for all users that have a job there, and for nobody else."""
    node = MpsNode(each_control, 1, "Mps=multiuser")
    node.prolog(1, 40, user=ALICE)
    folder = MPS / "0.all"
    daemon = node.daemon(folder)
    assert daemon and node.failure(1) is None and os.stat(f"/proc/{daemon[0]}").st_uid == 0
    asked = lambda user: node.ask(folder, "get_server_list\n", user)
    assert "Cannot" not in asked(ALICE) and "Cannot" in asked(BOB)
    node.prolog(2, 40, user=BOB)
    assert node.daemon(folder) == daemon and "Cannot" not in asked(BOB)
    assert "privilege" in " ".join(node.ask(folder, "quit\n", BOB)), "only root ends it"
    node.epilog(1)
    assert alive(*daemon) and "Cannot" in asked(ALICE) and "Cannot" not in asked(BOB)
    node.epilog(2)
    assert not alive(*daemon)
    node.check_empty()
