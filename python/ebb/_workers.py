# SPDX-License-Identifier: MIT
"""Processes that work for another, as the loaders of data frameworks start them, draw random numbers of their own.

A forked process would go on with its parent's random state, and one that is started anew would begin with seed 0: every
worker would draw the same numbers. Each gets a seed of its own instead, the same from run to run. Where manual_seed is
called in the worker, that counts.
"""

import hashlib
import multiprocessing
import os

from . import _core

_forks = 0  # how many children this process was asked to make


def _seed_from(*words):
    text = ":".join(str(w) for w in words)
    _core._seed_worker(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little"))


def _before_fork():
    global _forks
    _forks += 1


def _in_forked_child():
    _seed_from("fork", *_core.random_state(), _forks)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_in_forked_child)

# "SpawnProcess-3", "ForkServerProcess-1:2": the names count the workers of a process.
if multiprocessing.current_process().name != "MainProcess":
    _seed_from("start", multiprocessing.current_process().name)
