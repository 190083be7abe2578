// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/plan/gpu_model.h"
#include "cuda/plan/tree.h"
#include "cuda/plan/walk.h"
#include "sweep/program.h"

namespace ebb::cuda {

// How threads share a program's elements. Sums are added in the order of one tree (tree.h), so they do not depend on
// the choice.
enum class Mapping : std::uint8_t {
  elements,       // no row stage: a thread takes a few neighbouring elements
  down_rows,      // no row stage, operands that repeat in every row: a thread takes a few columns of several rows
  lanes_per_row,  // short rows: a warp, or a part of one
  block_per_row,  // longer rows
  row_groups,     // reductions over rows, and row stages as well: a block takes neighbouring rows one after the other
  columns,        // reductions over rows only: a thread takes a few columns of neighbouring rows
};

// How a thread that takes several neighbours at once accesses an operand or output.
enum class Access : std::uint8_t {
  one,   // the same element for all of them
  pack,  // neighbours in memory, in one access or a few of 16 bytes where its address allows
  each,  // one by one
};

enum class Alignment : std::uint8_t {
  sixteen,  // packed accesses begin at multiples of 16 bytes: nearly always so, and the faster text
  any,
};

// Location of the operands that several passes over a row read.
enum class Residence : std::uint8_t {
  memory,                // each pass reads them again
  shared,                // in shared memory; leaves without room there are read again
  shared_and_registers,  // in shared memory, and leaves without room there in registers
  registers,  // the first pass moves them from shared memory to registers, and the next row is loaded meanwhile
};

// A value that a pass leaves in shared memory for later ones, replacing operands that they no longer read. A leaf's
// part of shared memory is divided into chunks of 16 bytes.
struct KeptValue {
  std::int32_t value = -1;
  DType dtype = DType::f32;  // no bit of the value is lost
  std::vector<int> chunks;

  bool operator==(const KeptValue&) const = default;
};
inline int chunks_of(DType dtype) { return static_cast<int>(size_of(dtype)) / 2; }  // of a leaf: eight elements

// Representation of a value of two neighbours, in a pass that computes two at a time.
struct Form {
  enum class Kind : std::uint8_t {
    one,           // one number for both
    two,           // Two: f32 of each
    both,          // Both: a mask of each
    halves,        // Halves: rounded to `dtype`
    rounded_next,  // not stored: the rounding that follows computes it
  } kind = Kind::one;
  DType dtype = DType::f32;

  bool operator==(const Form&) const = default;
};

// Values needed by only one arm of a choice, which data hardly ever takes: computed after a branch.
struct RareArm {
  std::int32_t choice = -1;
  bool when = true;  // the arm is taken where the condition is this
  std::vector<std::int32_t> values;

  bool operator==(const RareArm&) const = default;
};

// log2 of a base, which all its powers in a pass share; computed before the first of them.
struct SharedLogarithm {
  std::int32_t first = -1;              // power
  std::vector<std::int32_t> exponents;  // of all powers, if they are the same for all elements

  bool operator==(const SharedLogarithm&) const = default;
};

// A row's largest number, the number subtracted in its place, the sum of the exponentials, and optionally (not -1) the
// sum of the differences themselves, as for label smoothing, that of their products with their exponentials, as for an
// entropy, and the position of the largest number.
struct SoftmaxSum {
  std::int32_t most = -1, shift = -1, sum = -1, differences = -1, products = -1, place = -1;

  bool operator==(const SoftmaxSum&) const = default;
};

// One pass over a line: over all elements, or over a row in one of its stages.
struct PassPlan {
  std::vector<std::int32_t> reductions;   // over the row or everything
  std::vector<std::int32_t> half_maxima;  // by reduction: the operand of halves whose maximum it is, taken two at a
                                          // time; or -1
  std::vector<std::int32_t> sums;         // over the rows
  std::vector<std::size_t> outputs;
  std::vector<std::int32_t> checks;
  std::vector<std::int32_t> of_columns;  // operands that are the same in every row: loaded once, before the rows
  std::vector<std::int32_t> ahead;       // operands of several rows, loaded before the first row is computed
  std::vector<char> needed;              // values of the line, by number
  std::vector<KeptValue> found, keeps;   // values that earlier passes left on chip, and those this one leaves
  std::vector<Form> forms;               // by value, where two neighbours are computed at a time; otherwise empty
  std::vector<RareArm> rare_arms;
  std::vector<SharedLogarithm> logarithms;
  std::vector<SoftmaxSum> softmax;  // computed by this pass and the next in one
  double instructions = 0;          // per element, approximately
  int unroll = 1;                   // leaves whose code is unrolled
  bool takes_row = false;           // into registers
  bool checks_at_once = false;      // an earlier pass may have overwritten the inputs of the checks
  bool placed_by_owner = false;     // the thread that stored the element with a placed value stores it again
  bool shares_loads = false;        // two lanes load for each other

