// SPDX-License-Identifier: MIT
#include "cuda/library/kernels.h"
#include "calls/factors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include "core/divisor.h"
#include "core/format_error.h"
#include "cuda/kernels/args/elements.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/library.h"
#include "cuda/print/expression.h"

namespace ebb::cuda {

KernelView kernel_view(const View& view) {
  static_assert(std::extent_v<decltype(KernelView::size)> == Shape::kMaxRank);
  KernelView v{static_cast<char*>(view.data), view.shape.numel(), {}, {}, {}, {}};
  std::fill(std::begin(v.size), std::end(v.size), 1);
  int first = Shape::kMaxRank;  // contiguous dimensions are merged: each costs a division
  for (int d = view.shape.rank() - 1; d >= 0; --d) {
    if (view.shape[d] == 1) continue;
    if (first < Shape::kMaxRank && view.strides[d] == v.stride[first] * v.size[first]) {
      v.size[first] *= view.shape[d];
    } else {
      v.size[--first] = view.shape[d];
      v.stride[first] = view.strides[d];
    }
  }
  for (int d = first; d < Shape::kMaxRank; ++d) {
    const Divisor by = divisor_of(v.size[d]);
    v.factor[d] = by.factor;
    v.shift[d] = by.shift;
  }
  return v;
}

std::string element_text(DType dtype) {
  const RegType type = dtype == DType::bool_ ? RegType::i32 : reg_type(dtype);
  return fmt::format(
      "typedef {} T;\ntypedef {} A;\nEBB A load(T x) {{ return {}; }}\nEBB T store(A x) {{ return {}; }}\n",
      memory_text(dtype), type_text(type), loaded("x", dtype, type), stored("x", type, dtype));
}

std::string bits_text(DType dtype) { return fmt::format("typedef u{} T;\n", 8 * size_of(dtype)); }

std::string word_text(std::size_t bytes) {
  return bytes < 16 ? fmt::format("typedef u{} T;\n", 8 * bytes) : "typedef Words4 T;\n";
}

void launch_blocks(Gpu& gpu, const KernelSource& source, const char* kernel, std::int64_t blocks,
                   const KernelArgs& args, std::int64_t shared, unsigned threads) {
  gpu.launch(gpu.kernel(source, kernel),
             static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, gpu.model().most_blocks)), args.words(), threads,
             static_cast<unsigned>(shared));
}
void launch_elements(Gpu& gpu, const KernelSource& source, const char* kernel, std::int64_t n, const KernelArgs& args) {
  if (n > 0) launch_blocks(gpu, source, kernel, (n + kThreads - 1) / kThreads, args);
}

namespace {

// Copies by tiles, if the memory of the two views has other dimensions innermost, both long enough to be read and
// written in whole sectors; false if not.
bool copy_by_tiles(Gpu& gpu, const View& to, const View& from, std::size_t unit) {
  const auto dense = [](const View& v) {
    for (int d = 0; d < v.shape.rank(); ++d) {
      if (v.strides[d] == 1) return d;
    }
    return -1;
  };
  const int inner = dense(to), outer = dense(from);
  const std::int64_t least = gpu.model().shortest_tile_side;
  if (inner < 0 || outer < 0 || inner == outer || unit > 8 || to.shape[inner] < least || to.shape[outer] < least)
    return false;
  View rest_to = to, rest_from = from;
  for (const int d : {inner, outer}) rest_to.shape = rest_from.shape = rest_to.shape.with(d, 1);
  CopyTilesArgs args{.to = kernel_view(rest_to),
                     .from = kernel_view(rest_from),
                     .size_to = to.shape[inner],
                     .tile_to = std::min<std::int64_t>(to.shape[inner], 64),
                     .from_step = from.strides[inner],
                     .size_from = to.shape[outer],
                     .to_step = to.strides[outer]};
  // Longer in one direction where the other one is short.
  args.tile_from = std::min<std::int64_t>(args.size_from, (kCopyTile / args.tile_to - 1) & ~std::int64_t{31});
  args.tiles_to = (args.size_to + args.tile_to - 1) / args.tile_to;
  args.tiles_from = (args.size_from + args.tile_from - 1) / args.tile_from;
  launch_blocks(gpu, {word_text(unit) + texts::copy_tiles}, "copy_tiles", args.to.n * args.tiles_to * args.tiles_from,
                args);
  return true;
}

}  // namespace

