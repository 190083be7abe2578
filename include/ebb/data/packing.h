// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "ebb/tensor.h"

namespace ebb {

// Rows of tokens in which several sequences lie one after the other, i64 [rows, length] each.
struct PackedSequences {
  Tensor tokens;     // 0 in what is left of a row
  Tensor next;       // the tokens that follow, −100 in what is left of a row
  Tensor positions;  // from 0 in each sequence; in what is left of a row 0 everywhere
};
// Each sequence of n tokens gives n − 1 places with the token that follows, so none predicts another's first token.
// Sequences of more places than a row has are cut. The longest come first, each into the fullest row that has room for
// it; the order is a function of the lengths.
PackedSequences pack_sequences(const std::vector<std::vector<std::int64_t>>& sequences, std::int64_t length);

}  // namespace ebb
