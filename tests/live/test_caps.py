# SPDX-License-Identifier: GPL-2.0-or-later
"""CPUs and memory for each GPU (MaxCPUsPerGpu, MaxMemPerGpu), and partitions for jobs with GPUs (GpuPartitions).

What counts is what runs: every job that is accepted starts,
and what Slurm allocated to it is compared with the caps."""

import re

import pytest
from test_rules import accepted, configured, refused

# In GB, and so in numbers of their own for each type.
CPUS = {"a40": 8, "h100": 16}
MEM = {"a40": 16, "h100": 32}
CAPS = "MaxCPUsPerGpu=a40:8,h100:16\nMaxMemPerGpu=a40:16G,h100:32G"

A40 = "--gres=gpu:a40:1"

# A request that asks for more than its GPUs allow, and the number of its refusal.
BEYOND = {
    "cpus-per-task": ("GS127", [A40, "-c9", "--mem=1G"]),
    "no-type": ("GS127", ["--gres=gpu:1", "-c9", "--mem=1G"]),
    "tasks": ("GS127", [A40, "-n9", "--mem=1G"]),
    "tasks-times-cpus": ("GS127", [A40, "-n3", "-c3", "--mem=1G"]),
    "tasks-per-node": ("GS127", [A40, "-N1", "--ntasks-per-node=9", "--mem=1G"]),
    "tasks-per-socket": ("GS127", [A40, "-n10", "--ntasks-per-socket=5", "--mem=1G"]),
    "tasks-per-gpu": ("GS127", ["--gpus=a40:1", "--ntasks-per-gpu=9", "--mem=1G"]),
    "tasks-per-gpu-alone": ("GS105", ["-n1", "--ntasks-per-gpu=1", "-c9", "--mem=1G"]),
    "cpus-per-gpu": ("GS127", ["--gpus=a40:1", "--cpus-per-gpu=9", "--mem=1G"]),
    "mincpus": ("GS127", [A40, "--mincpus=9", "--mem=1G"]),
    "per-task": ("GS127", ["-n2", "--gpus-per-task=a40:1", "-c9", "--mem=1G"]),
    "per-node": ("GS127", ["-N2", "--gpus-per-node=h100:1", "-n33", "--mem=1G"]),
    "per-job-and-node": ("GS127", ["--gpus=h100:2", "--mincpus=32", "--mem=1G"]),
    "twice": ("GS127", ["--gres=gpu:a40:1,gpu:a40:1", "-c16", "--mem=1G"]),
    "overcommit": ("GS127", [A40, "-O", "-n9", "--mem=1G"]),
    "shares": ("GS127", ["--gres=mps:40", "-c5", "--mem=1G"]),
    "enforce-binding": ("GS127", [A40, "-c8", "--gres-flags=enforce-binding", "--mem=1G"]),
    "enforce-binding-of-a-job": ("GS127", ["-N1", "--gpus=a40:1", "-c1", "--gres-flags=enforce-binding", "--mem=1G"]),
    "forced": ("GS127", ["--partition=forced", "--exclusive", A40, "-c64", "--mem=1G"]),
    "mem": ("GS128", [A40, "--mem=17G"]),
    "mem-0": ("GS128", [A40, "--mem=0"]),
    "mem-per-cpu": ("GS128", [A40, "-c8", "--mem-per-cpu=3G"]),
    "mem-per-gpu": ("GS128", ["--gpus=a40:1", "--mem-per-gpu=17G"]),
    "mem-unnamed": ("GS128", [A40]),
    "mem-on-two-nodes": ("GS128", ["--gpus=h100:2", "--mem=64G"]),
    "mem-of-a-share": ("GS128", ["--gres=mps:40", "--mem=9G"]),
}

