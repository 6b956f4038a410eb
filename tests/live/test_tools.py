# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/users.md, run as it stands: real tools submit under a governed QOS, with the GPU's type and without,
and start steps."""

import re

import pytest
from pages import steps, text_of
from test_rules import configured

PAGE = "docs/users.md#Tools that submit jobs"
SECTIONS = {section: [step for step in steps(PAGE) if step.section == section] for section in
            dict.fromkeys(step.section for step in steps(PAGE))}

# What users write first, in place of the page's; and what they are told. The tool may wait for ever: it is ended then.
UNTYPED = {
    "submitit": ('slurm_gres="gpu:a40:1"', "gpus_per_node=1", "FailedJobError"),
    "dask-jobqueue": ("gpu:a40:1", "gpu:1", "tornado.application - ERROR"),
    "Parsl": ('gres="gpu:a40:1"', "gpus_per_node=1", "BadStateException"),
    "Snakemake": ('gpu=1, gpu_model="a40"', "gpu=1", "SLURM sbatch failed"),
    "simple_slurm": ("gpu:a40:1", "gpu:1", "AssertionError: None"),
}
# Seconds until a tool that hangs is ended: on an idle machine none takes a tenth of that, but Snakemake 20.
LONGEST = 200
# That a step waited for the step before it.
WAITED = re.compile(r"^srun: (Job|job|Step) .*\n", re.M)
UNTIL_TOLD = """
setsid timeout --kill-after=5 {longest} {command} >told 2>&1 &
for ((i = 0; i < {longest} * 5; i++)); do
    if grep -qF '{told}' told && grep -qF 'GS101' told || ! kill -0 $! 2>/dev/null; then break; fi
    sleep 0.2
done
kill -- -$! 2>/dev/null
wait $!
cat told
"""


@pytest.fixture
def folder(tools):
    """A folder of alice's, and no job in the way."""
    tools.cancel_all()
    yield tools.ok(["mktemp", "-d", "/lab/out/tools.XXXX"], "alice")
    tools.cancel_all()


def write(cluster, folder, step, change=lambda text: text):
    name = step.command.removeprefix("cat ")
    cluster.ok(["tee", f"{folder}/{name}"], "alice", stdin=change("\n".join(step.said)) + "\n")


def is_file(step, before):
    """Whether the page shows a file that its reader writes:
    a `cat` with no command before it that could have made it."""
    return step.command.startswith("cat ") and all(other.command.startswith("cat ") for other in before)


def perform(cluster, folder, section):
    """Writes the section's files and runs its commands; each must come to print what the page says."""
    for number, step in enumerate(SECTIONS[section]):
        if is_file(step, SECTIONS[section][:number]):
            write(cluster, folder, step)
            continue
        output = ""

        def is_said():
            nonlocal output
            output = cluster.run(
                f"cd {folder} && timeout {LONGEST} {step.command} 2>&1", "alice", timeout=LONGEST + 20
            ).stdout
            return step.is_said(WAITED.sub("", output))

        if step.looks:
            try:
                cluster.wait(is_said, "")
            except AssertionError:
                pytest.fail(f"line {step.line}: {step.command}\n{output}")
        else:
            assert is_said(), f"line {step.line}: {step.command}\n{output}"


@pytest.mark.parametrize("section", [*UNTYPED, "Lightning, and other programs under srun"])
def test_a_typed_request_runs_as_the_page_shows(tools, folder, section):
    perform(tools, folder, section)


@pytest.mark.parametrize("section", UNTYPED)
def test_an_untyped_request_is_refused_and_the_user_reads_why(tools, folder, section):
    typed, untyped, where = UNTYPED[section]
    shown = SECTIONS[section]
    files = [step for number, step in enumerate(shown) if is_file(step, shown[:number])]
    command = shown[len(files)]
    assert typed in "\n".join(files[0].said), files[0]
    for step in files:
        write(tools, folder, step, lambda text: text.replace(typed, untyped))
    script = UNTIL_TOLD.format(command=command.command, told=where, longest=LONGEST)
    told = tools.ok(f"cd {folder}; {script}", "alice", timeout=LONGEST + 20)
    assert "QOS 'qos_lafferty' requires a GPU type; 'gpu:1' has no type" in told and where in told, told
    assert re.search(r"try: --qos=qos_lafferty (-\S+ )*--(gres=gpu:|gpus=)a40:1\b", told), told


def options_of(pattern):
    """The options that a tool not tried here would hand to sbatch, from the page."""
    return re.findall(r"--[^\s'\",]+", re.search(pattern, text_of(PAGE), re.M).group(1))


