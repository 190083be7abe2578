#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The README's "How fast", a table and a picture, from the figures that the benchmarks keep (bench/machines, bench/gpu).

    tools/first_page.py            write both
    tools/first_page.py --check    say whether they are what the figures say now (exit code 1: they are not)
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))

import machines  # noqa: E402
import plots  # noqa: E402
import report  # noqa: E402
from gpu.names import PEERS  # noqa: E402

README, PICTURE = ROOT / "README.md", ROOT / "docs" / "img" / "how_fast.svg"
BEGIN, END = "<!-- how fast: tools/first_page.py writes this -->\n", "<!-- how fast: end -->\n"
NAMES = {"H200": "NVIDIA H200", "neoverse_v1_2": "Neoverse V1, 2 cores", "emerald_rapids_2": "Emerald Rapids, 2 cores",
         "emerald_rapids_16": "Emerald Rapids, 16 cores"}

# What, the machine, the suite, which of its rows: no more than eight.
ROWS = [
    ("cross-entropy, 4,096 to 128,256 classes, bf16", "H200", "rows", lambda row: True),
    ("{count} losses, 67 million elements, bf16", "H200", "losses", lambda row: row["case"].endswith("bf16")),
    ("LM head with cross-entropy, 128,256 classes", "H200", "linear_ce", lambda row: "128256" in row["case"]),
    ("training GPT-2, 124 million parameters", "H200", "train", lambda row: row["case"].startswith("GPT-2")),
    ("{count} losses, 16 million elements, f32", "neoverse_v1_2", "losses", lambda row: row["size"] == "large" and row["dtype"] == "f32"),
    ("training steps: MLP, ResNet-20, GPTs", "neoverse_v1_2", "train", lambda row: True),
    ("training steps: MLP, ResNet-20, GPTs", "emerald_rapids_16", "train", lambda row: True),
    ("matrix products of eight shapes, bf16", "emerald_rapids_2", "products", lambda row: row["dtype"] == "bf16"),
]


def gpu_ratio(row):
    """(time of the fastest peer relative to Ebb's, whose, Ebb's and the peer's memory). Ebb's time is that of the losses of PyTorch
    programs where there is one, for that is what they would use."""
    results = row["results"]
    ours = next(results[key] for key in ("ebb torch", "ebb") if "median_s" in results.get(key, {}))
    peer = report.best_peer(row, PEERS)
    theirs = results[peer]
    return theirs["median_s"] / ours["median_s"], theirs["title"], ours.get("peak_bytes"), theirs.get("peak_bytes")


def measured():
    """(what, machine, ratios, who was the fastest, memory as text, dates)"""
    gpu = json.loads((ROOT / "bench" / "gpu" / "h200.json").read_text())
    for what, machine, suite, chosen in ROWS:
        memory = ""
        if machine == "H200":
            rows = [row for row in gpu["rows"] if row["suite"] == suite and chosen(row)]
            found = [gpu_ratio(row) for row in rows]
            dates = [gpu["runs"][row["run"]]["when"] for row in rows]
            if len(found) == 1 and found[0][2]:
                memory = f", {report.size_in_bytes(found[0][2])} instead of {report.size_in_bytes(found[0][3])}"
        else:
            kept = json.loads((ROOT / "bench" / "machines" / f"{machine}.json").read_text())
            rows = [row for row in kept["rows"] if row["suite"] == suite and chosen(row) and machines.best(row)]
            found = [machines.best(row) for row in rows]
            dates = [row.get("when", kept["when"]) for row in rows]
        peers = [whose for _, whose, *_ in found]
        often = max(dict.fromkeys(peers), key=peers.count)
        yield what.format(count=len(rows)), NAMES[machine], [ratio for ratio, *_ in found], often + (" and others" if len(set(peers)) > 1 else ""), memory, dates


def made():
    """(the table with what it says about itself, the picture)"""
    lines, bars, days = ["| value and gradient | machine | fastest competitor | its time relative to Ebb's |", "|---|---|---|---|"], [], []
    for what, machine, ratios, peer, memory, dates in measured():
        mean = report.geometric_mean(ratios)
        slower = sum(ratio < 1 for ratio in ratios)
        note = f" ({slower} of {len(ratios)} rows below 1)" if slower and len(ratios) > 1 else ""
        lines.append(f"| {what} | {machine} | {peer} | {mean:.2f} ×{memory}{note} |")
        bars.append((f"{what} ({machine})", mean, peer))
        days += dates
    about = (f"Geometric means, above 1 Ebb is faster; competitors are PyTorch, torch.compile, JAX, MLX, Liger, CCE and QuACK where they\n"
             f"have the function, with the same inputs in the same run, measured {min(days)} to {max(days)}\n"
             f"on the source of those days.\n")
    picture = plots.ratio_plot(bars, "Time of the fastest competitor relative to Ebb")
    return "\n".join(lines) + "\n\n" + about, picture


def main():
    table, picture = made()
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = before + BEGIN + "\n" + table + "\n" + END + after
    if "--check" not in sys.argv[1:]:
        README.write_text(wanted, encoding="utf-8")
        PICTURE.write_text(picture, encoding="utf-8")
    elif wanted != text or not PICTURE.exists() or PICTURE.read_text(encoding="utf-8") != picture:
        sys.exit("README.md or docs/img/how_fast.svg is not what the benchmarks' figures say: run tools/first_page.py")


if __name__ == "__main__":
    main()