# One that asks for all that its GPUs allow, or leaves out what it can.
WITHIN = {
    "all": [A40, "-c8", "--mem=16G"],
    "of-the-other-type": ["--gres=gpu:h100:1", "-c16", "--mem=32G"],
    "no-type": ["--gres=gpu:1", "-c8", "--mem=16G"],
    "tasks": [A40, "-n8", "--mem=16G"],
    "per-task": ["-n2", "--gpus-per-task=a40:1", "-c8", "--mem=32G", "-N1"],
    "per-node": ["-N2", "--gpus-per-node=h100:1", "-n32", "--mem=32G"],
    "per-job": ["--gpus=h100:4", "-n4", "-c16", "--mem=32G"],
    "per-job-on-one-node": ["-N1", "--gpus=h100:2", "--mincpus=32", "--mem=64G"],
    "cpus-per-gpu": ["--gpus=a40:2", "--cpus-per-gpu=8", "--mem-per-gpu=16G"],
    "enforce-binding": [A40, "--cpus-per-gpu=8", "--gres-flags=enforce-binding", "--mem=16G"],
    "mem-per-cpu": [A40, "-c8", "--mem-per-cpu=2G"],
    "share": ["--gres=mps:40", "-c4", "--mem=8G"],
}


def allocated(cluster, job):
    """CPUs, MiB, and GPUs by type, of a job that runs."""
    shown = cluster.ok(["scontrol", "-o", "show", "job", job])
    # 22.05 has TRES= for it.
    tres = dict(word.split("=") for word in re.search(r" (?:Alloc)?TRES=(\S+)", shown).group(1).split(","))
    # Up to 24.11 a job with all memory of a node may show none.
    size, unit = re.fullmatch(r"([\d.]+)([MGT])", tres.get("mem", "1024T")).groups()
    memory = float(size) * {"M": 1, "G": 1024, "T": 1 << 20}[unit]
    gpus = {name.split(":")[1]: int(number) for name, number in tres.items() if name.startswith("gres/gpu:")}
    gpus["share"] = int(tres.get("gres/mps", 0))
    return int(tres["cpu"]), memory, gpus


