#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "cpu/jit/loop.h"
#include "cpu/sweep/sweep.h"
#include "ebb/ops.h"
#include "graph/node.h"
#include "schedule/plan.h"

// Runs the sweeps of a plan twice, on the tile interpreter and on the scalar oracle, each on the same inputs, and
// compares everything they write.
namespace ebb::testing {

inline double read_number(DType dtype, const std::byte* data, std::size_t i) {
  switch (dtype) {
    case DType::f64:
      return reinterpret_cast<const double*>(data)[i];
    case DType::f32:
      return reinterpret_cast<const float*>(data)[i];
    case DType::f16:
      return to_float(reinterpret_cast<const Half*>(data)[i]);
    case DType::bf16:
      return to_float(reinterpret_cast<const BFloat16*>(data)[i]);
    case DType::i64:
      return static_cast<double>(reinterpret_cast<const std::int64_t*>(data)[i]);
    case DType::i32:
      return reinterpret_cast<const std::int32_t*>(data)[i];
    default:
      return reinterpret_cast<const std::uint8_t*>(data)[i];
  }
}

struct OracleTolerance {
  double f64 = 1e-11, f32 = 2e-5, f16 = 4e-3, bf16 = 3e-2;
  double of(DType d) const {
    return d == DType::f64 ? f64 : d == DType::f32 ? f32 : d == DType::f16 ? f16 : d == DType::bf16 ? bf16 : 0;
  }
};

class SweepOracle {
 public:
  // Expects every sweep of these tensors to do what the oracle does. Up to their first library call, if they have one.
  static void expect_same(const std::vector<Tensor>& tensors, const OracleTolerance& tolerance = {}) {
    const OwnedTrace owned = trace_of(tensors);
    const Plan plan = make_plan(owned.trace);
    SweepOracle oracle(plan, owned.trace, tolerance);
    for (const PlanStep& step : plan.steps) {
      if (!step.sweep) return;  // what comes after a library call would need its result
      oracle.check(step);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  SweepOracle(const Plan& plan, const Trace& t, const OracleTolerance& tolerance)
      : plan_(plan), trace_(t), tolerance_(tolerance) {}

  // Poison that is no plausible result: what is not written shows.
  static std::vector<std::byte> memory_for(const Value& x) {
    const std::size_t bytes = static_cast<std::size_t>(x.shape.numel()) * size_of(x.dtype);
    return std::vector<std::byte>(bytes + 16, std::byte{0x5A});
  }

  Argument bind(std::int32_t v) {
    const Value& x = plan_.graph.values[static_cast<std::size_t>(v)];
    Argument a;
    if (x.op == Op::constant && x.node < 0) {
      a.real = x.literal;
      a.integer = static_cast<std::int64_t>(x.literal);
    } else if (x.is_leaf) {
      const Node& n = *trace_.nodes[static_cast<std::size_t>(x.node)];
      a.real = n.payload.real;
      a.integer = n.payload.integer;
      a.step = n.payload.step;
      a.seed = n.payload.seed;
      a.operation = n.payload.operation;
      if (x.op == Op::data && n.storage.buffer) {
        a.data = n.storage.buffer.data() + n.storage.offset * static_cast<std::int64_t>(size_of(x.dtype));
      }
    } else {
      a.data = memory_.at(v).data();
    }
    return a;
  }

  void check(const PlanStep& step) {
    std::vector<Argument> fast;
    for (std::int32_t v : step.inputs) fast.push_back(bind(v));
    std::vector<Argument> slow = fast;
    std::vector<std::vector<std::byte>> expected;
    for (std::int32_t v : step.outputs) {
      const Value& x = plan_.graph.values[static_cast<std::size_t>(v)];
      memory_[v] = memory_for(x);
      expected.push_back(memory_for(x));
      Argument a;
      a.data = memory_[v].data();
      fast.push_back(a);
      a.data = expected.back().data();
      slow.push_back(a);
    }
    cpu::run(*step.sweep, fast);
    run_reference(*step.program, slow);
    compare_with_loops(step, fast);
    for (std::size_t k = 0; k < step.outputs.size(); ++k) {
      const Value& x = plan_.graph.values[static_cast<std::size_t>(step.outputs[k])];
      compare(step, x, memory_[step.outputs[k]], expected[k]);
    }
  }

  // The steps one by one and as loops of machine code: the same bits. (A NaN is a NaN.)
  void compare_with_loops(const PlanStep& step, const std::vector<Argument>& arguments) {
    std::array<std::vector<std::vector<std::byte>>, 2> results;
    for (const bool loops : {false, true}) {
      cpu::set_native_loops(loops ? cpu::NativeLoops::always : cpu::NativeLoops::never);
      const auto sweep = cpu::compile(*step.program);
      cpu::set_native_loops(cpu::NativeLoops::for_large_sweeps);
      std::vector<Argument> bound(arguments.begin(), arguments.begin() + static_cast<long>(step.inputs.size()));
      for (std::int32_t v : step.outputs) {
        results[loops].push_back(memory_for(plan_.graph.values[static_cast<std::size_t>(v)]));
        bound.emplace_back().data = results[loops].back().data();
      }
      cpu::run(*sweep, bound);
    }
    for (std::size_t k = 0; k < step.outputs.size(); ++k) {
      const std::vector<std::byte>&plain = results[0][k], &loop = results[1][k];
      if (plain == loop) continue;
      const Value& x = plan_.graph.values[static_cast<std::size_t>(step.outputs[k])];
      const std::size_t size = size_of(x.dtype);
      for (std::size_t i = 0; i < static_cast<std::size_t>(x.shape.numel()); ++i) {
        if (std::equal(&plain[i * size], &plain[i * size] + size, &loop[i * size])) continue;
        const double p = read_number(x.dtype, plain.data(), i), l = read_number(x.dtype, loop.data(), i);
        ASSERT_TRUE(std::isnan(p) && std::isnan(l))
            << "element " << i << " is " << p << " by steps and " << l << " in a loop\n"
            << print(*step.program);
      }
    }
  }

  void compare(const PlanStep& step, const Value& x, const std::vector<std::byte>& got,
               const std::vector<std::byte>& want) {
    const auto n = static_cast<std::size_t>(x.shape.numel());
    for (std::size_t i = 0; i < n; ++i) {
      const double g = read_number(x.dtype, got.data(), i), w = read_number(x.dtype, want.data(), i);
      if (g == w || (std::isnan(g) && std::isnan(w))) continue;
      ASSERT_LE(std::fabs(g - w), tolerance_.of(x.dtype) * (1 + std::fabs(w)))
          << info(x.op).name << " " << ebb::name(x.dtype) << x.shape.str() << ", element " << i << " is " << g
          << ", the oracle says " << w << "\n"
          << print(*step.program);
    }
    EXPECT_TRUE(std::equal(got.end() - 16, got.end(), want.end() - 16)) << "written past the end\n"
                                                                        << print(*step.program);
  }

  const Plan& plan_;
  const Trace& trace_;
  const OracleTolerance& tolerance_;
  std::map<std::int32_t, std::vector<std::byte>> memory_;
};

}  // namespace ebb::testing
