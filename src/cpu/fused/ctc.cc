// SPDX-License-Identifier: MIT
// GCC vectorises comparisons of doubles only if it may ignore floating-point exceptions, which are not used here.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math")
#endif

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/buffer.h"
#include "core/parallel.h"
#include "cpu/fused/alignment.h"
#include "cpu/fused/wide_range.h"
#include "cpu/library/ops.h"

// CTC (Graves et al., 2006). A path over labels l_0..l_{S−1} visits states blank_0 label_0 blank_1 ... label_{S−1}
// blank_S; y are the probabilities e^x of the step:
//   α_t(blank_i) = (α(blank_i) + α(label_{i−1}))·y(blank)
//   α_t(label_i) = (α(label_i) + α(blank_i) + α(label_{i−1}) if l_i ≠ l_{i−1})·y(l_i)
//   Z = α(blank_S) + α(label_{S−1}) at the last step,   loss = −log Z
// β is the same from the end, without y of its own step. The gradient to x_t(c) is exact for any x, normalised or
// not: −Σ α·β/Z over the states of c. Its derivative in a direction comes from the same recursions on dual
// numbers.
namespace ebb::cpu {
namespace {

// Arrays for n states, with zeros before the first and after the last.
class States {
 public:
  States(std::int64_t n, bool dual) : memory_(static_cast<std::size_t>((n + 2) * (dual ? 3 : 2)), 0.0), n_(n) {
    double* p = memory_.data();
    array_ = {p + 1, p + n + 3, dual ? p + 2 * (n + 2) + 1 : nullptr};
    clear();
  }
  States(const States&) = delete;
  void clear() {
    for (std::int64_t i = -1; i <= n_; ++i) Wide{}.store(array_, i);
  }
  operator const WideArray&() const { return array_; }
  WideArray at(std::int64_t i) const { return array_.at(i); }

 private:
  std::vector<double> memory_;
  std::int64_t n_;
  WideArray array_;
};

template <class T, bool kDual>
class Sample {
 public:
  Sample(const AlignmentArguments& a, std::int64_t n)
      : a_(a),
        n_(n),
        steps_(a.steps_of(n)),
        size_(a.labels_of(n)),
        classes_(a.log_probs.shape[2]),
        y_(size_ + 1, kDual),
        y_blank_(size_ + 1, kDual) {
    for (std::int64_t i = 0; i < size_; ++i) {
      labels_.push_back(a.label(n, i));
      skip_.push_back(
          i > 0 && labels_[static_cast<std::size_t>(i)] != labels_[static_cast<std::size_t>(i - 1)] ? 0 : kForbidden);
    }
    skip_.push_back(kForbidden);
  }

  // α of every step is kept only for a gradient.
  Wide forward(bool keep) {
    if (steps_ == 0) return size_ == 0 ? Wide::one() : Wide{};
    const std::int64_t planes = kDual ? 3 : 2, row = 2 * size_ + 1;
    stride_ = keep ? row : 0;
    const std::int64_t rows = keep ? steps_ : 2;
    kept_ = BufferPtr::allocate(sizeof(double) * static_cast<std::size_t>(rows * row * planes), "ctc_loss");
    double* p = reinterpret_cast<double*>(kept_.data());
    all_ = {p, p + rows * row, kDual ? p + 2 * rows * row : nullptr};
    States blank(size_ + 1, kDual), label(size_, kDual), sum(size_ + 1, kDual);
    for (std::int64_t t = 0; t < steps_; ++t) {
      probabilities(t);
      if (t == 0) {
        start(Wide::one(), y_blank_, blank, 0);
        if (size_ > 0) start(Wide::one(), y_, label, 0);
      } else {
        wide_add<kDual>(sum, label, blank, label.at(-1), skip_.data(), size_);
        wide_add<kDual>(blank, blank, label.at(-1), size_ + 1);
        wide_multiply<kDual>(label, sum, y_, size_);
        wide_multiply<kDual>(blank, blank, y_blank_, size_ + 1);
      }
      if (keep) {
        copy(blank, all_.at(t * row), size_ + 1);
        copy(label, all_.at(t * row + size_ + 1), size_);
      }
    }
    Wide total = Wide::load(blank, size_);
    if (size_ > 0) total = total + Wide::load(label, size_ - 1);
    return total;
  }

  // Calls row(t, sums over the states of each class): α·β/Z, or its derivative.
  template <class Row>
  void backward(const Wide& total, Row&& row) {
    const Share share(total);
    States blank(size_ + 1, kDual), label(size_ + 1, kDual), wb(size_ + 1, kDual), wl(size_ + 1, kDual);
    std::vector<double> sums(static_cast<std::size_t>(classes_), 0.0), shares(static_cast<std::size_t>(size_ + 1));
    for (std::int64_t t = steps_ - 1; t >= 0; --t) {
      if (t == steps_ - 1) {
        Wide::one().store(blank, size_);
        if (size_ > 0) Wide::one().store(label, size_ - 1);
      } else {
        probabilities(t + 1);
        wide_multiply<kDual>(wb, blank, y_blank_, size_ + 1);
        wide_multiply<kDual>(wl, label, y_, size_);
        wide_add<kDual>(blank, wb, wl, size_ + 1);  // no label after the last blank: wl is zero there
        wide_add<kDual>(label, wl, wb.at(1), wl.at(1), skip_.data() + 1, size_);
      }
      const WideArray alpha = all_.at(t * stride_);
      sums[static_cast<std::size_t>(a_.o.blank)] += share.sum<kDual>(alpha, blank, shares.data(), size_ + 1);
      share.sum<kDual>(alpha.at(size_ + 1), label, shares.data(), size_);
      for (std::int64_t i = 0; i < size_; ++i)
        sums[static_cast<std::size_t>(labels_[static_cast<std::size_t>(i)])] += shares[static_cast<std::size_t>(i)];
      row(t, sums.data());
      sums[static_cast<std::size_t>(a_.o.blank)] = 0;
      for (std::int64_t c : labels_) sums[static_cast<std::size_t>(c)] = 0;
    }
  }