@pytest.mark.parametrize(
    "pattern", [r"^ *clusterOptions = '(.*)'$", r"^ *native: \[(.*)\]$"], ids=["nextflow", "ondemand"]
)
def test_options_that_other_tools_pass_on(tools, folder, pattern):
    options = options_of(pattern)
    assert len(options) == 2, options
    script = f"#!/bin/bash\n#SBATCH {' '.join(options)}\necho GPU $CUDA_VISIBLE_DEVICES\n"
    for changed in (script, script.replace("a40:", "")):
        tools.ok(["tee", f"{folder}/run"], "alice", stdin=changed)
        result = tools.run(f"cd {folder} && sbatch --wait --output=out run && cat out", "alice")
        if changed == script:
            assert re.search(r"^GPU \d$", result.stdout, re.M), result.stdout + result.stderr
        else:
            assert result.returncode == 1 and "GS101" in result.stderr, result.stderr


def rows_of(title):
    """{first cell: other cells} of the page's table whose first heading is TITLE, all without backquotes."""
    lines = text_of(PAGE).split(f"| {title} |")[1].splitlines()
    rows = [
        [cell.strip().replace("`", "") for cell in line.strip("|").split(" | ")]
        for line in lines
        if line.startswith("| ")
    ]
    stop = next((number for number, line in enumerate(lines[1:]) if not line.startswith("|")), len(lines))
    return [cell.strip().replace("`", "") for cell in lines[0].strip("| ").split(" | ")], rows[:stop - 1]


TRY_STEPS = """#!/bin/bash
[[ $1 != clean ]] || unset SLURM_GPUS SLURM_GPUS_PER_NODE SLURM_GPUS_PER_TASK SLURM_TRES_PER_TASK
while read -r form; do
    told=$(timeout 20 srun --immediate=15 -n1 $form /lab/open-gpus 2>&1 </dev/null)
    echo "$form|$?|$told" | tr '\\n' ' '
    echo
done <forms
"""


def try_steps(cluster, folder, job, forms, how=""):
    """{form: whether the step ran and could open a GPU} inside a job with the options JOB."""
    cluster.ok(["tee", f"{folder}/forms"], "alice", stdin="".join(form + "\n" for form in forms))
    cluster.ok(["tee", f"{folder}/try"], "alice", stdin=TRY_STEPS)
    output = cluster.ok(f"cd {folder} && rm -f out && sbatch --quiet --wait --output=out -n2 {job} try {how}; cat out",
                        "alice", timeout=300)
    found = {}
    for line in output.splitlines():
        form, status, told = line.split("|", 2)
        reasons = ("with and without type", "mutually exclusive", "unrecognized option", "Invalid Trackable RESource",
                   "use one or the other")
        refused = any(reason in told for reason in reasons)
        assert (status == "0") != refused, line
        assert refused or re.search(r"open=\d", told), line
        found[form] = not refused
    assert list(found) == list(forms), output
    return found


def holds(cell, cluster):
    """Whether a cell of the table says that the step runs: "yes", "not 26.05" or "from 24.11"."""
    said, _, release = cell.partition(" ")
    if said == "from":
        return cluster.newer_than(release)
    return {"yes": True, "no": False, "not": release != cluster.release}[said]


def test_steps_run_or_not_as_the_table_says(tools, folder):
    jobs, rows = rows_of("step: `srun …`")
    forms = {row[0]: re.sub(r" ?\(.*\)", "", row[0]) for row in rows}
    wrong = []
    for column, job in enumerate(jobs, 1):
        found = try_steps(tools, folder, f"--qos=qos_lafferty {job}", forms.values())
        for row in rows:
            if found[forms[row[0]]] != holds(row[column], tools):
                wrong.append(f"{job}: {row[0]} is '{row[column]}', and found {found[forms[row[0]]]}")
    assert len(rows) > 10 and len(jobs) == 4 and not wrong, wrong


def test_mode_default_leaves_no_type_in_the_variables(tools, folder):
    with configured(tools, "Mode=default"):
        forms = {job: ["--gpus=1", "--gpus-per-task=1", "--gres=gpu:1"] for job in
                 ("--gpus=2", "--gpus-per-node=2", "--gpus-per-task=1")}
        if tools.newer_than("26.05"):
            forms["--gpus-per-node=2"].remove("--gres=gpu:1")  # takes no --gres, with whatever type
        if tools.newer_than("25.05"):
            forms["--gpus-per-task=1"] = ["--gpus-per-task=1"]  # slurmctld sets that variable, with the type
        for job in forms:
            found = try_steps(tools, folder, f"--qos=qos_lafferty {job}", forms[job])
            assert all(found.values()), (job, found)
    # sacct lags.
    tools.wait(
        lambda: tools.ok("sacct -n -X -o alloctres%80 | tail -n 3 | grep -c gpu:a40=2 || true") == "3", "typed jobs"
    )


def test_steps_without_types_run_once_the_variables_are_unset(tools, folder):
    for job in ("--gpus=a40:2", "--gpus-per-node=a40:2", "--gpus-per-task=a40:1"):
        found = try_steps(
            tools,
            folder,
            f"--qos=qos_lafferty {job}",
            ["--gres=gpu:1", "--gpus=1", "--gpus-per-node=1", "--gpus-per-task=1", "--ntasks-per-gpu=1"],
            "clean",
        )
        assert all(found.values()), (job, found)
