# SPDX-License-Identifier: MIT
"""Chromium without a window, driven through a pipe by its DevTools protocol: pages at any width, scripts, screenshots.

    with Browser() as browser:
        browser.resize(390, 844)
        browser.open("file:///.../index.html")
        browser.evaluate("document.title")

As a program it takes the pictures of the documentation:

    python3 tools/browser.py out/digits/report.html docs/img/report_dark.png --size 1100x1100 --theme dark
"""

import argparse
import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PROGRAM = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
# Fonts are drawn alike everywhere, and nothing is fetched.
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
           "--disable-background-networking", "--font-render-hinting=none", "--remote-debugging-pipe"]


class Browser:
    def __init__(self):
        if PROGRAM is None:
            raise FileNotFoundError("there is no browser: apt-get install chromium")
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (theirs, self.commands), (self.answers, theirs_too) = os.pipe(), os.pipe()
        words = [PROGRAM, *OPTIONS, f"--user-data-dir={self.folder.name}", "about:blank"]
        # Chromium reads commands from descriptor 3 and writes answers to 4.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{theirs} 4>&{theirs_too}', "bash", *words],
            pass_fds=(theirs, theirs_too), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs)
        os.close(theirs_too)
        self.number, self.buffer, self.complaints, self.session = 0, b"", [], None
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session = None
        self.call("Browser.close")
        os.close(self.commands)
        os.close(self.answers)
        self.process.wait(30)
        self.folder.cleanup()

    def _message(self):
        while b"\0" not in self.buffer:
            part = os.read(self.answers, 1 << 16)
            if not part:
                raise ConnectionError("the browser has ended")
            self.buffer += part
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def _until(self, wanted):
        while True:
            message = self._message()
            if message.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(message["params"]["exceptionDetails"])
            if wanted(message):
                return message

    def call(self, method, **params):
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        answer = self._until(lambda m: m.get("id") == command["id"])
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def resize(self, width, height, scale=1):
        """The size of the page in CSS pixels, of `scale` pixels of a screenshot each."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 600)

    def prefer(self, theme):
        """What the reader's system is set to: light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def open(self, address):
        self.call("Page.navigate", url=address)
        self._until(lambda m: m.get("method") == "Page.loadEventFired")

    def evaluate(self, script):
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{script}: {found['exceptionDetails']['exception'].get('description')}")
        return found["result"].get("value")

    def screenshot(self, clip=None):
        """PNG of what is seen, or of the rectangle (x, y, width, height) of the page."""
        params = {}
        if clip:
            params = {"clip": {**dict(zip(("x", "y", "width", "height"), clip)), "scale": 1}, "captureBeyondViewport": True}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", **params)["data"])


def main():
    parser = argparse.ArgumentParser(description="A picture of a page.")
    parser.add_argument("page", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", default="1200x800", help="of the page in CSS pixels, which are pixels of the picture")
    parser.add_argument("--theme", choices=["light", "dark"], default="light")
    given = parser.parse_args()
    with Browser() as browser:
        browser.resize(*map(int, given.size.split("x")))
        browser.prefer(given.theme)
        browser.open(given.page.resolve().as_uri())
        given.out.write_bytes(browser.screenshot())


if __name__ == "__main__":
    main()
