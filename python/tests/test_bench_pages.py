# SPDX-License-Identifier: MIT
"""The benchmarks' own files: which rows are asked for, and the page of several machines."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import compare  # noqa: E402
import contenders  # noqa: E402
import machines  # noqa: E402
import report  # noqa: E402


def test_every_line_of_rows_names_a_suite_cases_dtypes_and_peers():
    options = SimpleNamespace(rows=ROOT / "bench" / "many_cores.rows", peers=list(contenders.PEERS), suite=[])
    parts = compare.parts_of(options)
    assert len(parts) > 5
    for part in parts:
        assert part.suite in compare.SUITES
        assert set(part.dtypes) <= {"f32", "bf16"} and part.peers
        re.compile(part.cases)
    first = next(part for part in parts if part.suite == "products" and "f32" in part.dtypes)
    assert re.search(first.cases, "[256,256]x[256,256]") and not re.search(first.cases, "[2048,512]x[32000,512]^T")


def machine(title, threads, ebb, torch):
    row = {"suite": "engine", "case": "mse", "size": "large", "dtype": "f32", "mode": "value+grad",
           "seconds": {"ebb": ebb, "torch": torch, "jax": 9.0}}
    return {"title": title, "threads": threads, "machine": {"threads": threads, "cores": "16"}, "when": "2026-01-01",
            "versions": {"PyTorch": "2.0"}, "rows": [row]}


def test_machines_stand_side_by_side_with_their_own_fastest_peer():
    text = machines.section([machine("A", 2, 1e-3, 2e-3), machine("B", 16, 4e-3, 2e-3)])
    assert "| engine | mse | f32 | 1 ms, **2.00×** PyTorch | 4 ms, *0.50×* PyTorch |" in text
    assert machines.section([machine("A", 2, 1e-3, 2e-3)]) == ""


def test_a_row_measured_twice_is_one_row_with_all_its_peers(tmp_path, monkeypatch):
    def row(ebb, **peers):
        results = {key: {"median_s": s} for key, s in {"ebb": ebb, **peers}.items()}
        return {"suite": "train", "case": "MLP", "size": "large", "dtype": "f32", "mode": "value+grad", "threads": 2,
                "results": results}

    known = {"machine": {"threads": 2}, "versions": {},
             "suites": {"train": {"when": "2026-01-01", "rows": [row(1.0, torch=3.0), row(2.0, compile=3.0)]}}}
    (tmp_path / "results.json").write_text(compare.json.dumps(known))
    monkeypatch.setattr(machines, "KEPT", tmp_path / "machines")
    machines.add(tmp_path / "results.json", "A machine")
    (kept,) = machines.kept_machines()
    assert [r["seconds"] for r in kept["rows"]] == [{"ebb": 1.0, "torch": 3.0, "compile": 1.5}]


def test_rows_that_a_run_did_not_measure_stay_from_the_one_before(tmp_path, monkeypatch):
    def results(when, *cases):
        rows = [{"suite": "train", "case": case, "size": "large", "dtype": "f32", "mode": "value+grad", "threads": 2,
                 "results": {"ebb": {"median_s": seconds}}} for case, seconds in cases]
        known = {"machine": {"threads": 2, "cores": "2"}, "versions": {}, "suites": {"train": {"when": when, "rows": rows}}}
        (tmp_path / "results.json").write_text(compare.json.dumps(known))
        return tmp_path / "results.json"

    monkeypatch.setattr(machines, "KEPT", tmp_path / "machines")
    machines.add(results("2026-01-01", ("MLP", 1.0), ("GPT", 2.0)), "A machine")
    machines.add(results("2026-02-02", ("MLP", 0.5)), "A machine")
    (kept,) = machines.kept_machines()
    assert [(r["case"], r["seconds"]["ebb"], r.get("when")) for r in kept["rows"]] == [
        ("MLP", 0.5, None), ("GPT", 2.0, "2026-01-01")]
    assert "1 of 2 rows from an earlier run" in machines.described(kept)


def test_a_peer_that_was_disturbed_counts_with_its_lower_quartile():
    def result(*quartiles):
        return dict(zip(("low_s", "median_s", "high_s"), quartiles))

    assert machines.time_of("torch", result(1.0, 2.0, 2.9)) == 2.0
    assert machines.time_of("torch", result(1.0, 2.0, 3.1)) == 1.0
    assert machines.time_of("ebb", result(1.0, 2.0, 9.0)) == 2.0


def test_the_page_shows_the_machines_that_are_kept():
    page = machines.PAGE.read_text()
    assert machines.write_section(page) == page, "bench/machines.py page writes it anew"


def test_scaling_shows_what_the_machine_itself_gives():
    row = {"case": "copy of 96 MiB", "title": "the machine", "dtype": "", "threads": [1, 2], "ebb": [1.0, 0.625], "peer": []}
    assert "| copy of 96 MiB |  | the machine | 1 s (100%) | 625 ms (80%) |" in report.scaling_table([row])
    assert "the machine" in report.scaling_line(row) and "PyTorch" not in report.scaling_line(row)
