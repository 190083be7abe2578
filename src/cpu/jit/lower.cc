// SPDX-License-Identifier: MIT
#include <bit>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <type_traits>

#include "core/format_error.h"
#include "cpu/jit/code.h"
#include "cpu/tile/math_coefficients.h"
#include "cpu/tile/math_traits.h"

// Operations as vector instructions. Those of the functions repeat math-inl.h step by step, so that they are
// bit-identical; where that has a shorter form for ordinary numbers, only the shorter form is here, with a guard.
namespace ebb::cpu {
namespace {

class Lowering {
 public:
  explicit Lowering(const LoopProgram& p) : p_(p) {
    code_.wide = p.wide;
    code_.stores = p.stores;
  }

  LoopCode run() {
    for (const LoopProgram::Value& v : p_.values) {
      switch (v.source) {
        case LoopProgram::Source::tile:
          value_of_.push_back(push({.source = LoopCode::Source::tile, .pointer = v.pointer, .stored = v.stored}));
          break;
        case LoopProgram::Source::number:
          value_of_.push_back(push({.source = LoopCode::Source::number, .pointer = v.pointer}));
          break;
        case LoopProgram::Source::result: {
          std::array<int, 3> in{-1, -1, -1};
          for (std::size_t k = 0; k < 3; ++k) {
            if (v.arg[k] >= 0) in[k] = value_of_[static_cast<std::size_t>(v.arg[k])];
          }
          value_of_.push_back(v.from_mask                       ? two(Micro::bit_and, number(1), in[0])
                              : v.stored != Stored::as_computed ? rounded(in[0], v.stored)
                                                                : operation(v.op, in));
          require(value_of_.back() != kNoForm, "internal: {} has no form in loops of machine code", info(v.op).name);
          break;
        }
      }
    }
    auto of = [&](int v) { return value_of_[static_cast<std::size_t>(v)]; };
    for (LoopProgram::Store& s : code_.stores) {
      s.value = of(s.value);
      if (s.stored == Stored::bf16) s.value = upper_half_of(s.value);
    }
    for (int s : p_.sums) code_.sums.push_back(of(s));
    for (int g : p_.guards) code_.guards.push_back(of(g));
    return std::move(code_);
  }

  bool has_form(Op op) {
    std::array<int, 3> in;
    for (int k = 0; k < 3; ++k)
      in[static_cast<std::size_t>(k)] = push({.source = LoopCode::Source::tile, .pointer = k});
    return operation(op, in) != kNoForm;
  }

 private:
  static constexpr int kNoForm = -1;

  // The same instruction on the same values is emitted once.
  int push(LoopCode::Value v) {
    v.wide = wide_;
    const auto key = std::tuple(v.source, v.pointer, v.bits, v.op, v.arg, v.immediate, v.wide);
    auto [at, added] = made_.emplace(key, static_cast<int>(code_.values.size()));
    if (added) code_.values.push_back(v);
    return at->second;
  }
  int one(Micro op, int a, int immediate = 0) { return push({.op = op, .arg = {a, -1, -1}, .immediate = immediate}); }
  int two(Micro op, int a, int b) { return push({.op = op, .arg = {a, b, -1}}); }
  int three(Micro op, int a, int b, int c) { return push({.op = op, .arg = {a, b, c}}); }
  int add(int a, int b) { return two(Micro::add, a, b); }
  int sub(int a, int b) { return two(Micro::sub, a, b); }
  int mul(int a, int b) { return two(Micro::mul, a, b); }
  int fma(int a, int b, int c) { return three(Micro::fma, a, b, c); }
  int fnma(int a, int b, int c) { return three(Micro::fnma, a, b, c); }

  int bits(std::uint64_t b) { return push({.source = LoopCode::Source::constant, .bits = b}); }
  int number(double x) {
    return bits(wide_ ? std::bit_cast<std::uint64_t>(x) : std::bit_cast<std::uint32_t>(static_cast<float>(x)));
  }
  int sign_bits() { return bits(wide_ ? std::uint64_t{1} << 63 : std::uint64_t{1} << 31); }

