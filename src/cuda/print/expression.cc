// SPDX-License-Identifier: MIT
#include "cuda/print/expression.h"

#include <fmt/format.h>

#include "core/format_error.h"

namespace ebb::cuda {

const char* type_text(RegType t) {
  static constexpr const char* kNames[] = {"f32", "f64", "i32", "i64", "bool", "bool"};
  return kNames[static_cast<int>(t)];
}

const char* memory_text(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "f64";
    case DType::f32:
      return "f32";
    case DType::f16:
    case DType::bf16:
      return "u16";
    case DType::i64:
      return "i64";
    case DType::i32:
      return "i32";
    default:
      return "u8";
  }
}

const char* wide_text(RegType t) { return is_real(t) ? "f64" : "i64"; }

const char* reduction_text(Op op) {
  return op == Op::sum ? "Plus" : op == Op::prod ? "Times" : op == Op::max ? "Most" : "Least";
}

std::string converted(const std::string& x, RegType from, RegType to) {
  if (is_mask(to)) return is_mask(from) ? x : fmt::format("({} != 0)", x);
  if (from == to) return x;
  if (is_real(from) && !is_real(to)) return fmt::format("to_{}({})", type_text(to), x);
  return fmt::format("({})({})", type_text(to), x);
}

std::string loaded(const std::string& element, DType dtype, RegType type) {
  const std::string x = dtype == DType::f16     ? fmt::format("from_f16({})", element)
                        : dtype == DType::bf16  ? fmt::format("from_bf16({})", element)
                        : dtype == DType::bool_ ? fmt::format("({} != 0)", element)
                                                : element;
  return converted(x, reg_type(dtype), type);
}

std::string stored(const std::string& x, RegType type, DType dtype) {
  switch (dtype) {
    case DType::f16:
    case DType::bf16:
      return fmt::format("to_{}({})", dtype == DType::f16 ? "f16" : "bf16", converted(x, type, RegType::f32));
    case DType::u8:
      return fmt::format("(u8)({})", converted(x, type, RegType::i32));
    case DType::bool_:
      return fmt::format("(u8)({})", converted(x, type, RegType::m32));
    default:
      return converted(x, type, reg_type(dtype));
  }
}

std::string rounded(const std::string& x, DType dtype) {
  switch (dtype) {
    case DType::f16:
      return fmt::format("from_f16(to_f16({}))", x);
    case DType::bf16:
      return fmt::format("from_bf16(to_bf16({}))", x);
    case DType::u8:
      return fmt::format("({} & 255)", x);
    default:
      return x;
  }
}

