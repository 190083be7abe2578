// SPDX-License-Identifier: MIT
// Rows stream in chunks, as on the CPU (see there for the formulas): their logits are made by a product, become the
// loss and their own gradient, and two more products turn that into dx and dW before the next chunk takes the memory.
//
// Rows that do not count have logits, too: leaving them out would need their number on the host, and so a wait. Their
// rows of x are zeros, and so are their gradients.
//
// Where a product can leave exponentials, rounded logits are never seen in memory: see kernels/scaled_rows.cuh.
//
// With RowUnits a chunk is as many whole units as fit; the loss function gives their cotangents as a graph on this
// device, in the order of the stream. A unit that does not fit on its own is streamed twice.
#include <algorithm>

#include "calls/linear_cross_entropy.h"
#include "core/format_error.h"
#include "cuda/kernels/args/linear_cross_entropy.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/aligned_product.h"
#include "cuda/library/exponential_product.h"
#include "cuda/library/kernels.h"
#include "ebb/tensor.h"
#include "graph/node.h"

#include <fmt/format.h>

namespace ebb::cuda {
namespace {

// At a time, unless the call says how many rows. With fewer rows than some thousands the product that adds to the
// head's gradient would spend its time on reading and writing it.
constexpr std::int64_t kLogitBytes = std::int64_t{1} << 30;
constexpr std::int64_t kMostRows = 4096, kFewestRows = 128;

class LinearCrossEntropy {
 public:
  LinearCrossEntropy(const LibraryCall& call, Gpu& gpu, RunMark& mark)
      : gpu_(gpu),
        o_(options_as<LinearCrossEntropyCall>(call.attrs)),
        units_(static_cast<const RowUnits*>(call.data.get())),
        x_(call.inputs[0]),
        target_(call.inputs[2]),
        losses_(call.outputs[0]),
        dtype_(x_.dtype),
        compute_(compute_dtype(dtype_)),
        rows_(x_.shape[0]),
        width_(x_.shape[1]),
        classes_(call.inputs[1].shape[0]) {
    head_ = packed(gpu, call.inputs[1], keep_head_, kName);
    std::size_t next = 3;
    if (o_.cotangent) cotangent_ = call.inputs[next++];
    if (o_.bias) bias_ = call.inputs[next++];
    if (o_.weight) weight_ = call.inputs[next++];
    further_ = call.inputs.subspan(next);
    next = 1;
    if (o_.input_gradient) dx_ = call.outputs[next++];
    if (o_.head_gradient) dhead_ = call.outputs[next++];
    if (o_.bias_gradient) dbias_ = call.outputs[next++];
    const std::int64_t classes = classes_;
    const std::uint64_t step = mark.add_step([classes](int, std::int64_t row, std::uint64_t bits) {
      return Error(Error::Kind::index, fmt::format("linear_cross_entropy: target[{}] = {} is outside [0, {})", row,
                                                   static_cast<std::int64_t>(bits), classes));
    });
    complaints_ = {mark.slot(), static_cast<i64>(step)};
  }