  // x86 has no instructions for signs: with the sign bits in a register one instruction does it, also −|x|. It has ones
  // that compute f64 from f32, and vectors of f64 long enough to compute both forms of a function for all lanes.
#if defined(__x86_64__)
  static constexpr bool kSignsByBits = true, kMixesWidths = true, kTwoWayFunctions = true;
#else
  static constexpr bool kSignsByBits = false, kMixesWidths = false, kTwoWayFunctions = false;
#endif
  int magnitude(int x) {
    const std::uint64_t others = wide_ ? ~std::uint64_t{0} >> 1 : ~std::uint32_t{0} >> 1;
    const int y = kSignsByBits ? two(Micro::bit_and, x, bits(others)) : one(Micro::absolute, x);
    magnitude_of_[y] = x;
    return y;
  }
  int negative(int x) {
    const auto magnitude = magnitude_of_.find(x);
    const bool is_magnitude = magnitude != magnitude_of_.end();
    const int y = !kSignsByBits  ? one(Micro::negate, x)
                  : is_magnitude ? two(Micro::bit_or, magnitude->second, sign_bits())
                                 : two(Micro::bit_xor, x, sign_bits());
    if (is_magnitude) never_positive_.insert(y);
    return y;
  }

  // The result's value; kNoForm if the operation is left to the steps.
  int operation(Op op, const std::array<int, 3>& in) {
    const int a = in[0], b = in[1], c = in[2];
    switch (op) {
      case Op::copy:
        return one(Micro::move, a);
      case Op::neg:
        return negative(a);
      case Op::reciprocal:
        return two(Micro::div, number(1), a);
      case Op::square:
        return mul(a, a);
      case Op::abs:
        return magnitude(a);
      case Op::sign: {  // 1 with the sign of a where it has one; otherwise a itself, which is 0 or NaN
        const int unit = two(Micro::bit_or, two(Micro::bit_and, a, sign_bits()), number(1));
        return three(Micro::select, two(Micro::abs_less, number(0), a), unit, a);
      }
      case Op::sqrt:
        return one(Micro::root, a);
      case Op::rsqrt:
        return rsqrt(a);
      case Op::floor:
        return one(Micro::floor, a);
      case Op::ceil:
        return one(Micro::ceil, a);
      case Op::round:
        return one(Micro::nearest, a);
      case Op::trunc:
        return one(Micro::trunc, a);
      case Op::add:
        return add(a, b);
      case Op::sub:
        return sub(a, b);
      case Op::mul:
        return mul(a, b);
      case Op::div:
        return two(Micro::div, a, b);
      case Op::maximum:
        return two(Micro::maximum, a, b);
      case Op::minimum:
        return two(Micro::minimum, a, b);
      case Op::fma:
        return fma(a, b, c);
      case Op::where:
        return three(Micro::select, a, b, c);
      case Op::eq:
        return two(Micro::equal, a, b);
      case Op::ne:
        return one(Micro::bit_not, two(Micro::equal, a, b));
      case Op::isnan:
        return one(Micro::bit_not, two(Micro::equal, a, a));
      case Op::lt:
        return two(Micro::less, a, b);
      case Op::le:
        return two(Micro::less_equal, a, b);
      case Op::gt:
        return two(Micro::less, b, a);
      case Op::ge:
        return two(Micro::less_equal, b, a);
      case Op::logical_and:
        return two(Micro::bit_and, a, b);
      case Op::logical_or:
        return two(Micro::bit_or, a, b);
      case Op::logical_xor:
        return two(Micro::bit_xor, a, b);
      case Op::logical_not:
        return one(Micro::bit_not, a);
      case Op::pow:
        return !p_.wide && kMixesWidths ? pow_of_f32(a, b) : kNoForm;
      default:
        return p_.wide ? function<double>(op, a) : function<float>(op, a);
    }
  }