namespace {

// CUDA's expression of an operation: $a, $b and $c are its inputs, $t the type, $f the suffix of functions of f32.
constexpr const char* text_for_any(Op op) {
  switch (op) {
    case Op::copy:
      return "$a";
    case Op::check:
      return "$a";
    case Op::where:
      return "$a ? $b : $c";
    case Op::eq:
      return "$a == $b";
    case Op::ne:
      return "$a != $b";
    case Op::lt:
      return "$a < $b";
    case Op::le:
      return "$a <= $b";
    case Op::gt:
      return "$a > $b";
    case Op::ge:
      return "$a >= $b";
    default:
      return nullptr;
  }
}

constexpr const char* text_for_reals(Op op) {
  switch (op) {
    case Op::log1p_unit:  // with a polynomial of its own sigmoid_focal_loss of bf16 took 128 µs on an H200 instead of
                          // 124
      return "log1p$f($a)";
    case Op::abs:
      return "fabs$f($a)";
    case Op::round:
      return "rint$f($a)";
    case Op::exp:
      return "exp$f($a)";
    case Op::exp2:
      return "exp2$f($a)";
    case Op::expm1:
      return "expm1$f($a)";
    case Op::log:
      return "log$f($a)";
    case Op::log2:
      return "log2$f($a)";
    case Op::log10:
      return "log10$f($a)";
    case Op::log1p:
      return "log1p$f($a)";
    case Op::sqrt:
      return "sqrt$f($a)";
    case Op::cbrt:
      return "cbrt$f($a)";
    case Op::sin:
      return "sin$f($a)";
    case Op::cos:
      return "cos$f($a)";
    case Op::tan:
      return "tan$f($a)";
    case Op::asin:
      return "asin$f($a)";
    case Op::acos:
      return "acos$f($a)";
    case Op::atan:
      return "atan$f($a)";
    case Op::sinh:
      return "sinh$f($a)";
    case Op::cosh:
      return "cosh$f($a)";
    case Op::tanh:
      return "tanh$f($a)";
    case Op::asinh:
      return "asinh$f($a)";
    case Op::acosh:
      return "acosh$f($a)";
    case Op::atanh:
      return "atanh$f($a)";
    case Op::erf:
      return "erf$f($a)";
    case Op::erfc:
      return "erfc$f($a)";
    case Op::erfcx:
      return "erfcx$f($a)";
    case Op::lgamma:
      return "lgamma$f($a)";
    case Op::floor:
      return "floor$f($a)";
    case Op::ceil:
      return "ceil$f($a)";
    case Op::trunc:
      return "trunc$f($a)";
    case Op::atan2:
      return "atan2$f($a, $b)";
    case Op::hypot:
      return "hypot$f($a, $b)";
    case Op::fma:
      return "fma$f($a, $b, $c)";
    case Op::neg:
      return "-$a";
    case Op::reciprocal:
      return "($t)1 / $a";
    case Op::square:
      return "$a * $a";
    case Op::sign:
      return "sign($a)";
    case Op::rsqrt:
      return "($t)1 / sqrt$f($a)";
    case Op::digamma:
      return "($t)digamma($a)";
    case Op::polygamma:
      return "($t)polygamma($a, $b)";
    case Op::isnan:
      return "$a != $a";
    case Op::isinf:
      return "is_inf($a)";
    case Op::isfinite:
      return "is_finite($a)";
    case Op::add:
      return "$a + $b";
    case Op::sub:
      return "$a - $b";
    case Op::mul:
      return "$a * $b";
    case Op::div:
      return "$a / $b";
    case Op::pow:
      return "power($a, $b)";
    case Op::floor_divide:
      return "floor_quotient($a, $b)";
    case Op::remainder:
      return "floor_remainder($a, $b)";
    case Op::maximum:
      return "larger($a, $b)";
    case Op::minimum:
      return "smaller($a, $b)";
    default:
      return text_for_any(op);
  }
}

constexpr const char* text_for_integers(Op op) {
  switch (op) {
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc:
      return "$a";
    case Op::neg:
      return "difference(($t)0, $a)";
    case Op::square:
      return "product($a, $a)";
    case Op::abs:
      return "($a < 0 ? difference(($t)0, $a) : $a)";
    case Op::sign:
      return "($t)(($a > 0) - ($a < 0))";
    case Op::add:
      return "sum($a, $b)";
    case Op::sub:
      return "difference($a, $b)";
    case Op::mul:
      return "product($a, $b)";
    case Op::fma:
      return "sum(product($a, $b), $c)";
    case Op::floor_divide:
      return "integer_quotient($a, $b)";
    case Op::remainder:
      return "integer_remainder($a, $b)";
    case Op::pow:
      return "integer_power($a, $b)";
    case Op::maximum:
      return "($a > $b ? $a : $b)";
    case Op::minimum:
      return "($a < $b ? $a : $b)";
    case Op::bitwise_and:
      return "$a & $b";
    case Op::bitwise_or:
      return "$a | $b";
    case Op::bitwise_xor:
      return "$a ^ $b";
    case Op::bitwise_left_shift:
      return "left_shift($a, $b)";
    case Op::bitwise_right_shift:
      return "right_shift($a, $b)";
    case Op::logical_not:
      return "!$a";
    case Op::logical_and:
      return "$a && $b";
    case Op::logical_or:
      return "$a || $b";
    case Op::logical_xor:
      return "!$a != !$b";
    default:
      return text_for_any(op);
  }
}

// A cast has an instruction kind of its own.
constexpr bool every_operation_has_a_text() {
  for (int k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<Op>(k);
    const OpInfo& row = kOpTable[k];
    if (row.cls != OpClass::elementwise || op == Op::cast) continue;
    if (row.domain != OpDomain::truth && row.domain != OpDomain::bits && !text_for_reals(op)) return false;
    if (row.domain != OpDomain::real && row.domain != OpDomain::inner && !text_for_integers(op)) return false;
  }
  return true;
}
static_assert(every_operation_has_a_text(),
              "an elementwise operation of the op table has no CUDA expression: add it to text_for_reals or "
              "text_for_integers");

}  // namespace

std::string computed(Op op, RegType type, const std::string& a, const std::string& b, const std::string& c) {
  const char* text = is_real(type) ? text_for_reals(op) : text_for_integers(op);
  require(text != nullptr, "internal: {} has no meaning on {} in a sweep", info(op).name,
          is_real(type) ? "floats" : "integers");
  std::string out;
  for (; *text; ++text) {
    if (*text != '$') {
      out += *text;
      continue;
    }
    switch (*++text) {
      case 'a':
        out += a;
        break;
      case 'b':
        out += b;
        break;
      case 'c':
        out += c;
        break;
      case 't':
        out += type_text(type);
        break;
      default:
        out += type == RegType::f32 ? "f" : "";
    }
  }
  return out;
}

}  // namespace ebb::cuda
