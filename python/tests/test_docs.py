# SPDX-License-Identifier: MIT
"""The Python blocks of the pages run one after the other and print what stands below them."""

import contextlib
import io
import re
from pathlib import Path

import pytest

import ebb

DOCS = Path(__file__).resolve().parents[2] / "docs"


def run_page(page, least):
    blocks = re.findall(r"^```(python|text)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.S | re.M)
    assert len(blocks) >= least
    scope, printed = {}, None
    for kind, text in blocks:
        if kind == "text":
            assert printed == text
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(text, str(page), "exec"), scope)
        printed = out.getvalue()


@pytest.mark.parametrize("name, least", [("python", 12), ("from_numpy", 4), ("by_hand", 6), ("train_csv", 3), ("loss_on_gpu", 6)])
def test_the_page_runs(name, least, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # pages write files
    run_page(DOCS / f"{name}.md", least)


def test_the_first_page_runs():
    run_page(DOCS.parent / "README.md", 1)


@pytest.mark.parametrize("name, least, needs", [("finetune_llama", 4, ["torch", "transformers"]), ("rl_log_probs", 6, ["torch"])])
def test_the_page_runs_beside_pytorch(name, least, needs):
    for module in needs:
        pytest.importorskip(module)
    run_page(DOCS / f"{name}.md", least)


@pytest.mark.parametrize("name", ["python", "from_numpy", "from_pytorch", "by_hand", "faq"])
def test_names_on_the_page_exist(name):
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    names = set(re.findall(r"\bebb((?:\.[A-Za-z_]\w*)+)", text))
    assert len(names) > 5
    missing = []
    for dotted in names:
        parts = dotted.strip(".").split(".")
        if parts[0] in ("torch", "md", "html"):  # needs PyTorch
            continue
        found = ebb
        for part in parts:
            found = getattr(found, part, None)
            if found is None:
                missing.append(dotted)
                break
    assert not missing
