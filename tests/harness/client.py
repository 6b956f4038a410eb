# SPDX-License-Identifier: GPL-2.0-or-later
"""Small C programs that talk to a release's Slurm through its own libslurm."""

import subprocess
from pathlib import Path

from lab import LAB


def compiled(source, release, program, *flags):
    """Compiles SOURCE against the headers of RELEASE's root, with FLAGS such as -lslurm; gives PROGRAM."""
    include = Path(subprocess.check_output([LAB, "include", release], text=True).strip())
    library = next(include.parent.glob("lib/*/libslurm.so"))
    # The root's libraries may want a newer libc than this machine's; they meet it in the cluster.
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-o", program, source, f"-I{include}", f"-L{library.parent}"]
    subprocess.run([*command, *flags, "-Wl,--allow-shlib-undefined"], check=True)
    return program


def install(cluster, program, path):
    """Puts an executable into a running cluster."""
    command = ["bash", "-c", f"cat > {path} && chmod 755 {path}"]
    subprocess.run([LAB, "exec", cluster.name, "--", *command], input=Path(program).read_bytes(), check=True)
