#include "ebb/data/text.h"
#include "target.h"

// The input is a file of merges, and a text to train on and to encode.
EBB_FUZZ_TARGET(byte_pairs) {
  using namespace ebb;
  using namespace ebb::fuzz;
  const std::string text(bytes.begin(), bytes.end());
  const auto check = [&](const BytePairs& pairs) {
    if (pairs.decode(pairs.encode(text)) != text) found("a text does not survive encoding");
  };
  may_fail([&] { check(BytePairs::load(file_of(bytes))); });
  check(BytePairs::train(text, 300));
}
