# SPDX-License-Identifier: MIT
"""Whatever a function is called with, the process survives and the error is a clean one."""

import os
import pathlib
import subprocess
import sys


def test_random_arguments_end_in_a_result_or_a_clean_error(tmp_path):
    worker = pathlib.Path(__file__).with_name("hostile_calls.py")
    last = tmp_path / "last_call"
    run = subprocess.run(
        [sys.executable, str(worker), "1", "3000"],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "LAST_CALL": str(last)},
    )
    assert run.returncode == 0, f"{last.read_text()}\n{run.stderr}"
    assert run.stdout == ""
