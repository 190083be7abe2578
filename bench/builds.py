#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares two builds of Ebb on every case of the comparison: is the new one slower anywhere?

    bench/builds.py OLD NEW [--suites losses,train] [--cases REGEX] [--sizes small,large] [--threads 2] [--rounds 5] [--each]

OLD and NEW are programs ebb_bench_worker. The two take turns on each case; a row is the median time of OLD over that of
NEW, above 1 where the new build is faster. Printed: the geometric mean of each suite and the rows furthest from 1; with
--each, every row with its times and, for each build, the quartiles of its turns.
"""

import argparse
import math
import re
import statistics
import sys

import contenders

SUITES = ["engine", "losses", "custom", "linear_ce", "autograd", "train"]
AT_LEAST = 0.02  # seconds that a turn should take


def calls_for(seconds):
    return max(1, min(20000, int(AT_LEAST / max(seconds, 1e-7))))


def time_case(builds, request, rounds):
    """Seconds of each build, turn by turn, or None where one of them cannot."""
    calls = []
    for build in builds:
        answer = build.ask(do="prepare", **request)
        if "error" in answer:
            return None
        first = build.ask(do="time", samples=2, calls=1)
        if "error" in first:
            return None
        calls.append(calls_for(min(first["seconds"])))
    seconds = [[] for _ in builds]
    for _ in range(rounds):
        for k, build in enumerate(builds):
            seconds[k].append(statistics.median(build.ask(do="time", samples=3, calls=calls[k])["seconds"]))
    for build in builds:
        build.ask(do="drop")
    return seconds


def described(seconds):
    low, _, high = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else seconds * 3
    return f"{statistics.median(seconds) * 1e3:.3f} ms ({low * 1e3:.3f} to {high * 1e3:.3f})"


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--cases", default="", help="a regular expression")
    parser.add_argument("--dtypes", default="f32")
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--sizes", default="small,large")
    parser.add_argument("--ways", default="compiled,rebuilt")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    builds = [contenders.Contender(k, k, [path], args.threads, sys.stderr, 300)
              for k, path in (("old", args.old), ("new", args.new))]
    print(f"{'suite':<10} {'size':<7} {'way':<9} {'rows':>4}  {'old / new':>9}   furthest from 1")
    for suite in args.suites.split(","):
        cases = [c for c in builds[0].ask(do="list", suite=suite)["cases"] if re.search(args.cases, c["case"])]
        for size in args.sizes.split(","):
            for way in args.ways.split(","):
                rows = []
                for case in cases:
                    if size not in case["sizes"] or (case["training"] and way == "rebuilt"):
                        continue
                    mode = "value+grad" if "value+grad" in case["modes"] else "value"
                    for dtype in args.dtypes.split(","):
                        if dtype not in case["dtypes"]:
                            continue
                        request = {"suite": suite, "case": case["case"], "size": size, "dtype": dtype, "mode": mode, "way": way}
                        seconds = time_case(builds, request, args.rounds)
                        if not seconds:
                            continue
                        old, new = map(statistics.median, seconds)
                        rows.append((old / new, case["case"]))
                        if args.each:
                            print(f"  {case['case']:<40} {dtype:<4} {args.threads:>3} thr  old {described(seconds[0])}, "
                                  f"new {described(seconds[1])}  {old / new:.3f}", flush=True)
                if not rows:
                    continue
                rows.sort()
                outer = rows[:2] + rows[-1:] if len(rows) > 3 else rows
                words = ", ".join(f"{name} {ratio:.2f}" for ratio, name in outer)
                mean = geometric_mean([r for r, _ in rows])
                print(f"{suite:<10} {size:<7} {way:<9} {len(rows):>4}  {mean:>9.3f}   {words}", flush=True)
    for build in builds:
        build.stop()


if __name__ == "__main__":
    main()
