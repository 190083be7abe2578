#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the documentation as a static site: every page of docs/, the README as its front, and the Python reference.

    tools/site/make_site.py OUTPUT                    needs the PyPI packages markdown and pygments, and ebb on PYTHONPATH
    tools/site/make_site.py OUTPUT --version 1.0.0    this tree as a release, in OUTPUT/versions/1.0.0

The pages need no server: open OUTPUT/index.html. Search works on an index that is a script of its own. The versions of
CHANGELOG.md are in the menu: those in OUTPUT/versions with their sites, others with their section of the changelog.
"""

import argparse
import html
import json
import re
import shutil
import sys
from pathlib import Path

import markdown
from markdown.extensions.toc import slugify_unicode

import python_reference
from highlight import highlighted

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DOCS = ROOT / "docs"

# The pages in the order of the menu; every page of docs/ has its place here.
MENU = [
    ("Start here", ["index", "install", "tutorial", "faq"]),
    ("Tasks", ["train_csv", "finetune_llama", "rl_log_probs", "loss_on_gpu", "embed_cmake"]),
    ("Coming from", ["from_pytorch", "from_numpy", "array_api", "ten_programs", "by_hand"]),
    ("Guides", ["losses", "gallery", "autograd", "training", "data", "laziness", "strips", "checkpointing", "mixed_precision", "gpu",
                "distributed", "python"]),
    ("The program", ["command_line", "environment", "scikit_learn"]),
    ("Reference", ["reference", "python_reference", "torch_compatibility", "versioning", "changelog"]),
    ("Internals", ["design", "design_schedule", "design_cpu", "design_gpu", "benchmarks", "accuracy", "contributing"]),
]
# What a page counts in a search: guides come before lists of what modules and headers declare, those before the rest.
GUIDE = 4
WEIGHT = {name: 0.5 for name in ["gallery", *dict(MENU)["Internals"]]}
WEIGHT |= {"python_reference": 0.8, "reference": 0.15, "changelog": 0.1}
OF_THE_ROOT = {"README.md": "index", "CONTRIBUTING.md": "contributing", "CHANGELOG.md": "changelog"}


def sources():
    """Page: its Markdown."""
    pages = {path.stem: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
    pages |= {name: (ROOT / file).read_text(encoding="utf-8") for file, name in OF_THE_ROOT.items()}
    pages["python_reference"] = python_reference.page()
    listed = [name for _, names in MENU for name in names]
    forgotten, missing = sorted(set(pages) - set(listed)), sorted(set(listed) - set(pages))
    if forgotten or missing:
        sys.exit(f"make_site.py: the menu lacks {forgotten or 'nothing'} and names {missing or 'nothing'} that is not there")
    return pages


class Links:
    """Targets of a page's links on the site; files outside of docs/ are copied beside the pages."""

    def __init__(self, output):
        self.output = output

    def target(self, page, link):
        if re.match(r"[a-z]+:|#", link):
            return link
        path, _, anchor = link.partition("#")
        folder = ROOT if page in OF_THE_ROOT.values() else DOCS
        file = (folder / path).resolve()
        if file.suffix == ".md" and file.parent in (DOCS, ROOT):
            stem = OF_THE_ROOT.get(file.name, file.stem)
            return f"{stem}.html" + (f"#{anchor}" if anchor else "")
        if not file.exists():
            sys.exit(f"make_site.py: {page} links to {link}, which is not there")
        if file.is_dir():
            return None
        inside = file.relative_to(ROOT)
        copy = self.output / "files" / inside
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
        return f"files/{inside}"

    def replaced(self, page, text):
        def put(match):
            found = self.target(page, html.unescape(match.group(2)))
            return f'{match.group(1)}="{html.escape(found)}"' if found else "data-nowhere"

        return re.sub(r'\b(href|src|srcset)="([^"]+)"', put, text)


def named_by_titles(body, titles):
    """Links that are called by the name of a file are called by the page's title."""

    def put(match):
        return match.group(1) + html.escape(titles[match.group(2)]) + "</a>"

    return re.sub(r'(<a href="(\w+)\.html[^"]*">)(?:docs/)?\2\.md</a>', put, body)


def title_of(text):
    return re.search(r"^# (.+)$", text, re.M).group(1).replace("`", "")


