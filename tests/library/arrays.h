// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "cpu/library.h"
#include "cpu/tile/elements.h"
#include "ebb/memory.h"

// Tensors with their own memory for tests of library calls: filled through a function of the position, in every
// possible layout of a view, and read back as doubles.
namespace ebb::cpu {

inline const DType kAllDTypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16,
                                   DType::i64, DType::i32, DType::u8,  DType::bool_};
inline const DType kFloats[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

using Position = std::vector<std::int64_t>;

// fn(position) for every position of the shape, row-major.
inline void for_each_position(const Shape& shape, const std::function<void(const Position&)>& fn) {
  Position p(static_cast<std::size_t>(shape.rank()), 0);
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    fn(p);
    for (int d = shape.rank() - 1; d >= 0; --d) {
      if (++p[static_cast<std::size_t>(d)] < shape[d]) break;
      p[static_cast<std::size_t>(d)] = 0;
    }
  }
}

enum class Layout { dense, gapped, transposed, backwards, repeated };
inline const Layout kLayouts[] = {Layout::dense, Layout::gapped, Layout::transposed, Layout::backwards,
                                  Layout::repeated};

class Array {
 public:
  Array(DType dtype, const Shape& shape, Layout layout = Layout::dense) {
    view_.dtype = dtype;
    view_.shape = shape;
    // Sizes in memory: one more in every dimension if there are gaps; the first dimension once if it repeats.
    std::vector<int> order;  // dimensions, outermost in memory first
    for (int d = 0; d < shape.rank(); ++d) order.push_back(d);
    if (layout == Layout::transposed) std::reverse(order.begin(), order.end());
    std::int64_t step = 1, start = 0;
    for (auto d = order.rbegin(); d != order.rend(); ++d) {
      const bool repeats = layout == Layout::repeated && *d == 0 && shape.rank() > 1;
      const std::int64_t size = repeats ? 1 : shape[*d] + (layout == Layout::gapped ? 1 : 0);
      view_.strides[*d] = repeats ? 0 : step;
      if (layout == Layout::backwards && shape[*d] > 0) {
        start += (shape[*d] - 1) * step;
        view_.strides[*d] = -step;
      }
      step *= std::max<std::int64_t>(1, size);
    }
    memory_.resize(static_cast<std::size_t>(step + 1) * size_of(dtype), std::byte{0x5A});
    start_ = start;
    view_.data = nullptr;
  }

  View view() const {
    View v = view_;
    v.data = const_cast<std::byte*>(memory_.data()) + start_ * static_cast<std::int64_t>(size_of(v.dtype));
    return v;
  }
  const Shape& shape() const { return view_.shape; }
  DType dtype() const { return view_.dtype; }
  const std::vector<std::byte>& memory() const { return memory_; }

  double get(const Position& p) const {
    const View v = view();
    return with_type(v.dtype, [&](auto type) -> double {
      using T = typename decltype(type)::type;
      T x;
      std::memcpy(&x, static_cast<const T*>(v.data) + offset(p), sizeof(T));
      if constexpr (is_half_type<T>) {
        return to_float(x);
      } else {
        return static_cast<double>(x);
      }
    });
  }
  void set(const Position& p, double value) {
    const View v = view();
    with_type(v.dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      T x;
      if constexpr (std::is_same_v<T, Half>) {
        x = half_from(static_cast<float>(value));
      } else if constexpr (std::is_same_v<T, BFloat16>) {
        x = bfloat16_from(static_cast<float>(value));
      } else if constexpr (std::is_same_v<T, bool>) {
        x = value != 0;
      } else {
        x = static_cast<T>(value);
      }
      std::memcpy(static_cast<T*>(v.data) + offset(p), &x, sizeof(T));
    });
  }
  Array& fill(const std::function<double(const Position&)>& fn) {
    for_each_position(shape(), [&](const Position& p) { set(p, fn(p)); });
    return *this;
  }

 private:
  std::int64_t offset(const Position& p) const {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < p.size(); ++d) at += p[d] * view_.strides[static_cast<int>(d)];
    return at;
  }
  View view_;
  std::vector<std::byte> memory_;
  std::int64_t start_ = 0;
};

// Small numbers every dtype holds exactly: integers in [low, high], halves of them for floats.
inline Array random_array(DType dtype, const Shape& shape, Layout layout, std::mt19937& rng, int low = -8,
                          int high = 8) {
  if (dtype == DType::u8 || dtype == DType::bool_) low = 0;
  if (dtype == DType::bool_) high = 1;
  std::uniform_int_distribution<int> numbers(low, high);
  Array a(dtype, shape, layout);
  return a.fill([&](const Position&) { return is_floating(dtype) ? numbers(rng) / 2.0 : numbers(rng); });
}

inline Array random_index(DType dtype, const Shape& shape, Layout layout, std::int64_t size, std::mt19937& rng) {
  std::uniform_int_distribution<std::int64_t> numbers(0, std::max<std::int64_t>(0, size - 1));
  Array a(dtype, shape, layout);
  return a.fill([&](const Position&) { return static_cast<double>(numbers(rng)); });
}

// Runs one operation into a fresh array, with 1, 2, 3 and 8 threads; the bits must be the same every time.
inline Array run_call(Op op, const Attrs& attrs, const std::vector<const Array*>& inputs, DType dtype,
                      const Shape& shape, const char* label = nullptr) {
  std::vector<View> views;
  for (const Array* a : inputs) views.push_back(a->view());
  Array first(dtype, shape);
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    Array out(dtype, shape);
    const View target = out.view();
    run_library({op, attrs, label, views, {&target, 1}, nullptr});
    if (threads == 1) {
      first = out;
    } else if (out.memory() != first.memory()) {
      throw std::runtime_error(std::string(info(op).name) + ": the bits depend on the number of threads");
    }
  }
  set_num_threads(2);
  return first;
}

inline Attrs along(std::int64_t axis, std::int64_t second = 0, std::int64_t third = 0) {
  Attrs a;
  a.i = {axis, second, third, 0};
  return a;
}

}  // namespace ebb::cpu