  template <class T>
  int function(Op op, int x) {
    switch (op) {
      case Op::exp: {
        const int y = exp<T>(x);
        if (never_positive_.count(x)) up_to_one_.insert(y);
        return y;
      }
      case Op::exp2:
        return exp2<T>(x);
      case Op::expm1:
        return expm1<T>(x);
      case Op::tanh:
        return tanh<T>(x);
      case Op::sinh:
        return sinh<T>(x);
      case Op::cosh:
        return cosh<T>(x);
      case Op::log:
        return log<T>(x);
      case Op::log1p:
        return log1p<T>(x);
      case Op::log1p_unit:
        return log1p_unit<T>(x);
      case Op::erf:
        return sizeof(T) == 4 ? erf_of_f32(x) : kTwoWayFunctions ? erf_of_f64(x) : kNoForm;
      case Op::erfc:
        return sizeof(T) == 4 ? erfc_of_f32(x) : kNoForm;
      case Op::sin:
      case Op::cos:
        return sizeof(T) == 4 && kMixesWidths ? circular_of_f32(op, x) : kNoForm;
      default:
        return kNoForm;
    }
  }

  int rounded(int x, Stored to) {
    if (to == Stored::f16) return one(Micro::round_to_f16, x);
    const int r = two(Micro::bit_and, upper_half_of(x), bits(0xFFFF0000));
    upper_half_[r] = upper_half_of(x);
    return r;
  }
  // The nearest bf16, ties to even, as the upper half of the bits; as in half-inl.h.
  int upper_half_of(int x) {
    if (const auto at = upper_half_.find(x); at != upper_half_.end()) return at->second;
    const int odd = two(Micro::bit_and, one(Micro::shift_right, x, 16), bits(1));
    const int number = two(Micro::int_add, two(Micro::int_add, x, bits(0x7fff)), odd);
    return three(Micro::select, two(Micro::equal, x, x), number, two(Micro::bit_or, x, bits(0x400000)));
  }

  // ---- functions of f32 and f64, as in math-inl.h and math_erf_pow-inl.h ----

  template <class T>
  using Traits = FloatTraits<T>;
  template <class T>
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

  // Estrin's scheme. The lower half comes first, and powers as they are needed: fewer values are live at a time.
  template <class T, std::size_t kCount>
  int polynomial(int x, const T (&c)[kCount]) {
    std::size_t steps = horner_steps(kCount);
    std::vector<int> powers{x};
    int y = polynomial_part(c + steps, kCount - steps, powers);
    while (steps > 0) y = fma(y, x, number(c[--steps]));
    return y;
  }
  template <class T>
  int polynomial_part(const T* c, std::size_t count, std::vector<int>& powers) {
    if (count == 1) return number(c[0]);
    if (count == 2) return fma(number(c[1]), powers[0], number(c[0]));
    const std::size_t power = count > 16 ? 4 : count > 8 ? 3 : count > 4 ? 2 : 1, low = std::size_t{1} << power;
    const int lower = polynomial_part(c, low, powers), upper = polynomial_part(c + low, count - low, powers);
    while (powers.size() <= power) powers.push_back(mul(powers.back(), powers.back()));
    return fma(upper, powers[power], lower);
  }
  // The polynomial of f32 or of f64, whichever the loop computes in.
  template <class T, std::size_t kNarrow, std::size_t kWide>
  int polynomial(int x, const float (&narrow)[kNarrow], const double (&wide)[kWide]) {
    if constexpr (sizeof(T) == 4)
      return polynomial(x, narrow);
    else
      return polynomial(x, wide);
  }

  int clamped(int x, double low, double high) {  // NaN kept
    return two(Micro::max_or_second, number(low), two(Micro::min_or_second, number(high), x));
  }

