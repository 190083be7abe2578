// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <initializer_list>
#include <string_view>

#include "ebb/ops/create.h"
#include "ebb/ops/elementwise.h"
#include "ebb/ops/shape.h"
#include "graph/node.h"

// Helpers for operations that build nodes. Elementwise nodes have inputs of exactly their own shape and of one dtype:
// operands are cast and expanded by separate nodes, so that no later layer knows about promotion.
namespace ebb {

using Terms = std::initializer_list<TensorOrScalar>;

// The dtype and shape of an operation on these operands: tensors are promoted and broadcast, numbers adapt to them.
// Numbers alone are f32, i64 or bool.
DType common_dtype(std::string_view op, Terms terms);
Shape common_shape(std::string_view op, Terms terms);

// A number as a tensor of that shape. Throws an Error for an integer that the dtype cannot hold.
Tensor number(std::string_view op, Scalar value, DType dtype, const Shape& shape);

// The operand, cast and broadcast; unchanged if there is nothing to do.
Tensor operand(std::string_view op, const TensorOrScalar& term, DType dtype, const Shape& shape);

// An elementwise node of `dtype` whose operands are promoted to `operands` and broadcast.
Tensor elementwise_node(Op op, DType dtype, DType operands, Terms terms);

// x where ok; evaluating it is an Error with `label`, the position and the value where ok is false. Static text.
Tensor check(const Tensor& x, const Tensor& ok, const char* label);
// The same of an index that must lie in [from, to): an index error, as gather's is.
Tensor check_index(const Tensor& index, std::int64_t from, std::int64_t to, const char* label);

// polygamma with its order as a tensor of integers.
Tensor polygamma_of(const Tensor& n, const Tensor& x);

// Numbers that a formula brings along. They belong to no device and are copied to where it is computed.
template <class T>
Tensor numbers_of_formula(const std::vector<T>& values, const Shape& shape) {
  const OnDevice host(Device{});
  Tensor t = from_data(values, shape);
  t.node()->homeless = true;  // not shared yet
  return t;
}

// Shared by an activation and its gradient rule.
inline constexpr double kSeluAlpha =
    1.6732632423543772848170429916717;  // the fixed point of zero mean and unit variance
inline constexpr double kSeluScale = 1.0507009873554804934193349852946;  // (Klambauer et al., 2017)
inline constexpr double kGeluCubic = 0.044715;
Tensor gelu_tanh_gate(const Tensor& x);                               // ½·(1 + tanh(√(2/π)·(x + 0.044715·x³)))
Tensor bounded_for_gelu(const Tensor& x);                             // x, clamped to where its square is finite
Tensor slopes_along_channels(const Tensor& x, const Tensor& weight);  // prelu's weight, broadcastable to x

// ---- precision ------------------------------------------------------------------------------------------------------

// Real functions convert integers to f32.
constexpr DType promote_real(DType dtype) { return is_floating(dtype) ? dtype : DType::f32; }
inline Tensor as_real(const Tensor& x) { return is_floating(x.dtype()) ? x : cast(x, DType::f32); }

// log(1 + x) of x in [0, 1]
Tensor log1p_unit(const Tensor& x);

// Formulas are computed in f32 or f64 and rounded once: halves are widened, integers stay unchanged.
inline Tensor widen(const Tensor& x) { return is_half(x.dtype()) ? cast(x, DType::f32) : x; }

// auto [g, a, b] = widened(grad, lhs, rhs);
template <class... Tensors>
std::array<Tensor, sizeof...(Tensors)> widened(const Tensors&... x) {
  return {widen(x)...};
}

// A cotangent for `like`: summed over the axes along which it was broadcast, then rounded to its dtype. Cotangents of
// integer tensors (rules called by hand) keep the dtype they were computed in.
inline Tensor cotangent(const Tensor& value, const Tensor& like) {
  Tensor sum = sum_to(value, like.shape());
  return is_floating(like.dtype()) ? cast(sum, like.dtype()) : sum;
}

}  // namespace ebb
