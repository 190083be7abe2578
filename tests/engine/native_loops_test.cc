// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "cpu/jit/loop.h"
#include "cpu/tile/kernels.h"
#include "ebb/ebb.h"
#include "engine/evaluate_anew.h"
#include "expect_error.h"

// Sweeps large enough for loops of machine code: results visible to the user stay the same.
namespace ebb {
namespace {

Tensor signs(std::int64_t n) { return where(rand({n}) > 0.5, 1.0, -1.0).eval(); }

std::vector<const cpu::TileKernels*> targets_with_loops() {
  const cpu::TargetList list = cpu::tile_kernel_targets();
  std::vector<const cpu::TileKernels*> found;
  for (std::size_t k = 0; k < list.count; ++k) {
    cpu::force_tile_kernels(list.begin_[k]);
    if (cpu::native_loops_usable()) found.push_back(list.begin_[k]);
  }
  cpu::force_tile_kernels(nullptr);
  return found;
}

TEST(NativeLoops, NameTheElementThatFailsACheck) {
  manual_seed(3);
  for (std::int64_t n : {20000, 20011}) {
    for (std::int64_t bad : {std::int64_t{0}, std::int64_t{1027}, std::int64_t{16383}, n - 1}) {
      std::vector<float> y = signs(n).to_vector<float>();
      y[static_cast<std::size_t>(bad)] = 0.5f;
      y[static_cast<std::size_t>(n - 1)] = 0.5f;
      const Tensor x = variable(randn({n}).eval()), target = from_data(y, {n});
      EXPECT_THROW_MESSAGE(
          backward(hinge_loss(x, target))[x].eval(),
          "hinge_loss: target must be 1 or -1, but the element at [" + std::to_string(bad) + "] is 0.5");
    }
  }
}

TEST(NativeLoops, GiveEveryTailItsDue) {
  manual_seed(4);
  for (std::int64_t n = 9200; n < 9233; ++n) {
    const Tensor x = variable(randn({n}).eval()), y = randn({n}).eval();
    const Gradients g = backward(huber_loss(x, y));
    const std::vector<float> gradient = g[x].to_vector<float>(), a = x.to_vector<float>(), b = y.to_vector<float>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double d = std::fmin(std::fmax(a[i] - b[i], -1.0), 1.0) / static_cast<double>(n);
      ASSERT_NEAR(gradient[i], d, 1e-6 * std::fabs(d) + 1e-12) << i << " of " << n;
    }
  }
}

// Rows of several groups of blocks, which a loop goes through many blocks at a time.
TEST(NativeLoops, AddLongRowsLikeTheSteps) {
  manual_seed(6);
  for (std::int64_t columns : {65536, 65537, 140001}) {
    const Tensor x = randn({3, columns}).eval(), y = randn({3, columns}).eval();
    auto values = [&](cpu::NativeLoops when) {
      cpu::set_native_loops(when);
      const Tensor d = x - y, scale = sum(d * d, 1, true), share = d / scale, total = sum(abs(d) / scale);
      evaluate_anew({total, scale, share});
      std::vector<float> all = total.to_vector<float>();
      for (const Tensor& t : {scale, share}) {
        const std::vector<float> part = t.to_vector<float>();
        all.insert(all.end(), part.begin(), part.end());
      }
      cpu::set_native_loops(cpu::NativeLoops::for_large_sweeps);
      return all;
    };
    EXPECT_EQ(values(cpu::NativeLoops::always), values(cpu::NativeLoops::never)) << columns;
  }
}

// Rows long enough for loops of their own, several to a tile: weights that all rows share, row values, sums, numbers
// that loops leave to the steps. Loops compute the bits of the steps with every instruction set, and a row those that
// it has by itself.
TEST(NativeLoops, TakeRowsOneByOne) {
  constexpr std::int64_t kRows = 70, kAlone = 41;
  for (const std::int64_t columns : {192, 517, 1031, 5003, 8193}) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      if (columns > 2048 && dtype == DType::f16) continue;
      manual_seed(8);
      const Tensor place = arange(kRows * columns), odd = where(remainder(place, 7919) == 77, 300.0, 1.0);
      const Tensor x = cast(randn({kRows, columns}) * reshape(odd, {kRows, columns}), dtype).eval();
      const Tensor w = cast(randn({columns}), dtype).eval(), narrow = cast(randn({columns}), DType::bf16).eval();
      const Tensor labels = remainder(arange(kRows) * 977, columns).eval();
      auto values = [&](const Tensor& rows, const Tensor& label, const cpu::TileKernels* target,
                        cpu::NativeLoops when) {
        cpu::force_tile_kernels(target);
        cpu::set_native_loops(when);
        const Tensor v = variable(rows), weight = variable(w);
        const Tensor norm = layer_norm(v, {columns}, weight, cast(narrow, dtype)), p = log_softmax(v * weight, 1);
        const Tensor losses = cross_entropy(v, label, {.reduction = Reduction::none});
        const Tensor far = sum(where(v > mean(v, 1, true), square(v), v) * w, 1);
        const Gradients g = backward(sum(norm * p * w) + sum(losses * far));
        const std::vector<Tensor> results{norm, p, losses, far, g[v], g[weight]};
        evaluate_anew(results);
        std::vector<std::vector<double>> all;
        for (const Tensor& t : results) {
          for (double& number : all.emplace_back(cast(t, DType::f64).to_vector()))
            if (std::isnan(number)) number = -77;
        }
        cpu::set_native_loops(cpu::NativeLoops::for_large_sweeps);
        cpu::force_tile_kernels(nullptr);
        return all;
      };
      const auto first = values(x, labels, nullptr, cpu::NativeLoops::always);
      for (const cpu::TileKernels* const target : targets_with_loops()) {
        const auto by_steps = values(x, labels, target, cpu::NativeLoops::never);
        EXPECT_TRUE(values(x, labels, target, cpu::NativeLoops::always) == by_steps)
            << columns << " " << name(dtype) << " " << target->target;
      }
      const auto alone = values(slice(x, 0, kAlone, kAlone + 1).eval(), slice(labels, 0, kAlone, kAlone + 1).eval(),
                                nullptr, cpu::NativeLoops::always);
      for (const std::size_t k : {0, 1, 2, 3, 4}) {
        const std::size_t n = alone[k].size(), from = kAlone * n;
        EXPECT_TRUE(std::equal(alone[k].begin(), alone[k].end(), first[k].begin() + static_cast<std::ptrdiff_t>(from)))
            << columns << " " << name(dtype) << ", result " << k << " of one row";
      }
    }
  }
}

