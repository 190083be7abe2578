// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cpu/jit/code.h"
#include "cpu/jit/x86_loop.h"

// The same instructions for x86-64 with AVX2 and FMA, on whole 256-bit registers.
namespace ebb::cpu {

class Avx2Assembler : public X86Loop {
 public:
  static constexpr int kVectorBytes = 32;
  static constexpr int kVectorRegisters = 16;
  static constexpr bool kGuardsInMask = false;
  // There are no masked accesses to halves.
  static constexpr Rests kRests = Rests::by_vectors, kRestsOfHalves = Rests::by_steps;
  static constexpr int kRestVectors = 8;
  static constexpr bool kRestsNeedSpare = true;

  explicit Avx2Assembler(bool wide) : wide_(wide) {}
  void set_wide(bool wide) { wide_ = wide; }  // of the next instructions
  void begin(int frame) { begin_frame(frame * kVectorBytes); }

  // ---- elements behind the last turn ----
  void start_rest(int) { X86Loop::start_rest(); }
  // Vector of the turn whose elements the following accesses to tiles, sums and guards are limited to; -1: all.
  void only(int j) { rest_ = j; }

  // ---- memory ----
  void load(int v, int p, int offset) {
    if (rest_ < 0) return memory(0x10, v, kPointers[p], offset);
    load_mask(v);
    masked(0x2C, v, v, kPointers[p], offset);  // vmaskmovps
  }
  void store(int v, int p, int offset, int spare) {
    if (rest_ < 0) return memory(0x11, v, kPointers[p], offset);
    load_mask(spare);
    masked(0x2E, v, spare, kPointers[p], offset);
  }
  // Halves: `offset` is that of the f32 they stand for.
  void load_half(int v, int p, int offset, Stored kind) {
    halves(k0F38, kind == Stored::bf16 ? 0x33 : 0x13, v, kPointers[p], offset / 2);  // vpmovzxwd, vcvtph2ps
    if (kind == Stored::bf16) shift(v, v, 6, 16);
  }
  void store_half(int v, int p, int offset, Stored kind, int spare) {
    if (kind == Stored::f16) {
      halves(k0F3A, 0x1D, v, kPointers[p], offset / 2);  // vcvtps2ph, to nearest
      byte(0);
      return;
    }
    shift(spare, v, 2, 16);
    registers(k0F38, true, false, 0x2B, spare, spare, spare);  // vpackusdw: within each half of the register
    registers(k0F3A, true, true, 0x00, spare, 0, spare);       // vpermq: the halves' first quarters together
    byte(0x08);
    prefix(kFloat, true, false, spare, 0, kPointers[p], false);  // vmovupd xmm
    indexed(0x11, spare, kPointers[p], offset / 2, 0);
  }
  void store_guard(int v, int offset) { store_state(v, offset); }
  void load_state(int v, int offset) { plain(kFloat, wide_, 0x10, v, kState, offset); }
  void store_state(int v, int offset) { plain(kFloat, wide_, 0x11, v, kState, offset); }
  void store_frame(int v, int slot) { in_frame(0x11, v, slot); }
  void load_frame(int v, int slot) { in_frame(0x10, v, slot); }
  void repeat(int v, int entry) {
    from_table(kScratch, entry);
    plain(k0F38, true, wide_ ? 0x19 : 0x18, v, kScratch, 0);  // vbroadcastss, vbroadcastsd
  }
  void constant(int v, std::uint64_t bits) {
    bits_to_scratch(bits);
    byte(0xC4);  // vmovq xmm, rax: 128 bits, unlike all others here
    byte(static_cast<std::uint8_t>((v < 8 ? 0x80 : 0) | 0x60 | kFloat));
    bytes({0xF9, 0x6E, 0xC0 | (v & 7) << 3});
    registers(k0F38, true, false, wide_ ? 0x59 : 0x58, v, 0, v);  // vpbroadcastq, vpbroadcastd
  }

