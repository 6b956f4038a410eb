# SPDX-License-Identifier: GPL-2.0-or-later
"""What a machine has: its first GPU as the driver shows it, NVIDIA's programs and libraries, cgroups. Machine only
looks; Pretended, for `one --pretend` in a cluster of the lab, puts stand-ins where NVIDIA's libraries are."""

import ctypes
import errno
import os
import re
import shutil
import subprocess
from pathlib import Path

PROGRAMS = "/usr/bin", "/usr/local/nvidia/bin", "/usr/local/cuda/bin"
LIBRARIES = "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"
BPF = 321  # of x86-64
FAKE_CUDA = Path("/dev/shm/gpushare-fake-cuda")


def read(path):
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def loader_knows():
    """{library: path} of the loader's cache."""
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        text = subprocess.run([ldconfig, "-p"], capture_output=True, text=True).stdout
    except OSError:
        return {}
    return {name: Path(path) for name, path in re.findall(r"^\s*(\S+) \(.*x86-64.*\) => (\S+)$", text, re.M)}


class Machine:
    pretended, broken = False, ()
    # Seconds: of one job alone, of all together, how long CUDA and PyTorch may take to begin, and how long a new job
    # may need until it computes after another's fault.
    alone, together, patience, heal = 1.5, 6, 90, 30
    # What a scene takes, as a part of what it takes on a GPU.
    pace = 1

    def __init__(self):
        self.in_proc = Path("/proc/driver/nvidia/gpus").exists()
        self.gpu = self.first_gpu()
        self.known = loader_knows()
        self.libcuda, self.libnvml = self.library("libcuda.so.1"), self.library("libnvidia-ml.so.1")
        self.control = self.program("nvidia-cuda-mps-control")
        mounts = [line.split() for line in read("/proc/mounts").splitlines()]
        self.cgroup1 = {
            one: point for _, point, kind, options, *_ in mounts if kind == "cgroup"
            for one in ("devices", "freezer") if one in options.split(",")
        }

    def first_gpu(self):
        found = []
        for file in Path("/proc/driver/nvidia/gpus").glob("*/information"):
            about = dict(re.findall(r"^([^:]+):[ \t]*(.*?)\s*$", read(file), re.M))
            if about.get("Device Minor", "").isdigit():
                found.append((int(about["Device Minor"]), about.get("GPU UUID", ""), about.get("Model", "")))
        # A driver in a sandbox has its device nodes only.
        nodes = [] if found else [path.name[6:] for path in Path("/dev").glob("nvidia*") if path.name[6:].isdigit()]
        found += [(int(number), "", "unknown") for number in nodes]
        return dict(zip(("minor", "uuid", "model"), min(found))) if found else None

    def bpf(self):
        """Whether bpf(2) is there: without it there is no fence on cgroup v2."""
        ctypes.set_errno(0)
        ctypes.CDLL(None, use_errno=True).syscall(BPF, 0, None, 0)
        return ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM)

    def library(self, name):
        places = [Path(one, name) for one in os.environ.get("LD_LIBRARY_PATH", "").split(":") if one]
        places += [self.known[name]] if name in self.known else []
        return next((path for path in [*places, *(Path(one, name) for one in LIBRARIES)] if path.exists()), None)

    def program(self, name):
        beside = [self.libcuda.parent, self.libcuda.resolve().parent.parent / "bin"] if self.libcuda else []
        places = [*os.environ.get("PATH", "").split(":"), *PROGRAMS, *beside]
        return next((Path(one, name).resolve() for one in places if one and os.access(Path(one, name), os.X_OK)), None)

    def control_version(self):
        """It has no option that says it, but the text is in it."""
        found = re.search(rb"\b\d{3}\.\d+(\.\d+)?\b", self.control.read_bytes())
        return found[0].decode() if found else "of unknown version"

    def driver(self):
        found = re.search(r"\d+\.\d+(\.\d+)?", read("/proc/driver/nvidia/version"))
        return found and found[0]

    def environment(self, programs):
        """What jobs have beside Slurm's variables."""
        path = os.environ.get("LD_LIBRARY_PATH")
        return {"LD_LIBRARY_PATH": path} if path else {}

    def refresh(self):
        """Before NVML is asked about processes."""

    def tidy(self):
        pass


class Pretended(Machine):
    """A node of the lab with one GPU that isn't there; FAKES has libcuda.so.1 and libnvidia-ml.so.1."""

    pretended = True
    alone, together, patience, heal = 0.2, 0.8, 20, 6
    pace = 0.1

    def __init__(self, fakes, broken):
        self.broken = broken
        if "without-proc" in broken:
            subprocess.run(["mount", "-t", "tmpfs", "gpushare-gpu", "/proc/driver"], check=True)
        super().__init__()
        if "without-mps" in broken:
            self.control = None
        for path in (self.libcuda, self.libnvml):
            subprocess.run(["mount", "--bind", fakes / path.name, path], check=True)
        FAKE_CUDA.mkdir(exist_ok=True)
        FAKE_CUDA.chmod(0o1777)
        (FAKE_CUDA / "broken").write_text(" ".join(broken) + "\n")
        if "nameless" in broken:
            self.forget()
        self.refresh()

    def forget(self):
        """Shows a driver that never says the GPU's UUID."""
        [file] = Path("/proc/driver/nvidia/gpus").glob("*/information")
        nameless = FAKE_CUDA / "information"
        nameless.write_text(read(file).replace(self.gpu["uuid"], "GPU-????????-????-????-????-????????????"))
        subprocess.run(["mount", "--bind", nameless, file], check=True)
        self.gpu = self.first_gpu()

    def driver(self):
        return "none: pretended"

    def bpf(self):
        return "without-bpf" not in self.broken and super().bpf()

    def environment(self, programs):
        return {"PYTHONPATH": f"{programs.parent}/pretend", "PYTHONDONTWRITEBYTECODE": "1"}

    def refresh(self):
        """Writes what the stand-in for NVML says: who has a context, each with 500 MiB."""
        pids = [] if "blind" in self.broken else [
            int(path.suffix[1:]) for path in FAKE_CUDA.glob("pid.*") if Path("/proc", path.suffix[1:]).exists()
        ]
        words = "".join(f" pid={pid}:500" for pid in pids[:16])
        delay = "delay nvmlInit_v2 900\n" if "slow" in self.broken else ""
        Path(f"{self.libnvml}.state").write_text(
            f"gpu {self.gpu['uuid'] or 'GPU-0'} {self.gpu['minor']} total=40960 reserved=600 "
            f"used={700 + 500 * len(pids)} utilization=0 mode=0{words}\n{delay}"
        )

    def tidy(self):
        for suffix in ("state", "log"):
            Path(f"{self.libnvml}.{suffix}").unlink(missing_ok=True)
        shutil.rmtree(FAKE_CUDA, ignore_errors=True)
