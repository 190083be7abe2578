// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "ebb/error.h"
#include "sweep/program.h"

// Results of a sweep's runs besides tiles: reductions, and the first complaint about the data.
namespace ebb::cpu {

inline bool is_float(RegType t) { return t == RegType::f32 || t == RegType::f64; }

// Accumulators: double for floats, int64 for integers.
union Accumulator {
  double real;
  std::int64_t integer;
};

inline Accumulator identity(Op op, RegType t) {
  Accumulator a;
  if (is_float(t)) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    a.real = op == Op::sum ? 0.0 : op == Op::prod ? 1.0 : op == Op::max ? -inf : inf;
  } else {
    a.integer = op == Op::sum    ? 0
                : op == Op::prod ? 1
                : op == Op::max  ? std::numeric_limits<std::int64_t>::min()
                                 : std::numeric_limits<std::int64_t>::max();
  }
  return a;
}

inline void combine(Op op, RegType t, Accumulator& acc, Accumulator x) {
  if (is_float(t)) {
    switch (op) {
      case Op::sum:
        acc.real += x.real;
        break;
      case Op::prod:
        acc.real *= x.real;
        break;
      case Op::max:
        acc.real = x.real > acc.real || std::isnan(x.real) ? x.real : acc.real;
        break;
      default:
        acc.real = x.real < acc.real || std::isnan(x.real) ? x.real : acc.real;
        break;
    }
    return;
  }
  const auto a = static_cast<std::uint64_t>(acc.integer), b = static_cast<std::uint64_t>(x.integer);
  switch (op) {
    case Op::sum:
      acc.integer = static_cast<std::int64_t>(a + b);
      break;
    case Op::prod:
      acc.integer = static_cast<std::int64_t>(a * b);
      break;
    case Op::max:
      acc.integer = std::max(acc.integer, x.integer);
      break;
    default:
      acc.integer = std::min(acc.integer, x.integer);
      break;
  }
}

// Combines each of n accumulators with its own number; the operation is dispatched once, so that the loops vectorise.
template <class Real>
void combine_reals(Op op, Accumulator* acc, std::int64_t n, Real&& real) {
  switch (op) {
    case Op::sum:
      for (std::int64_t i = 0; i < n; ++i) acc[i].real += real(i);
      break;
    case Op::prod:
      for (std::int64_t i = 0; i < n; ++i) acc[i].real *= real(i);
      break;
    case Op::max:
      for (std::int64_t i = 0; i < n; ++i) {
        const double x = real(i);
        acc[i].real = x > acc[i].real || x != x ? x : acc[i].real;
      }
      break;
    default:
      for (std::int64_t i = 0; i < n; ++i) {
        const double x = real(i);
        acc[i].real = x < acc[i].real || x != x ? x : acc[i].real;
      }
      break;
  }
}
inline void combine_all(Op op, RegType t, Accumulator* acc, const Accumulator* x, std::int64_t n) {
  if (is_float(t)) {
    combine_reals(op, acc, n, [x](std::int64_t i) { return x[i].real; });
  } else {
    for (std::int64_t i = 0; i < n; ++i) combine(op, t, acc[i], x[i]);
  }
}

// A number as an accumulator.
template <class T>
Accumulator accumulator_of(T x) {
  Accumulator a;
  if constexpr (std::is_floating_point_v<T>)
    a.real = static_cast<double>(x);
  else
    a.integer = x;
  return a;
}

// Combines one accumulator with n numbers in order; with a step of 0 all of them are the first.
template <class T>
void combine_in_order_of(Op op, RegType t, Accumulator& acc, const T* from, std::int64_t step, std::int64_t n) {
  if (op == Op::sum && is_float(t)) {
    double sum = acc.real;
    for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(from[i * step]);
    acc.real = sum;
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) combine(op, t, acc, accumulator_of(from[i * step]));
}
// Calls run with a pointer to the numbers of this type.
template <class Run>
void with_numbers(RegType t, const void* p, Run&& run) {
  switch (t) {
    case RegType::f32:
      return run(static_cast<const float*>(p));
    case RegType::f64:
      return run(static_cast<const double*>(p));
    case RegType::i32:
      return run(static_cast<const std::int32_t*>(p));
    default:
      return run(static_cast<const std::int64_t*>(p));
  }
}
inline Accumulator read(RegType t, const void* p) {
  Accumulator a{};
  with_numbers(t, p, [&](const auto* number) { a = accumulator_of(*number); });
  return a;
}
inline void combine_in_order(Op op, RegType t, Accumulator& acc, const void* from, std::int64_t step, std::int64_t n) {
  with_numbers(t, from, [&](const auto* numbers) { combine_in_order_of(op, t, acc, numbers, step, n); });
}
inline void combine_in_order(Op op, RegType t, Accumulator& acc, const Accumulator* from, std::int64_t n) {
  combine_in_order(op, is_float(t) ? RegType::f64 : RegType::i64, acc, from, 1, n);
}
// Combines each of n accumulators with a number of its own.
inline void combine_each(Op op, RegType t, Accumulator* acc, const void* from, std::int64_t step, std::int64_t n) {
  with_numbers(t, from, [&](const auto* numbers) {
    if constexpr (std::is_floating_point_v<std::remove_cvref_t<decltype(*numbers)>>) {
      combine_reals(op, acc, n, [&](std::int64_t i) { return static_cast<double>(numbers[i * step]); });
    } else {
      for (std::int64_t i = 0; i < n; ++i) combine(op, t, acc[i], accumulator_of(numbers[i * step]));
    }
  });
}

inline void write(RegType t, void* p, Accumulator a) {
  switch (t) {
    case RegType::f32:
      *static_cast<float*>(p) = static_cast<float>(a.real);
      break;
    case RegType::f64:
      *static_cast<double*>(p) = a.real;
      break;
    case RegType::i32:
      *static_cast<std::int32_t*>(p) = static_cast<std::int32_t>(a.integer);
      break;
    default:
      *static_cast<std::int64_t*>(p) = a.integer;
      break;
  }
}

inline void write_all(RegType t, void* p, const Accumulator* a, std::int64_t n) {
  if (t == RegType::f32) {
    for (std::int64_t i = 0; i < n; ++i) static_cast<float*>(p)[i] = static_cast<float>(a[i].real);
  } else if (t == RegType::i32) {
    for (std::int64_t i = 0; i < n; ++i) static_cast<std::int32_t*>(p)[i] = static_cast<std::int32_t>(a[i].integer);
  } else {
    std::memcpy(p, a, static_cast<std::size_t>(n) * sizeof(Accumulator));
  }
}

// The first error in the data, by position.
class Complaint {
 public:
  void add(std::int64_t position, std::int32_t instr, const Error& error) {
    std::lock_guard lock(mutex_);
    if (!text_.empty() && (position > position_ || (position == position_ && instr >= instr_))) return;
    position_ = position;
    instr_ = instr;
    text_ = error.what();
    kind_ = error.kind();
  }
  void raise() const {
    if (!text_.empty()) throw Error(kind_, text_);
  }

 private:
  std::mutex mutex_;
  std::int64_t position_ = 0;
  std::int32_t instr_ = 0;
  std::string text_;
  Error::Kind kind_ = Error::Kind::value;
};

// The number at p, as text for complaints.
std::string number_text(RegType t, const void* p);

}  // namespace ebb::cpu
