#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bundled_licenses.py WHEEL: adds the licences of the libraries that auditwheel put into the wheel, under dist-info/licenses.

They are those of the Debian packages that the libraries come from; a library of no package is an error. Most licences ask that
copies of the library are accompanied by them.
"""

import re
import subprocess
import sys
from pathlib import Path

from auditwheel.wheeltools import InWheelCtx


def license_of(library):
    """The file of licences of the package that a library like libpng16-0a0c6ccf.so.16.39.0 comes from."""
    name = re.sub(r"-[0-9a-f]{8}(?=\.)", "", library)
    found = subprocess.run(["dpkg", "-S", f"*/{name}"], capture_output=True, text=True).stdout.split("\n")[0]
    package = re.split(r"[:,]", found)[0]
    text = Path("/usr/share/doc", package, "copyright") if package else None
    if text is None or not text.exists():
        sys.exit(f"bundled_licenses: {library} comes from no Debian package, so its licence is not known")
    return package, text


def main(wheel):
    with InWheelCtx(Path(wheel), Path(wheel)) as context:
        root = Path(context.name)
        (licenses,) = root.glob("*.dist-info/licenses")
        for library in sorted(path.name for path in root.glob("*.libs/*")):
            package, text = license_of(library)
            (licenses / f"{package}.txt").write_bytes(text.read_bytes())


if __name__ == "__main__":
    main(sys.argv[1])
