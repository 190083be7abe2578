// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cpu/jit/code.h"
#include "cpu/jit/x86_loop.h"

// The same instructions for AVX-512 (F, BW, DQ, VL), on whole 512-bit registers, of which there are 32. Masks are
// vectors of all ones and zeros as elsewhere: comparisons produce them through k1. Operations that take several
// instructions with AVX2 (select, sign bits, not) are one vpternlog table each.
namespace ebb::cpu {

class Avx512Assembler : public X86Loop {
 public:
  static constexpr int kVectorBytes = 64;
  static constexpr int kVectorRegisters = 32;
  static constexpr bool kGuardsInMask = true;
  static constexpr Rests kRests = Rests::by_bits, kRestsOfHalves = Rests::by_bits;
  static constexpr int kRestVectors = 4;  // of a turn at most: mask registers
  static constexpr bool kRestsNeedSpare = false;

  explicit Avx512Assembler(bool wide) : wide_(wide) {}
  void set_wide(bool wide) { wide_ = wide; }  // of the next instructions
  void begin(int frame) {
    last_slot_ = frame;  // one more, for guards
    begin_frame((frame + 1) * kVectorBytes);
  }

  // ---- elements behind the last turn ----
  // Masks of the vectors of a turn, in k3 and the following.
  void start_rest(int vectors) {
    X86Loop::start_rest();
    for (int j = 0; j < vectors; ++j) {
      bytes({0xC4, 0xC1, wide_ ? 0x79 : 0x78, 0x90, 0x80 | (kRest + j) << 3 | (kMasks & 7)});  // kmovw, kmovb
      distance(j * (wide_ ? 1 : 2));
    }
  }
  // Vector of the turn whose elements the following accesses to tiles, sums and guards are limited to; -1: all.
  void only(int j) { mask_ = j < 0 ? 0 : kRest + j; }

  // ---- memory ----
  void load(int v, int p, int offset) { moved(0x10, v, kPointers[p], offset, mask_ != 0); }
  void store(int v, int p, int offset, int) { moved(0x11, v, kPointers[p], offset); }
  // Halves: `offset` is that of the f32 they stand for.
  void load_half(int v, int p, int offset, Stored kind) {
    halves(k66, k0F38, kind == Stored::bf16 ? 0x33 : 0x13, v, kPointers[p], offset / 2,
           mask_ != 0);  // vpmovzxwd, vcvtph2ps
    if (kind == Stored::bf16) shift(v, v, 6, 16);
  }
  void store_half(int v, int p, int offset, Stored kind, int spare) {
    if (kind == Stored::f16) {
      halves(k66, k0F3A, 0x1D, v, kPointers[p], offset / 2);  // vcvtps2ph, to nearest
      byte(0);
      return;
    }
    shift(spare, v, 2, 16);
    halves(kF3, k0F38, 0x33, spare, kPointers[p], offset / 2);  // vpmovdw
  }
  void load_state(int v, int offset) {
    prefix(k0F, pp(), wide_, v, 0, kState, false);
    based(0x10, v, kState, offset);
  }
  void store_state(int v, int offset) {
    prefix(k0F, pp(), wide_, v, 0, kState, false);
    based(0x11, v, kState, offset);
  }
  // Both halves of the mask in one of kGuardBytes.
  void store_guard(int v, int offset) {
    store_frame(v, last_slot_);
    prefix(k0F, k66, false, v, v, kStack, false, k256);  // vpandd with the upper half
    on_stack(0xDB, v, std::int64_t{last_slot_} * kVectorBytes + kVectorBytes / 2);
    prefix(k0F, kNone, false, v, 0, kState, false, k256);  // vmovups
    based(0x11, v, kState, offset);
  }
  void store_frame(int v, int slot) { in_frame(0x11, v, slot); }
  void load_frame(int v, int slot) { in_frame(0x10, v, slot); }
  void repeat(int v, int entry) {
    from_table(kScratch, entry);
    prefix(k0F38, k66, wide_, v, 0, kScratch, false);
    based(wide_ ? 0x19 : 0x18, v, kScratch, 0);  // vbroadcastss, vbroadcastsd
  }
  void constant(int v, std::uint64_t bits) {
    bits_to_scratch(bits);
    registers(k0F38, k66, wide_, 0x7C, v, 0, kScratch);  // vpbroadcastd, vpbroadcastq
  }

  // ---- instructions ----
  // Whether d may be a register that the operation reads: not if it takes several instructions.
  static bool may_overwrite(Micro op) {
    return op != Micro::maximum && op != Micro::minimum && op != Micro::abs_less && op != Micro::negate &&
           op != Micro::narrow;
  }
  // Whether it needs a spare register.
  static bool needs_spare(Micro op) {
    return op == Micro::maximum || op == Micro::minimum || op == Micro::abs_less || op == Micro::narrow;
  }

