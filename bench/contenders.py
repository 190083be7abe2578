# SPDX-License-Identifier: MIT
"""The programs that are compared, each a process that answers requests (worker/main.cc, peers/protocol.py)."""

import json
import os
import queue
import subprocess
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = {
    "torch": ("PyTorch", ["torch_worker.py"]),
    "compile": ("torch.compile", ["torch_worker.py", "--compile"]),
    "jax": ("JAX jit", ["jax_worker.py"]),
    "mlx": ("MLX compile", ["mlx_worker.py"]),
}
# Ebb itself, otherwise than by a compiled function: title and what the worker calls it.
OTHER_WAYS = {"rebuilt": ("Ebb, rebuilt", "rebuilt"), "hand": ("by hand", "by_hand")}


def processors(threads):
    """As many of this process's processors, those of different cores first: two threads of a core share its units."""
    allowed = sorted(os.sched_getaffinity(0))

    def place_in_core(number):
        try:
            text = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list").read_text()
        except OSError:
            return 0
        siblings = []
        for part in text.strip().split(","):
            first, _, last = part.partition("-")
            siblings += range(int(first), int(last or first) + 1)
        return siblings.index(number)

    return sorted(allowed, key=lambda number: (place_in_core(number), number))[:threads]


def pinned(threads):
    """Environment and processor set that give every program the same number of threads."""
    count = str(threads)
    environment = dict(os.environ, EBB_BENCH_THREADS=count, JAX_PLATFORMS="cpu", TOKENIZERS_PARALLELISM="false")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        environment[name] = count
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    chosen = processors(threads) if hasattr(os, "sched_getaffinity") else []

    def pin():
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, chosen)

    return environment, pin


class Contender:
    """One process; it is started when first asked and started anew after it failed to answer."""

    def __init__(self, key, title, command, threads, log, timeout):
        self.key, self.title, self.command = key, title, command
        self.threads, self.log, self.timeout = threads, log, timeout
        self.process = None

    def start(self):
        environment, pin = pinned(self.threads)
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
            env=environment, preexec_fn=pin,
        )
        self.answers = queue.Queue()

        def listen(out, answers):
            for line in out:
                answers.put(line)
            answers.put(None)

        threading.Thread(target=listen, args=(self.process.stdout, self.answers), daemon=True).start()

    def ask(self, **request):
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.answers.get(timeout=self.timeout)
        except queue.Empty:
            self.stop()
            return {"error": f"no result within {self.timeout} s"}
        except BrokenPipeError:
            line = None
        if line is None:
            self.stop()
            return {"error": "the process ended"}
        return json.loads(line)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class OtherWay:
    """Another way to compute a case in Ebb's worker: with its graph built in every call, or in C++ by hand."""

    def __init__(self, key, worker_command, threads, log, timeout):
        self.key, self.title = key, OTHER_WAYS[key][0]
        self.contender = Contender(key, self.title, worker_command, threads, log, timeout)

    def ask(self, **request):
        return self.contender.ask(**request, way=OTHER_WAYS[self.key][1])

    def stop(self):
        self.contender.stop()


def start_contenders(worker, python, peers, threads, log, timeout):
    ebb = Contender("ebb", "Ebb", [str(worker)], threads, log, timeout)
    ways = {key: OtherWay(key, [str(worker)], threads, log, timeout) for key in OTHER_WAYS}
    others = [
        Contender(key, PEERS[key][0], [str(python), str(HERE / "peers" / PEERS[key][1][0]), *PEERS[key][1][1:]],
                  threads, log, timeout)
        for key in peers
    ]
    return ebb, ways, others
