#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/gallery.md: every loss with its picture and formula, from the registry; needs the package ebb on PYTHONPATH.

    tools/make_gallery.py            write the page; `ebb plot --gallery docs/img/losses` draws the pictures
    tools/make_gallery.py --check    say whether it is what the registry says now (exit code 1: it is not)
"""

import html
import sys
from pathlib import Path

from ebb.losses import registry

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "gallery.md"

INTRODUCTION = """# Gallery of losses

Every loss with its formula, its value (blue) and its gradient (orange) over the prediction, drawn by Ebb itself. A loss that is not
a function of one prediction is drawn over the first element of its first input. A picture leads to the inputs, options and uses of
the loss in [losses.md](losses.md), which also says [which one to choose](losses.md#which-one) and what the letters mean.

This page is made from the registry by `tools/make_gallery.py`, the pictures by `ebb plot --gallery docs/img/losses`.
"""


def figure(loss):
    name, link = loss["name"], loss["docs"].removeprefix("docs/")
    return (f'<figure><a href="{link}"><img src="img/losses/{name}.svg" alt="{name} and its gradient" width="420" loading="lazy"></a>'
            f'<figcaption><a href="{link}">{name}</a> <code>{html.escape(loss["formula"], quote=False)}</code></figcaption></figure>')


def page():
    lines = [INTRODUCTION]
    for family in dict.fromkeys(loss["family"] for loss in registry):
        of_family = [figure(loss) for loss in registry if loss["family"] == family]
        lines += [f"## {family.capitalize()}", "", '<div class="gallery">', *of_family, "</div>", ""]
    return "\n".join(lines)


def main():
    missing = [loss["name"] for loss in registry if not (DOCS / "img" / "losses" / f"{loss['name']}.svg").exists()]
    if missing:
        sys.exit(f"make_gallery.py: there are no pictures of {missing}: run `ebb plot --gallery docs/img/losses`")
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/gallery.md is not what the registry says: run tools/make_gallery.py and commit the page")


if __name__ == "__main__":
    main()
