# SPDX-License-Identifier: GPL-2.0-or-later
"""A cluster with any number of nodes: all but the first are cloud nodes, switched off, and need no slurmd."""

# The settings in slurm.conf for cloud nodes; `cloud` makes every command show them.
CLOUD = """SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=600
PrivateData=cloud
"""


def nodes_conf(count):
    """A file for slurm.conf to include, with @NODE@ and COUNT cloud nodes in a separate partition."""
    def line(name, rest):
        cpus = "CPUs=64 Sockets=2 CoresPerSocket=32 ThreadsPerCore=1"
        return f"NodeName={name} {cpus} RealMemory=2000 Gres=gpu:a40:4 {rest}\n"

    text = line("@NODE@", "NodeAddr=127.0.0.1 State=UNKNOWN")
    text += "PartitionName=p Nodes=@NODE@ Default=YES MaxTime=INFINITE State=UP\n"
    if count:
        text += CLOUD + line(f"c[1-{count}]", "State=CLOUD")
        text += f"PartitionName=cloud Nodes=c[1-{count}] MaxTime=INFINITE State=UP\n"
    return text


def gres_conf(count):
    text = "AutoDetect=off\nNodeName=@NODE@ Name=gpu Type=a40 File=/dev/nvidia[0-3]\n"
    return text + (f"NodeName=c[1-{count}] Name=gpu Type=a40 File=/dev/nvidia[0-3]\n" if count else "")


def overlay(folder, count):
    """A FOLDER for `lab up --conf`."""
    folder.mkdir(exist_ok=True)
    (folder / "nodes.conf").write_text(nodes_conf(count))
    (folder / "gres.conf").write_text(gres_conf(count))
    return folder
