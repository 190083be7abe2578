# SPDX-License-Identifier: MIT
"""Files of runs, and the page that is made of them. Needs neither PyTorch nor a GPU."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))

from gpu import page, record  # noqa: E402

FACTS = {"device": "NVIDIA H200", "driver": "1", "versions": {"PyTorch": "2"}, "missing": {"CCE": "not there"},
         "copy_bytes_per_second": 4e12, "product_flops_per_second": 7e14, "special_functions_per_second": 4e12}


def result(seconds, **more):
    return {"title": "somebody", "median_s": seconds, "low_s": seconds, "high_s": seconds, **more}


def row(suite, case, run, moved=None, **results):
    return {"suite": suite, "case": case, "run": run, "bytes": moved, "results": results}


class Page(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.docs = Path(self.folder.name)
        (self.docs / "benchmarks.md").write_text("# Benchmarks\n\nabout\n\n[^1]: a note\n")

    def tearDown(self):
        self.folder.cleanup()

    def file(self, name, run, rows):
        path = self.docs / name
        path.write_text(json.dumps({"runs": {run: FACTS}, "rows": rows}))
        return path

    def section(self):
        return (self.docs / "benchmarks.md").read_text()

    def test_the_last_file_has_the_row(self):
        first = self.file("a", "monday", [row("rows", "x", "monday", ebb=result(1)), row("rows", "y", "monday", ebb=result(1))])
        second = self.file("b", "tuesday", [row("rows", "x", "tuesday", ebb=result(2))])
        known = record.read([first, second])
        self.assertEqual([(r["case"], r["results"]["ebb"]["median_s"]) for r in known["rows"]], [("x", 2), ("y", 1)])
        self.assertEqual(sorted(known["runs"]), ["monday", "tuesday"])
        record.write(known, self.docs / "all")
        self.assertEqual(record.read([self.docs / "all"]), known)
        self.assertEqual(list(record.read([first, self.file("c", "c", [row("rows", c, "c", ebb=result(1)) for c in "xy"])])["runs"]),
                         ["c"])

    def test_every_kind_of_row(self):
        rows = [
            row("rows", "cross_entropy", "r", 4e8, ebb=result(1.25e-4), compile=result(5e-4), quack={"reason": "no kernel"}),
            row("losses", "orpo_loss bf16", "r", 4e8, ebb=result(4e-4), eager=result(2e-4)) | {"special_functions": 8e8},
            row("linear_ce", "2 x 3 x 4", "r", ebb=result(2, peak_bytes=3e9), products=result(1, peak_bytes=1e9),
                **{"ebb round_logits": result(1.5, peak_bytes=2e9, error=0.0017)}),
            row("train", "GPT-2", "r", ebb=result(1, tokens_per_second=560000, peak_bytes=7e9)) | {"tokens": 560000},
        ]
        known = record.read([self.file("a", "r", rows)])
        page.write(known, self.docs)
        text = self.section()
        self.assertIn("## On an H200", text)
        self.assertIn("| cross_entropy | 125 µs | 80% | 500 µs (4.00×) | **4.00×** |", text)
        self.assertIn("- Left out of cross_entropy: QuACK: no kernel", text)
        self.assertIn("| `orpo_loss bf16` | 400 µs | 25% | 50% | 200 µs (0.50×) | *0.50×* |", text)
        self.assertIn("| Ebb, `round_logits` | 1.5 s | 1.50 | 2 GB | 0.17% |", text)
        self.assertIn("| Ebb | 1 s | 560,000 | 7 GB |", text)
        self.assertIn("without CCE (not there)", text)
        for name in ("rows", "losses_bf16", "linear_ce_2x3x4", "train"):
            self.assertIn(f"img/bench_gpu_{name}.svg", text)
            self.assertTrue((self.docs / "img" / f"bench_gpu_{name}.svg").read_text().endswith("</svg>\n"))
        self.assertTrue(text.endswith("\n\n[^1]: a note\n"))
        page.write(known, self.docs)
        self.assertEqual(self.section(), text)  # in place of the earlier one

    def test_the_page_is_that_of_the_stored_run(self):
        if not page.STORED.exists():
            return
        docs = BENCH.parent / "docs"
        stored = page.section(record.read([page.STORED]), self.docs)
        self.assertIn(page.BEGIN + stored + page.END, (docs / "benchmarks.md").read_text(),
                      "run bench/compare_gpu.py --page docs")
        for plot in (self.docs / "img").iterdir():
            self.assertEqual(plot.read_text(), (docs / "img" / plot.name).read_text(), "run bench/compare_gpu.py --page docs")


if __name__ == "__main__":
    unittest.main()
