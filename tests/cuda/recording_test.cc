// SPDX-License-Identifier: MIT
// Compiled functions as CUDA graphs, sweeps in one launch, and the number of driver calls per step. On cuda:0: a GPU if
// there is one, else the emulated device.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "core/buffer.h"
#include "counted_driver.h"
#include "cuda/emulated_device.h"
#include "ebb/amp.h"
#include "ebb/autograd.h"
#include "ebb/compile.h"
#include "ebb/device.h"
#include "ebb/losses.h"
#include "ebb/memory.h"
#include "ebb/nn.h"
#include "ebb/ops.h"
#include "ebb/optim.h"
#include "ebb/origins.h"
#include "ebb/random.h"
#include "emulated_device.h"
#include "expect_error.h"

namespace ebb::testing {
namespace {

using Tensors = std::vector<Tensor>;

class Recordings : public ::testing::Test {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();
    ASSERT_TRUE(is_available(kGpu));
    count_driver_calls();
    manual_seed(5);
  }
  static std::vector<double> numbers(const Tensor& x) { return x.to_vector<double>(); }
  static std::vector<std::vector<double>> numbers(const Tensors& xs) {
    std::vector<std::vector<double>> all;
    for (const Tensor& x : xs) all.push_back(numbers(x));
    return all;
  }
  static Tensor there(const Tensor& x) { return x.eval().to(kGpu).eval(); }
};

// A network with random numbers, a check and products: the loss, its gradients, and the logits.
Tensors network(const Tensors& xs) {
  const auto [loss, gradients] = value_and_grad([&](const Tensors& w) {
    const Tensor h = relu(matmul(xs[2], w[0]));
    return cross_entropy(matmul(h * rand(h.shape()), w[1]), xs[3]);
  })({xs[0], xs[1]});
  return {loss, gradients[0], gradients[1], matmul(xs[2], xs[0])};
}

Tensors network_inputs(std::int64_t rows) {
  return {randn({6, 5}).eval().to(kGpu).eval(), randn({5, 4}).eval().to(kGpu).eval(),
          randn({rows, 6}).eval().to(kGpu).eval(), randint(0, 4, {rows}).eval().to(kGpu).eval()};
}

TEST_F(Recordings, HaveTheBitsOfThePlainRun) {
  const FunctionToMany compiled = compile(FunctionToMany(network));
  const Tensors often[] = {network_inputs(7), network_inputs(7), network_inputs(3)};  // two shapes
  for (int call = 0; call < 20; ++call) {
    SCOPED_TRACE(call);
    const Tensors inputs = call % 5 == 4 ? network_inputs(7) : often[call % 3];
    manual_seed(100 + static_cast<std::uint64_t>(call) / 2);
    if (call % 2) static_cast<void>(rand({1}));  // another number of operations before
    const RandomState state = random_state();
    const Tensors got = compiled(inputs);
    random_state() = state;
    EXPECT_EQ(numbers(got), numbers(network(inputs)));
  }
  EXPECT_GT(driver_calls().graph_launches, 5);
  EXPECT_GT(driver_calls().kernels_set, 5);  // random numbers and the slot of errors
}

// The results are the next call's inputs: two sets of memory alternate, and only graphs are launched.
TEST_F(Recordings, FollowATrainingLoop) {
  const auto step = [](const Tensors& s) {
    const auto [loss, g] = value_and_grad([&](const Tensor& w) { return mse_loss(matmul(s[3], w), s[4]); })(s[0]);
    const Tensor m = s[1] * 0.9 + g, rate = s[2] * 0.5;
    return Tensors{s[0] - rate * m, m, rate, loss};
  };
  const FunctionToMany compiled = compile(FunctionToMany(step));
  Tensors state{there(randn({6, 3})), there(zeros({6, 3})), there(full({}, 0.1))}, plain = state;
  const Tensor x = there(randn({9, 6})), y = there(randn({9, 3}));
  std::vector<double> losses, plain_losses;
  for (int k = 0; k < 10; ++k) {
    if (k == 6) driver_calls().reset();
    Tensors r = compiled({state[0], state[1], state[2], x, y});
    if (k == 9) {
      EXPECT_EQ(driver_calls().graph_launches, 4);
      EXPECT_EQ(driver_calls().instantiations, 0);
      EXPECT_EQ(driver_calls().launches, 0);
      EXPECT_EQ(driver_calls().waits, 0);
    }
    if (k < 6) losses.push_back(r[3].item<double>());
    r.pop_back();
    state = std::move(r);
  }
  for (int k = 0; k < 10; ++k) {
    Tensors r = step({plain[0], plain[1], plain[2], x, y});
    eval(r);
    if (k < 6) plain_losses.push_back(r[3].item<double>());
    r.pop_back();
    plain = std::move(r);
  }
  EXPECT_EQ(losses, plain_losses);
  EXPECT_EQ(numbers(state), numbers(plain));
}

TEST_F(Recordings, LeaveResultsThatTheCallerKeeps) {
  const FunctionToMany compiled = compile(FunctionToMany([](const Tensors& s) {
    const Tensor w = matmul(s[0], s[1]);
    return Tensors{w * 0.5, sum(w), s[0].slice(0, 0, 2)};
  }));
  Tensor w = there(randn({4, 4})), other = there(randn({4, 4}) * 0.3), plain = w;
  Tensors kept;
  std::vector<double> want;
  for (int k = 0; k < 12; ++k) {
    if (k == 9) driver_calls().reset();
    const Tensors r = compiled({w, other});
    EXPECT_EQ(numbers(r[2]), numbers(w.slice(0, 0, 2)));
    w = r[0];
    kept.push_back(r[1]);
    const Tensor product = matmul(plain, other);
    want.push_back(sum(product).item<double>());
    plain = (product * 0.5).eval();
  }
  for (std::size_t k = 0; k < kept.size(); ++k) EXPECT_EQ(kept[k].item<double>(), want[k]) << k;
  EXPECT_EQ(driver_calls().graph_launches, 3);
  // All of them are kept: nothing is overwritten, recorded or not.
  Tensors all;
  std::vector<std::vector<double>> expected;
  for (int k = 0; k < 24; ++k) {
    all.push_back(compiled({w, other})[0]);
    expected.push_back(numbers(matmul(w, other) * 0.5));
    if (k % 2) w = all.back();
  }
  EXPECT_EQ(numbers(all), expected);
}

TEST_F(Recordings, TakeInputsFromAnywhere) {
  const FunctionOfMany f = [](const Tensors& s) { return sum(matmul(s[0], s[1]) + s[2]); };
  const FunctionOfMany compiled = compile(f);
  const Tensor w = there(randn({5, 4})), wide = there(randn({6, 40, 3}));
  Tensors kept;
  for (int k = 0; k < 12; ++k) {
    kept.push_back(there(randn({3, 5})));
    if (k == 10) driver_calls().reset();
    // A view with strides, at another offset each time.
    const Tensor view = permute(select(wide.slice(1, k, k + 4), 0, 1), {1, 0}).eval();
    EXPECT_EQ(numbers(compiled({kept.back(), w, view})), numbers(f({kept.back(), w, view}))) << k;
  }
  EXPECT_EQ(driver_calls().instantiations, 0);
  EXPECT_EQ(driver_calls().graph_launches, 2);
}

TEST_F(Recordings, ReportErrorsToWhoeverReads) {
  const FunctionToMany compiled = compile(FunctionToMany(network));
  const Tensors good = network_inputs(7);
  Tensors bad = good;
  bad[3] = there(tensor({1, 2, 9, 0, 3, -1, 2}, DType::i64));
  Tensors before;
  for (int k = 0; k < 4; ++k) before = compiled(good);
  for (int k = 0; k < 3; ++k) {
    const Tensors failed = compiled(bad), after = compiled(good);
    EXPECT_THROW_MESSAGE(failed[1].to_vector<double>(), "cross_entropy: target[2] = 9 is outside [0, 4)");
    EXPECT_THROW_MESSAGE((failed[0] * 2).item<double>(), "cross_entropy: target[2] = 9 is outside [0, 4)");
    numbers(after);
    numbers(before);
  }
  const Tensors unread = compiled(bad);
  EXPECT_THROW_MESSAGE(synchronize(kGpu), "cross_entropy: target[2] = 9 is outside [0, 4)");
  EXPECT_GT(driver_calls().graph_launches, 5);
}

TEST_F(Recordings, AreDoneWithoutWhereTheDriverRefuses) {
  for (int which = 0; which < 4; ++which) {
    SCOPED_TRACE(which);
    const FunctionToMany compiled = compile(FunctionToMany(network));
    const Tensors inputs = network_inputs(7);
    driver_calls().reset();
    driver_calls().fail_capture = which == 0;
    driver_calls().fail_end = which == 1;
    driver_calls().fail_instantiation = which == 2;
    for (int k = 0; k < 4; ++k) {
      if (k == 2) driver_calls().fail_graph_launch = which == 3;
      const RandomState state = random_state();
      const Tensors got = compiled(inputs);
      random_state() = state;
      EXPECT_EQ(numbers(got), numbers(network(inputs))) << k;
    }
    EXPECT_LE(driver_calls().captures, 2);  // not tried again
    driver_calls().reset();
  }
}

TEST_F(Recordings, ServeSeveralThreads) {
  const FunctionOfMany f = [](const Tensors& s) { return sum(relu(matmul(s[0], s[1])) * s[1].slice(0, 0, 1)); };
  const FunctionOfMany compiled = compile(f);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    const Tensor x = there(randn({4, 4})), w = there(randn({4, 4}));
    const double want = f({x, w}).item<double>();
    threads.emplace_back([&, x, w, want] {
      for (int k = 0; k < 20; ++k) wrong += compiled({x, w}).item<double>() != want;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Recordings, AreNotMadeWhereTheyAreTurnedOff) {
  setenv("EBB_CUDA_GRAPHS", "0", 1);
  const FunctionToMany compiled = compile(FunctionToMany(network));
  const Tensors inputs = network_inputs(7);
  for (int k = 0; k < 4; ++k) eval(compiled(inputs));
  unsetenv("EBB_CUDA_GRAPHS");
  EXPECT_EQ(driver_calls().captures, 0);
}

// The memory of a compiled function is freed with it.
TEST_F(Recordings, GiveTheirMemoryBack) {
  const Tensors inputs = network_inputs(7);
  eval(network(inputs));
  const std::size_t before = memory_stats(kGpu).live;
  {
    const FunctionToMany compiled = compile(FunctionToMany(network));
    for (int k = 0; k < 4; ++k) eval(compiled(inputs));
    EXPECT_GT(memory_stats(kGpu).live, before);
    EXPECT_LT(memory_stats(kGpu).live, before + 64 * 1024);
  }
  EXPECT_EQ(memory_stats(kGpu).live, before);
}

TEST_F(Recordings, AnArenaKeepsItsBlocks) {
  const std::size_t before = memory_stats(kGpu).live;
  {
    Arena arena(kGpu);
    const std::byte* place = nullptr;
    {
      const Arena::Use use(arena);
      place = BufferPtr::allocate(1000, "a test", kGpu).data();
      EXPECT_EQ(BufferPtr::allocate(990, "a test", kGpu).data(), place);  // of the same size class
      const BufferPtr larger = BufferPtr::allocate(5000, "a test", kGpu);
      EXPECT_NE(larger.data(), place);
      BufferPtr::allocate(100, "a test");  // the host's memory has nothing to do with it
    }
    EXPECT_GE(arena.bytes(), 6000u);
    EXPECT_NE(BufferPtr::allocate(1000, "a test", kGpu).data(), place);
    EXPECT_EQ(memory_stats(kGpu).live, before + arena.bytes());
    const Arena::Use again(arena);
    EXPECT_EQ(BufferPtr::allocate(1000, "a test", kGpu).data(), place);
  }
  EXPECT_EQ(memory_stats(kGpu).live, before);
}

TEST_F(Recordings, NameTheLineWhereOriginsAreOn) {
  set_origins(true);
  const FunctionToMany compiled = compile(FunctionToMany(network));
  Tensors inputs = network_inputs(7);
  for (int k = 0; k < 3; ++k) eval(compiled(inputs));
  inputs[3] = there(tensor({1, 2, 9, 0, 3, -1, 2}, DType::i64));
  EXPECT_THROW_MESSAGE(eval(compiled(inputs)), "cross_entropy: target[2] = 9 is outside [0, 4) (built at ");
  set_origins(false);
  synchronize(kGpu);  // it has been reported
}

// ---- one launch for sweeps of one text ------------------------------------------------------------------------------

struct Layers {
  std::vector<Tensor> w;
  template <class V>
  void visit(V&& v) {
    for (std::size_t k = 0; k < w.size(); ++k) v(std::to_string(k).c_str(), w[k]);
  }
};

TEST_F(Recordings, UpdateAllParametersAtOnce) {
  const auto run = [&](Device device, bool count) {
    manual_seed(3);
    Layers model;
    std::vector<Tensor> directions;
    for (const Shape& shape : {Shape{30, 7}, Shape{40}, Shape{3, 5, 2}, Shape{600}, Shape{1}, Shape{0}}) {
      model.w.push_back(variable(randn(shape).eval().to(device)).eval());
      directions.push_back(randn(shape).eval().to(device).eval());
    }
    AdamW adamw({.lr = 0.1});
    for (int k = 0; k < 3; ++k) {
      std::vector<std::pair<Tensor, Tensor>> g;
      for (std::size_t i = 0; i < model.w.size(); ++i) g.emplace_back(model.w[i], directions[i]);
      if (k == 2) driver_calls().reset();
      adamw.step(model, Gradients(g));
      if (k == 2 && count) {
        EXPECT_EQ(driver_calls().launches, 3);  // with and without a tail; one element has a text of its own
      }
    }
    return numbers(model.w);
  };
  EXPECT_EQ(run(kGpu, true), run({}, false));  // IEEE arithmetic
}

// Clipping by the norm: the norms, and the updates.
TEST_F(Recordings, ReduceAllGradientsAtOnce) {
  std::vector<std::pair<Tensor, Tensor>> g, here;
  for (const std::int64_t n : {2000, 3000, 12000, 9000}) {
    here.emplace_back(variable(zeros({n})), randn({n}).eval());
    g.emplace_back(variable(zeros({n}).eval().to(kGpu)), here.back().second.to(kGpu).eval());
  }
  const auto clipped = [](const auto& gradients) {
    const ClippedGradients c = clip_by_norm(Gradients(gradients), 1);
    Tensors all{c.norm};
    for (const auto& [v, x] : c.gradients.all()) all.push_back(x);
    return all;
  };
  eval(clipped(g));
  driver_calls().reset();
  const Tensors got = clipped(g), want = clipped(here);
  eval(got);
  EXPECT_LE(driver_calls().launches, 5);  // norms and their end, one tensor of them, its norm, and the products
  EXPECT_EQ(driver_calls().waits, 0);
  for (std::size_t k = 0; k < got.size(); ++k) {
    const std::vector<double> a = numbers(got[k]), b = numbers(want[k]);
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5 * (1 + std::abs(b[i])));
  }
}

// An error in one of them names its own sweep.
TEST_F(Recordings, TellErrorsOfJoinedSweepsApart) {
  const auto loss = [](const Tensor& x, const Tensor& p) {
    return binary_cross_entropy(x, p, {.reduction = Reduction::none});
  };
  // Not full({n}, 0.5), which is one number in memory: its sweep has a different text.
  const auto halves_but = [](std::int64_t n, std::int64_t at) {
    return there(full({n}, 0.5) + cast(arange(n) == at, DType::f32));
  };
  const Tensor p = halves_but(300, 300), wrong = halves_but(200, 150);
  const Tensor a = loss(p, p), b = loss(wrong, wrong), c = loss(p.slice(0, 0, 100), p.slice(0, 0, 100));
  driver_calls().reset();
  eval({a, b, c});
  EXPECT_EQ(driver_calls().launches, 1);
  EXPECT_THROW_MESSAGE(numbers(b), "but the element at [150] is 1.5");
}

// ---- how often the driver is called ---------------------------------------------------------------------------------

TEST_F(Recordings, ReadANumberWithOneCopyAndOneWait) {
  const Tensor x = there(full({}, 2.0));
  numbers(x + 1);
  driver_calls().reset();
  EXPECT_EQ((x + 1).item<double>(), 3);
  EXPECT_EQ(driver_calls().launches, 1);
  EXPECT_EQ(driver_calls().copies_to_host, 1);
  EXPECT_EQ(driver_calls().waits, 1);
  EXPECT_EQ(driver_calls().records, 1);
}

// The end of a sum need not wait to be launched; also in a graph.
TEST_F(Recordings, LaunchTheEndOfASumEarly) {
  const Tensor x = there(randn({5000}));
  const double want = numbers(sum(x))[0];
  driver_calls().reset();
  EXPECT_EQ(numbers(sum(x))[0], want);
  EXPECT_EQ(driver_calls().launches, 2);
  const long early = driver_calls().early;
  if (device_is_emulated()) {  // a GPU may be too old
    EXPECT_EQ(early, 1);
  }
  const FunctionToMany compiled = compile(FunctionToMany(network));
  const Tensors inputs = network_inputs(7);
  long captures = 0;
  for (int k = 0; k < 6; ++k) {
    driver_calls().reset();
    compiled(inputs)[0].eval();
    if (driver_calls().captures == 0) continue;
    ++captures;
    EXPECT_GE(driver_calls().early, early);
  }
  EXPECT_GT(captures, 0);
}

TEST_F(Recordings, StartSweepsWithoutEvents) {
  Tensor x = there(full({10}, 2.0));
  eval({x + 1});
  driver_calls().reset();
  constexpr int kMany = 1000;
  for (int k = 0; k < kMany; ++k) x = (x + 1).eval();
  EXPECT_EQ(driver_calls().launches, kMany);
  EXPECT_EQ(driver_calls().waits, 0);
  EXPECT_LE(driver_calls().records, kMany / 50);
  EXPECT_LE(driver_calls().queries, kMany / 10);
  EXPECT_EQ(numbers(x)[0], 2 + kMany);
}

// ---- training steps that the host never waits for -------------------------------------------------------------------

struct SmallNet {
  nn::Linear first{6, 5};
  nn::BatchNorm norm{5};
  nn::Linear second{5, 3};
  template <class V>
  void visit(V&& v) {
    v("first", first);
    v("norm", norm);
    v("second", second);
  }
  Tensor operator()(const Tensor& x) { return second(relu(norm(first(x)))); }
  void move(Device device) {
    for (const Parameter& p : parameters(*this)) *p.tensor = variable(p.tensor->eval().to(device)).eval();
    for (const Parameter& b : buffers(*this)) *b.tensor = b.tensor->eval().to(device).eval();
  }
};

TEST_F(Recordings, TrainWithoutWaiting) {
  SmallNet model;
  model.move(kGpu);
  const Tensor x = there(randn({8, 6})), y = there(randint(0, 3, {8}));
  AdamW adamw({.lr = 0.01});
  const auto step = [&] {
    const Tensor loss = cross_entropy(model(x), y);
    adamw.step(model, clip_by_norm(backward(loss), 1).gradients);
    return loss;
  };
  const double first = step().item<double>();
  step();
  driver_calls().reset();
  Tensor loss;
  for (int k = 0; k < 10; ++k) loss = step();
  for (int k = 0; k < 8; ++k) {  // batches on their way to the device
    const Tensor batch = randn({8, 6}).eval();
    eval({cross_entropy(std::as_const(model.second)(relu(matmul(batch.to(kGpu), transpose(model.first.weight, 0, 1)))),
                        y)});
  }
  EXPECT_EQ(driver_calls().waits, 0);
  EXPECT_EQ(driver_calls().copies_to_host, 0);
  EXPECT_LT(loss.item<double>(), first);
  EXPECT_EQ(model.norm.num_batches_tracked.value.item<std::int64_t>(), 12);
}

// Steps with overflows among them, and values that the host reads only at the end.
TEST_F(Recordings, ScaleLossesWithoutWaiting) {
  const auto trained = [&](Device device, const std::function<std::unique_ptr<Optimizer>()>& make) {
    Layers model;
    for (const std::vector<double>& w : {std::vector<double>{1, 2, -3}, {0.5}})
      model.w.push_back(variable(tensor_from(w, {static_cast<std::int64_t>(w.size())}, DType::f32).to(device)).eval());
    const auto optimizer = make();
    LossScaler scaler({.scale = 1024, .growth_interval = 3});
    std::vector<double> scales;
    for (int k = 0; k < 12; ++k) {
      const double factor = k == 4 || k == 5 ? std::numeric_limits<double>::infinity() : k == 8 ? NAN : 1;
      const Tensor loss = (sum(square(model.w[0])) + sum(square(model.w[1]))) * factor;
      const Gradients g = backward(scaler.scale(loss));
      if (k == 2) driver_calls().reset();
      const Stepped stepped = scaler.step(*optimizer, model, g);
      if (k == 11) {
        EXPECT_EQ(driver_calls().waits, 0);
        EXPECT_EQ(driver_calls().copies_to_host, 0);
        EXPECT_TRUE(stepped);
        EXPECT_EQ(stepped.there().defined(), device != Device{});
      }
    }
    const LossScaler::State s = scaler.state();
    const std::vector<double> counts{s.scale, static_cast<double>(s.good_in_a_row), static_cast<double>(s.steps),
                                     static_cast<double>(s.skipped), optimizer->state().at("0/step").item<double>()};
    std::vector<std::vector<double>> all{counts, numbers(model.w[0]), numbers(model.w[1])};
    // Afterwards without a scaler: the host knows the count again.
    optimizer->step(model, backward(sum(square(model.w[0])) + sum(square(model.w[1]))));
    all.push_back(numbers(model.w[0]));
    all.push_back({optimizer->state().at("0/step").item<double>()});
    return all;
  };
  const std::pair<const char*, std::function<std::unique_ptr<Optimizer>()>> optimizers[] = {
      {"AdamW", [] { return std::make_unique<AdamW>(AdamWOptions{.lr = 0.1}); }},
      {"RAdam", [] { return std::make_unique<RAdam>(RAdamOptions{.lr = 0.1}); }},
      {"Adagrad", [] { return std::make_unique<Adagrad>(AdagradOptions{.lr = 0.1, .lr_decay = 0.1}); }},
      {"Sgd", [] { return std::make_unique<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5}); }}};
  for (const auto& [name, make] : optimizers) {
    SCOPED_TRACE(name);
    const auto here = trained({}, make), there = trained(kGpu, make);
    ASSERT_EQ(here.size(), there.size());
    EXPECT_EQ(here[0], there[0]);
    for (std::size_t k = 1; k < here.size(); ++k) {
      ASSERT_EQ(here[k].size(), there[k].size());
      for (std::size_t i = 0; i < here[k].size(); ++i) EXPECT_NEAR(here[k][i], there[k][i], 1e-6);
    }
  }
}

}  // namespace
}  // namespace ebb::testing
