// SPDX-License-Identifier: MIT
// Elements as unsigned integers in their order: -0 and 0 are equal, every NaN is the same and above all numbers.
#pragma once
#include "cuda/kernels/parts/block_sums.cuh"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef u16 T;  // the bits of an element
constexpr bool kDescending = false, kFloating = true, kSigned = true;
constexpr T kInfinity = 0x7F80;  // its bits, of floats
#endif

constexpr int kKeyBits = 8 * sizeof(T);

EBB T key_of(T bits) {
  constexpr T kSign = (T)((T)1 << (kKeyBits - 1));
  T key = bits;
  if constexpr (kFloating) {
    const T size = (T)(bits & (T)~kSign);
    key = size == bits ? (T)(bits | kSign) : size ? (T)~bits : kSign;
    if (size > kInfinity) key = (T) ~(T)0;
  } else if constexpr (kSigned) {
    key = (T)(bits ^ kSign);
  }
  return kDescending ? (T)~key : key;
}
// Whether a key tells the bits of its element: zeros and NaN have lost theirs.
EBB bool tells_bits(T key) {
  constexpr T kSign = (T)((T)1 << (kKeyBits - 1));
  const T rising = kDescending ? (T)~key : key;
  return !kFloating || (rising != kSign && rising != (T) ~(T)0);
}
EBB T bits_of_key(T key) {
  constexpr T kSign = (T)((T)1 << (kKeyBits - 1));
  const T rising = kDescending ? (T)~key : key;
  if constexpr (kFloating) return rising & kSign ? (T)(rising ^ kSign) : (T)~rising;
  return kSigned ? (T)(rising ^ kSign) : rising;
}
EBB u32 digit_of(T key, int shift) { return (u32)(key >> shift) & 255u; }

}  // namespace ebb::cuda
