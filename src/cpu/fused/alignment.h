// SPDX-License-Identifier: MIT
#pragma once
#include "backend/call.h"
#include "calls/alignment.h"
#include "core/format_error.h"
#include "cpu/tile/elements.h"

// Shared by ctc and transducer: their arguments, read and validated before anything else is touched.
namespace ebb::cpu {

struct AlignmentArguments {
  AlignmentCall o;
  View log_probs, labels, input_lengths, label_lengths, cotangent, tangent;
  std::vector<std::int64_t> first_label;  // of each sample, in elements of `labels`
  std::int64_t label_step = 1;

  // `time` and `batch` are axes of the log-probabilities; `room` is the largest number of labels.
  AlignmentArguments(const LibraryCall& call, const char* name, int time, int batch, std::int64_t room)
      : o(options_as<AlignmentCall>(call.attrs)) {
    log_probs = call.inputs[0];
    labels = call.inputs[1];
    input_lengths = call.inputs[2];
    label_lengths = call.inputs[3];
    if (o.order >= 1) cotangent = call.inputs[4];
    if (o.order >= 2) tangent = call.inputs[5];
    const std::int64_t samples = log_probs.shape[batch], steps = log_probs.shape[time];
    const std::int64_t classes = log_probs.shape[log_probs.shape.rank() - 1];
    const bool joined = labels.shape.rank() == 1;
    label_step = labels.strides[joined ? 0 : 1];
    std::int64_t next = 0;
    for (std::int64_t n = 0; n < samples; ++n) {
      const std::int64_t t = steps_of(n), u = labels_of(n);
      require(t >= 0 && t <= steps,
              "{}: input_lengths[{}] = {} is outside [0, {}], the log-probabilities have {} steps", name, n, t, steps,
              steps);
      require(u >= 0 && u <= room, "{}: target_lengths[{}] = {} is outside [0, {}]", name, n, u, room);
      require(!joined || next + u <= labels.shape[0],
              "{}: target_lengths up to [{}] add up to {}, but there are {} targets", name, n, next + u,
              labels.shape[0]);
      first_label.push_back(joined ? next * label_step : n * labels.strides[0]);
      next += u;
    }
    require(!joined || next == labels.shape[0], "{}: target_lengths add up to {}, but there are {} targets", name, next,
            labels.shape[0]);
    for (std::int64_t n = 0; n < samples; ++n) {
      for (std::int64_t i = 0; i < labels_of(n); ++i) {
        const std::int64_t c = label(n, i);
        require(c >= 0 && c < classes, Error::Kind::index, "{}: label {} of sample {} is {}, outside [0, {})", name, i,
                n, c, classes);
        require(c != o.blank, "{}: label {} of sample {} is {}, the blank; targets must not hold it", name, i, n, c);
      }
    }
  }

  std::int64_t steps_of(std::int64_t n) const { return integer(input_lengths, n); }
  std::int64_t labels_of(std::int64_t n) const { return integer(label_lengths, n); }
  std::int64_t label(std::int64_t n, std::int64_t i) const {
    return static_cast<const std::int64_t*>(labels.data)[first_label[static_cast<std::size_t>(n)] + i * label_step];
  }
  double cotangent_of(std::int64_t n) const {
    const std::int64_t at = n * cotangent.strides[0];
    return cotangent.dtype == DType::f64 ? static_cast<const double*>(cotangent.data)[at]
                                         : static_cast<double>(static_cast<const float*>(cotangent.data)[at]);
  }

 private:
  static std::int64_t integer(const View& v, std::int64_t n) {
    return static_cast<const std::int64_t*>(v.data)[n * v.strides[0]];
  }
};

// A number of any floating dtype as a double.
template <class T>
double as_double(T x) {
  if constexpr (is_half_type<T>) {
    return static_cast<double>(to_float(x));
  } else {
    return static_cast<double>(x);
  }
}

// A row of sums, rounded once.
inline void store_row(const double* row, std::int64_t n, DType dtype, void* to) {
  tile_kernels().store(RegType::f64, dtype)(to, 1, row, static_cast<std::size_t>(n));
}

// f(Type<T>) for the floating dtypes.
template <class F>
void with_floating_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(Type<double>{});
    case DType::f32:
      return f(Type<float>{});
    case DType::f16:
      return f(Type<Half>{});
    default:
      return f(Type<BFloat16>{});
  }
}

}  // namespace ebb::cpu