 private:
  static void start(const Wide& from, const WideArray& y, const WideArray& to, std::int64_t i) {
    times(from, Wide::load(y, i)).store(to, i);
  }

  static void copy(const WideArray& from, const WideArray& to, std::int64_t n) {
    const std::size_t bytes = sizeof(double) * static_cast<std::size_t>(n);
    if (bytes == 0) return;
    std::memcpy(to.m, from.m, bytes);
    std::memcpy(to.k, from.k, bytes);
    if constexpr (kDual) std::memcpy(to.d, from.d, bytes);
  }

  static double element(const View& v, std::int64_t t, std::int64_t n, std::int64_t c) {
    return as_double(static_cast<const T*>(v.data)[t * v.strides[0] + n * v.strides[1] + c * v.strides[2]]);
  }

  // y of the labels and, repeated, of the blank.
  void probabilities(std::int64_t t) {
    static const ElementwiseFn exp = tile_kernels().elementwise(Op::exp, RegType::f64, 0);
    const WideArray& y = y_;
    const WideArray& blank = y_blank_;
    for (std::int64_t i = 0; i < size_; ++i) {
      const std::int64_t c = labels_[static_cast<std::size_t>(i)];
      y.m[i] = element(a_.log_probs, t, n_, c);
      if constexpr (kDual) y.d[i] = element(a_.tangent, t, n_, c);
    }
    split_exponents(y.m, y.k, size_);
    exp(y.m, y.m, nullptr, nullptr, static_cast<std::size_t>(size_));
    const double tangent = kDual ? element(a_.tangent, t, n_, a_.o.blank) : 0;
    const Wide b = wide_exp(element(a_.log_probs, t, n_, a_.o.blank), tangent);
    for (std::int64_t i = 0; i <= size_; ++i) b.store(blank, i);
  }

  const AlignmentArguments& a_;
  const std::int64_t n_, steps_, size_, classes_;
  std::vector<std::int64_t> labels_;
  std::vector<double> skip_;  // 0 where label i may follow label i−1 at once
  States y_, y_blank_;
  BufferPtr kept_;
  WideArray all_{};
  std::int64_t stride_ = 0;
};

template <class T, bool kDual>
void ctc_sample(const AlignmentArguments& a, std::int64_t n, const LibraryCall& call) {
  Sample<T, kDual> s(a, n);
  const Wide total = s.forward(a.o.order >= 1);
  const bool possible = !total.is_zero();
  double value = kDual ? (possible ? -total.log_derivative() : 0)
                       : (possible            ? -total.log()
                          : a.o.zero_infinity ? 0
                                              : std::numeric_limits<double>::infinity());
  const View& loss = call.outputs[0];
  if (loss.dtype == DType::f64) {
    static_cast<double*>(loss.data)[n] = value;
  } else {
    static_cast<float*>(loss.data)[n] = static_cast<float>(value);
  }
  if (a.o.order == 0) return;
  const std::int64_t samples = a.log_probs.shape[1], classes = a.log_probs.shape[2], steps = a.log_probs.shape[0];
  auto* out = static_cast<std::byte*>(call.outputs[1].data);
  const auto to = [&](std::int64_t t) {
    return out + ((t * samples + n) * classes) * static_cast<std::int64_t>(sizeof(T));
  };
  const auto clear = [&](std::int64_t t) { std::memset(to(t), 0, sizeof(T) * static_cast<std::size_t>(classes)); };
  for (std::int64_t t = possible ? a.steps_of(n) : 0; t < steps; ++t) clear(t);
  if (!possible) return;  // −log 0 has no usable slope: 0, as for logsumexp of nothing but −inf
  const double g = a.cotangent_of(n);
  std::vector<double> scaled(static_cast<std::size_t>(classes));
  s.backward(total, [&](std::int64_t t, const double* sums) {
    for (std::int64_t c = 0; c < classes; ++c) scaled[static_cast<std::size_t>(c)] = sums[c] == 0 ? 0 : -g * sums[c];
    store_row(scaled.data(), classes, a.log_probs.dtype, to(t));
  });
}

}  // namespace

void run_ctc(const LibraryCall& call) {
  const View& labels = call.inputs[1];
  const AlignmentArguments a(call, "ctc_loss", 0, 1, labels.shape.rank() == 1 ? labels.shape[0] : labels.shape[1]);
  with_floating_type(a.log_probs.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    parallel_for(a.log_probs.shape[1], [&](std::int64_t n) {
      a.o.order == 2 ? ctc_sample<T, true>(a, n, call) : ctc_sample<T, false>(a, n, call);
    });
  });
}

}  // namespace ebb::cpu