// In words of up to 16 bytes, and over as few dimensions as the strides allow: indices cost more than the copy itself.
void copy_elements(Gpu& gpu, const View& to, const View& from) {
  // In the order of the result's memory, whatever the views call their dimensions: neighbours write neighbours.
  std::vector<int> order(static_cast<std::size_t>(to.shape.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return std::abs(to.strides[a]) > std::abs(to.strides[b]); });
  std::vector<std::int64_t> sizes;
  Strides there{}, here{};
  for (const int d : order) {
    const std::int64_t n = to.shape[d];
    if (n == 1) continue;
    const auto last = static_cast<int>(sizes.size()) - 1;
    if (last >= 0 && there[last] == n * to.strides[d] && here[last] == n * from.strides[d]) {
      sizes.back() *= n, there[last] = to.strides[d], here[last] = from.strides[d];
    } else {
      sizes.push_back(n), there[last + 1] = to.strides[d], here[last + 1] = from.strides[d];
    }
  }
  std::size_t unit = size_of(to.dtype);
  const auto rank = static_cast<int>(sizes.size());
  const auto can_double = [&] {
    if (unit == 16 || rank == 0 || there[rank - 1] != 1 || here[rank - 1] != 1 || sizes.back() % 2 != 0) return false;
    for (int d = 0; d + 1 < rank; ++d) {
      if (there[d] % 2 != 0 || here[d] % 2 != 0) return false;
    }
    return (reinterpret_cast<std::uintptr_t>(to.data) | reinterpret_cast<std::uintptr_t>(from.data)) % (2 * unit) == 0;
  };
  for (; can_double(); unit *= 2) {
    sizes.back() /= 2;
    for (int d = 0; d + 1 < rank; ++d) there[d] /= 2, here[d] /= 2;
  }
  constexpr std::size_t kPack = 16;  // bytes
  if (unit < kPack && rank > 0 && there[rank - 1] == 1 && here[rank - 1] == 1 && sizes.back() >= 16) {
    const auto each = static_cast<std::int64_t>(kPack / unit), length = sizes.back();
    sizes.back() = 1;
    const Shape rows(sizes);
    const std::int64_t packs = (length + each - 1) / each;
    return launch_elements(gpu, {word_text(unit) + texts::copy_rows}, "copy_rows", rows.numel() * packs,
                           CopyRowsArgs{.to = kernel_view({to.data, to.dtype, rows, there}),
                                        .from = kernel_view({from.data, from.dtype, rows, here}),
                                        .length = length,
                                        .room = length,
                                        .packs = packs});
  }
  const Shape shape(sizes);
  if (copy_by_tiles(gpu, {to.data, to.dtype, shape, there}, {from.data, from.dtype, shape, here}, unit)) return;
  launch_elements(gpu, {word_text(unit) + texts::copy}, "copy", (shape.numel() + 3) / 4,
                  CopyArgs{.to = kernel_view({to.data, to.dtype, shape, there}),
                           .from = kernel_view({from.data, from.dtype, shape, here})});
}

void copy_padded(Gpu& gpu, const View& to, const View& from) {
  const std::int64_t rows = from.shape[0], length = from.shape[1], room = to.shape[1];
  const View above = part_of(to, 0, 0, rows);
  if (rows * room > 0 && to.strides[1] == 1 && from.strides[1] == 1 && size_of(to.dtype) < 16) {
    const auto each = static_cast<std::int64_t>(16 / size_of(to.dtype)), packs = (room + each - 1) / each;
    const auto first_of = [&](View v) {
      v.shape = Shape{rows, 1};
      return kernel_view(v);
    };
    launch_elements(
        gpu, {word_text(size_of(to.dtype)) + texts::copy_rows}, "copy_rows", rows * packs,
        CopyRowsArgs{.to = first_of(to), .from = first_of(from), .length = length, .room = room, .packs = packs});
  } else {
    copy_elements(gpu, part_of(above, 1, 0, length), from);
    clear_elements(gpu, part_of(above, 1, length, room - length));
  }
  clear_elements(gpu, part_of(to, 0, rows, to.shape[0] - rows));
}

void clear_elements(Gpu& gpu, const View& to) {
  if (to.shape.numel() == 0) return;
  if (is_contiguous(to.shape, to.strides))
    return gpu.clear(to.data, static_cast<std::size_t>(to.shape.numel()) * size_of(to.dtype));
  BufferPtr keep;
  View zero = workspace(gpu, to.dtype, Shape{1}, keep, "zeros");
  gpu.clear(zero.data, size_of(to.dtype));
  zero.shape = to.shape;
  zero.strides = {};
  copy_elements(gpu, to, zero);
}

