# SPDX-License-Identifier: GPL-2.0-or-later
"""Shapes of jobs by options of sbatch and salloc alone, as ordinary users write them: nodes, tasks, CPUs and where GPUs
are counted. Slurm counts some of them before it knows the nodes."""

# slurmctld 24.11.5 ends of --spread-job with GPUs, with or without a plugin.
SPREADS = {"22.05", "26.05"}


def options(random, release):
    """GPUs in one way of counting, and a shape that may not fit them."""
    pick = random.choice
    kind, count = pick(["a40", "a40", "a40", "h100", ""]), pick([1, 1, 1, 2, 2, 3, 4])
    gpus = f"{kind}:{count}" if kind else str(count)
    found = pick([
        [f"--gpus-per-task={gpus}"], [f"--gpus-per-task={gpus}"], [f"--gpus-per-task={gpus}"], [f"--gpus={gpus}"],
        [f"--gpus-per-node={gpus}"], [f"--gres=gpu:{gpus}"], [f"--gpus-per-socket={gpus}", "--sockets-per-node=2"],
        [f"--gpus={gpus}", f"--gpus-per-node={gpus}"], [f"--gpus-per-task={gpus}", f"--gpus-per-node={gpus}"],
        [f"--gpus={gpus}", f"--ntasks-per-gpu={pick([1, 2])}"], [f"--gres=gpu:{gpus}", "--ntasks-per-gpu=1"],
    ])
    shape = {
        "-N": ["1", "2", "2", "3", "1-2", "1-3", "2-3", "2-4"], "-n": ["1", "2", "3", "4", "5", "7", "8", "65"],
        "--ntasks-per-node=": ["1", "2", "3", "4"], "--ntasks-per-core=": ["1", "2"],
        "--ntasks-per-socket=": ["1", "2", "3"],
        "-c": ["1", "2", "4", "8", "16", "33"], "--cpus-per-gpu=": ["1", "2", "16"], "--mincpus=": ["2", "33"],
        "--cores-per-socket=": ["1", "16"], "--threads-per-core=": ["1"],
        "--distribution=": ["block", "cyclic", "plane=2"],
        "-x": ["h1,m1", "m1"], "--use-min-nodes": [""], "--contiguous": [""], "--overcommit": [""],
        "-p": ["p,x", "x,p"],
    }
    if release in SPREADS:
        shape["--spread-job"] = [""]
    common = ["-N", "-n", "--ntasks-per-node=", "--ntasks-per-core=", "-c"]
    chosen = {name for name in common if random.random() < 0.5}
    chosen |= set(random.sample(sorted(shape), random.randint(0, 2)))
    return found + [f"{name}{pick(shape[name])}" for name in shape if name in chosen]


# Within every limit, for those who write what they mean.
PLAIN = [
    ["--qos=qos_share", "-N2", "-n4", "--ntasks-per-node=2", "--gpus-per-task=a40:1"],
    ["--qos=qos_share", "-n2", "-c4", "--gpus-per-task=a40:1"],
    ["--qos=qos_share", "-n4", "--ntasks-per-core=1", "--gpus-per-task=a40:1"],
    ["--qos=qos_share", "-N1-2", "--gpus-per-node=a40:1"],
    ["--qos=qos_share", "-N1", "--gpus-per-socket=a40:1", "--sockets-per-node=2"],
    ["--qos=qos_share", "-N2", "--gpus-per-node=a40:2"],
    ["--qos=qos_share", "--gpus=a40:4", "--use-min-nodes"],
    ["--qos=qos_share", "-n2", "--gpus=a40:2", "--ntasks-per-gpu=1"],
    ["--qos=qos_share", "-N2", "-n2", "-c8", "--gpus-per-task=a40:2"],
    ["--account=capped", "-n2", "--gpus-per-task=a40:1"],
]
