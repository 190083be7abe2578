#include "cuda/print/layout.h"

#include <algorithm>
#include <bit>

namespace ebb::cuda {
namespace {

using Kind = Instr::Kind;

constexpr std::int64_t kMostBlocks = 1 << 16, kMostBlocksOfRows = 1 << 20;
// Groups of rows whose sums are made side by side. All of them run at once on a GPU of 128 multiprocessors or more, and
// no more: a second turn for a few would take as long as the first, and each group's sums go through memory.
constexpr std::int64_t kFewestGroups = 64, kMostGroups = 4096;
constexpr std::int64_t kColumnThreads = 3 * 256 * 128;  // three blocks of one thread for a few columns of a group
constexpr std::int64_t kGroupBlocks = 2 * 128;          // two blocks of eight warps with short rows, a group each
constexpr std::int64_t kColumnWords = 1 << 20;          // partial sums of longer rows, about
constexpr std::size_t kManyWide = 4;                    // operands and results
constexpr int kMostSumWords = 96;                       // of a thread's sums over rows, in registers
constexpr std::int64_t kFewestWarps = 10;               // on a multiprocessor, with rows of several operands
constexpr std::int64_t kSharedOfSums = 2 << 10;         // of such a block, for the sums of its segments
constexpr int kWarpsOfSums = 16;                        // on a multiprocessor, with twice as many registers as that

std::int64_t pieces(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }
unsigned blocks_for(std::int64_t n) { return static_cast<unsigned>(std::clamp<std::int64_t>(n, 1, kMostBlocks)); }

bool has_kind(const Program& p, Kind kind) {
  return std::any_of(p.instrs.begin(), p.instrs.end(), [&](const Instr& i) { return i.kind == kind; });
}
const Instr& instr(const Program& p, std::int32_t v) { return p.instrs[static_cast<std::size_t>(v)]; }

Mapping mapping_of(const Program& p, bool full) {
  const bool by_row = has_kind(p, Kind::reduce) || has_kind(p, Kind::pick) || has_kind(p, Kind::place);
  if (has_kind(p, Kind::columns)) {
    const bool row_values =
        has_kind(p, Kind::total) || std::any_of(p.outputs.begin(), p.outputs.end(),
                                                [&](const Output& o) { return instr(p, o.value).level == Level::row; });
    const bool row_checks = std::any_of(p.instrs.begin(), p.instrs.end(), [](const Instr& i) {
      return i.kind == Kind::compute && i.op == Op::check && i.level == Level::row;
    });
    return by_row || row_values || row_checks ? Mapping::row_groups : Mapping::columns;
  }
  bool rows = by_row;
  if (full) {
    // A thread per element reaches every row only where rows have elements, and counts rows as often as they have.
    for (const Instr& i : p.instrs) rows |= i.kind == Kind::total && instr(p, i.arg[0]).level != Level::full;
    rows |= p.columns() == 0;
  }
  if (!rows) return Mapping::elements;
  return p.columns() <= kSegment ? Mapping::lanes_per_row : Mapping::block_per_row;
}

// Operands of level full that a pass over the row reads after the first that does, or after the first pass at all.
std::vector<std::int32_t> read_later(const Program& p, bool than_the_first_pass) {
  std::vector<int> first(p.operands.size(), than_the_first_pass ? 0 : -1);
  std::vector<char> again(p.operands.size());
  std::vector<char> seen;
  // The passes that need value v, one after the other.
  const auto need = [&](auto&& self, std::int32_t v, int pass) -> void {
    if (v < 0 || instr(p, v).level != Level::full || seen[static_cast<std::size_t>(v)]) return;
    seen[static_cast<std::size_t>(v)] = 1;
    if (instr(p, v).kind == Kind::load) {
      int& f = first[static_cast<std::size_t>(instr(p, v).arg[0])];
      if (f < 0) f = pass;
      if (f != pass) again[static_cast<std::size_t>(instr(p, v).arg[0])] = 1;
      return;
    }
    for (const std::int32_t a : instr(p, v).arg) self(self, a, pass);
  };
  for (int stage = 0; stage < p.stages; ++stage) {
    seen.assign(p.instrs.size(), 0);
    for (const Instr& i : p.instrs) {
      const bool here = i.kind == Kind::reduce ? i.stage == stage
                                               : (i.kind == Kind::total || i.kind == Kind::columns) &&
                                                     std::max<int>(0, instr(p, i.arg[0]).stage) == stage;
      if (here) need(need, i.arg[0], stage);
    }
    for (const Output& o : p.outputs) {
      if (instr(p, o.value).stage == stage) need(need, o.value, stage);
    }
  }
  std::vector<std::int32_t> result;
  for (std::size_t o = 0; o < p.operands.size(); ++o) {
    if (again[o]) result.push_back(static_cast<std::int32_t>(o));
  }
  return result;
}

std::int64_t element_bytes(RegType t) { return t == RegType::f32 ? 4 : 8; }

// Of sums of segments that are not the text's own, at most: a pass may make the reductions of two stages.
std::int64_t parts_behind_row(const Program& p, const Layout& l) {
  std::vector<std::int64_t> count(static_cast<std::size_t>(p.stages) + 1);
  for (const Instr& i : p.instrs) {
    const bool of_row = i.kind == Kind::reduce || (i.kind == Kind::total && instr(p, i.arg[0]).level == Level::full);
    const int stage = i.kind == Kind::reduce ? i.stage : of_row ? std::max<int>(0, instr(p, i.arg[0]).stage) : 0;
    count[static_cast<std::size_t>(stage)] += of_row;
  }
  std::int64_t most = 0;
  for (std::size_t s = 0; s + 1 < count.size(); ++s) most = std::max(most, count[s] + count[s + 1]);
  const std::int64_t bytes = bytes_of_parts(most, l.parts_room);
  return bytes > kOwnParts ? bytes : 0;
}

void lay_rows_on_chip(const Program& p, const GpuLimits& limits, Layout& l) {
  if (l.mapping == Mapping::row_groups) {
    for (const Instr& i : p.instrs) {
      if (i.kind == Kind::columns) l.kept_bytes += l.slots * kLeaf * element_bytes(i.type) * l.threads;
    }
    l.kept_on_chip = l.kept_bytes <= (limits.shared - kSharedOfText) / 2;
  }
  const std::int64_t kept = l.kept_on_chip ? l.kept_bytes : 0;
  const int row_dims = static_cast<int>(p.dims.size()) - p.row_dims;
  std::int64_t slot_bytes = 0;
  // A warp that goes from row to row by itself would wait for what its last pass is the first to read.
  for (const std::int32_t o : read_later(p, l.chunk_warps > 0)) {
    const Operand& operand = p.operands[static_cast<std::size_t>(o)];
    if (operand.kind != Operand::Kind::memory || size_of(operand.dtype) < 2) continue;
    if (l.access(operand.strides, operand.dtype) != Access::pack) continue;
    bool varies = false;
    for (int d = 0; d < row_dims; ++d) varies |= operand.strides[d] != 0 && p.dims[static_cast<std::size_t>(d)] > 1;
    if (!varies) continue;  // all rows read the same: it stays in the caches
    l.staged.push_back(o);
    slot_bytes += kLeaf * static_cast<std::int64_t>(size_of(operand.dtype)) * l.threads;
  }
  // With few warps there is nobody to go on while others wait: rather some operands are read again.
  const auto warps = [&] {
    const std::int64_t bytes = l.slots * slot_bytes + kept + kSharedOfSums;
    return limits.shared_of_multiprocessor / bytes * (l.threads / 32);
  };
  while (l.staged.size() > 1 && l.mapping == Mapping::block_per_row && warps() < kFewestWarps) {
    slot_bytes -= kLeaf *
                  static_cast<std::int64_t>(size_of(p.operands[static_cast<std::size_t>(l.staged.back())].dtype)) *
                  l.threads;
    l.staged.pop_back();
  }
  if (l.staged.empty()) return;
  const std::int64_t room = limits.shared - kSharedOfText - kept - parts_behind_row(p, l);
  l.staged_slots = std::clamp<std::int64_t>(room / slot_bytes, 0, l.slots);
  if (2 * l.staged_slots < l.slots) {
    l.staged_slots = 0;
    l.staged.clear();
  }
  l.row_bytes = l.staged_slots * slot_bytes;
}

void divide_rows(Layout& l, std::int64_t rows, std::int64_t most_groups) {
  const std::int64_t most = std::clamp(most_groups, kFewestGroups, kMostGroups);
  l.group_rows = std::max<std::int64_t>(1, pieces(pieces(rows, kChunkRows), most)) * kChunkRows;
  l.groups = pieces(rows, l.group_rows);
}

// Short rows with sums over rows: as many warps as a group has chunks of rows, up to eight.
void divide_group(const Program& p, std::int64_t columns, Layout& l) {
  if (columns == 0 || columns > kSegment) return;
  const std::int64_t slots = pieces(columns, 32 * kLeaf);
  std::int64_t words = 0;
  for (const Instr& i : p.instrs) {
    if (i.kind == Kind::columns) words += slots * kLeaf * element_bytes(i.type) / 4;
  }
  if (words > kMostSumWords) return;
  divide_rows(l, p.rows(), std::min(kGroupBlocks, l.groups));
  l.chunk_warps = static_cast<int>(std::min<std::int64_t>(8, l.group_rows / kChunkRows));
  l.slots = slots;
  l.threads = l.bound_threads = 32 * l.chunk_warps;
  l.bound_blocks = kWarpsOfSums / l.chunk_warps;
}

// Warps with as equal shares of a row's segments as can be.
void divide_row(Layout& l, std::int64_t columns, std::int64_t most_warps) {
  const std::int64_t rounds = std::max<std::int64_t>(1, pieces(l.segments, most_warps));
  const std::int64_t warps = std::max<std::int64_t>(1, pieces(l.segments, rounds));
  l.threads = static_cast<int>(32 * warps);
  l.slots = l.segments == 1 ? pieces(columns, 32 * kLeaf) : kLeaves * rounds;
  l.bound_threads = warps <= 8 ? 256 : warps <= 16 ? 512 : 1024;
  l.bound_blocks = warps <= 8 ? 4 : warps <= 16 ? 2 : 1;
}

}  // namespace

Access Layout::access(const Strides& strides, DType dtype) const {
  if (!vectors) return Access::each;
  const std::int64_t inner = strides_along(line(), strides);
  if (inner == 0) return Access::one;
  return inner == 1 && static_cast<std::size_t>(width) * size_of(dtype) >= 8 ? Access::pack : Access::each;
}

bool Layout::may_align(const Strides& strides, DType dtype) const {
  const auto bytes = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t step = std::min<std::int64_t>(16, width * bytes);
  for (const Walk* w : {&elements, &rows, &columns}) {
    if (mapping == Mapping::elements && w == &columns) continue;
    for (std::size_t d = 0; d < w->sizes.size(); ++d) {
      if (w == &line() && d + 1 == w->sizes.size()) continue;
      if (strides[w->last[d]] * bytes % step != 0) return false;
    }
  }
  return true;
}

Layout layout_of(const Program& p, const GpuLimits& limits) {
  Layout l;
  const int dims = static_cast<int>(p.dims.size()), row_dims = dims - p.row_dims;
  const std::int64_t rows = p.rows(), columns = p.columns();
  l.full = std::any_of(p.instrs.begin(), p.instrs.end(), [](const Instr& i) { return i.level == Level::full; });
  l.mapping = mapping_of(p, l.full);
  if (l.mapping == Mapping::elements) {
    l.elements = make_walk(p, 0, l.full ? dims : row_dims, "e", "e");
  } else {
    l.rows = make_walk(p, 0, row_dims, "row", "r");
  }
  l.columns = make_walk(p, row_dims, dims, "col", "c");

  const bool totals = has_kind(p, Kind::total);
  const std::int64_t n = l.mapping == Mapping::elements ? (l.full ? rows * columns : rows) : columns;
  // Sums need leaves; whatever else there is takes 16 bytes at once.
  const bool free_width = l.mapping == Mapping::columns || (l.mapping == Mapping::elements && !totals);
  if (free_width) {
    // Many arrays of four bytes an element, as an optimiser has, take too many registers otherwise.
    std::size_t wide = 0, narrow = 0;
    const auto count = [&](DType d) { ++(size_of(d) >= 4 ? wide : narrow); };
    for (const Operand& o : p.operands) {
      if (o.kind == Operand::Kind::memory) count(o.dtype);
    }
    for (const Output& o : p.outputs) count(o.dtype);
    if (narrow == 0 || (l.mapping == Mapping::elements && wide >= kManyWide)) l.width = 4;
  }
  const std::vector<std::int64_t>& sizes = l.line().sizes;
  l.vectors = sizes.size() < 2 || sizes.back() % l.width == 0;
  if (!l.vectors && free_width) {
    l.width = 1;
    l.vectors = true;
  }
  l.tails = n % l.width != 0;
  l.small = n < (std::int64_t{1} << 31) - 2 * kSegment;

  if (l.mapping == Mapping::elements) {
    // A block has a chunk: segments l, l + 32, ... l + 224 of a group, for one l.
    l.segments = pieces(n, kSegment);
    const std::int64_t rest = l.segments % kGroup;
    l.parts = l.segments / kGroup * (kGroup / kChunk) + (rest <= 32 ? rest : pieces(rest, 32 * kChunk) * 32);
    l.blocks = blocks_for(totals ? l.parts : pieces(n, kThreads * l.width));
    return l;
  }
  l.parts = rows;
  l.segments = pieces(columns, kSegment);
  if (l.mapping == Mapping::row_groups || l.mapping == Mapping::columns) {
    divide_rows(l, rows,
                l.mapping == Mapping::columns ? kColumnThreads / std::max<std::int64_t>(1, pieces(columns, l.width))
                                              : kColumnWords / std::max<std::int64_t>(1, columns));
  }
  if (l.mapping == Mapping::columns) {
    l.blocks = blocks_for(pieces(pieces(columns, l.width) * l.groups, kThreads));
    return l;
  }
  if (l.mapping == Mapping::lanes_per_row) {
    const auto leaves = static_cast<unsigned>(pieces(columns, kLeaf));
    l.lanes = leaves <= 1 ? 1 : static_cast<int>(std::min(32u, std::bit_ceil(leaves)));
    l.slots = l.lanes < 32 ? 1 : pieces(columns, 32 * kLeaf);
    lay_rows_on_chip(p, limits, l);
    l.blocks = blocks_for(pieces(rows, kThreads / l.lanes));
  } else if (l.mapping == Mapping::row_groups && (divide_group(p, columns, l), l.chunk_warps > 0)) {
    lay_rows_on_chip(p, limits, l);
    l.blocks = blocks_for(l.groups);
  } else {
    l.long_row = l.segments > kGroup;
    l.parts_room = l.segments > 128 ? kGroup : l.segments > 8 ? 128 : 8;
    divide_row(l, columns, l.segments <= 64 ? 16 : 32);
    Layout on_chip = l;
    lay_rows_on_chip(p, limits, on_chip);
    if (2 * on_chip.row_bytes > limits.shared_of_multiprocessor) {  // one block on a multiprocessor has all its warps
      divide_row(l, columns, 32);
      on_chip = l;
      lay_rows_on_chip(p, limits, on_chip);
    }
    l = on_chip;
    l.blocks = l.mapping == Mapping::row_groups
                   ? blocks_for(l.groups)
                   : static_cast<unsigned>(std::clamp<std::int64_t>(rows, 1, kMostBlocksOfRows));
  }
  // Rows of three blocks that fit beside each other overlap better than those of two.
  const std::int64_t shared = l.row_bytes + (l.kept_on_chip ? l.kept_bytes : 0) + kSharedOfText;
  if (!l.staged.empty() && l.bound_threads == 512 && 3 * shared <= limits.shared_of_multiprocessor) l.bound_blocks = 3;
  return l;
}

}  // namespace ebb::cuda
