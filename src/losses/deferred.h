// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/format_error.h"
#include "graph/formula.h"
#include "losses/describe.h"

// Losses as formulas whose nodes may be made later (graph/formula.h). Their options go through each_option.
namespace ebb {

class OptionsOfFormula {
 public:
  OptionsOfFormula(const Tensor& input, const Tensor& target) : operands_{&input, &target} {}

  void operator()(const char*, double& value, const char* = nullptr) { add(option_of(value)); }
  void operator()(const char*, std::int64_t& value, const char* = nullptr) { add(value); }
  void operator()(const char*, int& value, const char* = nullptr) { add(value); }
  void operator()(const char*, bool& value, const char* = nullptr) { add(value); }
  void operator()(const char*, Reduction& value, const char* = nullptr) { add(static_cast<std::int64_t>(value)); }
  void operator()(const char*, Tensor& value, HasGradient = HasGradient::yes) { operands_.at(tensors_++) = &value; }

  std::span<const Tensor* const> operands() const { return {operands_.data(), tensors_}; }
  Formula::Options options() const { return {options_.data(), count_}; }

 private:
  void add(std::int64_t option) { options_.at(count_++) = option; }

  std::array<const Tensor*, 4> operands_;
  std::array<std::int64_t, 8> options_;
  std::size_t tensors_ = 2, count_ = 0;
};

class FromOptionsOfFormula {
 public:
  FromOptionsOfFormula(Formula::Operands operands, Formula::Options options) : operands_(operands), options_(options) {}

  void operator()(const char*, double& value, const char* = nullptr) { value = real_of(options_[next_++]); }
  void operator()(const char*, std::int64_t& value, const char* = nullptr) { value = options_[next_++]; }
  void operator()(const char*, int& value, const char* = nullptr) { value = static_cast<int>(options_[next_++]); }
  void operator()(const char*, bool& value, const char* = nullptr) { value = options_[next_++] != 0; }
  void operator()(const char*, Reduction& value, const char* = nullptr) {
    value = static_cast<Reduction>(options_[next_++]);
  }
  void operator()(const char*, Tensor& value, HasGradient = HasGradient::yes) { value = operands_[tensor_++]; }

 private:
  Formula::Operands operands_;
  Formula::Options options_;
  std::size_t tensor_ = 2, next_ = 0;
};

// Defers loss(input, target, options), whose formula must depend only on shapes, dtypes and options.
template <auto loss, class Options>
Tensor deferred_loss(const Tensor& input, const Tensor& target, const Options& options) {
  Options all = options;
  OptionsOfFormula of(input, target);
  each_option(of, all);
  return deferred(of.operands(), of.options(), [](Formula::Operands in, Formula::Options words) {
    Options with;
    FromOptionsOfFormula from(in, words);
    each_option(from, with);
    return loss(in[0], in[1], with);
  });
}

}  // namespace ebb
