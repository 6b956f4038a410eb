# SPDX-License-Identifier: GPL-2.0-or-later
"""The machine as a node of its own: what the bundle has, /etc/slurm, the ledger and eight users, in mounts that no
other process sees; a cgroup for slurmd. Nothing of it is left afterwards."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import time
from fcntl import ioctl
from pathlib import Path

HOME = Path("/usr/lib/x86_64-linux-gnu/slurm-wlm")
WORK = Path("/run/gpushare-gpu")
NAME = "gpunode"
USERS = {name: 64101 + at for at, name in enumerate("alice bob carol dave erin frank grace heidi".split())}
CGROUP = Path("/sys/fs/cgroup")
# slurmd's cgroup for its steps on v2 (Slurm: src/plugins/cgroup/v2/cgroup_v2.c, `_set_int_cg_ns`).
SCOPE = f"system.slice/{NAME}_slurmstepd.scope"
STEPD = Path("/usr/sbin/slurmstepd")
MARK = "GPUSHARE_GPU_NODE"


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def enter():
    """Goes on in mounts and with a host name of this process's own."""
    if MARK not in os.environ:
        os.environ[MARK] = "yes"
        os.execvp("unshare", ["unshare", "--mount", "--uts", "--propagation", "private", sys.executable, *sys.argv])
    socket.sethostname(NAME)


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        flags = struct.unpack("16sh", ioctl(one, 0x8913, struct.pack("16sh", b"lo", 0)))[1]
        if not flags & 1:
            ioctl(one, 0x8914, struct.pack("16sh", b"lo", flags | 1))


