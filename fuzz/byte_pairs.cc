// SPDX-License-Identifier: MIT
#include <algorithm>

#include "ebb/data/text.h"
#include "target.h"

// The input is a file of merges; its beginning is a text to train on and to encode.
EBB_FUZZ_TARGET(byte_pairs) {
  using namespace ebb;
  using namespace ebb::fuzz;
  const std::string text(bytes.begin(),
                         bytes.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(bytes.size(), 40)));
  const auto check = [&](const BytePairs& pairs) {
    if (pairs.decode(pairs.encode(text)) != text) found("a text does not survive encoding");
  };
  may_fail([&] { check(BytePairs::load(file_of(bytes))); });
  check(BytePairs::train(text, 272));
}
