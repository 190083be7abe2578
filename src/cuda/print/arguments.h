// SPDX-License-Identifier: MIT
#pragma once
#include <map>
#include <string>
#include <vector>

#include "cuda/print/sweep_text.h"

namespace ebb::cuda {

// Members of the kernels' struct Args: each once, however many kernels use it, in order of first use.
class Arguments {
 public:
  // Returns the member as an expression.
  std::string add(const std::string& type, const std::string& name, const Parameter& parameter) {
    if (numbers_.emplace(name, parameters_.size()).second) {
      fields_ += "  " + type + " " + name + ";\n";
      parameters_.push_back(parameter);
    }
    return "a." + name;
  }
  std::string number(const std::string& name, std::int64_t value) {
    return add("i64", name, {Parameter::Kind::number, -1, value, {}});
  }
  void expect_aligned(const std::string& name) { parameters_[numbers_.at(name)].aligned = true; }

  std::string text() const { return "struct Args {\n" + fields_ + "};\n"; }
  std::vector<Parameter>& parameters() { return parameters_; }

 private:
  std::string fields_;
  std::vector<Parameter> parameters_;
  std::map<std::string, std::size_t> numbers_;
};

}  // namespace ebb::cuda
