// SPDX-License-Identifier: MIT
// Ebb on cuda:0: a GPU if there is one, else the emulated device.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "backend/backend.h"
#include "cuda/backend.h"
#include "cuda/emulated_device.h"
#include "cuda/runtime/driver.h"
#include "ebb/autograd.h"
#include "ebb/device.h"
#include "ebb/losses.h"
#include "ebb/memory.h"
#include "ebb/ops.h"
#include "ebb/random.h"
#include "emulated_device.h"
#include "expect_error.h"
#include "run_program.h"
#include "sweep_cases.h"

namespace ebb::testing {
namespace {

// The tests of this program name their device: values they read directly are in the host's memory.
class HostIsDefault : public ::testing::Environment {
  void SetUp() override { set_default_device({}); }
};
[[maybe_unused]] ::testing::Environment* const host_is_default = ::testing::AddGlobalTestEnvironment(new HostIsDefault);

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();
    ASSERT_TRUE(is_available(kGpu));
    manual_seed(5);
  }
  static std::vector<double> numbers(const Tensor& x) { return x.to_vector<double>(); }
  static void expect_near(const Tensor& got, const std::vector<double>& want, double tolerance) {
    const std::vector<double> g = numbers(got);
    ASSERT_EQ(g.size(), want.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (g[i] == want[i] || (std::isnan(g[i]) && std::isnan(want[i]))) continue;
      ASSERT_LE(std::fabs(g[i] - want[i]), tolerance * (1 + std::fabs(want[i]))) << "element " << i;
    }
  }
};

TEST_F(OnGpu, KeepsWhatItIsGiven) {
  const Tensor x = randn({1000, 37}).eval(), there = x.to(kGpu);
  EXPECT_EQ(there.device(), kGpu);
  EXPECT_EQ(numbers(there), numbers(x));
  EXPECT_EQ(numbers(there.to(Device{})), numbers(x));
  const Tensor large = arange(3'000'000);  // more than one piece of staging memory
  EXPECT_EQ(numbers(large.eval().to(kGpu)), numbers(large));
}

TEST_F(OnGpu, IsDescribedInOneLine) {
  const std::string line = cuda::describe(0);
  for (const char* part : {" multiprocessors, compute capability ", " GiB"})
    EXPECT_NE(line.find(part), std::string::npos) << line;
}

TEST_F(OnGpu, ComputesSweepsOfAllKinds) {
  const Tensor x = randn({9, 70}).eval(), y = x.to(kGpu);
  expect_near(softmax(y, 1), numbers(softmax(x, 1)), 2e-6);
  expect_near(sum(y * 2 + 1, 0), numbers(sum(x * 2 + 1, 0)), 2e-6);
  expect_near(mean(square(y)), numbers(mean(square(x))), 2e-6);
  const Tensor half = cast(x, DType::bf16).eval();
  EXPECT_EQ(numbers(half.to(kGpu) * 3 + 1), numbers(half * 3 + 1));
}

TEST_F(OnGpu, GivesTheSameRandomNumbers) {
  manual_seed(11);
  const std::vector<double> here = numbers(rand({777}));
  const Tensor zero = zeros({777}).eval().to(kGpu);
  manual_seed(11);
  EXPECT_EQ(numbers(zero + rand({777})), here);
}

TEST_F(OnGpu, DifferentiatesALoss) {
  const Tensor x = randn({12, 40}).eval(), target = randint(0, 40, {12}).eval();
  const auto both = [&](Device device) {
    const Tensor v = variable(x.to(device)), loss = cross_entropy(v, target.to(device));
    const Tensor gradient = backward(loss)[v];
    return std::pair{loss.item<double>(), gradient.to_vector<double>()};
  };
  const auto here = both({}), there = both(kGpu);
  EXPECT_NEAR(here.first, there.first, 1e-6);
  ASSERT_EQ(here.second.size(), there.second.size());
  for (std::size_t i = 0; i < here.second.size(); ++i) EXPECT_NEAR(here.second[i], there.second[i], 1e-7);
}

