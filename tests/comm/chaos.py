#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Takes ranks away from training runs at random moments and checks what is left.

  tests/comm/chaos.py build/release/tools/ebb/ebb --rounds 100
  tests/comm/chaos.py build/release/tools/ebb/ebb --rounds 0 --cuts 20 --worker build/release/tests/comm_worker

Each round starts `mpirun -n 3 ebb train` (resuming what the round before left), waits until it has begun and then for a
random time, and kills (9) or stops a random rank. The run must end with a non-zero code within ten seconds, and its
checkpoint must be readable: ranks write it together, every other step. Cuts are those of cut_network.sh, at random
moments.
"""
import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SETTINGS = (
    "--model mlp --hidden 256 --train-count 256 --test-count 64 --batch 32 --threads 1 --workers 0 --shards 4 "
    "--steps 100000 --eval-every 50 --checkpoint-every 2 --schedule constant --optimizer-state sharded"
).split()


def ranks_below(pid):
    """The process numbers of the ranks that this mpirun has started."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(entry.name))
    return sorted(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ebb")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cuts", type=int, default=0, help="of the network between two namespaces; needs root")
    parser.add_argument("--worker", help="comm_worker, for the cuts")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ebb-chaos-"))
    run = folder / "run"
    mpirun = ["mpirun", "--oversubscribe", "-n", "3"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])
    slowest, named, saved = 0, 0, 0
    for number in range(options.rounds):
        resume = (run / "checkpoint.safetensors").exists()
        words = ["--resume", str(run)] if resume else ["--out", str(run), "--overwrite", *SETTINGS]
        output = open(folder / "output", "w+")
        program = subprocess.Popen(
            mpirun + [options.ebb, "train", *words], stdout=output, stderr=subprocess.PIPE, text=True
        )
        while "steps of" not in (folder / "output").read_text() and program.poll() is None:
            time.sleep(0.05)  # until MPI has started, nobody can watch over anybody
        time.sleep(draw.uniform(0, 5))
        ranks = ranks_below(program.pid)
        if program.poll() is not None or not ranks:
            sys.exit(f"round {number}: the run ended by itself: {program.stderr.read()}")
        what = draw.choice([signal.SIGKILL, signal.SIGSTOP])
        start = time.monotonic()
        os.kill(draw.choice(ranks), what)
        try:
            _, errors = program.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            program.kill()
            sys.exit(f"round {number}: {what.name} and nobody noticed")
        seconds = time.monotonic() - start
        slowest = max(slowest, seconds)
        named += "rank" in errors
        if program.returncode == 0 or seconds > 10:
            sys.exit(f"round {number}: {what.name}, code {program.returncode} after {seconds:.1f} s: {errors}")
        if (run / "checkpoint.safetensors").exists():
            saved += 1
            check = subprocess.run([options.ebb, "eval", "--run", str(run)], capture_output=True, text=True)
            if check.returncode != 0:
                sys.exit(f"round {number}: the checkpoint is damaged: {check.stderr}")
        print(f"round {number}: {what.name}, noticed after {seconds:.1f} s", flush=True)
    for number in range(options.cuts):
        script = pathlib.Path(__file__).with_name("cut_network.sh")
        cut = subprocess.run(
            [str(script), options.worker, f"{draw.uniform(0, 3):.2f}"], capture_output=True, text=True, timeout=120
        )
        if cut.returncode != 0:
            sys.exit(f"cut {number}: {cut.stdout}{cut.stderr}")
        print(f"cut {number}: {cut.stdout.splitlines()[0]}", flush=True)
    print(f"{options.rounds} rounds, the slowest took {slowest:.1f} s; {named} named the rank, {saved} left a checkpoint")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
