// SPDX-License-Identifier: MIT
// Printed kernels, run on the CPU, against the oracle of sweeps.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "cuda/compile_for_gpu.h"
#include "cuda/print/sweep_text.h"
#include "emulated_kernels.h"
#include "engine/random_program.h"
#include "sweep_cases.h"

namespace ebb::testing {
namespace {

std::string plan_of_case(const SweepCase& c, const cuda::GpuModel& model = {}) {
  return describe(cuda::plan_kernel(*c.plan.steps[0].program, model));
}
// A block per row, however few rows there are.
cuda::GpuModel block_per_row() {
  cuda::GpuModel model;
  model.most_shared_rows = 0;
  return model;
}

struct Printed {
  cuda::SweepText text, for_any;  // memory at multiples of 16 bytes, or anywhere
  int kernel, kernel_for_any;
  // Rows that blocks share have the bits of those with a block each.
  cuda::SweepText alone;
  int kernel_alone = -1;
};

class PrintedSweeps : public ::testing::Test {
 protected:
  // Compiles all texts at once; then each step runs twice, with threads in two orders and, where memory allows, with
  // both texts.
  void check(std::vector<std::unique_ptr<SweepCase>> cases, const cuda::GpuModel& model = {}) {
    EmulatedKernels kernels;
    std::vector<std::vector<Printed>> printed(cases.size());
    for (std::size_t c = 0; c < cases.size(); ++c) {
      for (const PlanStep& step : cases[c]->plan.steps) {
        if (!step.program) break;
        cuda::SweepText text = cuda::print_sweep(*step.program, model);
        cuda::SweepText for_any = cuda::print_sweep(*step.program, model, cuda::Alignment::any);
        const int kernel = kernels.add(text), kernel_for_any = kernels.add(for_any);
        printed[c].push_back({std::move(text), std::move(for_any), kernel, kernel_for_any, {}, -1});
        if (!cuda::plan_kernel(*step.program, model).shares_rows()) continue;
        printed[c].back().alone = cuda::print_sweep(*step.program, block_per_row(), cuda::Alignment::any);
        printed[c].back().kernel_alone = kernels.add(printed[c].back().alone);
      }
    }
    kernels.compile();
    if (HasFatalFailure()) return;
    for (std::size_t c = 0; c < cases.size(); ++c) {
      for (std::size_t s = 0; s < printed[c].size(); ++s) {
        step(*cases[c], cases[c]->plan.steps[s], printed[c][s], kernels);
      }
    }
  }

  void step(SweepCase& c, const PlanStep& step, const Printed& printed, const EmulatedKernels& kernels) {
    SCOPED_TRACE(c.name);
    std::vector<Argument> inputs;
    for (std::int32_t v : step.inputs) inputs.push_back(c.input(v));
    std::vector<std::vector<std::byte>> results[2];
    for (const int order : {0, 1}) {
      std::vector<Argument> bound = inputs;
      for (std::int32_t v : step.outputs) results[order].push_back(c.room(v));
      for (auto& r : results[order]) bound.emplace_back().data = r.data();
      cuda::ErrorSlot error;
      const bool any = order == 1 || !is_aligned(printed.text, bound);
      kernels.run(any ? printed.kernel_for_any : printed.kernel, any ? printed.for_any : printed.text, bound, error,
                  order ? 12345 : 1);
      ASSERT_EQ(error.key, cuda::ErrorSlot::kNone);
    }
    if (printed.kernel_alone >= 0) {
      std::vector<Argument> bound = inputs;
      std::vector<std::vector<std::byte>> alone;
      for (std::int32_t v : step.outputs) alone.push_back(c.room(v));
      for (auto& r : alone) bound.emplace_back().data = r.data();
      cuda::ErrorSlot error;
      kernels.run(printed.kernel_alone, printed.alone, bound, error, 1);
      EXPECT_EQ(results[0], alone) << "not the bits of a block per row\n" << printed.text.text;
    }
    std::vector<Argument> bound = inputs;
    for (std::int32_t v : step.outputs) {
      c.memory[v] = c.room(v);
      bound.emplace_back().data = c.memory[v].data();
    }
    run_reference(*step.program, bound);
    for (std::size_t k = 0; k < step.outputs.size(); ++k) {
      const std::int32_t v = step.outputs[k];
      EXPECT_EQ(results[0][k], results[1][k]) << "depends on the order of threads\n" << printed.text.text;
      compare(c, v, results[0][k], c.memory[v], printed.text.text);
    }
  }