void scale_elements(Gpu& gpu, const View& data, const View& factor) {
  require(is_contiguous(data.shape, data.strides) && is_floating(data.dtype) && is_floating(factor.dtype),
          "internal: dense floats are scaled");
  const std::string types =
      element_text(data.dtype) + fmt::format("typedef {} F;\nEBB A factor_of(const F* at) {{ return (A)({}); }}\n",
                                             memory_text(factor.dtype),
                                             loaded("(*at)", factor.dtype, reg_type(factor.dtype)));
  const auto width = static_cast<std::int64_t>(16 / size_of(data.dtype));
  launch_elements(gpu, {types + texts::scale}, "scale",
                  std::min<std::int64_t>(data.shape.numel() / width + width, 1 << 19),
                  ScaleArgs<void, void>{.data = data.data, .factor = factor.data, .n = data.shape.numel()});
}

View dense(const View& like, DType dtype, BufferPtr& keep, const Gpu& gpu, const char* what) {
  const Device device{Device::Kind::cuda, static_cast<std::uint8_t>(gpu.index())};
  keep = BufferPtr::allocate(std::max<std::size_t>(1, static_cast<std::size_t>(like.shape.numel()) * size_of(dtype)),
                             what, device);
  return {keep.data(), dtype, like.shape, contiguous_strides(like.shape)};
}

View packed(Gpu& gpu, const View& from, BufferPtr& keep, const char* what) {
  if (is_contiguous(from.shape, from.strides))
    return {from.data, from.dtype, from.shape, contiguous_strides(from.shape)};
  const View to = dense(from, from.dtype, keep, gpu, what);
  copy_elements(gpu, to, from);
  return to;
}

View workspace(const Gpu& gpu, DType dtype, const Shape& shape, BufferPtr& keep, const char* what) {
  return dense({nullptr, dtype, shape, {}}, dtype, keep, gpu, what);
}

View reshaped(const View& dense, const Shape& shape) {
  return {dense.data, dense.dtype, shape, contiguous_strides(shape)};
}

View transposed(View v) {
  const int rank = v.shape.rank();
  const std::int64_t rows = v.shape[rank - 2], columns = v.shape[rank - 1];
  v.shape = v.shape.with(rank - 2, columns).with(rank - 1, rows);
  std::swap(v.strides[rank - 2], v.strides[rank - 1]);
  return v;
}

View part_of(const View& v, int axis, std::int64_t first, std::int64_t count) {
  View part = v;
  part.data = element_at(v, first * v.strides[axis]);
  part.shape = v.shape.with(axis, count);
  return part;
}

void convert_elements(Gpu& gpu, const View& to, const View& from) {
  const RegType type = reg_type(compute_dtype(from.dtype));
  const std::int64_t n = to.shape.numel();
  const auto far = [](const View& v) { return reinterpret_cast<std::uintptr_t>(v.data) % 16 != 0; };
  const bool packs = size_of(to.dtype) > 1 && size_of(from.dtype) > 1, aligned = !far(to) && !far(from);
  const std::string types = fmt::format(
      "typedef {} To;\ntypedef {} From;\nEBB To converted(From x) {{ return {}; }}\nconstexpr bool kPacks = {};\n",
      memory_text(to.dtype), memory_text(from.dtype), stored(loaded("x", from.dtype, type), type, to.dtype), packs);
  launch_elements(gpu, {types + texts::convert}, "convert", packs ? (n + 3) / 4 : n,
                  ConvertArgs<void, void>{.to = to.data, .from = from.data, .n = n, .aligned = aligned});
}

std::byte* element_at(const View& view, std::int64_t offset) {
  return static_cast<std::byte*>(view.data) + offset * static_cast<std::int64_t>(size_of(view.dtype));
}

View at_least_1d(View v) {
  if (v.shape.rank() == 0) v.shape = Shape{1}, v.strides = Strides{};
  return v;
}

