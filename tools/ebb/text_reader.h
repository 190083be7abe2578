// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <variant>
#include <vector>

#include "ebb/ops/attention.h"
#include "models.h"

namespace ebb::program {

// A language model that reads one token after the other and remembers the keys and values of earlier ones: a token
// costs the same however many came before it. Logits equal those of the whole window at once, except for rounding
// (about 1e-6).
//
// Keys encode their positions, so a full window cannot slide by a token: it is read again from its second half
// on.
class TextReader {
 public:
  using Network = std::variant<Gpt, models::Llama>;
  TextReader(Network network, std::int64_t context);

  // Predicts the token after these, of which at most the last `context` are seen; forgets what was read before.
  std::vector<double> begin(const std::vector<std::int64_t>& tokens);
  std::vector<double> next(std::int64_t token);
  const std::vector<std::int64_t>& window() const { return window_; }  // the tokens seen

 private:
  // Queries of tokens at these positions attend to the stored keys and values, and to their own.
  struct Reading {
    Tensor tokens, positions;  // [1, T], [T]
    bool first;                // nothing was read before
    Tensor seen, here;         // of the window: [context] and [1, 1, context, 1], used for one position
  };
  std::vector<double> read(const Tensor& tokens, const Tensor& positions, std::int64_t last);
  Tensor hidden(const Gpt& gpt, const Reading& reading);  // [1, T, width], the input of the head
  Tensor hidden(const models::Llama& llama, const Reading& reading);
  // Stores a block's keys and values; returns the options with which queries attend to all stored ones.
  AttentionOptions keep(std::size_t block, const Tensor& key, const Tensor& value, const Reading& reading);

  Network network_;  // without variables: no computation keeps its history
  std::int64_t context_;
  std::vector<std::int64_t> window_;
  std::vector<Tensor> keys_, values_;  // [1, heads, context, width of a head] by block
};

}  // namespace ebb::program
