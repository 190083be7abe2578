// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "cpu/jit/loop.h"

// A loop in terms of vector instructions: lower.cc makes them from operations, loop.cc assembles them.
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
  shift_right,         // zeros are shifted in
  shift_right_signed,  // copies of the sign are shifted in
  to_float,            // from an integer
  round_to_f16,
  widen_lower,  // f64 of the lower half of the f32, and of the upper half: x86 only
  widen_upper,
  // of a and b
  add,
  sub,
  mul,
  div,
  maximum,  // IEEE's
  minimum,
  max_or_second,  // if one is NaN: b on some processors, NaN on others; for numbers, and NaN in b
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
  narrow,  // f32 of the f64 in a, and in b as the upper half: x86 only
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
    bool wide = false;  // f64: all values of a wide loop, and those that a narrow one computes on half vectors
    bool fixed() const { return source == Source::number || source == Source::constant; }
  };

  bool wide = false;
  std::vector<Value> values;
  std::vector<LoopProgram::Store> stores;
  std::vector<int> sums, guards;
  std::vector<int> ordinary;  // masks: unset where a function got an argument outside of its range
};

LoopCode lower(const LoopProgram& program);

// Instruction sets that loops can use.
enum class LoopTarget : std::uint8_t { none, neon, avx2, avx512 };

// The machine code with this many vectors side by side; empty if registers do not suffice, or if this program was built
// for other processors.
int vectors_in_a_group(LoopTarget target, bool wide);  // of kLoopGroup elements
std::vector<std::uint8_t> emit(const LoopCode& code, LoopTarget target, int side_by_side);
Rests rests_of(const LoopCode& code, LoopTarget target, int side_by_side);

}  // namespace ebb::cpu