  struct Reduced {
    int rest, shifted;
  };
  template <class T>
  int nearest_exponent(int x) {
    return fma(x, number(1.4426950408889634), number(Traits<T>::kBiasedMagic));
  }
  template <class T>
  Reduced reduce_by_ln2(int x, int shifted) {
    const int k = sub(shifted, number(Traits<T>::kBiasedMagic));
    return {fnma(k, number(Traits<T>::kLn2Low), fnma(k, number(Traits<T>::kLn2High), x)), shifted};
  }
  template <class T>
  Reduced reduce_by_ln2(int x) {
    return reduce_by_ln2<T>(x, nearest_exponent<T>(x));
  }
  struct OnePlus {
    int slope, value;
  };
  OnePlus one_plus(int r, int c, int q) {
    const int slope = fma(r, q, c);
    return {slope, fma(r, slope, number(1))};
  }
  template <class T>
  OnePlus exp_of_rest(int r) {
    return one_plus(r, number(1), polynomial<T>(r, kExpF32, kExpF64));
  }
  template <class T>
  int normal_power(int shifted, int offset) {
    return one(Micro::shift_left, two(Micro::int_sub, shifted, bits(static_cast<Bits<T>>(Traits<T>::kBias - offset))),
               Traits<T>::kMantissa);
  }

  int rsqrt(int a) {
    const int y = two(Micro::div, number(1), one(Micro::root, a)), ay = mul(a, y);
    const int error = fma(fnma(a, y, ay), y, fnma(ay, y, number(1)));
    const int better = fma(mul(y, number(0.5)), error, y);
    return three(Micro::select, two(Micro::equal, better, better), better, y);
  }
  template <class T>
  int exp(int x) {
    code_.ordinary.push_back(never_positive_.count(x) ? two(Micro::less, number(-Traits<T>::kExpNormal), x)
                                                      : two(Micro::abs_less, x, number(Traits<T>::kExpNormal)));
    return exp_normal<T>(x);
  }
  template <class T>
  int exp_normal(int x) {
    const Reduced k = reduce_by_ln2<T>(x);
    return mul(exp_of_rest<T>(k.rest).value, normal_power<T>(k.shifted, 0));
  }
  template <class T>
  int exp2(int x) {
    code_.ordinary.push_back(two(Micro::abs_less, x, number(Traits<T>::kBias - 1)));
    const int magic = number(Traits<T>::kBiasedMagic), shifted = add(x, magic), r = sub(x, sub(shifted, magic));
    const int q = polynomial<T>(r, kExp2F32, kExp2F64);
    return mul(one_plus(r, number(0.69314718055994531), q).value, normal_power<T>(shifted, 0));
  }
  template <class T>
  int expm1_plain(int x) {
    int shifted = nearest_exponent<T>(x);
    if constexpr (sizeof(T) == 4)
      shifted = three(Micro::select, two(Micro::abs_less, x, number(0.45)), number(Traits<T>::kBiasedMagic), shifted);
    const int r = reduce_by_ln2<T>(x, shifted).rest, half = normal_power<T>(shifted, -1);
    const int rest = fma(mul(r, r), polynomial<T>(r, kExpm1F32, kExpF64), r);
    const int y = fma(half, rest, sub(half, number(0.5)));
    return three(Micro::copy_sign, add(y, y), x, sign_bits());
  }
  template <class T>
  int expm1(int x) {
    code_.ordinary.push_back(two(Micro::abs_less, x, number(Traits<T>::kExpm1Plain)));
    return expm1_plain<T>(x);
  }
  template <class T>
  int tanh(int x) {
    const int a = clamped(magnitude(x), 0, 20);
    if constexpr (sizeof(T) == 8) {
      const int e = expm1_plain<T>(add(a, a));
      return three(Micro::copy_sign, two(Micro::div, e, add(e, number(2))), x, sign_bits());
    }
    const int z = mul(a, a), small = fma(mul(a, z), polynomial(z, kTanhF32), a);
    const int large = sub(number(1), two(Micro::div, number(2), add(exp_normal<T>(add(a, a)), number(1))));
    const int y = three(Micro::select, two(Micro::less, a, number(1)), small, large);
    return three(Micro::copy_sign, y, x, sign_bits());
  }
  struct Rounded {
    int value, lost;
  };
  template <class T>
  Rounded half_exp(int magnitude) {
    code_.ordinary.push_back(two(Micro::less, magnitude, number(Traits<T>::kExpNormal)));
    const Reduced k = reduce_by_ln2<T>(magnitude);
    const OnePlus y = exp_of_rest<T>(k.rest);
    const int lost = fma(k.rest, y.slope, sub(number(1), y.value)), power = normal_power<T>(k.shifted, -1);
    return {mul(y.value, power), mul(lost, power)};
  }
  template <class T>
  int cosh(int x) {
    const Rounded h = half_exp<T>(magnitude(x));
    return add(h.value, add(h.lost, two(Micro::div, number(0.25), h.value)));
  }
  template <class T>
  int sinh(int x) {
    const int a = magnitude(x), z = mul(a, a);
    const Rounded h = half_exp<T>(a);
    const int small = fma(mul(a, z), polynomial<T>(z, kSinhF32, kSinhF64), a);
    const int large = add(h.value, sub(h.lost, two(Micro::div, number(0.25), h.value)));
    const int y = three(Micro::select, two(Micro::less, a, number(1)), small, large);
    return three(Micro::copy_sign, y, x, sign_bits());
  }
  int erf_of_f32(int x) {
    const int a = magnitude(x), z = mul(x, x);
    const int t = sub(clamped(a, 0, 4), number(1));
    const int large = sub(number(1), exp_normal<float>(fma(t, polynomial(t, kErfLargeF32), number(kErfLargeFirst))));
    const int small = fma(x, fma(z, polynomial(z, kErfSmallF32), number(0.12837916709551257)), x);
    return three(Micro::select, two(Micro::less, a, number(1)), small, three(Micro::copy_sign, large, x, sign_bits()));
  }

