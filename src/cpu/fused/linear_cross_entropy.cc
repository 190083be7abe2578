// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/buffer.h"
#include "core/format_error.h"
#include "core/parallel.h"
#include "cpu/fused/row_units.h"
#include "cpu/gemm/gemm.h"
#include "cpu/library/ops.h"
#include "cpu/model/cpu_model.h"
#include "cpu/tile/elements.h"

// Rows stream in chunks: their logits z = x·Wᵀ + b are computed, become the loss, then in place the gradient dz, which
// two more products turn into dx and dW before the next chunk takes the same memory.
//
//   lse = log Σ e^z,   loss = (1−ε)·w_y·(lse − z_y) + (ε/V)·Σ_c w_c·(lse − z_c) + λ·w_y·lse²
//   dz  = g·(a·e^(z − lse) − (1−ε)·w_y·[c = y] − (ε/V)·w_c),   a = (1−ε)·w_y + (ε/V)·Σ w + 2λ·w_y·lse
//   softcap s: z = s·tanh(u/s) of the product u, and du = dz·(1 − (z/s)²)
//
// Where g depends on the losses of a unit of rows (RowUnits), a chunk is as many whole units as fit: their losses are
// computed, the loss function returns their cotangents, and the logits, still in memory, become the gradient. A unit
// that does not fit on its own is streamed twice, and its logits are recomputed.
//
// Pieces depend on the shapes alone, and chunks add to dW in order: the bits do not depend on the
// number of threads.
namespace ebb::cpu {
namespace {

// The tile loops a row needs.
template <class T>
struct RowLoops {
  static constexpr RegType kType = std::is_same_v<T, double> ? RegType::f64 : RegType::f32;
  const TileKernels& k = tile_kernels();
  ElementwiseFn exp = k.elementwise(Op::exp, kType, 0), tanh = k.elementwise(Op::tanh, kType, 0);
  ElementwiseFn square = k.elementwise(Op::square, kType, 0);
  ElementwiseFn multiply = k.elementwise(Op::mul, kType, 0), scale = k.elementwise(Op::mul, kType, 2);
  ElementwiseFn shift = k.elementwise(Op::sub, kType, 2);       // a − number
  ElementwiseFn affine = k.elementwise(Op::fma, kType, 6);      // a·number + number
  ElementwiseFn add_scaled = k.elementwise(Op::fma, kType, 2);  // a·number + c
  ReduceFn sum = k.reduce(Op::sum, kType, DType::f32), max = k.reduce(Op::max, kType, DType::f32);
};

// The parts of a row's loss.
template <class T>
struct Row {
  T peak = 0;         // max z (0 where that is infinite)
  double total = 0;   // Σ e^(z − peak)
  double target = 0;  // z_y
  double spread = 0;  // Σ w·z, with label smoothing
  double lse() const { return static_cast<double>(peak) + std::log(total); }
};

// S is the storage type of x and W, T the compute type.
template <class S, class T>
class LinearCrossEntropy {
  static constexpr bool kHalf = !std::is_same_v<S, T>;

 public:
  explicit LinearCrossEntropy(const LibraryCall& call)
      : o_(options_as<LinearCrossEntropyCall>(call.attrs)), units_(static_cast<const RowUnits*>(call.data.get())) {
    const View& x = call.inputs[0];
    dtype_ = x.dtype;
    rows_ = x.shape[0];
    width_ = x.shape[1];
    classes_ = call.inputs[1].shape[0];
    x_ = static_cast<const S*>(x.data);
    head_ = static_cast<const S*>(call.inputs[1].data);
    target_ = call.inputs[2];
    std::size_t next = 3;
    if (o_.cotangent) cotangent_ = call.inputs[next++];
    if (o_.bias) bias_ = widened(call.inputs[next++]);
    if (o_.weight) weight_ = widened(call.inputs[next++]);
    further_ = call.inputs.subspan(next);
    losses_ = call.outputs[0];
    loss_ = static_cast<T*>(call.outputs[0].data);
    next = 1;
    if (o_.input_gradient) dx_ = static_cast<S*>(call.outputs[next++].data);
    if (o_.head_gradient) dhead_ = static_cast<S*>(call.outputs[next++].data);
    if (o_.bias_gradient) dbias_ = call.outputs[next++];
    const std::size_t n = static_cast<std::size_t>(classes_);
    if (o_.weight) {
      for (T w : weight_) weight_sum_ += static_cast<double>(w);
    } else {
      weight_sum_ = static_cast<double>(n);
    }
  }