// Named as on the CPU: a label is an operation ("embedding") or names the index itself ("nll_loss: target"); the latter
// has no axis where the call picks one element per row.
Complaints check_index(RunMark& mark, const LibraryCall& call, const View& index, std::int64_t size) {
  const Shape shape = index.shape;
  const std::string label = label_of(call);
  const bool named = label.find(": ") != std::string::npos;
  const bool picks = named && (call.op == Op::gather || call.op == Op::scatter_zero_add);
  const std::int64_t axis = call.attrs.i[0];
  const std::uint64_t step = mark.add_step([=](int, std::int64_t position, std::uint64_t bits) {
    std::string where;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      const std::int64_t p = position % shape[d];
      position /= shape[d];
      if (picks && d == axis && shape[d] == 1) continue;
      where = fmt::format("{}{}{}", p, where.empty() ? "" : ", ", where);
    }
    return Error(Error::Kind::index,
                 fmt::format("{}{}{} = {} is outside [0, {})", label, named ? "" : ": index",
                             where.empty() ? "" : "[" + where + "]", static_cast<std::int64_t>(bits), size));
  });
  return {mark.slot(), static_cast<i64>(step)};
}

bool has_library(Op op) { return info(op).cls == OpClass::library; }

void run_library(const LibraryCall& call, Gpu& gpu, const RunMarkPtr& mark) {
  switch (call.op) {
    case Op::matmul:
      return run_matmul(call, gpu);
    case Op::gather:
    case Op::index_select:
      return run_gather(call, gpu, *mark);
    case Op::scatter:
      return run_scatter(call, gpu, *mark);
    case Op::scatter_zero_add:
      return run_scatter_zero_add(call, gpu, *mark);
    case Op::index_zero_add:
      return run_index_zero_add(call, gpu, *mark);
    case Op::cat:
      return run_cat(call, gpu);
    case Op::pad_zero:
      return run_pad_zero(call, gpu);
    case Op::argmax:
    case Op::argmin:
      return run_arg(call, gpu);
    case Op::argsort:
      return run_argsort(call, gpu);
    case Op::searchsorted:
      return run_searchsorted(call, gpu);
    case Op::cumsum:
    case Op::cumprod:
    case Op::cummax_place:
    case Op::cummin_place:
      return run_scan(call, gpu);
    case Op::linear_recurrence:
      return run_recurrence(call, gpu);
    case Op::convolution:
      return run_convolution(call, gpu);
    case Op::conv_transpose:
      return run_conv_transpose(call, gpu);
    case Op::conv_weight_gradient:
      return run_conv_weight_gradient(call, gpu);
    case Op::max_pool_index:
      return run_max_pool_index(call, gpu);
    case Op::window_sum:
      return run_window_sum(call, gpu);
    case Op::window_spread:
      return run_window_spread(call, gpu);
    case Op::weighted_gather:
      return run_weighted_gather(call, gpu, *mark);
    case Op::weighted_scatter:
      return run_weighted_scatter(call, gpu, *mark);
    case Op::gather_dot:
      return run_gather_dot(call, gpu, *mark);
    case Op::grid_sample:
      return run_grid_sample(call, gpu);
    case Op::grid_sample_image_gradient:
      return run_grid_sample_image_gradient(call, gpu);
    case Op::grid_sample_grid_gradient:
      return run_grid_sample_grid_gradient(call, gpu);
    case Op::distances:
      return run_distances(call, gpu);
    case Op::distances_gradient:
      return run_distances_gradient(call, gpu);
    case Op::attention:
      return run_attention(call, gpu);
    case Op::attention_gradient:
      return run_attention_gradient(call, gpu);
    case Op::linear_cross_entropy:
      return run_linear_cross_entropy(call, gpu, *mark);
    case Op::ctc:
      return run_ctc(call, gpu, *mark);
    case Op::transducer:
      return run_transducer(call, gpu, *mark);
    case Op::sparsemax_threshold:
      return run_sparsemax_threshold(call, gpu);
    case Op::multilabel_hinges:
      return run_multilabel_hinges(call, gpu, *mark);
    case Op::cholesky:
      return run_cholesky(call, gpu, *mark);
    case Op::triangular_solve:
      return run_triangular_solve(call, gpu);
    case Op::solve:
      return run_solve(call, gpu, *mark);
    case Op::det:
    case Op::logdet:
      return wants_factors(call.attrs) ? run_factors(call, gpu, *mark) : run_determinant(call, gpu, *mark);
    case Op::collective:
      return run_collective(call, gpu, *mark);
    default:
      fail(Error::Kind::value, "{}: the GPU has no library call for this operation", info(call.op).name);
  }
}

}  // namespace ebb::cuda
