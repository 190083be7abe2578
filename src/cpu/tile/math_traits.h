// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

// The format of the floating types, and where their functions stop being ordinary: for the functions of math-inl.h and
// their counterparts in loops of machine code.
namespace ebb::cpu {

// Polynomials are evaluated by Estrin's scheme; with a few terms more than a power of two, the first ones are added
// last, by Horner's: fewer products, and the others' rounding errors are multiplied by x.
constexpr std::size_t horner_steps(std::size_t terms) {
  for (const std::size_t steps : {0, 1, 2, 3}) {
    if (terms > steps && std::has_single_bit(terms - steps)) return steps;
  }
  return 0;
}

template <class T>
struct FloatTraits;
template <>
struct FloatTraits<float> {
  static constexpr int kMantissa = 23, kBias = 127;
  static constexpr float kRoundMagic = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  static constexpr float kBiasedMagic = 0x1.8p23f + 2 * kBias;
  static constexpr std::uint32_t kRootHalf = 0x3f3504f3, kMantissaMask = 0x7fffff;
  // ln 2 in two parts; the first has trailing zeros, so that its product with an exponent is exact without FMA too.
  static constexpr float kLn2High = 0x1.63p-1f, kLn2Low = -0x1.bd0106p-13f;
  static constexpr float kExpLow = -104.5f, kExpHigh = 89.5f, kExp2Low = -151.0f, kExp2High = 129.0f;
  static constexpr float kExpm1Low = -18.0f, kExpm1High = 89.0f, kExpNormal = 87.0f, kLog1pHigh = 0x1p126f;
  static constexpr float kExpm1Plain = 16.6f;
};
template <>
struct FloatTraits<double> {
  static constexpr int kMantissa = 52, kBias = 1023;
  static constexpr double kRoundMagic = 0x1.8p52, kBiasedMagic = 0x1.8p52 + 2 * kBias;
  static constexpr std::uint64_t kRootHalf = 0x3fe6a09e667f3bcd, kMantissaMask = 0xfffffffffffff;
  static constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
  static constexpr double kExpLow = -746.0, kExpHigh = 711.0, kExp2Low = -1076.0, kExp2High = 1025.0;
  static constexpr double kExpm1Low = -40.0, kExpm1High = 710.0, kExpNormal = 708.0, kLog1pHigh = 0x1p1022;
  static constexpr double kExpm1Plain = 36.7;
};

}  // namespace ebb::cpu
