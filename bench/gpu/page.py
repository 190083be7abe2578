# SPDX-License-Identifier: MIT
"""The section of docs/benchmarks.md about a GPU, with its plots, from the figures of earlier runs."""

from pathlib import Path

import plots
import reasons
import report
from gpu import record
from gpu.names import PEERS, TITLES

STORED = Path(__file__).resolve().parent / "h200.json"
BEGIN = "<!-- On a GPU: written by bench/compare_gpu.py --page. -->\n"
END = "<!-- The end of what is written by bench/compare_gpu.py. -->\n"

# Suites in the order of the page: title, and what the table is about.
SUITES = {
    "rows": ("Cross-entropy over a vocabulary", "Value and gradient of bf16 logits. Liger overwrites the logits with "
             "the gradient. QuACK also has a kernel that computes the gradient in the forward pass, without dividing it by the "
             "number of rows."),
    "linear_ce": ("LM head and cross-entropy", "Rows × width × vocabulary in bf16, value and both gradients. Memory is the "
                  "peak beyond the inputs, gradients included; the error is that of the worst gradient, relative to its norm. "
                  "The three products alone are the logits and both gradients as products in cuBLAS. CCE skips blocks of "
                  "probabilities below 2⁻¹²."),
    "train": ("Training", "PyTorch's GPT-2 is nanoGPT's: bf16 by autocast, f32 weights, clipping and the fused AdamW. Ebb's is "
              "[examples/gpt2.cc](../examples/gpt2.cc). Memory is the peak of a step, parameters and the optimiser's state "
              "included."),
    "losses": ("Losses", "Value and gradient of 2²⁶ elements, or of [16384, 4096] where a loss has rows."),
    "custom": ("Losses that no library has", "Formulas written in Python, the same text for Ebb and PyTorch "
               "([bench/peers/formulas.py](../bench/peers/formulas.py))."),
    "norms": ("Norms", "Forward."),
    "attention": ("Attention", "Values and the three gradients."),
    "ctc": ("CTC", "Value and gradient."),
    "small": ("Small calls", "Value and gradient; the time of a call among many, and the time until its result is there."),
    "latency": ("From a formula to its first result", "In new processes whose caches are empty, and in others that find what "
                "those compiled. A first formula, which starts the compilers, is not counted."),
}


def size_of(row):
    return f"`{row['case']}`" if row["suite"] in ("losses", "custom") else row["case"].replace(" x ", " × ")


def contenders_of(rows):
    return [k for k in dict.fromkeys([*TITLES, *(k for r in rows for k in r["results"])])
            if k != "ebb" and any("median_s" in r["results"].get(k, {}) for r in rows)]


def table(header, lines):
    return "| " + " | ".join(header) + " |\n|" + "---|" * len(header) + "\n" + "".join(
        "| " + " | ".join(cells) + " |\n" for cells in lines)


def best(row):
    peer = report.best_peer(row, PEERS)
    r = report.ratio(row, peer) if peer else None
    return (f"**{r:.2f}×**" if r >= 1 else f"*{r:.2f}×*") if r else "—"


def one_line_each(rows, runs):
    """A row of the table for each case, a column for each contender."""
    others = contenders_of(rows)
    shares = [record.share_of_copy(r, runs[r["run"]]) for r in rows]
    special = [record.special_seconds(r, runs[r["run"]]) for r in rows]
    header = ["", "Ebb"] + (["of copy"] if any(shares) else []) + (["of special functions"] if any(special) else [])
    lines = []
    for row, share, least in zip(rows, shares, special):
        ours = report.median(row, "ebb")
        cells = [size_of(row), report.seconds(ours)]
        if any(shares):
            cells.append(f"{share:.0%}" if share else "")
        if any(special):
            cells.append(f"{least / ours:.0%}" if least and ours else "")
        for key in others:
            theirs, r = report.median(row, key), report.ratio(row, key)
            cells.append(f"{report.seconds(theirs)} ({r:.2f}×)" if r else report.seconds(theirs))
        lines.append([*cells, best(row)])
    return table([*header, *(TITLES.get(k, k) for k in others), "fastest peer"], lines)