  void run(Micro op, int d, int a, int b, int immediate, int spare) {
    if (run_alike(*this, op, d, a, b, immediate)) return;
    switch (op) {
      case Micro::negate:
        sign_bits(d);
        return logic(kXor, d, d, a);
      case Micro::absolute:
        return absolute(d, a);
      case Micro::bit_not:
        return ternary(d, a, a, 0x55);
      case Micro::to_float:  // vcvtdq2ps
        return registers(k0F, kNone, false, 0x5B, d, 0, a);
      case Micro::round_to_f16:
        registers(k0F3A, k66, false, 0x1D, a, 0, d);  // vcvtps2ph
        byte(0);
        return registers(k0F38, k66, false, 0x13, d, 0, d);  // vcvtph2ps
      case Micro::widen_lower:
        return registers(k0F, kNone, false, 0x5A, d, 0, a);  // vcvtps2pd
      case Micro::widen_upper:
        registers(k0F3A, k66, true, 0x1B, a, 0, d);  // vextractf64x4
        byte(1);
        return registers(k0F, kNone, false, 0x5A, d, 0, d);
      case Micro::narrow:
        registers(k0F, k66, true, 0x5A, d, 0, a);  // vcvtpd2ps
        registers(k0F, k66, true, 0x5A, spare, 0, b);
        registers(k0F3A, k66, true, 0x1A, d, d, spare);  // vinsertf64x4
        return byte(1);
      // vmaxps and vminps return their second operand where there is no order: of zeros with different signs the two
      // orders combined give the right one, and NaN is inserted where there is one.
      case Micro::maximum:
        return beyond(0x5F, kAnd, d, a, b, spare);
      case Micro::minimum:
        return beyond(0x5D, kOr, d, a, b, spare);
      case Micro::equal:
        return mask_of(kEqual, d, a, b);
      case Micro::less:
        return mask_of(kLess, d, a, b);
      case Micro::less_equal:
        return mask_of(kLessEqual, d, a, b);
      case Micro::abs_less:
        absolute(d, a);
        absolute(spare, b);
        return mask_of(kLess, d, d, spare);
      case Micro::bit_and:
        return logic(kAnd, d, a, b);
      case Micro::bit_or:
        return logic(kOr, d, a, b);
      case Micro::bit_xor:
        return logic(kXor, d, a, b);
      case Micro::int_add:
        return registers(k0F, k66, wide_, wide_ ? 0xD4 : 0xFE, d, a, b);
      case Micro::int_sub:
        return registers(k0F, k66, wide_, wide_ ? 0xFB : 0xFA, d, a, b);
      default:
        return;  // of three operands: below
    }
  }
  // d = d + a·b or d − a·b, rounded once
  void fma(int d, int a, int b) { registers(k0F38, k66, wide_, 0xB8, d, a, b); }   // vfmadd231ps
  void fnma(int d, int a, int b) { registers(k0F38, k66, wide_, 0xBC, d, a, b); }  // vfnmadd231ps
  void select(int d, int mask, int a, int b) {
    if (d == a) return ternary(d, mask, b, 0xE2);
    if (d == b) return ternary(d, mask, a, 0xB8);
    move(d, mask);
    ternary(d, a, b, 0xCA);
  }
  // Gives d the sign bits of a.
  void copy_sign(int d, int a, int sign_bits, int) { ternary(d, a, sign_bits, 0xD8); }

  // Comparisons that only guard the loop accumulate in k2: one instruction each.
  void start_guard() { bytes({0xC5, 0xEC, 0x46, 0xD2}); }  // kxnorw k2, k2, k2
  void guard(Micro op, int a, int b, int spare) {
    if (op == Micro::abs_less) {  // b is the end of a range, and positive
      absolute(spare, a);
      a = spare;
    }
    const int result = mask_ == 0 ? kGuard : kMask;
    registers(k0F, pp(), wide_, 0xC2, result, a, b, mask_ == 0 ? kGuard : mask_);
    byte(static_cast<std::uint8_t>(op == Micro::equal ? kEqual : op == Micro::less_equal ? kLessEqual : kLess));
    if (mask_ == 0) return;
    bytes({0xC5, 0xF4, 0x47, 0xC0 | kMask << 3 | mask_});    // kxorw k1, k1, mask: where it does not hold
    bytes({0xC5, 0xF4, 0x42, 0xC0 | kGuard << 3 | kGuard});  // kandnw k2, k1, k2
  }
  void apply_guard(int v) { registers(k0F, pp(), wide_, 0x28, v, 0, v, kGuard, true); }  // vmovaps, zeros elsewhere

  void move(int d, int a) {
    if (d != a) registers(k0F, kNone, false, 0x28, d, 0, a);  // vmovaps
  }
  void accumulate(int sum, int a, int) { registers(k0F, pp(), wide_, 0x58, sum, sum, a, mask_); }
  void hold(int guard, int a, int) { registers(k0F, k66, wide_, kAnd, guard, guard, a, mask_); }
  void all_ones(int d) { ternary(d, d, d, 0xFF); }

 private:
  template <class A>
  friend bool run_alike(A& to, Micro op, int d, int a, int b, int immediate);

