#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cuda/kernels/args/error_slot.h"
#include "ebb/error.h"
#include "sweep/program.h"

namespace ebb::cuda {

// A member of the kernels' struct Args, eight bytes each, in the order of the text.
struct Parameter {
  enum class Kind : std::uint8_t {
    number,      // sizes and strides: `number` itself
    pointer,     // the slot's memory, `number` bytes further
    real,        // a constant as `dtype` keeps it
    integer,     // a constant as `dtype` keeps it
    start,       // of a ramp, `number` steps further
    step,        // of a ramp
    seed,        // of random numbers
    operation,   // of random numbers
    error,       // ErrorSlot*
    error_step,  // which step of its run this is
    workspace,
  } kind = Kind::number;
  int slot = -1;
  std::int64_t number = 0;
  DType dtype = DType::f32;
  bool aligned = false;  // a pointer that the text takes for a multiple of 16 bytes
};

// How a program's elements are shared by threads. All of them add in the order of one tree (see the
// prelude), so that sums do not depend on the choice.
enum class Mapping : std::uint8_t {
  elements,       // no row stage: a thread takes a few neighbours
  lanes_per_row,  // short rows: a warp, or a part of one
  block_per_row,  // longer rows
  row_groups,     // reductions over rows, beside stages of rows: a block takes neighbouring rows one after the other
  columns,        // reductions over rows alone: a thread takes a few columns of neighbouring rows
};

// What the text's decisions need to know of the GPU.
struct GpuLimits {
  std::int64_t shared = 227 << 10;                    // bytes of a block
  std::int64_t shared_of_multiprocessor = 228 << 10;  // and of all its blocks
};

// Bytes of shared memory that a text with memory of its own size may have beside it.
inline constexpr std::int64_t kSharedOfText = 18 << 10;

// A program as CUDA C++ without an #include. The text holds structure and no sizes, strides or numbers, so that it is
// compiled once for all of them. `sweep` is launched with `blocks` blocks; then, where there are any, `finish` with
// `finish_blocks`, which makes reductions over everything or over the rows from their parts, and what follows them.
struct SweepText {
  std::string text;
  std::vector<Parameter> parameters;
  unsigned blocks = 1, threads = kThreads, shared = 0;  // of the sweep; shared memory in bytes
  bool stays = false;         // blocks take rows in turns, and load the next while they compute one
  bool row_of_block = false;  // all of a block's warps are on one row, so that they wait for each other
  unsigned finish_blocks = 0, finish_threads = kThreads;
  std::size_t workspace = 0;         // bytes
  std::vector<std::int32_t> checks;  // instructions that may complain, by their number in ErrorSlot::key
};
enum class Alignment : std::uint8_t {
  sixteen,  // what is reached in packs begins at multiples of 16 bytes: nearly always so, and the faster text
  any,
};
SweepText print_sweep(const Program& program, const GpuLimits& limits = {}, Alignment alignment = Alignment::sixteen);
// Whether the text may run with these arguments.
bool is_aligned(const SweepText& text, std::span<const Argument> arguments);

const char* prelude();  // src/cuda/kernels/parts/prelude.cuh, which comes before every text

// The values of Args, in order.
std::vector<std::uint64_t> bound_words(const SweepText& text, std::span<const Argument> arguments, const void* error,
                                       std::uint64_t step, void* workspace);

// The error the CPU would have thrown.
Error complaint(const Program& program, std::int32_t instr, std::int64_t position, std::uint64_t bits);

}  // namespace ebb::cuda
