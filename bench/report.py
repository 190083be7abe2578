# SPDX-License-Identifier: MIT
"""The comparison in figures and as text."""

import math
from collections import defaultdict

import contenders
import scaling

TITLES = {
    "engine": "The engine's figures",
    "losses": "Every loss",
    "custom": "Losses that no library has",
    "linear_ce": "Linear head and cross-entropy",
    "autograd": "Differentiation itself",
    "train": "Steps of training",
    "scaling": "More threads",
    "startup": "Starting up",
}


def seconds(s):
    if s is None:
        return "—"
    for unit, scale in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if s >= scale:
            return f"{s / scale:.3g} {unit}"
    return f"{s / 1e-9:.0f} ns"


def size_in_bytes(b):
    if b is None:
        return "—"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if b >= scale:
            return f"{b / scale:.3g} {unit}"
    return f"{b} B"


def median(row, key):
    return row["results"].get(key, {}).get("median_s")


def ratio(row, key):
    """The contender's time relative to Ebb's."""
    ours, theirs = median(row, "ebb"), median(row, key)
    return theirs / ours if ours and theirs else None


def best_peer(row, peers):
    found = [(median(row, p), p) for p in peers if median(row, p)]
    return min(found)[1] if found else None


def bars_beside_best(rows, peers):
    """For plots.ratio_plot: each case, the time of the fastest peer relative to Ebb's, and whose it is."""
    best = [(r, best_peer(r, peers)) for r in rows if median(r, "ebb")]
    return [(r["case"], ratio(r, peer), r["results"][peer]["title"]) for r, peer in best if peer]


def share_of_copy(row):
    """The speed relative to a plain copy of as many bytes in the same rounds, for memory-bound rows."""
    return row["copy_s"] / median(row, "ebb") if row.get("copy_s") and median(row, "ebb") else None


def memory(result):
    return result.get("pool_peak_bytes", result.get("peak_bytes"))


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


# ---- the table in the terminal

COLUMNS = 17


def header(peers):
    cells = [contenders.PEERS[p][0] for p in peers]
    return (f"{'case':<42}{'':<22}{'Ebb':>10} {'± ':>6}{'first':>9}{'memory':>9}{'copy':>6}"
            + "".join(f"{c:>{COLUMNS}}" for c in cells + [title for title, _ in contenders.OTHER_WAYS.values()])
            + f"{'best':>8}")


def cell(row, key):
    result = row["results"].get(key)
    if result is None:
        return ""
    r = ratio(row, key)
    return f"{seconds(result['median_s'])} {r:.2f}×" if r else "—"


def line(row, peers):
    ours = row["results"]["ebb"]
    what = f"{row['size']} {row['dtype']} {'+∇' if row['mode'] == 'value+grad' else ''} {row['threads']} thr"
    if "median_s" not in ours:
        return f"{row['case']:<42}{what:<22} {ours.get('reason')}"
    spread = (ours["high_s"] - ours["low_s"]) / 2 / ours["median_s"]
    share, best = share_of_copy(row), best_peer(row, peers)
    text = f"{row['case']:<42}{what:<22}{seconds(ours['median_s']):>10}{spread:>6.0%} {seconds(ours['first_s']):>9}"
    text += f"{size_in_bytes(memory(ours)):>9}{f'{share:.0%}' if share else '':>6}"
    text += "".join(f"{cell(row, p):>{COLUMNS}}" for p in (*peers, *contenders.OTHER_WAYS))
    text += f"{ratio(row, best):>7.2f}×" if best else ""
    if ours.get("reason"):
        text += f"\n    Ebb: {ours['reason']}"
    for key in (*peers, *contenders.OTHER_WAYS):
        reason = row["results"].get(key, {}).get("reason")
        if reason:
            text += f"\n    {row['results'][key]['title']}: {reason}"
    return text


def groups(rows):
    grouped = defaultdict(list)
    for row in rows:
        grouped[(row["size"], row["dtype"], row["mode"])].append(row)
    order = lambda table: (table[1] != "f32", ["large", "medium", "small"].index(table[0]), table[2])
    return {table: grouped[table] for table in sorted(grouped, key=order)}


def group_figures(rows, peers):
    """Geometric means against each peer and against the fastest of each row, and the rows where Ebb is slower."""
    figures = {}
    for p in peers:
        figures[p] = geometric_mean([ratio(r, p) for r in rows if ratio(r, p)])
    against_best = [(ratio(r, best_peer(r, peers)), r["case"]) for r in rows if best_peer(r, peers) and median(r, "ebb")]
    figures["best"] = geometric_mean([a for a, _ in against_best])
    figures["behind"] = sorted((a, c) for a, c in against_best if a < 1)
    return figures


