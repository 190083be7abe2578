#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Machines side by side: the rows that several of them have run, each beside the peers of its own run.

    bench/machines.py add RESULTS.json "Sapphire Rapids"   keeps a run of compare.py as bench/machines/NAME_THREADS.json
    bench/machines.py page                                 writes the section of docs/benchmarks.md anew
"""

import json
import re
import sys
from pathlib import Path

import contenders
import report

HERE = Path(__file__).resolve().parent
KEPT = HERE / "machines"
PAGE = HERE.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- machines: bench/machines.py writes this -->", "<!-- machines: end -->"
SHOWN = ["engine", "products", "train", "linear_ce", "losses", "custom", "autograd"]


UNSETTLED = 3  # times between the quartiles


def time_of(key, result):
    """The median; of a peer whose quartiles are far apart, because other programs took its cores, the lower one."""
    unsettled = key in contenders.PEERS and result.get("high_s", 0) > UNSETTLED * result.get("low_s", float("inf"))
    return result["low_s"] if unsettled else result["median_s"]


def kept_row(row):
    times = {key: time_of(key, result) for key, result in row["results"].items() if "median_s" in result}
    wrong = {key: result["reason"] for key, result in row["results"].items() if result.get("reason")}
    kept = {key: row[key] for key in ("suite", "case", "size", "dtype", "mode")}
    return dict(kept, seconds=times, **({"reasons": wrong} if wrong else {}))


def add(file, title):
    """One file for each number of threads; a row measured twice, with other peers, is one row."""
    known = json.loads(Path(file).read_text())
    by_threads = {}
    scaling = [row for row in known["suites"].get("scaling", {}).get("rows", []) if all(row["ebb"])]
    for part in known["suites"].values():
        for row in part["rows"]:
            if "results" not in row:
                continue
            rows = by_threads.setdefault(row.get("threads", known["machine"]["threads"]), {})
            new = kept_row(row)
            old = rows.setdefault(key_of(new), new)
            # Relative to Ebb's time beside them: rounds at another time are not comparable by themselves.
            scale = old["seconds"].get("ebb", 1) / new["seconds"].get("ebb", 1)
            for peer, seconds in new["seconds"].items():
                old["seconds"].setdefault(peer, seconds * scale)
    KEPT.mkdir(exist_ok=True)
    for threads, rows in by_threads.items():
        kept = {"title": title, "threads": threads, "machine": dict(known["machine"], threads=threads),
                "versions": known["versions"], "when": max(p["when"] for p in known["suites"].values()),
                "rows": list(rows.values())}
        if scaling and threads == max(by_threads):
            kept["scaling"] = scaling
        name = re.sub(r"\W+", "_", title.lower()).strip("_")
        place = KEPT / f"{name}_{threads}.json"
        if place.exists():
            keep_earlier(kept, json.loads(place.read_text()))
        place.write_text(as_text(kept))
        print(f"Wrote bench/machines/{name}_{threads}.json, {len(rows)} rows")


def keep_earlier(new, old):
    """Rows of an earlier run that this one did not measure stay, with its date, beside the peers of their own run."""
    measured = {key_of(row) for row in new["rows"]}
    new["rows"] += [dict(row, when=row.get("when", old["when"])) for row in old["rows"] if key_of(row) not in measured]
    if "scaling" in old:
        new["scaling"] = with_earlier_scaling(new.get("scaling", []), old["scaling"], old["when"])


def with_earlier_scaling(rows, earlier, when):
    """Efficiencies compare a program with itself: a peer's of an earlier run, where this one had none, are still true."""
    key = lambda row: (row["case"], row["dtype"])
    before = {key(row): row for row in earlier}
    rows = [dict(row, peer=before[key(row)]["peer"], peer_when=before[key(row)].get("peer_when", when))
            if not row["peer"] and before.get(key(row), {}).get("peer") else row for row in rows]
    measured = {key(row) for row in rows}
    rows += [dict(row, when=row.get("when", when)) for row in earlier if key(row) not in measured]
    return sorted(rows, key=lambda row: "title" in row)  # what the machine itself gives, last


def as_text(kept):
    """JSON with one line for each row."""
    lines = [f" {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in kept.items() if k != "rows"]
    rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in kept["rows"])
    return "{\n" + ",\n".join(lines) + ',\n "rows": [\n  ' + rows + "\n ]\n}\n"


def key_of(row):
    return row["suite"], row["case"], row["size"], row["dtype"], row["mode"]


def kept_machines():
    machines = [json.loads(f.read_text()) for f in sorted(KEPT.glob("*.json"))]
    return sorted(machines, key=lambda m: (m["title"], m["threads"]))


