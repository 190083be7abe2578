"""Why some rows are behind a peer, as far as it is known: docs/benchmarks.md says so beside them."""

import re

REASONS = [
    (r"nll_loss", "Its gradient is a matrix of zeros but for one number a row: only the speed of filling memory counts."),
    (r"hessian", "Ebb computes one Hessian-vector product after the other; a compiling peer batches them."),
    (r"chain of 400 nodes",
     "The compiling peers have no graph left to build; Ebb builds and recognises it in every call."),
    (r"BT=512 H=512 V=128256", "Not looked into yet."),
]


def why(cases):
    """The reasons for these cases, each once."""
    found = [reason for pattern, reason in REASONS if any(re.fullmatch(pattern, c) for c in cases)]
    return " ".join(found)