// eval() does not know yet; reading the value throws, each time, and so does reading its dependents.
TEST_F(OnGpu, ReportsWrongDataToWhoeverReadsIt) {
  const Tensor x = randn({4, 10}).eval().to(kGpu), target = tensor({1, 2, 30, 4}, DType::i64).to(kGpu);
  const Tensor loss = cross_entropy(x, target).eval();
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_THROW_MESSAGE(loss.item<double>(), "cross_entropy: target[2] = 30 is outside [0, 10)");
  }
  EXPECT_THROW_MESSAGE((loss * 2).item<double>(), "cross_entropy: target[2] = 30 is outside [0, 10)");
  synchronize(kGpu);  // reported once
  const Tensor unread = cross_entropy(x, target + 1).eval();
  EXPECT_THROW_MESSAGE(synchronize(kGpu), "cross_entropy: target[2] = 31 is outside [0, 10)");
  synchronize(kGpu);
  EXPECT_EQ(sum(x * 0).item<double>(), 0);  // everything is usable afterwards
}

// Errors about data, in the CPU's words.
TEST_F(OnGpu, SaysWhatTheCpuSays) {
  using Make = std::function<Tensor(Device)>;
  const Tensor x = randn({4, 10}).eval(), wrong = tensor({1, -2, 30, 4}, DType::i64).eval();
  const Tensor square = tensor({{{2.0, 0.0}, {0.0, 1.0}}, {{1.0, 2.0}, {2.0, 4.0}}, {{0.0, 0.0}, {0.0, 0.0}}}).eval();
  const Tensor wrong_pairs = tensor({{0, 3}, {1, 10}, {-1, 0}, {2, 2}}, DType::i64).eval();
  const std::vector<std::pair<const char*, Make>> cases{
      {"cross_entropy", [&](Device d) { return cross_entropy(x.to(d), wrong.to(d)); }},
      {"nll_loss", [&](Device d) { return nll_loss(x.to(d), wrong.to(d)); }},
      {"index_select", [&](Device d) { return index_select(x.to(d), 1, wrong.to(d)); }},
      {"embedding", [&](Device d) { return embedding(x.to(d), wrong.to(d)); }},
      {"gather", [&](Device d) { return gather(x.to(d), 1, wrong_pairs.to(d)); }},
      {"scatter", [&](Device d) { return scatter(x.to(d), 1, wrong_pairs.to(d), x.to(d).slice(1, 0, 2)); }},
      {"scatter_add", [&](Device d) { return scatter_add(x.to(d), 1, wrong_pairs.to(d), x.to(d).slice(1, 0, 2)); }},
      {"index_add", [&](Device d) { return index_add(x.to(d), 1, wrong.to(d), x.to(d).slice(1, 0, 4)); }},
      {"bernoulli", [&](Device d) { return bernoulli(x.to(d) + 5); }},
      {"linear_cross_entropy", [&](Device d) { return linear_cross_entropy(x.to(d), x.to(d), wrong.to(d)); }},
      {"multilabel_margin_loss",
       [&](Device d) { return multilabel_margin_loss(x.to(d).slice(1, 0, 2), wrong_pairs.to(d)); }},
      {"cholesky", [&](Device d) { return cholesky(square.to(d)); }},
      {"cholesky of one", [&](Device d) { return cholesky(square.to(d)[2]); }},
      {"solve", [&](Device d) { return solve(square.to(d), square.to(d)); }},
      {"solve with one", [&](Device d) { return inv(square.to(d)[1]); }},
  };
  for (const auto& [name, make] : cases) {
    const auto text = [&](Device device) {
      try {
        make(device).to_vector();
        return std::string("nothing");
      } catch (const Error& error) {
        return std::string(error.what());
      }
    };
    const std::string here = text({});
    EXPECT_NE(here, "nothing") << name;
    EXPECT_EQ(text(kGpu), here) << name;
    try {
      synchronize(kGpu);  // reported once
    } catch (const Error& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
}

TEST_F(OnGpu, DoesNotMixWithTheCpu) {
  const Tensor here = tensor({{1.0, 2.0}, {3.0, 4.0}}), there = here.to(kGpu);
  EXPECT_THROW_MESSAGE(here + there, "cuda:0");
  EXPECT_THROW_MESSAGE(matmul(here, there), "move one with .to()");
  EXPECT_THROW_MESSAGE(solve(there, here), "cuda:0");
  EXPECT_THROW_MESSAGE(here.to({Device::Kind::cuda, 15}), "there is no cuda:15 on this machine: there ");
}

// Ranks exchange elements via the host, and a rank sends nothing that it failed to compute.
TEST_F(OnGpu, ExchangesByWayOfTheHost) {
  struct Doubled final : Collective {
    mutable int calls = 0;
    void run(const LibraryCall& call) const override {
      ++calls;
      for (std::int64_t i = 0; i < call.inputs[0].shape.numel(); ++i)
        static_cast<float*>(call.outputs[0].data)[i] = 2 * static_cast<const float*>(call.inputs[0].data)[i];
    }
  };
  const auto exchange = std::make_shared<Doubled>();
  const auto doubled = [&](const Tensor& x) {
    const Tensor inputs[] = {x};
    return make_call(Op::collective, inputs, {}, {{x.shape(), x.dtype()}}, exchange);
  };
  const Tensor x = randn({5, 7}).eval(), there = x.to(kGpu);
  EXPECT_EQ(numbers(doubled(transpose(there, 0, 1)) + 1), numbers(transpose(x, 0, 1) * 2 + 1));
  EXPECT_EQ(exchange->calls, 1);
  const Tensor bad = index_select(there, 0, tensor({9}, DType::i64).to(kGpu));
  EXPECT_THROW_MESSAGE(numbers(doubled(bad)), "index_select: index[0] = 9 is outside [0, 5)");
  EXPECT_THROW_MESSAGE(numbers(doubled(bad.eval())), "index_select: index[0] = 9 is outside [0, 5)");
  EXPECT_EQ(exchange->calls, 1);
  EXPECT_EQ(numbers(doubled(there)), numbers(x * 2));
}

// Integer exponents give what products give, as on the CPU; others err by at most two units in the last place, and in
// f32 by less than one.
TEST_F(OnGpu, TakesPowers) {
  std::vector<double> bases, exponents;
  for (const double b : {-3.0, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.1, 2.0, 3.0, 7.0, 10.0, 1e30, 1e-30})
    for (double e = -13; e <= 30; e += b < 0 ? 1 : 0.5) bases.push_back(b), exponents.push_back(e);
  const auto n = static_cast<std::int64_t>(bases.size());
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Tensor b = tensor_from(bases, {n}, dtype).eval(), e = tensor_from(exponents, {n}, dtype).eval();
    const std::vector<double> got = numbers(pow(b.to(kGpu), e.to(kGpu))), base = numbers(b);
    const double ulp = dtype == DType::f64 ? 0x1p-52 : 0x1p-23, least = dtype == DType::f64 ? 1e-280 : 1e-37;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto exact = std::pow(static_cast<long double>(base[i]), static_cast<long double>(exponents[i]));
      const double want =
          dtype == DType::f64 ? static_cast<double>(exact) : static_cast<double>(static_cast<float>(exact));
      const bool is_whole = exponents[i] == std::floor(exponents[i]);
      if (!std::isfinite(want) || want == 0 || (is_whole && std::fabs(want) > least && std::fabs(want) < 1 / least)) {
        EXPECT_EQ(got[i], want) << base[i] << " to the power of " << exponents[i];
      } else {
        EXPECT_NEAR(got[i], want, 2 * ulp * std::fabs(want) + 1e-45) << base[i] << " to the power of " << exponents[i];
      }
    }
  }
  // Numbers of every size near 1 and far from it, with results up to the ends of the range.
  manual_seed(5);
  const Tensor base = cast(exp(cat({30 * randn({4000}), 0.01 * randn({4000})}, 0)), DType::f32).eval();
  const Tensor exponent = cast(cat({randn({4000}), 3000 * randn({4000})}, 0), DType::f32).eval();
  const std::vector<double> b = numbers(base), e = numbers(exponent),
                            got = numbers(pow(base.to(kGpu), exponent.to(kGpu)));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double exact = std::pow(b[i], e[i]);
    const auto nearest = static_cast<float>(exact);
    if (!std::isfinite(nearest)) {
      EXPECT_EQ(got[i], nearest) << b[i] << " to the power of " << e[i];
    } else if (exact < 1.2e-38) {
      EXPECT_NEAR(got[i], exact, 1e-45) << b[i] << " to the power of " << e[i];
    } else {
      const double unit = std::ldexp(1.0, std::ilogb(nearest) - 23);
      EXPECT_LE(std::fabs(got[i] - exact), 0.51 * unit) << b[i] << " to the power of " << e[i];
    }
  }
}