  void run() {
    if (rows_ == 0) {
      if (o_.head_gradient) clear(dhead_);
      if (o_.bias_gradient) clear(dbias_);
      return;
    }
    usual_ = dtype_ == DType::bf16 && !o_.bias && o_.softcap == 0 && o_.label_smoothing == 0;
    const DType stored = usual_ && o_.round_logits ? dtype_ : compute_;
    chunk_ = std::clamp<std::int64_t>(o_.chunk ? o_.chunk : default_chunk(stored), 1, rows_);
    step_ = aligned_step(gpu_.model(), classes_);
    logits_ = rows_with_room(stored, keep_[0]);
    // f16 has too few exponents for gradients of logits: those products are made in f32.
    wide_ = dtype_ == DType::f16;
    scaled_ = can_be_scaled();
    if (usual_) {
      narrow_ = {logits_.data, dtype_, logits_.shape, logits_.strides};
      narrow_.strides[0] = step_ * static_cast<std::int64_t>(size_of(stored) / size_of(dtype_));
    } else {
      narrow_ = dtype_ == DType::bf16 && o_.gradients() ? rows_with_room(dtype_, keep_[1]) : logits_;
    }
    seen_ = workspace(gpu_, DType::f64, Shape{chunk_, 3}, keep_[2], kName);
    x_block_ = workspace(gpu_, dtype_, Shape{chunk_, width_}, keep_[3], kName);
    if (scaled_) {
      row_numbers_ = workspace(gpu_, DType::f32, Shape{4, chunk_}, keep_[8], kName);
      parts_ = workspace(gpu_, DType::f32, Shape{chunk_, tiles_of(classes_)}, keep_[7], kName);
      if (o_.input_gradient) wide_dx_ = workspace(gpu_, DType::f32, Shape{chunk_, width_}, keep_[9], kName);
    } else if (o_.input_gradient) {
      dx_block_ = workspace(gpu_, dtype_, Shape{chunk_, width_}, keep_[4], kName);
    }
    if (o_.bias_gradient) bias_totals_ = workspace(gpu_, DType::f64, Shape{classes_}, keep_[5], kName);
    chunks_left_ = units_ ? chunks_of_units() : (rows_ + chunk_ - 1) / chunk_;
    if (o_.head_gradient) {
      // Sums over chunks are rounded once, unless they may be rounded after each.
      sums_ = wide_ || (is_half(dtype_) && chunks_left_ > 1 && !o_.round_sums)
                  ? workspace(gpu_, DType::f32, Shape{classes_, width_}, keep_[6], kName)
                  : dhead_;
    }
    if (wide_ && o_.gradients()) {
      wide_x_ = workspace(gpu_, DType::f32, Shape{chunk_, width_}, keep_[7], kName);
      if (o_.input_gradient) {
        wide_dx_ = workspace(gpu_, DType::f32, Shape{chunk_, width_}, keep_[9], kName);
        wide_head_ = workspace(gpu_, DType::f32, Shape{classes_, width_}, keep_[8], kName);
        convert_elements(gpu_, wide_head_, head_);
      }
    }
    if (units_) {
      run_units();
    } else {
      for (std::int64_t first = 0; first < rows_; first += chunk_) {
        const Rows rows{{.first = 0, .begin = first, .per_side = rows_, .side = 0}, std::min(chunk_, rows_ - first)};
        if (scaled_) {
          make_scaled(rows);
        } else {
          make_logits(rows);
          finish(rows, true, o_.gradients(), cotangent_, false);
        }
        add_gradients(rows);
      }
    }
    if (o_.head_gradient && sums_.data != dhead_.data) convert_elements(gpu_, dhead_, sums_);
  }

 private:
  static constexpr const char* kName = "linear_cross_entropy";

  // Rows of the chunk: positions [begin, begin + count) of those that lie as ChunkRows says.
  struct Rows : ChunkRows {
    std::int64_t count;
  };

  // [chunk, classes] whose rows begin at multiples of 16 bytes: cuBLASLt has its fast kernels for those alone.
  View rows_with_room(DType dtype, BufferPtr& keep) const {
    View rows = workspace(gpu_, dtype, Shape{chunk_, step_}, keep, kName);
    rows.shape = Shape{chunk_, classes_};
    return rows;
  }

  std::int64_t default_chunk(DType stored) const {
    const std::int64_t bytes = classes_ * static_cast<std::int64_t>(size_of(stored));
    return std::clamp<std::int64_t>(kLogitBytes / std::max<std::int64_t>(1, bytes) / 16 * 16, kFewestRows, kMostRows);
  }
  std::int64_t unit_rows() const { return units_->sides * units_->tokens; }
  std::int64_t units_together() const {
    return std::clamp<std::int64_t>(chunk_ / std::max<std::int64_t>(1, unit_rows()), 1,
                                    std::max<std::int64_t>(1, units_->units));
  }
  std::int64_t chunks_of_units() const {
    std::int64_t n = 0;
    for (std::int64_t u = 0; u < units_->units; u += units_together()) {
      const std::int64_t rows = std::min(units_together(), units_->units - u) * unit_rows();
      n += (rows + chunk_ - 1) / chunk_;
    }
    return n;
  }

