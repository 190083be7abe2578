// SPDX-License-Identifier: MIT
#include "ops/build.h"

#include <cmath>
#include <limits>
#include <optional>

#include "core/format_error.h"

namespace ebb {
namespace {

DType natural_dtype(Scalar s) {
  switch (s.kind()) {
    case Scalar::Kind::boolean:
      return DType::bool_;
    case Scalar::Kind::integer:
      return DType::i64;
    default:
      return DType::f32;
  }
}

bool holds(DType dtype, std::int64_t v) {
  if (dtype == DType::u8) return v >= 0 && v <= 255;
  if (dtype == DType::i32)
    return v >= std::numeric_limits<std::int32_t>::min() && v <= std::numeric_limits<std::int32_t>::max();
  return true;
}

// For shapes known to broadcast: one node, no checks.
Tensor expanded(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : make_node(Op::expand, x.dtype(), shape, {x});
}

}  // namespace

DType common_dtype(std::string_view op, Terms terms) {
  std::optional<DType> dtype;
  for (const TensorOrScalar& t : terms) {
    require(t.given() && (!t.is_tensor() || t.tensor().defined()), "{}: an operand is an empty Tensor; give it a value",
            op);
    if (t.is_tensor()) dtype = dtype ? promote(*dtype, t.tensor().dtype()) : t.tensor().dtype();
  }
  std::optional<DType> numbers;
  for (const TensorOrScalar& t : terms) {
    if (t.is_tensor()) continue;
    const DType d = dtype ? t.scalar().dtype_beside(*dtype) : natural_dtype(t.scalar());
    numbers = numbers ? promote(*numbers, d) : d;
  }
  if (!dtype) return numbers.value_or(DType::f32);
  return numbers ? promote(*dtype, *numbers) : *dtype;
}

Shape common_shape(std::string_view op, Terms terms) {
  Shape shape;
  bool first = true;
  for (const TensorOrScalar& t : terms) {
    if (!t.is_tensor()) continue;
    const Shape& s = t.tensor().shape();
    if (first) {
      shape = s;
    } else if (s != shape) {
      shape = broadcast_shapes(op.data(), shape, s);
    }
    first = false;
  }
  return shape;
}

Tensor number(std::string_view op, Scalar value, DType dtype, const Shape& shape) {
  if (is_integer(dtype)) {
    const bool whole = value.kind() != Scalar::Kind::real || value.real() == std::trunc(value.real());
    require(whole && holds(dtype, value.integer()), Error::Kind::type,
            "{}: the number {} does not fit a tensor of dtype {}; cast the tensor first", op, value.real(),
            name(dtype));
  }
  return expanded(make_constant(value, dtype), shape);
}

Tensor operand(std::string_view op, const TensorOrScalar& term, DType dtype, const Shape& shape) {
  if (!term.is_tensor()) return number(op, term.scalar(), dtype, shape);
  const Tensor& x = term.tensor();
  if (x.dtype() == dtype && x.shape() == shape) return x;
  return expanded(cast(x, dtype), shape);  // cast first: fewer elements
}

Tensor elementwise_node(Op op, DType dtype, DType operands, Terms terms) {
  const std::string_view op_name = info(op).name;
  const Shape shape = common_shape(op_name, terms);
  std::array<Tensor, 3> inputs;
  std::size_t n = 0;
  for (const TensorOrScalar& t : terms) inputs[n++] = operand(op_name, t, operands, shape);
  return make_node(op, dtype, shape, std::span<const Tensor>(inputs.data(), n));
}

Tensor check(const Tensor& x, const Tensor& ok, const char* label) {
  const Shape shape = common_shape(label, {x, ok});
  return make_node(Op::check, x.dtype(), shape,
                   {operand(label, x, x.dtype(), shape), operand(label, ok, DType::bool_, shape)}, {}, label);
}

Tensor check_index(const Tensor& index, std::int64_t from, std::int64_t to, const char* label) {
  Attrs attrs;
  attrs.i = {1, from, to};
  const Tensor ok = logical_and(index >= from, index < to);
  return make_node(Op::check, index.dtype(), index.shape(), {index, ok}, attrs, label);
}

Tensor polygamma_of(const Tensor& n, const Tensor& x) {
  const DType dtype = common_dtype("polygamma", {n, as_real(x)});
  return elementwise_node(Op::polygamma, dtype, dtype, {n, x});
}

}  // namespace ebb
