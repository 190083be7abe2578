// SPDX-License-Identifier: MIT
// Decisions about kernels, as values: one line each, compared with stored ones.
#include "cuda/emulated_device.h"
#include "cuda/plan/kernel_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "cuda/print/sweep_text.h"
#include "ebb/device.h"
#include "emulated_device.h"
#include "source_folder.h"
#include "sweep_cases.h"

namespace ebb::testing {
namespace {

Program program_of(const std::vector<Tensor>& roots) { return *make_case("", roots)->plan.steps[0].program; }
std::string plan_of_roots(const std::vector<Tensor>& roots, const cuda::GpuModel& model = {}) {
  return describe(cuda::plan_kernel(program_of(roots), model));
}
Tensor random_numbers(const Shape& shape, DType dtype = DType::f32) { return cast(randn(shape), dtype).eval(); }

// Every plan of the table of cases once, in the order of the cases, with a hash of all texts printed from it: a changed
// decision or text shows as a diff. To accept it, run with EBB_UPDATE_GOLDEN=1 and read the diff.
TEST(KernelPlans, AndTheirTextsAreTheStoredOnes) {
  struct Line {
    std::string first;  // case
    std::uint64_t hash = 0xCBF29CE484222325u;
    int texts = 0;
  };
  std::vector<std::string> order;
  std::map<std::string, Line> lines;
  for (const auto& c : sweep_cases()) {
    for (const PlanStep& step : c->plan.steps) {
      if (!step.program) continue;
      for (const cuda::GpuLimits& limits : {cuda::GpuLimits(), cuda::GpuLimits{99 << 10, 100 << 10}}) {
        cuda::GpuModel model;
        model.limits = limits;
        const cuda::KernelPlan plan = cuda::plan_kernel(*step.program, model);
        const auto [it, fresh] = lines.try_emplace(describe(plan), Line{c->name});
        if (fresh) order.push_back(it->first);
        for (const char byte : cuda::print_kernel(*step.program, plan).text)
          it->second.hash = (it->second.hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3u;
        ++it->second.texts;
      }
    }
  }
  std::string all;
  for (const std::string& plan : order) {
    const Line& line = lines.at(plan);
    all += fmt::format("{}: {}; {} printed, {:016x}\n", line.first, plan, line.texts, line.hash);
  }
  const std::filesystem::path path = testing::source_folder() / "tests/cuda/golden/plans.txt";
  if (std::getenv("EBB_UPDATE_GOLDEN")) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << all;
  }
  std::ifstream in(path);
  EXPECT_EQ(all, std::string(std::istreambuf_iterator<char>(in), {}));
}

TEST(KernelPlans, SayWhereARowIsBetweenPasses) {
  const auto softmax_of = [](std::int64_t columns, DType dtype) {
    return plan_of_roots({softmax(random_numbers({40, columns}, dtype), 1)});
  };
  const auto has = [](const std::string& line, const char* part) { return line.find(part) != std::string::npos; };
  EXPECT_TRUE(has(softmax_of(1000, DType::f32), "warp per row, 256 threads"));
  EXPECT_TRUE(has(softmax_of(32768, DType::bf16), "x0 in registers by way of shared memory"))
      << softmax_of(32768, DType::bf16);
  EXPECT_TRUE(has(softmax_of(40000, DType::f32), "x0 in shared memory")) << softmax_of(40000, DType::f32);
  EXPECT_TRUE(has(softmax_of(151936, DType::bf16), " of ")) << softmax_of(151936, DType::bf16);
  EXPECT_FALSE(has(softmax_of(2'100'001, DType::f32), "x0 in"));  // each pass reads it again
}

// A thread goes down rows where operands repeat in each: as many columns as 16 bytes have, fewer with many of those.
TEST(KernelPlans, GoDownRowsThatShareOperands) {
  const auto starts = [](const std::string& line, const char* with) { return line.rfind(with, 0) == 0; };
  const auto line = [](std::int64_t rows, std::int64_t columns, DType dtype, int vectors) {
    Tensor y = random_numbers({rows, columns}, dtype);
    for (int k = 0; k < vectors; ++k) y = y * random_numbers({columns}, dtype) + random_numbers({columns}, dtype);
    return plan_of_roots({y});
  };
  EXPECT_TRUE(starts(line(4096, 64, DType::bf16, 1), "8 columns per thread down 4 rows"))
      << line(4096, 64, DType::bf16, 1);
  EXPECT_TRUE(starts(line(4096, 64, DType::bf16, 4), "4 columns per thread down 4 rows"));
  EXPECT_TRUE(starts(line(4096, 64, DType::f32, 1), "4 columns per thread down 4 rows"));
  EXPECT_TRUE(starts(line(4096, 36, DType::bf16, 1), "4 columns per thread down 4 rows"));
  EXPECT_TRUE(starts(line(4096, 3, DType::bf16, 1), "1 column per thread down 4 rows"));
  EXPECT_TRUE(starts(line(4096, 1001, DType::bf16, 1), "8 columns per thread down 4 rows"));
  EXPECT_TRUE(starts(line(65536, 512, DType::bf16, 1), "8 columns per thread down 4 rows"));
  EXPECT_TRUE(starts(line(4, 64, DType::bf16, 1), "8 elements per thread"));  // too few rows
  const Tensor x = random_numbers({4096, 64});
  EXPECT_TRUE(starts(plan_of_roots({x * random_numbers({4096, 1})}), "4 elements per thread"));
  EXPECT_TRUE(starts(plan_of_roots({sum(x * random_numbers({64}))}), "8 elements per thread"));
  EXPECT_NE(line(4096, 64, DType::bf16, 1).find("x1 x2 loaded before the rows, unrolled 4"), std::string::npos);
}

// Equal programs have equal plans; another GPU, or another constant of its model, another plan.
TEST(KernelPlans, AreValues) {
  const Tensor x = random_numbers({64, 32768}, DType::bf16);
  const Program program = program_of({softmax(x, 1)});
  const cuda::KernelPlan plan = cuda::plan_kernel(program);
  EXPECT_EQ(plan, cuda::plan_kernel(program));
  EXPECT_EQ(hash(plan), hash(cuda::plan_kernel(program)));
  cuda::GpuModel small, careful;
  small.limits = {48 << 10, 64 << 10};
  careful.most_held = 0;
  for (const cuda::GpuModel& model : {small, careful}) {
    EXPECT_NE(plan, cuda::plan_kernel(program, model));
    EXPECT_NE(describe(plan), describe(cuda::plan_kernel(program, model)));
    EXPECT_NE(cuda::print_kernel(program, plan).text, cuda::print_sweep(program, model).text);
  }
}

// The same plan prints the same text, however it was made: the printer decides nothing.
TEST(KernelPlans, AreAllThatThePrinterSees) {
  for (const auto& c : cases_of_many_reductions()) {
    const Program& program = *c->plan.steps[0].program;
    cuda::KernelPlan plan = cuda::plan_kernel(program);
    plan.alignment = cuda::Alignment::any;
    EXPECT_EQ(plan, cuda::plan_kernel(program, {}, cuda::Alignment::any));
    EXPECT_EQ(cuda::print_kernel(program, plan).text, cuda::print_sweep(program, {}, cuda::Alignment::any).text);
  }
}

TEST(KernelPlans, AreShownWithTheSchedule) {
  use_emulated_device_without_gpu();
  const Tensor x = random_numbers({8, 5000}).to(kGpu);
  const std::string text = print_schedule({softmax(x, 1)});
  EXPECT_NE(text.find("\n  plan: block per row, "), std::string::npos) << text;
  EXPECT_EQ(print_schedule({softmax(x.to(Device{}), 1)}).find("plan:"), std::string::npos);
}

}  // namespace
}  // namespace ebb::testing
