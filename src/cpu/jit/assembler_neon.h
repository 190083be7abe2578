// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "cpu/jit/code.h"

// The vector instructions of aarch64 that loops of cheap operations consist of, on whole 128-bit registers of f32 or
// f64. Encodings: Arm Architecture Reference Manual, chapter C7.
//
// x0 is the table of pointers, x1 the groups of a block, x2 the state, x3 the blocks, x4 counts groups and is a scratch
// register before that; the loop's own pointers are x5-x17. v8-v15 are callee-saved. Below them on the stack is the
// frame: numbers for which there is no register.
namespace ebb::cpu {

class NeonAssembler {
 public:
  static constexpr int kVectorBytes = 16;
  static constexpr int kVectorRegisters = 32;
  static constexpr bool kGuardsInMask = false;
  static constexpr Rests kRests = Rests::by_steps, kRestsOfHalves = Rests::by_steps;  // no masked accesses to memory
  static constexpr int kRestVectors = 0;
  static constexpr bool kRestsNeedSpare = false;
  static constexpr int kPointerRegisters = 13;

  explicit NeonAssembler(bool wide) : wide_(wide) {}
  void set_wide(bool wide) { wide_ = wide; }  // of the next instructions
  std::vector<std::uint8_t> take() { return std::move(code_); }

  // ---- around the loop ----
  void begin(int frame) {
    word(0x6DBC27E8);  // stp d8, d9, [sp, #-64]!
    word(0x6D012FEA);  // stp d10, d11, [sp, #16]
    word(0x6D0237EC);  // stp d12, d13, [sp, #32]
    word(0x6D033FEE);  // stp d14, d15, [sp, #48]
    frame_ = static_cast<std::uint32_t>(frame) * 16;
    word(0xD10003FF | frame_ << 10);  // sub sp, sp, #frame
  }
  void pointer(int p, int entry) { word(0xF9400000 | entry << 10 | 0 << 5 | general(p)); }  // ldr x, [x0, #8·entry]
  void start_block() { block_ = code_.size(); }
  void start_loop() {
    word(0xAA0103E4);  // mov x4, x1
    skip_ = code_.size();
    word(0);  // cbz x4, past the loop
    loop_ = code_.size();
  }
  // Pointers advance by a turn's bytes, those to halves by half of that.
  void end_loop(const std::vector<bool>& to_halves, int bytes) {
    for (std::size_t p = 0; p < to_halves.size(); ++p) {
      const std::uint32_t x = general(static_cast<int>(p));
      word(0x91000000 | static_cast<std::uint32_t>(to_halves[p] ? bytes / 2 : bytes) << 10 | x << 5 | x);  // add
    }
    word(0xF1000484);                                       // subs x4, x4, #1
    word(0x54000001 | distance(code_.size(), loop_) << 5);  // b.ne
    const std::uint32_t past = 0xB4000004 | distance(skip_, code_.size()) << 5;
    for (int k = 0; k < 4; ++k) code_[skip_ + static_cast<std::size_t>(k)] = static_cast<std::uint8_t>(past >> 8 * k);
  }
  void end_block(int state_bytes) {
    word(0x91000042 | state_bytes << 10);                    // add x2, x2, #state_bytes
    word(0xF1000463);                                        // subs x3, x3, #1
    word(0x54000001 | distance(code_.size(), block_) << 5);  // b.ne
  }
  void end() {
    word(0x910003FF | frame_ << 10);  // add sp, sp, #frame
    word(0x6D433FEE);                 // ldp d14, d15, [sp, #48]
    word(0x6D4237EC);
    word(0x6D412FEA);
    word(0x6CC427E8);  // ldp d8, d9, [sp], #64
    word(0xD65F03C0);  // ret
  }