  void run() {
    find_rows();
    const auto rows = static_cast<std::int64_t>(kept_.size());
    chunk_ = std::clamp<std::int64_t>(o_.chunk ? o_.chunk : default_chunk(), 1, std::max<std::int64_t>(1, rows));
    plan_head_gradient(rows);
    if (o_.head_gradient && rows == 0) std::memset(dhead_, 0, sizeof(S) * static_cast<std::size_t>(classes_ * width_));
    if (!all_kept()) {
      std::fill_n(loss_, rows_, T(0));
      if (o_.input_gradient) std::memset(dx_, 0, sizeof(S) * static_cast<std::size_t>(rows_ * width_));
    }
    logits_ = allocate<T>(chunk_ * classes_);
    if (kHalf || !in_order()) {
      if (!in_order()) x_block_ = allocate<S>(chunk_ * width_);
      if (o_.input_gradient) dx_block_ = allocate<T>(chunk_ * width_);
    }
    if (kHalf && o_.head_gradient && rows > chunk_) dhead_block_ = allocate<T>(head_block_ * width_);
    if (again_ || units_) seen_.resize(kept_.size());
    if (o_.bias_gradient) bias_total_.assign(static_cast<std::size_t>(classes_), 0.0);
    if (units_) {
      run_units();
    } else {
      in_chunks(0, rows, [&](std::int64_t first, std::int64_t count) {
        const Matrix<T> x = make_logits(first, count);
        finish_rows(first, count);
        add_gradients(x, first, count);
      });
    }
    if (again_) head_gradients();
    if (summed_) round_head_gradient();
    if (o_.bias_gradient) store_bias();
  }

 private:
  // As many rows as fit the memory for logits. A unit that needs more gets some more, since it streams twice otherwise.
  std::int64_t default_chunk() const {
    const CpuModel& model = cpu_model();
    const std::int64_t row_bytes = std::max<std::int64_t>(1, classes_) * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t least =
        model.logits_least_rows * row_bytes <= 2 * model.logits_bytes ? model.logits_least_rows : model.logits_few_rows;
    const std::int64_t rows = std::clamp(model.logits_bytes / row_bytes / 16 * 16, least, model.logits_rows);
    std::int64_t largest = 0;
    for (std::size_t u = 0; u + 1 < unit_.size(); ++u) largest = std::max(largest, unit_[u + 1] - unit_[u]);
    return largest <= model.logits_chunks_of_unit * rows ? std::max(rows, largest) : rows;
  }

  // The gradient of a half head is summed over chunks in T. As a whole, if that takes no more memory than all logits
  // would; else in blocks of classes, one after the other, for which the logits are computed again: a fourth product.
  void plan_head_gradient(std::int64_t rows) {
    const bool sums = kHalf && o_.head_gradient && rows > chunk_;
    summed_ = sums && width_ <= rows;
    again_ = sums && !summed_;
    head_block_ = std::max<std::int64_t>(1, classes_);
    if (kHalf && !summed_)
      head_block_ = std::clamp<std::int64_t>((std::int64_t{1} << 20) / std::max<std::int64_t>(1, width_), 64,
                                             std::max<std::int64_t>(64, classes_));
  }

  // Calls f(first, count) for the chunks of positions [begin, end).
  template <class F>
  void in_chunks(std::int64_t begin, std::int64_t end, F&& f) const {
    for (std::int64_t first = begin; first < end; first += chunk_) f(first, std::min(chunk_, end - first));
  }

  void run_units() {
    const std::int64_t units = units_->units;
    cotangents_.resize(static_cast<std::size_t>(rows_));
    const auto begin = [&](std::int64_t u) { return unit_[static_cast<std::size_t>(u)]; };
    for (std::int64_t u = 0, next; u < units; u = next) {
      next = u + 1;
      while (next < units && begin(next + 1) - begin(u) <= chunk_) ++next;
      const std::int64_t from = begin(u), to = begin(next);
      Matrix<T> x;
      in_chunks(from, to, [&](std::int64_t first, std::int64_t count) {
        x = make_logits(first, count);
        look_at_rows(first, count);
      });
      if (from == to) continue;
      find_cotangents(u, next - u);
      const bool there = to - from <= chunk_;
      in_chunks(from, to, [&](std::int64_t first, std::int64_t count) {
        if (!there) x = make_logits(first, count);
        differentiate_rows(first, count, 0, classes_, there);
        add_gradients(x, first, count);
      });
    }
  }