def is_within(cpus, memory, gpus):
    """Whether the GPUs allow that much; 80 units of mps are an a40."""
    share = gpus.pop("share")
    allowed = [
        sum(cap[kind] * number for kind, number in gpus.items()) + -(-cap["a40"] * share // 80) for cap in (CPUS, MEM)
    ]
    return cpus <= allowed[0] and memory <= allowed[1] * 1024


def outcome(cluster, *options):
    job = cluster.sbatch(*options)
    cluster.wait_state(job, "RUNNING")
    found = allocated(cluster, job)
    cluster.cancel_all()
    return found


@pytest.fixture(scope="module")
def caps(capped):
    with configured(capped, CAPS + "\nPlacement=own\nUnitsPerGpu=80"):
        yield capped


@pytest.fixture(autouse=True)
def clean(capped):
    yield
    capped.cancel_all()


@pytest.mark.parametrize("way", BEYOND)
def test_more_than_the_gpus_allow_is_refused_and_the_advice_works(caps, way):
    number, options = BEYOND[way]
    advice = refused(caps, number, *options)
    assert advice, "a command to try"
    # What the user's own command says besides: the rest of it need not be said again.
    rest = [word for word in options if word.startswith("--partition")]
    memory = [] if "--mem" in advice else [word for word in options if word.startswith("--mem")]
    assert is_within(*outcome(caps, *rest, *memory, *advice.split())), advice


@pytest.mark.parametrize("way", WITHIN)
def test_what_the_gpus_allow_runs_and_is_no_more(caps, way):
    assert is_within(*outcome(caps, *WITHIN[way]))


def test_without_caps_the_same_requests_have_more(capped):
    """Slurm as it is: what the tests above compare finds it."""
    with configured(capped, "Mode=enforce"):
        beyond = [way for way in BEYOND if not is_within(*outcome(capped, *BEYOND[way][1]))]
    # These happened to get a GPU of the larger type, or their GPUs on one node; and Slurm overcommits CPUs.
    lucky = {"no-type", "tasks-per-gpu-alone", "per-job-and-node", "mem-on-two-nodes", "overcommit"}
    if not capped.newer_than("24.11"):  # gives no more CPUs for it
        lucky |= {"enforce-binding", "enforce-binding-of-a-job"}
    assert set(BEYOND) - set(beyond) <= lucky


def test_partitions_and_qoses_have_caps_of_their_own(capped):
    conf = CAPS + "\nPartitionName=small MaxCPUsPerGpu=2\nQOS=qos_lean MaxCPUsPerGpu=1"
    with configured(capped, conf):
        advice = refused(capped, "GS127", A40, "-c3", "--mem=1G", "-p", "small")
        assert advice == "--partition=small -c2 --gres=gpu:a40:1"
        refused(capped, "GS127", A40, "-c3", "--mem=1G", "-p", "p,small")
        accepted(capped, A40, "-c3", "--mem=1G", "-p", "p")
        advice = refused(capped, "GS127", A40, "-c2", "--mem=1G", "-p", "small", "--qos=qos_lean")
        assert advice.startswith("--qos=qos_lean")
        # The default QOS counts as one that is named.
        capped.ok("sacctmgr -i modify user alice set defaultqos=qos_lean")
        try:
            refused(capped, "GS127", A40, "-c2", "--mem=1G")
        finally:
            capped.ok("sacctmgr -i modify user alice set defaultqos=normal")
        job, _ = accepted(capped, A40, "-c3", "--mem=1G", "-p", "p")
        assert capped.run(f"scontrol update job={job} partition=small", "alice").returncode != 0
        assert capped.run(f"scontrol update job={job} qos=qos_lean", "alice").returncode != 0
        assert capped.fields(job)["Partition"] == "p"


def prefix(cluster):
    return "gres/" if cluster.newer_than("23.11") else "gres:"


# What an update of a job with one a40, 8 CPUs and 16G says; {} is how this Slurm begins a GRES.
UPDATES = [
    "CPUsPerTask=9 NumCPUs=9", "CPUsPerTask=9 MinCPUsNode=9", "NumTasks=2 NumCPUs=16", "MinMemoryNode=17408",
    "MinMemoryCPU=4096", "MinMemoryNode=0", "CPUsPerTask=9 NumCPUs=9 TresPerNode=",
    "CPUsPerTask=9 NumCPUs=9 TresPerNode={}gpu:0",
    # Slurm takes over the CPUs, then refuses the Nice.
    "CPUsPerTask=16 NumCPUs=16 TresPerNode={}gpu:a40:2 Nice=-5",
    "CpusPerTres={}gpu:9",
]


def after(cluster, *changes):
    """What such a job has that runs after these updates, whatever became of them."""
    job, _ = accepted(cluster, A40, "-c8", "--mem=16G")
    for change in changes:
        cluster.run(f"scontrol update job={job} {change.format(prefix(cluster))}", "alice")
    cluster.ok(f"scontrol release {job}")
    cluster.wait_state(job, "RUNNING")
    found = allocated(cluster, job)
    cluster.cancel_all()
    return found


@pytest.mark.parametrize("change", UPDATES)
def test_no_update_takes_more(caps, change):
    assert is_within(*after(caps, change, "CPUsPerTask=12 NumCPUs=12"))


def test_without_caps_each_update_takes_more(capped):
    """Slurm as it is: none of the tests above is right whatever gpushare does."""
    harmless = [] if capped.newer_than("24.11") else ["CpusPerTres={}gpu:9"]
    with configured(capped, "Mode=enforce"):
        assert [change for change in UPDATES if is_within(*after(capped, change))] == harmless


def test_more_gpus_first_and_then_more_cpus(caps):
    job, _ = accepted(caps, A40, "-c8", "--mem=16G")
    both = f"scontrol update job={job} CPUsPerTask=16 TresPerNode={prefix(caps)}gpu:a40:2"
    result = caps.run(both, "alice")
    assert result.returncode != 0
    if caps.newer_than("23.02"):
        assert "GS127" in result.stderr, result.stderr
    caps.ok(f"scontrol update job={job} TresPerNode={prefix(caps)}gpu:a40:2", "alice")
    caps.ok(f"scontrol update job={job} CPUsPerTask=16 NumCPUs=16", "alice")
    caps.ok(f"scontrol release {job}")
    caps.wait_state(job, "RUNNING")
    cpus, _, gpus = allocated(caps, job)
    assert (cpus, gpus["a40"]) == (16, 2)


def test_a_cluster_that_binds_every_job_to_cores_of_its_gpus(capped):
    """sbatch sets the flag by itself then, and explain has to know."""
    if not capped.newer_than("24.05"):
        pytest.skip("scontrol shows ENFORCE_BINDING_GRES from 24.05; before 23.11 Slurm doesn't have it")
    conf = "/etc/slurm/extra.conf"
    capped.ok(f"sed -i s/CR_Core_Memory/\\&,ENFORCE_BINDING_GRES/ {conf}; scontrol reconfigure")
    try:
        capped.wait(lambda: "ENFORCE_BINDING" in capped.ok("scontrol show config"), "the parameter")
        with configured(capped, CAPS):
            for flags in ([], ["--gres-flags=enforce-binding"], ["--gres-flags=disable-binding"]):
                job = [A40, "-c8", "--mem=16G", *flags]
                explained = capped.run(["gpushare", "explain", "--", *job, "--wrap=true"], "alice")
                if flags == ["--gres-flags=disable-binding"]:
                    assert is_within(*outcome(capped, *job)) and explained.returncode == 0, explained
                else:
                    refused(capped, "GS127", *job)
                    assert "GS127" in explained.stdout and explained.returncode == 1, explained
    finally:
        capped.ok(f"sed -i s/,ENFORCE_BINDING_GRES// {conf}; scontrol reconfigure")


def test_a_default_of_slurm_conf_is_enough(capped):
    """A job that names no memory then gets that."""
    capped.ok("echo DefMemPerCPU=1024 >> /etc/slurm/extra.conf; scontrol reconfigure")
    try:
        with configured(capped, CAPS):
            capped.wait(lambda: "1024" in capped.ok("scontrol show config | grep DefMemPerCPU"), "the default")
            assert is_within(*outcome(capped, A40, "-c8"))
    finally:
        capped.ok("sed -i /^DefMemPerCPU/d /etc/slurm/extra.conf; scontrol reconfigure")


# What a partition gives a job that names no memory; {partition: (with a GPU, with a share)} is whether it is enough.
DEFAULTS = {
    "DefMemPerCPU=1024": (True, True), "DefMemPerNode=4096": (True, True),
    "JobDefaults=DefMemPerGPU=8192": (True, False), "JobDefaults=DefCpuPerGPU=2,DefMemPerGPU=8192": (True, False),
    "JobDefaults=DefCpuPerGPU=2": (False, False), "DefMemPerCPU=0": (False, False),
}


@pytest.fixture(params=DEFAULTS)
def giving(capped, request):
    """A partition with defaults of its own, and whether they are enough."""
    # slurmctld keeps the defaults of the partition that it saw last, by its address, which a new one may have again
    # (docs/dev/slurm-faults.md).
    outcome(capped, A40, "-c1", "--mem=1G", "-p", "p")
    capped.ok(f"scontrol create partition=giving nodes=ALL {request.param}")
    yield DEFAULTS[request.param]
    capped.cancel_all()
    capped.ok("scontrol delete partition=giving")


def test_a_default_of_the_partition_is_enough_where_it_counts(capped, giving):
    """For a share DefMemPerGPU doesn't: what Slurm gives without the rule shows it."""
    jobs = [[A40, "-c2"], ["--gres=mps:40", "-c2"]]
    with configured(capped, "Mode=enforce\nPlacement=own\nUnitsPerGpu=80"):
        assert tuple(is_within(*outcome(capped, *job, "-p", "giving")) for job in jobs) == giving
    with configured(capped, CAPS + "\nPlacement=own\nUnitsPerGpu=80"):
        for job, is_enough in zip(jobs, giving):
            explained = capped.run(["gpushare", "explain", "--", *job, "-p", "giving", "--wrap=true"], "alice")
            if is_enough:
                assert is_within(*outcome(capped, *job, "-p", "giving"))
            else:
                refused(capped, "GS128", *job, "-p", "giving")
            assert ("GS128" in explained.stdout) != is_enough, explained
            refused(capped, "GS128", *job, "-p", "giving,p")
            refused(capped, "GS128", *job, "-p", "p")
        if giving[0]:
            job, _ = accepted(capped, *jobs[0], "-p", "giving")
            moved = capped.run(f"scontrol update job={job} partition=p", "alice")
            assert moved.returncode != 0 and capped.fields(job)["Partition"] == "giving", moved


def test_the_memory_that_a_waiting_job_names_counts(capped):
    """Once it was considered, Slurm's library shows its partition's DefMemPerGPU instead."""
    outcome(capped, A40, "-c1", "--mem=1G", "-p", "p")
    capped.ok("scontrol create partition=giving nodes=ALL JobDefaults=DefMemPerGPU=8192")
    try:
        with configured(capped, "PartitionName=small MaxMemPerGpu=a40:16G"):
            first, _ = accepted(capped, "--gres=gpu:a40:4", "-c1", "--mem=1G")
            capped.ok(f"scontrol release {first}")
            capped.wait_state(first, "RUNNING")
            job, _ = accepted(capped, A40, "-c2", "--mem=100G", "-p", "giving")
            capped.ok(f"scontrol release {job}")
            capped.wait(lambda: "MemPerTres" in capped.fields(job), "Slurm's default in the job")
            moved = capped.run(f"scontrol update job={job} partition=small", "alice")
            assert moved.returncode != 0 and capped.fields(job)["Partition"] == "giving", moved
            less, _ = accepted(capped, A40, "-c2", "--mem=9G", "-p", "giving")
            capped.ok(f"scontrol update job={less} partition=small", "alice")
    finally:
        capped.cancel_all()
        capped.ok("scontrol delete partition=giving")


def test_a_partition_for_gpus_runs_no_job_without_one(capped):
    capped.ok(
        "scontrol create reservation=workshop starttime=now+10days duration=60 users=alice nodecnt=1 flags=overlap"
    )
    with configured(capped, "GpuPartitions=small"):
        # On no GPU:
        for options in (["-c4"], ["--exclusive"], ["--gres=gpu:0"], ["--cpus-per-task=2", "--mem=1G"]):
            refused(capped, "GS126", "-p", "small", *options)
            refused(capped, "GS126", "-p", "p,small", *options)
            accepted(capped, "-p", "p", *options)
        advice = refused(capped, "GS126", "-p", "small", "-c4")
        assert advice == "--partition=small -c4 --gres=gpu:1"
        assert sum(outcome(capped, *advice.split())[2].values()) == 1
        advice = refused(capped, "GS126", "-p", "small", "-n4", "--ntasks-per-gpu=2")
        assert sum(outcome(capped, *advice.split())[2].values()) == 2
        assert outcome(capped, "-p", "small", "--gres=mps:40")[2]["share"] == 40
        assert refused(capped, "GS126", "--reservation=workshop") == "--partition=NAME"
        job, _ = accepted(capped, "-p", "p")
        assert capped.run(f"scontrol update job={job} partition=small", "alice").returncode != 0
        assert capped.fields(job)["Partition"] == "p"
        into = f"partition=small TresPerNode={prefix(capped)}gpu:1"
        assert capped.run(f"scontrol update job={job} {into}", "alice").returncode, "Slurm may take half of it"
        job, _ = accepted(capped, "-p", "p", "--gres=gpu:2", "--mem=1G")
        capped.ok(f"scontrol update job={job} {into}", "alice")
        assert capped.run(f"scontrol update job={job} TresPerNode=", "alice").returncode != 0
        capped.ok(f"scontrol release {job}")
        capped.wait_state(job, "RUNNING")
        assert sum(allocated(capped, job)[2].values()) == 1
        # The default partition counts as one that is named.
        capped.ok("scontrol update partition=small default=yes")
        try:
            refused(capped, "GS126", "-c4")
        finally:
            capped.ok("scontrol update partition=p default=yes")


def test_modes_and_exemptions_hold_for_these_rules_too(capped):
    with configured(capped, CAPS + "\nGpuPartitions=small\nMode=warn"):
        _, told = accepted(capped, A40, "-c9", "--mem=1G")
        assert "warning: this cluster allows at most 8 CPUs with 'gpu:a40:1'; the job requests 9" in told, told
        assert "GS127" in told, told
        _, told = accepted(capped, "-p", "small", "--mem=1G")
        assert "GS126" in told, told
    with configured(capped, CAPS + "\nGpuPartitions=small\nExemptUsers=alice"):
        accepted(capped, A40, "-c9", "--mem=1G")
        accepted(capped, "-p", "small", "--mem=1G")
        refused(capped, "GS126", "-p", "small", "--mem=1G", user="bob")
