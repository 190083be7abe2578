// SPDX-License-Identifier: MIT
#include "cases/all_cases.h"
#include "cpu/tile/kernels.h"
#include "ebb/ebb.h"
#include "engine/oracle.h"

// Every SIMD target this machine can run against the scalar oracle, for each operation of the table.
namespace ebb::table {
namespace {

std::vector<const cpu::TileKernels*> targets() {
  const cpu::TargetList list = cpu::tile_kernel_targets();
  return {list.begin_, list.begin_ + list.count};
}

class Targets : public ::testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override { cpu::force_tile_kernels(targets()[GetParam()]); }
  void TearDown() override { cpu::force_tile_kernels(nullptr); }
};

TEST_P(Targets, EverySweepIsTheOracle) {
  for (const Case& c : all_cases()) {
    std::vector<DType> dtypes{DType::f64, DType::f32};
    if (c.halves) dtypes.insert(dtypes.end(), {DType::f16, DType::bf16});
    if (c.integers) dtypes.insert(dtypes.end(), {DType::i64, DType::i32, DType::u8});
    for (DType dtype : dtypes) {
      for (std::size_t set : {std::size_t{0}, c.shapes.size() / 2, c.shapes.size() - 1}) {
        const Operands o = draw(c, c.shapes[set], dtype, Layout::contiguous, 11);
        const Tensor y = c.call(o.tensors);
        if (y.evaluated()) continue;
        ebb::testing::OracleTolerance t;
        const double loose = std::max(c.sums_products ? 50.0 : 1.0, c.loose);  // long sums: relative to their terms
        t.f64 = 1e-12 * loose, t.f32 = 2e-6 * loose;
        ebb::testing::SweepOracle::expect_same({y}, t);
        ASSERT_FALSE(HasFatalFailure()) << c.name << " " << ebb::name(dtype) << " on " << cpu::tile_kernels().target;
      }
    }
  }
}

// The order of every sum is part of its definition: all targets add in the same one. Recompiled for each: cached plans
// would keep their kernels.
TEST(TargetsTogether, AgreeOnTheBitsOfSums) {
  const OnDevice host(Device{});  // its kernels are the CPU's
  manual_seed(2);
  for (std::int64_t columns : {5, 1000, 1025, 70001}) {
    const Tensor x = randn({3, columns}).eval();
    const Tensor y = sum(x, 1);
    std::vector<std::vector<float>> sums;
    for (const cpu::TileKernels* k : targets()) {
      cpu::force_tile_kernels(k);
      const Plan plan = make_plan(trace_of({y}).trace);
      ASSERT_EQ(plan.steps.size(), 1u);
      std::vector<float> out(3);
      std::vector<Argument> arguments(2);
      arguments[0].data = const_cast<float*>(x.data<float>());
      arguments[1].data = out.data();
      cpu::run(*plan.steps[0].sweep, arguments);
      sums.push_back(out);
    }
    cpu::force_tile_kernels(nullptr);
    for (const auto& s : sums) EXPECT_EQ(s, sums[0]) << columns << " columns";
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Targets, ::testing::Range(std::size_t{0}, targets().size()),
                         [](const auto& i) { return std::string(targets()[i.param]->target); });

}  // namespace
}  // namespace ebb::table
