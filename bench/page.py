# SPDX-License-Identifier: MIT
"""docs/benchmarks.md, from the stored runs on a CPU and on a GPU."""

import contenders
import plots
import reasons
from gpu import page as gpu_page
from report import (
    TITLES, bars_beside_best, best_peer, group_figures, groups, median, memory,
    ratio, repeated_trainings, scaling_table, seconds, share_of_copy, show, size_in_bytes,
)


class Footnotes:
    def __init__(self):
        self.reasons = []

    def mark(self, reason):
        if reason not in self.reasons:
            self.reasons.append(reason)
        return f"—[^{self.reasons.index(reason) + 1}]"

    def text(self):
        return "\n".join(f"[^{k + 1}]: {reason}" for k, reason in enumerate(self.reasons))


def page_cell(row, key, notes):
    result = row["results"].get(key)
    if result is None:
        return ""
    r = ratio(row, key)
    if r:
        return f"{seconds(result['median_s'])} ({r:.2f}×)"
    return notes.mark(reasons.with_cause(f"{result['title']}: {result.get('reason') or 'not measured'}"))


def page_table(rows, peers, notes, with_memory):
    ways = [key for key in contenders.OTHER_WAYS if any(key in r["results"] for r in rows)]
    titles = [contenders.PEERS[p][0] for p in peers] + [contenders.OTHER_WAYS[key][0] for key in ways]
    share = any(share_of_copy(r) for r in rows)
    nodes = any(r["nodes"] for r in rows)
    head = ["case", "Ebb", "±", "first call"] + (["share of copy"] if share else []) + (["per node"] if nodes else [])
    both = any("gradients" in r["results"]["ebb"] for r in rows)  # a training: the pool's peak and the process's
    head += titles + ["fastest peer"]
    if with_memory:
        head += ["memory: Ebb's pool", "processes: Ebb"] if both else ["memory: Ebb"]
        head += titles[: len(peers)]
    else:
        head.append("memory")
    text = "| " + " | ".join(head) + " |\n|" + "---|" * len(head) + "\n"
    for row in rows:
        ours = row["results"]["ebb"]
        if "median_s" not in ours:
            text += f"| {row['case']} | {notes.mark('Ebb: ' + str(ours.get('reason')))} |\n"
            continue
        spread = (ours["high_s"] - ours["low_s"]) / 2 / ours["median_s"]
        cells = [row["case"], seconds(ours["median_s"]), f"{spread:.0%}", seconds(ours["first_s"])]
        if share:
            cells.append(f"{share_of_copy(row):.0%}" if share_of_copy(row) else "")
        if nodes:
            building = median(row, "rebuilt") or ours["median_s"]  # a compiled function has no nodes to make
            cells.append(seconds(building / row["nodes"]) if row["nodes"] else "")
        cells += [page_cell(row, key, notes) for key in (*peers, *ways)]
        best = best_peer(row, peers)
        r = ratio(row, best) if best else None
        cells.append((f"**{r:.2f}×**" if r >= 1 else f"*{r:.2f}×*") if r else "—")
        cells.append(size_in_bytes(memory(ours)))
        if both:
            cells.append(size_in_bytes(ours.get("peak_bytes")))
        if with_memory:
            cells += [size_in_bytes(row["results"].get(p, {}).get("peak_bytes")) for p in peers]
        text += "| " + " | ".join(cells) + " |\n"
    return text


def first_calls(rows, peers):
    """The median first call of each contender: what its compiler costs."""
    figures = []
    for key in ("ebb", *peers):
        firsts = sorted(r["results"][key]["first_s"] for r in rows if "first_s" in r["results"].get(key, {}))
        if firsts:
            title = "Ebb" if key == "ebb" else contenders.PEERS[key][0]
            figures.append(f"{title} {seconds(firsts[len(firsts) // 2])}")
    return "First call, median over the rows: " + ", ".join(figures) + "."