  static constexpr int k0F = 1, k0F38 = 2, k0F3A = 3;                         // opcode maps
  static constexpr int kNone = 0, k66 = 1, kF3 = 2;                           // prefixes that are part of the opcode
  static constexpr int kAnd = 0xDB, kAndNot = 0xDF, kOr = 0xEB, kXor = 0xEF;  // vpandd and so on
  static constexpr int k256 = 1, k512 = 2;                                    // lengths
  static constexpr int kMask = 1, kGuard = 2, kRest = 3;                      // k1, k2, k3 and the following
  static constexpr int kEqual = 0x00, kLess = 0x11, kLessEqual = 0x12, kNoOrder = 0x03;

  int pp() const { return wide_ ? k66 : kNone; }
  // The EVEX prefix. `second` is the extra source (0: none); rm is a vector, or with `vector_rm` false a general
  // register that addresses memory, with an index below r8 if any.
  void prefix(int map, int opcode_prefix, bool w, int reg, int second, int rm, bool vector_rm, int length = k512,
              int mask = 0, bool zeroing = false) {
    const int x = vector_rm ? rm >> 4 & 1 : 0;
    byte(0x62);
    byte(static_cast<std::uint8_t>((reg & 8 ? 0 : 0x80) | (x ? 0 : 0x40) | (rm & 8 ? 0 : 0x20) | (reg & 16 ? 0 : 0x10) |
                                   map));
    byte(static_cast<std::uint8_t>((w ? 0x80 : 0) | (~second & 15) << 3 | 4 | opcode_prefix));
    byte(static_cast<std::uint8_t>((zeroing ? 0x80 : 0) | length << 5 | (second & 16 ? 0 : 8) | mask));
  }
  void registers(int map, int opcode_prefix, bool w, int opcode, int d, int a, int b, int mask = 0,
                 bool zeroing = false) {
    prefix(map, opcode_prefix, w, d, a, b, true, k512, mask, zeroing);
    bytes({opcode, 0xC0 | (d & 7) << 3 | (b & 7)});
  }
  void floats(int opcode, int d, int a, int b) { registers(k0F, pp(), wide_, opcode, d, a, b); }
  void logic(int opcode, int d, int a, int b) { registers(k0F, k66, false, opcode, d, a, b); }
  // Per bit table[4·d + 2·a + b]; with a mask only where that is set.
  void ternary(int d, int a, int b, int table, int mask = 0) {
    registers(k0F3A, k66, wide_, 0x25, d, a, b, mask);  // vpternlogd, vpternlogq
    byte(static_cast<std::uint8_t>(table));
  }
  void compare(int how, int a, int b) {  // to k1
    registers(k0F, pp(), wide_, 0xC2, kMask, a, b);
    byte(static_cast<std::uint8_t>(how));
  }
  void absolute(int d, int a) {  // vrangeps: the lesser of two equal values, without its sign
    registers(k0F3A, k66, wide_, 0x50, d, a, a);
    byte(0x08);
  }
  void mask_of(int how, int d, int a, int b) {
    compare(how, a, b);
    registers(k0F38, kF3, wide_, 0x38, d, 0, kMask);  // vpmovm2d, vpmovm2q
  }
  void beyond(int opcode, int combine, int d, int a, int b, int spare) {
    floats(opcode, d, a, b);
    floats(opcode, spare, b, a);
    compare(kNoOrder, a, b);
    logic(combine, d, d, spare);
    ternary(d, d, d, 0xFF, kMask);  // all ones, a NaN
  }
  void moved(int opcode, int v, int base, int offset, bool zeroing = false) {  // [base + 2·rax + offset]
    prefix(k0F, pp(), wide_, v, 0, base, false, k512, mask_, zeroing);
    indexed(opcode, v, base, offset, 1);
  }
  // [base + rax + offset]
  void halves(int opcode_prefix, int map, int opcode, int v, int base, int offset, bool zeroing = false) {
    prefix(map, opcode_prefix, false, v, 0, base, false, k512, mask_, zeroing);
    indexed(opcode, v, base, offset, 0);
  }
  void in_frame(int opcode, int v, int slot) {
    prefix(k0F, pp(), wide_, v, 0, kStack, false);
    on_stack(opcode, v, std::int64_t{slot} * kVectorBytes);
  }
  void round(int d, int a, int how) {  // vrndscaleps, vrndscalepd
    registers(k0F3A, k66, wide_, wide_ ? 0x09 : 0x08, d, 0, a);
    byte(static_cast<std::uint8_t>(how));
  }
  void shift(int d, int a, int how, int count) {  // vpslld, vpsrld, vpsrad and the 64-bit forms
    prefix(k0F, k66, wide_, 0, d, a, true);
    bytes({wide_ ? 0x73 : 0x72, 0xC0 | how << 3 | (a & 7), count});
  }
  void sign_bits(int d) {
    all_ones(d);
    shift(d, d, 6, wide_ ? 63 : 31);
  }

  bool wide_;
  int last_slot_ = 0;
  int mask_ = 0;
};

}  // namespace ebb::cpu