  void clear(const View& v) { gpu_.clear(v.data, static_cast<std::size_t>(v.shape.numel()) * size_of(v.dtype)); }

  void take(const View& whole, const View& block, const Rows& rows, bool put) {
    const auto each = static_cast<std::int64_t>(16 / size_of(dtype_));  // at once, where they lie side by side
    const bool wide =
        whole.strides[1] == 1 && width_ % each == 0 && whole.strides[0] % each == 0 &&
        (reinterpret_cast<std::uintptr_t>(whole.data) | reinterpret_cast<std::uintptr_t>(block.data)) % 16 == 0;
    const std::int64_t per = wide ? each : 1, width = width_ / per;
    launch_elements(gpu_, {word_text(wide ? 16 : size_of(dtype_)) + texts::take_rows}, "take", rows.count * width,
                    TakeRowsArgs<void>{.x = whole.data,
                                       .block = block.data,
                                       .n = rows.count * width,
                                       .width = width,
                                       .x_row = whole.strides[0] / per,
                                       .x_column = whole.strides[1],
                                       .target = elements<i64>(target_),
                                       .target_step = target_.strides[0],
                                       .ignore = o_.ignore_index,
                                       .put = put,
                                       .rows = rows});
  }

  View rows_of(const View& v, std::int64_t count) const { return part_of(v, 0, 0, count); }
  static View transposed(View v) {
    const std::int64_t rows = v.shape[0], columns = v.shape[1];
    v.shape = Shape{columns, rows};
    std::swap(v.strides[0], v.strides[1]);
    return v;
  }

  void make_logits(const Rows& rows) {
    take(x_, x_block_, rows, false);
    multiply_floats(gpu_, rows_of(x_block_, rows.count), transposed(head_), rows_of(logits_, rows.count));
  }

  // Numbers of a row of the chunk: its reference, its target or -1, its target's logit, its factor.
  std::byte* row_number(std::int64_t which) const { return element_at(row_numbers_, which * chunk_); }
  ExponentialProduct exponentials(std::int64_t rows) const {
    return {.rows = rows,
            .classes = classes_,
            .step = step_,
            .width = width_,
            .x = x_block_.data,
            .head = head_.data,
            .out = logits_.data,
            .reference = row_number(0),
            .chosen = row_number(1),
            .own = row_number(2),
            .parts = parts_.data};
  }
  bool can_be_scaled() const {
    if (!usual_ || !o_.round_logits || o_.z_loss != 0 || units_ || width_ % 8 != 0 || width_ == 0) return false;
    if (reinterpret_cast<std::uintptr_t>(head_.data) % 16 != 0) return false;
    if (gpu_.model().each_row_anew) return true;
    ExponentialProduct p{.rows = chunk_, .classes = classes_, .step = step_, .width = width_, .head = head_.data};
    return can_make_exponentials(gpu_, p);
  }
  // Losses, and what add_gradients needs: exponentials, rows of x and their factors.
  void make_scaled(const Rows& rows) {
    take(x_, x_block_, rows, false);
    const View& weight = small(weight_, 1);
    const auto numbers = [&](std::int64_t which) { return reinterpret_cast<f32*>(row_number(which)); };
    const ScaledRowsArgs args{.e = elements<u16>(logits_),
                              .parts = elements<f32>(parts_),
                              .reference = numbers(0),
                              .chosen = reinterpret_cast<i32*>(row_number(1)),
                              .own = numbers(2),
                              .scale = numbers(3),
                              .x = elements<u16>(x_block_),
                              .head = elements<u16>(head_),
                              .losses = elements<f32>(losses_),
                              .target = elements<i64>(target_),
                              .cotangent = elements<f32>(cotangent_),
                              .weight = elements<f32>(weight),
                              .count = rows.count,
                              .classes = classes_,
                              .step = step_,
                              .width = width_,
                              .tiles = tiles_of(classes_),
                              .target_step = target_.strides[0],
                              .cotangent_step = cotangent_.data ? cotangent_.strides[0] : 0,
                              .weight_step = weight.strides[0],
                              .ignore = o_.ignore_index,
                              .differentiate = o_.gradients(),
                              .all = gpu_.model().each_row_anew,
                              .rows = rows,
                              .complaints = complaints_};
    const KernelSource source{texts::scaled_rows};
    launch_blocks(gpu_, source, "references", (rows.count + kReferenceRows - 1) / kReferenceRows, args);
    if (!gpu_.model().each_row_anew) make_exponentials(gpu_, exponentials(rows.count));
    launch_blocks(gpu_, source, "scaled_rows", rows.count, args);
  }
  void put_scaled(const Rows& rows) {
    launch_elements(gpu_, {texts::put_scaled}, "put_scaled", rows.count * width_,
                    PutScaledArgs{.dx = elements<u16>(dx_),
                                  .block = elements<f32>(wide_dx_),
                                  .scale = reinterpret_cast<const f32*>(row_number(3)),
                                  .n = rows.count * width_,
                                  .width = width_,
                                  .row_step = dx_.strides[0],
                                  .column_step = dx_.strides[1],
                                  .rows = rows});
  }