  int erfc_of_f32(int x) {
    code_.ordinary.push_back(two(Micro::less, x, number(9)));  // the result is a normal number
    const int unit = number(1), z = mul(x, x), rest = sub(unit, x);
    const int s = fma(z, polynomial(z, kErfSmallF32), number(0.12837916709551257));
    const int near = add(rest, fnma(x, s, sub(sub(unit, rest), x)));
    const int size = magnitude(x), a = two(Micro::min_or_second, number(9), size);  // beyond it is 2 - 0
    const int top = sub(a, number(1.5)), below = add(a, number(1.5)), bottom = fma(a, number(2), unit);
    const int inverse = two(Micro::div, unit, mul(below, bottom)), t = mul(mul(top, bottom), inverse);
    const int first = number(kErfcxSingleFirst), others = mul(t, polynomial(t, kErfcxF32));
    const int g = add(first, others), g_lost = sub(others, sub(g, first));
    const int ratio = mul(g, mul(below, inverse)), bottom_lost = fma(a, number(2), sub(unit, bottom));
    const int ratio_lost = add(fnma(bottom_lost, ratio, g_lost), fnma(ratio, bottom, g));
    const int h = mul(a, a), down = negative(h), shifted = nearest_exponent<float>(down);
    const int k = sub(shifted, number(Traits<float>::kBiasedMagic)), ln2_low = number(Traits<float>::kLn2Low);
    const int high = fnma(k, number(Traits<float>::kLn2High), down);
    const int r = fnma(k, ln2_low, high), r_lost = fnma(k, ln2_low, sub(high, r));
    const int low = add(add(mul(ratio_lost, number(0.81)), fnma(a, a, h)), r_lost);
    const int rr = mul(r, r), q = polynomial(r, kExpF32), rise = fma(rr, q, r), y = add(unit, rise);
    const int y_lost = add(sub(rise, sub(y, unit)), fma(rr, q, sub(r, rise)));
    const int product = fma(y, ratio, mul(fma(y, low, y_lost), ratio));
    const int positive = mul(product, normal_power<float>(shifted, 0));
    const int far = three(Micro::select, two(Micro::less, x, number(0)), sub(number(2), positive), positive);
    return three(Micro::select, two(Micro::less, size, number(0.5)), near, far);
  }

