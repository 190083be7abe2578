#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the coefficients of src/cpu/tile/math_coefficients.h. Needs mpmath and NumPy.

Those of f64 are polynomials through Chebyshev nodes, solved in high precision: within a small factor of the minimax
polynomial, and one degree more is cheaper than an exchange algorithm. Each row prints the largest error of the function it
stands for, before rounding coefficients.

In f32 a tenth of a unit in the last place counts, and so do rounded coefficients: these are minimax polynomials, fitted again
after each coefficient is rounded. Their rows print the largest error with the coefficients as they are.
"""
import mpmath as mp
import numpy as np

mp.mp.dps = 60


def fit(f, lo, hi, degree):
    n = degree + 1
    lo, hi = mp.mpf(lo), mp.mpf(hi)
    xs = [(lo + hi) / 2 + (hi - lo) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    ys = [f(x) for x in xs]
    a = mp.matrix(n, n)
    for i, x in enumerate(xs):
        for j in range(n):
            a[i, j] = x**j
    return list(mp.lu_solve(a, mp.matrix(ys)))


def evaluate(c, x):
    r = mp.mpf(0)
    for k in reversed(c):
        r = r * x + k
    return r


def minimax(f, weight, lo, hi, degree, points=500, rounds=250):
    """Coefficients in f32 for which max |weight(x) (p(x) - f(x))| is least, and that error: least squares whose weights grow
    where the error is large (Lawson's algorithm)."""
    lo, hi = mp.mpf(lo), mp.mpf(hi)
    xs = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * points)) for k in range(points)]
    x, y, w = (np.array([float(g(x)) for x in xs]) for g in (lambda x: x, f, weight))
    powers = np.stack([x**j for j in range(degree + 1)], 1)
    found = []
    for j in range(degree + 1):
        rest = y - powers[:, :j] @ np.array(found, float)
        share, least, first = np.full(points, 1 / points), np.inf, 0
        for _ in range(rounds):
            s = np.sqrt(share) * w
            c = np.linalg.lstsq(powers[:, j:] * s[:, None], rest * s, rcond=None)[0]
            error = np.abs(w * (powers[:, j:] @ c - rest))
            if error.max() < least:
                least, first = error.max(), c[0]
            share = share * error / (share * error).sum()
        found.append(float(np.float32(first)))
    return found, np.abs(w * (powers @ np.array(found) - y)).max()


def single_table(name, f, weight, lo, hi, degree):
    c, error = minimax(f, weight, lo, hi, degree)
    print(f'// error {error:.1e}')
    print(f'inline constexpr float {name}[] = {{{", ".join(mp.nstr(mp.mpf(k), 9) + "f" for k in c)}}};')


def table(name, f, whole, lo, hi, degree):
    """f is fitted; whole(x, p) = (approximation, exact) of what it is used for, to report the relative error."""
    c = fit(f, lo, hi, degree)
    worst = mp.mpf(0)
    for k in range(401):
        x = mp.mpf(lo) + (mp.mpf(hi) - mp.mpf(lo)) * (k + mp.mpf('0.37')) / 402
        approx, exact = whole(x, evaluate(c, x))
        worst = max(worst, abs(approx / exact - 1))
    print(f'// relative error {mp.nstr(worst, 2)}')
    print(f'inline constexpr double {name}[] = {{{", ".join(repr(float(k)) for k in c)}}};')


print('#pragma once')
print('// Written by tools/fit_polynomials.py, lowest power first; each stands for the function named in that file.')
print('namespace ebb::cpu {')

ln2 = mp.log(2)
half_ln2 = ln2 / 2 * mp.mpf('1.001')
root_half = mp.sqrt(mp.mpf(1) / 2)


# exp(r) = 1 + r + r² q(r)
def exp_q(r): return (mp.expm1(r) - r) / r**2 if abs(r) > mp.mpf(10)**-15 else mp.mpf(1) / 2 + r / 6
def exp_whole(r, p): return 1 + r + r * r * p, mp.exp(r)
def below_one_twice(r): return r * r * (1 if r < 0 else mp.mpf('0.5'))  # numbers below one are twice as close
single_table('kExpF32', exp_q, below_one_twice, -half_ln2, half_ln2, 4)
single_table('kExpm1F32', exp_q, lambda r: r * r / abs(mp.expm1(r)), '-0.45', '0.45', 5)
table('kExpF64', exp_q, exp_whole, -half_ln2, half_ln2, 9)

