// Rows stream in chunks, as on the CPU (see there for the formulas): their logits are made by a product, become the
// loss and their own gradient, and two more products turn that into dx and dW before the next chunk takes the memory.
//
// Rows that do not count have logits, too: leaving them out would need their number on the host, and so a wait. Their
// rows of x are zeros, and so are their gradients.
//
// With RowUnits a chunk is as many whole units as fit; the loss function gives their cotangents as a graph on this
// device, in the order of the stream. A unit that does not fit on its own is streamed twice.
#include <algorithm>

#include "core/format_error.h"
#include "cuda/library/kernels.h"
#include "ebb/tensor.h"
#include "graph/loss_calls.h"
#include "graph/node.h"

#include <fmt/format.h>

namespace ebb::cuda {
namespace {

// At a time, unless the call says how many rows. With fewer rows than some thousands the product that adds to the
// head's gradient would spend its time on reading and writing it.
constexpr std::int64_t kLogitBytes = std::int64_t{1} << 30;
constexpr std::int64_t kMostRows = 4096, kFewestRows = 128;

// A row of the chunk is row of(r) of the whole: rows of a side lie together, sides lie `side` rows apart.
const char* const kRowOf = R"cuda(
struct Rows {
  i64 first, begin, per_side, side;
};
EBB i64 row_of(const Rows& rows, i64 r) {
  const i64 at = rows.begin + r, s = quotient(at, rows.per_side);
  return rows.first + s * rows.side + (at - s * rows.per_side);
}
)cuda";

const char* const kTakeText = R"cuda(
struct Args {
  const T* x;
  T* block;
  i64 n, width, x_row, x_column;
  const i64* target;
  i64 target_step, ignore, put;
  Rows rows;
};
extern "C" __global__ void __launch_bounds__(256) take(const Args a) {
  EACH(i, a.n) {
    const i64 r = quotient(i, a.width), c = i - r * a.width, row = row_of(a.rows, r);
    const bool counts = a.target[row * a.target_step] != a.ignore;
    if (a.put) {
      ((T*)a.x)[row * a.x_row + c] = counts ? a.block[i] : (T)0;
    } else {
      a.block[i] = counts ? a.x[row * a.x_row + c * a.x_column] : (T)0;
    }
  }
}
)cuda";