  double tolerance(DType d) const {
    return d == DType::f64    ? tolerances_[0]
           : d == DType::f32  ? tolerances_[1]
           : d == DType::f16  ? tolerances_[2]
           : d == DType::bf16 ? tolerances_[3]
                              : 0;
  }
  std::array<double, 4> tolerances_{sweep_tolerance(DType::f64), sweep_tolerance(DType::f32),
                                    sweep_tolerance(DType::f16), sweep_tolerance(DType::bf16)};

  void compare(const SweepCase& c, std::int32_t v, const std::vector<std::byte>& got,
               const std::vector<std::byte>& want, const std::string& text) {
    const DType dtype = c.value(v).dtype;
    for (std::size_t i = 0; i < static_cast<std::size_t>(c.value(v).shape.numel()); ++i) {
      const double g = number_at(dtype, got.data(), i), w = number_at(dtype, want.data(), i);
      if (g == w || (std::isnan(g) && std::isnan(w))) continue;
      if (std::fabs(g - w) <= tolerance(dtype) * (1 + std::fabs(w))) continue;
      ADD_FAILURE() << "element " << i << " is " << g << ", the oracle says " << w << "\n" << text;
      return;
    }
    EXPECT_TRUE(std::equal(got.end() - 16, got.end(), want.end() - 16)) << "written past the end\n" << text;
  }
};

TEST_F(PrintedSweeps, AreTheOracle) { check(sweep_cases()); }

// Elements of so many arrays that lanes load for each other, and rows of more operands than are on chip.
TEST_F(PrintedSweeps, OfManyArraysAreTheOracle) {
  std::vector<std::unique_ptr<SweepCase>> cases;
  const auto share_loads = [](const SweepCase& c) {
    return plan_of_case(c).find("lanes share loads") != std::string::npos;
  };
  for (const std::int64_t n : {8, 256, 2040, 5000, 5003, 70'000}) {
    const auto made = [&] { return randn({n}).eval(); };
    const Tensor a = made(), b = made(), c = made(), d = made();
    cases.push_back(
        make_case(fmt::format("four arrays of {}", n), {sum(square((a - b) * (c - d))), (a - b) - (c - d)}));
    EXPECT_TRUE(share_loads(*cases.back()));
    EXPECT_FALSE(share_loads(*make_case("", {sum(square((a - b) * c))})));
    EXPECT_FALSE(share_loads(*make_case("", {sum(log(exp(a - b) + exp(c - d)))})));  // more computation than loads
  }
  for (const std::int64_t n : {4096, 5000}) {
    const auto made = [&] { return randn({3, n}).eval(); };
    const Tensor a = made(), b = made(), c = made();
    const Tensor near = sum(square(a - b), 1, true), far = sum(square(a - c), 1, true);
    cases.push_back(make_case(fmt::format("three operands of {}", n), {(a - b) / near - (a - c) / far, (c - a) / far}));
    EXPECT_NE(plan_of_case(*cases.back()).find("x0 x1 in shared memory"), std::string::npos)
        << plan_of_case(*cases.back());
  }
  check(std::move(cases));
}

bool walks_down(const SweepCase& c) {
  return std::any_of(c.plan.steps.begin(), c.plan.steps.end(), [](const PlanStep& step) {
    return step.program && cuda::plan_kernel(*step.program).mapping == cuda::Mapping::down_rows;
  });
}

// Operands that repeat in every row are loaded once by a thread that goes down several.
std::vector<std::unique_ptr<SweepCase>> cases_of_repeated_operands() {
  std::vector<std::unique_ptr<SweepCase>> cases;
  const auto add = [&](const std::string& name, const std::vector<Tensor>& roots) {
    cases.push_back(make_case(name, roots));
    EXPECT_TRUE(walks_down(*cases.back())) << name << "\n" << print(cases.back()->plan);
  };
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::f64}) {
    const auto made = [&](const Shape& shape) { return cast(randn(shape), dtype).eval(); };
    for (const std::int64_t n : {2, 3, 6, 8, 12, 20, 64, 65, 96, 130, 256, 1000, 1001}) {
      const Tensor x = made({41, n}), y = made({41, n}), w = randn({n}).eval(), b = made({n});
      const Tensor h = relu(cast(x * w, dtype) + b + y);
      add(fmt::format("a bias of {} {}", name(dtype), n), {h, h <= 0});
    }
    add("columns of two dimensions", {made({3, 5, 6, 16}) * made({6, 16})});
    add("one number per channel", {made({9, 6, 16}) * made({6, 1}) + made({6, 1})});
    add("odd planes", {made({9, 6, 7}) * made({6, 1})});
    add("rows that lie apart", {made({33, 40}).slice(1, 3, 35) + made({32})});
    add("columns that lie apart", {made({32, 40}).t() + made({32})});
    add("numbers of rows, too", {made({40, 32}) * made({40, 1}) / made({40, 1}) + made({32})});
    add("images by rows", {made({3, 9, 32}) * made({3, 1, 32}) + made({32})});
    add("many operands",
        {made({24, 64}) * made({64}) - made({64}) / (2 + square(made({64}))) + made({64}) * made({64})});
  }
  const Tensor w = randn({24}).eval();
  add("random numbers and ramps", {rand({40, 24}) * w, cast(reshape(arange(960), {40, 24}), DType::f32) * w});
  add("a half of f32", {cast(randn({40, 24}).eval() * w, DType::bf16)});
  return cases;
}

TEST_F(PrintedSweeps, DownRowsAreTheOracle) {
  check(cases_of_repeated_operands());
  cuda::GpuModel long_walks;
  long_walks.walking_threads = 1;
  check(cases_of_repeated_operands(), long_walks);
}

// Lines that lie apart are taken in packs, even where these do not divide them.
TEST_F(PrintedSweeps, OfOddLinesAreTheOracle) {
  std::vector<std::unique_ptr<SweepCase>> cases;
  const auto add = [&](const std::string& name, bool down, const std::vector<Tensor>& roots) {
    cases.push_back(make_case(name, roots));
    EXPECT_EQ(walks_down(*cases.back()), down) << name << "\n" << print(cases.back()->plan);
  };
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::f64}) {
    const auto made = [&](const Shape& shape) { return cast(randn(shape), dtype).eval(); };
    const bool half = size_of(dtype) < 4;
    for (const std::int64_t n : {65, 67, 100, 129, 130, 1001}) {
      const std::int64_t room = (n + 7) / 8 * 8;
      const std::string of = fmt::format("{} of {} {}", n, room, name(dtype));
      const Tensor x = made({41, room}).slice(1, 0, n), y = made({41, room}).slice(1, 0, n), z = made({41, n});
      add(of + ", and bytes", n % 8 != 0, {x * relu(y), cast(x <= 0, DType::u8)});
      add(of + ", dense ones and places", n % (half ? 8 : 4) != 0,
          {x + z + cast(reshape(arange(41 * n), {41, n}), dtype)});
      add(of + " from an odd place", n % (half ? 8 : 4) != 0, {made({41, n + 3}).slice(1, 3, n + 3) * z});
    }
    add("lines of planes", true, {made({3, 5, 104}).slice(2, 0, 101) * made({3, 5, 101})});
    add("too few lines", false, {made({7, 104}).slice(1, 0, 101) * made({7, 101})});
    add("short lines", false, {made({41, 40}).slice(1, 0, 37) * 2});
    add("columns that lie apart", false, {made({101, 40}).t() * made({40, 101})});
    add("a sum of all", false, {sum(made({41, 104}).slice(1, 0, 101))});
  }
  const Tensor x = randn({33, 80}).eval().slice(1, 0, 77);
  add("random numbers", true, {where(rand({33, 77}) < 0.5, x, 0)});
  check(std::move(cases));
}

