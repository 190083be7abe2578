# SPDX-License-Identifier: MIT
"""What the workers of test_workers.py run: it has to be importable where they are started anew."""

import threading


def draw(count):
    import ebb

    found = [ebb.rand((4,)).tolist() for _ in range(count)]
    thread = threading.Thread(target=lambda: found.append(ebb.rand((4,)).tolist()))
    thread.start()
    thread.join()
    return found


def draw_seeded(seed):
    import ebb

    ebb.manual_seed(seed)
    return ebb.rand((4,)).tolist()
