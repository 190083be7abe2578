# SPDX-License-Identifier: MIT
"""The figures of a run: a line in the terminal and a row in a file, as soon as a row is measured."""

import json
import os
import time
from pathlib import Path

import report
from gpu.names import TITLES

LINE = "{:<46}{:>10}{:>8}  {}"


class OutOfTime(Exception):
    """The seconds of --budget are over."""


class Record:
    def __init__(self, file, facts, budget):
        self.file = Path(file) if file else None
        self.run = time.strftime("%Y-%m-%d %H:%M:%S")
        self.facts, self.rows, self.wrong = facts, [], []
        self.deadline = time.monotonic() + budget if budget else None

    def check_time(self):
        if self.deadline and time.monotonic() > self.deadline:
            raise OutOfTime

    def add(self, row):
        if not self.facts.get("device"):  # a process that only compiles
            return
        self.rows.append({**row, "run": self.run})
        print(line(row, self.facts), flush=True)
        if row["results"].get("ebb", {}).get("reason"):
            self.wrong.append(f"{row['suite']} {row['case']}: {row['results']['ebb']['reason']}")
        self.save()

    def save(self):
        if self.file:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            beside = self.file.with_suffix(".part")  # so that a run which is killed loses nothing
            beside.write_text(json.dumps({"runs": {self.run: self.facts}, "rows": self.rows}, indent=1))
            os.replace(beside, self.file)


def share_of_copy(row, facts):
    ours = report.median(row, "ebb")
    return row["bytes"] / ours / facts["copy_bytes_per_second"] if row.get("bytes") and ours else None


def special_seconds(row, facts):
    """The least time of the row's special functions; None where it is not known or memory takes longer."""
    rate = facts.get("special_functions_per_second")
    if not rate or not row.get("special_functions") or not row.get("bytes"):
        return None
    least = row["special_functions"] / rate
    return least if least > row["bytes"] / facts["copy_bytes_per_second"] else None


def line(row, facts):
    name = f"{row['suite']}: {row['case']}"
    ours, share = report.median(row, "ebb"), share_of_copy(row, facts)
    cells = []
    for key, result in row["results"].items():
        title = TITLES.get(key, key)
        if result.get("reason"):
            cells.append(f"\n{'':<8}{title}: {result['reason']}")
            continue
        cell = "" if key == "ebb" else f"{title} {report.ratio(row, key):.2f}" if ours else title
        if key != "ebb" and (key.startswith("ebb") or row.get("show_times")):
            cell += f" ({report.seconds(result['median_s'])})"
        if "peak_bytes" in result and result["peak_bytes"] is not None:
            cell += f" {report.size_in_bytes(result['peak_bytes'])}"
        if cell:
            cells.append(cell.strip())
    special = special_seconds(row, facts)
    if special and ours:
        cells.append(f"special functions alone {report.seconds(special)}: {special / ours:.0%}")
    return LINE.format(name, report.seconds(ours), f"{share:.1%}" if share else "", "  ".join(cells))


def read(files):
    """Rows of several runs; of a row that was measured twice, the one of the last file."""
    runs, rows = {}, {}
    for file in files:
        known = json.loads(Path(file).read_text())
        runs.update(known["runs"])
        for row in known["rows"]:
            rows[row["suite"], row["case"]] = row
    used = {row["run"] for row in rows.values()}
    return {"runs": {name: facts for name, facts in runs.items() if name in used}, "rows": list(rows.values())}


def write(known, file):
    """One row per line, so that a change of one is a change of one line."""
    rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in known["rows"])
    Path(file).write_text(f'{{"runs": {json.dumps(known["runs"], indent=1, ensure_ascii=False)},\n"rows": [\n{rows}\n]}}\n')
