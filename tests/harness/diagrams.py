# SPDX-License-Identifier: GPL-2.0-or-later
"""Diagrams that tests/pictures draws: what runs where, the life of a share, the choice of a placement. Their words are
those of docs/dev/architecture.md and docs/placement.md; whoever changes these pages changes the diagrams too."""

from drawing import LINE, arrow, box, rect, svg, text


def architecture():
    about = (
        "A request goes from a login node to slurmctld, where gpushare's job_submit plugin checks it. slurmctld sends "
        "the job to slurmd on a compute node. slurmd runs gpushare's prolog and epilog, which keep the ledger, run "
        "gpushare-nvml, and start and end MPS daemons. slurmstepd loads gpushare's SPANK plugin, which reads the "
        "ledger, closes all other GPUs to the step, and sets CUDA's variables."
    )
    parts = [
        *key(16, 10, "ours", "gpushare"),
        *key(120, 10, "gpu", "Slurm, NVIDIA, the kernel, the user"),
        *machine(16, 40, 236, 190, "Login node"),
        *machine(330, 40, 260, 190, "Controller"),
        *machine(672, 40, 192, 190, "Database"),
        *machine(16, 274, 848, 366, "Compute node"),
        # A submission.
        *box(30, 72, 208, 50, "gpu", "sbatch, srun, scontrol", "submit or change a job"),
        *box(30, 140, 208, 68, "ours", "gpushare", "explain, status, leaks, qos and", "others run Slurm's commands"),
        *box(344, 72, 232, 90, "gpu", "slurmctld"),
        *box(354, 100, 212, 52, "ours", "job_submit_gpushare.so", "checks every request"),
        *box(436, 178, 140, 46, "ours", "gpushare.conf", "also on nodes"),
        *box(686, 72, 164, 68, "gpu", "slurmdbd", "QOSes, limits,", "accounting"),
        *arrow((238, 97), (344, 97)),
        text(291, 89, "request", "small middle"),
        *arrow((686, 97), (576, 97)),
        text(631, 89, "limits", "small middle"),
        *arrow((510, 178), (510, 152)),
        text(518, 174, "rules", "small"),
        *arrow((390, 162), (390, 256), (130, 256), (130, 310)),
        text(260, 249, "the job and its share's size", "small middle"),
        # A job's start and end.
        *box(30, 310, 200, 36, "gpu", "slurmd"),
        *box(30, 420, 200, 74, "ours", "Prolog and epilog", "gpushare-prolog,", "gpushare-epilog"),
        *box(30, 540, 200, 54, "ours", "gpushare-nvml", "asks NVIDIA's NVML"),
        *arrow((130, 346), (130, 420)),
        text(138, 379, "before and", "small"),
        text(138, 379 + LINE, "after the job", "small"),
        *arrow((130, 494), (130, 540)),
        text(138, 522, "memory, load, health", "small"),
        *arrow((230, 450), (330, 450), both=True),
        text(280, 442, "entries", "small middle"),
        *arrow((230, 480), (290, 480), (290, 567), (330, 567)),
        text(298, 518, "starts, checks, ends", "small"),
        *box(330, 430, 240, 54, "ours", "Ledger, /run/gpushare", "which job is on which GPU"),
        *box(330, 540, 240, 54, "gpu", "NVIDIA's MPS daemon", "per user and GPU, or multiuser"),
        # A step.
        *arrow((230, 328), (330, 328)),
        text(280, 320, "each step", "small middle"),
        *box(330, 310, 240, 90, "gpu", "slurmstepd"),
        *box(340, 338, 220, 52, "ours", "spank_gpushare.so", "in every step of a job"),
        *arrow((450, 430), (450, 390)),
        text(458, 419, "the job's GPU", "small"),
        *arrow((570, 340), (660, 340)),
        text(615, 332, "the fence", "small middle"),
        *box(660, 310, 190, 54, "gpu", "Cgroup of the step", "device rules, in the kernel"),
        *arrow((570, 385), (640, 385), (640, 450), (660, 450)),
        text(634, 413, "CUDA's", "small end"),
        text(634, 413 + LINE, "variables", "small end"),
        *arrow((755, 364), (755, 430)),
        text(763, 402, "allows one", "small"),
        *box(660, 430, 190, 54, "gpu", "The job's programs", "as the user"),
        *arrow((660, 472), (615, 472), (615, 560), (570, 560), both=True),
        text(623, 515, "kernels, within", "small"),
        text(623, 515 + LINE, "limits", "small"),
        *arrow((755, 484), (755, 540)),
        *box(660, 540, 190, 54, "gpu", "GPUs", "/dev/nvidia0, nvidia1, …"),
        *arrow((570, 580), (660, 580)),
        *arrow((130, 594), (130, 622), (755, 622), (755, 594)),
        text(450, 616, "NVIDIA's driver", "small middle"),
    ]
    return svg(880, 656, "What runs where: gpushare's parts on a Slurm cluster", about, parts)


