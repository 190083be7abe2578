// SPDX-License-Identifier: MIT
// Rows stream in chunks, as on the CPU (see there for the formulas): their logits are computed by a product, become the
// loss and their own gradient, and two more products turn that into dx and dW before the next chunk takes the memory.
// Logits of f32 are stored for a part of the chunk at a time (head_plan.h).
//
// Ignored rows have logits, too: leaving them out would need their number on the host, and so a wait. Their rows of x
// are zeros, and so are their gradients.
//
// Where a product can leave exponentials, rounded logits never reach memory: see kernels/scaled_rows.cuh.
//
// With RowUnits a chunk is as many whole units as fit; the loss function returns their cotangents as a graph on this
// device, in the order of the stream. A unit that does not fit on its own is streamed twice.
#include <algorithm>
#include <utility>

#include "calls/linear_cross_entropy.h"
#include "core/format_error.h"
#include "cuda/kernels/args/linear_cross_entropy.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/aligned_product.h"
#include "cuda/library/exponential_product.h"
#include "cuda/library/head_plan.h"
#include "cuda/library/kernels.h"
#include "ebb/tensor.h"
#include "graph/node.h"

#include <fmt/format.h>

namespace ebb::cuda {
namespace {

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
        given_(x_.shape[1]),
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
    const std::uint64_t step = mark.add_step([classes, name = o_.name()](int, std::int64_t row, std::uint64_t bits) {
      return Error(Error::Kind::index, fmt::format("{}: target[{}] = {} is outside [0, {})", name, row,
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
    const HeadPlan plan = plan_head(gpu_.model(), {.rows = rows_,
                                                   .classes = classes_,
                                                   .width = given_,
                                                   .dtype = dtype_,
                                                   .chunk = o_.chunk,
                                                   .gradients = o_.gradients(),
                                                   .head_gradient = o_.head_gradient && !o_.round_sums,
                                                   .narrow_logits = stored == dtype_,
                                                   .whole_units = units_ != nullptr});
    step_ = plan.step, width_ = plan.width, chunk_ = plan.chunk, part_ = plan.part;
    if (is_padded()) pad_head();
    const bool in_place = usual_ && part_ == chunk_;
    const std::int64_t chunks = units_ ? chunks_of_units() : (rows_ + chunk_ - 1) / chunk_;
    // Sums over chunks are rounded once, unless they may be rounded after each.
    const bool in_f32 = dtype_ == DType::f16 || (is_half(dtype_) && chunks > 1 && !o_.round_sums);
    // Where these sums have memory of their own, that of the head's gradient is free until the end.
    const std::size_t logit_bytes = static_cast<std::size_t>(room_of(part_) * step_) * size_of(stored);
    const bool is_free = o_.head_gradient && (in_f32 || is_padded()) && dhead_.shape.numel() > 0;
    if (is_free && logit_bytes <= static_cast<std::size_t>(dhead_.shape.numel()) * size_of(dhead_.dtype)) {
      logits_ = {dhead_.data, stored, Shape{room_of(part_), head_.shape[0]}, {}};
      logits_.strides = contiguous_strides(Shape{room_of(part_), step_});
    } else {
      logits_ = rows_of_classes(stored, part_, keep_[0]);
    }
    // f16 has too few exponents for gradients of logits: those products are computed in f32.
    wide_ = dtype_ == DType::f16;
    scaled_ = can_be_scaled();
    if (in_place) {
      narrow_ = {logits_.data, dtype_, logits_.shape, logits_.strides};
      narrow_.strides[0] = step_ * static_cast<std::int64_t>(size_of(stored) / size_of(dtype_));
    } else {
      narrow_ = dtype_ == DType::bf16 && o_.gradients() ? rows_of_classes(dtype_, chunk_, keep_[1]) : logits_;
    }
    seen_ = workspace(gpu_, DType::f64, Shape{part_, 3}, keep_[2], kName);
    x_block_ = workspace(gpu_, dtype_, Shape{room_of(chunk_), width_}, keep_[3], kName);
    if (scaled_) {
      row_numbers_ = workspace(gpu_, DType::f32, Shape{4, chunk_}, keep_[8], kName);
      parts_ = workspace(gpu_, DType::f32, Shape{chunk_, tiles_of(classes_)}, keep_[7], kName);
      if (o_.input_gradient) wide_dx_ = workspace(gpu_, DType::f32, Shape{chunk_, width_}, keep_[9], kName);
    } else if (o_.input_gradient) {
      dx_block_ = workspace(gpu_, dtype_, Shape{chunk_, width_}, keep_[4], kName);
    }
    if (o_.bias_gradient) bias_totals_ = workspace(gpu_, DType::f64, Shape{classes_}, keep_[5], kName);
    if (o_.head_gradient) {
      sums_ = in_f32 || is_padded()
                  ? workspace(gpu_, in_f32 ? DType::f32 : dtype_, Shape{head_.shape[0], width_}, keep_[6], kName)
                  : dhead_;
    }
    if (wide_ && o_.gradients()) {
      wide_x_ = workspace(gpu_, DType::f32, Shape{chunk_, width_}, keep_[7], kName);
      if (o_.input_gradient) {
        wide_dx_ = workspace(gpu_, DType::f32, Shape{chunk_, width_}, keep_[9], kName);
        wide_head_ = workspace(gpu_, DType::f32, head_.shape, keep_[8], kName);
        convert_elements(gpu_, wide_head_, head_);
      }
    }
    if (units_) {
      run_units();
    } else {
      for (std::int64_t first = 0; first < rows_; first += chunk_) {
        const RowsOfChunk chunk = rows_from(first, std::min(chunk_, rows_ - first));
        take(x_, x_block_, chunk, false);
        if (scaled_) {
          make_scaled(chunk);
        } else {
          for (std::int64_t at = 0; at < chunk.count; at += part_) {
            RowsOfChunk part = rows_from(first + at, std::min(part_, chunk.count - at));
            part.at = at;
            make_logits(part);
            finish(part, true, o_.gradients(), cotangent_, false);
          }
        }
        add_gradients(chunk);
      }
    }
    if (o_.head_gradient && sums_.data != dhead_.data) give_head_gradient();
  }

 private:
  static constexpr const char* kName = "linear_cross_entropy";

  // Rows of the chunk: positions [begin, begin + count), laid out as ChunkRows says.
  struct RowsOfChunk : ChunkRows {
    std::int64_t count;
    std::int64_t at = 0;  // of a part, its first row in the chunk
  };
  RowsOfChunk rows_from(std::int64_t first, std::int64_t count) const {
    return {{.first = 0, .begin = first, .per_side = rows_, .side = 0}, count};
  }

  // cuBLASLt has its fast kernels for sizes and rows of halves in eights: the head is padded with zeros after its last
  // class and column, so that logits after the last class are zeros, and their gradients as well. Rows that the head's
  // gradient sums over are in eights, too.
  bool is_padded() const { return is_half(dtype_) && (step_ != classes_ || width_ != given_); }
  void pad_head() {
    const View padded = workspace(gpu_, dtype_, Shape{step_, width_}, keep_padded_, kName);
    copy_padded(gpu_, padded, head_);
    head_ = padded;
    keep_head_ = {};
  }
  void give_head_gradient() {
    View sums = part_of(sums_, 0, 0, classes_);
    BufferPtr keep;
    if (sums.dtype != dhead_.dtype) {
      if (width_ == given_) return convert_elements(gpu_, dhead_, sums);
      const View narrow = workspace(gpu_, dhead_.dtype, sums.shape, keep, kName);
      convert_elements(gpu_, narrow, sums);
      sums = narrow;
    }
    sums.shape = dhead_.shape;
    copy_elements(gpu_, dhead_, sums);
  }
  std::int64_t room_of(std::int64_t rows) const {
    return dtype_ == DType::bf16 ? aligned_step(gpu_.model(), rows) : rows;
  }
  // Rows of the head's classes, including padding.
  View rows_of_classes(DType dtype, std::int64_t rows, BufferPtr& keep) const {
    View made = workspace(gpu_, dtype, Shape{room_of(rows), step_}, keep, kName);
    made.shape = Shape{room_of(rows), head_.shape[0]};
    return made;
  }
  void clear_rows(const View& v, std::int64_t first, std::int64_t count) {
    const std::int64_t step = v.strides[0] * static_cast<std::int64_t>(size_of(v.dtype));
    gpu_.clear(static_cast<std::byte*>(v.data) + first * step, static_cast<std::size_t>(count * step));
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

  void take(const View& whole, const View& block, const RowsOfChunk& rows, bool put) {
    const auto each = static_cast<std::int64_t>(16 / size_of(dtype_));  // at a time, where contiguous
    const bool wide =
        whole.strides[1] == 1 && width_ % each == 0 && given_ % each == 0 && whole.strides[0] % each == 0 &&
        (reinterpret_cast<std::uintptr_t>(whole.data) | reinterpret_cast<std::uintptr_t>(block.data)) % 16 == 0;
    const std::int64_t per = wide ? each : 1, width = width_ / per;
    launch_elements(gpu_, {word_text(wide ? 16 : size_of(dtype_)) + texts::take_rows}, "take", rows.count * width,
                    TakeRowsArgs<void>{.x = whole.data,
                                       .block = block.data,
                                       .n = rows.count * width,
                                       .width = width,
                                       .x_width = given_ / per,
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

  void make_logits(const RowsOfChunk& rows) {
    multiply_floats(gpu_, part_of(x_block_, 0, rows.at, rows.count), transposed(head_), rows_of(logits_, rows.count));
  }

  // Numbers of a row of the chunk: its reference, its target or -1, its target's logit, its factor.
  std::byte* row_number(std::int64_t which) const { return element_at(row_numbers_, which * chunk_); }
  ExponentialProduct exponentials(std::int64_t rows) const {
    return {.factors = {.rows = rows, .classes = classes_, .width = width_, .x = x_block_.data, .head = head_.data},
            .step = step_,
            .out = logits_.data,
            .reference = row_number(0),
            .chosen = row_number(1),
            .own = row_number(2),
            .parts = parts_.data};
  }
  bool can_be_scaled() const {
    if (!usual_ || !o_.round_logits || o_.z_loss != 0 || units_ || width_ == 0) return false;
    if (reinterpret_cast<std::uintptr_t>(head_.data) % 16 != 0) return false;
    if (gpu_.model().each_row_anew) return true;
    ExponentialProduct p;
    p.factors = {.rows = chunk_, .classes = classes_, .width = width_, .x = nullptr, .head = head_.data};
    p.step = step_;
    return can_make_exponentials(gpu_, p);
  }
  // Losses, and the inputs of add_gradients: exponentials, rows of x and their factors.
  void make_scaled(const RowsOfChunk& rows) {
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
  void put_scaled(const RowsOfChunk& rows) {
    launch_elements(gpu_, {texts::put_scaled}, "put_scaled", rows.count * width_,
                    PutScaledArgs{.dx = elements<u16>(dx_),
                                  .block = elements<f32>(wide_dx_),
                                  .scale = reinterpret_cast<const f32*>(row_number(3)),
                                  .n = rows.count * width_,
                                  .width = width_,
                                  .x_width = given_,
                                  .row_step = dx_.strides[0],
                                  .column_step = dx_.strides[1],
                                  .rows = rows});
  }

  void finish(const RowsOfChunk& rows, bool look, bool differentiate, const View& cotangent, bool by_chunk) {
    if (usual_) return finish_usual(rows, look, differentiate, cotangent, by_chunk);
    const bool same = narrow_.data == logits_.data;
    const View narrow = part_of(narrow_, 0, rows.at, rows.count);
    const View &bias = small(bias_, 0), &weight = small(weight_, 1);
    launch_blocks(gpu_, {element_text(dtype_ == DType::f16 ? DType::f32 : dtype_) + texts::finish_rows}, "finish_rows",
                  rows.count,
                  FinishRowsArgs<void, void>{.logits = logits_.data,
                                             .narrow = narrow.data,
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
    if (!differentiate || !o_.bias_gradient) return;
    launch_elements(gpu_, {element_text(dbias_.dtype) + texts::add_columns}, "add_columns", classes_,
                    AddColumnsArgs<void, void>{.z = logits_.data,
                                               .totals = elements<f64>(bias_totals_),
                                               .out = dbias_.data,
                                               .count = rows.count,
                                               .classes = classes_,
                                               .step = step_,
                                               .first = !std::exchange(bias_begun_, true)});
  }

  void finish_usual(const RowsOfChunk& rows, bool look, bool differentiate, const View& cotangent, bool by_chunk) {
    const KernelSource source{
        (logits_.dtype == DType::f32 ? "typedef f32 L;\n" : "typedef u16 L;\n") + std::string(texts::usual_rows), false,
        true};
    const View& weight = small(weight_, 1);
    const UsualRowsArgs<void> args{.logits = logits_.data,
                                   .narrow = elements<u16>(part_of(narrow_, 0, rows.at, rows.count)),
                                   .seen = elements<f64>(seen_),
                                   .losses = elements<f32>(losses_),
                                   .target = elements<i64>(target_),
                                   .cotangent = elements<f32>(cotangent),
                                   .weight = elements<f32>(weight),
                                   .count = rows.count,
                                   .classes = classes_,
                                   .step = step_,
                                   .narrow_step = narrow_.strides[0],
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

  // The kernel that keeps a row on chip, two rows per multiprocessor or one, if it exists. The number of threads that
  // sum a row depends on its length alone, so that losses have the same bits with and without gradients.
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
      return bytes <= limits.shared - kSharedOfText &&
             blocks * (bytes + gpu_.model().shared_of_sums) <= limits.shared_of_multiprocessor;
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

  void add_gradients(const RowsOfChunk& rows) {
    const bool first = !std::exchange(begun_, true);
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
      const std::int64_t count = room_of(rows.count);
      if (count != rows.count) {
        clear_rows(narrow_, rows.count, count - rows.count);
        clear_rows(x_block_, rows.count, count - rows.count);
      }
      View x = rows_of(x_block_, count);
      if (wide_) {
        convert_elements(gpu_, rows_of(wide_x_, rows.count), x);
        x = rows_of(wide_x_, rows.count);
      }
      multiply_floats(gpu_, transposed(rows_of(narrow_, count)), x, sums_, !first);
    }
  }

  void run_units() {
    const std::int64_t tokens = units_->tokens, together = units_together();
    for (std::int64_t u = 0; u < units_->units; u += together) {
      const std::int64_t n = std::min(together, units_->units - u), all = n * unit_rows();
      const auto chunk = [&](std::int64_t begin) {
        return RowsOfChunk{
            {.first = u * tokens, .begin = begin, .per_side = n * tokens, .side = units_->units * tokens},
            std::min(chunk_, all - begin)};
      };
      for (std::int64_t begin = 0; begin < all; begin += chunk_) {
        take(x_, x_block_, chunk(begin), false);
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
          take(x_, x_block_, chunk(begin), false);
          make_logits(chunk(begin));
          finish(chunk(begin), true, false, {}, false);
        }
        finish(chunk(begin), false, true, cotangent, true);
        add_gradients(chunk(begin));
      }
    }
  }

  // Takes a view [units, ..] or [sides·units, ..], or one number, which is passed whole.
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
  std::int64_t rows_, given_, width_ = 0, classes_, step_ = 0;  // width and step: including padding
  std::int64_t chunk_ = 1, part_ = 1;                           // rows, see HeadPlan
  bool wide_ = false, usual_ = false, scaled_ = false, begun_ = false, bias_begun_ = false;
  View row_numbers_, parts_;
  View logits_, narrow_, seen_, x_block_, dx_block_, bias_totals_, sums_, wide_x_, wide_dx_, wide_head_, wide_small_[2];
  BufferPtr keep_head_, keep_padded_, keep_[10], keep_small_[2];
  Complaints complaints_{};
};

}  // namespace

void run_linear_cross_entropy(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  if (statistics_options(call.attrs)) return run_token_statistics(call, gpu);
  LinearCrossEntropy(call, gpu, mark).run();
}

}  // namespace ebb::cuda
