// SPDX-License-Identifier: MIT
#pragma once
#include <fmt/core.h>

#include "ebb/dtype.h"
#include "ebb/error.h"
#include "ebb/shape.h"

// Lets fmt print shapes and dtypes. No templates here that each file would instantiate; fmt/format.h, twice as long as
// fmt/core.h, is left to files that need more than fmt::format.
template <>
struct fmt::formatter<ebb::Shape> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  fmt::format_context::iterator format(const ebb::Shape& shape, fmt::format_context& context) const;
};

template <>
struct fmt::formatter<ebb::DType> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  fmt::format_context::iterator format(ebb::DType dtype, fmt::format_context& context) const;
};

namespace ebb {

[[noreturn]] void fail_formatted(Error::Kind kind, fmt::string_view text, fmt::format_args args);

// require(ok, "matmul: inner sizes differ, {} and {}", a, b): throws an Error with that text unless ok.
template <class... Args>
void require(bool ok, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) fail_formatted(Error::Kind::value, text, fmt::make_format_args(args...));
}
template <class... Args>
void require(bool ok, Error::Kind kind, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) fail_formatted(kind, text, fmt::make_format_args(args...));
}
template <class... Args>
[[noreturn]] void fail(Error::Kind kind, fmt::format_string<Args...> text, Args&&... args) {
  fail_formatted(kind, text, fmt::make_format_args(args...));
}

}  // namespace ebb