  bool empty() const { return reductions.empty() && sums.empty() && outputs.empty() && checks.empty(); }
  bool in_pairs() const { return !forms.empty(); }
  bool operator==(const PassPlan&) const = default;
};

// `sweep` is launched with `blocks` blocks; then, if there are any, `finish` with `finish_blocks`, which computes
// reductions over everything or over the rows from their parts, and what depends on them.
struct LaunchPlan {
  unsigned blocks = 1, threads = kThreads, shared = 0;  // bytes of dynamic shared memory
  bool has_dynamic_shared = false;                      // declared by the text
  bool stays = false;             // blocks loop over rows, and load the next while they compute one
  bool row_of_block = false;      // all warps of a block work on one row and so wait for each other
  int bound_threads = kThreads;   // __launch_bounds__
  int min_blocks = 0;             // per multiprocessor; 0: the compiler's choice
  int launches = 1;               // of `sweep`, `sweep_1`, ..., each with all blocks
  bool fewer_if_spilled = false;  // recompiled for fewer blocks if registers spill
  unsigned finish_blocks = 0, finish_threads = kThreads;
  std::size_t workspace = 0;  // bytes

  // The number of blocks that the compiler may reduce; 0: it may not.
  int spill_blocks() const { return fewer_if_spilled ? min_blocks : 0; }
  bool operator==(const LaunchPlan&) const = default;
};

// Offsets into the workspace, in words of 8 bytes.
struct WorkspacePlan {
  std::int64_t part_groups = 0, group_sums = 0, counter = 0;  // of totals, where several blocks may finish them
  std::int64_t sums = 0;                                      // over the rows
  std::int64_t segment_sums = 0, picked = 0;                  // of rows that several blocks share
  std::int64_t kept = 0;                                      // sums over a few rows: here, or bytes of shared memory

  bool operator==(const WorkspacePlan&) const = default;
};

// The kernel `finish`.
struct FinishPlan {
  bool columns = false;                     // values of columns follow: a block has 2^column_bits of them
  int parts_of_group = kGroup;              // rows, or sums of chunks of segments, that are added together
  int bound_threads = 512, min_blocks = 1;  // __launch_bounds__
  int chains = 1, column_bits = 8;          // of groups of rows, where it adds those
  std::size_t sums_at_a_time = 0;
  int loads_of_chain = 0;

  bool operator==(const FinishPlan&) const = default;
};

// Every decision about a sweep's text and launch, made from the program's structure, its sizes and the model of the GPU
// by plan_kernel(); the printer carries them out. Values are numbers of the program's instructions.
struct KernelPlan {
  // ---- Mapping.
  Mapping mapping = Mapping::elements;
  Alignment alignment = Alignment::sixteen;
  bool full = false;      // something varies along the columns
  int lanes = 32;         // per row, where a warp has whole rows
  int width = kLeaf;      // neighbours that a thread takes at once
  bool vectors = true;    // neighbours differ in the innermost coordinate only
  bool tails = false;     // the last neighbours of a line may be fewer
  bool long_row = false;  // more segments than a group has
  bool small = true;      // positions along the line fit 31 bits
  int chunk_warps = 0;    // per block, each with a chunk of short rows and its sums in registers; 0: does not apply
  Walk elements, rows, columns;
  std::int64_t segments = 0;  // per row
  std::int64_t slots = 0;     // leaves of a row per thread
  std::int64_t parts = 0;     // of totals
  // block_per_row: so many blocks share a row. If more than one, each pass is a launch, and sums of segments go through
  // memory; passes that are computed in one are the same as for a row of one block.
  std::int64_t row_blocks = 1;
  bool shares_softmax = false;
  bool ends_rows = false;  // a last launch has results of rows
  std::int64_t groups = 0, group_rows = 1;
  int row_unroll = 0;  // columns, down_rows: rows whose loads are in flight
  int together = 1;    // elements, one at a time: those of a thread, all of which are loaded before the first is stored
  // columns: the chunks of a group are `row_step` chunks apart, and so many groups share a band of neighbouring rows.
  // down_rows: a thread takes every `row_step`th of `thread_rows` rows; `strips` threads, side by side in a band of
  // row_step rows, share the rows of a leaf. The rows are those of the walk, not of the program.
  std::int64_t row_step = 1, thread_rows = 1, strips = 0;
  std::int64_t row_packs = 0;  // per row, including those that only fill up its last warp

