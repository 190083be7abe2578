# SPDX-License-Identifier: MIT
"""The documentation site: links lead somewhere, text comes first on a phone, search finds guides and forgives, code has colours."""

import html
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import browser as chromium  # noqa: E402


def make_site(*words):
    return subprocess.run([sys.executable, str(ROOT / "tools" / "site" / "make_site.py"), *map(str, words)], capture_output=True,
                          text=True, env=dict(os.environ))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    run = make_site(folder)
    assert run.returncode == 0, run.stderr
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


def text_of(page, name):
    return (page / f"{name}.html").read_text(encoding="utf-8")


def test_ebb_torch_is_in_the_python_reference(site):
    page = text_of(site, "python_reference")
    for name in ("patch", "unpatch", "patch_trl", "linear_log_probs", "from_torch", "cross_entropy", "linear_cross_entropy"):
        assert f'id="torch{name}"' in page, name
    assert "log p(target) of hidden states" in page and "<code>CrossEntropyLoss</code>" in page


def test_the_gallery_is_the_registrys():
    run = subprocess.run([sys.executable, str(ROOT / "tools" / "make_gallery.py"), "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_how_fast_is_what_the_benchmarks_say():
    run = subprocess.run([sys.executable, str(ROOT / "tools" / "first_page.py"), "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    part = (ROOT / "README.md").read_text(encoding="utf-8").partition("## How fast")[2].partition("\n## ")[0]
    assert part.count("\n| ") - 1 <= 8 and part.count("<img") == 1


def test_links_are_called_by_titles(site):
    page = text_of(site, "faq")
    assert '<a href="laziness.html">Laziness and sweeps</a>' in page and ".md</a>" not in page


def test_bars_in_cells_are_bars(site):
    assert "<code>|</code>" in text_of(site, "command_line")
    for page in site.glob("*.html"):
        assert not re.search(r"<td>(?:(?!</td>).)*\\\|", page.read_text(encoding="utf-8"), re.S), page.name


# ---- colours


def blocks(page):
    return re.findall(r'<pre><code class="language-(\w+)">(.*?)</code></pre>', page, re.S)


def test_code_has_colours_and_says_the_same(site):
    seen = {}
    for name in ("index", "tutorial", "python", "install", "embed_cmake", "environment"):
        for language, code in blocks(text_of(site, name)):
            seen.setdefault(language, set()).update(re.findall(r'class="(h\w)"', code))
    assert {"hk", "hs", "hc", "hf", "ht", "hn", "hp"} <= seen["cpp"] and {"hk", "hs", "hc", "hf"} <= seen["python"]
    assert {"hc", "hf", "hn"} <= seen["bash"] and "hf" in seen["cmake"] and "hp" in seen["console"]
    first = next(code for language, code in blocks(text_of(site, "index")) if language == "cpp")
    program = (ROOT / "examples" / "first.cc").read_text(encoding="utf-8").partition("\n")[2]
    assert html.unescape(re.sub(r"<[^>]+>", "", first)).strip() == program.strip()
    assert '<span class="hk">return</span>' in first and '<span class="hc">// 200 points</span>' in first.replace("\n", "")


def luminance(color):
    def linear(c):
        c /= 255
        return c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4

    r, g, b = map(linear, color)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a, b):
    bright, dim = sorted((luminance(a), luminance(b)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def test_colours_can_be_read_in_light_and_dark(site):
    css = (site / "site.css").read_text(encoding="utf-8")
    colours = {name: [[int(c[k : k + 2], 16) for k in (0, 2, 4)] for c in both]
               for name, *both in re.findall(r"--(\w+): light-dark\(#(\w{6}), #(\w{6})\)", css)}
    for theme in (0, 1):
        assert contrast(colours["text"][theme], colours["back"][theme]) > 7
        for name in ("keyword", "string", "comment", "number", "function", "type"):
            assert contrast(colours[name][theme], colours["code"][theme]) >= 4.5, (name, theme)
    for kind in ("hk", "hp", "hs", "hc", "ho", "hn", "hf", "ht"):
        assert f".{kind}" in css


# ---- versions


def versions_of(site):
    return json.loads((site / "versions.js").read_text(encoding="utf-8").removeprefix("const VERSIONS = ").rstrip(";\n"))


def test_releases_are_in_the_menu(site):
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    versions = versions_of(site)
    assert [v["name"] for v in versions] == ["development" if h == "Unreleased" else h.split()[0] for h in headings]
    assert versions[0]["folder"] == "" and all(v["folder"] is None for v in versions[1:])
    ids = Page(text_of(site, "changelog")).ids
    assert all(v["anchor"] in ids for v in versions)


def test_a_release_stands_beside_the_newest_site(tmp_path):
    release = re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M).group(1)
    assert make_site(tmp_path).returncode == 0 and make_site(tmp_path, "--version", release).returncode == 0
    old = tmp_path / "versions" / release
    assert 'src="../../versions.js"' in text_of(old, "index") and f"<option>{release}</option>" in text_of(old, "index")
    found = next(v for v in versions_of(tmp_path) if v["name"] == release)
    assert found["folder"] == f"versions/{release}/" and "tutorial.html" in found["pages"]
    (tmp_path / "versions" / "9.9.9").mkdir()
    run = make_site(tmp_path)
    assert run.returncode != 0 and "9.9.9" in run.stderr


# ---- in a browser

needs_browser = pytest.mark.skipif(chromium.PROGRAM is None, reason="there is no browser (chromium)")


@pytest.fixture(scope="module")
def browser():
    with chromium.Browser() as found:
        yield found
        assert not found.complaints


def test_the_menu_of_narrow_screens_is_behind_a_button(site):
    css = (site / "site.css").read_text(encoding="utf-8")
    narrow = css[css.index("@media (max-width"):]
    assert re.search(r"\.menu \{ display: none;", narrow) and ".menu:target" in narrow  # the button is a link without scripts
    page = text_of(site, "tutorial")
    assert 'id="menu_button" href="#menu"' in page and '<details class="contents"><summary>' in page


@needs_browser
def test_text_comes_first_on_a_phone(site, browser):
    browser.resize(390, 844)
    top = "document.querySelector('main h1').getBoundingClientRect().top"
    for page in sorted(site.glob("*.html")):
        browser.open(f"file://{page}")
        assert browser.evaluate(top) < 200, page.name
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390, f"{page.name} is wider than a phone"
    assert browser.evaluate("getComputedStyle(menu).display") == "none"
    browser.evaluate("document.getElementById('menu_button').click()")
    assert browser.evaluate("[getComputedStyle(menu).display, menuButton.getAttribute('aria-expanded')]") == ["block", "true"]
    browser.resize(1300, 900)
    browser.open(f"file://{site}/tutorial.html")
    assert browser.evaluate("[getComputedStyle(menu).display, getComputedStyle(menuButton).display, contents.open]") == [
        "block", "none", True]


def found(browser, site, query):
    """Links that a search gives, the best first."""
    browser.open(f"file://{site}/index.html?q={query}")
    return browser.evaluate("[...results.querySelectorAll('a')].map((link) => link.getAttribute('href'))")


@needs_browser
@pytest.mark.parametrize("query, guide, list_of_names", [
    ("huber", "losses.html#huber_loss", "reference.html"),
    ("checkpoint", "checkpointing.html", "reference.html"),
    ("csv", "train_csv.html", "reference.html"),
    ("cross_entropy", "losses.html#cross_entropy", "python_reference.html#cross_entropy"),
    ("fine-tune", "finetune_llama.html", None),
])
def test_search_ranks_guides_over_headers(site, browser, query, guide, list_of_names):
    links = found(browser, site, query)
    behind = next((k for k, link in enumerate(links) if list_of_names and link.startswith(list_of_names)), len(links))
    assert next(k for k, link in enumerate(links) if link.startswith(guide)) < min(3, behind), links[:5]
    assert not re.match(r"(python_)?reference", links[0]), links[:5]


@needs_browser
@pytest.mark.parametrize("query, guide", [("optimizer", "training.html"), ("optimiser", "training.html"), ("initialisers", "training.html")])
def test_search_knows_both_spellings(site, browser, query, guide):
    assert found(browser, site, query)[0].startswith(guide)


@needs_browser
def test_search_lists_headers_last(site, browser):
    links = found(browser, site, "lstm")
    assert max(k for k, link in enumerate(links) if link.startswith(("training", "from_pytorch"))) < min(
        k for k, link in enumerate(links) if link.startswith("reference")), links


@needs_browser
@pytest.mark.parametrize("wrong, right", [
    ("hubr", "huber"), ("huberr", "huber"), ("huner", "huber"), ("hbuer", "huber"), ("cross_entrpy", "cross_entropy"),
    ("optimzer", "optimizer"), ("chekpointing", "checkpointing"),
])
def test_search_forgives_one_typo(site, browser, wrong, right):
    assert found(browser, site, wrong)[0] == found(browser, site, right)[0]
    found(browser, site, wrong)
    assert "Results for" in browser.evaluate("results.textContent") and right in browser.evaluate("results.textContent")


@needs_browser
def test_search_of_nonsense_finds_nothing(site, browser):
    assert found(browser, site, "qwxzkvv") == [] and browser.evaluate("results.textContent") == "Nothing found."
    assert found(browser, site, "xyz") == []  # three letters are like too many words to guess


@needs_browser
def test_the_page_is_light_or_dark_as_asked(site, browser):
    seen = {}
    for theme in ("light", "dark"):
        browser.open(f"file://{site}/tutorial.html?theme={theme}")
        style = browser.evaluate("(({ color, backgroundColor }) => [color, backgroundColor])(getComputedStyle(document.body))")
        colours = [[int(n) for n in re.findall(r"\d+", colour)[:3]] for colour in style]
        assert contrast(*colours) > 7
        seen[theme] = luminance(colours[1])
        keyword = browser.evaluate("getComputedStyle(document.querySelector('.hk')).color")
        assert keyword != style[0]
    assert seen["light"] > 0.9 and seen["dark"] < 0.05


@needs_browser
def test_a_version_is_chosen_in_the_menu(site, browser):
    browser.open(f"file://{site}/tutorial.html")
    names = browser.evaluate("[...versions.options].map((o) => [o.text, o.value, o.selected])")
    assert names[0][1].endswith("tutorial.html") and names[0][2]
    assert all(value.startswith("changelog.html#") for _, value, _ in names[1:])