  void finish(const Rows& rows, bool look, bool differentiate, const View& cotangent, bool by_chunk) {
    if (usual_) return finish_usual(rows, look, differentiate, cotangent, by_chunk);
    const bool same = narrow_.data == logits_.data;
    const View &bias = small(bias_, 0), &weight = small(weight_, 1);
    launch_blocks(gpu_, {element_text(dtype_ == DType::f16 ? DType::f32 : dtype_) + texts::finish_rows}, "finish_rows",
                  rows.count,
                  FinishRowsArgs<void, void>{.logits = logits_.data,
                                             .narrow = narrow_.data,
                                             .seen = elements<f64>(seen_),
                                             .losses = losses_.data,
                                             .target = elements<i64>(target_),
                                             .cotangent = cotangent.data,
                                             .bias = bias.data,
                                             .weight = weight.data,
                                             .count = rows.count,
                                             .classes = classes_,
                                             .step = step_,
                                             .target_step = target_.strides[0],
                                             .cotangent_step = cotangent.data ? cotangent.strides[0] : 0,
                                             .bias_step = bias.strides[0],
                                             .weight_step = weight.strides[0],
                                             .ignore = o_.ignore_index,
                                             .look = look,
                                             .differentiate = differentiate,
                                             .keep = !same && o_.bias_gradient,
                                             .smoothing = o_.label_smoothing,
                                             .z_loss = o_.z_loss,
                                             .softcap = o_.softcap,
                                             .rows = rows,
                                             .cotangent_by_chunk = by_chunk,
                                             .complaints = complaints_});
  }

  void finish_usual(const Rows& rows, bool look, bool differentiate, const View& cotangent, bool by_chunk) {
    const KernelSource source{
        (logits_.dtype == DType::f32 ? "typedef f32 L;\n" : "typedef u16 L;\n") + std::string(texts::usual_rows), false,
        true};
    const View& weight = small(weight_, 1);
    const UsualRowsArgs<void> args{.logits = logits_.data,
                                   .seen = elements<f64>(seen_),
                                   .losses = elements<f32>(losses_),
                                   .target = elements<i64>(target_),
                                   .cotangent = elements<f32>(cotangent),
                                   .weight = elements<f32>(weight),
                                   .count = rows.count,
                                   .classes = classes_,
                                   .step = step_,
                                   .target_step = target_.strides[0],
                                   .cotangent_step = cotangent.data ? cotangent.strides[0] : 0,
                                   .weight_step = weight.strides[0],
                                   .ignore = o_.ignore_index,
                                   .look = look,
                                   .differentiate = differentiate,
                                   .z_loss = o_.z_loss,
                                   .rows = rows,
                                   .cotangent_by_chunk = by_chunk,
                                   .complaints = complaints_};
    const StagedRows staged = staged_rows();
    if (!look || !staged.kernel) return launch_blocks(gpu_, source, "usual_rows", rows.count, args);
    const Function kernel = gpu_.kernel(source, staged.kernel);
    const unsigned blocks = gpu_.blocks_at_a_time(kernel, staged.threads, staged.bytes);
    gpu_.launch(kernel, static_cast<unsigned>(std::min<std::int64_t>(rows.count, blocks)), KernelArgs(args).words(),
                staged.threads, staged.bytes);
  }

