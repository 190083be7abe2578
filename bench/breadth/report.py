# SPDX-License-Identifier: MIT
"""Rows as lines of text, Markdown and JSON. Needs neither PyTorch nor Ebb."""

import json
import math


def is_behind(result):
    return result.get("ratio", 1.0) < 1.0


def time_text(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}"


def shapes_text(result):
    shapes = ", ".join(f"{name}[{','.join(map(str, shape))}]" for name, shape in result["shapes"].items())
    sizes = ", ".join(f"{name}={size}" for name, size in result.get("sizes", {}).items())
    return f"{shapes} {sizes}".strip()


def outcome(result):
    if "failed" in result:
        return f"failed: {result['failed']}"
    if "without" in result:
        return result["without"]
    times = f"{result['ratio']:.2f}  ({time_text(result['ebb_s'])}, PyTorch {time_text(result['torch_s'])})"
    if "peer_off" in result:
        times += f"  PyTorch is off by {result['peer_off']:.2g}"
    return times + ("" if "differs" not in result else f"  results differ by {result['differs']}")


def line(result):
    what = f"{result['name']} {result['dtype']} {result['kind']}"
    return f"{what:<44} {outcome(result)}  {shapes_text(result)}"


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")


def measured(results):
    return [r for r in results if "ratio" in r]


def summary(results, planned):
    rows = measured(results)
    ratios = [r["ratio"] for r in rows]
    lines = [f"{len(results)} of {planned} rows, {len(rows)} with a time of both: PyTorch's time over Ebb's, geometric mean "
             f"{geometric_mean(ratios):.2f}; {sum(r < 1 for r in ratios)} below 1.0, {sum(r < 0.9 for r in ratios)} below 0.9"]
    for title, key in (("by kind", "kind"), ("by dtype", "dtype")):
        parts = {value: [r["ratio"] for r in rows if r[key] == value] for value in sorted({r[key] for r in rows})}
        lines.append(f"{title}: " + ", ".join(f"{v} {geometric_mean(r):.2f} ({sum(x < 1 for x in r)} of {len(r)} below 1)"
                                              for v, r in parts.items()))
    behind = sorted({r["name"] for r in rows if is_behind(r)}, key=lambda name: worst(rows, name))
    lines.append("below 1.0, the worst first: " + ", ".join(f"{name} {worst(rows, name):.2f}" for name in behind))
    for title, key in (("failed", "failed"), ("results differ", "differs"), ("PyTorch's results are off", "peer_off"), ("without PyTorch", "without")):
        found = [r for r in results if key in r]
        if found:
            lines.append(f"{title}: {len(found)} rows: " + ", ".join(sorted({f"{r['name']} {r['dtype']}" for r in found})))
    return "\n".join(lines)


def worst(rows, name):
    return min(r["ratio"] for r in rows if r["name"] == name)


def markdown(facts, results, planned):
    lines = ["# Breadth", "", f"{facts['device']}, {facts['threads']} threads, PyTorch {facts['versions']['PyTorch']}, seed "
             f"{facts['seed']}, {facts['when']}.", "", summary(results, planned).replace("\n", "\n\n"), "", "## Below 1.0", "",
             "| function | dtype | sizes | shapes | Ebb | PyTorch | ratio |", "|---|---|---|---|---|---|---|"]
    for r in sorted((r for r in measured(results) if is_behind(r)), key=lambda r: r["ratio"]):
        lines.append(f"| {r['name']} | {r['dtype']} | {r['kind']} | {shapes_text(r)} | {time_text(r['ebb_s'])} | "
                     f"{time_text(r['torch_s'])} | {r['ratio']:.2f} |")
    failures = [r for r in results if "failed" in r or "differs" in r]
    if failures:
        lines += ["", "## Failed, or different from PyTorch's", ""]
        lines += [f"- {r['name']} {r['dtype']} {r['kind']}, {shapes_text(r)}: {outcome(r)}" for r in failures]
    return "\n".join(lines) + "\n"


def write_json(path, facts, results, planned):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"facts": facts, "planned": planned, "rows": results}, indent=1))
