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

// Functions of CUDA's mathematics that are called as the operation; f32 has the suffix f.
const char* function_of(Op op) {
  switch (op) {
    case Op::abs:
      return "fabs";
    case Op::round:
      return "rint";
    case Op::log1p_unit:  // with a polynomial of its own sigmoid_focal_loss of bf16 took 128 µs on an H200 instead of
                          // 124
      return "log1p";
    case Op::exp:
    case Op::exp2:
    case Op::expm1:
    case Op::log:
    case Op::log2:
    case Op::log10:
    case Op::log1p:
    case Op::sqrt:
    case Op::cbrt:
    case Op::sin:
    case Op::cos:
    case Op::tan:
    case Op::asin:
    case Op::acos:
    case Op::atan:
    case Op::sinh:
    case Op::cosh:
    case Op::tanh:
    case Op::asinh:
    case Op::acosh:
    case Op::atanh:
    case Op::erf:
    case Op::erfc:
    case Op::erfcx:
    case Op::lgamma:
    case Op::floor:
    case Op::ceil:
    case Op::trunc:
    case Op::atan2:
    case Op::hypot:
    case Op::fma:
      return info(op).name.data();
    default:
      return nullptr;
  }
}

const char* comparison_of(Op op) {
  switch (op) {
    case Op::eq:
      return "==";
    case Op::ne:
      return "!=";
    case Op::lt:
      return "<";
    case Op::le:
      return "<=";
    case Op::gt:
      return ">";
    case Op::ge:
      return ">=";
    default:
      return nullptr;
  }
}

std::string real_text(Op op, RegType type, const std::string& a, const std::string& b, const std::string& c) {
  const char* const t = type_text(type);
  if (const char* name = function_of(op)) {
    const char* const suffix = type == RegType::f32 ? "f" : "";
    return info(op).arity == 1   ? fmt::format("{}{}({})", name, suffix, a)
           : info(op).arity == 2 ? fmt::format("{}{}({}, {})", name, suffix, a, b)
                                 : fmt::format("{}{}({}, {}, {})", name, suffix, a, b, c);
  }
  switch (op) {
    case Op::neg:
      return fmt::format("-{}", a);
    case Op::reciprocal:
      return fmt::format("({})1 / {}", t, a);
    case Op::square:
      return fmt::format("{0} * {0}", a);
    case Op::sign:
      return fmt::format("sign({})", a);
    case Op::rsqrt:
      return fmt::format("({})1 / sqrt{}({})", t, type == RegType::f32 ? "f" : "", a);
    case Op::digamma:
      return fmt::format("({})digamma({})", t, a);
    case Op::polygamma:
      return fmt::format("({})polygamma({}, {})", t, a, b);
    case Op::isnan:
      return fmt::format("{0} != {0}", a);
    case Op::isinf:
      return fmt::format("is_inf({})", a);
    case Op::isfinite:
      return fmt::format("is_finite({})", a);
    case Op::add:
      return fmt::format("{} + {}", a, b);
    case Op::sub:
      return fmt::format("{} - {}", a, b);
    case Op::mul:
      return fmt::format("{} * {}", a, b);
    case Op::div:
      return fmt::format("{} / {}", a, b);
    case Op::pow:
      return fmt::format("power({}, {})", a, b);
    case Op::floor_divide:
      return fmt::format("floor_quotient({}, {})", a, b);
    case Op::remainder:
      return fmt::format("floor_remainder({}, {})", a, b);
    case Op::maximum:
      return fmt::format("larger({}, {})", a, b);
    case Op::minimum:
      return fmt::format("smaller({}, {})", a, b);
    default:
      fail(Error::Kind::value, "internal: {} has no meaning on floats in a sweep", info(op).name);
  }
}

std::string integer_text(Op op, RegType type, const std::string& a, const std::string& b, const std::string& c) {
  const char* const t = type_text(type);
  switch (op) {
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc:
      return a;
    case Op::neg:
      return fmt::format("difference(({})0, {})", t, a);
    case Op::square:
      return fmt::format("product({0}, {0})", a);
    case Op::abs:
      return fmt::format("({0} < 0 ? difference(({1})0, {0}) : {0})", a, t);
    case Op::sign:
      return fmt::format("({0})(({1} > 0) - ({1} < 0))", t, a);
    case Op::add:
      return fmt::format("sum({}, {})", a, b);
    case Op::sub:
      return fmt::format("difference({}, {})", a, b);
    case Op::mul:
      return fmt::format("product({}, {})", a, b);
    case Op::fma:
      return fmt::format("sum(product({}, {}), {})", a, b, c);
    case Op::floor_divide:
      return fmt::format("integer_quotient({}, {})", a, b);
    case Op::remainder:
      return fmt::format("integer_remainder({}, {})", a, b);
    case Op::pow:
      return fmt::format("integer_power({}, {})", a, b);
    case Op::maximum:
      return fmt::format("({0} > {1} ? {0} : {1})", a, b);
    case Op::minimum:
      return fmt::format("({0} < {1} ? {0} : {1})", a, b);
    case Op::logical_not:
      return fmt::format("!{}", a);
    case Op::logical_and:
      return fmt::format("{} && {}", a, b);
    case Op::logical_or:
      return fmt::format("{} || {}", a, b);
    case Op::logical_xor:
      return fmt::format("!{} != !{}", a, b);
    default:
      fail(Error::Kind::value, "internal: {} has no meaning on integers in a sweep", info(op).name);
  }
}

}  // namespace

std::string computed(Op op, RegType type, const std::string& a, const std::string& b, const std::string& c) {
  if (op == Op::copy || op == Op::check) return a;
  if (op == Op::where) return fmt::format("{} ? {} : {}", a, b, c);
  if (const char* sign = comparison_of(op)) return fmt::format("{} {} {}", a, sign, b);
  return is_real(type) ? real_text(op, type, a, b, c) : integer_text(op, type, a, b, c);
}

}  // namespace ebb::cuda
