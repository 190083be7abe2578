// SPDX-License-Identifier: MIT
#pragma once
#include <fmt/format.h>

#include "ebb/dtype.h"
#include "ebb/error.h"
#include "ebb/shape.h"

// Lets fmt print shapes and dtypes.
template <>
struct fmt::formatter<ebb::Shape> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const ebb::Shape& s, Context& ctx) const {
    return fmt::formatter<std::string_view>::format(s.str(), ctx);
  }
};

template <>
struct fmt::formatter<ebb::DType> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(ebb::DType d, Context& ctx) const {
    return fmt::formatter<std::string_view>::format(ebb::name(d), ctx);
  }
};

namespace ebb {

// require(ok, "matmul: inner sizes differ, {} and {}", a, b): an Error with that sentence unless ok.
template <class... Args>
void require(bool ok, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) throw Error(fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void require(bool ok, Error::Kind kind, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) throw Error(kind, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
[[noreturn]] void fail(Error::Kind kind, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(kind, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace ebb