def summary(rows, peers):
    text = "\nGeometric means of the peers' times relative to Ebb\n"
    for (size, dtype, mode), some in groups(rows).items():
        f = group_figures(some, peers)
        text += f"  {size} {dtype} {mode:<11} ({len(some)} rows): "
        text += ", ".join(f"{contenders.PEERS[p][0]} {f[p]:.2f}×" for p in peers if f[p])
        text += f"; the fastest peer of each row {f['best']:.2f}×\n" if f["best"] else "\n"
        for r, case in f["behind"]:
            text += f"      slower than the fastest peer: {case} {r:.2f}×\n"
        text += memory_beside(some, peers) + repeated_trainings(some)
    return text


def startup_text(rows):
    return "\n".join(f"{r['what']:<44}" + "".join(f"{t}: {show(v, r['unit']):<16}" for t, v in r["values"].items())
                     for r in rows)


def show(value, unit):
    if value is None:
        return "—"
    return seconds(value) if unit == "s" else size_in_bytes(value)


def scaling_header(threads):
    return f"{'case':<42}{'':<6}{'':<9}" + "".join(f"{n:>4} threads   " for n in threads)


def scaling_line(row):
    text = ""
    for title, times in (("", row["ebb"]), ("PyTorch", row["peer"])):
        if not times:
            continue
        shares = scaling.efficiency(times, row["threads"])
        cells = "".join(f"{seconds(t):>9} {f'{e:.0%}' if e else '':<5}" for t, e in zip(times, shares))
        name, dtype = ("", "") if title else (row["case"], row["dtype"])
        text += f"{name:<42}{dtype:<6}{title or row.get('title', 'Ebb'):<9}{cells}\n"
    return text.rstrip()


def scaling_table(rows):
    threads = rows[0]["threads"]
    text = "| case | dtype | |" + "".join(f" {n} threads |" for n in threads) + "\n|---|---|---|" + "---|" * len(threads) + "\n"
    for row in rows:
        for title, times, when in ((row.get("title", "Ebb"), row["ebb"], row.get("when")),
                                   ("PyTorch", row["peer"], row.get("peer_when", row.get("when")))):
            if times:
                title += f", {when}" if when else ""
                shares = scaling.efficiency(times, threads)
                cells = " | ".join(f"{seconds(t)} ({e:.0%})" if e else seconds(t) for t, e in zip(times, shares))
                text += f"| {row['case']} | {row['dtype']} | {title} | {cells} |\n"
    return text


def memory_beside(rows, peers):
    """The peak of each process that trains."""
    lines = []
    for row in rows:
        ours = row["results"]["ebb"].get("peak_bytes")
        figures = [f"{contenders.PEERS[p][0]} {size_in_bytes(row['results'][p]['peak_bytes'])}"
                   for p in peers if "peak_bytes" in row["results"].get(p, {})]
        if ours and "gradients" in row["results"]["ebb"]:
            pool = size_in_bytes(memory(row["results"]["ebb"]))
            lines.append(f"  {row['case']}: Ebb's process takes {size_in_bytes(ours)} (its pool {pool}), "
                         + ", ".join(figures) + "\n")
    return "".join(lines)


def repeated_trainings(rows):
    """Trainings that must be bit-identical to another (checkpoints), compared with it: memory, time, and whether they are."""
    text, by_name = "", {r["case"]: r["results"]["ebb"] for r in rows}
    for row in rows:
        ours, other = row["results"]["ebb"], by_name.get(row.get("same_bits_as"), {})
        if "median_s" not in ours or "median_s" not in other:
            continue
        # The memory of a backward pass beyond the gradients it returns.
        held = lambda r: r["gradients"]["pool_peak_bytes"] - r["gradients"]["bytes"]
        same = ours["gradients"]["bits"] == other["gradients"]["bits"]
        text += (f"{row['case']}, compared with {row['same_bits_as']}: {held(ours) / held(other):.2f} × the "
                 f"activation memory ({size_in_bytes(held(ours))} instead of {size_in_bytes(held(other))}), "
                 f"{ours['median_s'] / other['median_s']:.2f} × the time; the gradients are "
                 f"{'' if same else 'NOT '}bit-identical.\n")
    return text
