// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <variant>
#include <vector>

#include "ebb/ops/attention.h"
#include "models.h"

namespace ebb::program {

// A language model that reads one token after the other and remembers the keys and values of those it has read: a token
// costs the same however many came before it. Logits are those of the whole window at once, but for rounding (about
// 1e-6).
//
// Keys know their positions, so a window that is full cannot slide by a token: it is read again from its second half
// on.
class TextReader {
 public:
  using Network = std::variant<Gpt, models::Llama>;
  TextReader(Network network, std::int64_t context);

  // Predicts what follows these tokens, of which at most the last `context` are seen; forgets what was read before.
  std::vector<double> begin(const std::vector<std::int64_t>& tokens);
  std::vector<double> next(std::int64_t token);
  const std::vector<std::int64_t>& window() const { return window_; }  // what is seen

 private:
  // Queries of tokens at these positions attend to the keys and values that were kept before, and to their own.
  struct Reading {
    Tensor tokens, positions;  // [1, T], [T]
    bool first;                // nothing was read before
    Tensor seen, here;         // of the window: [context] and [1, 1, context, 1], used for one position
  };
  std::vector<double> read(const Tensor& tokens, const Tensor& positions, std::int64_t last);
  Tensor hidden(const Gpt& gpt, const Reading& reading);  // [1, T, width], what the head is applied to
  Tensor hidden(const models::Llama& llama, const Reading& reading);
  // Keeps a block's keys and values; the options with which queries attend to all that are kept.
  AttentionOptions keep(std::size_t block, const Tensor& key, const Tensor& value, const Reading& reading);

  Network network_;  // without variables: nothing of what is computed keeps its history
  std::int64_t context_;
  std::vector<std::int64_t> window_;
  std::vector<Tensor> keys_, values_;  // [1, heads, context, width of a head] by block
};

}  // namespace ebb::program
