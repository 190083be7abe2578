#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a command on a terminal of its own and draws what it showed as an SVG that plays, and ends on the last picture.

    tools/record_terminal.py docs/img/make_run.svg make run
    tools/record_terminal.py --seconds 12 --columns 90 OUT.svg ebb train --data digits

The terminal knows the carriage return, erased lines and nothing else that moves: enough for progress bars. Pauses longer than
half a second are cut, and the whole is played within --seconds. Where motion is not wanted, only the last picture is shown.
"""

import argparse
import codecs
import fcntl
import html
import os
import pty
import re
import shlex
import shutil
import struct
import sys
import termios
import time

LONGEST_PAUSE, TYPING, LAST = 0.5, 0.8, 4.0  # seconds: of silence, of the command at first, of the last picture
WIDTH, HEIGHT, MARGIN, BAR = 8.4, 19, 14, 30  # of a character; around the text; above it
STYLE = """.back{fill:#12161c}.bar{fill:#232b36}.title{fill:#9aa7b8;font:13px system-ui,sans-serif}
text{fill:#e3e8ef;font:14px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}.prompt{fill:#8fd19e}"""


class Screen:
    """Lines of text, as a terminal of so many columns shows them."""

    def __init__(self, columns):
        self.columns, self.lines, self.column = columns, [""], 0

    def write(self, text):
        for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()].|.", text, re.S):
            if part in ("\x1b[K", "\x1b[0K"):
                self.lines[-1] = self.lines[-1][: self.column]
            elif part == "\x1b[2K":
                self.lines[-1] = ""
            elif part == "\r":
                self.column = 0
            elif part == "\n":
                self.lines.append("")
                self.column = 0
            elif part == "\b":
                self.column = max(0, self.column - 1)
            elif part == "\t":
                self.put(" " * (8 - self.column % 8))
            elif part >= " " and not part.startswith("\x1b"):
                self.put(part)

    def put(self, text):
        for letter in text:
            if self.column == self.columns:
                self.lines.append("")
                self.column = 0
            line = self.lines[-1].ljust(self.column)
            self.lines[-1] = line[: self.column] + letter + line[self.column + 1 :]
            self.column += 1

    def rows(self, count):
        lines = self.lines[:-1] if self.lines[-1] == "" else self.lines
        return tuple(line.rstrip() for line in lines[-count:])


def recorded(command, columns, rows):
    """([(seconds, text)], exit code) of the command on a terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.execvp(command[0], command)
    pieces, start, text = [], time.monotonic(), codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # the command has ended
            break
        if not data:
            break
        pieces.append((time.monotonic() - start, text.decode(data)))
    os.close(terminal)
    return pieces, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def frames(prompt, pieces, columns, rows, seconds, rate=8):
    """[(when, lines)]: what the terminal showed, at most `rate` pictures per second."""
    screen, now, before, shown = Screen(columns), 0.0, 0.0, []
    screen.write(prompt + "\n")
    timed = [(0.0, screen.rows(rows))]
    for when, text in pieces:
        now += min(when - before, LONGEST_PAUSE)
        before = when
        screen.write(text)
        timed.append((now, screen.rows(rows)))
    scale = min(1.0, seconds / now) if now else 1.0
    for when, lines in timed:
        when = TYPING + when * scale if shown else 0.0
        if shown and (lines == shown[-1][1]):
            continue
        if len(shown) > 1 and when - shown[-1][0] < 1 / rate:  # the later of two close ones
            shown[-1] = (shown[-1][0], lines)
        else:
            shown.append((when, lines))
    return shown


def drawn(title, shown, columns, rows):
    width, height = columns * WIDTH + 2 * MARGIN, rows * HEIGHT + 2 * MARGIN + BAR
    total = shown[-1][0] + LAST
    texts = {}
    for _, lines in shown:
        for line in lines:
            if line:
                texts.setdefault(line, f"t{len(texts)}")
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" role="img" '
           f'aria-label="{html.escape(title)}">', "<style>", STYLE]
    stops = "".join(f"{100 * when / total:.2f}%{{transform:translateY({-k * height}px)}}" for k, (when, _) in enumerate(shown))
    last = -(len(shown) - 1) * height
    out.append(f"@keyframes play{{{stops}100%{{transform:translateY({last}px)}}}}")
    out.append(f"#strip{{transform:translateY({last}px);animation:play {total:.1f}s step-end infinite}}")
    out.append("@media (prefers-reduced-motion:reduce){#strip{animation:none}}")
    out += ["</style>", "<defs>"]
    for line, name in texts.items():
        kind = ' class="prompt"' if line.startswith("$ ") else ""
        out.append(f'<text id="{name}"{kind} xml:space="preserve" textLength="{len(line) * WIDTH:.1f}" '
                   f'lengthAdjust="spacingAndGlyphs">{html.escape(line, quote=False)}</text>')
    out += ["</defs>", f'<rect class="back" width="{width:g}" height="{height}" rx="8"/>',
            f'<svg y="{BAR}" width="{width:g}" height="{height - BAR}"><g id="strip">']
    for k, (_, lines) in enumerate(shown):
        uses = "".join(f'<use href="#{texts[line]}" y="{MARGIN + (row + 0.75) * HEIGHT:g}"/>' for row, line in enumerate(lines) if line)
        out.append(f'<g transform="translate({MARGIN} {k * height})">{uses}</g>')
    out += ["</g></svg>", f'<path class="bar" d="M0 {BAR}V8a8 8 0 0 1 8-8H{width - 8:g}a8 8 0 0 1 8 8V{BAR}z"/>',
            f'<text class="title" x="{width / 2:g}" y="20" text-anchor="middle">{html.escape(title)}</text>', "</svg>"]
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--rows", type=int, default=18, help="lines that are shown, the last ones")
    parser.add_argument("--seconds", type=float, default=15, help="that the recording lasts at most")
    parser.add_argument("out")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if not given.command:
        parser.error("the command to record is missing")
    if shutil.which(given.command[0]) is None:
        parser.error(f"there is no program {given.command[0]!r}")
    pieces, code = recorded(given.command, given.columns, given.rows)
    if code != 0:
        sys.stderr.write("".join(text for _, text in pieces))
        sys.exit(f"record_terminal.py: {shlex.join(given.command)} ended with exit code {code}; {given.out} was not written")
    title = shlex.join(given.command)
    shown = frames(f"$ {title}", pieces, given.columns, given.rows, given.seconds)
    rows = max(len(lines) for _, lines in shown)
    with open(given.out, "w", encoding="utf-8") as file:
        file.write(drawn(title, shown, given.columns, rows))
    print(f"{given.out}: {len(shown)} pictures, {shown[-1][0]:.1f} s")


if __name__ == "__main__":
    main()