  // ---- instructions ----
  // Whether d may be a register that the operation reads: not if it takes several instructions.
  static bool may_overwrite(Micro op) {
    return op != Micro::maximum && op != Micro::minimum && op != Micro::abs_less && op != Micro::absolute &&
           op != Micro::negate && op != Micro::bit_not && op != Micro::narrow;
  }
  // Whether it needs a spare register.
  static bool needs_spare(Micro op) {
    return op == Micro::maximum || op == Micro::minimum || op == Micro::abs_less || op == Micro::copy_sign ||
           op == Micro::narrow;
  }

  void run(Micro op, int d, int a, int b, int immediate, int spare) {
    if (run_alike(*this, op, d, a, b, immediate)) return;
    switch (op) {
      case Micro::negate:
        sign_bits(d);
        return floats(0x57, d, d, a);  // vxorps
      case Micro::absolute:
        sign_bits(d);
        return floats(0x55, d, d, a);  // vandnps
      case Micro::bit_not:
        all_ones(d);
        return floats(0x57, d, d, a);
      case Micro::to_float:  // vcvtdq2ps
        return registers(kFloat, false, false, 0x5B, d, 0, a);
      case Micro::round_to_f16:
        registers(k0F3A, true, false, 0x1D, a, 0, d);  // vcvtps2ph
        byte(0);
        return registers(k0F38, true, false, 0x13, d, 0, d);  // vcvtph2ps
      case Micro::widen_lower:
        return registers(kFloat, false, false, 0x5A, d, 0, a);  // vcvtps2pd
      case Micro::widen_upper:
        registers(k0F3A, true, false, 0x19, a, 0, d);  // vextractf128
        byte(1);
        return registers(kFloat, false, false, 0x5A, d, 0, d);
      case Micro::narrow:
        registers(kFloat, true, false, 0x5A, d, 0, a);  // vcvtpd2ps
        registers(kFloat, true, false, 0x5A, spare, 0, b);
        registers(k0F3A, true, false, 0x18, d, d, spare);  // vinsertf128
        return byte(1);
      // vmaxps and vminps return their second operand where there is no order: of zeros with different signs the two
      // orders combined give the right one, and NaN is inserted where there is one.
      case Micro::maximum:
        return beyond(0x5F, 0x54, d, a, b, spare);
      case Micro::minimum:
        return beyond(0x5D, 0x56, d, a, b, spare);
      case Micro::equal:
        return compare(0x00, d, a, b);
      case Micro::less:
        return compare(0x11, d, a, b);
      case Micro::less_equal:
        return compare(0x12, d, a, b);
      case Micro::abs_less:
        sign_bits(spare);
        floats(0x55, d, spare, a);
        floats(0x55, spare, spare, b);
        return compare(0x11, d, d, spare);
      case Micro::bit_and:
        return floats(0x54, d, a, b);
      case Micro::bit_or:
        return floats(0x56, d, a, b);
      case Micro::bit_xor:
        return floats(0x57, d, a, b);
      case Micro::int_add:
        return registers(kFloat, true, false, wide_ ? 0xD4 : 0xFE, d, a, b);
      case Micro::int_sub:
        return registers(kFloat, true, false, wide_ ? 0xFB : 0xFA, d, a, b);
      default:
        return;  // of three operands: below
    }
  }
  // d = d + a·b or d − a·b, rounded once
  void fma(int d, int a, int b) { registers(k0F38, true, wide_, 0xB8, d, a, b); }   // vfmadd231ps
  void fnma(int d, int a, int b) { registers(k0F38, true, wide_, 0xBC, d, a, b); }  // vfnmadd231ps
  void select(int d, int mask, int a, int b) {
    registers(k0F3A, true, false, wide_ ? 0x4B : 0x4A, d, b, a);  // vblendvps
    byte(static_cast<std::uint8_t>(mask << 4));
  }
  // Gives d the sign bits of a.
  void copy_sign(int d, int a, int sign_bits, int spare) {
    floats(0x54, spare, sign_bits, a);
    floats(0x55, d, sign_bits, d);
    floats(0x56, d, d, spare);
  }