# 2^r = 1 + r ln2 + r² q(r)
def exp2_q(r): return (mp.expm1(r * ln2) - r * ln2) / r**2 if abs(r) > mp.mpf(10)**-15 else ln2**2 / 2 + r * ln2**3 / 6
def exp2_whole(r, p): return 1 + r * ln2 + r * r * p, mp.mpf(2)**r
h = mp.mpf('0.5005')
single_table('kExp2F32', exp2_q, below_one_twice, -h, h, 4)
table('kExp2F64', exp2_q, exp2_whole, -h, h, 9)
table('kExp2F64Short', exp2_q, exp2_whole, -h, h, 5)

# log(1 + f) = f + f² q(f)
def log_q(f): return (mp.log1p(f) - f) / f**2 if abs(f) > mp.mpf(10)**-15 else -mp.mpf(1) / 2 + f / 3
def log_relative(f): return f * f / abs(mp.log1p(f))
single_table('kLogF32', log_q, log_relative, root_half - 1, mp.sqrt(2) - 1, 8)
# log(1 + x) = x + x² q(x - 1/2) for x in [0, 1]: powers of x - 1/2 add up to less that is rounded than those of x
half = mp.mpf('0.5')
single_table('kLog1pUnitF32', lambda v: log_q(half + v), lambda v: log_relative(half + v), -half, half, 8)
for name, base in ('kLog2F32', ln2), ('kLog10F32', mp.log(10)):  # log(1 + f) / log b = f / log b + f² q(f)
    single_table(name, lambda f: log_q(f) / base, lambda f: log_relative(f) * base, root_half - 1, mp.sqrt(2) - 1, 8)

# log(1 + f) = 2 s + s z q(z), s = f / (2 + f), z = s²
def log_s(z):
    s = mp.sqrt(z)
    return (mp.log((1 + s) / (1 - s)) - 2 * s) / (s * z) if z > mp.mpf(10)**-15 else mp.mpf(2) / 3
def log_s_whole(z, p):
    s = mp.sqrt(z)
    return 2 * s + s * z * p, mp.log((1 + s) / (1 - s))
zmax = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1))**2 * mp.mpf('1.0001')
table('kLogF64', log_s, log_s_whole, 0, zmax, 6)
table('kLogF64Short', log_s, log_s_whole, 0, zmax, 3)
# log(1 + f) = 2 s (1 + z (1/3 + z q(z))) with the first two terms as sums of two numbers, for powers
def log_power_q(z):
    s = mp.sqrt(z)
    return (mp.atanh(s) / s - 1 - z / 3) / z**2 if z > mp.mpf(10)**-15 else mp.mpf(1) / 5
def log_power_whole(z, p):
    return 1 + z * (mp.mpf(1) / 3 + z * p), mp.atanh(mp.sqrt(z)) / mp.sqrt(z)
table('kLogPowerF64', log_power_q, log_power_whole, 0, zmax, 7)

# sin r = r + r z s(z), cos r = 1 - z/2 + z² c(z), z = r²
quarter = (mp.pi / 4 * mp.mpf('1.0005'))**2
def sin_q(z):
    r = mp.sqrt(z)
    return (mp.sin(r) - r) / (r * z) if z > mp.mpf(10)**-15 else -mp.mpf(1) / 6
def sin_whole(z, p): r = mp.sqrt(z); return r + r * z * p, mp.sin(r)
def cos_q(z):
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2 if z > mp.mpf(10)**-12 else mp.mpf(1) / 24
def cos_whole(z, p): return 1 - z / 2 + z * z * p, mp.cos(mp.sqrt(z))
table('kSinF64', sin_q, sin_whole, 0, quarter, 5)
table('kCosF64', cos_q, cos_whole, 0, quarter, 5)
table('kSinF64Short', sin_q, sin_whole, 0, quarter, 3)
table('kCosF64Short', cos_q, cos_whole, 0, quarter, 2)

# atan t = t + t z a(z)
def odd(f, first):
    def q(z):
        t = mp.sqrt(z)
        return (f(t) - t) / (t * z) if z > mp.mpf(10)**-15 else mp.mpf(first)
    def whole(z, p):
        t = mp.sqrt(z)
        return t + t * z * p, f(t)
    return q, whole