def key(x, y, kind, words):
    return rect(x, y, 14, 14, kind, 2), text(x + 22, y + 12, words, "small")


def machine(x, y, wide, high, name):
    return rect(x, y, wide, high, "paper", 6), text(x + 14, y + 22, name, "small")


STAGES = (
    ("Submission", "slurmctld", "ours", (
        "job_submit_gpushare.so checks the request. It records the share's size in the job,",
        "in place of any size that the user has sent.",
    )),
    ("Queue", "slurmctld", "gpu", (
        "The job waits until a node has the units free, and no limit holds it. Slurm counts",
        "the units. With Placement=follow it also chooses the GPU.",
    )),
    ("Prolog", "root, on the node", "ours", (
        "gpushare-prolog takes Slurm's GPU or chooses one, and writes the entry in the ledger,",
        "/run/gpushare. With MPS it also starts the daemon, unless that runs already.",
    )),
    ("Each step", "slurmstepd", "ours", (
        "spank_gpushare.so reads the entry, puts up the fence, and sets CUDA's variables.",
        "Each task verifies that it can open its GPU and no other before its program starts.",
    )),
    ("Epilog", "root, on the node", "ours", (
        "gpushare-epilog removes the entry, and ends MPS daemons that no job needs.",
        "If no epilog runs, gpushare removes the entry later.",
    )),
)


def life():
    wide, high, parts = 800, 68, []
    for at, (name, where, kind, lines) in enumerate(STAGES):
        y = 10 + at * (high + 20)
        parts += box(16, y, 160, 58, kind, f"{at + 1}. {name}", where)
        parts += [text(196, y + 26 + 18 * row, line) for row, line in enumerate(lines)]
        if at:
            parts += arrow((96, y - 30), (96, y))
    y += high + 20
    parts += [
        rect(16, y, 768, 58, "paper"),
        text(26, y + 25, "If a part fails", "title"),
        text(196, y + 26, "The job fails by itself, with the reason in its output and in syslog."),
        text(196, y + 44, "The node stays in service."),
    ]
    about = " ".join(f"{name}: {' '.join(lines)}" for name, _, _, lines in STAGES)
    return svg(wide, y + 68, "The life of a share, from submission to epilog", about, parts)


def choice():
    wide, far, high = 350, 446, 74
    questions = (
        (20, "Must Slurm's configuration stay?", "mps in its default form,", "all shares on one GPU"),
        (140, "Do the nodes take only shares?", "no jobs with whole GPUs,", "such as --gres=gpu:1"),
    )
    answers = (
        (20, "Placement=override", "gpushare chooses, whatever GPU Slurm", "allocated. Best on cgroup v2"),
        (140, "Placement=follow", "Slurm chooses. GRES: gpu, and mps with", "Flags=all_sharing, or shard"),
        (260, "Placement=own", "gpushare chooses. GRES: the site's own,", "count-only; no gpu on the node"),
    )
    parts = [part for y, *lines in questions for part in box(16, y, wide, high, "paper", *lines)]
    parts += [part for y, *lines in answers for part in box(far, y, 338, high, "ours", *lines)]
    parts += [
        *arrow((366, 57), (far, 57)),
        text(402, 49, "yes", "small middle"),
        *arrow((190, 94), (190, 140)),
        text(198, 121, "no", "small"),
        *arrow((366, 177), (far, 177)),
        text(402, 169, "no", "small middle"),
        *arrow((190, 214), (190, 297), (far, 297)),
        text(198, 241, "yes", "small"),
    ]
    about = (
        "If Slurm's configuration must stay, with mps in its default form: override. Otherwise, if the nodes take only "
        "shares: own. Otherwise: follow."
    )
    return svg(800, 352, "Which placement: override, follow or own", about, parts)
