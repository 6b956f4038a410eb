# SPDX-License-Identifier: GPL-2.0-or-later
"""A node as in bare_node.py, with GPUs that the NVIDIA driver knows, users, and NVIDIA's own
nvidia-cuda-mps-control."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import lab
from bare_node import RUN, SITE, TOP, Node, as_user
from waiting import wait

FAKES = TOP / "tests/fakes"
DRIVER = Path("/proc/driver")
MPS = RUN / "gpushare/mps"
# Users for this run only: 20 that this node knows, with missing homes, and one that it doesn't know.
USERS = range(30000, 30020)
UNKNOWN = 30999
# nvidia-cuda-mps-control's complaint if it finds no daemon.
LIMITS = "get_default_active_thread_percentage\nget_default_device_pinned_mem_limit 0\n"


def control(version):
    """NVIDIA's nvidia-cuda-mps-control of a Debian suite (22.05 is 535, 24.11 is 550) or 555; None if this machine
    can't have it."""
    found = lab.nvidia(version)
    return found and found / "usr/bin/nvidia-cuda-mps-control"


def know_users():
    """Adds the users to this mount namespace's /etc/passwd."""
    if os.path.ismount("/etc/passwd"):
        return
    for name, line in (("passwd", "faults{0}:x:{0}:{0}::/nonexistent:/bin/sh\n"), ("group", "faults{0}:x:{0}:\n")):
        path = SITE / name
        path.write_text(Path("/etc", name).read_text() + "".join(line.format(user) for user in USERS))
        subprocess.run(["mount", "--bind", path, Path("/etc", name)], check=True)


def stand_still(pid):
    """Stops a process, and waits until it has stopped."""
    os.kill(pid, signal.SIGSTOP)
    wait(lambda: stat(pid)[0] == "T", f"process {pid} to stop", pause=0.001)


class MpsNode(Node):
    """GPUS GPUs of 80 units, with MPS for each user; SETTINGS are lines of gpushare.conf."""

    def __init__(self, control, gpus=2, *settings, how=None):
        super().__init__(gpus, 80)
        know_users()
        self.control = self.provide(control, how)
        self.make_gpus()
        self.timeout = 2000
        self.configure(*settings)

    def provide(self, control, how):
        """Makes a directory with the control program, real or as HOW says, and a server that lives without a GPU."""
        folder = RUN / "nvidia"
        folder.mkdir()
        shutil.copy(FAKES / "nvidia-cuda-mps-server", folder)
        path = folder / "nvidia-cuda-mps-control"
        if control:
            shutil.copy(control, folder / "real" if how else path)
        if how:
            shutil.copy(FAKES / "nvidia-cuda-mps-control", path)
            (folder / "control").write_text(how + "\n")
        return path

    def make_gpus(self):
        if not os.path.ismount(DRIVER):
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "driver", DRIVER], check=True)
        for gpu in range(self.gpus):
            os.mknod(RUN / f"nvidia{gpu}", 0o20666, os.makedev(195, gpu))
            folder = DRIVER / f"nvidia/gpus/0000:{gpu + 1:02x}:00.0"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "information").write_text(
                f"Model: \t\t NVIDIA A40\nGPU UUID: \t {self.uuid(gpu)}\nDevice Minor: \t {gpu}\n"
            )

    def uuid(self, gpu):
        return f"GPU-{gpu:08d}-0000-4000-8000-000000000000"

    def configure(self, *settings):
        lines = {
            "Placement": "own", "ShareGRES": "gpushare", "UnitsPerGpu": "80", "Overcommit": "refuse",
            "GpuFile": ",".join(str(RUN / f"nvidia{gpu}") for gpu in range(self.gpus)),
            "Nvml": "off", "MemPerUnit": "100", "Mps": "per-user", "MpsControl": str(self.control),
            "MpsTimeout": str(self.timeout),
        }
        lines |= dict(setting.split("=", 1) for setting in settings)
        (self.site / "gpushare.conf").write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def server(self, how):
        """Sets what servers do that start from now on."""
        (RUN / "nvidia/server").write_text(how + "\n")

    def folder(self, job):
        """The directory of a job's daemon, from the ledger."""
        for row in self.status()["jobs"]:
            if row["job"] == job:
                return MPS / f"{row['gpus'][0]['index']}.{row['user_id']}"
        return None

    def daemon(self, folder):
        """(PID, start) of the last daemon in a directory's state file; None if there is none or it is dead."""
        try:
            found = re.findall(r"^process=(\d+) (\d+)$", (folder / "state").read_text(), re.M)
        except OSError:
            return None
        return tuple(map(int, found[-1])) if found and alive(*map(int, found[-1])) else None

    def ask(self, folder, lines, user):
        """A daemon's answer to USER; None if there is none within a moment."""
        command = as_user(user, [self.control])
        environment = {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"), "PATH": "/usr/bin:/bin"}
        try:
            done = subprocess.run(command, input=lines, env=environment, capture_output=True, text=True, timeout=10)
        except subprocess.TimeoutExpired:
            return None
        return (done.stdout + done.stderr).split()

    def check_no_folder(self):
        left = os.listdir(MPS) if MPS.exists() else []
        assert not left, f"left in {MPS}: {left}"

    def check_no_daemons(self):
        """Checks that no directory is left, and no process except this test's own."""
        self.check_no_folder()
        assert not strangers(), f"processes are left: {strangers()}"

    def check_empty(self):
        self.check_no_daemons()
        if MPS.exists():
            MPS.rmdir()
        super().check_empty()


def stat(pid):
    """(state, session, start) of a process; None if there is none."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return words[0], int(words[3]), int(words[19])


def alive(pid, start):
    found = stat(pid)
    return found is not None and found[2] == start and found[0] not in "ZX"


def strangers():
    """{PID: command} of all living processes of this PID namespace, except the tests'. One that is about to be a zombie
    has no command any more."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        state = stat(pid)
        if pid in (1, os.getpid()) or state is None or state[0] in "ZX":
            continue
        try:
            found[pid] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            pass
    return {pid: command for pid, command in found.items() if command}
