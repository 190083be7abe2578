// SPDX-License-Identifier: MIT
#include <algorithm>

#include "ebb/data/tokenizer.h"
#include "ebb/models/llama.h"
#include "target.h"

// The input is a tokenizer.json, with its own beginning as a text, and a config.json.
EBB_FUZZ_TARGET(tokenizer) {
  using namespace ebb;
  using namespace ebb::fuzz;
  const std::string whole(bytes.begin(), bytes.end()), text = whole.substr(0, 60);
  may_fail([&] {
    const Tokenizer tokenizer = Tokenizer::from_json(whole, "tokenizer.json");
    const std::string again = tokenizer.decode(tokenizer.encode(text), true);
    // A tokenizer may put spaces before words, but must not lose anything.
    if (again.size() < text.size()) found("a text does not survive encoding");
  });
  may_fail([&] { models::llama_config_from_json(whole, "config.json"); });
}