  // ---- memory ----
  void load(int v, int p, int offset) { word(0x3DC00000 | offset / 16 << 10 | general(p) << 5 | vector(v)); }
  void store(int v, int p, int offset, int) { word(0x3D800000 | offset / 16 << 10 | general(p) << 5 | vector(v)); }
  // Halves: `offset` is that of the f32 they stand for.
  void load_half(int v, int p, int offset, Stored kind) {
    word(0xFD400000 | static_cast<std::uint32_t>(offset / 16) << 10 | general(p) << 5 | vector(v));  // ldr d
    word((kind == Stored::bf16 ? 0x2E613800 : 0x0E217800) | vector(v) << 5 | vector(v));             // shll #16, fcvtl
  }
  void store_half(int v, int p, int offset, Stored kind, int spare) {
    word((kind == Stored::bf16 ? 0x0F108400 : 0x0E216800) | vector(v) << 5 | vector(spare));  // shrn #16, fcvtn
    word(0xFD000000 | static_cast<std::uint32_t>(offset / 16) << 10 | general(p) << 5 | vector(spare));
  }
  void store_guard(int v, int offset) {
    store_state(v, offset);
    store_state(v, offset + kVectorBytes);
  }
  void load_state(int v, int offset) { word(0x3DC00000 | offset / 16 << 10 | 2 << 5 | vector(v)); }
  void store_state(int v, int offset) { word(0x3D800000 | offset / 16 << 10 | 2 << 5 | vector(v)); }
  void store_frame(int v, int slot) { word(0x3D8003E0 | slot << 10 | vector(v)); }
  void load_frame(int v, int slot) { word(0x3DC003E0 | slot << 10 | vector(v)); }
  void repeat(int v, int entry) {  // the number that entry of the table points to, in every lane
    word(0xF9400000 | entry << 10 | 0 << 5 | 4);
    word((wide_ ? 0x4D40CC00 : 0x4D40C800) | 4 << 5 | vector(v));  // ld1r
  }
  void constant(int v, std::uint64_t bits) {
    for (std::uint32_t part = 0; part < (wide_ ? 4u : 2u); ++part)  // movz, movk x4
      word((part == 0 ? 0xD2800004 : 0xF2800004) | part << 21 |
           static_cast<std::uint32_t>(bits >> 16 * part & 0xFFFF) << 5);
    word((wide_ ? 0x4E080C00 : 0x4E040C00) | 4 << 5 | vector(v));  // dup
  }

  // ---- instructions ----
  // Whether d may be a register that the operation reads.
  static bool may_overwrite(Micro) { return true; }
  // Whether it needs a spare register.
  static bool needs_spare(Micro) { return false; }