def contenders_in_lines(row):
    """A table of one case: a row for each contender, with its memory."""
    lines, products = [], report.median(row, "products")
    with_tokens = any("tokens_per_second" in r for r in row["results"].values())
    with_memory = any(r.get("peak_bytes") for r in row["results"].values())
    for key in sorted(row["results"], key=lambda k: (not k.startswith("ebb"), k == "products")):
        result = row["results"][key]
        if "median_s" not in result:
            continue
        cells = [spoken(key), report.seconds(result["median_s"])]
        cells += [f"{result['tokens_per_second']:,.0f}" if "tokens_per_second" in result else ""] if with_tokens else []
        cells += [f"{result['median_s'] / products:.2f}" if key != "products" else ""] if products else []
        cells += [report.size_in_bytes(result.get("peak_bytes"))] if with_memory else []
        cells += [f"{result['error']:.2%}" if key != "products" else ""] if products and "error" in result else []
        lines.append(cells)
    header = ["", "time"] + (["tokens per second"] if with_tokens else [])
    return table(header + (["over the products"] if products else []) + (["memory"] if with_memory else [])
                 + (["error"] if products else []), lines)


def spoken(key):
    """'Ebb, `round_logits`' of 'ebb round_logits'."""
    if key in TITLES or not key.startswith("ebb "):
        return TITLES.get(key, key)
    return "Ebb, " + ", ".join(f"`{word}`" for word in key[4:].split(", "))


def left_out(rows):
    """Who is missing from which rows, and why."""
    found = {}
    for row in rows:
        for key, result in row["results"].items():
            if result.get("reason"):
                found.setdefault(f"{TITLES.get(key, key)}: {result['reason']}", []).append(row["case"])
    where = lambda cases: "every row" if len(cases) == len(rows) > 1 else ", ".join(cases)
    return "".join(f"- Left out of {where(cases)}: {why}\n" for why, cases in found.items())


def plots_of(suite, rows, runs):
    """(name, text, SVG) of each plot of a suite."""
    if suite == "rows":
        groups = []
        for row in rows:
            copy = runs[row["run"]]["copy_bytes_per_second"]
            shares = [(TITLES.get(k, k), row["bytes"] / r["median_s"] / copy, k.startswith("ebb"))
                      for k, r in row["results"].items() if "median_s" in r]
            groups.append((row["case"], sorted(shares, key=lambda s: -s[1])))
        yield suite, "share of copy bandwidth", plots.bar_groups(
            groups, "cross-entropy, value and gradient: share of copy bandwidth", 1, [k / 4 for k in range(5)],
            lambda v: f"{v:.0%}")
    elif suite == "linear_ce":
        for row in rows:
            points = [(spoken(k).replace("`", ""), r["peak_bytes"] / 1e9, r["median_s"] * 1e3, k.startswith("ebb"))
                      for k, r in row["results"].items() if r.get("peak_bytes") and "median_s" in r and k != "products"]
            products = report.median(row, "products")
            yield f"{suite}_{row['case'].replace(' ', '')}", f"time and memory, {size_of(row)}", plots.scatter(
                points, f"LM head and cross-entropy, {size_of(row)}", "memory beyond the inputs", ("GB", "ms"),
                ("the three products alone", products * 1e3) if products else None)
    elif suite == "train":
        groups = [(row["case"], [(spoken(k), r["tokens_per_second"], k == "ebb") for k, r in row["results"].items()
                                 if "tokens_per_second" in r]) for row in rows if row.get("tokens")]
        if any(bars for _, bars in groups):
            most = 1.05 * max(v for _, bars in groups for _, v, _ in bars)
            yield suite, "tokens per second", plots.bar_groups(groups, "GPT-2: tokens per second", most,
                                                               plots.ticks_to(most), lambda v: f"{v / 1e3:.0f}K")
    elif suite in ("losses", "custom"):
        for dtype in ("bf16", "f32"):
            some = [r for r in rows if r["case"].endswith(dtype)]
            yield f"{suite}_{dtype}", f"{suite} {dtype}", plots.ratio_plot(
                report.bars_beside_best(some, PEERS), f"{suite}, {dtype}: time of the fastest peer relative to Ebb")
    else:
        yield suite, suite, plots.ratio_plot(report.bars_beside_best(rows, PEERS),
                                             f"{suite}: time of the fastest peer relative to Ebb")