  int erf_of_f64(int x) {
    const int a = magnitude(x), z = mul(x, x), unit = number(1);
    const int small = fma(x, fma(z, polynomial(z, kErfSmallF64), number(0.12837916709551257)), x);
    const int large = sub(unit, erfc_up_to_26(two(Micro::min_or_second, number(26), a)));
    return three(Micro::select, two(Micro::less, a, unit), small, three(Micro::copy_sign, large, x, sign_bits()));
  }
  // erfc_positive where e^(-a²) is a normal number. Beyond, 1 - erfc a is 1 anyway.
  int erfc_up_to_26(int a) {
    const int h = mul(a, a), added = fnma(a, a, h);  // a² = h - added
    const int t = two(Micro::div, sub(a, number(4)), add(a, number(4)));
    const int first = number(kErfcxFirst), others = mul(t, polynomial(t, kErfcxF64));
    const int g = add(first, others), g_error = sub(others, sub(g, first));
    const int twice = add(a, a), unit = number(1), bottom = add(twice, unit);
    const int bottom_error = sub(unit, sub(bottom, twice)), ratio = two(Micro::div, g, bottom);
    const int correction = mul(fnma(bottom_error, ratio, g_error), number(0.87));
    const Reduced k = reduce_by_ln2<double>(negative(h));
    const int power = exp_of_rest<double>(add(k.rest, add(correction, added))).value;
    return mul(mul(power, normal_power<double>(k.shifted, 0)), ratio);
  }

  // ---- functions of f32 that are computed in f64, as in math_trig-inl.h and math_erf_pow-inl.h ----

  // f(values in f64) of each half of the vectors, recombined.
  template <class F, class... Values>
  int in_f64(F f, Values... x) {
    wide_ = true;
    const int lower = f(one(Micro::widen_lower, x)...), upper = f(one(Micro::widen_upper, x)...);
    wide_ = false;
    return two(Micro::narrow, lower, upper);
  }

  int circular_of_f32(Op op, int x) {
    code_.ordinary.push_back(two(Micro::abs_less, x, number(0x1p20)));
    return in_f64(
        [&](int a) {
          const int magic = number(Traits<double>::kRoundMagic), shifted = fma(a, number(0x1.45f306dc9c883p-1), magic);
          const int n = sub(shifted, magic);
          const int r = fnma(n, number(0x1.0b4611a626331p-34), fnma(n, number(0x1.921fb544p+0), a)), z = mul(r, r);
          const int s = fma(mul(r, z), polynomial(z, kSinF64Short), r);
          const int c = fma(mul(z, z), polynomial(z, kCosF64Short), fnma(z, number(0.5), number(1)));
          const int quadrant = op == Op::cos ? two(Micro::int_add, shifted, bits(1)) : shifted;
          // The quadrant's low bit moved to where it makes a number of it, the second one to the sign.
          const int low = one(Micro::shift_left, two(Micro::bit_and, quadrant, bits(1)), 62);
          const int sign = one(Micro::shift_left, two(Micro::bit_and, quadrant, bits(2)), 62);
          const int y = two(Micro::bit_xor, three(Micro::select, two(Micro::less, number(0), low), c, s), sign);
          return op == Op::cos ? y : three(Micro::select, two(Micro::equal, a, number(0)), a, y);  // -0 stays -0
        },
        x);
  }

