// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "models.h"

namespace ebb::program {

// A gpt that reads one token after the other and remembers the keys and values of those it has read: a token costs the
// same however many came before it. Logits are those of the whole window at once, but for rounding (about 1e-6).
//
// Positions are learned, so a window that is full cannot slide by a token: it is read again from its second half on.
class TextReader {
 public:
  TextReader(Gpt gpt, std::int64_t context);

  // Predicts what follows these tokens, of which at most the last `context` are seen; forgets what was read before.
  std::vector<double> begin(const std::vector<std::int64_t>& tokens);
  std::vector<double> next(std::int64_t token);
  const std::vector<std::int64_t>& window() const { return window_; }  // what is seen

 private:
  std::vector<double> read(const Tensor& tokens, const Tensor& positions, std::int64_t last);

  Gpt gpt_;  // without variables: nothing of what is computed keeps its history
  std::int64_t context_;
  std::vector<std::int64_t> window_;
  std::vector<Tensor> keys_, values_;  // [1, heads, context, width/heads] by block
};

}  // namespace ebb::program
