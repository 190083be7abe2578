# SPDX-License-Identifier: MIT
"""ebb.data.Tokenizer beside Hugging Face's tokenizers, on tokenizers trained here and random Unicode text."""

import random
import sys

import pytest

import ebb

tokenizers = pytest.importorskip("tokenizers")
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, processors, trainers  # noqa: E402

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEXT = """It's a tide that we've never seen; they'll say 12345 boats, I'm sure, can't come. HE'S THERE, WE'LL SEE.
\tDie Flut kommt um 6:45 Uhr, größer als je zuvor…  Ça va? Привет, мир! 你好世界 こんにちは 안녕 🌊🌊 naïve ½ ² ③
  def ebb(x):\n\n    return x ** 2   # comment\r\n\r\n"""


def trained(kind):
    made = tokenizers.Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=kind == "gpt2 with a space", use_regex=kind.startswith("gpt2"))
    made.pre_tokenizer = byte_level
    if not kind.startswith("gpt2"):
        pattern = Regex(LLAMA3 if kind == "llama3" else QWEN2)
        made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(pattern, "isolated"), byte_level])
    made.decoder = decoders.ByteLevel()
    special = ["<|begin|>", "<|end|>", "<|end|>er"]
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    made.train_from_iterator([TEXT * 3], trainer)
    made.add_tokens([AddedToken("Flut", normalized=False), AddedToken("  ", normalized=False)])
    made.post_processor = processors.TemplateProcessing(single="<|begin|> $A <|end|>",
                                                        special_tokens=[("<|begin|>", 0), ("<|end|>", 1)])
    return made


@pytest.fixture(params=["gpt2", "gpt2 with a space", "llama3", "one digit"], name="pair", scope="module")
def make_pair(request, tmp_path_factory):
    theirs = trained(request.param)
    file = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    theirs.save(str(file))
    return theirs, ebb.data.Tokenizer.load(str(file.parent))


def random_text(draw):
    """Words of the text, characters of all classes, blanks and line ends in any order."""
    pieces = []
    for _ in range(draw.randint(1, 30)):
        kind = draw.randrange(7)
        if kind == 0:
            pieces.append(draw.choice(TEXT.split(" ")))
        elif kind == 1:
            pieces.append("".join(draw.choice(" \t\n\r\u00a0\u2003\u3000\x0b\x85") for _ in range(draw.randint(1, 4))))
        elif kind == 2:
            pieces.append(draw.choice(["'s", "'S", "'\u017f", "'ll", "'Ll", "'ve", "'RE", "'d", "'x", "''t"]))
        elif kind == 3:
            pieces.append("".join(draw.choice("0123456789\u0663\u00b2\u2167\u3007") for _ in range(draw.randint(1, 8))))
        elif kind == 4:
            pieces.append(draw.choice(["<|begin|>", "<|end|>", "<|end|>er", "Flut", "<|en", "  "]))
        else:
            codes = [draw.choice([draw.randrange(0x20, 0x3000), draw.randrange(0x20, 0x110000)]) for _ in range(draw.randint(1, 5))]
            pieces.append("".join(chr(c) for c in codes if not 0xD800 <= c < 0xE000))
    return "".join(pieces)


def test_random_texts_are_encoded_and_decoded_alike(pair):
    theirs, ours = pair
    draw = random.Random(7)
    for text in [TEXT, "", " ", "\n", *(random_text(draw) for _ in range(3000))]:
        expected = theirs.encode(text)
        assert ours.encode(text, special_tokens=True) == expected.ids, repr(text)
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False).ids, repr(text)
        assert ours.decode(expected.ids).decode("utf-8", "replace") == theirs.decode(expected.ids), repr(text)
    assert ours.tokens == theirs.get_vocab_size()


def test_every_character_is_of_the_same_class(pair):
    """'aX', 'X1', ' X' and "X'" are divided differently for letters, numbers, blanks and signs."""
    theirs, ours = pair
    for first in range(0x20, sys.maxunicode + 1, 64):
        codes = [c for c in range(first, min(first + 64, sys.maxunicode + 1)) if not 0xD800 <= c < 0xE000]
        text = "".join(f"a{chr(c)}1{chr(c)} {chr(c)}!{chr(c)}\n" for c in codes)
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False).ids, hex(first)