  // ---- Residence.
  Residence residence = Residence::memory;
  std::vector<std::int32_t> staged;  // operands in shared memory
  int staged_chunks = 0;             // of a leaf, over all operands
  std::int64_t staged_slots = 0;     // leaves per thread with room there
  std::int64_t held_leaves = 0;      // per thread, in registers
  std::int64_t row_bytes = 0;        // of shared memory
  bool skewed = false;               // rows begin at any address, with the same offset in shared memory
  bool kept_on_chip = true;          // sums over a few rows
  std::int64_t kept_bytes = 0;
  std::int64_t parts_room = 0;       // sums of segments per reduction of a block's row
  std::int64_t part_reductions = 0;  // with room at the same time
  bool parts_behind_row = false;     // in dynamic shared memory, from byte `parts_at` on
  std::int64_t parts_at = 0;

  // ---- Values, by number.
  std::vector<char> coarse;         // rounded to halves by all readers: computed by quick functions
  std::vector<char> by_reciprocal;  // quotients computed as products with a reciprocal in f64, once per divisor
  std::vector<char> divides;        // those divisors
  std::vector<char> is_exponent;    // of powers, the same for all elements: inspected once
  std::vector<char> only_added;     // placed summands, which may be -0 elsewhere
  std::vector<std::int32_t> totals, column_sums;
  std::vector<std::int32_t> checks;  // that may report errors, by their number in ErrorSlot::key

  // ---- Passes: by stage of a row; otherwise one.
  std::vector<PassPlan> passes;
  int first_pass = -1, last_pass = -1;  // that are not empty

  LaunchPlan launch;
  bool joinable = false;  // one launch may run several sweeps of this text
  bool finishes = false;  // there is a kernel `finish`
  // A thread adds all rows of its columns, and computes what follows from their sums itself.
  bool whole_columns = false;
  FinishPlan finish;
  WorkspacePlan workspace;

  // Row values are computed with each element.
  bool without_rows() const { return mapping == Mapping::elements || mapping == Mapping::down_rows; }
  bool shares_rows() const { return row_blocks > 1; }
  std::int64_t parts_before(int stage) const;  // reductions of earlier stages: their sums of segments come first
  bool row_in_warp() const { return mapping == Mapping::lanes_per_row || chunk_warps > 0; }
  bool all_staged() const { return staged_slots == slots; }
  bool holds_row() const { return residence == Residence::registers; }
  // A first round of leaves is, partly or entirely, in registers and has code of its own.
  bool first_round() const { return holds_row() || residence == Residence::shared_and_registers; }
  // Leaves without room in shared memory are a thread's first ones, in registers.
  bool rest_in_registers() const { return first_round() && !all_staged(); }
  const Walk& line() const { return mapping == Mapping::elements ? elements : columns; }
  Access access(const Strides& strides, DType dtype) const;
  bool repeats(const Strides& strides) const;                 // the same in every row of the walk
  bool may_align(const Strides& strides, DType dtype) const;  // where its base is aligned

  bool operator==(const KernelPlan&) const = default;
};

KernelPlan plan_kernel(const Program& program, const GpuModel& model = {}, Alignment alignment = Alignment::sixteen);

// One line: "block per row, 512 threads, x0 in shared memory 12 of 16, bf16 pairs, keeps %7".
std::string describe(const KernelPlan& plan);
std::size_t hash(const KernelPlan& plan);  // of that line

// Rows per block where blocks loop over rows and a multiprocessor holds so many blocks.
unsigned rows_per_block(const LaunchPlan& launch, unsigned resident_blocks, const GpuModel& model);

}  // namespace ebb::cuda
