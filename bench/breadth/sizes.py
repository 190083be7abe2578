# SPDX-License-Identifier: MIT
"""Sizes nobody tuned for, drawn from a seed: of three kinds, for each family of functions.

A family gives the sizes that the rows of table.py name: S (a shape), axis, n, m, k, ... A kind is

    round    powers of two
    odd      primes and numbers one above a power of two
    extreme  one long row, many tiny rows, or an axis that is not the last
"""

import math
import random

KINDS = ("round", "odd", "long", "tiny", "inner")
EXTREME = ("long", "tiny", "inner")
# Elements of the largest tensor of a row: logarithms to the base 2, more often near the upper end.
ELEMENTS = {"tiny": (6, 9), "cpu": (13, 21), "cuda": (13, 25)}


def is_prime(n):
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))


class Draw:
    """The sizes of one row."""

    def __init__(self, seed, kind, scale):
        self.random, self.kind = random.Random(seed), kind
        low, high = ELEMENTS[scale]
        self.low, self.high = low, high
        self.bits = low + (high - low) * math.sqrt(self.random.random())

    def size(self, near):
        """A size of the kind near a number."""
        near = max(near, 2)
        if self.kind == "round":
            return 2 ** round(math.log2(near))
        if self.random.random() < 0.5:
            return 2 ** max(1, round(math.log2(near))) + 1
        n = max(3, round(near * self.random.uniform(0.75, 1.25)))
        while not is_prime(n):
            n += 1
        return n

    def product(self, count, bits=None, lowest=2):
        """`count` sizes whose product is near 2**bits."""
        bits = self.bits if bits is None else bits
        cuts = sorted(self.random.uniform(0.25, 0.75) for _ in range(count))
        total = sum(cuts)
        return [max(lowest, self.size(2 ** (bits * c / total))) for c in cuts]

    def pick(self, *choices):
        return self.random.choice(choices)


def any_shape(d):
    """Elementwise functions: how the elements are arranged hardly matters, how many and where rows start does."""
    S, _ = _shape_and_axis(d)
    return {"S": S, "last": S[-1]}


def _shape_and_axis(d):
    if d.kind == "long":
        return (1, d.size(2**d.bits)), 1
    if d.kind == "tiny":
        width = d.pick(2, 3, 5, 7, 10)
        return (d.size(2**d.bits / width), width), 1
    if d.kind == "inner":
        rank = d.pick(2, 3, 4)
        return tuple(d.product(rank)), d.pick(*range(rank - 1))
    return tuple(d.product(2)), 1


