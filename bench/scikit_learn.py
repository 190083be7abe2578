#!/usr/bin/env python3
"""Holds the defaults of `ebb train` against those of scikit-learn's MLPClassifier and MLPRegressor.

    python3 -m venv build/sklearn && build/sklearn/bin/pip install scikit-learn
    build/sklearn/bin/python bench/scikit_learn.py --ebb build/release/tools/ebb/ebb

Both sides train with their defaults on the same folds of a cross-validation and are tested on the same rows; nothing is
tuned per data set. scikit-learn runs twice: as it is, and behind a StandardScaler, as its documentation advises. Ebb is
called as its users call it: files of rows, `ebb train --data`, `ebb eval --json`.
"""
import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import tempfile
import time
import warnings

from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

CLASSES = {"iris": datasets.load_iris, "wine": datasets.load_wine, "breast cancer": datasets.load_breast_cancer,
           "digits": datasets.load_digits}
NUMBERS = {"diabetes": datasets.load_diabetes}


def write_rows(path, x, y, names):
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([f"x{k}" for k in range(x.shape[1])] + ["target"])
        for row, target in zip(x.tolist(), y.tolist()):
            rows.writerow(row + [names[target] if names is not None else target])


def ebb_score(program, folder, seed, train, test, names):
    write_rows(folder / "train.csv", *train, names)
    write_rows(folder / "test.csv", *test, names)
    run = str(folder / "run")
    subprocess.run([program, "train", "--data", str(folder / "train.csv"), "--test-data", str(folder / "test.csv"),
                    "--seed", str(seed), "--out", run, "--overwrite"], check=True, capture_output=True)
    out = subprocess.run([program, "eval", "--run", run, "--json"], check=True, capture_output=True).stdout
    result = json.loads(out)
    return result["accuracy"] if names is not None else result["r2"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ebb", default="build/release/tools/ebb/ebb", help="the program")
    parser.add_argument("--repeats", type=int, default=3, help="cross-validations, each with folds of its own")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--only", help="one data set")
    parser.add_argument("--json", help="write every score to this file")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    everything = {}
    print("| data | rows | Ebb | scikit-learn, scaled | scikit-learn, as it is | s per run: Ebb | scikit-learn |")
    print("|---|---|---|---|---|---|---|")
    for name, load in {**CLASSES, **NUMBERS}.items():
        if options.only and name != options.only:
            continue
        data = load()
        x, y = data.data, data.target
        names = [str(n) for n in data.target_names] if name in CLASSES else None
        network = MLPClassifier if name in CLASSES else MLPRegressor
        folding = StratifiedKFold if name in CLASSES else KFold
        scores = {"ebb": [], "scaled": [], "plain": []}
        seconds = {"ebb": 0.0, "scaled": 0.0, "plain": 0.0}
        for repeat in range(options.repeats):
            folds = folding(options.folds, shuffle=True, random_state=repeat)
            for train, test in folds.split(x, y):
                start = time.time()
                with tempfile.TemporaryDirectory() as folder:
                    scores["ebb"].append(ebb_score(options.ebb, pathlib.Path(folder), repeat + 1, (x[train], y[train]),
                                                   (x[test], y[test]), names))
                seconds["ebb"] += time.time() - start
                for kind in ("scaled", "plain"):
                    start = time.time()
                    model = network(random_state=repeat)
                    if kind == "scaled":
                        model = make_pipeline(StandardScaler(), model)
                    scores[kind].append(model.fit(x[train], y[train]).score(x[test], y[test]))
                    seconds[kind] += time.time() - start
        runs = options.repeats * options.folds
        def shown(kind):
            mean = statistics.mean(scores[kind])
            return f"{100 * mean:.2f} %" if name in CLASSES else f"R² {mean:.3f}"
        print(f"| {name} | {len(y)} | {shown('ebb')} | {shown('scaled')} | {shown('plain')} "
              f"| {seconds['ebb'] / runs:.1f} | {seconds['scaled'] / runs:.1f} |", flush=True)
        everything[name] = scores
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