// In a process of its own: the setting is read once.
TEST_F(OnGpu, NamesTheKernelThatFailedWhereEachIsWaitedFor) {
  const ProgramResult r =
      run_program({"/usr/bin/env", "EBB_CUDA_SYNC=1", std::filesystem::read_symlink("/proc/self/exe"),  //
                   "--gtest_also_run_disabled_tests", "--gtest_filter=*DISABLED_FailsInAKernel"});
  EXPECT_EQ(r.code, 0) << r.out << r.err;
}
TEST(WaitingForEachKernel, DISABLED_FailsInAKernel) {
  emulate_device();
  const Tensor x = ones({5}).eval().to(kGpu).eval();
  EXPECT_EQ(sum(x + 1).item<double>(), 10);
  cuda::Driver broken = cuda::driver();
  broken.synchronize = [](cuda::Stream) { return cuda::Result{700}; };
  cuda::install_driver(broken, cuda::compiler());
  EXPECT_THROW_MESSAGE((x * 3).eval(),
                       "cuda: an error of the emulated device (1 blocks) in kernel sweep, of\nstruct Args {");
}

TEST_F(OnGpu, SelectsAndScatters) {
  const Tensor x = tensor_from(std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {3, 4}, DType::f32).to(kGpu);
  const Tensor index = tensor_from(std::vector<std::int64_t>{2, 0, 2, 1, 1, 0}, {3, 2}, DType::i64).to(kGpu);
  EXPECT_EQ(numbers(gather(x, 1, index)), (std::vector<double>{2, 0, 6, 5, 9, 8}));
  EXPECT_EQ(numbers(scatter_add(x * 0, 1, index, ones({3, 2}).to(kGpu))),
            (std::vector<double>{1, 0, 1, 0, 0, 1, 1, 0, 1, 1, 0, 0}));
  const Tensor rows = tensor_from(std::vector<std::int64_t>{2, 2, 0}, {3}, DType::i64).to(kGpu);
  EXPECT_EQ(numbers(index_select(x, 0, rows)), (std::vector<double>{8, 9, 10, 11, 8, 9, 10, 11, 0, 1, 2, 3}));
  EXPECT_EQ(numbers(index_select(transpose(x, 0, 1), 1, rows)),
            (std::vector<double>{8, 8, 0, 9, 9, 1, 10, 10, 2, 11, 11, 3}));
  EXPECT_THROW_MESSAGE(numbers(index_select(x, 0, rows + 1)), "index_select: index[0] = 3 is outside [0, 3)");
  const Tensor v = variable(x);
  const Tensor g = backward(sum(index_select(v, 0, rows)))[v];
  EXPECT_EQ(numbers(g), (std::vector<double>{1, 1, 1, 1, 0, 0, 0, 0, 2, 2, 2, 2}));
}