def sections(page, title, body):
    """What search finds: (page, heading, anchor, text) of every section."""
    parts = re.split(r'<h([1-3]) id="([^"]+)">(.*?)</h\1>', body, flags=re.S)
    for at in range(1, len(parts), 4):
        heading, text = (plain(parts[at + k]) for k in (2, 3))
        yield {"page": page, "title": title, "heading": heading, "anchor": parts[at + 1], "text": text[:4000],
               "weight": WEIGHT.get(page, GUIDE)}


def plain(text):
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text))).strip()


def menu(current, titles):
    lines = []
    for group, names in MENU:
        lines.append(f"<h2>{group}</h2><ul>")
        for name in names:
            here = ' aria-current="page"' if name == current else ""
            lines.append(f'<li><a href="{name}.html"{here}>{html.escape(titles[name])}</a></li>')
        lines.append("</ul>")
    return "\n".join(lines)


def contents(tokens):
    """The headings of a page, two levels deep."""
    inner = [t for top in tokens for t in top["children"]]
    if len(inner) < 2:
        return ""
    items = "".join(f'<li><a href="#{t["id"]}">{t["name"]}</a></li>' for t in inner)
    return f'<details class="contents"><summary>On this page</summary><nav aria-label="On this page"><ul>{items}</ul></nav></details>'


def versions(output):
    """Of CHANGELOG.md, the newest first: name, folder of its site or None, pages there, section of the changelog."""
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    listed = []
    for at, heading in enumerate(headings):
        name = DEVELOPMENT if heading == "Unreleased" else heading.split()[0]
        folder = "" if at == 0 else f"versions/{name}/"
        there = sorted(page.name for page in (output / folder).glob("*.html"))
        listed.append({"name": name, "folder": folder if there or at == 0 else None, "pages": there,
                       "anchor": slugify_unicode(heading, "-")})
    known = {version["name"] for version in listed}
    strange = [folder.name for folder in sorted((output / "versions").glob("*")) if folder.name not in known]
    if strange:
        sys.exit(f"make_site.py: {output / 'versions'} has {strange}, of which CHANGELOG.md says nothing")
    return listed


DEVELOPMENT = "development"  # what comes after the last release


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--version", help="a release of CHANGELOG.md, which goes to versions/ and is reached from the newest site")
    given = parser.parse_args()
    top = given.output.resolve()
    output = top / "versions" / given.version if given.version else top
    output.mkdir(parents=True, exist_ok=True)
    template = (HERE / "page.html").read_text(encoding="utf-8")
    pages, links, index = sources(), Links(output), []
    titles = {name: title_of(text) for name, text in pages.items()}
    version = given.version or versions(top)[0]["name"]
    for name, text in pages.items():
        text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.S)  # code that only the tests of the docs need
        writer = markdown.Markdown(
            extensions=["fenced_code", "tables", "toc", "sane_lists", "md_in_html"],
            extension_configs={"toc": {"slugify": slugify_unicode}},
        )
        body = named_by_titles(links.replaced(name, writer.convert(text)), titles)
        # A bar in a cell is written \\|, which the writer leaves as it is where it is code.
        body = re.sub(r"<td>.*?</td>", lambda m: m.group().replace("\\|", "|"), body, flags=re.S)
        body = body.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
        index += sections(name, titles[name], body)
        filled = {
            "title": html.escape(titles[name]),
            "menu": menu(name, titles),
            "contents": contents(writer.toc_tokens),
            "body": highlighted(body),
            "version": version,
            "root": "../../" if given.version else "",
        }
        made = re.sub(r"\{\{(\w+)\}\}", lambda m: filled[m.group(1)], template)
        (output / f"{name}.html").write_text(made, encoding="utf-8")
    (output / "search_index.js").write_text("const SECTIONS = " + json.dumps(index, ensure_ascii=False) + ";\n", encoding="utf-8")
    (top / "versions.js").write_text("const VERSIONS = " + json.dumps(versions(top)) + ";\n", encoding="utf-8")
    for file in ("site.css", "search.js", "site.js"):
        shutil.copyfile(HERE / file, output / file)
    print(f"{len(pages)} pages, {len(index)} sections: {output / 'index.html'}")


main()
