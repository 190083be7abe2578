// SPDX-License-Identifier: MIT
#include <cstring>
#include <vector>

#include "core/buffer.h"
#include "core/parallel.h"
#include "cpu/fused/alignment.h"
#include "cpu/fused/wide_range.h"
#include "cpu/library/ops.h"

// The RNN transducer (Graves, 2012). At step t, after u labels, a path either takes the next step (blank) or emits the
// next label:
//   α(t, u) = α(t−1, u)·blank(t−1, u) + α(t, u−1)·emit(t, u−1),   Z = α(T−1, U)·blank(T−1, U),   loss = −log Z
//   β(t, u) = blank(t, u)·β(t+1, u) + emit(t, u)·β(t, u+1),       β(T, U) = 1
// The gradient is exact for any log-probabilities: at blank(t, u) −α·blank·β(t+1, u)/Z, at emit(t, u) −α·emit·β(t,
// u+1)/Z. Dual numbers give its derivative in a direction.
namespace ebb::cpu {
namespace {

template <class T, bool kDual>
class Lattice {
 public:
  Lattice(const AlignmentArguments& a, std::int64_t n) : a_(a), n_(n), steps_(a.steps_of(n)), size_(a.labels_of(n)) {
    for (std::int64_t i = 0; i < size_; ++i) labels_.push_back(a.label(n, i));
  }

  Wide forward(bool keep) {
    if (steps_ == 0) return {};
    const std::int64_t width = size_ + 1, planes = kDual ? 3 : 2, rows = keep ? steps_ : 1;
    stride_ = keep ? width : 0;
    kept_ = BufferPtr::allocate(sizeof(double) * static_cast<std::size_t>(rows * width * planes), "rnnt_loss");
    double* p = reinterpret_cast<double*>(kept_.data());
    all_ = {p, p + rows * width, kDual ? p + 2 * rows * width : nullptr};
    Wide last;
    for (std::int64_t t = 0; t < steps_; ++t) {
      for (std::int64_t u = 0; u <= size_; ++u) {
        Wide x = t == 0 && u == 0 ? Wide::one() : Wide{};
        if (t > 0) x = x + times(Wide::load(all_, (t - 1) * stride_ + u), probability(t - 1, u, a_.o.blank));
        if (u > 0) x = x + times(last, probability(t, u - 1, label(u - 1)));
        // A sum may be slightly out of range; the next product brings it back.
        x.store(all_, t * stride_ + u);
        last = x;
      }
    }
    return times(last, probability(steps_ - 1, size_, a_.o.blank));
  }

  // place(t, u, class, share)
  template <class Place>
  void backward(const Wide& total, Place&& place) {
    const Share share(total);
    std::vector<Wide> beta(static_cast<std::size_t>(size_ + 1));  // of step t + 1, then of step t
    for (std::int64_t t = steps_ - 1; t >= 0; --t) {
      for (std::int64_t u = size_; u >= 0; --u) {
        const Wide alpha = Wide::load(all_, t * stride_ + u);
        Wide& here = beta[static_cast<std::size_t>(u)];
        const Wide after = t == steps_ - 1 ? (u == size_ ? Wide::one() : Wide{}) : here;
        const Wide by_blank = times(after, probability(t, u, a_.o.blank));
        place(t, u, a_.o.blank, part(share, alpha, by_blank));
        here = by_blank;
        if (u < size_) {
          const Wide by_label = times(beta[static_cast<std::size_t>(u + 1)], probability(t, u, label(u)));
          place(t, u, label(u), part(share, alpha, by_label));
          here = here + by_label;
        }
      }
    }
  }

 private:
  std::int64_t label(std::int64_t u) const { return labels_[static_cast<std::size_t>(u)]; }

  static double part(const Share& share, const Wide& a, const Wide& b) {
    return kDual ? share.derivative(a, b) : share.of(a, b);
  }

  Wide probability(std::int64_t t, std::int64_t u, std::int64_t c) const {
    return wide_exp(element(a_.log_probs, t, u, c), kDual ? element(a_.tangent, t, u, c) : 0);
  }
  double element(const View& v, std::int64_t t, std::int64_t u, std::int64_t c) const {
    return as_double(
        static_cast<const T*>(v.data)[n_ * v.strides[0] + t * v.strides[1] + u * v.strides[2] + c * v.strides[3]]);
  }

  const AlignmentArguments& a_;
  const std::int64_t n_, steps_, size_;
  std::vector<std::int64_t> labels_;
  BufferPtr kept_;
  WideArray all_{};
  std::int64_t stride_ = 0;
};

template <class T, bool kDual>
void transducer_sample(const AlignmentArguments& a, std::int64_t n, const LibraryCall& call) {
  Lattice<T, kDual> s(a, n);
  const Wide total = s.forward(a.o.order >= 1);
  const bool possible = !total.is_zero();
  const double value = kDual ? (possible ? -total.log_derivative() : 0)
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
  const Shape& shape = a.log_probs.shape;
  T* out = static_cast<T*>(call.outputs[1].data) + n * shape[1] * shape[2] * shape[3];
  std::memset(out, 0, sizeof(T) * static_cast<std::size_t>(shape[1] * shape[2] * shape[3]));
  if (!possible) return;
  const double g = a.cotangent_of(n);
  s.backward(total, [&](std::int64_t t, std::int64_t u, std::int64_t c, double x) {
    const double d = -g * x;
    store_row(&d, 1, a.log_probs.dtype, out + (t * shape[2] + u) * shape[3] + c);
  });
}

}  // namespace

void run_transducer(const LibraryCall& call) {
  const AlignmentArguments a(call, "rnnt_loss", 1, 0, call.inputs[0].shape[2] - 1);
  with_floating_type(a.log_probs.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    parallel_for(a.log_probs.shape[0], [&](std::int64_t n) {
      a.o.order == 2 ? transducer_sample<T, true>(a, n, call) : transducer_sample<T, false>(a, n, call);
    });
  });
}

}  // namespace ebb::cpu