// Neighbours of one operand that are strangers in another: several elements per thread, far apart.
TEST_F(PrintedSweeps, OfSingleElementsAreTheOracle) {
  std::vector<std::unique_ptr<SweepCase>> cases;
  const auto add = [&](const std::string& name, const std::vector<Tensor>& roots) {
    cases.push_back(make_case(name, roots));
    EXPECT_NE(plan_of_case(*cases.back()).find("at a time"), std::string::npos) << name << plan_of_case(*cases.back());
  };
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::f64, DType::u8}) {
    const auto made = [&](const Shape& shape) { return cast(abs(randn(shape) * 5), dtype).eval(); };
    for (const std::int64_t n : {3, 37, 701}) {
      const Tensor x = made({3, n, 5, 7}), y = made({3, 5, n, 7});
      add("axes in another order", {permute(x, {0, 2, 1, 3}) + y});
      add("neighbours apart", {contiguous(transpose(made({n, 35}).slice(1, 0, 35, 2), 0, 1))});
      add("backwards, and one number per line",
          {permute(flip(x, {2, 3}), {0, 2, 1, 3}) + made({3, 1, n, 1}), permute(x, {0, 2, 1, 3}) > y});
    }
  }
  add("random numbers and ramps", {rand({3, 5, 37, 7}) + transpose(randn({3, 37, 5, 7}).eval(), 1, 2) +
                                   cast(reshape(arange(3 * 37 * 35), {3, 5, 37, 7}), DType::f32)});
  check(std::move(cases));
}

