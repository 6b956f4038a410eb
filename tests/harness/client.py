# SPDX-License-Identifier: GPL-2.0-or-later
"""Small C programs that talk to a release's Slurm through its own libslurm, or to CUDA, in a cluster."""

import subprocess
import tempfile
from pathlib import Path

from lab import TOP, root

CUDA_CLIENT = "/usr/local/bin/cuda-client"


def compiled(source, release, program, *flags):
    """Compiles SOURCE against the headers of RELEASE's root, with FLAGS such as -lslurm; returns PROGRAM."""
    usr = root(release) / "usr"
    library = next(usr.glob("lib/*/libslurm.so"))
    # The root's libraries may need a newer libc than this machine's; they get it in the cluster.
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-o", program, source, f"-I{usr / 'include'}", f"-L{library.parent}"]
    subprocess.run([*command, *flags, "-Wl,--allow-shlib-undefined"], check=True)
    return program


def install(cluster, program, path):
    """Copies an executable into a running cluster."""
    cluster.write(path, Path(program).read_bytes(), 755)


def install_cuda(cluster):
    """Builds CUDA_CLIENT for the oldest libc of all roots, which is not newer than that of a machine with this Python,
    and copies it into a cluster."""
    with tempfile.TemporaryDirectory() as folder:
        source = TOP / "tests/live/tools/cuda-client.c"
        install(cluster, compiled(source, cluster.release, f"{folder}/cuda-client", "-ldl"), CUDA_CLIENT)
