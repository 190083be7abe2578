// SPDX-License-Identifier: MIT
#include "core/format_error.h"

#include <fmt/format.h>

fmt::format_context::iterator fmt::formatter<ebb::Shape>::format(const ebb::Shape& shape,
                                                                 fmt::format_context& context) const {
  return fmt::format_to(context.out(), "{}", shape.str());
}

fmt::format_context::iterator fmt::formatter<ebb::DType>::format(ebb::DType dtype, fmt::format_context& context) const {
  return fmt::format_to(context.out(), "{}", ebb::name(dtype));
}

namespace ebb {

void fail_formatted(Error::Kind kind, fmt::string_view text, fmt::format_args args) {
  throw Error(kind, fmt::vformat(text, args));
}

}  // namespace ebb