  void move(int d, int a) {
    if (d != a) floats(0x28, d, 0, a);  // vmovaps
  }
  // Other lanes are added zeros, which change no bit: no sum is -0.
  void accumulate(int sum, int a, int spare) {
    if (rest_ >= 0) {
      load_mask(spare);
      floats(0x54, spare, spare, a);
      a = spare;
    }
    floats(0x58, sum, sum, a);
  }
  void hold(int guard, int a, int spare) {
    if (rest_ < 0) return floats(0x54, guard, guard, a);
    load_mask(spare);
    floats(0x55, spare, a, spare);      // where it does not hold
    floats(0x55, guard, spare, guard);  // vandnps
  }
  void all_ones(int d) { registers(kFloat, true, false, 0x76, d, d, d); }  // vpcmpeqd

 private:
  template <class A>
  friend bool run_alike(A& to, Micro op, int d, int a, int b, int immediate);

  static constexpr int kFloat = 1, k0F38 = 2, k0F3A = 3;  // opcode maps

  // The three-byte VEX prefix: 256 bits, `second` is the extra source (0: none).
  void prefix(int map, bool operand_size, bool w, int reg, int second, int base, bool whole = true) {
    byte(0xC4);
    byte(static_cast<std::uint8_t>((reg < 8 ? 0x80 : 0) | 0x40 | (base < 8 ? 0x20 : 0) | map));
    byte(static_cast<std::uint8_t>((w ? 0x80 : 0) | (~second & 15) << 3 | (whole ? 4 : 0) | (operand_size ? 1 : 0)));
  }
  void registers(int map, bool operand_size, bool w, int opcode, int d, int a, int b) {
    prefix(map, operand_size, w, d, a, b);
    bytes({opcode, 0xC0 | (d & 7) << 3 | (b & 7)});
  }
  void floats(int opcode, int d, int a, int b) { registers(kFloat, wide_, false, opcode, d, a, b); }
  void beyond(int opcode, int combine, int d, int a, int b, int spare) {
    floats(opcode, d, a, b);
    floats(opcode, spare, b, a);
    floats(combine, d, d, spare);
    compare(0x03, spare, a, b);  // no order: all ones, a NaN
    floats(0x56, d, d, spare);
  }
  void compare(int how, int d, int a, int b) {
    floats(0xC2, d, a, b);
    byte(static_cast<std::uint8_t>(how));
  }
  void memory(int opcode, int v, int base, int offset) {  // [base + 2·rax + offset]
    prefix(kFloat, wide_, false, v, 0, base);
    indexed(opcode, v, base, offset, 1);
  }
  void halves(int map, int opcode, int v, int base, int offset) {  // [base + rax + offset]
    prefix(map, true, false, v, 0, base);
    indexed(opcode, v, base, offset, 0);
  }
  void plain(int map, bool operand_size, int opcode, int v, int base, int offset) {  // [base + offset]
    prefix(map, operand_size, false, v, 0, base);
    based(opcode, v, base, offset);
  }
  void load_mask(int v) { plain(kFloat, wide_, 0x10, v, kMasks, rest_ * kVectorBytes); }
  void masked(int opcode, int v, int mask, int base, int offset) {
    prefix(k0F38, true, false, v, mask, base);
    indexed(wide_ ? opcode + 1 : opcode, v, base, offset, 1);
  }
  void in_frame(int opcode, int v, int slot) {  // [rsp + offset]
    prefix(kFloat, wide_, false, v, 0, kStack);
    on_stack(opcode, v, std::int64_t{slot} * kVectorBytes);
  }
  void round(int d, int a, int how) {
    registers(k0F3A, true, false, wide_ ? 0x09 : 0x08, d, 0, a);
    byte(static_cast<std::uint8_t>(how));
  }
  void shift(int d, int a, int how, int count) {  // vpslld, vpsrld, vpsrad and the 64-bit forms
    prefix(kFloat, true, false, 0, d, a);
    bytes({wide_ ? 0x73 : 0x72, 0xC0 | how << 3 | (a & 7), count});
  }
  void sign_bits(int d) {
    all_ones(d);
    shift(d, d, 6, wide_ ? 63 : 31);
  }

  bool wide_;
  int rest_ = -1;
};

}  // namespace ebb::cpu
