// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include "graph/formula.h"
#include "ops/build.h"

namespace ebb {

// A formula of one tensor as one operation with its own gradient rule: value(x, ...) is built from primitives in f32 or
// f64, without history. It receives the parameters or the attributes if it takes them, and captures nothing: its result
// depends on them, on x's shape and on x's dtype. Parameters are numbers the rule needs; they follow x among the
// operands, as constants, so that they are not part of the schedule.
using FormulaNumbers = std::span<const double>;

template <class Value>
Tensor make_formula_of(Op op, const Tensor& x, FormulaNumbers parameters, const Attrs& attrs) {
  std::vector<Tensor> operands{x};
  for (double p : parameters)
    operands.push_back(make_constant(p, is_floating(x.dtype()) ? compute_dtype(x.dtype()) : DType::f32));
  Tensor result;
  {
    NoHistory scope;
    if constexpr (std::is_invocable_v<Value, const Tensor&, FormulaNumbers>) {
      result = Value()(widen(x), parameters);
    } else if constexpr (std::is_invocable_v<Value, const Tensor&, const Attrs&>) {
      result = Value()(widen(x), attrs);
    } else {
      result = Value()(widen(x));
    }
    if (is_floating(x.dtype())) result = cast(result, x.dtype());
  }
  return make_formula(op, result, operands, attrs);
}

template <class Value>
Tensor formula(Op op, const Tensor& x, Value, std::initializer_list<double> parameters = {}, const Attrs& attrs = {}) {
  static_assert(std::is_empty_v<Value>, "a formula captures nothing");
  constexpr std::size_t kMost = 2, kBefore = 2;
  std::array<std::int64_t, kBefore + kMost> options{static_cast<std::int64_t>(op), attrs.i[0]};
  std::size_t count = kBefore;
  for (double p : parameters) options[count++] = option_of(p);
  const Tensor* const operands[] = {&x};
  return deferred(operands, Formula::Options(options.data(), count), [](Formula::Operands in, Formula::Options o) {
    std::array<double, kMost> numbers{};
    for (std::size_t k = kBefore; k < o.size(); ++k) numbers[k - kBefore] = real_of(o[k]);
    Attrs with;
    with.i[0] = o[1];
    return make_formula_of<Value>(static_cast<Op>(o[0]), in[0], FormulaNumbers(numbers.data(), o.size() - kBefore),
                                  with);
  });
}

}  // namespace ebb
