# SPDX-License-Identifier: MIT
"""results.py counts what test programs print, and takes nothing that died, was stopped or never began for passed."""

import subprocess
import sys
import tempfile
from pathlib import Path

CTEST = """test 1
    Start 1: ok
1: Test command: /t "12 passed in 1s"
1: t.cc:2: Skipped
1: there is no browser
1: [  PASSED  ] 3 tests.
1: [  SKIPPED ] 1 test.
1/7 Test #1: ok ...............................   Passed    1.50 sec
    Start 2: fails
2: [  FAILED  ] A.Fails (0 ms)
2: [  PASSED  ] 2 tests.
2/7 Test #2: fails ............................***Failed    0.02 sec
    Start 3: dies
3: [ RUN      ] A.Dies
3/7 Test #3: dies .............................Subprocess aborted***Exception:   0.02 sec
    Start 4: script
4/7 Test #4: script ...........................   Passed    0.02 sec
    Start 5: skips
5: there is no mount
5/7 Test #5: skips ............................***Skipped   0.02 sec
    Start 6: py
6: SKIPPED [2] a.py:3: there is no mpirun
6: 10 passed, 2 skipped in 3.4s
6/7 Test #6: py ...............................   Passed    3.60 sec
    Start 7: long
7: thinking
"""
SHARD = "[       OK ] A.One (1 ms)\n[  SKIPPED ] A.Two (0 ms)\n[       OK ] A.Three (1 ms)\n"


def rows_of(folder, *words):
    command = [sys.executable, "-B", str(Path(__file__).with_name("results.py")), str(folder), *map(str, words)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert not run.stderr, run.stderr
    cells = [[cell.strip(" `*") for cell in line.split("|")[1:-1]] for line in run.stdout.splitlines() if line.startswith("|")][2:]
    return run, {(step, name): (passed, failed, skipped, verdict) for step, name, passed, failed, skipped, _, verdict in cells}


def check(found, expected):
    assert found == expected, f"{found}\nis not\n{expected}"


with tempfile.TemporaryDirectory() as made:
    results, logs = Path(made, "results"), Path(made, "logs")
    results.mkdir(), logs.mkdir()
    Path(made, "ctest.log").write_text(CTEST)
    (results / "tests.txt").write_text("ok\nlater\n")
    run, rows = rows_of(results, "ctest", Path(made, "ctest.log"))
    check(run.returncode, 1)
    check(rows, {
        ("ctest", "ok"): ("3", "0", "1", "passed"),
        ("ctest", "fails"): ("2", "1", "0", "FAILED: Failed"),
        ("ctest", "dies"): ("0", "1", "0", "FAILED: Subprocess aborted"),
        ("ctest", "script"): ("1", "0", "0", "passed"),
        ("ctest", "skips"): ("0", "0", "1", "skipped"),
        ("ctest", "py"): ("10", "0", "2", "passed"),
        ("ctest", "long"): ("0", "1", "0", "FAILED: not finished"),
        ("ctest", ""): ("16", "3", "4", "FAILED: 3 of 7"),
    })
    for why in ("`ok`: 1 × there is no browser", "`skips`: 1 × there is no mount", "`py`: 2 × there is no mpirun"):
        assert why in run.stdout, run.stdout
    assert "A.Dies" in (results / "failed_ctest.txt").read_text()

    (logs / "shards").write_text("cuda 0 2 0 5\ncuda 0 2 0 7\nops 139 2 0 3\ntable 0 2 0 1\n")
    for name in ("cuda.0", "cuda.1", "ops.0", "table.0", "table.1"):
        (logs / f"{name}.txt").write_text(SHARD)
    run, rows = rows_of(results, "gpu", logs)
    check(rows, {
        ("gpu", "cuda"): ("4", "0", "2", "passed"),
        ("gpu", "ops"): ("2", "1", "1", "FAILED: 1 processes"),
        ("gpu", "table"): ("4", "1", "2", "FAILED: not finished"),
        ("gpu", ""): ("10", "2", "5", "FAILED: 2 of 3"),
    })

    run, rows = rows_of(results, "aarch64", logs)  # the same programs under an emulator
    check((rows["aarch64", "cuda"], run.returncode), (("4", "0", "2", "passed"), 1))

    Path(made, "ctest.log").write_text(CTEST.split("    Start 2")[0])  # a later run of one test replaces its row only
    run, rows = rows_of(results, "ctest", Path(made, "ctest.log"))
    check((run.returncode, len(rows)), (0, 2))
    run, rows = rows_of(results, "table")
    check(run.returncode, 1)
    check(rows["ctest", "later"], ("0", "1", "0", "FAILED: not run"))
    check(len(rows), 7 + 1 + 3 + 2 + 4)
print("results.py counts right")
