# SPDX-License-Identifier: MIT
"""Notes every skipped test in the file $EBB_SKIPPED_TESTS, as tests/main.cc does: `make test` counts them."""
import os
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it, for its children too


def note(report):
    path = os.environ.get("EBB_SKIPPED_TESTS")
    if path and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ").splitlines()[0]
        with open(path, "a") as file:
            file.write(f"{reason}\t{report.nodeid}\n")


def pytest_runtest_logreport(report):
    note(report)


def pytest_collectreport(report):
    note(report)