def best(row):
    """The fastest peer: (time relative to Ebb's, its title), or None."""
    found = [(s, p) for p, s in row["seconds"].items() if p in contenders.PEERS]
    if not found or "ebb" not in row["seconds"]:
        return None
    seconds, peer = min(found)
    return seconds / row["seconds"]["ebb"], contenders.PEERS[peer][0]


def cell(row):
    if row is None or "ebb" not in row["seconds"]:
        return ""
    text, fastest = report.seconds(row["seconds"]["ebb"]), best(row)
    if fastest:
        ratio = f"**{fastest[0]:.2f}×**" if fastest[0] >= 1 else f"*{fastest[0]:.2f}×*"
        text += f", {ratio} {fastest[1]}"
    if "hand" in row["seconds"]:
        text += f", {row['seconds']['hand'] / row['seconds']['ebb']:.2f}× by hand"
    return text


def head(machine):
    return f"{machine['title']}, {machine['threads']} threads"


def described(machine):
    m = machine["machine"]
    about = [m.get("processor"), m.get("model"), m.get("architecture"), f"{m['threads']} of {m['cores']} processors"]
    if m.get("threads per core"):
        about.append(f"{m['threads per core']} threads per core")
    about += [f"{k} {v}" for k, v in machine["versions"].items() if v and k != "NumPy"]
    earlier = sum("when" in row for row in machine["rows"])
    if earlier:
        about.append(f"{earlier} of {len(machine['rows'])} rows from an earlier run")
    if machine.get("note"):  # written by hand into the file of the run
        about.append(machine["note"])
    return f"- **{head(machine)}**, measured {machine['when']}: " + ", ".join(a for a in about if a) + ".\n"


def section(machines):
    if len(machines) < 2:
        return ""
    tables = [{key_of(row): row for row in m["rows"]} for m in machines]
    keys = [k for k in dict.fromkeys(k for t in tables for k in t) if sum(k in t for t in tables) > 1]
    keys.sort(key=lambda k: (SHOWN.index(k[0]) if k[0] in SHOWN else len(SHOWN), k[3] != "f32", k[2]))
    text = ("\n## Machines side by side\n\nThe rows that more than one machine has run: Ebb's time and the time of the "
            "fastest peer in the same run relative to it (above 1, Ebb is faster). A peer that gave no answer in the "
            "time it had is left out. A peer "
            f"whose quartiles are more than {UNSETTLED} times apart counts with the lower one: its threads wait for each "
            "other wherever another program takes a core.\n\n")
    text += "".join(described(m) for m in machines)
    heads = [head(m) for m in machines]
    text += "\n| suite | case | dtype | " + " | ".join(heads) + " |\n|---|---|---|" + "---|" * len(heads) + "\n"
    for key in keys:
        suite, case, size, dtype, mode = key
        name = case if size == "large" else f"{case}, {size}"
        name += "" if mode == "value+grad" else ", value alone"
        text += f"| {suite} | {name} | {dtype} | " + " | ".join(cell(t.get(key)) for t in tables) + " |\n"
    for suite in SHOWN:
        for dtype in ("f32", "bf16"):
            means = []
            for t in tables:
                ratios = [best(t[k])[0] for k in keys if k[0] == suite and k[3] == dtype and k in t and best(t[k])]
                means.append(f"**{report.geometric_mean(ratios):.2f}×** ({len(ratios)})" if len(ratios) > 1 else "")
            if any(means):
                text += f"| {suite} | geometric mean (rows) | {dtype} | " + " | ".join(means) + " |\n"
    for m in machines:
        if m.get("scaling"):
            text += (f"\n### More threads: {m['title']}\n\nIn parentheses the efficiency: the time with one thread, divided "
                     "by the number of threads and by the time with that many. The last rows are what the machine itself gives "
                     "to work that is divided evenly, and so waits for the slowest of its processors.\n\n" + report.scaling_table(m["scaling"]))
    return text


def write_section(page):
    """In the place of the section that is there, or before the first suite."""
    new = f"{BEGIN}\n{section(kept_machines())}\n{END}\n"
    if BEGIN in page:
        return page[: page.index(BEGIN)] + new + page[page.index(END) + len(END) + 1:]
    at = page.index("\n## ")
    return page[:at] + "\n" + new + page[at:]


def main():
    if sys.argv[1:2] == ["add"] and len(sys.argv) == 4:
        add(*sys.argv[2:])
    elif sys.argv[1:] != ["page"]:
        sys.exit(__doc__)
    PAGE.write_text(write_section(PAGE.read_text()))
    print("Wrote docs/benchmarks.md")


if __name__ == "__main__":
    main()
