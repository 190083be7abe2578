#pragma once
#include <cstdint>
#include <vector>

#include "cuda/print/space.h"
#include "cuda/print/sweep_text.h"
#include "sweep/program.h"

namespace ebb::cuda {

inline constexpr int kLeaf = 8;                        // neighbours that are added pairwise
inline constexpr int kLeaves = 8;                      // that a lane adds
inline constexpr int kSegment = 32 * kLeaves * kLeaf;  // elements that a warp adds
inline constexpr int kGroup = 1024;                    // segments that are added together
inline constexpr int kChunk = 8;                       // of a lane's, one after the other
inline constexpr std::int64_t kChunkRows = 8;          // rows that sums over rows add before they go on in f64
inline constexpr int kChains = 32;                     // of groups of rows

// How an operand or output is reached by a thread that takes several neighbours at once.
enum class Access : std::uint8_t {
  one,   // the same element for all of them
  pack,  // neighbours in memory, in one or a few accesses of 16 bytes where its address allows
  each,  // one by one
};

// The decisions about a program's text and launch, from its structure, its sizes and the GPU's limits.
struct Layout {
  Mapping mapping = Mapping::elements;
  bool full = false;      // something varies along the columns
  int lanes = 32;         // of a row, where a warp has whole rows
  int width = kLeaf;      // neighbours that a thread takes at once
  bool vectors = true;    // neighbours differ in the innermost coordinate alone
  bool tails = false;     // the last neighbours of a line may be fewer
  bool long_row = false;  // more segments than a group has
  bool small = true;      // positions along the line fit 31 bits
  Walk elements, rows, columns;

  // A row is copied on chip where several passes read it; the last pass over it makes room for the next, leaf by leaf.
  std::vector<std::int32_t> staged;  // operands
  std::int64_t slots = 0;            // leaves of a thread
  std::int64_t staged_slots = 0;     // and how many of them are on chip; what does not fit is read again
  std::int64_t row_bytes = 0;        // of the row on chip
  bool kept_on_chip = true;          // sums over a few rows
  std::int64_t kept_bytes = 0;
  std::int64_t parts_room = 0;  // sums of segments that a reduction of a block's row has room for
  int chunk_warps = 0;  // of a block, each with a chunk of rows and its sums in registers: short rows; 0: not so

  std::int64_t segments = 0;  // of a row
  std::int64_t parts = 0;     // of totals
  std::int64_t groups = 0, group_rows = 1;
  int threads = kThreads;
  unsigned blocks = 1;
  int bound_threads = kThreads, bound_blocks = 0;  // of the text

  // Parts that are added together: rows, or sums of chunks of segments.
  int parts_of_group() const { return mapping == Mapping::elements ? kGroup / kChunk : kGroup; }
  // Of the kernel that adds them, at most: a lane has its share of a whole group in registers.
  int finish_threads() const { return parts_of_group() == kGroup ? 512 : 1024; }
  const char* finish_bounds() const { return parts_of_group() == kGroup ? "512, 1" : "1024"; }
  // How its threads are divided where it adds groups of rows: into chains of groups, each for 2^bits columns.
  int finish_chains() const { return groups <= kChains ? 1 : kChains; }
  int finish_column_bits() const { return groups <= kChains ? 8 : 3; }
  bool row_in_warp() const { return mapping == Mapping::lanes_per_row || chunk_warps > 0; }
  const Walk& line() const { return mapping == Mapping::elements ? elements : columns; }
  Access access(const Strides& strides, DType dtype) const;
  bool may_align(const Strides& strides, DType dtype) const;  // where its base does
};

// Sums of segments, of one pass and the next: up to so many bytes are the text's own memory, more lie behind the row.
inline constexpr std::int64_t kOwnParts = 16 << 10;
inline std::int64_t bytes_of_parts(std::int64_t reductions, std::int64_t room) { return 2 * reductions * room * 8; }

Layout layout_of(const Program& program, const GpuLimits& limits);

}  // namespace ebb::cuda