def suite_section(suite, part, folder, notes):
    text = f"\n## {TITLES[suite]}\n\nMeasured {part['when']}"
    text += " (quick run: few rounds)." if part["quick"] else "."
    floors = part["floors"]
    text += (" Measured limits of the machine in the same run: "
             f"copy {floors['copy_bytes_per_second'] / 1e9:.1f} GB/s (read + written), "
             f"OpenBLAS 1024³ {floors['gemm_flops_per_second'] / 1e9:.0f} GFLOP/s.\n\n")
    if suite == "startup":
        titles = list(dict.fromkeys(t for r in part["rows"] for t in r["values"]))
        text += "| | " + " | ".join(titles) + " |\n|" + "---|" * (len(titles) + 1) + "\n"
        for r in part["rows"]:
            text += f"| {r['what']} | " + " | ".join(show(r["values"].get(t), r["unit"]) for t in titles) + " |\n"
        return text
    if suite == "scaling":
        return text + ("In parentheses the efficiency: the time with one thread, divided by the number of threads and by "
                       "the time with that many.\n\n" + scaling_table(part["rows"]))
    peers = part["peers"]
    text += first_calls(part["rows"], peers) + "\n"
    for (size, dtype, mode), rows in groups(part["rows"]).items():
        f = group_figures(rows, peers)
        text += f"\n### {suite}: {size}, {dtype}, {mode.replace('grad', 'gradient').replace('+', ' + ')}\n\n"
        if f["best"]:
            text += "Geometric means: " + ", ".join(f"{contenders.PEERS[p][0]} {f[p]:.2f}×" for p in peers if f[p])
            text += f"; against the fastest peer of each row **{f['best']:.2f}×**."
            behind = ", ".join(f"{case} ({r:.2f}×)" for r, case in f["behind"])
            why = reasons.why([case for _, case in f["behind"]], f"{size} {dtype}")
            text += f" Slower than the fastest peer: {behind}. {why}".rstrip() if behind else (
                " No row is slower than the fastest peer.")
            text += "\n\n"
        svg = plots.ratio_plot(bars_beside_best(rows, peers),
                               f"{suite}, {size} {dtype}, {mode}: time of the fastest peer relative to Ebb")
        if svg:
            name = f"bench_{suite}_{size}_{dtype}_{mode.replace('+', '_')}.svg"
            (folder / "img" / name).write_text(svg)
            text += f"![{suite} {size} {dtype}](img/{name})\n\n"
        text += page_table(rows, peers, notes, suite in ("linear_ce", "autograd", "train"))
        if suite == "train":
            text += ("\nMemory is the peak during a later training step, including parameters and the optimiser's "
                     "state: of Ebb's pool, and of the whole process, for Ebb and the peers alike, including the "
                     "libraries they load. " + repeated_trainings(rows))
    return text


def write_page(known, folder):
    (folder / "img").mkdir(parents=True, exist_ok=True)
    notes, m, v = Footnotes(), known["machine"], known["versions"]
    text = "# Benchmarks\n\n"
    text += ("Ebb compared with its strongest peers on one machine, on the same inputs, in interleaved rounds of one run. "
             "`make bench` generates this page, `make bench SUITE=losses QUICK=1` a part of it; "
             "`make bench-parts` measures Ebb's parts individually.\n\n")
    text += "**The machine.** " + ", ".join(f"{k}: {x}" for k, x in m.items() if x) + ".\n\n"
    text += "**The peers.** " + ", ".join(f"{k} {x}" if x else f"{k} (not available)" for k, x in v.items()) + ".\n\n"
    text += ("**How to read it.** Times are medians over all rounds, ± half the interquartile range. In "
             "parentheses: the time of a peer relative to Ebb (above 1, Ebb is faster). Every result was "
             "checked against f64 before it was timed; a peer that cannot run a case, or gets it wrong, shows "
             "as — with the reason below. Where the peers compile a function, Ebb uses compile(f); \"rebuilt\" is "
             "Ebb building its graph in every call. The first call includes whatever a framework compiles. "
             "Ebb's memory is the pool's peak beyond the inputs, a peer's is the growth of its process. The "
             "share of copy bandwidth counts inputs read once and gradients written once, relative to a plain "
             "memcpy of as many bytes on as many threads in the same rounds.\n")
    for suite, part in known["suites"].items():
        text += suite_section(suite, part, folder, notes)
    text += gpu_page.of_stored_run(folder) + "\n" + notes.text() + "\n"
    (folder / "benchmarks.md").write_text(text)
