// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ebb/error.h"

// A fuzz target is a function of bytes that must return, whatever the bytes are: no crash, no exception, no sanitizer
// report. Each is a file NAME.cc here, with seeds in corpus/NAME and words in NAME.dict if its format has some.
// libFuzzer runs one of them endlessly (`make fuzz`, run.sh), replay.cc all of them on the stored inputs (`make
// test`).
namespace ebb::fuzz {

using Bytes = std::span<const std::uint8_t>;

struct Target {
  Target(const char* name, void (*run)(Bytes));
  const char* name;
  void (*run)(Bytes);
};
const std::vector<const Target*>& targets();

#define EBB_FUZZ_TARGET(name)                                           \
  static void run_##name(::ebb::fuzz::Bytes bytes);                     \
  static const ::ebb::fuzz::Target target_of_##name(#name, run_##name); \
  static void run_##name(::ebb::fuzz::Bytes bytes)

// A path that stands for these bytes, for readers that use io::MappedFile: nothing is opened or copied. The next call
// replaces it.
std::string file_of(Bytes bytes);
// The same for readers that open the path themselves: a file in memory.
std::string opened_file_of(Bytes bytes);

// A bad input is an Error; any other exception is a finding.
template <class F>
void may_fail(F&& f) {
  try {
    f();
  } catch (const Error&) {
  }
}

// A finding that is not a crash: prints `what` and aborts.
[[noreturn]] void found(const std::string& what);

// Draws decisions from bytes, one after the other; zeros once they are used up.
class Choices {
 public:
  explicit Choices(Bytes bytes) : bytes_(bytes) {}
  bool empty() const { return at_ >= bytes_.size(); }
  std::uint8_t byte() { return empty() ? 0 : bytes_[at_++]; }
  std::size_t below(std::size_t n) { return n == 0 ? 0 : byte() % n; }
  // The bytes up to the next one of this value.
  std::string text_until(char end) {
    std::string text;
    while (!empty()) {
      const char c = static_cast<char>(byte());
      if (c == end) break;
      text += c;
    }
    return text;
  }

 private:
  Bytes bytes_;
  std::size_t at_ = 0;
};

}  // namespace ebb::fuzz
