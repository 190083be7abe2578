#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tokens per second of `ebb generate` at a context of 1,024: with the keys and values of earlier tokens kept, and with the
whole window read again for every token.

    python3 bench/generate.py --ebb build/release/tools/ebb/ebb

The network is the gpt of `ebb train` after one step: what it writes does not matter. The prompt fills most of the window,
so that every token is written near its end. Start-up and the prompt are measured by a run of one token and subtracted;
both ways run in turn, and the median of the rounds counts, of wall-clock and of processor time.
"""
import argparse
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time


def seconds(command):
    """(wall-clock, processor) seconds of a program."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, spent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ebb", default="build/release/tools/ebb/ebb", help="the program")
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "text.txt"
        text.write_text("".join(chr(97 + (i * i + i // 7) % 26) for i in range(16 * options.context)))
        run = str(pathlib.Path(folder) / "run")
        subprocess.run(
            [options.ebb, "train", "--model", "gpt", "--data", str(text), "--tokens", "256", "--steps", "1", "--batch", "1",
             "--context", str(options.context), "--width", str(options.width), "--layers", str(options.layers),
             "--out", run],
            check=True, capture_output=True)
        prompt = text.read_text()[: options.context * 3 // 4]
        base = [options.ebb, "generate", "--run", run, "--prompt", prompt, "--threads", str(options.threads)]
        ways = {"cache": ([], options.context // 4), "recomputed": (["--recompute"], 24)}
        taken = {way: ([], []) for way in ways}
        for _ in range(options.rounds):
            for way, (extra, tokens) in ways.items():
                one = seconds(base + extra + ["--tokens", "1"])
                all_of_them = seconds(base + extra + ["--tokens", str(tokens)])
                for kind in (0, 1):
                    taken[way][kind].append((all_of_them[kind] - one[kind]) / (tokens - 1))
    print("| | tokens per second | processor time of a token |")
    print("|---|---|---|")
    for way, (wall, spent) in taken.items():
        print(f"| {way} | {1 / statistics.median(wall):.1f} | {1000 * statistics.median(spent):.2f} ms |")
    for kind, what in ((0, "tokens per second"), (1, "processor time")):
        ratio = statistics.median(taken["recomputed"][kind]) / statistics.median(taken["cache"][kind])
        print(f"{what}: {ratio:.1f} times")


main()
