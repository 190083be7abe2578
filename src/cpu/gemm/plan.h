// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/ceil_div.h"
#include "cpu/model/cpu_model.h"

// How a product will be computed, as a value: decided here, carried out by the rest of this folder. `depth` and the
// tiles decide the bits of the result; everything else may be chosen freely.
namespace ebb::cpu {

// The properties of the tiles that a plan depends on.
struct GemmTileShape {
  std::int64_t rows, cols;  // of a tile of C that stays in registers
  std::int64_t lanes;       // columns are packed in multiples of this
  std::int64_t
      group;  // this many of k are adjacent in a panel: (w, p) at p / group · group · width + w · group + p % group
  std::int64_t most_depth;  // of a block of k
  std::int64_t bytes;       // of a packed number
  bool rows_stay;  // a panel of A stays in the level-1 cache while those of B stream from the second, not vice versa
  bool reads_rows = false;  // of A in place, although k is in groups

  std::int64_t packed_depth(std::int64_t depth) const { return ceil_div(depth, group) * group; }
  bool operator==(const GemmTileShape&) const = default;
};

// A product C [m, n] = A [m, k] · B [k, n]. All sizes are at least 1.
struct GemmRequest {
  struct Factor {
    bool own = true;  // its numbers are of the panels' type; others are converted while they are packed
    std::int64_t wide_stride = 0, depth_stride = 1;  // from row to row of A, or column to column of B; along k

    bool operator==(const Factor&) const = default;
  };
  std::int64_t m = 0, n = 0, k = 0;
  Factor a, b;
  bool shared = true;  // among threads
  std::int64_t threads = 1;
  bool vectors = true;   // a product of one row or column needs no tiles
  bool dots = true;      // dot products of such numbers exist
  bool rounded = false;  // by the tiles, to halves

  bool operator==(const GemmRequest&) const = default;
};

// How tiles access a factor.
enum class FactorAccess : std::uint8_t {
  packed,    // before the tiles begin
  in_place,  // read where it is stored, its width dense
  in_rows,  // in place, with depth dense: A by single numbers, which a tile broadcasts anyway, or by entire groups of k
  copied,   // B in place, its width dense, and packed by the first tiles that read it
};

struct GemmPlan {
  enum class Order : std::uint8_t {
    dots,     // one output after the other
    outputs,  // a vector: tasks share the outputs
    depth,    // a vector: tasks share the blocks of k
    deep,     // few outputs: tasks share the blocks of k, each a product of its own
    tasks,    // parts of C, tiles of panels
    turns,    // a few columns at a time, packed while those before are multiplied
  };
  struct Factor {
    FactorAccess access = FactorAccess::packed;
    bool own = false;  // packed by the task that reads it, not by all for all

    bool stays() const { return access == FactorAccess::in_place || access == FactorAccess::in_rows; }
    bool operator==(const Factor&) const = default;
  };

  GemmTileShape tiles{};
  Order order = Order::tasks;
  bool shared = false;         // among threads
  std::int64_t depth = 0;      // of a block of k
  std::int64_t blocks = 0;     // of k, the last may be shorter
  std::int64_t at_a_time = 1;  // blocks that are packed (tasks, turns), that exist (deep), or of a task (depth)
  std::int64_t per_task = 1;   // deep: blocks
  bool side_by_side = false;   // depth: blocks of one output are summed together
  std::int64_t part_rows = 0, part_cols = 0;  // tasks: of C, for which factors are packed by all
  std::int64_t task_rows = 0, task_cols = 0;  // tasks: of C; outputs, dots: task_cols outputs
  std::int64_t run_rows = 0;                  // tasks: rows that a task multiplies by all its columns at a time
  std::int64_t turns = 0;
  std::int64_t pack_elements = 0;  // of a task that packs for all
  Factor a, b;

  bool operator==(const GemmPlan&) const = default;
};

// Sizes of arrays on the stack of the code that carries out a plan.
inline constexpr std::int64_t kGemmMostAtATime = 8;           // blocks of k that are packed
inline constexpr std::int64_t kGemmMostVectorOutputs = 4096;  // of a task of a vector product

GemmPlan plan_product(const GemmRequest& request, const GemmTileShape& tiles, const CpuModel& model);

// A product rounded to halves: by tiles as they store their last sums, or from parts of it in f32.
struct HalvesPlan {
  bool by_tiles = false;
  std::int64_t part_rows = 0, part_cols = 0;  // in f32 at a time; 0: none is needed

  bool operator==(const HalvesPlan&) const = default;
};
HalvesPlan plan_halves(const GemmRequest& request, bool tiles_round, const GemmTileShape& tiles, const CpuModel& model);

// One line of text.
std::string describe(const GemmPlan& plan);
std::size_t hash(const GemmPlan& plan);

}  // namespace ebb::cpu
