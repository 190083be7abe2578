#pragma once
#include <cstdint>
#include <vector>

// The same instructions for x86-64 with AVX2 and FMA, on whole 256-bit registers. Encodings: Intel Software Developer's
// Manual, volume 2. Machines with AVX-512 run them too.
//
// rdi is the table of pointers, rsi the count, rdx the state, rax the offset of this turn; the loop's own pointers are
// the other general registers, those of the caller saved on the stack. rdi is the last to be given away: nothing is
// read from the table after that.
namespace ebb::cpu {

class Assembler {
 public:
  static constexpr int kVectorBytes = 32;
  static constexpr int kVectorRegisters = 16;
  static constexpr int kPointerRegisters = 11;
  enum class Rounding { floor, ceil, nearest, trunc };

  explicit Assembler(bool wide) : wide_(wide) {}
  std::vector<std::uint8_t> take() { return std::move(code_); }

  // ---- around the loop ----
  void begin() {
    bytes({0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57});  // push rbx rbp r12 r13 r14 r15
    bytes({0x31, 0xC0});                                                  // xor eax, eax
  }
  void pointer(int p, int entry) { from_table(kPointers[p], entry); }
  void start_loop() {
    bytes({0x48, 0x85, 0xF6, 0x0F, 0x84});  // test rsi, rsi; jz past the loop
    skip_ = code_.size();
    distance(0);
    loop_ = code_.size();
  }
  void end_loop(int, int step) {
    bytes({0x48, 0x05});  // add rax, step
    distance(step);
    bytes({0x48, 0xFF, 0xCE, 0x0F, 0x85});  // dec rsi; jnz
    distance(static_cast<std::int64_t>(loop_) - static_cast<std::int64_t>(code_.size() + 4));
    const auto past = static_cast<std::uint32_t>(code_.size() - (skip_ + 4));
    for (int k = 0; k < 4; ++k) code_[skip_ + static_cast<std::size_t>(k)] = static_cast<std::uint8_t>(past >> 8 * k);
  }
  void end() {
    bytes({0xC5, 0xF8, 0x77});                                            // vzeroupper
    bytes({0x41, 0x5F, 0x41, 0x5E, 0x41, 0x5D, 0x41, 0x5C, 0x5D, 0x5B});  // pop in reverse
    bytes({0xC3});
  }

  // ---- memory ----
  void load(int v, int p, int offset) { memory(0x10, v, kPointers[p], offset); }
  void store(int v, int p, int offset) { memory(0x11, v, kPointers[p], offset); }
  void store_state(int v, int offset) { plain(kFloat, wide_, 0x11, v, kState, offset); }
  void repeat(int v, int entry) {
    from_table(kScratch, entry);
    plain(k0F38, true, wide_ ? 0x19 : 0x18, v, kScratch, 0);  // vbroadcastss, vbroadcastsd
  }

  // ---- arithmetic: d = a op b ----
  void add(int d, int a, int b) { floats(0x58, d, a, b); }
  void sub(int d, int a, int b) { floats(0x5C, d, a, b); }
  void mul(int d, int a, int b) { floats(0x59, d, a, b); }
  void div(int d, int a, int b) { floats(0x5E, d, a, b); }
  // vmaxps and vminps return their second operand where there is no order: of zeros with different signs both orders
  // together have the right one, and NaN is put in where there is one. d is neither a nor b.
  void maximum(int d, int a, int b, int spare) { beyond(0x5F, 0x54, d, a, b, spare); }
  void minimum(int d, int a, int b, int spare) { beyond(0x5D, 0x56, d, a, b, spare); }
  void root(int d, int a) { floats(0x51, d, 0, a); }
  // The sign bits are made where they are needed: d is not a.
  void absolute(int d, int a) {
    sign_bits(d);
    floats(0x55, d, d, a);  // vandnps
  }
  void negate(int d, int a) {
    sign_bits(d);
    floats(0x57, d, d, a);  // vxorps
  }
  void round(int d, int a, Rounding r) {
    registers(k0F3A, true, false, wide_ ? 0x09 : 0x08, d, 0, a);
    byte(r == Rounding::floor ? 0x09 : r == Rounding::ceil ? 0x0A : r == Rounding::nearest ? 0x08 : 0x0B);
  }
  // d = a·b + c, rounded once; d is neither a nor b.
  void fma(int d, int a, int b, int c) {
    move(d, c);
    registers(k0F38, true, wide_, 0xB8, d, a, b);  // vfmadd231ps
  }

