# SPDX-License-Identifier: MIT
"""matrix.py where cells or whole sets of versions come to no end: they are counted, and the others run.

Run by run.py with pytest, in the Python that has PyTorch.
"""

import json
import sys

import matrix
import torch.multiprocessing as mp


def test_a_cell_that_ends_its_processes_is_wrong_and_the_others_run(tmp_path, monkeypatch):
    names = [name for name, *_ in matrix.names_of("ZeRO-3", False)]
    out = tmp_path / "table.json"
    matrix.write(out, {"versions": {}, "cells": {}})

    def spawn(worker, args, nprocs):
        table = json.loads(out.read_text())
        for name in names:
            if name == names[3] and name not in table["cells"]:
                raise mp.ProcessExitedException("process 1 terminated with signal SIGKILL", 1, 1, -9, "SIGKILL")
            table["cells"].setdefault(name, "same")
            matrix.write(out, table)

    monkeypatch.setattr(mp, "spawn", spawn)
    matrix.run_ranks("ZeRO-3", False, names, out)
    cells = json.loads(out.read_text())["cells"]
    assert cells.pop(names[3]) == "WRONG: its processes ended: process 1 terminated with signal SIGKILL"
    assert cells == dict.fromkeys(names[:3] + names[4:], "same")


def test_versions_that_cannot_be_imported_fail_and_the_others_are_written(tmp_path, monkeypatch, capsys):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no transformers here >&2\nexit 1\n")
    broken.chmod(0o755)
    kept = {"versions": dict.fromkeys(matrix.PACKAGES, "1.0"), "cells": {}, "trl": "works"}
    (tmp_path / "cells").mkdir()
    matrix.write(tmp_path / "cells" / "1.json", kept)
    monkeypatch.setattr(sys, "executable", str(broken))
    monkeypatch.setattr(sys, "argv", ["matrix.py", "--keep", str(tmp_path / "cells"), "--write", str(tmp_path / "page.md")])
    assert matrix.main() == 1
    assert "no transformers here" in capsys.readouterr().out
    page = (tmp_path / "page.md").read_text()
    assert "torch 1.0, transformers 1.0" in page and "(1) not run" in page


def test_the_page_says_on_which_commits_cells_ran():
    cells = {name: "same" for strategy in ("DDP", "FSDP2") for compiled in (False, True) for name, *_ in matrix.names_of(strategy, compiled)}
    trees = {name: "1234567" if "eager" in name else "89abcde" for name in cells if "FSDP2" not in name or "eager" in name}
    told = matrix.where_run({"cells": cells, "trees": trees})
    assert told == "Run at 1234567: DDP (eager), FSDP2 (eager). Run at 89abcde: DDP (compiled). Run at an unknown commit: FSDP2 (compiled)."