TEST(NativeLoops, NameTheElementOfARowThatFailsACheck) {
  manual_seed(9);
  constexpr std::int64_t kRows = 80, kColumns = 1501;
  for (const std::int64_t row : {0, 3, 42, 79}) {
    for (const std::int64_t column : {0, 1024, 1500}) {
      std::vector<float> y = signs(kRows * kColumns).to_vector<float>();
      y[static_cast<std::size_t>(row * kColumns + column)] = 0.5f;
      y.back() = 0.5f;
      const Tensor x = randn({kRows, kColumns}).eval(), target = from_data(y, {kRows, kColumns});
      const Tensor losses = hinge_loss(x - mean(x, 1, true), target, {.reduction = Reduction::none});
      EXPECT_THROW_MESSAGE(sum(losses * mean(x, 1, true), 1).eval(),
                           "hinge_loss: target must be 1 or -1, but the element at [" + std::to_string(row) + ", " +
                               std::to_string(column) + "] is 0.5");
    }
  }
}

// A norm of channels, whose rows consist of pieces, with numbers in some of them that loops leave to the steps.
TEST(NativeLoops, GoFromPieceToPiece) {
  for (const std::int64_t piece : {64, 256, 1000, 1024, 2048}) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      auto values = [&](cpu::NativeLoops when) {
        cpu::set_native_loops(when);
        manual_seed(7);
        const Shape shape{4096 / piece + 3, 5, piece};
        const Tensor odd = where(remainder(arange(shape.numel()), 9973) == 77, 3e4, 1.0);
        const Tensor x = cast(randn(shape) * reshape(odd, shape), dtype).eval();
        const Tensor mean = ebb::mean(x, {0, 2}, true), d = x - mean, scale = ebb::mean(square(d), {0, 2}, true);
        const Tensor y = relu(d / sqrt(scale + 1e-5)), e = exp(x) - log(abs(d)), total = sum(y * d, {0, 2});
        evaluate_anew({y, e, total});
        std::vector<double> all;
        for (const Tensor& t : {y, e, total}) {
          for (const double v : cast(t, DType::f64).to_vector()) all.push_back(std::isnan(v) ? -77 : v);
        }
        cpu::set_native_loops(cpu::NativeLoops::for_large_sweeps);
        return all;
      };
      EXPECT_EQ(values(cpu::NativeLoops::always), values(cpu::NativeLoops::never)) << piece << " " << name(dtype);
    }
  }
}

