#!/usr/bin/env python3
"""Compares two builds of Ebb on every case of the comparison: is the new one slower anywhere?

    bench/builds.py OLD NEW [--suites losses,train] [--sizes small,large] [--threads 2] [--rounds 5]

OLD and NEW are programs ebb_bench_worker. The two take turns on each case; a row is the median time of OLD over that of
NEW, above 1 where the new build is faster. Printed: the geometric mean of each suite and the rows furthest from 1.
"""

import argparse
import math
import statistics
import sys

import contenders

SUITES = ["engine", "losses", "custom", "linear_ce", "autograd", "train"]
AT_LEAST = 0.02  # seconds that a turn should take


def calls_for(seconds):
    return max(1, min(20000, int(AT_LEAST / max(seconds, 1e-7))))


def time_case(builds, request, rounds):
    """Median seconds of each build, or None where one of them cannot."""
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
    return [statistics.median(s) for s in seconds]


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--sizes", default="small,large")
    parser.add_argument("--ways", default="compiled,rebuilt")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    builds = [contenders.Contender(k, k, [path], args.threads, sys.stderr, 300)
              for k, path in (("old", args.old), ("new", args.new))]
    print(f"{'suite':<10} {'size':<7} {'way':<9} {'rows':>4}  {'old / new':>9}   furthest from 1")
    for suite in args.suites.split(","):
        cases = builds[0].ask(do="list", suite=suite)["cases"]
        for size in args.sizes.split(","):
            for way in args.ways.split(","):
                rows = []
                for case in cases:
                    if size not in case["sizes"] or (case["training"] and way == "rebuilt"):
                        continue
                    mode = "value+grad" if "value+grad" in case["modes"] else "value"
                    request = {"suite": suite, "case": case["case"], "size": size, "dtype": "f32", "mode": mode, "way": way}
                    times = time_case(builds, request, args.rounds)
                    if times:
                        rows.append((times[0] / times[1], case["case"]))
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