  void find_cotangents(std::int64_t first, std::int64_t count) {
    const Tensor found = ask_for_cotangents(*units_, first, count, losses_, further_);
    const T* from = found.data<T>();
    const std::int64_t n = count * units_->tokens;
    for (std::int64_t s = 0; s < units_->sides; ++s)
      std::copy_n(from + s * n, n, cotangents_.begin() + (s * units_->units + first) * units_->tokens);
  }

  // The logits of the rows at positions [first, first + count), and these rows.
  Matrix<T> make_logits(std::int64_t first, std::int64_t count) {
    const Matrix<T> x = input_rows(first, count);
    product(x, count, 0, classes_, pointer(logits_), classes_);
    return x;
  }

  // Adds the contribution of a chunk's logits to the requested gradients.
  void add_gradients(const Matrix<T>& x, std::int64_t first, std::int64_t count) {
    if (o_.input_gradient) input_gradient(first, count);
    if (o_.head_gradient && !again_) head_gradient(x, first, count);
    if (o_.bias_gradient) bias_gradient(count);
  }

  template <class U>
  static BufferPtr allocate(std::int64_t n) {
    return BufferPtr::allocate(sizeof(U) * static_cast<std::size_t>(std::max<std::int64_t>(1, n)),
                               "linear_cross_entropy");
  }
  static T* pointer(const BufferPtr& buffer) { return reinterpret_cast<T*>(buffer.data()); }

  std::vector<T> widened(const View& v) const {
    std::vector<T> out(static_cast<std::size_t>(v.shape[0]));
    tile_kernels().load(v.dtype, RowLoops<T>::kType)(out.data(), v.data, v.strides[0], out.size());
    return out;
  }

  std::int64_t target(std::int64_t row) const {
    return static_cast<const std::int64_t*>(target_.data)[row * target_.strides[0]];
  }
  double cotangent(std::int64_t row) const {
    if (units_) return static_cast<double>(cotangents_[static_cast<std::size_t>(row)]);
    return o_.cotangent ? static_cast<double>(static_cast<const T*>(cotangent_.data)[row * cotangent_.strides[0]]) : 1;
  }

  // Ignored rows are skipped entirely: prompts and padding cost no products.
  void find_rows() {
    for (std::int64_t r = 0; r < rows_; ++r) {
      const std::int64_t y = target(r);
      if (y == o_.ignore_index) continue;
      require(y >= 0 && y < classes_, Error::Kind::index, "{}: target[{}] = {} is outside [0, {})", o_.name(), r, y,
              classes_);
      kept_.push_back(r);
    }
    if (units_) order_by_units();
  }
  void order_by_units() {
    kept_.clear();
    for (std::int64_t u = 0; u < units_->units; ++u) {
      unit_.push_back(static_cast<std::int64_t>(kept_.size()));
      for (std::int64_t s = 0; s < units_->sides; ++s) {
        const std::int64_t first = (s * units_->units + u) * units_->tokens;
        for (std::int64_t r = first; r < first + units_->tokens; ++r)
          if (target(r) != o_.ignore_index) kept_.push_back(r);
      }
    }
    unit_.push_back(static_cast<std::int64_t>(kept_.size()));
  }
  bool all_kept() const { return static_cast<std::int64_t>(kept_.size()) == rows_; }
  // Are the counted rows contiguous in x?
  bool in_order() const { return all_kept() && (!units_ || units_->sides == 1); }
  std::int64_t row(std::int64_t position) const { return kept_[static_cast<std::size_t>(position)]; }

  // Rows at positions [first, first + count) among the counted ones.
  Matrix<T> input_rows(std::int64_t first, std::int64_t count) const {
    if (in_order()) return {x_ + first * width_, width_, 1, dtype_};
    S* block = reinterpret_cast<S*>(x_block_.data());
    for (std::int64_t i = 0; i < count; ++i)
      std::memcpy(block + i * width_, x_ + row(first + i) * width_, sizeof(S) * static_cast<std::size_t>(width_));
    return {block, width_, 1, dtype_};
  }
  Matrix<T> head() const { return {head_, width_, 1, dtype_}; }

