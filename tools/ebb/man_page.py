#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""man_page.py PROGRAM NAME: a manual page for section 1, from what the program's --help says; NAME is what it is installed as."""

import re
import subprocess
import sys


def helped(program, *words):
    text = subprocess.run([program, *words, "--help"], check=True, capture_output=True, text=True).stdout
    return text.rstrip().split("\n")


def escaped(text):
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    return r"\&" + text if text.startswith(".") else text


def verbatim(lines):
    return [".nf", *map(escaped, lines), ".fi"]


def main():
    program, name = sys.argv[1:]
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.split()[-1]
    top = helped(program)
    commands = [match.groups() for line in top[top.index("Subcommands:") + 1 :] if (match := re.match(r"  (\w[\w-]*) +(.*)", line))]
    page = [f'.TH {name.upper()} 1 "" "Ebb {version}" "User Commands"', ".SH NAME", escaped(f"{name} - {top[0].rstrip('.').lower()}")]
    page += [".SH SYNOPSIS", f".B {escaped(name)}", ".I COMMAND", "[OPTIONS]", ".SH COMMANDS"]
    for command, what in commands:
        page += [".TP", f".B {escaped(command)}", escaped(what)]
    for command, _ in commands:
        page += [f".SH {escaped(command.upper())}", *verbatim(line.replace("ebb ", f"{name} ") for line in helped(program, command))]
    print("\n".join(page))


main()