// Sums of few columns: the threads of a block take neighbouring rows.
TEST_F(PrintedSweeps, OfFewColumnsAreTheOracle) {
  std::vector<std::unique_ptr<SweepCase>> cases;
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::f64, DType::i64}) {
    const auto made = [&](const Shape& shape) { return cast(randn(shape) * 9, dtype).eval(); };
    for (const std::int64_t n : {1, 2, 3, 5, 8, 12, 33, 63}) {
      for (const std::int64_t rows : {7, 9, 300, 5003}) {
        if (rows * n > 40'000) continue;
        const Tensor x = made({rows, n});
        cases.push_back(make_case(fmt::format("{} rows of {} {}", rows, n, name(dtype)), {sum(x, 0)}));
        cases.push_back(make_case(fmt::format("{} rows of {} {}, largest", rows, n, name(dtype)),
                                  {max(x, 0), sum(x * made({n}), 0)}));
      }
    }
  }
  cuda::GpuModel few;  // threads, so that each has many rows, and many groups for the chains
  few.narrow_column_threads = 1;
  check(std::move(cases));
  std::vector<std::unique_ptr<SweepCase>> again;
  for (const std::int64_t n : {3, 8})
    again.push_back(make_case(fmt::format("long walks of {}", n), {sum(randn({70'003, n}).eval(), 0)}));
  check(std::move(again), few);
  std::vector<std::unique_ptr<SweepCase>> chains;
  chains.push_back(make_case("many chains", {sum(randn({70'003, 2}).eval() * randn({70'003, 2}).eval(), 0) + 1}));
  check(std::move(chains));
}

// Few long rows: blocks share them, and each pass is a launch. Values of rows between passes and after them, sums of
// all, elements that lie apart, a softmax in one pass, and more segments than a group has.
TEST_F(PrintedSweeps, OfRowsThatBlocksShareAreTheOracle) {
  std::vector<std::unique_ptr<SweepCase>> cases;
  const auto add = [&](const std::string& name, int launches, const std::vector<Tensor>& roots,
                       const cuda::GpuModel& model) {
    cases.push_back(make_case(name, roots));
    const cuda::KernelPlan plan = cuda::plan_kernel(*cases.back()->plan.steps[0].program, model);
    EXPECT_TRUE(plan.shares_rows()) << name << "\n" << print(cases.back()->plan);
    EXPECT_EQ(plan.launch.launches, launches) << name << ": " << describe(plan);
  };
  cuda::GpuModel model;
  model.shared_segments = 2;
  model.blocks_of_shared_rows = 6;
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::f64}) {
    const std::int64_t n = dtype == DType::f32 ? 36'000 : 18'437;
    const std::string of = fmt::format(" of {} {}", n, name(dtype));
    const Tensor x = cast(randn({3, n}), dtype).eval(), w = cast(randn({3, n}), dtype).eval();
    add("softmax" + of, 3, {softmax(x, 1)}, model);
    add("a norm and its mean" + of, 4, {layer_norm(x, {n}), mean(x, 1)}, model);
    add("sums of rows and of all" + of, 3, {sum(x * w, 1), sum(x * max(x, 1, true)), min(x, 1)}, model);
    add("elements apart" + of, 3, {softmax(transpose(cast(randn({n, 3}), dtype).eval(), 0, 1), 1)}, model);
  }
  const Tensor x = randn({2, 140'001}).eval(), y = cast(x, DType::bf16).eval();
  for (const Tensor& t : {x, y}) {
    add("softmax in one pass", 2, {softmax(t, 1)}, model);
    add("its logarithm", 2, {logsumexp(t, 1) * 2}, model);
  }
  // Elements that are picked before the first pass.
  const Tensor labels = tensor({140'000, 7}).eval();
  for (const Tensor& t : {x, y}) {
    const Tensor picked = square(t - take_along(t, unsqueeze(labels, 1), 1));
    add("distances from an element", 3, {sum(picked, 1), mean(abs(t), 1)}, model);
  }
  const Tensor longest = randn({2, 2'100'001}).eval();
  add("groups of segments", 3, {longest - sum(longest, 1, true) / max(longest, 1, true), max(longest, 1)}, model);
  check(std::move(cases), model);
}

// More sums of segments than the text's own memory has room for.
TEST_F(PrintedSweeps, OfManyReductionsAreTheOracle) {
  std::vector<std::unique_ptr<SweepCase>> cases = cases_of_many_reductions();
  for (const auto& c : cases) {
    const cuda::SweepText text = cuda::print_sweep(*c->plan.steps[0].program, block_per_row());
    EXPECT_NE(plan_of_case(*c, block_per_row()).find("reductions behind the row"), std::string::npos) << c->name;
    EXPECT_LE(text.shared, cuda::GpuLimits().shared - cuda::kSharedOfText) << c->name;
  }
  check(std::move(cases), block_per_row());
}

// A row stays in registers between passes even though weights are read as well.
TEST_F(PrintedSweeps, OfLayerNormsHoldTheirRows) {
  std::vector<std::unique_ptr<SweepCase>> cases;
  const auto halves = [](const Shape& shape) { return cast(randn(shape), DType::bf16).eval(); };
  for (const std::int64_t n : {4096, 4088, 2048}) {
    cases.push_back(
        make_case(fmt::format("a layer norm of {}", n), {layer_norm(halves({3, n}), {n}, halves({n}), halves({n}))}));
    EXPECT_NE(plan_of_case(*cases.back()).find("x0 in registers"), std::string::npos) << plan_of_case(*cases.back());
  }
  check(std::move(cases));
}

// Whatever the scheduler makes of random graphs.
TEST_F(PrintedSweeps, OfRandomProgramsAreTheOracle) {
  std::vector<std::unique_ptr<SweepCase>> cases;
  // Inside one step: a chain of roundings of a few units each.
  tolerances_ = {1e-11, 1e-4, 0.02, 0.1};
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (unsigned seed = 5000; seed < 5060; ++seed) {
      const RandomProgram program(seed, dtype, {});
      std::vector<Tensor> roots;
      for (const Tensor& t : program.build(3 + static_cast<int>(seed % 20))) {
        if (!t.evaluated()) roots.push_back(t);
      }
      if (roots.empty()) continue;
      if (auto c = make_case(fmt::format("seed {} {}", seed, name(dtype)), roots)) cases.push_back(std::move(c));
    }
  }
  check(std::move(cases));
}

// Some of the texts, and all with sums after the row; in one program for each kind of GPU.
TEST(SweepText, CompilesForGpus) {
  EBB_SKIP_WITHOUT_NVRTC();
  EmulatedKernels kernels;
  for (const auto& c : cases_of_many_reductions()) {
    for (const cuda::GpuModel& model : {cuda::GpuModel(), block_per_row()})
      kernels.add(cuda::print_sweep(*c->plan.steps[0].program, model));
  }
  int which = 0;
  for (const auto& c : cases_of_repeated_operands()) {
    if (which++ % 7 == 0) kernels.add(cuda::print_sweep(*c->plan.steps.back().program));
  }
  for (const auto& c : sweep_cases()) {
    const bool wanted = c->name.ends_with(" 37") || c->name.ends_with(" 5000") || which++ % 51 == 0;
    for (const PlanStep& step : c->plan.steps) {
      if (wanted && step.program) kernels.add(cuda::print_sweep(*step.program));
    }
  }
  for (const char* gpu : kArchitectures) EXPECT_EQ(compile_errors(kernels.sources(), gpu), "");
}

// Sizes, strides and numbers are arguments.
TEST(SweepText, HoldsStructureAndNoSizes) {
  const auto text = [](const Tensor& x, double factor) {
    const auto c = make_case("", {sum(x * factor, 1)});
    return cuda::print_sweep(*c->plan.steps[0].program).text;
  };
  manual_seed(1);
  EXPECT_EQ(text(randn({4, 300}).eval(), 2.0), text(randn({90, 500}).eval(), 3.0));
  EXPECT_EQ(text(randn({4, 20000}).eval(), 2.0), text(randn({90, 50304}).eval(), 3.0));
  EXPECT_EQ(text(randn({4, 602}).eval().slice(1, 0, 602, 2), 2.0),
            text(randn({90, 1300}).eval().slice(1, 0, 1209, 3), 2.0));
}

// A case of one sweep that reads one tensor and writes one result.
void run_sum(EmulatedKernels& kernels, SweepCase& c, double* out) {
  const PlanStep& step = c.plan.steps[0];
  const cuda::SweepText text = cuda::print_sweep(*step.program);
  const int kernel = kernels.add(text);
  kernels.compile();
  std::vector<Argument> a(2);
  a[0] = c.input(step.inputs[0]);
  a[1].data = out;
  cuda::ErrorSlot error;
  kernels.run(kernel, text, a, error, 1);
}

// The bits of a row's sum depend neither on the number of rows nor on how threads share them.
TEST(SweepText, AddsARowAloneAsInABatch) {
  manual_seed(3);
  EmulatedKernels kernels;
  for (const std::int64_t n : {700, 20011}) {  // one segment of the tree, and several
    const Tensor x = cast(randn({3, n}), DType::f64).eval(), row = from_data(x.to_vector<double>().data(), {1, n});
    const auto many = make_case("", {sum(x, 1)}), one = make_case("", {sum(row, 1)});
    std::vector<double> sums(3), sum_alone(1);
    run_sum(kernels, *many, sums.data());
    run_sum(kernels, *one, sum_alone.data());
    EXPECT_EQ(sums[0], sum_alone[0]) << n;
  }
}

// Nor does a sum over everything differ from that of one row: also with lanes that have more than one chunk of
// segments, and with an incomplete group.
TEST(SweepText, AddsEverythingAsARow) {
  manual_seed(5);
  EmulatedKernels kernels;
  for (const std::int64_t n : {300, 70'001, 600'011, 1'200'007, 2'500'003}) {
    const Tensor x = cast(randn({n}), DType::f64).eval(), row = from_data(x.to_vector<double>().data(), {1, n});
    const auto flat = make_case("", {sum(x)}), one = make_case("", {sum(row, 1)});
    std::vector<double> sums(2);
    run_sum(kernels, *flat, &sums[0]);
    run_sum(kernels, *one, &sums[1]);
    EXPECT_EQ(sums[0], sums[1]) << n;
  }
}

// A sum over the rows' numbers, in complete groups and an incomplete one: integers, which no order changes.
TEST(SweepText, AddsTheNumbersOfAllRows) {
  EmulatedKernels kernels;
  for (const std::int64_t rows : {1023, 1024, 1025, 5000, 40'000}) {
    std::vector<double> v(static_cast<std::size_t>(rows * 3));
    double sum_of_all = 0;
    for (std::size_t k = 0; k < v.size(); ++k) v[k] = static_cast<double>(k * 7919 % 1009);
    for (std::size_t k = 0; k < v.size(); k += 3) sum_of_all += std::max({v[k], v[k + 1], v[k + 2]});
    const auto c = make_case("", {sum(max(tensor_from(v, {rows, 3}, DType::f64).eval(), 1))});
    double result = 0;
    run_sum(kernels, *c, &result);
    EXPECT_EQ(result, sum_of_all) << rows;
  }
}

// The kernel that adds what blocks have left may start before the sweep has ended: it waits before anything else.
TEST(SweepText, WaitsForTheSweepAtItsEnd) {
  const Tensor x = randn({5000}).eval();
  const std::string text = cuda::print_sweep(*make_case("", {sum(x)})->plan.steps[0].program).text;
  EXPECT_NE(text.find(") finish(const Args a) {\n  wait_for_sweep();\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("wait_for_sweep"), text.rfind("wait_for_sweep"));
}

// The lowest position, with the CPU's text.
TEST(SweepText, NamesTheLowestPositionThatIsWrong) {
  manual_seed(4);
  EmulatedKernels kernels;
  std::vector<std::int64_t> targets(40, 1);
  targets[7] = 12;
  targets[30] = -1;
  const Tensor x = randn({40, 10}).eval(), target = tensor_from(targets, {40}, DType::i64).eval();
  std::vector<double> chances(300, 0.5);
  chances[211] = 1.5;
  chances[290] = -3;
  const Tensor p = tensor_from(chances, {10, 30}, DType::f32).eval();
  const auto picks = make_case("", {cross_entropy(x, target)}), checks = make_case("", {bernoulli(p)});
  const auto walks = make_case("", {bernoulli(p * tensor_from(std::vector<double>(30, 1), {30}, DType::f32).eval())});
  EXPECT_NE(plan_of_case(*walks).find("down"), std::string::npos);
  std::string texts[3];
  const SweepCase* const all[] = {picks.get(), checks.get(), walks.get()};
  std::vector<cuda::SweepText> printed;
  for (const SweepCase* c : all) {
    printed.push_back(cuda::print_sweep(*c->plan.steps[0].program));
    kernels.add(printed.back());
  }
  kernels.compile();
  for (int i : {0, 1, 2}) {
    auto& c = *const_cast<SweepCase*>(all[i]);
    const PlanStep& step = c.plan.steps[0];
    std::vector<Argument> bound;
    for (std::int32_t v : step.inputs) bound.push_back(c.input(v));
    std::vector<std::vector<std::byte>> room;
    for (std::int32_t v : step.outputs) room.push_back(c.room(v));
    for (auto& r : room) bound.emplace_back().data = r.data();
    cuda::ErrorSlot error;
    kernels.run(i, printed[static_cast<std::size_t>(i)], bound, error, 9);
    ASSERT_NE(error.key, cuda::ErrorSlot::kNone) << i << "\n"
                                                 << print(c.plan) << printed[static_cast<std::size_t>(i)].text;
    const auto& t = printed[static_cast<std::size_t>(i)];
    texts[i] = cuda::complaint(*step.program, t.checks[error.key & 0xFFF],
                               static_cast<std::int64_t>(error.key >> 12 & 0xFF'FFFF'FFFF), error.bits)
                   .what();
  }
  EXPECT_EQ(texts[0], "cross_entropy: target[7] = 12 is outside [0, 10)");
  EXPECT_EQ(texts[1], "bernoulli: a probability must lie in [0, 1], but the element at [7, 1] is 1.5");
  EXPECT_EQ(texts[2], texts[1]);
}

}  // namespace
}  // namespace ebb::testing