// One long line and several, along each axis: the last of several elements stays, and sums have the index's order.
TEST_F(OnGpu, ScattersLongLines) {
  for (const Shape& shape : {Shape{3000}, Shape{2, 1500}, Shape{1100, 3}, Shape{2, 1030, 3}}) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      SCOPED_TRACE(shape.str() + " along " + std::to_string(axis));
      const std::int64_t size = 700;
      const Tensor index = randint(0, size, shape).eval(), src = randint(-99, 99, shape).eval();
      const Tensor base = randint(-9, 9, shape.with(axis, size)).eval();
      const auto compare = [&](DType dtype, const std::function<Tensor(Device)>& f) {
        EXPECT_EQ(numbers(f(kGpu)), numbers(f({}))) << name(dtype);
      };
      for (const DType dtype : {DType::f32, DType::bf16, DType::i64, DType::i32}) {
        const Tensor x = cast(base, dtype).eval(), s = cast(src, dtype).eval();
        compare(dtype, [&](Device d) { return scatter(x.to(d), axis, index.to(d), s.to(d)); });
        compare(dtype, [&](Device d) { return scatter_add(x.to(d), axis, index.to(d), s.to(d)); });
      }
      const Tensor wrong = cat({narrow(index, axis, 0, shape[axis] - 1), full(shape.with(axis, 1), size)}, axis).eval();
      EXPECT_THROW_MESSAGE(
          numbers(scatter(cast(base, DType::f32).to(kGpu), axis, wrong.to(kGpu), cast(src, DType::f32).to(kGpu))),
          fmt::format(" = {} is outside [0, {})", size, size));
      EXPECT_THROW_MESSAGE(
          numbers(scatter_add(cast(base, DType::f32).to(kGpu), axis, wrong.to(kGpu), cast(src, DType::f32).to(kGpu))),
          fmt::format(" = {} is outside [0, {})", size, size));
    }
  }
}