  // ---- masks ----
  void equal(int d, int a, int b) { compare(0x00, d, a, b); }
  void less(int d, int a, int b) { compare(0x11, d, a, b); }
  void positive(int d, int a) {  // a > 0; d is not a
    zero(d);
    less(d, d, a);
  }
  void less_equal(int d, int a, int b) { compare(0x12, d, a, b); }
  void bit_and(int d, int a, int b) { floats(0x54, d, a, b); }
  void bit_or(int d, int a, int b) { floats(0x56, d, a, b); }
  void bit_xor(int d, int a, int b) { floats(0x57, d, a, b); }
  void bit_not(int d, int a) {  // d is not a
    all_ones(d);
    floats(0x57, d, d, a);
  }
  void select(int d, int mask, int a, int b) {
    registers(k0F3A, true, false, wide_ ? 0x4B : 0x4A, d, b, a);  // vblendvps
    byte(static_cast<std::uint8_t>(mask << 4));
  }

  // ---- constants and copies ----
  void move(int d, int a) {
    if (d != a) floats(0x28, d, 0, a);  // vmovaps
  }
  void zero(int d) { registers(kFloat, false, false, 0x57, d, d, d); }
  void all_ones(int d) { registers(kFloat, true, false, 0x76, d, d, d); }  // vpcmpeqd
  void one(int d) {                                                        // the bits of 1.0, shifted together
    all_ones(d);
    shift(d, false, wide_ ? 54 : 25);
    shift(d, true, wide_ ? 52 : 23);
  }

 private:
  static constexpr int kFloat = 1, k0F38 = 2, k0F3A = 3;  // opcode maps
  static constexpr int kState = 2, kScratch = 1;          // rdx, rcx
  // r8-r11, rbx, rbp, r12-r15, rdi. (rcx stays free for single numbers.)
  static constexpr int kPointers[kPointerRegisters] = {8, 9, 10, 11, 3, 5, 12, 13, 14, 15, 7};

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
  // The three-byte VEX prefix: 256 bits, `second` is the extra source (0: none).
  void prefix(int map, bool operand_size, bool w, int reg, int second, int base) {
    byte(0xC4);
    byte(static_cast<std::uint8_t>((reg < 8 ? 0x80 : 0) | 0x40 | (base < 8 ? 0x20 : 0) | map));
    byte(static_cast<std::uint8_t>((w ? 0x80 : 0) | (~second & 15) << 3 | 4 | (operand_size ? 1 : 0)));
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
    bit_or(d, d, spare);
  }
  void compare(int how, int d, int a, int b) {
    floats(0xC2, d, a, b);
    byte(static_cast<std::uint8_t>(how));
  }
  void memory(int opcode, int v, int base, int offset) {  // [base + rax + offset]
    prefix(kFloat, wide_, false, v, 0, base);
    bytes({opcode, 0x84 | (v & 7) << 3, 0x00 | (base & 7)});
    distance(offset);
  }
  void plain(int map, bool operand_size, int opcode, int v, int base, int offset) {  // [base + offset]
    prefix(map, operand_size, false, v, 0, base);
    bytes({opcode, 0x80 | (v & 7) << 3 | (base & 7)});
    distance(offset);
  }
  void shift(int d, bool left, int count) {  // vpsrld, vpslld and the 64-bit forms, in place
    prefix(kFloat, true, false, 0, d, d);
    bytes({wide_ ? 0x73 : 0x72, 0xC0 | (left ? 6 : 2) << 3 | (d & 7), count});
  }
  void sign_bits(int d) {
    all_ones(d);
    shift(d, true, wide_ ? 63 : 31);
  }

  bool wide_;
  std::vector<std::uint8_t> code_;
  std::size_t skip_ = 0, loop_ = 0;
};

}  // namespace ebb::cpu
