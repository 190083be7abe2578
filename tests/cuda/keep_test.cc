// SPDX-License-Identifier: MIT
// Values that passes over a row leave on chip for later ones.
#include "cuda/plan/keep.h"

#include <gtest/gtest.h>

#include <set>

#include "sweep_cases.h"

namespace ebb::testing {
namespace {

// The program of a root's one sweep, its staged operands (all of memory) and its passes, each stage's reductions and
// the outputs of the last.
struct Passes {
  Program program;
  std::vector<std::int32_t> staged;
  cuda::PassRoots roots;
};
Passes passes_of(const std::vector<Tensor>& roots) {
  const auto c = make_case("", roots);
  Passes p{*c->plan.steps[0].program, {}, {}};
  for (std::size_t o = 0; o < p.program.operands.size(); ++o) {
    const Operand& operand = p.program.operands[o];
    if (operand.kind == Operand::Kind::memory && operand.level == Level::full)
      p.staged.push_back(static_cast<std::int32_t>(o));
  }
  p.roots.resize(static_cast<std::size_t>(p.program.stages));
  for (const Instr& i : p.program.instrs) {
    if (i.kind == Instr::Kind::reduce) p.roots[static_cast<std::size_t>(i.stage)].push_back(i.arg[0]);
  }
  for (const Output& o : p.program.outputs) {
    const Instr& i = p.program.instrs[static_cast<std::size_t>(o.value)];
    if (i.level == Level::full) p.roots[static_cast<std::size_t>(i.stage)].push_back(o.value);
  }
  return p;
}
cuda::KeptBefore keep(const Passes& p) {
  return cuda::keep_values(p.program, {}, p.staged, p.roots, std::vector<char>(p.program.instrs.size()));
}
Op op_of(const Passes& p, const cuda::KeptValue& k) { return p.program.instrs[static_cast<std::size_t>(k.value)].op; }

TEST(KeptValues, AreWhatASecondPassWouldMakeAgain) {
  manual_seed(1);
  const Tensor x = randn({3, 5000}).eval(), y = randn({3, 5000}).eval();
  const Passes p = passes_of({softmax(log(x * x + 1) / y, 1)});
  const cuda::KeptBefore kept = keep(p);
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_TRUE(kept[0].empty());
  // The maximum's argument in place of x and y; then the exponentials, of which the last pass needs nothing else.
  ASSERT_EQ(kept[1].size(), 1u);
  EXPECT_EQ(op_of(p, kept[1][0]), Op::div);
  ASSERT_EQ(kept[2].size(), 1u);
  EXPECT_EQ(op_of(p, kept[2][0]), Op::exp);
  EXPECT_EQ(kept[2][0].dtype, DType::f32);
  EXPECT_EQ(kept[2][0].chunks.size(), 2u);
}

TEST(KeptValues, OfHalvesTakeTheirRoomOnlyWhereTheyAreRounded) {
  manual_seed(2);
  const Tensor x = randn({3, 5000}, DType::bf16).eval(), y = randn({3, 5000}, DType::bf16).eval();
  // x and y are two chunks: room for one f32, and for rounded differences of one chunk each.
  const Tensor d = exp(x - y);
  const Passes p = passes_of({d / sum(d, 1, true) * max(x * y, 1, true)});
  for (const auto& kept : keep(p)) {
    std::size_t chunks = 0;
    for (const cuda::KeptValue& k : kept) {
      chunks += k.chunks.size();
      EXPECT_EQ(k.chunks.size(), size_of(k.dtype) / 2);
    }
    EXPECT_LE(chunks, 2u);
  }
}

TEST(KeptValues, AreNotWorthItWhereTheyCostNothing) {
  manual_seed(3);
  const Tensor x = randn({3, 5000}).eval();
  for (const auto& kept : keep(passes_of({x - mean(x, 1, true)}))) EXPECT_TRUE(kept.empty());
}

// No two values that are read later share a chunk, whatever the program.
TEST(KeptValues, LieWhereNothingIsReadAnyMore) {
  for (const auto& c : sweep_cases()) {
    for (const PlanStep& step : c->plan.steps) {
      if (!step.program || step.program->stages < 2) continue;
      const Program& program = *step.program;
      Passes p{program, {}, {}};
      for (std::size_t o = 0; o < program.operands.size(); ++o) {
        if (program.operands[o].kind == Operand::Kind::memory && program.operands[o].level == Level::full &&
            size_of(program.operands[o].dtype) >= 2)
          p.staged.push_back(static_cast<std::int32_t>(o));
      }
      p.roots.resize(static_cast<std::size_t>(program.stages));
      for (const Instr& i : program.instrs) {
        if (i.kind == Instr::Kind::reduce) p.roots[static_cast<std::size_t>(i.stage)].push_back(i.arg[0]);
      }
      for (const Output& o : program.outputs) {
        const Instr& i = program.instrs[static_cast<std::size_t>(o.value)];
        if (i.level == Level::full && i.stage < program.stages)
          p.roots[static_cast<std::size_t>(i.stage)].push_back(o.value);
      }
      const cuda::KeptBefore kept = keep(p);
      for (std::size_t pass = 0; pass < kept.size(); ++pass) {
        std::set<int> taken;
        std::set<std::int32_t> found;
        for (const cuda::KeptValue& k : kept[pass]) {
          found.insert(k.value);
          for (const int chunk : k.chunks) EXPECT_TRUE(taken.insert(chunk).second) << c->name << "\n" << print(program);
        }
        // Operands that this pass or a later one still reads.
        std::set<std::int32_t> operands, seen;
        const auto walk = [&](auto&& self, std::int32_t v) -> void {
          if (v < 0 || program.instrs[static_cast<std::size_t>(v)].level != Level::full || !seen.insert(v).second)
            return;
          const Instr& i = program.instrs[static_cast<std::size_t>(v)];
          if (found.count(v)) return;
          if (i.kind == Instr::Kind::load) {
            operands.insert(i.arg[0]);
            return;
          }
          for (const std::int32_t a : i.arg) self(self, a);
        };
        for (const std::int32_t v : p.roots[pass]) walk(walk, v);
        int chunk = 0;
        for (const std::int32_t o : p.staged) {
          for (int k = 0; k < cuda::chunks_of(program.operands[static_cast<std::size_t>(o)].dtype); ++k, ++chunk) {
            EXPECT_FALSE(operands.count(o) && taken.count(chunk)) << c->name << "\n" << print(program);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ebb::testing
