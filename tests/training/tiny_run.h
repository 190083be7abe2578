// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "run_program.h"

namespace ebb::program {

using Words = std::vector<std::string>;

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace ebb::program

// A network and a data set so small that a step takes a millisecond.
inline std::vector<std::string> tiny_run(const std::string& folder, const std::vector<std::string>& more = {},
                                         const std::string& model = "mlp") {
  std::vector<std::string> words{"train", "--model",       model, "--out",        folder, "--hidden",
                                 "8",     "--train-count", "64",  "--test-count", "16",   "--batch",
                                 "8",     "--threads",     "1",   "--workers",    "0"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline std::vector<std::string> ebb_words(std::vector<std::string> words) {
  words.insert(words.begin(), EBB_PROGRAM);
  return words;
}
