// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cpu/jit/code_memory.h"
#include "graph/op_table.h"
#include "sweep/sum_order.h"

// Several operations fused into one loop that keeps all intermediate values in registers.
//
// A tile step reads its operands from L1 and writes its result there: three memory instructions for one addition. For a
// loss of cheap operations, that is several times what the operations cost and more than the memory bandwidth allows.
// So runs of steps become one loop of machine code, a few dozen to some hundred vector instructions assembled when the
// sweep is compiled (microseconds). Results are bit-identical to those of the steps: the same operations in the same
// order, each rounded separately, and sums in the same 16 lanes.
namespace ebb::cpu {

// The type in memory where the loop computes in f32.
enum class Stored : std::uint8_t { as_computed, bf16, f16 };

struct LoopProgram {
  enum class Source : std::uint8_t {
    tile,    // an element of tile number `pointer`
    number,  // one number for the whole loop
    result,  // op of earlier values
  };
  struct Value {
    Source source = Source::result;
    int pointer = -1;
    Op op = Op::copy;
    std::array<int, 3> arg{-1, -1, -1};
    bool from_mask = false;               // op copy: a mask becomes 0 or 1
    Stored stored = Stored::as_computed;  // tile: in memory; op copy: rounded to that
  };
  struct Store {
    int value, pointer;
    Stored stored = Stored::as_computed;
  };

  bool wide = false;  // f64 and masks as wide; otherwise f32
  int pointers = 0;
  std::vector<Value> values;
  std::vector<Store> stores;
  std::vector<int> sums;    // values summed in 16 lanes
  std::vector<int> guards;  // masks that should be true everywhere
};

// How a loop processes the elements behind its last whole turn.
enum class Rests : std::uint8_t {
  by_steps,    // not at all
  by_bits,     // a turn with mask registers: a bit for each element
  by_vectors,  // a turn with vectors as masks: a number of all ones or zeros for each element
};

class NativeLoop {
 public:
  NativeLoop(std::span<const std::uint8_t> code, std::size_t group, int guards, std::size_t state_bytes,
             Rests rests = Rests::by_steps, bool wide = false)
      : code_(code), group_(group), guards_(guards), state_bytes_(state_bytes), rests_(rests), wide_(wide) {}
  bool ready() const { return code_.entry() != nullptr; }
  std::size_t group() const { return group_; }  // elements per turn of the loop: a multiple of 16
  int guards() const { return guards_; }
  std::size_t state_bytes() const { return state_bytes_; }

  // Whether fewer elements than a turn takes can follow the turns.
  bool takes_rest() const { return rests_ != Rests::by_steps; }

  // Runs `blocks` blocks, at least one, of `turns` turns, consecutive in memory; or one block, and `rest` elements
  // behind it, fewer than a turn takes. Nothing behind those is read or written. `state` has for each block: 16 lanes
  // for each sum, which the block's numbers are added to, then 32 bytes for each guard, written only: all ones if it
  // held everywhere. Guards are those of the program and one more if it has functions that the loop implements for
  // ordinary numbers only: where a guard does not hold, the block's results are invalid.
  void run(void* const* pointers, std::size_t turns, void* state, std::size_t blocks, std::size_t rest = 0) const {
    using Entry = void (*)(void* const*, std::size_t, void*, std::size_t, const void*);
    const std::uint64_t bits = (std::uint64_t{1} << rest) - 1;
    const void* mask = rest == 0 ? nullptr : rests_ == Rests::by_bits ? &bits : mask_vectors(rest);
    reinterpret_cast<Entry>(const_cast<void*>(code_.entry()))(pointers, turns, state, blocks, mask);
  }

 private:
  const void* mask_vectors(std::size_t rest) const;

  CodeMemory code_;
  std::size_t group_;
  int guards_;
  std::size_t state_bytes_;
  Rests rests_;
  bool wide_;
};

inline constexpr std::size_t kLoopGroup = kSumLanes;
inline constexpr std::size_t kGuardBytes = 32;
inline constexpr std::size_t kMaxLoopPointers = 32, kMaxLoopState = 512;

// Whether such loops can be generated here, and for this operation of f32, or f64 if wide (or of masks).
bool native_loops_usable();
bool has_native_form(Op op, bool wide);

// When to generate them: sweeps that are too small gain less than the code costs. For tests: always, never.
enum class NativeLoops : std::uint8_t { for_large_sweeps, always, never };
void set_native_loops(NativeLoops when);
bool worth_native_loops(std::int64_t elements);

// Null when such loops are not usable, registers do not suffice or the system allows no new code: the caller runs the
// steps instead.
std::shared_ptr<const NativeLoop> make_native_loop(const LoopProgram& program);

}  // namespace ebb::cpu
