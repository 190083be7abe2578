# SPDX-License-Identifier: MIT
"""The plots of the comparisons, as SVG."""

import math
from xml.sax.saxutils import escape

OURS, BEHIND, THEIRS = "#2b7a9e", "#c2553a", "#b9bec4"
LEFT, WIDTH, TOP = 250, 420, 46


def start(width, height, title):
    return [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="11">',
            '<rect width="100%" height="100%" fill="white"/>',
            f'<text x="12" y="20" font-size="14" font-weight="bold">{escape(title)}</text>']


def finish(svg):
    return "\n".join([*svg, "</svg>"]) + "\n"


def vertical(svg, x, bottom, text, strong=False):
    colour, stroke = ("#333", 1.4) if strong else ("#ccc", 0.8)
    svg.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom - 24}" '
               f'stroke="{colour}" stroke-width="{stroke}"/>')
    svg.append(f'<text x="{x:.1f}" y="{bottom - 10}" text-anchor="middle" fill="#555">{text}</text>')


def ratio_plot(bars, title):
    """One bar per case on a logarithmic scale; bars: (case, time of the fastest peer relative to Ebb, whose it is)."""
    bars = sorted(bars, key=lambda b: -b[1])
    if not bars:
        return None
    height = 18
    left = max(LEFT, 20 + 6.3 * max(len(case) for case, _, _ in bars))
    low, high = min(0.5, min(b[1] for b in bars)), max(4, max(b[1] for b in bars))
    at = lambda v: left + WIDTH * math.log(v / low) / math.log(high / low)
    total = TOP + height * len(bars) + 30
    svg = start(round(left) + WIDTH + 130, total, title)
    for tick in (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256):
        if low <= tick <= high:
            vertical(svg, at(tick), total, f"{tick:g}×", tick == 1)
    for k, (case, value, peer) in enumerate(bars):
        y = TOP + height * k
        a, b = sorted((at(1), at(value)))
        svg.append(f'<text x="{left - 8:g}" y="{y + 12}" text-anchor="end">{escape(case)}</text>')
        svg.append(f'<rect x="{a:.1f}" y="{y + 2}" width="{max(b - a, 1):.1f}" height="{height - 5}" '
                   f'fill="{OURS if value >= 1 else BEHIND}"/>')
        svg.append(f'<text x="{b + 5:.1f}" y="{y + 12}" fill="#333">{value:.2f}× '
                   f'<tspan fill="#888">{escape(peer)}</tspan></text>')
    return finish(svg)


def bar_groups(groups, title, most, ticks, show):
    """Bars from 0 to `most`; groups: (case, [(whose, value, whether it is Ebb's)]). `show` makes a value a text."""
    if not groups:
        return None
    thin, between = 13, 9
    total = TOP + sum(thin * len(bars) + between for _, bars in groups) + 30
    at = lambda v: LEFT + WIDTH * v / most
    svg = start(LEFT + WIDTH + 230, total, title)
    for tick in ticks:
        vertical(svg, at(tick), total, show(tick), tick == 0)
    y = TOP
    for case, bars in groups:
        svg.append(f'<text x="{LEFT - 8}" y="{y + 11}" text-anchor="end">{escape(case)}</text>')
        for whose, value, ours in bars:
            svg.append(f'<rect x="{LEFT}" y="{y + 1}" width="{max(at(value) - LEFT, 1):.1f}" height="{thin - 2}" '
                       f'fill="{OURS if ours else THEIRS}"/>')
            svg.append(f'<text x="{at(value) + 5:.1f}" y="{y + 10}" fill="#333">{show(value)} '
                       f'<tspan fill="#888">{escape(whose)}</tspan></text>')
            y += thin
        y += between
    return finish(svg)


def scatter(points, title, across, units, line=None):
    """Numbered points on logarithmic axes and a list of whose they are; points: (whose, x, y, whether it is Ebb's).
    `units` are those of x and y; `line`: (text, y) of a limit."""
    if not points:
        return None
    left, width, height = 60, 380, 300
    xs, ys = [p[1] for p in points], [p[2] for p in points] + ([line[1]] if line else [])
    ends = lambda values: (min(values) / 1.15, max(values) * 1.15)
    (low_x, high_x), (low_y, high_y) = ends(xs), ends(ys)
    at_x = lambda x: left + width * math.log(x / low_x) / math.log(high_x / low_x)
    at_y = lambda y: TOP + height * (1 - math.log(y / low_y) / math.log(high_y / low_y))
    svg = start(left + width + 400, TOP + height + 46, title)
    for tick in logarithmic_ticks(low_x, high_x):
        svg.append(f'<line x1="{at_x(tick):.1f}" y1="{TOP}" x2="{at_x(tick):.1f}" y2="{TOP + height}" stroke="#eee"/>')
        svg.append(f'<text x="{at_x(tick):.1f}" y="{TOP + height + 16}" text-anchor="middle" fill="#555">{tick:g}</text>')
    for tick in logarithmic_ticks(low_y, high_y):
        svg.append(f'<line x1="{left}" y1="{at_y(tick):.1f}" x2="{left + width}" y2="{at_y(tick):.1f}" stroke="#eee"/>')
        svg.append(f'<text x="{left - 6}" y="{at_y(tick) + 4:.1f}" text-anchor="end" fill="#555">{tick:g}</text>')
    svg.append(f'<path d="M{left} {TOP} V{TOP + height} H{left + width}" fill="none" stroke="#333"/>')
    svg.append(f'<text x="{left + width / 2}" y="{TOP + height + 34}" text-anchor="middle" fill="#555">'
               f'{escape(across)}, {units[0]}</text>')
    svg.append(f'<text x="{left}" y="{TOP - 10}" text-anchor="middle" fill="#555">{units[1]}</text>')
    if line:
        svg.append(f'<line x1="{left}" y1="{at_y(line[1]):.1f}" x2="{left + width}" y2="{at_y(line[1]):.1f}" '
                   'stroke="#888" stroke-dasharray="5 4"/>')
        svg.append(f'<text x="{left + width - 4}" y="{at_y(line[1]) + 13:.1f}" text-anchor="end" fill="#888">'
                   f'{escape(line[0])}</text>')
    for k, (whose, x, y, ours) in enumerate(sorted(points, key=lambda p: p[2])):
        colour = OURS if ours else "#8a9097"
        for cx, cy in ((at_x(x), at_y(y)), (left + width + 24, TOP + 14 + 20 * k)):
            svg.append(f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="7.5" fill="{colour}" stroke="white"/>')
            svg.append(f'<text x="{cx:.1f}" y="{cy + 3.5:.1f}" text-anchor="middle" font-size="9" fill="white">'
                       f'{k + 1}</text>')
        svg.append(f'<text x="{left + width + 38}" y="{TOP + 18 + 20 * k}" fill="#333">{escape(whose)} '
                   f'<tspan fill="#888">{y:.3g} {units[1]}, {x:.3g} {units[0]}</tspan></text>')
    return finish(svg)


def logarithmic_ticks(low, high):
    """Round numbers: 1, 2, 5, or also those between where few fit."""
    for digits in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8), [k / 10 for k in range(10, 100, 2)]):
        found = [d * 10.0**e for e in range(-6, 9) for d in digits if low <= d * 10.0**e <= high]
        if len(found) >= 4:
            break
    return found


def ticks_to(most):
    """Up to eight round numbers from 0."""
    step = next(m * 10.0**e for e in range(-6, 9) for m in (1, 2, 5) if most / (m * 10.0**e) <= 8)
    return [k * step for k in range(int(most / step) + 1)]
