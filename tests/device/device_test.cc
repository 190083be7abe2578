// SPDX-License-Identifier: MIT
// Devices from the user's point of view, on the second device of the tests.
#include "ebb/device.h"

#include <gtest/gtest.h>

#include <array>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "core/buffer.h"
#include "core/device_table.h"
#include "ebb/ebb.h"
#include "expect_error.h"
#include "scratch_folder.h"
#include "second_device.h"

namespace ebb {
namespace {

using testing_device::kSecondDevice;
using testing_device::second_device_work;

class OnSecondDevice : public testing::Test {
 protected:
  static void SetUpTestSuite() { testing_device::install_second_device(); }
  const Tensor here_ = tensor({1.0, -2.0, 3.0});
  const Tensor there_ = here_.to(kSecondDevice);
};

TEST(DeviceNames, AreReadAndWritten) {
  EXPECT_EQ(name(Device{}), "cpu");
  EXPECT_EQ(name(device_from_name("cuda")), "cuda:0");
  EXPECT_EQ(name(device_from_name("cuda:3")), "cuda:3");
  for (const char* wrong : {"", "gpu", "cuda:", "cuda:x", "cuda:16", "cuda:-1", "cuda:1x", "cudax"})
    EXPECT_THROW_MESSAGE(device_from_name(wrong), "is not a device; use cpu, cuda or cuda:N");
}

TEST(DeviceNames, ADeviceThatIsNotThereIsAnError) {
  const Device missing{Device::Kind::cuda, 7};
  EXPECT_FALSE(is_available(missing));
  EXPECT_THROW_MESSAGE(ones({2}).to(missing), "there is no cuda:7 on this machine");
  EXPECT_THROW_MESSAGE(set_default_device(missing), "there is no cuda:7 on this machine");
  EXPECT_THROW_MESSAGE(OnDevice scope(missing), "there is no cuda:7 on this machine");
  EXPECT_THROW_MESSAGE(synchronize(missing), "there is no cuda:7 on this machine");
  EXPECT_THROW_MESSAGE(memory_stats(missing), "there is no cuda:7 on this machine");
}

TEST_F(OnSecondDevice, NumbersMoveThereAndBack) {
  EXPECT_EQ(there_.device(), kSecondDevice);
  EXPECT_EQ(there_.to_vector(), here_.to_vector());
  EXPECT_EQ(there_.to(Device{}).to_vector(), here_.to_vector());
  EXPECT_EQ(there_.to(kSecondDevice).node(), there_.node()) << "it is there already";
  const Tensor turned = t(reshape(arange(6), {2, 3})).eval();  // strides of its own
  EXPECT_EQ(turned.to(kSecondDevice).to_vector(), turned.to_vector());
  EXPECT_EQ(zeros({0, 3}).to(kSecondDevice).to_vector().size(), 0u);
  for (DType d : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8, DType::bool_}) {
    const Tensor x = cast(tensor({0.0, 1.0, 1.0}), d).eval();
    EXPECT_EQ(x.to(kSecondDevice).to_vector(), x.to_vector()) << name(d);
  }
}

// On any device: the host's memory, too, is reached through its backend.
TEST_F(OnSecondDevice, BytesOfABufferComeBackFromEveryBackend) {
  for (const Device device : {Device{}, kSecondDevice}) {
    const std::vector<std::byte> sent{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
    const BufferPtr buffer = BufferPtr::allocate(sent.size(), "a test", device);
    backend_of(device).from_host(*buffer.get(), sent.data(), sent.size());
    std::vector<std::byte> read(2);
    backend_of(device).to_host(read.data(), *buffer.get(), 1, read.size());
    EXPECT_EQ(read, (std::vector<std::byte>{std::byte{2}, std::byte{3}})) << name(device);
    EXPECT_EQ(&backend_of(device).memory(), block_source(device)) << name(device);
    synchronize(device);
  }
}

TEST_F(OnSecondDevice, ComputesWhereItsOperandsAre) {
  const auto before = second_device_work();
  const Tensor y = sum(exp(there_) * 2 + matmul(reshape(there_, {1, 3}), reshape(there_, {3, 1})));
  EXPECT_EQ(y.device(), kSecondDevice);
  EXPECT_EQ(y.item(), sum(exp(here_) * 2 + matmul(reshape(here_, {1, 3}), reshape(here_, {3, 1}))).item());
  const auto after = second_device_work();
  EXPECT_GT(after.sweeps, before.sweeps);
  EXPECT_GT(after.calls, before.calls);
}

TEST_F(OnSecondDevice, OperandsOfTwoDevicesAreAnError) {
  EXPECT_THROW_MESSAGE(here_ + there_, "add: operands on cpu and cuda:0; move one with .to()");
  EXPECT_THROW_MESSAGE(matmul(reshape(there_, {1, 3}), reshape(here_, {3, 1})),
                       "matmul: operands on cuda:0 and cpu; move one with .to()");
  EXPECT_THROW_MESSAGE(mse_loss(there_, here_), "move one with .to()");
}

TEST_F(OnSecondDevice, TheHostReadsNoMemoryOfADevice) {
  EXPECT_THROW_MESSAGE(there_.data<float>(), "data: the tensor is on cuda:0; move it with .to(Device{}) first");
}

// Pure numbers have no device: reading them on one does not tie them to it.
TEST_F(OnSecondDevice, NumbersAloneFollowWhatTheyMeet) {
  const Tensor numbers = arange(3) * 2 + 1;
  EXPECT_EQ(numbers.to_vector(), (std::vector<double>{1, 3, 5}));
  EXPECT_EQ((numbers * there_).to_vector(), (std::vector<double>{1, -6, 15}));
  const Tensor more = flip(arange(3), 0);
  EXPECT_EQ((more * there_).to_vector(), (std::vector<double>{2, -2, 0}));
  EXPECT_EQ((more * here_).to_vector(), (std::vector<double>{2, -2, 0}));
  manual_seed(5);
  const Tensor random = rand({4});
  const std::vector<double> on_host = random.to_vector();
  EXPECT_EQ((random.to(kSecondDevice) + 0).to_vector(), on_host);
}

TEST_F(OnSecondDevice, TheDefaultDeviceIsWhereThingsAreMade) {
  {
    const OnDevice scope(kSecondDevice);
    EXPECT_EQ(default_device(), kSecondDevice);
    EXPECT_EQ(tensor({1.0, 2.0}).device(), kSecondDevice);
    EXPECT_EQ(variable(ones({2})).device(), kSecondDevice);
    std::jthread([] { EXPECT_EQ(default_device(), Device{}) << "of this thread alone"; });
  }
  EXPECT_EQ(variable(ones({2})).device(), Device{});
  const Tensor looked_at = ones({2}).eval();
  const OnDevice scope(kSecondDevice);
  const Tensor v = variable(looked_at);
  EXPECT_EQ(v.device(), kSecondDevice);
  EXPECT_EQ((v + tensor({1.0, 1.0})).to_vector(), (std::vector<double>{2, 2}));
}

TEST_F(OnSecondDevice, GradientsMoveBack) {
  const Tensor w = variable(here_);
  const Tensor loss = sum(square(w.to(kSecondDevice) * there_));
  EXPECT_EQ(loss.device(), kSecondDevice);
  const Tensor g = backward(loss)[w];
  EXPECT_EQ(g.device(), Device{});
  EXPECT_EQ(g.to_vector(), (std::vector<double>{2 * 1 * 1, 2 * -2 * 4, 2 * 3 * 9}));
  // And once more.
  const Tensor h =
      hessian([&](const Tensor& x) { return sum(x.to(kSecondDevice) * square(there_) * x.to(kSecondDevice)); }, here_);
  EXPECT_EQ(diagonal(h).to_vector(), (std::vector<double>{2, 8, 18}));
}

TEST_F(OnSecondDevice, ErrorsOfDataComeWhenSomebodyLooksAndEveryTime) {
  const Tensor target = from_data(std::vector<std::int64_t>{1, 17}, {2}).to(kSecondDevice);
  const Tensor loss = cross_entropy(ones({2, 4}).to(kSecondDevice), target).eval();
  const Tensor further = (loss * 2).eval();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW_MESSAGE(loss.item(), "17");
    EXPECT_THROW_MESSAGE(further.item(), "17");
    EXPECT_THROW_MESSAGE((further + 1).to(Device{}).item(), "17");
  }
  EXPECT_EQ(sum(there_).item(), 2.0) << "the device goes on";
  EXPECT_THROW_MESSAGE(synchronize(kSecondDevice), "17");  // once: it waits for everything begun since
  EXPECT_NO_THROW(synchronize(kSecondDevice));
}

TEST_F(OnSecondDevice, HasAPoolOfItsOwn) {
  const MemoryStats host = memory_stats(), before = memory_stats(kSecondDevice);
  const Tensor x = linspace(0, 0, 1000000).eval().to(kSecondDevice).eval();
  EXPECT_GE(memory_stats(kSecondDevice).live, before.live + 4'000'000);
  EXPECT_LT(memory_stats().live, host.live + 4'000'000);
  set_memory_limit(memory_stats(kSecondDevice).live + 1000, kSecondDevice);
  EXPECT_THROW_MESSAGE((x + 1).eval(), "bytes on cuda:0");
  set_memory_limit(0, kSecondDevice);
  EXPECT_EQ(sum(x + 1).item(), 1e6) << "everything works after the error";
}

TEST_F(OnSecondDevice, CompiledFunctionsKnowTheirDevice) {
  const auto f = compile(value_and_grad(Function([](const Tensor& x) { return sum(exp(x) * x); })));
  for (int i = 0; i < 3; ++i) {
    const auto [v, g] = f(there_);
    const auto [v_here, g_here] = f(here_);
    EXPECT_EQ(v.device(), kSecondDevice);
    EXPECT_EQ(v.item(), v_here.item());
    EXPECT_EQ(g.to_vector(), g_here.to_vector());
  }
  const auto moves = compile(Function([](const Tensor& x) { return x.to(kSecondDevice) + 1; }));
  EXPECT_THROW_MESSAGE(moves(here_), "compile: the function moves a tensor to another device");
}

TEST_F(OnSecondDevice, CompiledFunctionsMakeNumbersWhereTheyCompute) {
  for (const Device device : {Device{}, kSecondDevice}) {
    const Tensor x = here_.to(device);
    const auto f = compile(Function([device](const Tensor& x) {
      return x * full({3}, 2.0).to(device) + arange(3).to(device) + zeros_like(x).to(device);
    }));
    for (int i = 0; i < 2; ++i) EXPECT_EQ(f(x).to_vector(), (std::vector<double>{2, -3, 8}));
    EXPECT_EQ(f(x).device(), device);
    manual_seed(4);
    const auto draw = compile(Function([device](const Tensor& x) { return x + rand({3}).to(device); }));
    const std::vector<double> first = draw(x).to_vector(), second = draw(x).to_vector();
    EXPECT_NE(first, second) << "random numbers are drawn anew";
    manual_seed(4);
    EXPECT_EQ((x + rand({3})).to_vector(), first);
    const auto made = compile(Function([device](const Tensor&) { return ones({2}).to(device); }));
    EXPECT_EQ(made(x).to_vector(), (std::vector<double>{1, 1}));
    EXPECT_EQ(made(x).device(), device);
  }
}

TEST_F(OnSecondDevice, NumbersThatWereComputedElsewhereAreCopiedThere) {
  const Tensor ramp = (arange(3) * 2.0).eval();
  EXPECT_EQ((ramp.to(kSecondDevice) * there_).to_vector(), (std::vector<double>{0, -4, 12}));
  EXPECT_EQ(ramp.to(kSecondDevice).to_vector(), ramp.to_vector());
  EXPECT_EQ(ramp.to(kSecondDevice).to(Device{}).to_vector(), ramp.to_vector());
  const auto gradient = grad([&](const Tensor& x) { return sum(square(x.to(kSecondDevice)) * there_); });
  EXPECT_EQ(gradient(ones({3})).to_vector(), (std::vector<double>{2, -4, 6}));
}

TEST_F(OnSecondDevice, GradientsAreWhereTheirTensorsAre) {
  const auto of_a_sum = grad([](const Tensor& x) { return sum(x); });  // ones, whatever x is
  EXPECT_EQ(of_a_sum(there_).device(), kSecondDevice);
  EXPECT_EQ(of_a_sum(there_).to_vector(), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(of_a_sum(here_).device(), Device{});
  const Tensor v = variable(there_), unused = variable(there_);
  const Gradients all = backward(sum(v));
  EXPECT_EQ(all[v].device(), kSecondDevice);
  EXPECT_EQ(all[unused].device(), kSecondDevice);
  const auto second = grad([&](const Tensor& x) { return sum(of_a_sum(x) * x); });
  EXPECT_EQ(second(there_).to_vector(), (std::vector<double>{1, 1, 1}));
}

// Numbers that a formula brings along belong to no device; the default device does not matter.
TEST_F(OnSecondDevice, FormulasBringTheirNumbersAlong) {
  const Tensor image = reshape(linspace(0, 1, 32), {1, 2, 4, 4}).eval(), image_there = image.to(kSecondDevice);
  for (const char* mode : {"nearest", "bilinear", "bicubic", "area"}) {
    for (const bool antialias : {false, true}) {
      if (antialias && (mode[0] == 'n' || mode[0] == 'a')) continue;
      const InterpolateOptions o{.size = {3, 7}, .mode = mode, .antialias = antialias};
      const Tensor y = interpolate(image_there, o);
      EXPECT_EQ(y.device(), kSecondDevice) << mode;
      EXPECT_EQ(y.to_vector(), interpolate(image, o).to_vector()) << mode;
    }
  }
  const Tensor bits = tensor({12, 10}), bits_there = bits.to(kSecondDevice);
  EXPECT_EQ(bitwise_xor(bits_there, full({2}, 6, DType::i64)).device(), kSecondDevice);
  EXPECT_EQ(bitwise_xor(bits_there, full({2}, 6, DType::i64)).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{10, 12}));
  EXPECT_THROW_MESSAGE(bitwise_and(bits, bits_there), "operands on cpu and cuda:0");
  const Tensor matrix = tensor({{2.0, 1.0}, {-1.0, 3.0}});
  EXPECT_EQ(grad([](const Tensor& a) { return det(a); })(matrix.to(kSecondDevice)).to_vector(),
            (std::vector<double>{3, 1, -1, 2}));
}

TEST_F(OnSecondDevice, TrainsALayerToTheBitsOfTheHost) {
  const auto train = [](Device device) {
    const OnDevice scope(device);
    manual_seed(3);
    nn::Linear layer(4, 2);
    AdamW optimizer;
    const Tensor x = tensor({0.5, -1.0, 2.0, 0.25}), y = tensor({1.0, -1.0});
    for (int step = 0; step < 20; ++step) {
      const Tensor loss = mse_loss(layer(reshape(x, {1, 4})), reshape(y, {1, 2}));
      optimizer.step(layer, backward(loss));
    }
    return layer.weight.to_vector<float>();
  };
  EXPECT_EQ(train(kSecondDevice), train({}));
}

TEST_F(OnSecondDevice, FilesAreWrittenFromAnyDevice) {
  const ScratchFolder folder;
  io::save_npy(folder / "x.npy", there_ * 2);
  EXPECT_EQ(io::load_npy(folder / "x.npy").to_vector(), (here_ * 2).to_vector());
  EXPECT_EQ(there_.str(), here_.str());
}

// Chains of products of halves with odd sizes, whose temporary matrices have room behind their rows here and not on the
// CPU: with what reads them as they are, in parts, turned, joined and reshaped. The memory begins poisoned.
TEST_F(OnSecondDevice, ProductsThroughMatricesWithRoomHaveTheBitsOfDenseOnes) {
  std::mt19937 random(1);
  int with_room = 0;
  for (int round = 0; round < 60; ++round) {
    constexpr std::int64_t kSizes[] = {1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 31, 33};
    const DType dtype = round % 2 ? DType::f16 : DType::bf16;
    std::array<std::int64_t, 3> sizes{};
    for (std::int64_t& n : sizes) n = kSizes[random() % std::size(kSizes)];
    std::vector<Tensor> matrices;  // of every two of the sizes
    for (int k = 0; k < 9; ++k) matrices.push_back(cast(randn({sizes[k / 3], sizes[k % 3]}), dtype).eval());
    const unsigned seed = random();
    const auto results_of = [&](std::vector<Tensor> all) {
      std::mt19937 same(seed);
      std::vector<Tensor> results;
      for (int step = 0; step < 8; ++step) {
        const Tensor x = all[same() % all.size()];
        Tensor y;
        do {
          y = all[same() % all.size()];
        } while (y.size(0) != x.size(1));
        Tensor z = matmul(x, y);
        const std::int64_t n = z.size(1), half = n / 2, part = (x.size(1) + 1) / 2, before = x.size(1) - part;
        switch (same() % 6) {
          case 0:
            z = relu(z);
            break;
          case 1:
            z = transpose(matmul(t(y), t(x)), 0, 1);
            break;
          case 2:
            z = cat({narrow(z, 1, half, n - half), narrow(z, 1, 0, half)}, 1);
            break;
          case 3:
            z = reshape(relu(reshape(z, {-1}) * 0.5), z.shape());
            break;
          case 4:
            z = z - cast(mean(cast(z, DType::f32), 1, true), dtype);
            break;
          default:
            z = matmul(narrow(relu(x), 1, before, part), narrow(y, 0, before, part));
        }
        all.push_back(z * 0.25);
        if (same() % 3 == 0) results.push_back(same() % 2 ? all.back() : t(all.back()));
      }
      results.push_back(all.back());
      return results;
    };
    std::vector<Tensor> moved;
    for (const Tensor& x : matrices) moved.push_back(x.to(kSecondDevice).eval());
    const std::vector<Tensor> here = results_of(matrices), there = results_of(moved);
    with_room += print_schedule(there).find(" apart") != std::string::npos;
    eval(there);
    for (std::size_t k = 0; k < here.size(); ++k)
      EXPECT_EQ(there[k].to_vector(), here[k].to_vector()) << "round " << round << ", result " << k;
  }
  EXPECT_GT(with_room, 30);
}

}  // namespace
}  // namespace ebb
