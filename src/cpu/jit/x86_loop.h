// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "cpu/jit/code.h"

// The common part of loops for x86-64: the loop itself, general registers, bytes. Encodings: Intel Software Developer's
// Manual, volume 2.
//
// rdi is the table of pointers, rsi the groups of a block, rdx the state, rcx the blocks, r8 the masks of elements
// behind the last turn, r15 counts groups, rax is first a scratch register and then the offset of this turn; the loop's
// own pointers are the other general registers, the callee-saved ones pushed on the stack, with the frame below them:
// the address of the masks, and numbers for which there is no register. rdi is the last one reused: the table is not
// read after that.
namespace ebb::cpu {

class X86Loop {
 public:
  static constexpr int kPointerRegisters = 10;
  std::vector<std::uint8_t> take() { return std::move(code_); }

  void begin_frame(int frame_bytes) {
    bytes({0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57});  // push rbx rbp r12 r13 r14 r15
    frame_ = frame_bytes + kMasksBytes;
    bytes({0x48, 0x81, 0xEC});  // sub rsp, frame
    distance(frame_);
    bytes({0x4C, 0x89, 0x84, 0x24});  // mov [rsp + frame - 8], r8
    distance(frame_ - 8);
  }
  void pointer(int p, int entry) { from_table(kPointers[p], entry); }
  void start_block() {
    if (block_ == 0) bytes({0x31, 0xC0});  // xor eax, eax
    block_ = code_.size();
  }
  void start_loop() {
    bytes({0x49, 0x89, 0xF7});              // mov r15, rsi
    bytes({0x4D, 0x85, 0xFF, 0x0F, 0x84});  // test r15, r15; jz past the loop
    skip_ = code_.size();
    distance(0);
    loop_ = code_.size();
  }
  void end_loop(const std::vector<bool>&, int step) {
    bytes({0x48, 0x05});  // add rax, step / 2: halves advance by that, others by twice that
    distance(step / 2);
    bytes({0x49, 0xFF, 0xCF, 0x0F, 0x85});  // dec r15; jnz
    distance(static_cast<std::int64_t>(loop_) - static_cast<std::int64_t>(code_.size() + 4));
    land_past();
  }
  // Around a turn for the elements behind the last one, if any: r15 is then the address of their masks.
  void start_rest() {
    bytes({0x4C, 0x8B, 0xBC, 0x24});  // mov r15, [rsp + frame - 8]
    distance(frame_ - 8);
    bytes({0x4D, 0x85, 0xFF, 0x0F, 0x84});  // test r15, r15; jz past it
    skip_ = code_.size();
    distance(0);
  }
  void end_rest() { land_past(); }
  void end_block(int state_bytes) {
    bytes({0x48, 0x81, 0xC2});  // add rdx, state_bytes
    distance(state_bytes);
    bytes({0x48, 0xFF, 0xC9, 0x0F, 0x85});  // dec rcx; jnz
    distance(static_cast<std::int64_t>(block_) - static_cast<std::int64_t>(code_.size() + 4));
  }
  void end() {
    bytes({0xC5, 0xF8, 0x77, 0x48, 0x81, 0xC4});  // vzeroupper; add rsp, frame
    distance(frame_);
    bytes({0x41, 0x5F, 0x41, 0x5E, 0x41, 0x5D, 0x41, 0x5C, 0x5D, 0x5B});  // pop in reverse
    bytes({0xC3});
  }

 protected:
  static constexpr int kState = 2, kScratch = 0, kStack = 4, kMasks = 15;  // rdx, rax, rsp, r15
  static constexpr int kPointers[kPointerRegisters] = {8, 9,  10, 11, 3,
                                                       5, 12, 13, 14, 7};  // r8-r11, rbx, rbp, r12-r14, rdi

  void byte(std::uint8_t b) { code_.push_back(b); }
  void bytes(std::initializer_list<int> list) {
    for (int b : list) byte(static_cast<std::uint8_t>(b));
  }
  void distance(std::int64_t d) {
    for (int k = 0; k < 4; ++k) byte(static_cast<std::uint8_t>(static_cast<std::uint64_t>(d) >> 8 * k));
  }
  void from_table(int general, int entry) {  // mov general, [rdi + 8·entry]
    bytes({0x48 | (general >= 8 ? 4 : 0), 0x8B, 0x80 | (general & 7) << 3 | 7});
    distance(8 * entry);
  }
  void bits_to_scratch(std::uint64_t bits) {  // mov rax, bits
    bytes({0x48, 0xB8});
    for (int k = 0; k < 8; ++k) byte(static_cast<std::uint8_t>(bits >> 8 * k));
  }
  // The bytes after the prefix of an instruction with a memory operand.
  void indexed(int opcode, int v, int base, int offset, int scale) {  // [base + rax << scale + offset]
    bytes({opcode, 0x84 | (v & 7) << 3, scale << 6 | (base & 7)});
    distance(offset);
  }
  void based(int opcode, int v, int base, int offset) {  // [base + offset]
    bytes({opcode, 0x80 | (v & 7) << 3 | (base & 7)});
    distance(offset);
  }
  void on_stack(int opcode, int v, std::int64_t offset) {  // [rsp + offset]
    bytes({opcode, 0x84 | (v & 7) << 3, 0x24});
    distance(offset);
  }

 private:
  static constexpr int kMasksBytes = 64;  // of the frame

  void land_past() {  // of the jump at skip_
    const auto past = static_cast<std::uint32_t>(code_.size() - (skip_ + 4));
    for (int k = 0; k < 4; ++k) code_[skip_ + static_cast<std::size_t>(k)] = static_cast<std::uint8_t>(past >> 8 * k);
  }

  std::vector<std::uint8_t> code_;
  int frame_ = 0;
  std::size_t block_ = 0, skip_ = 0, loop_ = 0;
};

// Instructions that AVX2 and AVX-512 share, through the assembler's own encodings; false for the others.
template <class Assembler>
bool run_alike(Assembler& to, Micro op, int d, int a, int b, int immediate) {
  switch (op) {
    case Micro::move:
      return to.move(d, a), true;
    case Micro::root:
      return to.floats(0x51, d, 0, a), true;
    case Micro::floor:
      return to.round(d, a, 0x09), true;
    case Micro::ceil:
      return to.round(d, a, 0x0A), true;
    case Micro::nearest:
      return to.round(d, a, 0x08), true;
    case Micro::trunc:
      return to.round(d, a, 0x0B), true;
    case Micro::shift_left:
      return to.shift(d, a, 6, immediate), true;
    case Micro::shift_right:
      return to.shift(d, a, 2, immediate), true;
    case Micro::shift_right_signed:  // 32 bits only
      return to.shift(d, a, 4, immediate), true;
    case Micro::add:
      return to.floats(0x58, d, a, b), true;
    case Micro::sub:
      return to.floats(0x5C, d, a, b), true;
    case Micro::mul:
      return to.floats(0x59, d, a, b), true;
    case Micro::div:
      return to.floats(0x5E, d, a, b), true;
    case Micro::max_or_second:
      return to.floats(0x5F, d, a, b), true;
    case Micro::min_or_second:
      return to.floats(0x5D, d, a, b), true;
    default:
      return false;
  }
}

}  // namespace ebb::cpu
