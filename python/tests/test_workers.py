# SPDX-License-Identifier: MIT
"""Processes that work for another draw random numbers of their own."""

import multiprocessing

import pytest

import drawing_worker
import ebb


def drawn(method, workers=3):
    context = multiprocessing.get_context(method)
    found = []
    for _ in range(workers):  # a pool of one each: every worker is asked
        with context.Pool(1) as pool:
            found.append(pool.apply(drawing_worker.draw, (2,)))
    return found


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_do_not_repeat_each_others_numbers(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.fail(f"{method} is not available here")
    ebb.manual_seed(3)
    own = [ebb.rand((4,)).tolist() for _ in range(2)]
    numbers = [tuple(row) for rows in drawn(method) for row in rows] + [tuple(row) for row in own]
    assert len(set(numbers)) == len(numbers)


def test_forked_workers_depend_on_the_parents_seed_alone():
    from ebb import _workers

    def run(seed):
        ebb.manual_seed(seed)
        _workers._forks = 0
        return drawn("fork", 2)

    assert run(5) == run(5)
    assert run(5) != run(6)
    _workers._forks = 100


def test_a_seed_given_in_a_worker_counts():
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:
        first = pool.apply(drawing_worker.draw_seeded, (11,))
    ebb.manual_seed(11)
    assert first == ebb.rand((4,)).tolist()