q, w = odd(mp.atan, -mp.mpf(1) / 3)
table('kAtanF64', q, w, 0, mp.mpf('0.1716'), 10)
q, w = odd(mp.asin, mp.mpf(1) / 6)
table('kAsinF64', q, w, 0, mp.mpf('0.2501'), 12)
q, w = odd(mp.sinh, mp.mpf(1) / 6)
table('kSinhF64', q, w, 0, 1, 6)
def odd_relative(f): return lambda z: z * mp.sqrt(z) / f(mp.sqrt(z))
single_table('kSinhF32', q, odd_relative(mp.sinh), 0, 1, 3)
q, w = odd(mp.tanh, -mp.mpf(1) / 3)
single_table('kTanhF32', q, odd_relative(mp.tanh), 0, 1, 6)

# erf x = x (2/sqrt(pi) + z e(z)) for |x| < 1
two_root = 2 / mp.sqrt(mp.pi)
def erf_q(z):
    x = mp.sqrt(z)
    return (mp.erf(x) / x - two_root) / z if z > mp.mpf(10)**-15 else -two_root / 3
def erf_whole(z, p): x = mp.sqrt(z); return x * (two_root + z * p), mp.erf(x)
table('kErfSmallF64', erf_q, erf_whole, 0, 1, 11)
single_table('kErfSmallF32', erf_q, odd_relative(mp.erf), 0, 1, 5)

# erf x = 1 - exp(l(x - 1)) for 1 <= x < 4, l(t) = log erfc(1 + t) = l(0) + t q(t): where the error of l counts most, t is
# small. Only 1 - erfc counts, so the error is erf's.
erf_l_first = mp.log(mp.erfc(1))
def erf_l(t): return (mp.log(mp.erfc(1 + t)) - erf_l_first) / t
def erf_l_weight(t): return t * mp.erfc(1 + t) / mp.erf(1 + t)
print(f'inline constexpr float kErfLargeFirst = {mp.nstr(mp.mpf(float(np.float32(float(erf_l_first)))), 9)}f;')
single_table('kErfLargeF32', erf_l, erf_l_weight, 0, 3, 5)

# (1 + 2a) exp(a²) erfc(a) = c + t g(t), t = (a - 4) / (a + 4), c the value at t = 0
def erfcx(t):
    a = 4 * (1 + t) / (1 - t)
    return (1 + 2 * a) * mp.exp(a * a) * mp.erfc(a)
erfcx_first = mp.mpf(float(erfcx(mp.mpf(0))))
def erfcx_q(t): return (erfcx(t) - erfcx_first) / t
def erfcx_whole(t, p): return erfcx_first + t * p, erfcx(t)
print(f'inline constexpr double kErfcxFirst = {float(erfcx_first)!r};')
table('kErfcxF64', erfcx_q, erfcx_whole, -1, mp.mpf('0.76'), 21)
table('kErfcxF64Short', erfcx, lambda t, p: (p, erfcx(t)), -1, mp.mpf('0.5'), 12)

# The same for f32 and a between 1/2 and 10.1, t = (a - 1.5) / (a + 1.5), in which the rounding of t costs less.
def erfcx_single(t):
    a = mp.mpf('1.5') * (1 + t) / (1 - t)
    return (1 + 2 * a) * mp.exp(a * a) * mp.erfc(a)
erfcx_single_first = mp.mpf(float(np.float32(float(erfcx_single(mp.mpf(0))))))
print(f'inline constexpr float kErfcxSingleFirst = {mp.nstr(erfcx_single_first, 9)}f;')
single_table('kErfcxF32', lambda t: (erfcx_single(t) - erfcx_single_first) / t, lambda t: abs(t) / erfcx_single(t),
             '-0.5', mp.mpf('8.6') / mp.mpf('11.6'), 9)

# log gamma(2 + h) = h g(h), for numbers of f32
def lgamma_q(h): return mp.loggamma(2 + h) / h if abs(h) > mp.mpf(10)**-30 else 1 - mp.euler
table('kLgammaF64Short', lgamma_q, lambda h, p: (p, lgamma_q(h)), '-0.5', '0.5', 12)

# digamma(root + d) = d g(d): its Taylor series, of which 9 terms are enough for |d| < 0.05
root = mp.findroot(mp.digamma, mp.mpf('1.4616'))
series = [mp.polygamma(n, root) / mp.factorial(n) for n in range(1, 10)]
print(f'inline constexpr double kDigammaRootHigh = {float(root)!r}, kDigammaRootLow = {float(root - float(root))!r};')
print(f'inline constexpr double kDigammaRoot[] = {{{", ".join(repr(float(k)) for k in series)}}};')

# cbrt m on [1, 2)
table('kCbrt', lambda m: mp.cbrt(m), lambda m, p: (p, mp.cbrt(m)), 1, 2, 4)
print('}  // namespace ebb::cpu')