  void run(Micro op, int d, int a, int b, int immediate, int) {
    switch (op) {
      case Micro::move:
        return move(d, a);
      case Micro::negate:
        return two(0x6EA0F800, d, a);
      case Micro::absolute:
        return two(0x4EA0F800, d, a);
      case Micro::root:
        return two(0x6EA1F800, d, a);
      case Micro::floor:
        return two(0x4E219800, d, a);
      case Micro::ceil:
        return two(0x4EA18800, d, a);
      case Micro::nearest:
        return two(0x4E218800, d, a);
      case Micro::trunc:
        return two(0x4EA19800, d, a);
      case Micro::bit_not:
        return word(0x6E205800 | vector(a) << 5 | vector(d));
      case Micro::shift_left:
        return word(0x4F005400 | (element() + static_cast<std::uint32_t>(immediate)) << 16 | vector(a) << 5 |
                    vector(d));
      case Micro::shift_right:
        return word(0x6F000400 | (2 * element() - static_cast<std::uint32_t>(immediate)) << 16 | vector(a) << 5 |
                    vector(d));
      case Micro::shift_right_signed:
        return word(0x4F000400 | (2 * element() - static_cast<std::uint32_t>(immediate)) << 16 | vector(a) << 5 |
                    vector(d));
      case Micro::to_float:
        return two(0x4E21D800, d, a);
      case Micro::round_to_f16:
        word(0x0E216800 | vector(a) << 5 | vector(d));         // fcvtn
        return word(0x0E217800 | vector(d) << 5 | vector(d));  // fcvtl
      case Micro::add:
        return three(0x4E20D400, d, a, b);
      case Micro::sub:
        return three(0x4EA0D400, d, a, b);
      case Micro::mul:
        return three(0x6E20DC00, d, a, b);
      case Micro::div:
        return three(0x6E20FC00, d, a, b);
      case Micro::maximum:  // IEEE's: NaN if either is, -0 below +0
      case Micro::max_or_second:
        return three(0x4E20F400, d, a, b);
      case Micro::minimum:
      case Micro::min_or_second:
        return three(0x4EA0F400, d, a, b);
      case Micro::equal:  // masks: all ones or zero in every lane; comparisons with NaN are false
        return three(0x4E20E400, d, a, b);
      case Micro::less:
        return three(0x6EA0E400, d, b, a);
      case Micro::less_equal:
        return three(0x6E20E400, d, b, a);
      case Micro::abs_less:
        return three(0x6EA0EC00, d, b, a);  // facgt
      case Micro::bit_and:
        return bits(0x4E201C00, d, a, b);
      case Micro::bit_or:
        return bits(0x4EA01C00, d, a, b);
      case Micro::bit_xor:
        return bits(0x6E201C00, d, a, b);
      case Micro::int_add:
        return bits(wide_ ? 0x4EE08400 : 0x4EA08400, d, a, b);
      case Micro::int_sub:
        return bits(wide_ ? 0x6EE08400 : 0x6EA08400, d, a, b);
      default:
        return;  // of three operands: below
    }
  }
  // d = d + a·b or d − a·b, rounded once
  void fma(int d, int a, int b) { three(0x4E20CC00, d, a, b); }
  void fnma(int d, int a, int b) { three(0x4EA0CC00, d, a, b); }
  // d = a where the mask is set, b elsewhere. d may be any of them.
  void select(int d, int mask, int a, int b) {
    if (d == a) {
      bits(0x6EE01C00, d, b, mask);  // bif
    } else if (d == b) {
      bits(0x6EA01C00, d, a, mask);  // bit
    } else {
      move(d, mask);
      bits(0x6E601C00, d, a, b);  // bsl
    }
  }
  // Gives d the sign bits of a.
  void copy_sign(int d, int a, int sign_bits, int) { bits(0x6EA01C00, d, a, sign_bits); }  // bit

  void move(int d, int a) {
    if (d != a) bits(0x4EA01C00, d, a, a);
  }
  void accumulate(int sum, int a, int) { three(0x4E20D400, sum, sum, a); }
  void hold(int guard, int a, int) { bits(0x4E201C00, guard, guard, a); }
  void all_ones(int d) { word(0x6F07E7E0 | vector(d)); }

 private:
  static std::uint32_t vector(int v) { return static_cast<std::uint32_t>(v); }
  static std::uint32_t general(int p) { return static_cast<std::uint32_t>(p + 5); }
  std::uint32_t element() const { return wide_ ? 64 : 32; }
  static std::uint32_t distance(std::size_t from, std::size_t to) {
    return static_cast<std::uint32_t>((static_cast<std::int64_t>(to) - static_cast<std::int64_t>(from)) / 4) & 0x7FFFF;
  }
  void word(std::uint32_t w) {
    for (int k = 0; k < 4; ++k) code_.push_back(static_cast<std::uint8_t>(w >> 8 * k));
  }
  void bits(std::uint32_t w, int d, int a, int b) { word(w | vector(b) << 16 | vector(a) << 5 | vector(d)); }
  void three(std::uint32_t w, int d, int a, int b) { bits(w | (wide_ ? 1u << 22 : 0), d, a, b); }
  void two(std::uint32_t w, int d, int a) { word(w | (wide_ ? 1u << 22 : 0) | vector(a) << 5 | vector(d)); }

  bool wide_;
  std::vector<std::uint8_t> code_;
  std::uint32_t frame_ = 0;
  std::size_t block_ = 0, skip_ = 0, loop_ = 0;
};

}  // namespace ebb::cpu
