# SPDX-License-Identifier: GPL-2.0-or-later
"""Time inside job_submit() of a real slurmctld for the costliest submissions that a user can write. Touches its own
box.

Each fills every string that sbatch has up to the 1,024 characters that Slurm accepts: with types that nobody has, so
that each is compared with all of the cluster's; or with names.
"""

from pathlib import Path
from statistics import median

from boxes import HERE, TOP, Box, compiled
from inside import SIDES, report, restart

# Names as AutoDetect gives them, beside a40.
TYPES = [
    "nvidia_rtx_pro_6000_blackwell_max-q_workstation_edition", "nvidia_rtx_pro_6000_blackwell_server_edition",
    "nvidia_h100_80gb_hbm3", "nvidia_a100-sxm4-80gb_mig_1g.10gb+me", "nvidia_h100_80gb_hbm3_mig_3g.40gb",
    "nvidia_geforce_rtx_2080_ti", "quadro_rtx_6000_passive", "nvidia_rtx_6000_ada_generation", "tesla_v100-sxm2-32gb",
    "nvidia_l40s", "nvidia_a40", "nvidia_h200",
]
LONGEST = 1024


def filled(part):
    """As many of part(0), part(1) … as fit, with commas between them."""
    words, length = [], 0
    while length + len(part(len(words))) < LONGEST:
        length += len(part(len(words))) + 1
        words.append(part(len(words)))
    return ",".join(words)


def short(number):
    return chr(97 + number % 26) + chr(97 + number // 26 % 26)


def requests(prefix):
    """(title, what the client sends) of each."""

    def of(part, fields=("node", "job", "task", "socket")):
        text = filled(lambda number: f"{prefix}gpu{part(number)}")
        return [f"tres_per_{field}={text}" for field in fields]

    def all_six(part):
        text = filled(lambda number: f"{prefix}gpu{part(number)}")
        return [*of(part), f"cpus_per_tres={text}", f"mem_per_tres={text}"]

    # No more than for which a correction is tried.
    some = ",".join(f"{prefix}gpu:{short(number)}:1" for number in range(16))
    few = [f"tres_per_{field}={some}" for field in ("node", "job", "task", "socket")]
    typed, short_type = (lambda n: f":{short(n)}:1"), (lambda n: f":{short(n)[0]}")
    names = filled(short)
    governed = "qos=qos_lafferty"
    return [
        ("types that nobody has, free QOS", ["qos=normal", *all_six(typed)]),
        ("short types that nobody has, free QOS", ["qos=normal", *all_six(short_type)]),
        ("types that nobody has, governed QOS", [governed, *all_six(typed)]),
        ("no types, governed QOS", [governed, *of(lambda n: f":{n % 9 + 1}")]),
        ("right types and no types, governed QOS", [governed, *of(lambda n: ":a40:1" if n % 2 else "")]),
        ("64 types that nobody has, governed QOS", [governed, f"partition={names}", *few]),
        ("partitions, governed QOS", [governed, f"partition={names}", *of(typed)]),
        ("a list of QOSes", [f"qos={names},normal", *of(typed)]),
    ]


def measure(release, folder, times):
    """A line for each: microseconds, the median and the most."""
    lines = []
    with Box("costliest", release, TOP / "docs/examples/contributors", HERE / "conf") as box:
        more = "".join(f",gres/gpu:{gres_type}" for gres_type in TYPES)
        box.ok(f"sed -i '/^AccountingStorageTRES=/s|$|{more}|' /etc/slurm/slurm.conf")
        box.install(compiled(HERE / "timed.c", release, Path(folder) / "job_submit_timed.so", "-shared", "-fPIC"),
                    box.plugin_folder())
        costly = box.install(compiled(HERE / "costly.c", release, Path(folder) / "costly", "-lslurm"), "/usr/local/bin")
        restart(box)
        known = box.ok("sacctmgr -nP show tres format=name").count("gpu:")
        if known <= len(TYPES):
            raise RuntimeError(f"only {known} types are known")
        for title, texts in requests("gres/" if box.newer_than("23.11") else "gres:"):
            box.ok([costly, str(len(SIDES) * times), *texts], "alice")
            found = report(box)["gpushare"]
            lines.append(f"costliest: {title:<38} {median(found) / 1000:7.0f} us, at most {max(found) / 1000:.0f} us, "
                         f"{len(found)} times")
    return lines
