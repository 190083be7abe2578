#pragma once
#include <cstdint>
#include <vector>

// The vector instructions of aarch64 that loops of cheap operations are made of, on whole 128-bit registers of f32 or
// f64. Encodings: Arm Architecture Reference Manual, chapter C7.
//
// Registers a callee need not save: v0-v7 and v16-v31 (numbered 0-23 here), x0-x17. x0 is the table of pointers, x1 the
// count, x2 the state, x3 a scratch register, the loop's own pointers are x4-x17.
namespace ebb::cpu {

class Assembler {
 public:
  static constexpr int kVectorBytes = 16;
  static constexpr int kVectorRegisters = 24;
  static constexpr int kPointerRegisters = 14;
  enum class Rounding { floor, ceil, nearest, trunc };

  explicit Assembler(bool wide) : wide_(wide) {}
  std::vector<std::uint8_t> take() { return std::move(code_); }

  // ---- around the loop ----
  void begin() {}
  void pointer(int p, int entry) { word(0xF9400000 | entry << 10 | 0 << 5 | general(p)); }  // ldr x, [x0, #8·entry]
  void start_loop() {
    skip_ = code_.size();
    word(0xB4000000 | 1);  // cbz x1, past the loop
    loop_ = code_.size();
  }
  void end_loop(int pointers, int bytes) {
    for (int p = 0; p < pointers; ++p) word(0x91000000 | bytes << 10 | general(p) << 5 | general(p));  // add
    word(0xF1000400 | 1 << 5 | 1);                          // subs x1, x1, #1
    word(0x54000001 | distance(code_.size(), loop_) << 5);  // b.ne
    const std::uint32_t past = 0xB4000000 | distance(skip_, code_.size()) << 5 | 1;
    for (int k = 0; k < 4; ++k) code_[skip_ + static_cast<std::size_t>(k)] = static_cast<std::uint8_t>(past >> 8 * k);
  }
  void end() { word(0xD65F03C0); }  // ret

  // ---- memory ----
  void load(int v, int p, int offset) { word(0x3DC00000 | offset / 16 << 10 | general(p) << 5 | vector(v)); }
  void store(int v, int p, int offset) { word(0x3D800000 | offset / 16 << 10 | general(p) << 5 | vector(v)); }
  void store_state(int v, int offset) { word(0x3D800000 | offset / 16 << 10 | 2 << 5 | vector(v)); }
  void repeat(int v, int entry) {  // the number that entry of the table points to, in every lane
    word(0xF9400000 | entry << 10 | 0 << 5 | 3);
    word((wide_ ? 0x4D40CC00 : 0x4D40C800) | 3 << 5 | vector(v));  // ld1r
  }

  // ---- arithmetic: d = a op b ----
  void add(int d, int a, int b) { three(0x4E20D400, d, a, b); }
  void sub(int d, int a, int b) { three(0x4EA0D400, d, a, b); }
  void mul(int d, int a, int b) { three(0x6E20DC00, d, a, b); }
  void div(int d, int a, int b) { three(0x6E20FC00, d, a, b); }
  void maximum(int d, int a, int b, int) { three(0x4E20F400, d, a, b); }  // IEEE's: NaN if either is, -0 below +0
  void minimum(int d, int a, int b, int) { three(0x4EA0F400, d, a, b); }
  void absolute(int d, int a) { two(0x4EA0F800, d, a); }
  void negate(int d, int a) { two(0x6EA0F800, d, a); }
  void root(int d, int a) { two(0x6EA1F800, d, a); }
  void round(int d, int a, Rounding r) {
    two(r == Rounding::floor     ? 0x4E219800
        : r == Rounding::ceil    ? 0x4EA18800
        : r == Rounding::nearest ? 0x4E218800
                                 : 0x4EA19800,
        d, a);
  }
  // d = a·b + c, rounded once; d is neither a nor b.
  void fma(int d, int a, int b, int c) {
    move(d, c);
    three(0x4E20CC00, d, a, b);
  }

  // ---- masks: all ones or zero in every lane; comparisons with NaN are false ----
  void equal(int d, int a, int b) { three(0x4E20E400, d, a, b); }
  void less(int d, int a, int b) { three(0x6EA0E400, d, b, a); }
  void positive(int d, int a) { two(0x4EA0C800, d, a); }  // a > 0
  void less_equal(int d, int a, int b) { three(0x6E20E400, d, b, a); }
  void bit_and(int d, int a, int b) { bits(0x4E201C00, d, a, b); }
  void bit_or(int d, int a, int b) { bits(0x4EA01C00, d, a, b); }
  void bit_xor(int d, int a, int b) { bits(0x6E201C00, d, a, b); }
  void bit_not(int d, int a) { word(0x6E205800 | vector(a) << 5 | vector(d)); }
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

  // ---- constants and copies ----
  void move(int d, int a) {
    if (d != a) bits(0x4EA01C00, d, a, a);
  }
  void zero(int d) { word(0x4F000400 | vector(d)); }
  void all_ones(int d) { word(0x6F07E7E0 | vector(d)); }
  void one(int d) { word((wide_ ? 0x6F03F600 : 0x4F03F600) | vector(d)); }

 private:
  static std::uint32_t vector(int v) { return static_cast<std::uint32_t>(v < 8 ? v : v + 8); }
  static std::uint32_t general(int p) { return static_cast<std::uint32_t>(p + 4); }
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
  std::size_t skip_ = 0, loop_ = 0;
};

}  // namespace ebb::cpu