// T is how x and W are stored, A what is computed in. A block takes a row.
//   look           adds the bias, caps, makes the loss; leaves what the gradient needs in `seen`
//   differentiate  makes the gradient of the logits: in `narrow`, and in place where `keep` is set
const char* const kRowText = R"cuda(
struct Args {
  A* logits;
  T* narrow;
  f64* seen;  // per row of the chunk: peak, total, sum of weights
  A* losses;
  const i64* target;
  const A* cotangent;
  const A* bias;
  const A* weight;
  i64 count, classes, target_step, cotangent_step, bias_step, weight_step, ignore, look, differentiate, keep;
  f64 smoothing, z_loss, softcap;
  Rows rows;
  i64 cotangent_by_chunk;
  ErrorSlot* error;
  i64 step;
};
EBB f64 weight_of(const Args& a, i64 c) { return a.weight ? (f64)a.weight[c * a.weight_step] : 1.0; }
extern "C" __global__ void __launch_bounds__(256) finish_rows(const Args a) {
  __shared__ u64 shared[256];
  for (i64 r = blockIdx.x; r < a.count; r += gridDim.x) {
    const i64 row = row_of(a.rows, r), y = a.target[row * a.target_step];
    A* const z = a.logits + r * a.classes;
    T* const narrow = a.narrow + r * a.classes;
    const bool inside = (u64)y < (u64)a.classes, counts = inside && y != a.ignore;
    if (!inside && y != a.ignore && threadIdx.x == 0) complain(a.error, a.step, row, 0, bits_of(y));
    if (!counts) {
      if (a.look && threadIdx.x == 0) a.losses[row] = 0;
      for (i64 c = threadIdx.x; a.differentiate && c < a.classes; c += 256) {
        if (a.keep) z[c] = 0;
        narrow[c] = (T)0;
      }
      continue;
    }
    const f64 w = weight_of(a, y), spread_share = a.smoothing / (f64)a.classes;
    f64 peak = 0, total = 0, weights = (f64)a.classes;
    if (a.look) {
      f64 top = -infinity(), spread = 0, sum_of_weights = 0;
      for (i64 c = threadIdx.x; c < a.classes; c += 256) {
        A u = z[c];
        if (a.bias) u = u + a.bias[c * a.bias_step];
        if (a.softcap != 0) u = (A)a.softcap * TANH(u / (A)a.softcap);
        if (a.bias || a.softcap != 0) z[c] = u;
        top = larger(top, (f64)u);
        if (a.smoothing != 0) {
          const f64 here = weight_of(a, c);
          spread += here * (f64)u;
          sum_of_weights += here;
        }
      }
      top = over_block<Most>(top, shared);
      peak = is_finite(top) ? top : 0;
      if (a.smoothing != 0) {
        spread = over_block<Plus>(spread, shared);
        if (a.weight) weights = over_block<Plus>(sum_of_weights, shared);
      }
      for (i64 c = threadIdx.x; c < a.classes; c += 256) total += (f64)EXP(z[c] - (A)peak);
      total = over_block<Plus>(total, shared);
      if (threadIdx.x == 0) {
        const f64 lse = peak + log(total);
        f64 loss = (1 - a.smoothing) * w * (lse - (f64)z[y]);
        if (a.smoothing != 0) loss += spread_share * (weights * lse - spread);
        if (a.z_loss != 0) loss += w * a.z_loss * lse * lse;
        a.losses[row] = (A)loss;
        a.seen[3 * r] = peak;
        a.seen[3 * r + 1] = total;
        a.seen[3 * r + 2] = weights;
      }
      __syncthreads();  // z[y] is read before it becomes a gradient
    } else {
      peak = a.seen[3 * r];
      total = a.seen[3 * r + 1];
      weights = a.seen[3 * r + 2];
    }
    if (!a.differentiate) continue;
    const f64 g = a.cotangent ? (f64)a.cotangent[(a.cotangent_by_chunk ? a.rows.begin + r : row) * a.cotangent_step] : 1.0;
    const f64 hit = (1 - a.smoothing) * w;
    f64 factor = hit + spread_share * weights;
    if (a.z_loss != 0) factor += 2 * w * a.z_loss * (peak + log(total));
    const A scale = (A)(g * factor / total), drop = (A)(g * hit);
    for (i64 c = threadIdx.x; c < a.classes; c += 256) {
      const A u = z[c];
      A d = EXP(u - (A)peak) * scale;
      if (a.smoothing != 0) d = d - (A)(g * spread_share * weight_of(a, c));
      if (c == y) d = d - drop;
      if (a.softcap != 0) d = d * ((A)1 - u / (A)a.softcap * (u / (A)a.softcap));
      if (a.keep) z[c] = d;
      narrow[c] = store(d);
    }
    __syncthreads();
  }
}
)cuda";

