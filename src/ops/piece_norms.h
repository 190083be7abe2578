// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "ebb/tensor.h"

namespace ebb {

// The norm of a large tensor is that of the norms of its pieces: ranks that each hold some pieces get the same bits.
inline constexpr std::int64_t kNormPiece = 1 << 14;  // elements

// The norms of x's pieces, in the order of its elements; the last piece may be shorter.
Tensor piece_norms(const Tensor& x, double p);

}  // namespace ebb
