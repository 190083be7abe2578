// SPDX-License-Identifier: MIT
// Losses of logits that are not stored, on the GPU.
#include <array>

#include "core/format_error.h"
#include "cuda/backend.h"
#include "cuda/library_on_gpu.h"
#include "cuda/runtime/gpu.h"

namespace ebb::testing {
namespace {

class HeadsOnGpu : public LibraryOnGpu {};

TEST_P(HeadsOnGpu, LinearCrossEntropy) {
  const Tensor x = real({11, 6}), head = real({13, 6}), bias = real({13}), weight = abs(real({13})).eval();
  Tensor target = randint(0, 13, {11}).eval();
  target = where(target == 4, -100, target).eval();
  for (const std::int64_t chunk : {0, 4}) {
    LinearCrossEntropyOptions o;
    o.chunk = chunk;
    compare("linear_cross_entropy", {x, head, target},
            [&](const std::vector<Tensor>& in) { return linear_cross_entropy(in[0], in[1], in[2], o); });
    // Rows that bf16 takes eight neighbours at a time, in two rounds; the second is not full, nor are all its eights.
    for (const auto& [classes, round] :
         std::vector<std::pair<std::int64_t, bool>>{{2056, false}, {2056, true}, {2059, false}, {2059, true}}) {
      const Tensor wide = real({classes, 6}), of_classes = abs(real({classes})).eval();
      LinearCrossEntropyOptions rounded = o;
      rounded.round_logits = rounded.round_sums = round;
      compare("linear_cross_entropy of many classes", {x, wide, target},
              [&](const std::vector<Tensor>& in) { return linear_cross_entropy(in[0], in[1], in[2], rounded); });
      rounded.z_loss = 1e-2;
      compare("linear_cross_entropy of many classes with weights", {x, wide, target},
              [&](const std::vector<Tensor>& in) {
                LinearCrossEntropyOptions with = rounded;
                with.weight = of_classes.to(in[0].device());
                return linear_cross_entropy(in[0], in[1], in[2], with);
              });
    }
    o.label_smoothing = 0.1;
    o.z_loss = 1e-2;
    o.softcap = 3;
    compare("linear_cross_entropy with everything", {x, head, target, bias}, [&](const std::vector<Tensor>& in) {
      LinearCrossEntropyOptions with = o;
      with.bias = in[3];
      with.weight = weight.to(in[0].device());
      return linear_cross_entropy(in[0], in[1], in[2], with);
    });
  }
}

// Several chunks, the last one shorter, with several parts each; numbers of rows, widths and classes that are multiples
// of eight, and some that are not. Products of bf16 have sizes in eights all the same.
TEST_P(HeadsOnGpu, LinearCrossEntropyInPartsOfChunks) {
  use_emulated_device_without_gpu();
  cuda::Gpu& gpu = cuda::gpu(0);
  const cuda::GpuModel before = gpu.model();
  cuda::GpuModel model = before;
  model.head_rows = 8;
  model.logit_gradient_bytes = 24 * 100;  // of a head without rows, 24 rows
  model.part_bytes = 8 * 4 * 32;
  gpu.set_model(model);
  for (const auto& [rows, width, classes] :
       {std::array<std::int64_t, 3>{69, 7, 27}, {70, 12, 32}, {64, 8, 25}, {70, 42, 27}}) {
    const std::string size = fmt::format(" of {} x {} x {}", rows, width, classes);
    const Tensor x = real({rows, width}), head = real({classes, width}), bias = real({classes});
    const Tensor target = where(remainder(arange(rows), 5) == 3, -100, remainder(arange(rows) * 7, classes)).eval();
    const long slow = emulated_slow_products();
    compare("linear_cross_entropy" + size, {x, head, target},
            [&](const std::vector<Tensor>& in) { return linear_cross_entropy(in[0], in[1], in[2]); });
    for (const bool round : {false, true}) {
      compare("linear_cross_entropy with z_loss" + size, {x, head, target}, [&](const std::vector<Tensor>& in) {
        return linear_cross_entropy(in[0], in[1], in[2], {.z_loss = 1e-2, .round_logits = round, .round_sums = round});
      });
    }
    compare("linear_cross_entropy with everything" + size, {x, head, target, bias}, [&](const std::vector<Tensor>& in) {
      LinearCrossEntropyOptions o{.bias = in[3], .label_smoothing = 0.1, .z_loss = 1e-2, .softcap = 3};
      return linear_cross_entropy(in[0], in[1], in[2], o);
    });
    if (GetParam() == DType::bf16) {
      EXPECT_EQ(emulated_slow_products(), slow) << size;
    }
  }
  gpu.set_model(before);
}

// Where the head's gradient is summed in f32, logits use the memory that will hold the gradient at the end: larger
// parts of them take no more.
TEST(HeadsOnGpuInMemory, LogitsTakeThatOfTheGradient) {
  use_emulated_device_without_gpu();
  constexpr Device gpu_device{Device::Kind::cuda, 0};
  cuda::Gpu& gpu = cuda::gpu(0);
  const cuda::GpuModel before = gpu.model();
  const std::int64_t rows = 512, width = 512, classes = 256;
  const Tensor x = variable(cast(randn({rows, width}), DType::bf16).to(gpu_device).eval());
  const Tensor head = variable(cast(randn({classes, width}), DType::bf16).to(gpu_device).eval());
  const Tensor target = remainder(arange(rows) * 7, classes).to(gpu_device).eval();
  const auto peak_of = [&](std::int64_t part_rows) {
    cuda::GpuModel model = before;
    model.head_rows = 8;
    model.logit_gradient_bytes = 128 * (2 * classes + 4 * width);
    model.part_bytes = part_rows * 4 * classes;
    gpu.set_model(model);
    reset_peak_memory(gpu_device);
    const std::size_t held = memory_stats(gpu_device).live;
    const Gradients g = backward(linear_cross_entropy(x, head, target));
    eval({g[x], g[head]});
    return memory_stats(gpu_device).peak - held;
  };
  const std::size_t small = peak_of(16), large = peak_of(64);
  gpu.set_model(before);
  EXPECT_LT(large, small + 48 * 4 * classes / 2);
}

// Formulas of logits in chunks, with a number of classes that a GPU pads.
TEST_P(HeadsOnGpu, LogProbabilitiesOfOddHeads) {
  const std::int64_t rows = 21, width = 8, classes = 267;
  const Tensor x = real({rows, width}), head = real({classes, width});
  const Tensor target = remainder(arange(rows) * 13, classes).eval();
  for (const std::int64_t chunk : {0, 8}) {
    compare(fmt::format("log-probabilities and entropy, chunk {}", chunk), {x, head, target},
            [&](const std::vector<Tensor>& in) {
              TokenStatisticsOptions o;
              o.entropy = true;
              o.chunk = chunk;
              const TokenStatistics s = linear_token_statistics(in[0], in[1], in[2], o);
              return s.log_probs + s.entropy;
            });
    compare(fmt::format("probabilities as targets, chunk {}", chunk), {x, head}, [&](const std::vector<Tensor>& in) {
      const Tensor p = softmax(cast(remainder(arange(rows * classes), 17), in[0].dtype()), 0);
      return linear_cross_entropy(in[0], in[1], reshape(p, {rows, classes}).to(in[0].device()), {.chunk = chunk});
    });
  }
}

// Rows of bf16 of which a multiprocessor holds two on chip, one, one with registers, and none; some are ignored.
TEST_P(HeadsOnGpu, LinearCrossEntropyOfLongRows) {
  const std::int64_t rows = 11;
  const Tensor x = real({rows, 4}), target = where(remainder(arange(rows), 4) == 2, -100, arange(rows) * 2600).eval();
  for (const std::int64_t classes : {28672, 28675, 49160, 57357, 106505, 131080}) {
    const Tensor head = real({classes, 4});
    for (const bool round : {false, true}) {
      compare("linear_cross_entropy of " + std::to_string(classes) + " classes", {x, head, target},
              [&](const std::vector<Tensor>& in) {
                return linear_cross_entropy(in[0], in[1], in[2], {.round_logits = round});
              });
    }
  }
}

// A chunk holds a row, less than a pair of answers, a pair, two pairs, which do not divide five, or everything: the
// inputs of a pair's or an answer's loss are ready before its gradients are computed.
TEST_P(HeadsOnGpu, LossesOfAnswersThroughAHead) {
  constexpr std::int64_t answers = 10, tokens = 3, classes = 736;  // large enough to be one call
  const Tensor x = real({answers, tokens, 6}), head = real({classes, 6}), bias = real({classes});
  const Tensor of_answers = real({answers}), old = cast(randn({answers, tokens}) * 0.3 - 6.5, GetParam()).eval();
  const Tensor at = arange(answers * tokens);
  const Tensor target =
      reshape(where(remainder(at, 7) == 4, -100, remainder(at * 11, classes)), {answers, tokens}).eval();
  for (const std::int64_t chunk : {0, 1, 4, 6, 13}) {
    const auto with = [&](const Tensor& b) {
      return LinearLogProbOptions{.bias = b, .temperature = 1.6, .chunk = chunk};
    };
    const std::string in_chunks = fmt::format(" in chunks of {}", chunk);
    compare("linear_dpo_loss" + in_chunks, {x, head, target, of_answers, bias}, [&](const std::vector<Tensor>& in) {
      return linear_dpo_loss(in[0], in[1], in[2], in[3], {.beta = 0.7, .reduction = Reduction::none}, with(in[4]));
    });
    compare("linear_kto_loss" + in_chunks, {x, head, target, of_answers, bias}, [&](const std::vector<Tensor>& in) {
      const Tensor good = (remainder(arange(answers), 3) == 1).to(in[0].device());
      return linear_kto_loss(in[0], in[1], in[2], in[3], good, {.beta = 0.3, .reduction = Reduction::none},
                             with(in[4]));
    });
    compare("linear_grpo_loss" + in_chunks, {x, head, target, of_answers, old}, [&](const std::vector<Tensor>& in) {
      return linear_grpo_loss(in[0], in[1], in[2], in[3], {.old = in[4], .by_token = true}, with({}));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Of, HeadsOnGpu, kFloats, dtype_of_test);

}  // namespace
}  // namespace ebb::testing
