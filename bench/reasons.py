# SPDX-License-Identifier: MIT
"""Why Ebb is slower than a peer in some rows, and why some peers are wrong, where known; shown in docs/benchmarks.md."""

import re

# Pattern of the case, pattern of "size dtype", reason.
REASONS = [
    (r"nll_loss", ".*", "Its gradient is zero except for one number per row: the time is that of filling memory."),
    (r"matmul", ".*", "Both are near the limit of the processor: the ratio was 0.98 to 1.06 in different runs."),
]

# The same for rows on a GPU: pattern of the case, reason.
ON_A_GPU = [
    (r"(barron|tempered|asymmetric_focal) f32", "Powers of f32 are computed in f64, so that they err by hardly more than half a "
     "unit in the last place."),
    (r"(focal_loss_on_probabilities|generalized_kl) f32", "`focal_loss_on_probabilities` and `generalized_kl` take 118 and 126 "
     "instructions per element in f32 (ncu), where memory leaves time for about 88: accurate logarithms, correctly rounded "
     "quotients, checks and what must not overflow."),
    (r"cosine_similarity_loss f32", "`cosine_similarity_loss` first looks for a row's largest number, so that no square overflows "
     "or vanishes, which is a pass more."),
    (r"(cosine_similarity_loss|triplet_margin_loss|hardness_huber) f32", "Rows of several f32 operands fill the memory on chip "
     "when a fifth of the possible warps run."),
    (r"cross_entropy bf16 \[\d+, 128256\]", "Rows of 128,256 do not fit on chip twice, so that a multiprocessor has nothing "
     "to load while it adds."),
]

# Why a peer's result differs from f64, where known: pattern of "peer: what is wrong" -> reason.
WRONG = [
    (r"MLX.*: wrong: value norm .*",
     "on the CPU, MLX accumulates a whole array in a single f32, which loses small terms after millions of additions"),
]


def with_cause(note):
    """A note about a peer that is wrong, followed by the cause where it is known."""
    causes = [cause for pattern, cause in WRONG if re.fullmatch(pattern, note)]
    return f"{note} ({causes[0]})" if causes else note


def why(cases, table):
    """The reasons for these cases of a table ("large bf16"), each once."""
    found = [reason for case, of, reason in REASONS
             if re.fullmatch(of, table) and any(re.fullmatch(case, c) for c in cases)]
    return " ".join(dict.fromkeys(found))


def why_on_a_gpu(cases):
    return " ".join(dict.fromkeys(reason for case, reason in ON_A_GPU if any(re.fullmatch(case, c) for c in cases)))