  // z[:, v..v+n) = x·W[v..v+n)ᵀ + b; rows of z are `stride` apart.
  void product(const Matrix<T>& x, std::int64_t count, std::int64_t v, std::int64_t n, T* z,
               std::int64_t stride) const {
    T* to = z + v;
    if (o_.bias) {
      for (std::int64_t r = 0; r < count; ++r)
        std::memcpy(to + r * stride, bias_.data() + v, static_cast<std::size_t>(n) * sizeof(T));
    }
    gemm<T>(count, n, width_, T(1), x, head().from(v, 0).transposed(), o_.bias ? T(1) : T(0), to, stride);
  }

  // f(offset, length) over tiles of n elements.
  template <class F>
  static void tiles(std::int64_t n, F&& f) {
    for (std::int64_t i = 0; i < n; i += static_cast<std::int64_t>(kBlock))
      f(i, static_cast<std::size_t>(std::min<std::int64_t>(kBlock, n - i)));
  }

  void cap(T* z, std::size_t n) const {
    const T down = static_cast<T>(1 / o_.softcap), up = static_cast<T>(o_.softcap);
    k_.scale(z, z, &down, nullptr, n);
    k_.tanh(z, z, nullptr, nullptr, n);
    k_.scale(z, z, &up, nullptr, n);
  }

  // Losses of the chunk; then the logits become their gradient.
  void finish_rows(std::int64_t first, std::int64_t count) {
    parallel_for(count, [&](std::int64_t r) {
      T* z = pointer(logits_) + r * classes_;
      const std::int64_t row = this->row(first + r);
      const Row<T> seen = look_at_row(z, first + r);
      if (o_.gradients()) differentiate(z, 0, classes_, target(row), cotangent(row), seen, leaves_exponentials());
    });
  }

  Row<T> look_at_row(T* z, std::int64_t position) {
    const std::int64_t row = this->row(position), y = target(row);
    const Row<T> seen = look_at(z, y);
    loss_[row] = static_cast<T>(loss(y, seen));
    if (!seen_.empty()) seen_[static_cast<std::size_t>(position)] = seen;
    return seen;
  }

  // The same in two steps. Between them the logits stay as the first step leaves them (`there`), or are overwritten and
  // recomputed, perhaps only for classes [v, v + n).
  void look_at_rows(std::int64_t first, std::int64_t count) {
    parallel_for(count, [&](std::int64_t r) { look_at_row(pointer(logits_) + r * classes_, first + r); });
  }
  void differentiate_rows(std::int64_t first, std::int64_t count, std::int64_t v, std::int64_t n, bool there) {
    parallel_for(count, [&](std::int64_t r) {
      T* z = pointer(logits_) + r * n;
      const std::int64_t row = this->row(first + r);
      if (o_.softcap != 0 && !there) tiles(n, [&](std::int64_t i, std::size_t m) { cap(z + i, m); });
      differentiate(z, v, n, target(row), cotangent(row), seen_[static_cast<std::size_t>(first + r)],
                    there && leaves_exponentials());
    });
  }

  // The gradient needs e^(z − peak) once more; with a softcap it needs z too.
  bool leaves_exponentials() const { return o_.gradients() && o_.softcap == 0; }

  Row<T> look_at(T* z, std::int64_t y) const {
    double peak = -std::numeric_limits<double>::infinity();
    Row<T> seen;
    T tile[kBlock];
    tiles(classes_, [&](std::int64_t i, std::size_t n) {
      if (o_.softcap != 0) cap(z + i, n);
      k_.max(&peak, z + i, 1, n);
      if (o_.label_smoothing == 0) return;
      if (o_.weight) k_.multiply(tile, z + i, weight_.data() + i, nullptr, n);
      k_.sum(&seen.spread, o_.weight ? tile : z + i, 1, n);
    });
    seen.peak = std::isfinite(peak) ? static_cast<T>(peak) : T(0);
    seen.target = static_cast<double>(z[y]);
    tiles(classes_, [&](std::int64_t i, std::size_t n) {
      T* e = leaves_exponentials() ? z + i : tile;
      k_.shift(e, z + i, &seen.peak, nullptr, n);
      k_.exp(e, e, nullptr, nullptr, n);
      k_.sum(&seen.total, e, 1, n);
    });
    return seen;
  }