  // The kernel that keeps a row on chip, two rows on a multiprocessor or one, if there is one. How many threads add up
  // a row depends on its length alone, so that losses have the same bits with and without gradients.
  struct StagedRows {
    const char* kernel = nullptr;
    unsigned threads = 0, bytes = 0;
  };
  StagedRows staged_rows() const {
    const auto bytes_of = [&](std::int64_t threads, std::int64_t held) {
      const std::int64_t slots = (classes_ + 8 * threads - 1) / (8 * threads);
      return std::max<std::int64_t>(0, slots - held) * 8 * threads * static_cast<std::int64_t>(size_of(logits_.dtype));
    };
    const GpuLimits& limits = gpu_.limits();
    const auto fits = [&](std::int64_t bytes, std::int64_t blocks) {
      constexpr std::int64_t kBeside = 2 << 10;  // of a block, for its sums and for the driver
      return bytes <= limits.shared - kSharedOfText && blocks * (bytes + kBeside) <= limits.shared_of_multiprocessor;
    };
    if (const auto bytes = bytes_of(kShortRowsThreads, 0); fits(bytes, 2))
      return {"short_rows", kShortRowsThreads, static_cast<unsigned>(bytes)};
    if (const auto bytes = bytes_of(kLongRowsThreads, 0); fits(bytes, 1))
      return {"long_rows", kLongRowsThreads, static_cast<unsigned>(bytes)};
    if (const auto bytes = bytes_of(kLongRowsThreads, kLongRowsHeld); fits(bytes, 1))
      return {"longest_rows", kLongRowsThreads, static_cast<unsigned>(bytes)};
    return {};
  }

  // Bias and weights, in the dtype of the logits.
  const View& small(const View& v, std::size_t which) {
    if (!v.data || v.dtype == compute_) return v;
    if (!wide_small_[which].data) {
      BufferPtr keep;
      const View dense = packed(gpu_, v, keep, kName);
      wide_small_[which] = workspace(gpu_, compute_, v.shape, keep_small_[which], kName);
      convert_elements(gpu_, wide_small_[which], dense);
    }
    return wide_small_[which];
  }

  void add_gradients(const Rows& rows) {
    const bool first = !begun_, last = --chunks_left_ == 0;
    begun_ = true;
    const View dz = rows_of(narrow_, rows.count);
    if (o_.input_gradient && scaled_) {
      multiply_floats(gpu_, dz, head_, rows_of(wide_dx_, rows.count));
      put_scaled(rows);
    } else if (o_.input_gradient) {
      const View block = rows_of(dx_block_, rows.count);
      multiply_floats(gpu_, dz, wide_ ? wide_head_ : head_, wide_ ? rows_of(wide_dx_, rows.count) : block);
      if (wide_) convert_elements(gpu_, block, rows_of(wide_dx_, rows.count));
      take(dx_, dx_block_, rows, true);
    }
    if (o_.head_gradient) {
      View x = rows_of(x_block_, rows.count);
      if (wide_) {
        convert_elements(gpu_, rows_of(wide_x_, rows.count), x);
        x = rows_of(wide_x_, rows.count);
      }
      multiply_floats(gpu_, transposed(dz), x, sums_, !first);
    }
    if (o_.bias_gradient) {
      launch_elements(gpu_, {element_text(dbias_.dtype) + texts::add_columns}, "add_columns", classes_,
                      AddColumnsArgs<void, void>{.z = logits_.data,
                                                 .totals = elements<f64>(bias_totals_),
                                                 .out = dbias_.data,
                                                 .count = rows.count,
                                                 .classes = classes_,
                                                 .step = step_,
                                                 .first = first,
                                                 .last = last});
    }
  }

