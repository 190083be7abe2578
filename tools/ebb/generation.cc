// SPDX-License-Identifier: MIT
#include "generation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "core/format_error.h"
#include "text_reader.h"

namespace ebb::program {
namespace {

// Chooses a token; `chance` in [0, 1) decides among the likely ones.
std::int64_t choose(const std::vector<double>& logits, const GenerateOptions& o, double chance) {
  std::vector<std::int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto kept = static_cast<std::ptrdiff_t>(
      o.top_k > 0 ? std::min<std::size_t>(static_cast<std::size_t>(o.top_k), order.size()) : order.size());
  const auto logit = [&](std::int64_t token) { return logits[static_cast<std::size_t>(token)]; };
  std::partial_sort(order.begin(), order.begin() + kept, order.end(),
                    [&](std::int64_t a, std::int64_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  if (o.temperature == 0) return order[0];
  const auto weight = [&](std::int64_t token) { return std::exp((logit(token) - logit(order[0])) / o.temperature); };
  double total = 0;
  for (auto t = order.begin(); t != order.begin() + kept; ++t) total += weight(*t);
  double left = chance * total;
  for (auto t = order.begin(); t != order.begin() + kept; ++t) {
    left -= weight(*t);
    if (left < 0) return *t;
  }
  return order[static_cast<std::size_t>(kept) - 1];
}

}  // namespace

std::string continue_text(Model model, const DataFacts& facts, const std::string& prompt, const GenerateOptions& o,
                          const std::function<void(const std::string&)>& show) {
  require(model.gpt() || model.llama(),
          "generate: this model reads pictures or rows; only --model gpt and llama write text");
  require(o.tokens >= 0, "generate: --tokens must not be negative, got {}", o.tokens);
  require(o.temperature >= 0, "generate: --temperature must not be negative, got {}", o.temperature);
  require(o.top_k >= 0, "generate: --top-k must not be negative, got {}", o.top_k);
  std::vector<std::int64_t> read = facts.vocabulary.encode(prompt, true), ends;
  if (read.empty()) read = facts.vocabulary.encode("\n");
  if (model.llama()) ends = model.llama()->config.eos_token_ids;
  TextReader reader(model.gpt() ? TextReader::Network(*model.gpt()) : TextReader::Network(*model.llama()),
                    facts.example[0]);
  std::mt19937_64 draw(o.seed);
  std::string text;
  std::vector<double> logits;
  for (std::int64_t k = 0, token = 0; k < o.tokens; ++k) {
    if (k > 0) read.push_back(token);
    logits = k == 0 || o.recompute ? reader.begin(read) : reader.next(token);
    token = choose(logits, o, static_cast<double>(draw() >> 11) * 0x1p-53);
    if (std::find(ends.begin(), ends.end(), token) != ends.end()) break;
    const std::string piece = facts.vocabulary.decode({token});
    if (show) show(piece);
    text += piece;
  }
  return text;
}

}  // namespace ebb::program