// Loops implement exp and logarithms for ordinary numbers only; for others, the steps take over.
TEST(NativeLoops, LeaveExtremesToTheSteps) {
  manual_seed(5);
  constexpr std::int64_t kCount = 50000;
  std::vector<float> x = rand({kCount}).to_vector<float>();
  const float inf = std::numeric_limits<float>::infinity();
  const float special[] = {0.0f, -0.0f, -1.0f, -2.0f, inf, -inf, std::nanf(""), 1e-42f, -90.0f, 100.0f, 3e38f};
  for (std::size_t k = 0; k < std::size(special); ++k) {
    x[k * 2048 + 7 * k] = special[k];  // one in a block
    for (std::size_t i = 0; i < std::size(special); ++i) x[30000 + 50 * k + i] = special[(i + k) % std::size(special)];
  }
  x.back() = 0.0f;  // among the last few
  const Tensor v = from_data(x, {kCount});
  auto values = [&](cpu::NativeLoops when) {
    cpu::set_native_loops(when);
    const Tensor e = exp(-square(v)), l = log(v) * 2, p = log1p(v) + 1, q = softplus(v) * sigmoid(v),
                 s = sum(where(isnan(l), 0, clamp(l + e, -9, 9)));
    evaluate_anew({e, l, p, q, s});
    std::vector<float> all = s.to_vector<float>();
    for (const Tensor& t : {e, l, p, q}) {
      const std::vector<float> part = t.to_vector<float>();
      all.insert(all.end(), part.begin(), part.end());
    }
    cpu::set_native_loops(cpu::NativeLoops::for_large_sweeps);
    return all;
  };
  const std::vector<float> by_loops = values(cpu::NativeLoops::always), by_steps = values(cpu::NativeLoops::never);
  ASSERT_EQ(by_loops.size(), by_steps.size());
  for (std::size_t i = 0; i < by_loops.size(); ++i) {
    if (std::isnan(by_loops[i]) && std::isnan(by_steps[i])) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(by_loops[i]), std::bit_cast<std::uint32_t>(by_steps[i])) << i;
  }
}

// Extremes in every block, often enough that the loops are suspended for a while and retried.
TEST(NativeLoops, MayFailAllTheTime) {
  constexpr std::int64_t kCount = 3'000'000;
  const Tensor at = arange(kCount),
               x = where(remainder(at, 100) == 3, 0.0, 0.5 + cast(remainder(at, 7), DType::f32)).eval();
  auto values = [&](cpu::NativeLoops when) {
    cpu::set_native_loops(when);
    const Tensor l = log(x) * 2 + 1, total = sum(maximum(l, -5));
    evaluate_anew({l, total});
    std::vector<float> all = total.to_vector<float>(), part = l.to_vector<float>();
    all.insert(all.end(), part.begin(), part.end());
    cpu::set_native_loops(cpu::NativeLoops::for_large_sweeps);
    return all;
  };
  const std::vector<float> by_loops = values(cpu::NativeLoops::always);
  EXPECT_EQ(by_loops, values(cpu::NativeLoops::never));
  EXPECT_EQ(by_loops[4], -std::numeric_limits<float>::infinity());
  EXPECT_FLOAT_EQ(by_loops[1], 2 * std::log(0.5f) + 1);
}

}  // namespace
}  // namespace ebb