  double weight(std::int64_t y) const {
    return o_.weight ? static_cast<double>(weight_[static_cast<std::size_t>(y)]) : 1;
  }

  double loss(std::int64_t y, const Row<T>& seen) const {
    const double lse = seen.lse(), eps = o_.label_smoothing;
    double loss = (1 - eps) * weight(y) * (lse - seen.target);
    if (eps != 0) loss += eps / static_cast<double>(classes_) * (weight_sum_ * lse - seen.spread);
    if (o_.z_loss != 0) loss += weight(y) * o_.z_loss * lse * lse;
    return loss;
  }

  // Turns z (or e^(z − peak)) of classes [v, v + n) of a row into the row's gradient.
  void differentiate(T* z, std::int64_t v, std::int64_t n, std::int64_t y, double g, const Row<T>& seen,
                     bool exponentials) const {
    const double eps = o_.label_smoothing, spread = eps / static_cast<double>(classes_);
    const double hit = (1 - eps) * weight(y);
    double a = hit + spread * weight_sum_;
    if (o_.z_loss != 0) a += 2 * weight(y) * o_.z_loss * seen.lse();
    const T scale = static_cast<T>(g * a / seen.total), minus = static_cast<T>(-g * spread);
    const T drop = static_cast<T>(g * hit);
    T tile[kBlock], bend[kBlock];
    tiles(n, [&](std::int64_t i, std::size_t m) {
      if (!exponentials) {
        k_.shift(tile, z + i, &seen.peak, nullptr, m);
        k_.exp(tile, tile, nullptr, nullptr, m);
      }
      const T* e = exponentials ? z + i : tile;
      T* to = o_.softcap != 0 ? tile : z + i;  // z is still needed where it is capped
      if (eps != 0 && o_.weight) {
        k_.scale(tile, e, &scale, nullptr, m);
        k_.add_scaled(to, weight_.data() + v + i, &minus, tile, m);
      } else if (eps != 0) {
        k_.affine(to, e, &scale, &minus, m);
      } else {
        k_.scale(to, e, &scale, nullptr, m);
      }
      const std::int64_t at = y - v - i;
      if (at >= 0 && at < static_cast<std::int64_t>(m)) to[at] -= drop;
      if (o_.softcap != 0) {  // ·(1 − (z/s)²)
        const T curve = static_cast<T>(-1 / (o_.softcap * o_.softcap)), one = 1;
        k_.square(bend, z + i, nullptr, nullptr, m);
        k_.affine(bend, bend, &curve, &one, m);
        k_.multiply(z + i, tile, bend, nullptr, m);
      }
    });
  }

  // The gradient of logits, from class v on. With bf16 factors it may be rounded to bf16 for the products: the relative
  // error of its numbers is then at most 2^-9, as for x and W already, and that of their sums less than the rounding of
  // the result.
  Matrix<T> logits_gradient(std::int64_t v, std::int64_t stride) const {
    return {pointer(logits_) + v, stride, 1, dtype_of_type<T>::value, std::is_same_v<S, BFloat16>};
  }

  // dx = dz·W
  void input_gradient(std::int64_t first, std::int64_t count) {
    T* to = dx_block_ ? pointer(dx_block_) : reinterpret_cast<T*>(dx_ + first * width_);
    gemm<T>(count, width_, classes_, T(1), logits_gradient(0, classes_), head(), T(0), to, width_);
    for (std::int64_t i = 0; dx_block_ && i < count; ++i) {
      S* place = dx_ + row(first + i) * width_;
      if constexpr (kHalf) {
        float_to_halves(dtype_, to + i * width_, place, width_);
      } else {
        std::memcpy(place, to + i * width_, sizeof(T) * static_cast<std::size_t>(width_));
      }
    }
  }

  // dW += dzᵀ·x. Without a sum in T, halves have one chunk only, and each block of dW is rounded when it is done.
  void head_gradient(const Matrix<T>& x, std::int64_t first, std::int64_t count) {
    for (std::int64_t v = 0; v < classes_; v += head_block_) {
      const std::int64_t n = std::min(head_block_, classes_ - v);
      const Matrix<T> dz = logits_gradient(v, classes_).transposed();
      T* sum = reinterpret_cast<T*>(dhead_);
      if constexpr (kHalf) {
        if (!summed_) {
          gemm_to_halves(n, width_, count, dz, x, dtype_, dhead_ + v * width_, width_);
          continue;
        }
        sum = pointer(dhead_block_);
      }
      gemm<T>(n, width_, count, T(1), dz, x, first == 0 ? T(0) : T(1), sum + v * width_, width_);
    }
  }