  // |x|^y = 2^(y log2|x|) in f64; the case of negative x is decided in f32, by y.
  int pow_of_f32(int x, int y) {
    const int inf = number(std::numeric_limits<float>::infinity()), zero = number(0);
    code_.ordinary.push_back(two(Micro::abs_less, x, inf));
    code_.ordinary.push_back(two(Micro::abs_less, y, inf));
    code_.ordinary.push_back(two(Micro::less, zero, magnitude(y)));  // 0 to the power of 0 is 1
    const int power = in_f64([&](int a, int b) { return exp2_short(mul(b, log2_short(a))); }, magnitude(x), y);
    const int half = mul(y, number(0.5)), fraction = one(Micro::bit_not, two(Micro::equal, one(Micro::floor, y), y));
    const int uneven = one(Micro::bit_not, two(Micro::equal, one(Micro::floor, half), half));
    const int negative = two(Micro::less, x, zero);
    const int odd = two(Micro::bit_and, uneven, one(Micro::bit_not, fraction));
    const int sign = two(Micro::bit_and, two(Micro::bit_and, x, sign_bits()), odd);
    const int no_root = two(Micro::bit_and, negative, fraction);
    return three(Micro::select, no_root, bits(0x7fc00000), two(Micro::bit_or, power, sign));
  }
  int log2_short(int a) {
    const Split p = split<double>(a);
    const int s = two(Micro::div, p.fraction, add(p.fraction, number(2))), z = mul(s, s);
    const int natural = fma(mul(s, z), polynomial(z, kLogF64Short), add(s, s));
    const int y = fma(natural, number(1.4426950408889634), exponent_as_number<double>(p.exponent));
    const int infinity = number(-std::numeric_limits<double>::infinity());
    return three(Micro::select, two(Micro::equal, a, number(0)), infinity, y);
  }
  int exp2_short(int t) {
    const int magic = number(Traits<double>::kBiasedMagic), x = clamped(t, -200, 200), shifted = add(x, magic);
    const int r = sub(x, sub(shifted, magic));
    const int q = fma(r, polynomial(r, kExp2F64Short), number(0.69314718055994531));
    return mul(fma(q, r, number(1)), normal_power<double>(shifted, 0));
  }

