// SPDX-License-Identifier: MIT
#include "cuda/library/alignment.h"

#include <fmt/format.h>

#include "core/format_error.h"

namespace ebb::cuda {
AlignmentKernels::AlignmentKernels(const LibraryCall& call, RunMark& mark)
    : call_(call), ctc_(call.op == Op::ctc), options_(options_as<AlignmentCall>(call.attrs)) {
  const View &x = call.inputs[0], &labels = call.inputs[1];
  steps = x.shape[ctc_ ? 0 : 1], samples = x.shape[ctc_ ? 1 : 0], classes = x.shape[ctc_ ? 2 : 3];
  joined = labels.shape.rank() == 1;
  room = !ctc_ ? x.shape[2] - 1 : labels.shape[joined ? 0 : 1];
  const std::int64_t targets = labels.shape[0];
  require(samples > 0 || !joined || targets == 0, "{}: target_lengths add up to 0, but there are {} targets", name(),
          targets);
  const std::uint64_t step = mark.add_step([=, name = name(), steps = steps, samples = samples, classes = classes,
                                            room = room](int check, std::int64_t position, std::uint64_t bits) {
    const auto number = static_cast<std::int64_t>(bits);
    const std::int64_t n = position < samples ? position : (position - samples) / room;
    const std::int64_t i = position < samples ? 0 : (position - samples) % room;
    switch (check) {
      case kStepsCheck:
        return Error(Error::Kind::value,
                     fmt::format("{}: input_lengths[{}] = {} is outside [0, {}], the log-probabilities have {} steps",
                                 name, n, number, steps, steps));
      case kLengthCheck:
        return Error(Error::Kind::value,
                     fmt::format("{}: target_lengths[{}] = {} is outside [0, {}]", name, n, number, room));
      case kSumCheck:
        return Error(Error::Kind::value,
                     fmt::format("{}: target_lengths up to [{}] add up to {}, but there are {} targets", name, n,
                                 number, targets));
      case kAllCheck:
        return Error(Error::Kind::value,
                     fmt::format("{}: target_lengths add up to {}, but there are {} targets", name, number, targets));
      case kClassCheck:
        return Error(Error::Kind::index,
                     fmt::format("{}: label {} of sample {} is {}, outside [0, {})", name, i, n, number, classes));
      default:  // kBlankCheck
        return Error(
            Error::Kind::value,
            fmt::format("{}: label {} of sample {} is {}, the blank; targets must not hold it", name, i, n, number));
    }
  });
  complaints_ = {mark.slot(), static_cast<i64>(step)};
}

KernelSource AlignmentKernels::source(const char* text) const {
  const DType dtype = call_.inputs[0].dtype;
  return {element_text(dtype) +
          fmt::format("constexpr bool kDual = {};\ntypedef {} L;\n", options_.order >= 2,
                      call_.outputs[0].dtype == DType::f64 ? "f64" : "f32") +
          fmt::format("constexpr bool kHalf = {};\n", is_half(dtype)) + text};
}

AlignmentArgs<void, void> AlignmentKernels::shared_args() const {
  const View &x = call_.inputs[0], &labels = call_.inputs[1], &input_lengths = call_.inputs[2],
             &label_lengths = call_.inputs[3], &tangent = options_.order >= 2 ? call_.inputs[5] : x;
  const int time = ctc_ ? 0 : 1, batch = ctc_ ? 1 : 0, classes_axis = ctc_ ? 2 : 3, labels_axis = 2;
  return {.x = x.data,
          .tangent = tangent.data,
          .labels = elements<i64>(labels),
          .input_lengths = elements<i64>(input_lengths),
          .label_lengths = elements<i64>(label_lengths),
          .cotangent = keep() ? call_.inputs[4].data : nullptr,
          .losses = call_.outputs[0].data,
          .gradient = keep() ? call_.outputs[1].data : nullptr,
          .steps = steps,
          .samples = samples,
          .classes = classes,
          .room = room,
          .total_labels = labels.shape[0],
          .joined = joined,
          .order = options_.order,
          .blank = options_.blank,
          .zero_infinity = options_.zero_infinity,
          .x_t = x.strides[time],
          .x_n = x.strides[batch],
          .x_c = x.strides[classes_axis],
          .tangent_t = tangent.strides[time],
          .tangent_n = tangent.strides[batch],
          .tangent_c = tangent.strides[classes_axis],
          .x_u = x.strides[labels_axis],  // if labels are an axis
          .tangent_u = tangent.strides[labels_axis],
          .label_n = joined ? 0 : labels.strides[0],
          .label_i = labels.strides[joined ? 0 : 1],
          .input_step = input_lengths.strides[0],
          .length_step = label_lengths.strides[0],
          .cotangent_step = keep() ? call_.inputs[4].strides[0] : 0,
          .complaints = complaints_};
}

}  // namespace ebb::cuda