  void run_units() {
    const std::int64_t tokens = units_->tokens, together = units_together();
    for (std::int64_t u = 0; u < units_->units; u += together) {
      const std::int64_t n = std::min(together, units_->units - u), all = n * unit_rows();
      const auto chunk = [&](std::int64_t begin) {
        return Rows{{.first = u * tokens, .begin = begin, .per_side = n * tokens, .side = units_->units * tokens},
                    std::min(chunk_, all - begin)};
      };
      for (std::int64_t begin = 0; begin < all; begin += chunk_) {
        make_logits(chunk(begin));
        finish(chunk(begin), true, false, {}, false);
      }
      if (!o_.gradients()) continue;
      const Tensor found = cotangents(u, n);
      const Storage& storage = found.node()->storage;
      const View given{storage.buffer.data() + storage.offset * static_cast<std::int64_t>(size_of(compute_)), compute_,
                       found.shape(), storage.strides};
      BufferPtr keep;
      const View cotangent = reshaped(packed(gpu_, given, keep, kName), Shape{all});
      for (std::int64_t begin = 0; begin < all; begin += chunk_) {
        if (all > chunk_) {  // others came in between
          make_logits(chunk(begin));
          finish(chunk(begin), true, false, {}, false);
        }
        finish(chunk(begin), false, true, cotangent, true);
        add_gradients(chunk(begin));
      }
    }
  }

  // Takes a view [units, ..] or [sides·units, ..], or one number, which is given whole.
  Tensor units_of(const View& all, std::int64_t first, std::int64_t count) {
    const bool whole = all.shape.rank() == 0;
    const std::int64_t sides = whole ? 1 : all.shape[0] / units_->units;
    const Shape one_side = whole ? all.shape : all.shape.with(0, count);
    const Shape shape = whole ? all.shape : all.shape.with(0, sides * count);
    BufferPtr memory;
    const View to = workspace(gpu_, all.dtype, shape, memory, kName);
    for (std::int64_t s = 0; s < sides; ++s) {
      View from = all, here{to.data, to.dtype, one_side, contiguous_strides(one_side)};
      from.shape = one_side;
      if (!whole) from.data = element_at(all, (s * units_->units + first) * all.strides[0]);
      here.data = element_at(to, s * one_side.numel());
      copy_elements(gpu_, here, from);
    }
    return make_data(all.dtype, shape, memory);
  }
  Tensor cotangents(std::int64_t first, std::int64_t count) {
    const Shape shape{units_->sides * units_->units, units_->tokens};
    std::vector<Tensor> parts;
    for (const View& v : further_) parts.push_back(units_of(v, first, count));
    const Tensor losses = units_of(reshaped(losses_, shape), first, count);
    Tensor found = units_->cotangents(losses, parts);
    found.eval();
    return found;
  }

  Gpu& gpu_;
  const LinearCrossEntropyCall o_;
  const RowUnits* const units_;
  View x_, head_, target_, cotangent_, bias_, weight_, losses_, dx_, dhead_, dbias_;
  std::span<const View> further_;
  DType dtype_, compute_;
  std::int64_t rows_, width_, classes_, step_ = 0, chunk_ = 1, chunks_left_ = 0;
  bool wide_ = false, usual_ = false, scaled_ = false, begun_ = false;
  View row_numbers_, parts_;
  View logits_, narrow_, seen_, x_block_, dx_block_, bias_totals_, sums_, wide_x_, wide_dx_, wide_head_, wide_small_[2];
  BufferPtr keep_head_, keep_[10], keep_small_[2];
  Complaints complaints_{};
};

}  // namespace

void run_linear_cross_entropy(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  LinearCrossEntropy(call, gpu, mark).run();
}

}  // namespace ebb::cuda
