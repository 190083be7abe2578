// SPDX-License-Identifier: MIT
#include "graph/call_options.h"

#include <bit>

#include "core/format_error.h"

namespace ebb {

std::uint64_t CallOptions::hash() const {
  std::vector<std::uint64_t> words;
  append_key(words);
  std::uint64_t h = 0x9E3779B97F4A7C15u;
  for (const std::uint64_t w : words) h = (h ^ w) * 0xD6E8FEB86659FD93u, h ^= h >> 32;
  return h;
}

void fail_for_options(const char* wanted, const CallOptions* found) {
  fail(Error::Kind::value, "internal: a call's options are {}, not {}", found ? typeid(*found).name() : "missing",
       wanted);
}

namespace call_options {

void KeyWriter::operator()(const char*, double x) { words_.push_back(std::bit_cast<std::uint64_t>(x)); }
void KeyWriter::operator()(const char*, const Pair& x) {
  for (const std::int64_t i : x) words_.push_back(static_cast<std::uint64_t>(i));
}

std::string text_of(const char* name, bool x) { return fmt::format("{}={}", name, x); }
std::string text_of(const char* name, std::int64_t x) { return fmt::format("{}={}", name, x); }
std::string text_of(const char* name, double x) { return fmt::format("{}={}", name, x); }
std::string text_of(const char* name, const Pair& x) { return fmt::format("{}=({}, {})", name, x[0], x[1]); }

}  // namespace call_options
}  // namespace ebb
