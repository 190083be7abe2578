# SPDX-License-Identifier: MIT
"""Syntax colours, made when the site is: code blocks of a page become spans of a few classes that site.css colours."""

import html
import re

from pygments.lexers import get_lexer_by_name
from pygments.token import Token

# The class of a token is that of the first type here which it is of; the rest is not coloured.
CLASSES = [
    (Token.Comment.Preproc, "hp"), (Token.Comment.PreprocFile, "hs"), (Token.Comment, "hc"),
    (Token.Keyword.Type, "ht"), (Token.Keyword, "hk"), (Token.Operator.Word, "hk"),
    (Token.Literal.String, "hs"), (Token.Literal.Number, "hn"),
    (Token.Name.Function, "hf"), (Token.Name.Builtin, "hf"), (Token.Name.Class, "ht"), (Token.Name.Decorator, "hp"),
    (Token.Name.Attribute, "hn"), (Token.Generic.Prompt, "hp"), (Token.Generic.Output, "ho"),
]
LANGUAGES = {"cpp": "cpp", "py": "python", "python": "python", "cmake": "cmake", "sh": "bash", "bash": "bash", "console": "console",
             "pycon": "pycon"}

COMMAND = re.compile(r"(?:[A-Z_]+=\S* +)*(?:make|cmake|ctest|ebb|ebb-grad|pip|python3?|git|c\+\+|g\+\+|apt|apt-get|brew|export|cd|tar|cp|"
                     r"cat|curl|mpirun|sudo|source|(?:\.|tools|build|tests|python|bench|fuzz)/\S+)(?: |$)")
CMAKE = re.compile(r"(?:find_package|target_link_libraries|add_executable|add_subdirectory|project|cmake_minimum_required|FetchContent_\w+|"
                   r"include)\(")


def guessed(text):
    """The language of an indented block, which has no name: commands, a session, CMake, or nothing."""
    lines = [line for line in text.split("\n") if line.strip()]
    if any(line.startswith(">>> ") for line in lines):
        return "pycon"
    if lines[0].startswith("$ "):
        return "console"
    starts = [line for before, line in zip(["", *lines], lines)
              if not line.startswith((" ", "#")) and not before.endswith("\\")]
    for language, pattern in (("bash", COMMAND), ("cmake", CMAKE)):
        if starts and all(pattern.match(line) for line in starts):
            return language
    return None


def shell_words(tokens):
    """The first word of a command is a function, and words that begin with a dash are attributes."""
    first = True
    for kind, text in tokens:
        if kind in (Token.Text, Token.Text.Whitespace, Token.Name, Token.Name.Builtin):
            kind = Token.Text  # a builtin is a word like others where it is not the command: make test
            for word in re.split(r"(\s+)", text):
                if not word:
                    continue
                plain = not word.isspace()
                yield (Token.Name.Function if first else Token.Name.Attribute if word.startswith("-") else kind) if plain else kind, word
                first = "\n" in word or (first and not plain)
            continue
        yield kind, text
        first = "\n" in text or kind in Token.Punctuation and text in ("(", ";", "|") or (first and kind in Token.Name.Variable)


def calls(tokens):
    """Names before a parenthesis are functions, names with a capital letter are types."""
    tokens = [t for t in tokens if t[1]]
    for k, (kind, text) in enumerate(tokens):
        if kind is Token.Name:
            after = tokens[k + 1][1] if k + 1 < len(tokens) else ""
            kind = Token.Name.Class if text[0].isupper() else Token.Name.Function if after.startswith("(") else kind
        yield kind, text


def spans(language, text):
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    tokens = lexer.get_tokens(text)
    tokens = shell_words(tokens) if language == "bash" else calls(tokens) if language in ("cpp", "python", "pycon") else tokens
    out = []
    for kind, part in tokens:
        name = next((name for of, name in CLASSES if kind in of), None)
        out.append(f'<span class="{name}">{html.escape(part, quote=False)}</span>' if name else html.escape(part, quote=False))
    return "".join(out)


def highlighted(body):
    """The page with its blocks coloured; what they say stays the same."""

    def block(match):
        named, text = match.group(1), html.unescape(match.group(2))
        language = LANGUAGES.get(named) if named else guessed(text)
        if language is None:
            return match.group(0)
        return f'<pre><code class="language-{language}">{spans(language, text)}</code></pre>'

    return re.sub(r'<pre><code(?: class="language-(\w+)")?>(.*?)</code></pre>', block, body, flags=re.S)
