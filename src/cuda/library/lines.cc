// SPDX-License-Identifier: MIT
// cat and pad_zero, argmax and argmin, scans and recurrences: work along one axis.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <optional>
#include <vector>

#include "core/ceil_div.h"
#include "core/divisor.h"
#include "core/format_error.h"
#include "cuda/kernels/args/join.h"
#include "cuda/kernels/args/lines.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/index_parts.h"
#include "cuda/library/kernels.h"
#include "cuda/runtime/copy.h"

namespace ebb::cuda {
namespace {

// The part of v from `start` on along the axis, in the shape of `like`.
View part(const View& v, int axis, std::int64_t start, const Shape& shape) {
  View p = v;
  p.data = element_at(v, start * v.strides[axis]);
  p.shape = shape;
  return p;
}

// Whether neighbours along the axis are neighbours in memory, in either direction.
bool lies_side_by_side(const View& x, int axis) {
  return x.strides[axis] == 1 || x.strides[axis] == -1 || x.shape.numel() == x.shape[axis];
}

// Or near enough that a warp's loads share the bytes of memory they move.
bool lies_close(const View& lines, int axis, std::int64_t length, const GpuModel& model) {
  return std::abs(lines.strides[axis]) <= model.close_elements || lines.shape.numel() == 1 || length == 1;
}

// A part of a result along the axis; without data zeros.
struct Joined {
  View x;
  std::int64_t size;
};

// The dimensions [from, to) as one, if they follow each other evenly: its step, 0 where there is one element at most.
std::optional<std::int64_t> step_over(const View& x, int from, int to) {
  std::int64_t step = 0, count = 1;
  for (int d = to - 1; d >= from; --d) {
    if (x.shape[d] == 1) continue;
    if (count == 1) {
      step = x.strides[d];
    } else if (x.strides[d] != step * count) {
      return {};
    }
    count *= x.shape[d];
  }
  return step;
}

template <int most>
void launch_join(Gpu& gpu, const JoinArgs<kMostJoined>& all, std::size_t unit) {
  JoinArgs<most> args{.of = {},
                      .out = all.out,
                      .n = all.n,
                      .columns = all.columns,
                      .inner = all.inner,
                      .count = all.count,
                      .aligned = all.aligned,
                      .by_columns = all.by_columns,
                      .of_columns = all.of_columns,
                      .by_inner = all.by_inner,
                      .of_inner = all.of_inner};
  std::copy_n(all.of, most, args.of);
  const auto each = static_cast<std::int64_t>(16 / unit);
  launch_elements(gpu, {fmt::format("constexpr int kMost = {};\n", most) + word_text(unit) + texts::join}, "join",
                  (args.n + each - 1) / each, args);
}

// Rows of a dense result, made of parts, by one launch. False where their strides do not allow it.
bool join_parts(Gpu& gpu, const View& out, int axis, const std::vector<Joined>& parts) {
  const int rank = out.shape.rank();
  if (!is_contiguous(out.shape, out.strides) || parts.size() > kMostJoined) return false;
  if (out.shape.numel() == 0) return true;
  JoinArgs<kMostJoined> args{};
  args.inner = inner_of(out.shape, axis);
  args.columns = args.inner * out.shape[axis];
  args.n = out.shape.numel();
  args.out = static_cast<char*>(out.data);
  std::int64_t first = 0;
  for (const Joined& part : parts) {
    if (part.size == 0) continue;
    JoinPart& p = args.of[args.count++];
    p.first = first;
    first += part.size * args.inner;
    p.column = 1;
    if (!part.x.data) continue;
    const auto row = step_over(part.x, 0, axis), column = step_over(part.x, axis, rank),
               behind = step_over(part.x, axis + 1, rank);
    if (!row || !behind) return false;
    p.data = static_cast<const char*>(part.x.data);
    p.row = *row;
    p.column = column ? *column : *behind;
    p.lines = !column;
    p.axis = part.x.strides[axis];
  }
  // In wider words where everything lies in such.
  std::size_t unit = size_of(out.dtype);
  const auto can_double = [&] {
    const auto far = [&](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % (2 * unit) != 0; };
    if (unit == 16 || args.columns % 2 != 0 || far(args.out)) return false;
    return std::all_of(args.of, args.of + args.count, [&](const JoinPart& p) {
      return p.first % 2 == 0 && (!p.data || (p.column == 1 && !p.lines && p.row % 2 == 0 && !far(p.data)));
    });
  };
  for (; can_double(); unit *= 2) {
    args.columns /= 2, args.n /= 2;
    for (JoinPart& p : args.of) p.first /= 2, p.row /= 2;
  }
  args.aligned = reinterpret_cast<std::uintptr_t>(args.out) % 16 == 0;
  const Divisor columns = divisor_of(args.columns), inner = divisor_of(args.inner);
  args.by_columns = columns.factor, args.of_columns = columns.shift;
  args.by_inner = inner.factor, args.of_inner = inner.shift;
  if (args.count <= 2) {
    launch_join<2>(gpu, args, unit);
  } else if (args.count <= 4) {
    launch_join<4>(gpu, args, unit);
  } else {
    launch_join<kMostJoined>(gpu, args, unit);
  }
  return true;
}

}  // namespace

void run_cat(const LibraryCall& call, Gpu& gpu) {
  std::int64_t start = 0;
  const int axis = axis_of(call);
  // Consecutive dense pieces: one launch, however many there are.
  bool dense = true;
  for (int d = 0; d < axis; ++d) dense &= call.outputs[0].shape[d] == 1;
  for (const View& x : call.inputs) dense &= is_contiguous(x.shape, x.strides);
  if (dense) {
    std::vector<CopyCall> copies;
    auto* to = static_cast<std::byte*>(call.outputs[0].data);
    for (const View& x : call.inputs) {
      const std::size_t bytes = static_cast<std::size_t>(x.shape.numel()) * size_of(x.dtype);
      if (bytes) copies.push_back({to, x.data, bytes});
      to += bytes;
    }
    return copy_bytes(gpu, copies);
  }
  std::vector<Joined> parts;
  for (const View& x : call.inputs) parts.push_back({x, x.shape[axis]});
  if (join_parts(gpu, call.outputs[0], axis, parts)) return;
  for (const View& x : call.inputs) {
    copy_elements(gpu, part(call.outputs[0], axis, start, x.shape), x);
    start += x.shape[axis];
  }
}

void run_pad_zero(const LibraryCall& call, Gpu& gpu) {
  const View &x = call.inputs[0], &out = call.outputs[0];
  const int axis = axis_of(call);
  const std::int64_t before = call.attrs.i[1], end = before + x.shape[axis], after = out.shape[axis] - end;
  // Mostly zeros, in long pieces: memory is cleared at its full rate, and few words are written twice.
  const std::int64_t inner = inner_of(out.shape, axis), size = static_cast<std::int64_t>(size_of(out.dtype));
  if (is_contiguous(out.shape, out.strides) && (before + after) * inner * size >= gpu.model().cleared_piece &&
      out.shape.numel() >= gpu.model().cleared_per_element * x.shape.numel()) {
    clear_elements(gpu, out);
    if (x.shape.numel() > 0) copy_elements(gpu, part(out, axis, before, x.shape), x);
    return;
  }
  if (join_parts(gpu, out, axis, {{{}, before}, {x, x.shape[axis]}, {{}, after}})) return;
  if (out.shape.rank() == 2 && before == 0) return copy_padded(gpu, out, x);
  copy_elements(gpu, part(out, axis, before, x.shape), x);
  clear_elements(gpu, part_of(out, axis, 0, before));
  clear_elements(gpu, part_of(out, axis, end, after));
}

namespace {

// Lanes that take a line of those that lie close; 0: a block does.
std::int64_t lanes_of_line(std::int64_t length, std::int64_t count, const GpuModel& model) {
  const std::int64_t threads = model.best_tasks * kThreads;
  if (length > (32 * count < threads ? model.short_best_line : model.longest_lane_line)) return 0;
  std::int64_t lanes = 1;
  while (lanes < 32 && lanes < length && (length > lanes * model.best_lane_elements || count * lanes < threads))
    lanes *= 2;
  return lanes;
}

}  // namespace

void run_arg(const LibraryCall& call, Gpu& gpu) {
  const View x = at_least_1d(call.inputs[0]);
  const int axis = axis_of(call);
  const Shape lines = x.shape.with(axis, 1);
  require(x.shape[axis] > 0 || lines.numel() == 0, "{}: axis {} of {} is empty and has no such element", label_of(call),
          axis, x.shape);
  if (lines.numel() == 0) return;
  const std::string types = element_text(x.dtype) + fmt::format("constexpr bool kFloating = {}, kLargest = {};\n",
                                                                is_floating(x.dtype), call.op == Op::argmax);
  View first = x;
  first.shape = lines;
  const KernelSource source{types + texts::best_of_lines};
  const std::int64_t length = x.shape[axis], count = lines.numel();
  const GpuModel& model = gpu.model();
  const bool beside = lies_close(first, axis, length, model);
  const std::int64_t lanes = beside ? lanes_of_line(length, count, model) : 0;
  // Enough pieces for all of a large GPU's threads, none of them short.
  const std::int64_t wanted = model.best_tasks * (beside ? 1 : kThreads) / count;
  const std::int64_t least = beside ? model.best_piece : model.best_strip;
  const std::int64_t pieces = std::clamp<std::int64_t>(std::min(wanted, length / least), 1, model.most_best_pieces);
  BestArgs args{.x = kernel_view(first),
                .out = elements<i64>(call.outputs[0]),
                .length = length,
                .step = x.strides[axis],
                .piece = beside ? ceil_div(ceil_div(length, pieces), kThreads) * kThreads : ceil_div(length, pieces),
                .pieces = 1,
                .places = nullptr,
                .lane_bits = lanes > 0 ? std::countr_zero(static_cast<std::uint64_t>(lanes)) : 0};
  if (lanes > 0) return launch_elements(gpu, source, "best_of_short_lines", count * lanes, args);
  args.pieces = (length + args.piece - 1) / args.piece;
  BufferPtr keep;
  if (args.pieces > 1)
    args.places = elements<i64>(workspace(gpu, DType::i64, Shape{count * args.pieces}, keep, label_of(call)));
  if (beside) {
    launch_blocks(gpu, source, "best_of_pieces", count * args.pieces, args);
  } else {
    launch_elements(gpu, source, "best_of_strips", count * args.pieces, args);
  }
  if (args.pieces == 1) return;
  if (args.pieces <= model.few_best_pieces) return launch_elements(gpu, source, "best_of_few", count, args);
  launch_blocks(gpu, source, "best_of_best", count, args);
}

namespace {

// T and A of elements, and S, the type for adding or comparing.
std::string scan_text(DType dtype) {
  const bool real = is_floating(dtype);
  return element_text(dtype) +
         fmt::format("typedef {} S;\nconstexpr bool kFloating = {};\n", real ? "f64" : "i64", real);
}

// `lines` and `results` are the first elements of the lines.
ScannedLines scanned_lines(const LibraryCall& call, const View& lines, const View& results, std::int64_t pieces) {
  const int axis = axis_of(call);
  return {.x = kernel_view(lines),
          .out = kernel_view(results),
          .length = at_least_1d(call.inputs[0]).shape[axis],
          .x_step = lines.strides[axis],
          .out_step = results.strides[axis],
          .start = call.op == Op::cumprod ? 1 : 0,
          .pieces = pieces};
}

// Interleaved lines: in one pass, by as many threads as a line has elements, or by chunks.
void scan_by_blocks(const LibraryCall& call, Gpu& gpu, const std::string& text, const View& lines,
                    const View& results) {
  const View x = at_least_1d(call.inputs[0]);
  const int axis = axis_of(call);
  const std::int64_t length = x.shape[axis], count = lines.shape.numel(), pieces = ceil_div(length, kSumPiece),
                     chunk = kSumPiece * ceil_div(pieces, kSumChunks), chunks = ceil_div(length, chunk);
  ScanOnceArgs args{scanned_lines(call, lines, results, pieces), chunk, chunks, nullptr, nullptr};
  unsigned threads = 32;
  while (threads < kThreads && threads * kSumEach < length) threads *= 2;
  const std::string sizes = fmt::format("constexpr int kScanThreads = {};\nconstexpr bool kForward = {};\n", threads,
                                        args.x_step == 1 && args.out_step == 1);
  const KernelSource source{text + sizes + texts::scan_once};
  BufferPtr keep;
  if (pieces > kSumGroup) {
    args.totals = elements<u64>(workspace(gpu, DType::i64, Shape{count * chunks}, keep, label_of(call)));
    launch_blocks(gpu, source, "sum_chunks", count * chunks, args);
    launch_blocks(gpu, source, "scan_chunks", count * chunks, args);
    return;
  }
  if (pieces > 1) {
    const View words = workspace(gpu, DType::i64, Shape{2 * count * pieces + 1}, keep, label_of(call));
    gpu.clear(words.data, static_cast<std::size_t>(words.shape.numel()) * sizeof(u64));
    args.totals = elements<u64>(words) + 1;
    args.next = elements<u32>(words);
  }
  launch_blocks(gpu, source, "scan_once", count * pieces, args, 0, threads);
}

}  // namespace

void run_scan(const LibraryCall& call, Gpu& gpu) {
  const View x = at_least_1d(call.inputs[0]), out = at_least_1d(call.outputs[0]);
  if (x.shape.numel() == 0) return;
  const int axis = axis_of(call);
  const bool places = call.op == Op::cummax_place || call.op == Op::cummin_place;
  const std::string text =
      scan_text(x.dtype) +
      (places ? fmt::format("constexpr bool kLargest = {};\n", call.op == Op::cummax_place)
              : fmt::format("constexpr bool kAdds = {}, kHalf = {};\n", call.op == Op::cumsum, is_half(x.dtype)));
  View lines = x, results = out;
  lines.shape = results.shape = x.shape.with(axis, 1);
  const std::int64_t length = x.shape[axis], count = lines.shape.numel();
  const bool beside = lies_side_by_side(x, axis) && (places || length > kSumAlone);
  if (beside && !places) return scan_by_blocks(call, gpu, text, lines, results);
  // Places have no rounding that a division could change: the fewer lines, the shorter their strips.
  const GpuModel& model = gpu.model();
  std::int64_t strip = kScanStrip;
  while (places && strip > model.shortest_scan_strip && count * ceil_div(length, strip) < model.scan_threads)
    strip /= 2;
  const KernelSource source{places ? text + fmt::format("constexpr int kStrip = {};\n", strip) + texts::scan_places
                                   : text + texts::scan};
  const std::int64_t piece = beside ? kScanPiece : strip, pieces = ceil_div(length, piece);
  ScanArgs args{scanned_lines(call, lines, results, pieces), nullptr};
  BufferPtr keep;
  const auto over_pieces = [&](const char* of_block, const char* of_thread) {
    beside ? launch_blocks(gpu, source, of_block, count * pieces, args)
           : launch_elements(gpu, source, of_thread, count * pieces, args);
  };
  if (pieces > 1) {
    args.sums = elements<u64>(workspace(gpu, DType::i64, Shape{count * (pieces + 1)}, keep, label_of(call)));
    over_pieces("best_of_pieces", places ? "best_of_strips" : "sum_strips");
    if (!beside && pieces <= kFewStrips) {
      launch_elements(gpu, source, places ? "best_before_few" : "scan_few_sums", count, args);
    } else {
      launch_blocks(gpu, source, places ? "best_before_pieces" : "scan_sums", count, args);
    }
  }
  over_pieces("places_of_pieces", places ? "places_of_strips" : "scan_strips");
}

void run_recurrence(const LibraryCall& call, Gpu& gpu) {
  View g = at_least_1d(call.inputs[0]), factors = at_least_1d(call.inputs[1]), out = at_least_1d(call.outputs[0]);
  if (g.shape.numel() == 0) return;
  const int axis = axis_of(call);
  const std::int64_t length = g.shape[axis];
  g.shape = factors.shape = out.shape = g.shape.with(axis, 1);
  const bool blocks = length > kSumAlone && lies_close(factors, axis, length, gpu.model());
  // A line that one block holds is read once; longer ones are divided among blocks of the usual size.
  const bool runs = call.op == Op::scatter_zero_add;
  const std::int64_t held = kHeldLineBytes / static_cast<std::int64_t>(size_of(g.dtype)) / (runs ? 1 : 2);
  std::int64_t most = kThreads;
  while (most < kLongLineThreads && 2 * most * kCarryEach <= held) most *= 2;
  if (!blocks || most * kCarryEach < length) most = kThreads;
  std::int64_t threads = 32;
  while (threads < most && (!blocks || threads * kCarryEach < length)) threads *= 2;
  const std::int64_t strip = length <= kScanStrip ? kScanStrip : kScanStrip / 4;
  const std::int64_t pieces = ceil_div(length, blocks ? kCarryEach * threads : strip), tasks = g.shape.numel() * pieces;
  RecurrenceArgs args{.factors = kernel_view(factors),
                      .g = kernel_view(g),
                      .out = kernel_view(out),
                      .length = length,
                      .factor_step = factors.strides[axis],
                      .g_step = g.strides[axis],
                      .out_step = out.strides[axis],
                      .pieces = pieces,
                      .carries = nullptr,
                      .products = nullptr};
  const KernelSource source{element_text(g.dtype) +
                            fmt::format("constexpr int kLineThreads = {}, kStrip = {};\n"
                                        "constexpr bool kHalf = {}, kRuns = {};\n",
                                        threads, strip, is_half(g.dtype), runs) +
                            texts::recurrence};
  const auto over_pieces = [&](const char* of_block, const char* of_thread) {
    blocks ? launch_blocks(gpu, source, of_block, tasks, args, 0, static_cast<unsigned>(threads))
           : launch_elements(gpu, source, of_thread, tasks, args);
  };
  BufferPtr kept_carries, kept_products;
  if (pieces > 1) {
    args.carries = elements<f64>(workspace(gpu, DType::f64, Shape{tasks}, kept_carries, label_of(call)));
    args.products = elements<f64>(workspace(gpu, DType::f64, Shape{tasks}, kept_products, label_of(call)));
    over_pieces("carries_of_pieces", "carries_of_strips");
    launch_blocks(gpu, source, "add_carries", g.shape.numel(), args);
  }
  over_pieces("results_of_pieces", "results_of_strips");
}

}  // namespace ebb::cuda
