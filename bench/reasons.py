"""Why some rows are behind a peer, and why some peers are wrong, as far as it is known: docs/benchmarks.md says so."""

import re

# Pattern of the case, pattern of "size dtype", reason.
REASONS = [
    (r"nll_loss", ".*", "Its gradient is a matrix of zeros but for one number a row: only the speed of filling memory counts."),
    (r"matmul", ".*", "Both are near what the processor can do: the ratio was 0.98 to 1.06 in different runs."),
]

# Why a peer's result is not what f64 gives, where it is known: pattern of "peer: what is wrong" -> reason.
WRONG = [
    (r"MLX.*: wrong: value norm .*",
     "on the CPU, MLX sums a whole array in one f32 number, which stops counting the small terms of millions"),
]


def with_cause(note):
    """A note about a peer that is wrong, with the cause behind it where that is known."""
    causes = [cause for pattern, cause in WRONG if re.fullmatch(pattern, note)]
    return f"{note} ({causes[0]})" if causes else note


def why(cases, table):
    """The reasons for these cases of a table ("large bf16"), each once."""
    found = [reason for case, of, reason in REASONS
             if re.fullmatch(of, table) and any(re.fullmatch(case, c) for c in cases)]
    return " ".join(dict.fromkeys(found))
