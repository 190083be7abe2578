"""Why some rows are behind a peer, and why some peers are wrong, as far as it is known: docs/benchmarks.md says so."""

import re

REASONS = [
    (r"nll_loss", "Its gradient is a matrix of zeros but for one number a row: only the speed of filling memory counts."),
    (r"hessian", "Ebb computes one Hessian-vector product after the other; a compiling peer batches them."),
    (r"chain of 400 nodes|vicreg_loss|barlow_twins_loss",
     "The compiling peers have no graph left to build; Ebb builds and recognises it in every call."),
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


def why(cases):
    """The reasons for these cases, each once."""
    found = [reason for pattern, reason in REASONS if any(re.fullmatch(pattern, c) for c in cases)]
    return " ".join(found)