TEST_F(OnGpu, FindsWhatIsNotZero) {
  for (const Shape& shape : {Shape{5000}, Shape{7, 300}, Shape{3, 4, 50}, Shape{0, 3}, Shape{}}) {
    const Tensor x = randint(-1, 2, shape).eval();
    const Tensor found = nonzero(x.to(kGpu));
    EXPECT_EQ(found.device(), kGpu);
    EXPECT_EQ(found.shape(), nonzero(x).shape());
    EXPECT_EQ(numbers(found), numbers(nonzero(x)));
  }
}

TEST_F(OnGpu, WorksAlongAnAxis) {
  const Tensor x = tensor_from(std::vector<double>{3, 1, 2, -1, 7, 7, 0, NAN, 5}, {3, 3}, DType::f32).to(kGpu);
  EXPECT_EQ(numbers(argmax(x, 1)), (std::vector<double>{0, 1, 1}));
  EXPECT_EQ(numbers(argmin(x, 0)), (std::vector<double>{1, 2, 0}));
  EXPECT_EQ(numbers(argsort(x, 1)), (std::vector<double>{1, 2, 0, 0, 1, 2, 0, 2, 1}));
  EXPECT_EQ(numbers(argsort(x, 0, true)), (std::vector<double>{0, 2, 1, 2, 1, 2, 1, 0, 0}));
  const Tensor i = tensor_from(std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}, {2, 3}, DType::i64).to(kGpu);
  EXPECT_EQ(numbers(cumsum(i, 1)), (std::vector<double>{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(numbers(cumprod(i, 0)), (std::vector<double>{1, 2, 3, 4, 10, 18}));
  EXPECT_EQ(numbers(cat({i, i * 10}, 1)), (std::vector<double>{1, 2, 3, 10, 20, 30, 4, 5, 6, 40, 50, 60}));
  EXPECT_EQ(numbers(matmul(i, transpose(i, 0, 1))), (std::vector<double>{14, 32, 32, 77}));
}

// Calls whose results are exact, or are added in the same order, against the CPU's.
TEST_F(OnGpu, AgreesWithTheCpuInLibraryCalls) {
  const std::vector<DType> dtypes =
      device_is_emulated()  // where each kernel costs a call of the compiler
          ? std::vector{DType::bf16}
          : std::vector{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8};
  for (const DType dtype : dtypes) {
    SCOPED_TRACE(std::string(ebb::name(dtype)));
    const Tensor x = cast(randint(-9, 9, {6, 5, 7}), dtype).eval(), y = cast(randint(0, 9, {6, 4, 7}), dtype).eval();
    const Tensor index = randint(0, 5, {6, 4, 7}, DType::i32).eval(), rows = randint(0, 5, {300}).eval();
    const Tensor many = cast(randint(-3, 3, {300, 7}), dtype).eval();
    const auto compare = [&](const char* what, const std::function<Tensor(Device)>& f) {
      SCOPED_TRACE(what);
      EXPECT_EQ(numbers(f(kGpu)), numbers(f({})));
    };
    compare("gather", [&](Device d) { return gather(x.to(d), 1, index.to(d)); });
    compare("gather of a view", [&](Device d) {
      return gather(permute(x.to(d), {2, 1, 0}), 1, permute(index.to(d), {2, 1, 0}));
    });
    compare("scatter", [&](Device d) { return scatter(x.to(d), 1, index.to(d), y.to(d)); });
    compare("scatter_add", [&](Device d) { return scatter_add(x.to(d) * 0, 1, index.to(d), y.to(d)); });
    compare("index_select", [&](Device d) { return index_select(x.to(d), 1, rows.to(d)); });
    compare("index_add", [&](Device d) {
      return index_add(zeros({5, 7}, dtype).eval().to(d), 0, rows.to(d), many.to(d));
    });
    compare("cat", [&](Device d) { return cat({x.to(d), y.to(d), x.to(d).slice(1, 0, 5, 2)}, 1); });
    compare("pad", [&](Device d) { return pad(x.to(d), {1, 2, 0, 3}); });
    compare("argmax", [&](Device d) { return argmax(many.to(d), 0); });
    compare("argmin", [&](Device d) { return argmin(x.to(d), 1); });
    compare("argsort", [&](Device d) { return argsort(many.to(d), 0); });
    compare("argsort, descending", [&](Device d) { return argsort(x.to(d), 2, true); });
    compare("cumsum", [&](Device d) { return cumsum(many.to(d), 0); });
    compare("cumprod", [&](Device d) { return cumprod(x.to(d), 1); });
  }
}

TEST_F(OnGpu, MultipliesMatrices) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const double tolerance = dtype == DType::f64   ? 1e-12
                             : dtype == DType::f32 ? 1e-5
                             : dtype == DType::f16 ? 4e-3
                                                   : 3e-2;
    const Tensor a = cast(randn({5, 33, 64}), dtype).eval(), b = cast(randn({5, 64, 17}), dtype).eval();
    const Tensor c = cast(randn({64, 17}), dtype).eval();
    const auto same = [&](const Tensor& here, const Tensor& there) { expect_near(there, numbers(here), tolerance); };
    same(matmul(a, b), matmul(a.to(kGpu), b.to(kGpu)));
    same(matmul(a, c), matmul(a.to(kGpu), c.to(kGpu)));
    same(matmul(transpose(b, 1, 2), transpose(a, 1, 2)),
         matmul(transpose(b.to(kGpu), 1, 2), transpose(a.to(kGpu), 1, 2)));
    same(matmul(a.slice(2, 0, 64, 2), c.slice(0, 0, 32)),
         matmul(a.to(kGpu).slice(2, 0, 64, 2), c.to(kGpu).slice(0, 0, 32)));
    same(matmul(a.slice(1, 3, 4), b), matmul(a.to(kGpu).slice(1, 3, 4), b.to(kGpu)));
    // The same bits every time.
    const std::vector<double> once = numbers(matmul(a.to(kGpu), c.to(kGpu)));
    for (int turn = 0; turn < 10; ++turn) EXPECT_EQ(numbers(matmul(a.to(kGpu), c.to(kGpu))), once);
  }
}

