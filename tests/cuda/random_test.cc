// SPDX-License-Identifier: MIT
// Random numbers on the GPU are those of the CPU, wherever the neighbours that a thread takes begin.
#include "ebb/random.h"
#include "cuda/library_on_gpu.h"

namespace ebb::testing {
namespace {

class RandomOnGpu : public ::testing::Test {
 protected:
  void SetUp() override { use_emulated_device_without_gpu(); }
  static void compare(const std::string& what, const std::function<Tensor()>& numbers) {
    manual_seed(31);
    const std::vector<double> here = (numbers() + zeros({1}).eval()).to_vector<double>();
    manual_seed(31);
    const std::vector<double> there = (numbers() + zeros({1}).to(kGpu)).to_vector<double>();
    EXPECT_EQ(here, there) << what;
  }
};

TEST_F(RandomOnGpu, UniformNumbersAreThoseOfTheCpu) {
  for (const std::int64_t first : {0, 1, 2, 3, 5, 8}) {
    compare(fmt::format("from {}", first), [&] { return rand({1003}).slice(0, first, 1003); });
    compare(fmt::format("f64 from {}", first), [&] { return rand({203}, DType::f64).slice(0, first, 203); });
    compare(fmt::format("rows from {}", first), [&] { return rand({7, 61}).slice(1, first, 61); });
    compare(fmt::format("sums from {}", first), [&] { return floor(8 * rand({5, 2061}).slice(1, first, 2061)); });
  }
  compare("every third", [] { return rand({1003}).slice(0, 1, 1003, 3); });
  compare("transposed", [] { return transpose(rand({33, 35}), 0, 1); });
  compare("halves", [] { return cast(rand({1003}, DType::bf16), DType::f32); });
  compare("by rows, beside their maxima", [] {
    const Tensor x = rand({3, 130});
    return x + max(x, 1, true);
  });
}

}  // namespace
}  // namespace ebb::testing