def along_axis(d):
    """Functions along an axis: n is its size, k a few of them."""
    S, axis = _shape_and_axis(d)
    n = S[axis]
    return {"S": S, "axis": axis, "n": n, "k": max(1, min(n, d.pick(1, 5, 10, 64))), "kept": S[:axis] + (1,) + S[axis + 1 :],
            "few": S[:axis] + (max(1, min(n, 5)),) + S[axis + 1 :], "some": max(1, n // 3)}


def rows(d):
    """Rows of scores, [n, classes]."""
    if d.kind == "inner":  # few rows of many classes
        d.kind = "odd"
        return {"S": (d.pick(2, 3, 5), d.size(2 ** (d.bits - 2)))}
    return {"S": _shape_and_axis(d)[0]}


def channels(d):
    """[N, C, ...]: class scores and norms whose channels are not the last axis."""
    if d.kind in ("long", "tiny"):
        return {"N": 1 if d.kind == "long" else d.size(2 ** (d.bits - 4)), "C": 4, "G": 2, "L": d.size(2 ** (d.bits - 2)) if d.kind == "long" else 3}
    C = d.size(d.pick(16, 24, 64))
    n, l = d.product(2, d.bits - math.log2(C))
    G = next(g for g in (8, 4, 5, 3, C) if C % g == 0)
    return {"N": n, "C": C, "G": G, "L": l}


def image(d):
    """Pictures [N, C, H, W]; F filters of K by K."""
    C, F = d.size(d.pick(3, 16, 48)), d.size(d.pick(16, 48))
    bits = d.bits - math.log2(C)
    if d.kind == "long":
        n, h, w = 1, 3, d.size(2 ** (bits - 2))
    elif d.kind == "tiny":
        n, h, w = d.size(2 ** (bits - 5)), 5, 7
    else:
        n, h, w = d.product(3, bits, 4)
    n = max(1, n // 4)
    return {"N": n, "C": C, "H": h, "W": w, "F": F, "K": d.pick(1, 3) if min(h, w) > 2 else 1, "C4": 4 * C}


def signal(d):
    s = image(d)
    return {**s, "L": s["H"] * s["W"]}


def volume(d):
    C = d.size(4)
    if d.kind == "long":
        n, x, h, w = 1, 3, 3, d.size(2 ** (d.bits - 6))
    elif d.kind == "tiny":
        n, x, h, w = d.size(2 ** (d.bits - 9)), 4, 4, 4
    else:
        n, x, h, w = d.product(4, d.bits - 2, 4)
    return {"N": max(1, n // 2), "C": C, "D": x, "H": h, "W": w, "F": d.size(8)}


def product(d):
    """Products [m, k] by [k, n]."""
    if d.kind == "long":
        return {"m": 1, "k": d.size(2 ** (d.bits / 2)), "n": d.size(2 ** (d.bits / 2)), "b": 1}
    if d.kind == "tiny":
        return {"m": d.size(4), "k": d.size(5), "n": d.size(4), "b": d.size(2 ** (d.bits - 5))}
    if d.kind == "inner":
        return {"m": d.size(2 ** (d.bits / 2)), "k": 3, "n": d.size(2 ** (d.bits / 2)), "b": 2}
    side = 2 ** (min(d.bits, 22) / 2 - 1)
    return {"m": d.size(side), "k": d.size(side), "n": d.size(side), "b": d.size(3)}


def square(d):
    """Batches b of matrices [n, n], well conditioned; tall ones are [h, n]."""
    if d.kind == "tiny":
        n = d.pick(2, 3, 4, 5)
        return {"b": d.size(2 ** (d.bits - 8)), "n": n, "h": n + 3, "r": 2}
    if d.kind == "long":
        n = d.size(8)
        # PyTorch's gradient of lstsq makes a matrix [h, h].
        return {"b": 1, "n": n, "h": d.size(min(2 ** (d.bits - 5), 8192)), "r": 1}
    n = min(d.size(2 ** (d.bits / 3 + 1)), 300)
    return {"b": d.pick(1, 1, 4), "n": n, "h": n + n // 2, "r": d.size(8)}


def vectors(d):
    """m and n points of `w` coordinates each."""
    w = 3 if d.kind == "tiny" else d.size(d.pick(16, 64, 256))
    m, n = d.product(2, min(d.bits, 20))
    if d.kind == "long":
        m, n = 1, d.size(2**d.bits / w)
    return {"m": m, "n": n, "w": w, "p": min(m, 200), "q": max(2, min(m, 1000))}


def lookup(d):
    """A table of v rows of w elements, and n numbers of rows in b bags."""
    w = {"tiny": 1, "long": d.size(2 ** (d.bits / 2))}.get(d.kind) or d.size(d.pick(16, 64, 100))
    v = d.size(2 ** (d.bits - math.log2(w)))
    n = d.size(v * d.pick(0.1, 1, 3))
    b = max(1, n // 7)
    return {"v": v, "w": w, "n": n, "b": b, "n7": 7 * b}


def counts(d):
    """n numbers below v, or among v sorted ones."""
    n = d.size(2**d.bits)
    v = {"long": d.size(n), "tiny": d.pick(2, 3, 5)}.get(d.kind) or d.size(d.pick(100, 1000, 10000))
    return {"n": n, "v": v, "few": max(1, n // 8), "classes": min(v, 500), "many": max(1, n // min(v, 500))}


def attention(d):
    """B batches of H heads, T queries and U keys of E numbers."""
    E = d.pick(16, 64, 128) if d.kind == "round" else d.pick(24, 40, 80, 96)
    T = d.size(2 ** (min(d.bits, 23) / 2 - 2)) if d.kind != "tiny" else d.pick(3, 7)
    U = {"long": d.size(4 * T), "inner": T + 3}.get(d.kind, T)
    T = 1 if d.kind == "long" else T
    rows = max(1, int(2**d.bits / (E * max(T, U))))
    H = d.pick(2, 4)
    return {"B": max(1, min(rows // H, 4096)), "H": H, "T": T, "U": U, "E": E}


def sequence(d):
    """T frames of N samples over C classes, with targets of u labels."""
    C = d.size(d.pick(30, 100))
    T, N = d.product(2, d.bits - math.log2(C), 4)
    T = min(T, 200)
    return {"T": T, "N": N, "C": C, "u": max(1, T // 4), "w": d.size(32)}


FAMILIES = {f.__name__: f for f in (any_shape, along_axis, rows, channels, image, signal, volume, product, square, vectors, lookup,
                                    counts, attention, sequence)}


def kinds_of(family):
    """Functions along an axis have every kind of extreme, the others one that is drawn."""
    return KINDS if family == "along_axis" else ("round", "odd", "extreme")


def drawn(family, kind, seed, scale):
    """The sizes of a row and the kind of extreme that was drawn."""
    if kind == "extreme":
        kind = random.Random(f"{seed} extreme").choice(EXTREME)
    return kind, FAMILIES[family](Draw(f"{seed} {kind}", kind, scale))
