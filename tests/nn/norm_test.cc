// SPDX-License-Identifier: MIT
#include "ebb/nn/norm.h"

#include <gtest/gtest.h>

#include "ebb/gradcheck.h"
#include "ebb/io.h"
#include "ebb/memory.h"
#include "ebb/nn.h"
#include "ebb/optim.h"
#include "expect_error.h"
#include "golden_layers.h"
#include "scratch_folder.h"

// Norms of channels: their behaviour in training and evaluation, and their running statistics.
namespace ebb {
namespace {

using namespace nn;
using testing::expect_close;
using testing::f64;
using testing::follow;
using testing::names;
using testing::waves;

TEST(ChannelNormLayers, GiveTheGoldenValues) {
  follow("batch_norm", BatchNorm(3, {.dtype = f64}), {4, 3});
  follow("batch_norm_sequence", BatchNorm(3, {.dtype = f64}), {2, 3, 5});
  follow("batch_norm_picture", BatchNorm(3, {.eps = 1e-3, .dtype = f64}), {2, 3, 4, 2});
  follow("batch_norm_plain", BatchNorm(3, {.affine = false, .track_running_stats = false, .dtype = f64}), {4, 3, 2});
  follow("group_norm", GroupNorm(2, 4, {.dtype = f64}), {2, 4, 3});
  follow("group_norm_plain", GroupNorm(3, 6, {.eps = 1e-3, .affine = false, .dtype = f64}), {2, 6, 2, 2});
  follow("instance_norm", InstanceNorm(3, {.dtype = f64}), {2, 3, 4, 2});
  follow("instance_norm_tracking", InstanceNorm(3, {.affine = true, .track_running_stats = true, .dtype = f64}),
         {2, 3, 5});
}

// Three batches in training, then one in evaluation: the statistics after each batch, and the last output.
template <class Layer>
void follow_statistics(const std::string& name, Layer layer, const Shape& shape) {
  const auto golden = testing::golden("nn/golden/layers.txt");
  for (std::size_t k = 0; k < 3; ++k) {
    layer(waves(shape, static_cast<double>(k), 2) + static_cast<double>(k)).eval();
    expect_close(layer.running_mean.value, golden.at(name + ".running_mean").at(k), name + ".running_mean");
    expect_close(layer.running_var.value, golden.at(name + ".running_var").at(k), name + ".running_var");
  }
  set_training(layer, false);
  const Layer& done = layer;  // const: evaluation changes nothing
  expect_close(done(waves(shape, 0.5)), golden.at(name + ".evaluated").at(0), name + ".evaluated");
  expect_close(layer(waves(shape, 0.5)), golden.at(name + ".evaluated").at(0), name + ".evaluated");
  expect_close(layer.running_mean.value, golden.at(name + ".running_mean").at(2), name + ".running_mean");
}

TEST(RunningStatistics, AreTheGoldenOnes) {
  follow_statistics("statistics_momentum", BatchNorm(3, {.momentum = 0.3, .dtype = f64}), {2, 3, 4});
  follow_statistics("statistics_average", BatchNorm(3, {.momentum = {}, .dtype = f64}), {5, 3});
  follow_statistics("statistics_picture", BatchNorm(2, {.dtype = f64}), {2, 2, 3, 3});
  follow_statistics("statistics_instance", InstanceNorm(3, {.track_running_stats = true, .dtype = f64}), {2, 3, 4});
}

TEST(RunningStatistics, CountTheirBatches) {
  BatchNorm norm(3);
  for (int k = 0; k < 5; ++k) norm(randn({4, 3}));
  EXPECT_EQ(norm.num_batches_tracked.value.item<std::int64_t>(), 5);
  norm(zeros({0, 3}));  // no batch
  EXPECT_THROW_MESSAGE(norm(ones({1, 3})), "one value per channel has no variance");
  EXPECT_EQ(norm.num_batches_tracked.value.item<std::int64_t>(), 5);
  EXPECT_EQ(norm(zeros({0, 3})).shape(), (Shape{0, 3}));
}

TEST(RunningStatistics, AreF32ForHalves) {
  BatchNorm norm(3, {.dtype = DType::f16});
  const Tensor y = norm(ones({4, 3}, DType::f16) * 60000.0);
  EXPECT_EQ(y.dtype(), DType::f16);
  EXPECT_EQ(norm.running_mean.value.dtype(), DType::f32);
  EXPECT_NEAR(norm.running_mean.value.to_vector()[0], 6000, 2);
  EXPECT_NEAR(norm.running_var.value.to_vector()[0], 0.9, 1e-6);
}

TEST(RunningStatistics, AreNotDifferentiated) {
  BatchNorm norm(3);
  const Tensor x = variable(randn({4, 3}));
  norm(x);
  EXPECT_FALSE(norm.running_mean.value.requires_grad());
  EXPECT_FALSE(norm.running_var.value.requires_grad());
}

TEST(RunningStatistics, AreComputedByTheStep) {
  Sequential net{Linear(4, 3), BatchNorm(3), Linear(3, 1)};
  Sgd sgd({.lr = 0.1});
  const Tensor loss = mean(square(net(randn({8, 4}))));
  EXPECT_FALSE(net.get<1>().running_mean.value.evaluated());
  sgd.step(net, backward(loss));
  EXPECT_TRUE(net.get<1>().running_mean.value.evaluated());
  EXPECT_TRUE(net.get<1>().running_var.value.evaluated());
}

// They must not keep every batch alive if they are never read.
TEST(RunningStatistics, HoldAtMostOneBatch) {
  BatchNorm norm(3);
  const std::size_t batch = 100000 * 3 * sizeof(float);
  const std::size_t before = memory_stats(default_device()).live;
  for (int k = 0; k < 10; ++k) norm(randn({100000, 3}).eval());
  EXPECT_LT(memory_stats(default_device()).live - before, 3 * batch);
}

TEST(RunningStatistics, MoveOnceThroughACheckpoint) {
  const auto run = [](auto call) {
    BatchNorm batch(3);
    InstanceNorm instance(3, {.track_running_stats = true});
    const Tensor x = variable(waves({4, 3, 5}, 1));
    const auto f = [&](const Tensor& in) { return square(instance(tanh(batch(in)))); };
    const Tensor g = backward(sum(call(f, x)))[x];
    EXPECT_EQ(batch.num_batches_tracked.value.template item<std::int64_t>(), 1);
    EXPECT_EQ(instance.num_batches_tracked.value.template item<std::int64_t>(), 1);
    return cat({flatten(g), batch.running_mean.value, batch.running_var.value, instance.running_var.value}, 0)
        .to_vector();
  };
  EXPECT_EQ(run([](const auto& f, const Tensor& x) { return checkpoint(f, x); }),
            run([](const auto& f, const Tensor& x) { return f(x); }));
}

TEST(RunningStatistics, OfACopyInHalvesCanBeGivenBack) {
  Sequential net{Linear(4, 3), BatchNorm(3)};
  auto half = cast_parameters(net, DType::bf16);
  half(cast(randn({8, 4}), DType::bf16));
  EXPECT_EQ(net.get<1>().num_batches_tracked.value.item<std::int64_t>(), 0);
  take_buffers(net, half);
  EXPECT_EQ(net.get<1>().num_batches_tracked.value.item<std::int64_t>(), 1);
  EXPECT_TRUE(allclose(net.get<1>().running_var.value, half.get<1>().running_var.value));
  EXPECT_EQ(net.get<1>().weight.dtype(), DType::f32);
}

TEST(ChannelNormLayers, HaveTorchsNames) {
  BatchNorm batch(3);
  EXPECT_EQ(names(parameters(batch)), (std::vector<std::string>{"weight", "bias"}));
  EXPECT_EQ(names(buffers(batch)), (std::vector<std::string>{"running_mean", "running_var", "num_batches_tracked"}));
  EXPECT_EQ(names(state(batch)),
            (std::vector<std::string>{"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}));
  InstanceNorm instance(3);
  EXPECT_TRUE(state(instance).empty());
  InstanceNorm tracking(3, {.affine = true, .track_running_stats = true});
  EXPECT_EQ(names(state(tracking)), names(state(batch)));
  GroupNorm group(2, 4);
  EXPECT_EQ(names(state(group)), (std::vector<std::string>{"weight", "bias"}));
}

TEST(ChannelNormLayers, LearnAWeightAlone) {
  const Tensor x = waves({3, 4, 5}, 1, 2);
  const auto check = [&](auto without, auto with) {
    EXPECT_EQ(parameters(without).size(), 1u);
    EXPECT_TRUE(all(without(x) == with(x)).template item<bool>());  // its initial bias is zero
  };
  check(BatchNorm(4, {.bias = false, .dtype = f64}), BatchNorm(4, {.dtype = f64}));
  check(InstanceNorm(4, {.affine = true, .bias = false, .dtype = f64}),
        InstanceNorm(4, {.affine = true, .dtype = f64}));
  check(GroupNorm(2, 4, {.bias = false, .dtype = f64}), GroupNorm(2, 4, {.dtype = f64}));
}

TEST(ChannelNormLayers, AreSavedAndLoaded) {
  const ScratchFolder folder;
  Sequential net{Conv2d(1, 3, 3), BatchNorm(3), Relu{}};
  net(randn({2, 1, 5, 5}));
  io::save_safetensors(folder / "net.safetensors", state_dict(net));

  Sequential other{Conv2d(1, 3, 3), BatchNorm(3), Relu{}};
  io::TensorMap loaded = io::load_safetensors(folder / "net.safetensors");
  load_state_dict(other, loaded);
  EXPECT_EQ(other.get<1>().num_batches_tracked.value.item<std::int64_t>(), 1);
  set_training(net, false);
  set_training(other, false);
  const Tensor x = randn({2, 1, 5, 5});
  EXPECT_TRUE(all(net(x) == other(x)).item<bool>());
  EXPECT_TRUE(parameters(other)[0].tensor->requires_grad());

  Sequential wide{Conv2d(1, 3, 3, {.dtype = DType::f64}), BatchNorm(3, {.dtype = DType::f64}), Relu{}};
  load_state_dict(wide, loaded);
  EXPECT_EQ(parameters(wide)[0].tensor->dtype(), DType::f64);
  EXPECT_TRUE(all(*parameters(wide)[0].tensor == cast(loaded.at("0.weight"), DType::f64)).item<bool>());

  const Tensor before = *parameters(other)[0].tensor;
  loaded["1.bias"] = zeros({4});
  EXPECT_THROW_MESSAGE(load_state_dict(other, loaded), "load_state_dict: 1.bias has shape [4], the model's [3]");
  loaded.erase("0.bias");
  loaded["2.bias"] = zeros({3});
  EXPECT_THROW_MESSAGE(load_state_dict(other, loaded), "load_state_dict: missing 0.bias; unknown 2.bias");
  EXPECT_EQ(parameters(other)[0].tensor->node(), before.node());  // nothing has been loaded
}

TEST(ChannelNormLayers, GradientsAreSlopes) {
  const Tensor x = waves({4, 4, 3}, 1, 2);
  for (bool training : {true, false}) {
    const auto check = [&](auto layer) {
      set_training(layer, training);
      const GradcheckReport report = check_gradients(FunctionOfMany([&](const std::vector<Tensor>& in) {
                                                       auto copy = layer;
                                                       copy.weight = in[1];
                                                       copy.bias = in[2];
                                                       return copy(in[0]);
                                                     }),
                                                     {x, waves({4}, 2), waves({4}, 3)});
      EXPECT_TRUE(report.passed()) << report;
    };
    check(BatchNorm(4, {.dtype = f64}));
    check(GroupNorm(2, 4, {.dtype = f64}));
    check(InstanceNorm(4, {.affine = true, .dtype = f64}));
    check(InstanceNorm(4, {.affine = true, .track_running_stats = true, .dtype = f64}));
  }
}

TEST(ChannelNormLayers, SayWhatIsWrong) {
  EXPECT_THROW_MESSAGE(BatchNorm(3)(ones({2, 4, 5})),
                       "BatchNorm: the input must have shape [batch, 3, ...], got [2, 4, 5]");
  EXPECT_THROW_MESSAGE(BatchNorm(3)(ones({3})), "BatchNorm: the input must have shape [batch, 3, ...], got [3]");
  EXPECT_THROW_MESSAGE(BatchNorm(3, {.momentum = 2}), "BatchNorm: momentum must be in [0, 1], got 2");
  EXPECT_THROW_MESSAGE(BatchNorm(-1), "BatchNorm: the number of channels must not be negative, got -1");
  EXPECT_THROW_MESSAGE(GroupNorm(3, 4), "GroupNorm: 4 channels cannot be divided into 3 groups");
  EXPECT_THROW_MESSAGE(GroupNorm(2, 4)(ones({2, 6})),
                       "GroupNorm: the input must have shape [batch, 4, ...], got [2, 6]");
  const BatchNorm fixed(3);
  EXPECT_THROW_MESSAGE(fixed(ones({2, 3})), "BatchNorm: a const layer cannot update its running statistics");
}

}  // namespace
}  // namespace ebb