// The usual rows of bf16: no bias, cap or smoothing, and classes in eights. L is how the logits are stored, f32 or
// bf16. The gradient takes the place of its row of logits, from the front: of f32 it overwrites what was read half as
// far on, which a barrier a round makes sure of. Maximum and sum are made in one pass: a thread scales its sum when its
// maximum grows. All that is exponentiated here becomes bf16 or a sum whose error is a part in 2^22: see the quick
// functions.
const char* const kUsualRowText = R"cuda(
struct Args {
  L* logits;
  f64* seen;  // per row of the chunk: peak, total
  f32* losses;
  const i64* target;
  const f32* cotangent;
  const f32* weight;
  i64 count, classes, target_step, cotangent_step, weight_step, ignore, look, differentiate;
  f64 z_loss;
  Rows rows;
  i64 cotangent_by_chunk;
  ErrorSlot* error;
  i64 step;
};
EBB f32 logit(f32 x) { return x; }
EBB f32 logit(u16 x) { return from_bf16(x); }
EBB Pack<f32, 8> widened(const Pack<f32, 8>& x) { return x; }
EBB Pack<f32, 8> widened(const Pack<u16, 8>& x) {
  Pack<f32, 8> z;
#pragma unroll
  for (int j = 0; j < 8; ++j) z.set(j, logit(x.at(j)));
  return z;
}
EBB bool is_number(f32 x) { return fabsf(x) < (f32)infinity(); }
extern "C" __global__ void __launch_bounds__(256) usual_rows(const Args a) {
  __shared__ u64 shared[256];
  const int classes = (int)a.classes;
  for (i64 r = blockIdx.x; r < a.count; r += gridDim.x) {
    const i64 row = row_of(a.rows, r), y = a.target[row * a.target_step];
    const L* const z = a.logits + r * a.classes;
    u16* const narrow = (u16*)z;
    const bool inside = (u64)y < (u64)a.classes, counts = inside && y != a.ignore;
    if (!inside && y != a.ignore && threadIdx.x == 0) complain(a.error, a.step, row, 0, bits_of(y));
    if (!counts) {
      if (a.look && threadIdx.x == 0) a.losses[row] = 0;
      Pack<u16, 8> nothing;
#pragma unroll
      for (int j = 0; j < 8; ++j) nothing.set(j, (u16)0);
      for (int c = threadIdx.x * 8; a.differentiate && c < classes; c += 2048) store_pack<8>(narrow + c, nothing, true, 8, false);
      continue;
    }
    const f64 w = a.weight ? (f64)a.weight[y * a.weight_step] : 1.0;
    f64 peak = 0, total = 0;
    if (a.look) {
      f32 top = -(f32)infinity(), base = top, part = 0;
#pragma unroll 2
      for (int c = threadIdx.x * 8; c < classes; c += 2048) {
        const Pack<f32, 8> q = widened(load_pack<8>(z + c, true, 8));
        f32 most = top;
#pragma unroll
        for (int j = 0; j < 8; ++j) most = larger(most, q.at(j));
        top = most;
        const f32 next = is_number(top) ? top : 0.0f;
        f32 sum = 0;
#pragma unroll
        for (int j = 0; j < 8; ++j) sum += quick_exp(q.at(j) - next);
        part = part * quick_exp(base - next) + sum;
        base = next;
      }
      const f64 highest = over_block<Most>((f64)top, shared);
      peak = is_finite(highest) ? highest : 0;
      total = over_block<Plus>((f64)part * (f64)quick_exp(base - (f32)peak), shared);
      if (threadIdx.x == 0) {
        const f64 lse = peak + log(total);
        f64 loss = w * (lse - (f64)logit(z[y]));
        if (a.z_loss != 0) loss += w * a.z_loss * lse * lse;
        a.losses[row] = (f32)loss;
        a.seen[2 * r] = peak;
        a.seen[2 * r + 1] = total;
      }
    } else {
      peak = a.seen[2 * r];
      total = a.seen[2 * r + 1];
    }
    if (!a.differentiate) continue;
    const f64 g = a.cotangent ? (f64)a.cotangent[(a.cotangent_by_chunk ? a.rows.begin + r : row) * a.cotangent_step] : 1.0;
    f64 factor = w;
    if (a.z_loss != 0) factor += 2 * w * a.z_loss * (peak + log(total));
    const f32 scale = (f32)(g * factor / total), drop = (f32)(g * w), from = (f32)peak;
    const int hit = (int)y;
    int c = threadIdx.x * 8;
    Pack<f32, 8> next = widened(load_pack<8>(z + (c < classes ? c : 0), true, 8));
    for (int first = 0; first < classes; first += 2048, c += 2048) {
      const Pack<f32, 8> q = next;
      next = widened(load_pack<8>(z + (c + 2048 < classes ? c + 2048 : 0), true, 8));
      __syncthreads();  // z[y] and the logits that this round writes over are read
      if (c >= classes) continue;
      Pack<u16, 8> d;
#pragma unroll
      for (int j = 0; j < 8; ++j) d.set_bf16(j, quick_exp(q.at(j) - from) * scale);
      if ((unsigned)(hit - c) < 8) {
#pragma unroll
        for (int j = 0; j < 8; ++j) d.set_bf16(j, quick_exp(q.at(j) - from) * scale - (c + j == hit ? drop : 0.0f));
      }
      store_pack<8>(narrow + c, d, true, 8, false);
    }
    __syncthreads();
  }
}
)cuda";

