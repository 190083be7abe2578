# SPDX-License-Identifier: MIT
"""Contenders in turns, between synchronisations; a time is the median over the rounds."""

import statistics
import time

TURN = 0.02  # seconds that a turn takes at least, where a call takes less
clock = time.perf_counter


def seconds_of(machine, call, calls):
    machine.synchronize()
    start = clock()
    for _ in range(calls):
        call()
    machine.synchronize()
    return (clock() - start) / calls


def calls_in_a_turn(machine, call, turn=TURN):
    """Warms up, too: Ebb records its graphs in the second call, PyTorch in the third."""
    for _ in range(3):
        call()
    return max(1, min(2000, int(turn / max(seconds_of(machine, call, 2), 1e-7))))


def medians(machine, contenders, rounds, turn=TURN):
    """The times of ready-made calls, by name."""
    calls = {name: calls_in_a_turn(machine, call, turn) for name, call in contenders.items()}
    seconds = {name: [] for name in contenders}
    names = list(contenders)
    for round in range(rounds):
        first = round % len(names)
        for name in names[first:] + names[:first]:
            seconds[name].append(seconds_of(machine, contenders[name], calls[name]))
    return {name: summary(s) for name, s in seconds.items()}


def summary(seconds):
    ordered = sorted(seconds)
    return {"median_s": statistics.median(ordered), "low_s": ordered[len(ordered) // 4],
            "high_s": ordered[(3 * len(ordered)) // 4]}
