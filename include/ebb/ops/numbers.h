// SPDX-License-Identifier: MIT
#pragma once
#include <optional>

#include "ebb/ops/elementwise.h"

// More elementwise functions, each composed of others, from which it takes its gradient. Operands broadcast.
namespace ebb {

// log(e^a + e^b) without overflow; equal infinities are preserved.
Tensor logaddexp(const Tensor& a, const Tensor& b);

Tensor fmod(TensorOrScalar a, TensorOrScalar b);  // a − b·trunc(a / b): has the sign of a, exactly
Tensor copysign(TensorOrScalar a,
                TensorOrScalar b);  // |a| with the sign of b, that of −0 included; gradient 0 at a = 0
Tensor signbit(const Tensor& x);    // bool: below zero, or −0; false for NaN

struct NanToNumOptions {
  double nan = 0;
  std::optional<double> posinf = {}, neginf = {};  // default: the largest and the lowest finite number
};
Tensor nan_to_num(const Tensor& x, const NanToNumOptions& options = {});  // gradient 0 where a number was replaced

Tensor erfinv(const Tensor& x);  // the y with erf(y) = x; infinite at ±1, NaN beyond

// Bitwise operations on integers; logical operations for bool. Evaluated immediately.
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
Tensor bitwise_not(const Tensor& x);

// The same as in Python, for masks: (x > 0) & ~isnan(y). No && and ||, which would compute both sides.
inline Tensor operator&(const Tensor& a, const Tensor& b) { return bitwise_and(a, b); }
inline Tensor operator|(const Tensor& a, const Tensor& b) { return bitwise_or(a, b); }
inline Tensor operator^(const Tensor& a, const Tensor& b) { return bitwise_xor(a, b); }
inline Tensor operator~(const Tensor& x) { return bitwise_not(x); }
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b);   // 0 where all bits are shifted out
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b);  // keeps the sign

}  // namespace ebb
