// argsort: see kernels/sort.cuh.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "cuda/kernels/args/sort.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

KernelSource sort_source(DType dtype, bool descending, bool narrow) {
  return {element_text(dtype) +
          fmt::format("typedef {} P;\nconstexpr bool kDescending = {}, kFloating = {};\n", narrow ? "u32" : "i64",
                      descending, is_floating(dtype)) +
          texts::sort};
}

}  // namespace

void run_argsort(const LibraryCall& call, Gpu& gpu) {
  const View x = at_least_1d(call.inputs[0]), out = at_least_1d(call.outputs[0]);
  const auto axis = static_cast<int>(call.attrs.i[0]);
  const bool descending = call.attrs.i[1] != 0;
  const std::int64_t first = call.attrs.i[2], count = call.attrs.i[3];
  if (count == 0) return argsort(gpu, x, axis, descending, out);
  BufferPtr keep;  // a range: of the whole order
  const View order = workspace(gpu, DType::i64, x.shape, keep, "argsort");
  argsort(gpu, x, axis, descending, order);
  copy_elements(gpu, out, part_of(order, axis, first, count));
}

void argsort(Gpu& gpu, const View& x, int axis, bool descending, const View& out) {
  const std::int64_t n = x.shape.numel(), length = n ? x.shape[axis] : 0;
  if (n == 0) return;
  const bool narrow = length <= std::int64_t{1} << 31;
  const KernelSource source = sort_source(x.dtype, descending, narrow);
  View lines = x, results = out;
  lines.shape = results.shape = x.shape.with(axis, 1);
  const auto whole = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(length)));
  const std::int64_t piece = std::min<std::int64_t>(kSortPiece, whole), pieces = (length + piece - 1) / piece;
  struct Runs {
    BufferPtr kept_keys, kept_places;
    void *keys = nullptr, *places = nullptr;
  } from, to, none;
  const auto allocate = [&](Runs& r) {
    r.keys = dense(x, x.dtype, r.kept_keys, gpu, "argsort").data;
    r.places = dense(x, narrow ? DType::i32 : DType::i64, r.kept_places, gpu, "argsort").data;
  };
  const auto args = [&](int run_bits, const Runs& given, const Runs& made) {
    return SortArgs<void, void>{.x = kernel_view(lines),
                                .out = kernel_view(results),
                                .length = length,
                                .x_step = x.strides[axis],
                                .out_step = out.strides[axis],
                                .piece = piece,
                                .pieces = pieces,
                                .run_bits = run_bits,
                                .keys = given.keys,
                                .places = given.places,
                                .keys_to = made.keys,
                                .places_to = made.places};
  };
  if (pieces > 1) allocate(to);
  const std::int64_t of_block = kSortPiece / piece;
  launch_blocks(gpu, source, "sort_pieces", (lines.shape.numel() * pieces + of_block - 1) / of_block,
                args(0, none, to));
  // Where there is little to do, launches are what takes time; otherwise searches are, of which four ways need half as
  // many as sixteen.
  const unsigned most = n <= 1 << 17 ? kSortWays : 4;
  int run_bits = std::countr_zero(static_cast<std::uint64_t>(piece));
  for (std::int64_t runs = pieces; runs > 1;) {
    const unsigned ways = std::bit_ceil(static_cast<unsigned>(std::min<std::int64_t>(runs, most)));
    runs = (runs + ways - 1) / ways;
    std::swap(from, to);
    if (runs > 1 && !to.keys) allocate(to);
    launch_blocks(gpu, source, "merge_runs", (n + 31) / 32, args(run_bits, from, runs > 1 ? to : none), 0, 32 * ways);
    run_bits += std::countr_zero(ways);
  }
}

}  // namespace ebb::cuda
