#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cpu/code_memory.h"
#include "graph/op_table.h"

// Several cheap operations in one loop, with everything between memory and memory in registers.
//
// A tile step reads its operands from L1 and writes its result there: three memory instructions for one addition. For a
// loss that is all cheap operations, that is several times what the operations cost and more than the memory bandwidth
// allows. So runs of cheap steps become one loop of machine code, a few dozen vector instructions put together when the
// sweep is compiled (microseconds). The results are those of the steps to the bit: the same operations in the same
// order, each rounded by itself, and sums in the same 16 lanes.
namespace ebb::cpu {

struct LoopProgram {
  enum class Source : std::uint8_t {
    tile,    // an element of the tile that `pointer` is the number of
    number,  // one number for the whole loop
    result,  // op of earlier values
  };
  struct Value {
    Source source = Source::result;
    int pointer = -1;
    Op op = Op::copy;
    std::array<int, 3> arg{-1, -1, -1};
    bool from_mask = false;  // op copy: a mask becomes 0 or 1
  };
  struct Store {
    int value, pointer;
  };

  bool wide = false;  // f64 and masks as wide; otherwise f32
  int pointers = 0;
  std::vector<Value> values;
  std::vector<Store> stores;
  std::vector<int> sums;    // values summed in 16 lanes
  std::vector<int> guards;  // masks that should be true everywhere
};

class NativeLoop {
 public:
  explicit NativeLoop(std::span<const std::uint8_t> code) : code_(code) {}
  bool ready() const { return code_.entry() != nullptr; }

  // `groups` times 16 elements. Written to `state`: 16 lanes for each sum, then 32 bytes for each guard, all ones if it
  // held everywhere.
  void run(void* const* pointers, std::size_t groups, void* state) const {
    reinterpret_cast<void (*)(void* const*, std::size_t, void*)>(const_cast<void*>(code_.entry()))(pointers, groups,
                                                                                                   state);
  }

 private:
  CodeMemory code_;
};

inline constexpr std::size_t kLoopGroup = 16;
inline constexpr std::size_t kGuardBytes = 32;
inline constexpr std::size_t kMaxLoopPointers = 32, kMaxLoopState = 512;

// Whether such loops can be made here, and for this operation of f32 or f64 (or of masks).
bool native_loops_usable();
bool has_native_form(Op op);

// When to make them: sweeps that are too small gain less than the code costs to make. For tests: always, never.
enum class NativeLoops : std::uint8_t { for_large_sweeps, always, never };
void set_native_loops(NativeLoops when);
bool worth_native_loops(std::int64_t elements);

// Null when such loops are not usable, registers do not suffice or the system allows no new code: the caller has the
// steps.
std::shared_ptr<const NativeLoop> make_native_loop(const LoopProgram& program);

}  // namespace ebb::cpu
