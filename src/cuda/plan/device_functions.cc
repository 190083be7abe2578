// SPDX-License-Identifier: MIT
#include "cuda/plan/device_functions.h"

namespace ebb::cuda {

const char* halves_function(Op op) {
  switch (op) {
    case Op::add:
      return "sum_of";
    case Op::sub:
      return "difference_of";
    case Op::mul:
    case Op::square:
      return "product_of";
    case Op::neg:
      return "negative_of";
    case Op::abs:
      return "size_of";
    case Op::maximum:
      return "larger_of";
    default:
      return nullptr;
  }
}

const char* quick_function(Op op) {
  switch (op) {
    case Op::exp:
      return "quick_exp";
    case Op::exp2:
      return "power_of_two";
    case Op::expm1:
      return "quick_expm1";
    case Op::log:
      return "quick_log";
    case Op::log2:
      return "quick_log2";
    case Op::log1p:
    case Op::log1p_unit:
      return "quick_log1p";
    case Op::tanh:
      return "quick_tanh";
    case Op::sinh:
      return "quick_sinh";
    case Op::cosh:
      return "quick_cosh";
    case Op::erf:
      return "quick_erf";
    case Op::erfc:
      return "quick_erfc";
    case Op::sqrt:
      return "quick_sqrt";
    case Op::rsqrt:
      return "quick_rsqrt";
    case Op::div:
      return "quick_quotient";
    case Op::pow:
      return "quick_power";
    case Op::reciprocal:
      return "quick_reciprocal";
    default:
      return nullptr;
  }
}

}  // namespace ebb::cuda
