# SPDX-License-Identifier: MIT
"""What Ebb found on this machine, as `ebb doctor` shows it.

found is a dict from names to what there is, missing one from names to how to get it. Libraries are looked for when one
of them is first asked for.
"""

import functools

from . import _core
from ._core import __version__ as version

__all__ = ["found", "missing", "show", "version"]


@functools.lru_cache(maxsize=None)
def _environment():
    return _core._find_environment()


def __getattr__(name):
    if name == "found":
        return {what: text for what, text, _ in _environment() if text}
    if name == "missing":
        return {what: cure for what, text, cure in _environment() if not text}
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def show():
    """Prints version, processor, GPUs and libraries, and how to get what is missing."""
    print(f"ebb {version}")
    widest = max(len(what) for what, _, _ in _environment())
    for what, text, cure in _environment():
        print(f"  {what:{widest}}  {text or 'missing: ' + cure}")
