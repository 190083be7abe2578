# SPDX-License-Identifier: MIT
"""The documentation site: every link leads somewhere, and a browser shows, searches and darkens it."""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    script = ROOT / "tools" / "site" / "make_site.py"
    subprocess.run([sys.executable, str(script), str(folder)], check=True, env=dict(os.environ))
    return folder


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.ids.add(value)
            elif name in ("href", "src", "srcset"):
                self.links.append(value)


def test_every_link_leads_somewhere(site):
    pages = {path.name: Page(path.read_text(encoding="utf-8")) for path in site.glob("*.html")}
    assert len(pages) >= 20
    broken = []
    for name, page in pages.items():
        for link in page.links:
            if re.match(r"https?:|mailto:", link):
                continue
            path, _, anchor = unquote(link).partition("#")
            target = path or name
            if target in pages:
                ok = not anchor or anchor in pages[target].ids
            else:
                ok = (site / target).exists()
            if not ok:
                broken.append(f"{name}: {link}")
    assert not broken


def opened(site, tmp_path, address):
    """What a browser makes of a page, and what it complains about."""
    words = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    words += ["--enable-logging=stderr", f"--user-data-dir={tmp_path / 'browser'}", "--virtual-time-budget=4000", "--dump-dom"]
    run = subprocess.run([*words, f"file://{site}/{address}"], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert "Uncaught" not in run.stderr, run.stderr
    return run.stdout


def luminance(color):
    def linear(c):
        c /= 255
        return c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4

    r, g, b = (linear(int(n)) for n in re.findall(r"\d+", color)[:3])
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no browser (chromium)")
def test_a_browser_searches_it_in_light_and_dark(site, tmp_path):
    found = opened(site, tmp_path, "index.html?q=huber&theme=light")
    results = re.search(r'<div id="results"[^>]*>(.*?)</div>', found, re.S).group(1)
    assert "losses.html#huber_loss" in results and "python_reference.html#huber_loss" in results
    seen = {}
    for theme in ("light", "dark"):
        dom = found if theme == "light" else opened(site, tmp_path, "tutorial.html?theme=dark")
        colors = [re.search(f'data-{name}="([^"]+)"', dom).group(1) for name in ("background", "color")]
        bright, dim = sorted(map(luminance, colors), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) > 7, f"{theme}: {colors}"
        seen[theme] = luminance(colors[0])
    assert seen["light"] > 0.9 and seen["dark"] < 0.05
