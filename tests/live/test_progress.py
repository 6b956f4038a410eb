# SPDX-License-Identifier: GPL-2.0-or-later
"""What `make demo` says while its reader waits, with commands of this test's own in place of the slow ones."""

import os
import signal
import subprocess

import pytest
from lab import TOP

WAITS = 'until grep -q "a long thing, 2 s" "$1"; do sleep 0.1; done; echo its output; exit '


@pytest.mark.parametrize("status", [0, 7])
def test_a_long_command_is_named_again_and_again_and_its_output_shown_if_it_fails(tmp_path, status):
    said, script = tmp_path / "said", tmp_path / "demo"
    script.write_text(f". {TOP}/tests/progress.bash\nwith_progress 'a long thing' bash -c '{WAITS}{status}' - {said}\n")
    environment = {"PATH": "/usr/bin:/bin", "PROGRESS_SECONDS": "1"}
    with said.open("w") as output, subprocess.Popen(
        ["bash", script], stdout=output, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as demo:
        try:
            _, errors = demo.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(demo.pid, signal.SIGKILL)
            raise
    assert said.read_text().splitlines()[:2] == ["demo: a long thing, 1 s", "demo: a long thing, 2 s"]
    assert (demo.returncode, errors) == (status, "its output\n" if status else "")


def test_nothing_that_takes_long_runs_without_it():
    """apt-get, cargo, the lab's roots and clusters: `lab root` runs beside cargo, and is waited for."""
    slow = ("apt-get -", "cargo build", '"$lab" up', "$lab root")
    lines = [line for name in ("setup", "demo") for line in (TOP / "tests" / name).read_text().splitlines()]
    found = [line.strip() for line in lines if any(one in line for one in slow) and not line.lstrip().startswith("#")]
    silent = [line for line in found if "with_progress" not in line]
    assert len(found) == 5 and silent == ['$lab root "$release" >/dev/null &'], found
    assert any(line.startswith("wait_for_job") and "$root" in line for line in lines)
