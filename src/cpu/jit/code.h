// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "cpu/jit/loop.h"

// A loop in terms of vector instructions: what lower.cc makes of operations and loop.cc of instructions.
namespace ebb::cpu {

enum class Micro : std::uint8_t {
  // of a
  move,
  negate,
  absolute,
  root,
  floor,
  ceil,
  nearest,
  trunc,
  bit_not,
  shift_left,          // by `immediate` bits, in integers as wide as the numbers
  shift_right,         // zeros come in
  shift_right_signed,  // copies of the sign come in
  to_float,            // from an integer
  round_to_f16,
  widen_lower,  // f64 of the lower half of the f32, and of the upper half: x86 alone
  widen_upper,
  // of a and b
  add,
  sub,
  mul,
  div,
  maximum,  // IEEE's
  minimum,
  max_or_second,  // b where one of them is NaN on some processors, NaN on others: for numbers, and NaN in b
  min_or_second,
  equal,
  less,
  less_equal,
  abs_less,  // |a| < |b|
  bit_and,
  bit_or,
  bit_xor,
  int_add,
  int_sub,
  narrow,  // f32 of the f64 in a, and in b as the upper half: x86 alone
  // of a, b and c
  fma,        // a·b + c, rounded once
  fnma,       // c − a·b, rounded once
  select,     // b where mask a is set, c elsewhere
  copy_sign,  // |a| with the sign of b; c must be the sign bits
};

struct LoopCode {
  enum class Source : std::uint8_t {
    tile,
    number,
    constant,
    result,
  };
  struct Value {
    Source source = Source::result;
    int pointer = -1;  // tile, number
    Stored stored = Stored::as_computed;
    std::uint64_t bits = 0;  // constant
    Micro op = Micro::move;
    std::array<int, 3> arg{-1, -1, -1};
    int immediate = 0;
    bool wide = false;  // f64: all values of a wide loop, and what a narrow one computes of halves of its vectors
    bool fixed() const { return source == Source::number || source == Source::constant; }
  };

  bool wide = false;
  std::vector<Value> values;
  std::vector<LoopProgram::Store> stores;
  std::vector<int> sums, guards;
  std::vector<int> ordinary;  // masks: where one is not set, a function was not made for what it got
};

LoopCode lower(const LoopProgram& program);

// The instructions that loops are made of.
enum class LoopTarget : std::uint8_t { none, neon, avx2, avx512 };

// The machine code with this many vectors side by side; empty where registers do not suffice, or where this program was
// built for other processors.
int vectors_in_a_group(LoopTarget target, bool wide);  // of kLoopGroup elements
std::vector<std::uint8_t> emit(const LoopCode& code, LoopTarget target, int side_by_side);

}  // namespace ebb::cpu