// Every sweep of the table against the oracle, ten times with the same bits. (On the emulated device the tests of
// printed kernels do this, with all kernels in one compilation.)
TEST_F(OnGpu, RunsEverySweepOfTheTable) {
  if (device_is_emulated()) GTEST_SKIP() << "PrintedSweeps does this for the emulated device, in one compilation";
  Backend& gpu = backend_of(kGpu);
  std::vector<std::unique_ptr<SweepCase>> cases = sweep_cases();
  for (auto& one : cases_of_many_reductions()) cases.push_back(std::move(one));
  std::vector<std::vector<SweepPtr>> compiled(cases.size());
  for (std::size_t c = 0; c < cases.size(); ++c) {
    for (const PlanStep& step : cases[c]->plan.steps) {
      if (!step.program) break;
      compiled[c].push_back(gpu.compile(*step.program));
    }
  }
  const auto on_gpu = [&](const void* data, std::size_t bytes) {
    BufferPtr b = BufferPtr::allocate(bytes ? bytes : 1, "a test", kGpu);
    if (bytes) gpu.from_host(*b.get(), data, bytes);
    return b;
  };
  for (std::size_t c = 0; c < cases.size(); ++c) {
    SweepCase& one = *cases[c];
    for (std::size_t s = 0; s < compiled[c].size(); ++s) {
      SCOPED_TRACE(one.name);
      const PlanStep& step = one.plan.steps[s];
      std::vector<Argument> here, there;
      std::vector<BufferPtr> keep;
      for (const std::int32_t v : step.inputs) {
        Argument a = one.input(v);
        here.push_back(a);
        if (a.data && one.value(v).is_leaf) {
          const BufferPtr& host = one.owned.trace.nodes[static_cast<std::size_t>(one.value(v).node)]->storage.buffer;
          keep.push_back(on_gpu(host.data(), host.bytes()));
          a.data = keep.back().data() + (static_cast<std::byte*>(a.data) - host.data());
        } else if (a.data) {
          keep.push_back(on_gpu(one.memory.at(v).data(), one.memory.at(v).size()));
          a.data = keep.back().data();
        }
        there.push_back(a);
      }
      std::vector<BufferPtr> outputs;
      for (const std::int32_t v : step.outputs) {
        one.memory[v] = one.room(v);
        outputs.push_back(on_gpu(one.memory[v].data(), one.memory[v].size()));
        here.emplace_back().data = one.memory[v].data();
        there.emplace_back().data = outputs.back().data();
      }
      run_reference(*step.program, here);
      std::vector<std::vector<std::byte>> first;
      for (int turn = 0; turn < 10; ++turn) {
        ebb::Run run = gpu.begin({});
        gpu.run(compiled[c][s], there, run);
        gpu.end(run);
        run.mark->wait(run.step);
        for (std::size_t k = 0; k < outputs.size(); ++k) {
          std::vector<std::byte> got(outputs[k].bytes());
          gpu.to_host(got.data(), *outputs[k].get(), 0, got.size());
          if (turn == 0) {
            first.push_back(got);
          } else {
            ASSERT_EQ(got, first[k]) << "turn " << turn << "\n" << print(*step.program);
          }
        }
      }
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        const std::int32_t v = step.outputs[k];
        const DType d = one.value(v).dtype;
        const std::vector<std::byte>& want = one.memory[v];
        for (std::size_t i = 0; i < static_cast<std::size_t>(one.value(v).shape.numel()); ++i) {
          const double g = number_at(d, first[k].data(), i), w = number_at(d, want.data(), i);
          if (g == w || (std::isnan(g) && std::isnan(w)) || std::fabs(g - w) <= sweep_tolerance(d) * (1 + std::fabs(w)))
            continue;
          ADD_FAILURE() << "element " << i << " is " << g << ", the oracle says " << w << "\n" << print(*step.program);
          break;
        }
        EXPECT_TRUE(std::equal(first[k].end() - 16, first[k].end(), want.end() - 16)) << "written past the end";
      }
    }
  }
}

TEST_F(OnGpu, IsUsableAfterItsMemoryIsSpent) {
  const Tensor x = ones({1}).eval().to(kGpu).eval();
  const std::size_t before = memory_stats(kGpu).live;
  EXPECT_THROW_MESSAGE((x + cast(arange(Scalar(std::int64_t{1} << 45)), DType::f32)).eval(), "bytes on cuda:0");
  EXPECT_EQ(memory_stats(kGpu).live, before);
  EXPECT_EQ(sum(ones({10}).eval().to(kGpu)).item<double>(), 10);
}

}  // namespace
}  // namespace ebb::testing