// Sums of the columns of a chunk's gradient, added to what the chunks before left.
const char* const kBiasText = R"cuda(
struct Args { const A* z; f64* totals; T* out; i64 count, classes, first, last; };
extern "C" __global__ void __launch_bounds__(256) add_columns(const Args a) {
  EACH(c, a.classes) {
    f64 total = a.first ? 0 : a.totals[c];
    for (i64 r = 0; r < a.count; ++r) total += (f64)a.z[r * a.classes + c];
    a.totals[c] = total;
    if (a.last) a.out[c] = store((A)total);
  }
}
)cuda";

class LinearCrossEntropy {
 public:
  LinearCrossEntropy(const LibraryCall& call, Gpu& gpu, RunMark& mark)
      : gpu_(gpu),
        o_(LinearCrossEntropyCall::from(call.attrs)),
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
    step_ = mark.add_step([classes](int, std::int64_t row, std::uint64_t bits) {
      return Error(Error::Kind::index, fmt::format("linear_cross_entropy: target[{}] = {} is outside [0, {})", row,
                                                   static_cast<std::int64_t>(bits), classes));
    });
    slot_ = mark.slot();
  }

  void run() {
    if (rows_ == 0) {
      if (o_.head_gradient) clear(dhead_);
      if (o_.bias_gradient) clear(dbias_);
      return;
    }
    usual_ = dtype_ == DType::bf16 && !o_.bias && o_.softcap == 0 && o_.label_smoothing == 0 && classes_ % 8 == 0;
    const DType stored = usual_ && o_.round_logits ? dtype_ : compute_;
    chunk_ = std::clamp<std::int64_t>(o_.chunk ? o_.chunk : default_chunk(stored), 1, rows_);
    logits_ = workspace(gpu_, stored, Shape{chunk_, classes_}, keep_[0], kName);
    // f16 has too few exponents for gradients of logits: those products are made in f32.
    wide_ = dtype_ == DType::f16;
    if (usual_) {
      narrow_ = {logits_.data, dtype_, logits_.shape, logits_.strides};
      narrow_.strides[0] = classes_ * static_cast<std::int64_t>(size_of(stored) / size_of(dtype_));
    } else {
      narrow_ = dtype_ == DType::bf16 && o_.gradients()
                    ? workspace(gpu_, dtype_, Shape{chunk_, classes_}, keep_[1], kName)
                    : logits_;
    }
    seen_ = workspace(gpu_, DType::f64, Shape{chunk_, 3}, keep_[2], kName);
    x_block_ = workspace(gpu_, dtype_, Shape{chunk_, width_}, keep_[3], kName);
    if (o_.input_gradient) dx_block_ = workspace(gpu_, dtype_, Shape{chunk_, width_}, keep_[4], kName);
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
        const Rows rows{0, first, rows_, 0, std::min(chunk_, rows_ - first)};
        make_logits(rows);
        finish(rows, true, o_.gradients(), cotangent_, false);
        add_gradients(rows);
      }
    }
    if (o_.head_gradient && sums_.data != dhead_.data) convert_elements(gpu_, dhead_, sums_);
  }

 private:
  static constexpr const char* kName = "linear_cross_entropy";

  // Rows of the chunk: positions [begin, begin + count) of those that lie as kRowOf says.
  struct Rows {
    std::int64_t first, begin, per_side, side, count;
    void add_to(Words& words) const { words.add(first).add(begin).add(per_side).add(side); }
  };

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
    Words words;
    words.add(whole.data).add(block.data).add(rows.count * width_).add(width_).add(whole.strides[0]);
    words.add(whole.strides[1]).add(target_.data).add(target_.strides[0]).add(o_.ignore_index).add(std::int64_t{put});
    rows.add_to(words);
    launch_elements(gpu_, view_text() + bits_text(dtype_) + kRowOf + kTakeText, "take", rows.count * width_, words);
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

  void finish(const Rows& rows, bool look, bool differentiate, const View& cotangent, bool by_chunk) {
    if (usual_) return finish_usual(rows, look, differentiate, cotangent, by_chunk);
    const bool wide = compute_ == DType::f64, same = narrow_.data == logits_.data;
    const std::string text = view_text() + element_text(dtype_ == DType::f16 ? DType::f32 : dtype_) +
                             fmt::format("#undef EXP\n#undef TANH\n#define EXP {0}\n#define TANH {1}\n",
                                         wide ? "exp" : "expf", wide ? "tanh" : "tanhf") +
                             kRowOf + kRowText;
    Words words;
    words.add(logits_.data).add(narrow_.data).add(seen_.data).add(losses_.data).add(target_.data);
    words.add(cotangent.data).add(small(bias_, 0).data).add(small(weight_, 1).data);
    words.add(rows.count).add(classes_).add(target_.strides[0]).add(cotangent.data ? cotangent.strides[0] : 0);
    words.add(small(bias_, 0).strides[0]).add(small(weight_, 1).strides[0]);
    words.add(o_.ignore_index).add(std::int64_t{look}).add(std::int64_t{differentiate});
    words.add(std::int64_t{!same && o_.bias_gradient});
    words.add(o_.label_smoothing).add(o_.z_loss).add(o_.softcap);
    rows.add_to(words);
    words.add(std::int64_t{by_chunk}).add(static_cast<const void*>(slot_)).add(static_cast<std::int64_t>(step_));
    launch_blocks(gpu_, text, "finish_rows", rows.count, words);
  }

  void finish_usual(const Rows& rows, bool look, bool differentiate, const View& cotangent, bool by_chunk) {
    const std::string text =
        view_text() + (logits_.dtype == DType::f32 ? "typedef f32 L;\n" : "typedef u16 L;\n") + kRowOf + kUsualRowText;
    Words words;
    words.add(logits_.data).add(seen_.data).add(losses_.data).add(target_.data).add(cotangent.data);
    words.add(small(weight_, 1).data).add(rows.count).add(classes_).add(target_.strides[0]);
    words.add(cotangent.data ? cotangent.strides[0] : 0).add(small(weight_, 1).strides[0]).add(o_.ignore_index);
    words.add(std::int64_t{look}).add(std::int64_t{differentiate}).add(o_.z_loss);
    rows.add_to(words);
    words.add(std::int64_t{by_chunk}).add(static_cast<const void*>(slot_)).add(static_cast<std::int64_t>(step_));
    launch_blocks(gpu_, text, "usual_rows", rows.count, words);
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
    if (o_.input_gradient) {
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
      const std::string text = view_text() + element_text(dbias_.dtype) + kBiasText;
      Words words;
      words.add(logits_.data).add(bias_totals_.data).add(dbias_.data).add(rows.count).add(classes_);
      words.add(std::int64_t{first}).add(std::int64_t{last});
      launch_elements(gpu_, text, "add_columns", classes_, words);
    }
  }

  void run_units() {
    const std::int64_t tokens = units_->tokens, together = units_together();
    for (std::int64_t u = 0; u < units_->units; u += together) {
      const std::int64_t n = std::min(together, units_->units - u), all = n * unit_rows();
      const auto chunk = [&](std::int64_t begin) {
        return Rows{u * tokens, begin, n * tokens, units_->units * tokens, std::min(chunk_, all - begin)};
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

  // Of a view [units, ..] or [sides·units, ..], or of one number, which is given whole.
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
    const Tensor found = units_->cotangents(losses, parts);
    found.eval();
    return found;
  }

  Gpu& gpu_;
  const LinearCrossEntropyCall o_;
  const RowUnits* const units_;
  View x_, head_, target_, cotangent_, bias_, weight_, losses_, dx_, dhead_, dbias_;
  std::span<const View> further_;
  DType dtype_, compute_;
  std::int64_t rows_, width_, classes_, chunk_ = 1, chunks_left_ = 0;
  bool wide_ = false, usual_ = false, begun_ = false;
  View logits_, narrow_, seen_, x_block_, dx_block_, bias_totals_, sums_, wide_x_, wide_dx_, wide_head_, wide_small_[2];
  BufferPtr keep_head_, keep_[10], keep_small_[2];
  std::uint64_t step_ = 0;
  const ErrorSlot* slot_ = nullptr;
};

}  // namespace

void run_linear_cross_entropy(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  LinearCrossEntropy(call, gpu, mark).run();
}

}  // namespace ebb::cuda
