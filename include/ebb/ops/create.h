// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <type_traits>
#include <vector>

#include "ebb/tensor.h"

namespace ebb {

// Constants take no memory: one number, broadcast.
Tensor zeros(const Shape& shape, DType dtype = DType::f32);
Tensor ones(const Shape& shape, DType dtype = DType::f32);
Tensor full(const Shape& shape, Scalar value, std::optional<DType> dtype = {});  // default: f32, i64 or bool, as value
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, Scalar value);

// start, start + step, ... up to but excluding end: i64 for integers, f32 for reals.
Tensor arange(Scalar end);
Tensor arange(Scalar start, Scalar end, Scalar step = 1, std::optional<DType> dtype = {});
// `count` numbers from start to end, both included exactly.
Tensor linspace(double start, double end, std::int64_t count, DType dtype = DType::f32);
Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns = {}, DType dtype = DType::f32);

// Random numbers depend only on the seed, the operation number and the position (see manual_seed).
Tensor rand(const Shape& shape, DType dtype = DType::f32);   // uniform in [0, 1)
Tensor randn(const Shape& shape, DType dtype = DType::f32);  // normal, mean 0, variance 1
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype = DType::i64);  // in [low, high)
Tensor bernoulli(const Tensor& p);  // 1 with probability p, else 0, in p's shape and dtype
Tensor bernoulli(const Shape& shape, double p, DType dtype = DType::f32);
Tensor rand_like(const Tensor& x);
Tensor randn_like(const Tensor& x);
Tensor randint_like(const Tensor& x, std::int64_t low, std::int64_t high);

// A copy of row-major elements.
Tensor from_bytes(const void* data, DType dtype, const Shape& shape);
template <class T>
Tensor from_data(const T* data, const Shape& shape) {
  return from_bytes(data, dtype_of_type<T>::value, shape);
}
void require_count(std::int64_t count, const Shape& shape);  // throws Error unless shape has that many elements
template <class T>
Tensor from_data(const std::vector<T>& data, const Shape& shape) {
  require_count(static_cast<std::int64_t>(data.size()), shape);
  return from_data(data.data(), shape);
}
template <class T>
Tensor from_data(std::initializer_list<T> data, const Shape& shape) {
  require_count(static_cast<std::int64_t>(data.size()), shape);
  return from_data(data.begin(), shape);
}
Tensor from_data(const std::vector<bool>& data, const Shape& shape);

// External row-major memory, not copied; it must not change. `release` is called after its last use, or if this throws.
Tensor from_foreign(void* data, DType dtype, const Shape& shape, std::function<void()> release = {});

// Literals: tensor(3.0), tensor({1, 2}), tensor({{1.0, 2.0}, {3.0, 4.0}}). Reals are f32 and integers i64 unless a
// dtype is given.
Tensor tensor(Scalar value, std::optional<DType> dtype = {});
Tensor tensor_from(const std::vector<double>& reals, const Shape& shape, DType dtype);
Tensor tensor_from(const std::vector<std::int64_t>& integers, const Shape& shape, DType dtype);

// One, two or three levels of braces.
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes,
              std::optional<DType> dtype = {}) {
  static_assert(std::is_arithmetic_v<T>, "a literal is made of numbers");
  using Wide = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
  const DType natural = std::is_same_v<T, bool> ? DType::bool_ : std::is_integral_v<T> ? DType::i64 : DType::f32;
  std::vector<Wide> all;
  const std::size_t rows = planes.size() ? planes.begin()->size() : 0;
  const std::size_t columns = rows ? planes.begin()->begin()->size() : 0;
  for (const auto& plane : planes) {
    for (const auto& row : plane) {
      if (plane.size() != rows || row.size() != columns) throw Error("tensor: rows of a literal differ in length");
      for (const T& value : row) all.push_back(static_cast<Wide>(value));
    }
  }
  const Shape shape{static_cast<std::int64_t>(planes.size()), static_cast<std::int64_t>(rows),
                    static_cast<std::int64_t>(columns)};
  return tensor_from(all, shape, dtype.value_or(natural));
}
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, std::optional<DType> dtype = {}) {
  return tensor({rows}, dtype)[0];
}
template <class T>
Tensor tensor(std::initializer_list<T> values, std::optional<DType> dtype = {}) {
  static_assert(std::is_arithmetic_v<T>, "a literal is made of numbers");
  using Wide = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
  const DType natural = std::is_same_v<T, bool> ? DType::bool_ : std::is_integral_v<T> ? DType::i64 : DType::f32;
  return tensor_from(std::vector<Wide>(values.begin(), values.end()), Shape{static_cast<std::int64_t>(values.size())},
                     dtype.value_or(natural));
}
// Data has the dtype of its elements, literals have not.
template <class T>
Tensor tensor(const std::vector<T>&, std::optional<DType> = {}) {
  static_assert(sizeof(T) == 0, "tensor() is for literals; from_data(values, {n}) makes a tensor of a std::vector");
  return {};
}

}  // namespace ebb
