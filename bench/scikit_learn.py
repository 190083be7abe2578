#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the defaults of `ebb train` against those of scikit-learn's MLPClassifier and MLPRegressor.

    python3 -m venv build/sklearn && build/sklearn/bin/pip install scikit-learn
    build/sklearn/bin/python bench/scikit_learn.py --ebb build/release/tools/ebb/ebb

Both sides train with their defaults on the same ten divisions of eight data sets and are tested on the same rows;
nothing is tuned per data set. scikit-learn's network runs behind a StandardScaler, as its documentation advises. Ebb is
called as its users call it: files of rows, `ebb train --data`, `ebb eval --json`. A row of the table says whether Ebb is
at least as good up to one standard error of the mean difference; the exit code is 1 where it is not. Words after `--` are
further options of `ebb train`.
"""
import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def bundled(load):
    def read():
        all = load()
        return all.data, all.target, getattr(all, "target_names", None)
    return read


def classes(make, **options):
    def read():
        x, y = make(random_state=0, **options)
        return x, y, [f"class {k}" for k in range(y.max() + 1)]
    return read


def numbers(make, **options):
    return lambda: (*make(random_state=0, **options), None)


SETS = {
    "iris": bundled(datasets.load_iris),
    "wine": bundled(datasets.load_wine),
    "breast cancer": bundled(datasets.load_breast_cancer),
    "digits": bundled(datasets.load_digits),
    "overlapping classes": classes(datasets.make_classification, n_samples=3000, n_features=20, n_informative=8,
                                   n_classes=3, flip_y=0.1),
    "diabetes": numbers(lambda random_state: datasets.load_diabetes(return_X_y=True)),
    "Friedman 1": numbers(datasets.make_friedman1, n_samples=6000, noise=1.0),
    "Friedman 2": numbers(datasets.make_friedman2, n_samples=1000, noise=50.0),
}


def write_rows(path, x, y, names):
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([f"x{k}" for k in range(x.shape[1])] + ["target"])
        for row, target in zip(x.tolist(), y.tolist()):
            rows.writerow(row + [names[target] if names is not None else target])


def ebb_score(program, more, folder, seed, train, test, names):
    write_rows(folder / "train.csv", *train, names)
    write_rows(folder / "test.csv", *test, names)
    run = str(folder / "run")
    subprocess.run([program, "train", "--data", str(folder / "train.csv"), "--test-data", str(folder / "test.csv"),
                    "--seed", str(seed), "--out", run, "--overwrite", *more], check=True, stdout=subprocess.DEVNULL)
    result = json.loads(subprocess.run([program, "eval", "--run", run, "--json"], check=True, capture_output=True).stdout)
    return result["accuracy"] if names is not None else result["r2"]


def sklearn_score(seed, train, test, names):
    network = (MLPRegressor if names is None else MLPClassifier)(random_state=seed)
    return make_pipeline(StandardScaler(), network).fit(*train).score(*test)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ebb", default="build/release/tools/ebb/ebb", help="the program")
    parser.add_argument("--splits", type=int, default=10, help="random divisions, a fifth for the test")
    parser.add_argument("--first", type=int, default=0, help="seed of the first division")
    parser.add_argument("--only", action="append", help="one data set")
    parser.add_argument("--json", type=pathlib.Path, help="keep every score in this file; those of scikit-learn are reused")
    parser.add_argument("more", nargs="*", help="further options of `ebb train`, after --")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    if options.first and options.json:
        parser.error("--json is for the divisions from 0 on")
    kept = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    behind = 0
    print("| data | rows | Ebb | scikit-learn | difference ± standard error | |\n|---|---|---|---|---|---|")
    for name in options.only or SETS:
        x, y, names = SETS[name]()
        known = kept.get(name, {}).get("scikit-learn", [])
        scores = {"ebb": [], "scikit-learn": known if len(known) == options.splits else []}
        start = time.time()
        for seed in range(options.first, options.first + options.splits):
            rows = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed,
                                    stratify=y if names is not None else None)
            train, test = [(x[part], y[part]) for part in rows]
            with tempfile.TemporaryDirectory() as folder:
                scores["ebb"].append(
                    ebb_score(options.ebb, options.more, pathlib.Path(folder), seed + 1, train, test, names))
            if len(scores["scikit-learn"]) < options.splits:
                scores["scikit-learn"].append(sklearn_score(seed, train, test, names))
        kept[name] = scores
        differences = [a - b for a, b in zip(scores["ebb"], scores["scikit-learn"])]
        mean = statistics.mean(differences)
        error = statistics.stdev(differences) / len(differences) ** 0.5
        good = mean >= -error
        behind += not good
        text = "{:.2%}".format if names is not None else "R² {:.4f}".format
        print(f"| {name} | {len(y)} | {text(statistics.mean(scores['ebb']))} | "
              f"{text(statistics.mean(scores['scikit-learn']))} | {mean:+.4f} ± {error:.4f} | "
              f"{'ok' if good else 'behind'} |", flush=True)
        print(f"{name}: {time.time() - start:.0f} s", file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps(kept))
    sys.exit(behind > 0)


if __name__ == "__main__":
    main()