  // The exponent k is kept as k + kOffset, which is not negative: AVX2 has no arithmetic right shift of 64 bits, and no
  // conversion from them.
  struct Split {
    int fraction, exponent;
  };
  template <class T>
  static constexpr Bits<T> kOffset = sizeof(T) == 4 ? 0 : Bits<T>{1024};
  template <class T>
  Split split(int x) {
    const int shifted = two(Micro::int_sub, x, bits(Traits<T>::kRootHalf));
    const int m =
        two(Micro::int_add, two(Micro::bit_and, shifted, bits(Traits<T>::kMantissaMask)), bits(Traits<T>::kRootHalf));
    const int exponent =
        sizeof(T) == 4 ? one(Micro::shift_right_signed, shifted, Traits<T>::kMantissa)
                       : one(Micro::shift_right,
                             two(Micro::int_add, shifted, bits(std::uint64_t{kOffset<T>} << Traits<T>::kMantissa % 64)),
                             Traits<T>::kMantissa);
    return {sub(m, number(1)), exponent};
  }
  template <class T>
  int exponent_as_number(int exponent) {
    if constexpr (sizeof(T) == 4) return one(Micro::to_float, exponent);
    // Adds an integer to 2^52 through its low bits.
    return sub(two(Micro::bit_or, exponent, number(0x1p52)), number(0x1p52 + static_cast<double>(kOffset<T>)));
  }
  template <class T>
  int log_rest(int f) {
    if constexpr (sizeof(T) == 4) return mul(mul(f, f), polynomial(f, kLogF32));
    const int s = two(Micro::div, f, add(f, number(2))), z = mul(s, s), half_square = mul(mul(f, f), number(0.5));
    return sub(mul(s, add(half_square, mul(z, polynomial(z, kLogF64)))), half_square);
  }
  template <class T>
  int log_sum(int f, int exponent, int small = -1) {
    const int k = exponent_as_number<T>(exponent), low = fma(k, number(Traits<T>::kLn2Low), log_rest<T>(f));
    return fma(k, number(Traits<T>::kLn2High), add(f, small < 0 ? low : add(low, small)));
  }
  void guard(int low_enough, int high_enough) {
    code_.ordinary.push_back(low_enough);
    code_.ordinary.push_back(high_enough);
  }
  template <class T>
  int log(int x) {
    guard(two(Micro::less_equal, number(std::numeric_limits<T>::min()), x),
          two(Micro::less, x, number(std::numeric_limits<T>::infinity())));
    const Split s = split<T>(x);
    return log_sum<T>(s.fraction, s.exponent);
  }
  template <class T>
  int log1p(int x) {
    const bool up_to_one = up_to_one_.count(x) > 0;  // and above 0, where exp's guard holds
    if (!up_to_one) guard(two(Micro::less, number(-1), x), two(Micro::less, x, number(Traits<T>::kLog1pHigh)));
    const int unit = number(1), u = add(x, unit);
    const int high = up_to_one ? unit : two(Micro::max_or_second, x, unit);
    const int low = up_to_one ? x : two(Micro::min_or_second, x, unit);
    const Split s = split<T>(u);
    const int error = sub(low, sub(u, high));
    const int down = one(Micro::shift_left,
                         two(Micro::int_sub, bits(static_cast<Bits<T>>(Traits<T>::kBias) + kOffset<T>), s.exponent),
                         Traits<T>::kMantissa);
    const int added = mul(error, down), f = add(s.fraction, added), lost = sub(added, sub(f, s.fraction));
    const int y = log_sum<T>(f, s.exponent, fnma(lost, f, lost));
    return up_to_one ? y : three(Micro::copy_sign, y, x, sign_bits());
  }

  template <class T>
  int log1p_unit(int x) {
    if (!up_to_one_.count(x)) guard(two(Micro::less_equal, number(0), x), two(Micro::less_equal, x, number(1)));
    if constexpr (sizeof(T) == 8) {
      up_to_one_.insert(x);
      return log1p<T>(x);
    }
    const int v = sub(x, number(0.5));
    std::size_t k = std::size(kLog1pUnitF32) - 1;
    int q = number(kLog1pUnitF32[k]);
    while (k > 0) q = fma(q, v, number(kLog1pUnitF32[--k]));
    return fma(mul(x, x), q, x);
  }

  const LoopProgram& p_;
  LoopCode code_;
  std::vector<int> value_of_;                 // of the program -> of the code
  std::set<int> never_positive_, up_to_one_;  // -|x|, and e to that
  std::map<int, int> magnitude_of_;           // |x| -> x
  std::map<int, int> upper_half_;             // of values that are bf16: what they were computed from
  std::map<std::tuple<LoopCode::Source, int, std::uint64_t, Micro, std::array<int, 3>, int, bool>, int> made_;
  bool wide_ = p_.wide;  // type being computed
};

}  // namespace

LoopCode lower(const LoopProgram& program) { return Lowering(program).run(); }

// Queries the lowering itself: a list of supported operations would have to be kept in step.
bool has_native_form(Op op, bool wide) {
  static const auto forms = [] {
    std::array<std::array<bool, kOpCount>, 2> known{};
    for (const bool w : {false, true}) {
      LoopProgram none;
      none.wide = w;
      for (int k = 0; k < kOpCount; ++k)
        known[w][static_cast<std::size_t>(k)] = Lowering(none).has_form(static_cast<Op>(k));
    }
    return known;
  }();
  return forms[wide][static_cast<std::size_t>(op)];
}

}  // namespace ebb::cpu
