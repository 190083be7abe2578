// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "cases/test_tensor.h"
#include "ebb/ops.h"

// Arrays for the table's references: plain row-major doubles, indexed by hand.
namespace ebb::table {

using Index = std::vector<std::int64_t>;

struct Array {
  Index shape;
  std::vector<double> values;

  Array() = default;
  Array(Index sizes, double fill = 0) : shape(std::move(sizes)) {
    std::int64_t n = 1;
    for (std::int64_t s : shape) n *= s;
    values.assign(static_cast<std::size_t>(n), fill);
  }
  std::int64_t numel() const { return static_cast<std::int64_t>(values.size()); }
  // Right-aligned, sizes of 1 repeat: NumPy's broadcasting.
  double& at(const Index& i) {
    std::size_t linear = 0;
    const std::size_t skip = i.size() - shape.size();
    for (std::size_t d = 0; d < shape.size(); ++d) {
      linear = linear * static_cast<std::size_t>(shape[d]) + static_cast<std::size_t>(shape[d] == 1 ? 0 : i[d + skip]);
    }
    return values[linear];
  }
  double at(const Index& i) const { return const_cast<Array*>(this)->at(i); }
};

// Calls body(index) for every index of a shape, in row-major order.
template <class Body>
void each_index(const Index& shape, Body body) {
  for (std::int64_t s : shape) {
    if (s == 0) return;
  }
  Index i(shape.size(), 0);
  while (true) {
    body(i);
    std::size_t d = shape.size();
    while (d > 0 && ++i[d - 1] == shape[d - 1]) i[--d] = 0;
    if (d == 0) return;
  }
}

// f applied to every line along an axis; lines may change their length to `length` (−1: they do not).
template <class F>
Array along(const Array& x, std::size_t axis, std::int64_t length, F f) {
  Index out_shape = x.shape;
  if (length >= 0) out_shape[axis] = length;
  Array out(out_shape);
  Index outer = x.shape;
  outer[axis] = 1;
  each_index(outer, [&](Index i) {
    std::vector<double> line;
    for (std::int64_t k = 0; k < x.shape[axis]; ++k) {
      i[axis] = k;
      line.push_back(x.at(i));
    }
    const std::vector<double> result = f(line);
    for (std::size_t k = 0; k < result.size(); ++k) {
      i[axis] = static_cast<std::int64_t>(k);
      out.at(i) = result[k];
    }
  });
  return out;
}

// A number rounded to a dtype.
inline double kept(double x, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return static_cast<float>(x);
    case DType::f16:
      return to_float(half_from(static_cast<float>(x)));
    case DType::bf16:
      return to_float(bfloat16_from(static_cast<float>(x)));
    case DType::i64:
      return static_cast<double>(static_cast<std::int64_t>(x));
    case DType::i32:
      return static_cast<double>(static_cast<std::int32_t>(static_cast<std::int64_t>(x)));
    case DType::u8:
      return static_cast<double>(static_cast<std::uint8_t>(static_cast<std::int64_t>(x)));
    case DType::bool_:
      return x != 0;
    default:
      return x;
  }
}

// Memory layout of an operand.
enum class Layout { contiguous, transposed, every_second, backwards, repeated };
inline constexpr Layout kLayouts[] = {Layout::contiguous, Layout::transposed, Layout::every_second, Layout::backwards,
                                      Layout::repeated};
inline const char* name(Layout layout) {
  static constexpr const char* kNames[] = {"contiguous", "transposed", "every second", "backwards", "repeated"};
  return kNames[static_cast<int>(layout)];
}

inline Tensor from_array(const Array& a, DType dtype) { return test_tensor(a.values, Shape(a.shape), dtype); }

// The array as a tensor with that layout. `repeated` keeps the first slice along axis 0 and repeats it, which changes
// the array.
inline Tensor laid_out(Array& a, DType dtype, Layout layout) {
  const std::size_t rank = a.shape.size();
  if (rank == 0) return from_array(a, dtype);
  switch (layout) {
    case Layout::contiguous:
      return from_array(a, dtype);
    case Layout::transposed: {
      if (rank < 2) return from_array(a, dtype);
      Index turned = a.shape;
      std::swap(turned[rank - 1], turned[rank - 2]);
      Array t(turned);
      each_index(a.shape, [&](const Index& i) {
        Index j = i;
        std::swap(j[rank - 1], j[rank - 2]);
        t.at(j) = a.at(i);
      });
      return transpose(from_array(t, dtype), -1, -2);
    }
    case Layout::every_second:
    case Layout::backwards: {
      const bool back = layout == Layout::backwards;
      const std::int64_t n = a.shape[rank - 1];
      Index wide = a.shape;
      wide[rank - 1] = back ? n : 2 * n;
      Array w(wide, 77);
      each_index(a.shape, [&](const Index& i) {
        Index j = i;
        j[rank - 1] = back ? n - 1 - i[rank - 1] : 2 * i[rank - 1];
        w.at(j) = a.at(i);
      });
      const Tensor t = from_array(w, dtype);
      return back ? slice(t, -1, -1, kEnd, -1) : slice(t, -1, 0, kEnd, 2);
    }
    case Layout::repeated: {
      if (a.shape[0] < 2) return from_array(a, dtype);
      Index one = a.shape;
      one[0] = 1;
      Array first(one);
      each_index(one, [&](const Index& i) { first.at(i) = a.at(i); });
      each_index(a.shape, [&](Index i) {
        double& to = a.at(i);
        i[0] = 0;
        to = first.at(i);
      });
      return expand(from_array(first, dtype), Sizes(Shape(a.shape)));
    }
  }
  return {};
}

}  // namespace ebb::table
