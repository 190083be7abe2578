// SPDX-License-Identifier: MIT
#pragma once
#include "ebb/standard.h"

#include <stdexcept>
#include <string>

namespace ebb {

// Every failure a user can cause. The text is one sentence that names the operation, the facts (shapes, dtypes, the
// position and value) and what to do; `kind` lets a caller (such as the Python package) distinguish categories.
class Error : public std::runtime_error {
 public:
  enum class Kind { value, index, type, memory, io };
  Error(Kind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  explicit Error(const std::string& text) : Error(Kind::value, text) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

}  // namespace ebb