class Node:
    def __init__(self, bundle, machine):
        self.machine, self.made, self.processes, self.before = machine, [], [], set()
        self.kind, self.tops, self.controllers, self.mounted = None, [], [], False
        self.programs = WORK / "test/programs"
        self.tree(WORK, "mode=755")
        for user, folder in [(user, f"home/{user}") for user in USERS] + [(None, "out"), (None, "log")]:
            (WORK / folder).mkdir(parents=True)
            (WORK / folder).chmod(0o755 if user or folder == "log" else 0o1777)
            os.chown(WORK / folder, USERS.get(user, 0), USERS.get(user, 0))
        for folder in (HOME, Path("/etc/slurm"), Path("/run/gpushare")):
            self.tree(folder, "mode=755")
        with tarfile.open(bundle / "slurm.tar.xz") as packed:
            packed.extractall(HOME)
        HOME.chmod(0o755)
        for folder in ("programs", "pretend"):
            shutil.copytree(bundle / folder, WORK / "test" / folder)
        self.place(HOME / "sbin/slurmstepd", STEPD)
        self.add_users()
        self.show_libraries()
        loopback_up()

    def tree(self, folder, options):
        self.folder(folder)
        mount("-t", "tmpfs", "-o", options, "gpushare-gpu", folder)

    def folder(self, folder):
        if not folder.exists():
            self.folder(folder.parent)
            folder.mkdir()
            self.made.append(folder)

    def place(self, source, path):
        """SOURCE where PATH is, for this node only."""
        if not path.exists():
            path.touch()
            self.made.append(path)
        mount("--bind", source, path)

    def add_users(self):
        """Users who may open the GPU, if not everybody may."""
        device = Path(f"/dev/nvidia{self.machine.gpu['minor']}") if self.machine.gpu else None
        about = device.stat() if device and device.exists() else None
        group = about.st_gid if about and about.st_mode & 0o006 != 0o006 else None
        passwd, groups = Path("/etc/passwd").read_text(), Path("/etc/group").read_text()
        for user, number in USERS.items():
            passwd += f"{user}:x:{number}:{number}::{WORK}/home/{user}:/bin/sh\n"
            groups += f"{user}:x:{number}:\n"
        if group is not None:
            groups += f"gpunode-gpus:x:{group}:{','.join(USERS)}\n"
        for name, text in (("passwd", passwd), ("group", groups)):
            (WORK / name).write_text(text)
            mount("--bind", WORK / name, f"/etc/{name}")

    def show_libraries(self):
        """MPS daemons and users' programs find libcuda by the loader's cache only."""
        libcuda = self.machine.libcuda
        if not libcuda or "libcuda.so.1" in self.machine.known:
            return
        (WORK / "ld.so.conf").write_text(f"include /etc/ld.so.conf\n{libcuda.parent}\n")
        ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
        command = [ldconfig, "-X", "-f", WORK / "ld.so.conf", "-C", WORK / "ld.so.cache"]
        subprocess.run(command, check=True, capture_output=True)
        self.place(WORK / "ld.so.cache", Path("/etc/ld.so.cache"))

    # --- cgroups

    def kinds(self):
        """What Slurm can use here: cgroup v2 first, as most sites have it."""
        v2 = ["v2"] if "cgroup2" in Path("/proc/filesystems").read_text() else []
        return v2 + (["v1"] if {"devices", "freezer"} <= set(self.machine.cgroup1) else [])

    def use(self, kind):
        """Jobs are in cgroups of KIND from now on, as far as this process's mounts show."""
        self.forget_cgroups()
        self.kind = kind
        if kind == "v1":
            self.tops = [Path(one) for one in self.machine.cgroup1.values()]
        else:
            self.tops = [CGROUP]
            self.mounted = not (CGROUP / "cgroup.controllers").exists()
            if self.mounted:
                mount("-t", "cgroup2", "cgroup2", CGROUP)
            self.controllers = (CGROUP / "cgroup.subtree_control").read_text().split()
        self.before = set(self.cgroups())
        if kind == "v2":
            (CGROUP / "gpushare-gpu").mkdir()

    def forget_cgroups(self):
        """Leaves the machine's cgroups as they were."""
        end = time.monotonic() + 5
        while (left := set(self.cgroups()) - self.before) and time.monotonic() < end:
            for path in sorted(left, reverse=True):
                try:
                    path.rmdir()
                except OSError:
                    time.sleep(0.05)
        if self.kind == "v2":
            control = CGROUP / "cgroup.subtree_control"
            for one in set(control.read_text().split()) - set(self.controllers):
                control.write_text(f"-{one}")  # Slurm switched it on.
            if self.mounted:
                subprocess.run(["umount", "--lazy", CGROUP], check=True)
        self.kind, self.tops = None, []

    def cgroups(self):
        """What this test makes, slurmd included. Others on the machine, another slurmd too, have empty ones as well."""
        own = [top / name for top in self.tops for name in ("gpushare-gpu", SCOPE, f"slurm_{NAME}")]
        found = [path for top in own if top.is_dir() for path in (top, *top.rglob("*")) if path.is_dir()]
        return found + [top / "system.slice" for top in self.tops if (top / "system.slice").is_dir()]

    def shim(self):
        """slurmd refuses cgroup v2 while the machine has v1 hierarchies too, so it sees v2 only."""
        is_hybrid = any(not line.startswith("0::") for line in Path("/proc/self/cgroup").read_text().splitlines())
        return {"LD_PRELOAD": str(HOME / "cgroup2-only.so")} if self.kind == "v2" and is_hybrid else {}

    def join(self, pid):
        """Puts a process where slurmd belongs."""
        if self.kind == "v2":
            (CGROUP / "gpushare-gpu/cgroup.procs").write_text(str(pid))

    def cgroup_of(self, pid):
        """The directory of a process's cgroup that fences devices."""
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if (self.kind == "v2" and not controllers) or "devices" in controllers.split(","):
                top = Path(self.machine.cgroup1["devices"]) if self.kind == "v1" else CGROUP
                parts = path.strip("/").split("/")
                # Where the mount shows a part of the hierarchy, as in a container, its path is shorter.
                for folder in (top.joinpath(*parts[first:]) for first in range(len(parts))):
                    if (folder / "cgroup.procs").exists():
                        return folder
        raise OSError(f"process {pid} has no cgroup {self.kind}")

    # --- processes

    def as_user(self, user, *command):
        number = USERS[user]
        return ["setpriv", f"--reuid={number}", f"--regid={number}", "--init-groups", "--", *map(str, command)]

    def environment(self, user):
        return {
            "PATH": f"{HOME}/bin:{HOME}/gpushare/bin:/usr/local/bin:/usr/bin:/bin", "USER": user, "LANG": "C.UTF-8",
            "HOME": str(WORK / "home" / user) if user in USERS else "/root", **self.machine.environment(self.programs),
        }

    def start(self, *command, log=None, environment=None, daemon=False):
        """A process of this test's, ended with it."""
        output = open(WORK / "log" / log, "ab") if log else subprocess.PIPE
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.DEVNULL, stdout=output, stderr=output if log else None,
            start_new_session=True, env=environment or self.environment("root"), cwd=WORK / "out",
            preexec_fn=(lambda: self.join(os.getpid())) if daemon else None,
        )
        self.processes.append(process)
        return process

    def stop(self):
        """Ends every process that this test started."""
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self.processes.clear()

    def close(self):
        self.stop()
        self.forget_cgroups()
        for path in reversed(self.made):
            subprocess.run(["umount", "--lazy", path], check=False, stderr=subprocess.DEVNULL)
            try:
                path.rmdir() if path.is_dir() else path.unlink()
            except OSError:
                pass  # Somebody else has put something there.