  void round_head_gradient() {
    if constexpr (kHalf) {
      const std::int64_t n = classes_ * width_, step = 64 * static_cast<std::int64_t>(kBlock);
      parallel_for((n + step - 1) / step, [&](std::int64_t b) {
        const std::int64_t at = b * step;
        float_to_halves(dtype_, pointer(dhead_block_) + at, dhead_ + at, std::min(step, n - at));
      });
    }
  }

  // Blocks of dW are finished one after the other: the logits of their classes are recomputed, for all rows.
  void head_gradients() {
    if constexpr (kHalf) {
      const auto rows = static_cast<std::int64_t>(kept_.size());
      const std::int64_t most = std::max<std::int64_t>(1, chunk_ * classes_ / head_block_);
      const std::int64_t step = std::min(chunk_, most);  // x_block_ holds that many
      for (std::int64_t v = 0; v < classes_; v += head_block_) {
        const std::int64_t n = std::min(head_block_, classes_ - v);
        for (std::int64_t first = 0; first < rows; first += step) {
          const std::int64_t count = std::min(step, rows - first);
          const Matrix<T> x = input_rows(first, count);
          product(x, count, v, n, pointer(logits_) - v, n);
          differentiate_rows(first, count, v, n, false);
          gemm<T>(n, width_, count, T(1), logits_gradient(0, n).transposed(), x, first == 0 ? T(0) : T(1),
                  pointer(dhead_block_), width_);
        }
        float_to_halves(dtype_, pointer(dhead_block_), dhead_ + v * width_, n * width_);
      }
    }
  }

  void bias_gradient(std::int64_t count) {
    parallel_for((classes_ + static_cast<std::int64_t>(kBlock) - 1) / static_cast<std::int64_t>(kBlock),
                 [&](std::int64_t b) {
                   const std::int64_t v = b * static_cast<std::int64_t>(kBlock);
                   const std::int64_t end = std::min<std::int64_t>(classes_, v + static_cast<std::int64_t>(kBlock));
                   for (std::int64_t r = 0; r < count; ++r) {
                     const T* dz = pointer(logits_) + r * classes_;
                     for (std::int64_t c = v; c < end; ++c)
                       bias_total_[static_cast<std::size_t>(c)] += static_cast<double>(dz[c]);
                   }
                 });
  }

  void store_bias() {
    std::vector<T> sum(bias_total_.begin(), bias_total_.end());
    tile_kernels().store(RowLoops<T>::kType, dbias_.dtype)(dbias_.data, 1, sum.data(), sum.size());
  }

  const LinearCrossEntropyCall o_;
  const RowUnits* const units_;  // null: cotangents are given
  const RowLoops<T> k_;
  DType dtype_;
  std::int64_t rows_, width_, classes_, chunk_, head_block_;
  bool summed_ = false, again_ = false;  // see plan_head_gradient
  const S* x_;
  const S* head_;
  View target_, cotangent_, dbias_, losses_;
  std::span<const View> further_;
  std::vector<T> bias_, weight_;
  double weight_sum_ = 0;
  T* loss_;
  S* dx_ = nullptr;
  S* dhead_ = nullptr;
  BufferPtr logits_, x_block_, dhead_block_, dx_block_;
  std::vector<std::int64_t> kept_;  // counted rows, those of a unit one after the other
  std::vector<std::int64_t> unit_;  // where each unit begins among those; one more at the end
  std::vector<Row<T>> seen_;        // for the counted rows, what the steps after the losses need
  std::vector<T> cotangents_;       // of all rows, as far as they are known
  std::vector<double> bias_total_;
};

}  // namespace

void run_linear_cross_entropy(const LibraryCall& call) {
  switch (call.inputs[0].dtype) {
    case DType::f64:
      return LinearCrossEntropy<double, double>(call).run();
    case DType::f32:
      return LinearCrossEntropy<float, float>(call).run();
    case DType::f16:
      return LinearCrossEntropy<Half, float>(call).run();
    default:
      return LinearCrossEntropy<BFloat16, float>(call).run();
  }
}

}  // namespace ebb::cpu
