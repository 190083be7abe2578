# SPDX-License-Identifier: MIT
"""tools/record_terminal.py: what a command shows on a terminal, as an SVG that plays."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import record_terminal  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def test_a_bar_that_is_drawn_again_is_one_line():
    screen = record_terminal.Screen(10)
    screen.write("\r\x1b[K ██▌  50 %\r\x1b[K done\nnext")
    assert screen.rows(5) == (" done", "next")
    screen.write("\rNE\x1b[1mX\x1b[0m")
    assert screen.rows(5) == (" done", "NEXt")
    screen.write("\n0123456789abc\n")
    assert screen.rows(2) == ("0123456789", "abc")


def test_pictures_are_few_and_the_last_one_is_the_end():
    pieces = [(k / 100, f"\r\x1b[K{k} %") for k in range(1000)] + [(500.0, "\nend\n")]
    shown = record_terminal.frames("$ x", pieces, 80, 10, seconds=5)
    assert shown[0] == (0.0, ("$ x",)) and shown[-1][1] == ("$ x", "999 %", "end")
    assert 20 < len(shown) < 50 and shown[-1][0] < 6


def test_a_command_on_a_terminal_is_drawn(tmp_path):
    try:
        for end in os.openpty():
            os.close(end)
    except OSError as error:
        pytest.skip(f"there are no terminals: {error}")
    out = tmp_path / "x.svg"
    script = 'import os; print(*os.get_terminal_size(1)); print("\\r\\033[K<a>\\n<b>")'
    words = [sys.executable, str(ROOT / "tools" / "record_terminal.py"), "--columns", "77", str(out), sys.executable, "-c", script]
    subprocess.run(words, check=True)
    drawn = ElementTree.parse(out).getroot()
    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    assert "77 18" in texts and "<a>" in texts and "<b>" in texts
    names = {text.get("id") for text in drawn.iter(f"{SVG}text")}
    assert {use.get("href") for use in drawn.iter(f"{SVG}use")} <= {f"#{name}" for name in names}
    run = subprocess.run([*words[:-1], "exit(3)"], capture_output=True, text=True)
    assert run.returncode == 1 and "exit code 3" in run.stderr