def summary(suite, rows, runs):
    shares = [s for s in (record.share_of_copy(r, runs[r["run"]]) for r in rows) if s]
    ratios = [ratio for _, ratio, _ in report.bars_beside_best(rows, PEERS)]
    text = ""
    if len(ratios) > 2 and suite != "linear_ce":  # where the ways differ in memory
        text += f"Geometric mean against the fastest peer of each row **{report.geometric_mean(ratios):.2f}×**"
        behind = sum(r < 1 for r in ratios)
        text += f", slower than it in {behind} of {len(ratios)} rows. " if behind else "; slower than it in no row. "
    if len(shares) > 2:
        above = sum(s >= 0.9 for s in shares)
        text += f"{above} of {len(shares)} rows move at 90 % of the copy or more; the lowest is at {min(shares):.0%}. "
    behind = [case for case, ratio, _ in report.bars_beside_best(rows, PEERS) if ratio < 1]
    return (text + reasons.why_on_a_gpu(behind)).strip()


def section(known, docs):
    """The text; plots are written beside it."""
    runs = known["runs"]
    device = next(iter(runs.values()))["device"]
    text = f"\n## On an {device.replace('NVIDIA ', '')}\n\n`make bench-cuda` measures this, `bench/compare_gpu.py --page docs` "
    text += ("writes it. Contenders take turns in one process; a time is the median of the rounds, between two "
             "synchronisations, over enough calls to fill 20 ms. torch.compile compiles value and gradient as one graph. "
             "Results were checked against f64 first. In parentheses: the time of a peer relative to Ebb (above 1, Ebb is "
             "faster). The share of copy counts inputs read once and results written once, relative to a copy on this GPU "
             "in the same run")
    if any(runs[r["run"]].get("special_functions_per_second") for r in known["rows"]):
        text += ("; where exponentials, logarithms, reciprocals and roots must take longer than memory (16 per clock of a "
                 "multiprocessor at its highest clock, every function of the formula and its gradient once), the share of that "
                 "limit is given, too")
    text += ".\n\n"
    for name, facts in runs.items():
        text += (f"- Run of {name[:16]}: {facts['device']}, driver {facts['driver']}, copy "
                 f"{facts['copy_bytes_per_second'] / 1e12:.2f} TB/s, bf16 product of 8192³ in cuBLAS "
                 f"{facts['product_flops_per_second'] / 1e12:.0f} TFLOP/s; "
                 + ", ".join(f"{k} {v}" for k, v in facts["versions"].items())
                 + "".join(f"; without {k} ({why})" for k, why in facts["missing"].items()) + "."
                 + "".join(f" {note}" for note in facts.get("notes", [])) + "\n")
    (docs / "img").mkdir(parents=True, exist_ok=True)
    for suite, (title, about) in SUITES.items():
        rows = [r for r in known["rows"] if r["suite"] == suite]
        if not rows:
            continue
        text += f"\n### {title}\n\n{about} {summary(suite, rows, runs)}".rstrip() + "\n\n"
        for name, words, svg in plots_of(suite, rows, runs):
            if svg:
                (docs / "img" / f"bench_gpu_{name}.svg").write_text(svg)
                text += f"![{words}](img/bench_gpu_{name}.svg)\n\n"
        if suite in ("linear_ce", "train"):
            text += "\n".join(f"{size_of(row)}:\n\n{contenders_in_lines(row)}" for row in rows)
        else:
            text += one_line_each(rows, runs)
        if left_out(rows):
            text += "\n" + left_out(rows)
    return text


def of_stored_run(docs):
    """For whoever writes the whole page."""
    return "\n" + BEGIN + section(record.read([STORED]), docs) + END if STORED.exists() else ""


def write(known, docs):
    """Puts the section in place of the earlier one, or behind everything but the footnotes."""
    page = docs / "benchmarks.md"
    text, new = page.read_text(), BEGIN + section(known, docs) + END
    if BEGIN in text:
        before, rest = text.split(BEGIN)
        text = before + new + rest.split(END)[1]
    else:
        at = text.find("\n[^1]:")
        text = (text + "\n" + new) if at < 0 else text[: at + 1] + new + text[at:]
    page.write_text(text)
