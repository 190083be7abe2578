// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "dataset.h"
#include "models.h"

namespace ebb::program {

struct GenerateOptions {
  std::int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the most likely
  std::int64_t top_k = 40;   // chosen among this many; 0: all
  std::uint64_t seed = 0;
  bool recompute = false;  // the whole window for every token, without keys and values of those before
};
// The prompt's continuation. `show` gets every piece as soon as it is generated.
std::string continue_text(Model model, const DataFacts& facts, const std::string& prompt,
                          const GenerateOptions& options, const std::function<void(const std::string&)>& show = {});

}  // namespace ebb::program
