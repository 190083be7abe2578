// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "cpu/jit/loop.h"
#include "cpu/library.h"
#include "cpu/sweep/sweep.h"
#include "ebb/ops.h"
#include "engine/library_reference.h"
#include "graph/node.h"
#include "schedule/plan.h"

// Runs the steps of a plan twice, on the CPU and by their definitions, each on the same inputs, and compares everything
// they write. Programs whose operations are rounded once must agree in every bit, sums included: their order is part of
// their definition (sweep/sum_order.h).
namespace ebb::testing {

struct OracleTolerance {
  double f64 = 1e-11, f32 = 2e-5, f16 = 4e-3, bf16 = 3e-2;
  double of(DType d) const {
    return d == DType::f64 ? f64 : d == DType::f32 ? f32 : d == DType::f16 ? f16 : d == DType::bf16 ? bf16 : 0;
  }
};

class SweepOracle {
 public:
  // Expects every step of these tensors to do what the oracle does.
  static void expect_same(const std::vector<Tensor>& tensors, const OracleTolerance& tolerance = {}) {
    const OwnedTrace owned = trace_of(tensors);
    const Plan plan = make_plan(owned.trace);
    SweepOracle oracle(plan, owned.trace, tolerance);
    for (const PlanStep& step : plan.steps) {
      step.sweep ? oracle.check(step) : oracle.check_call(step);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  SweepOracle(const Plan& plan, const Trace& t, const OracleTolerance& tolerance)
      : plan_(plan), trace_(t), tolerance_(tolerance) {}

  // Poison that is no plausible result: what is not written shows.
  static std::vector<std::byte> memory_for(std::int64_t elements, DType dtype) {
    const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(dtype);
    return std::vector<std::byte>(bytes + 16, std::byte{0x5A});
  }
  static std::vector<std::byte> memory_for(const Value& x) { return memory_for(allocated_elements(x), x.dtype); }

  // Each operation is exact or rounded once, so that the result is unique. (fma of f32 is rounded twice in the oracle's
  // double.)
  static bool is_exact(const Program& p) {
    for (const Instr& i : p.instrs) {
      if (i.kind != Instr::Kind::compute) continue;
      const bool rounded_once = i.op == Op::reciprocal || i.op == Op::div || i.op == Op::sqrt;
      if ((info(i.op).costly && !rounded_once) || i.op == Op::fma) return false;
    }
    return true;
  }

  // Rounding inside a sweep shows in its results, whatever their dtype: sums that differ in the last bit may be rounded
  // to neighbours.
  static DType coarsest(const Program& p, DType result) {
    DType worst = result;
    for (const Instr& i : p.instrs) {
      if (i.kind != Instr::Kind::round || i.dtype == DType::u8) continue;
      if (worst != DType::bf16) worst = i.dtype;
    }
    return is_floating(result) ? worst : result;
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
      a.data = address(v);
    } else {
      a.data = address(v);
    }
    return a;
  }

  const Value& value(std::int32_t v) const { return plan_.graph.values[static_cast<std::size_t>(v)]; }

  // Memory of a base; null if there is none.
  std::byte* address(std::int32_t v) {
    const Value& x = value(v);
    if (x.op == Op::output) return outputs_.at(x.inputs[0])[static_cast<std::size_t>(x.attrs.i[0])].data();
    if (!x.is_leaf) return memory_.at(v).data();
    const Node& n = *trace_.nodes[static_cast<std::size_t>(x.node)];
    if (x.op != Op::data || !n.storage.buffer) return nullptr;
    return on_host(n.storage.buffer) + n.storage.offset * static_cast<std::int64_t>(size_of(x.dtype));
  }

  // The bytes of a buffer of any device.
  std::byte* on_host(const BufferPtr& buffer) {
    if (buffer.device() == Device{}) return buffer.data();
    std::vector<std::byte>& copy = copies_[buffer.get()];
    if (copy.empty()) {
      copy.resize(buffer.bytes() + 16);
      backend_of(buffer.device()).to_host(copy.data(), *buffer.get(), 0, buffer.bytes());
    }
    return copy.data();
  }

  View view(std::int32_t v) {
    const Value& x = value(v);
    View out;
    out.dtype = x.dtype;
    out.shape = x.shape;
    out.strides = strides_of(x);
    out.room = x.room;
    std::byte* data = address(x.is_view() && x.op != Op::output ? x.base : v);
    const std::int64_t offset = x.is_view() && x.op != Op::output ? x.offset : 0;
    out.data = data ? data + offset * static_cast<std::int64_t>(size_of(x.dtype)) : nullptr;
    return out;
  }

  // If the reference does not know the call, it is only run, for the steps that need its result.
  void check_call(const PlanStep& step) {
    const Node& node = *trace_.nodes[static_cast<std::size_t>(step.node)];
    const std::int32_t v = step.outputs[0];
    std::vector<View> inputs, outputs;
    for (std::int32_t in : step.inputs) inputs.push_back(view(in));
    if (node.extra && !node.extra->output_types.empty()) {
      for (const auto& [shape, dtype] : node.extra->output_types) {
        outputs_[v].push_back(memory_for(shape.numel(), dtype));
        outputs.push_back({outputs_[v].back().data(), dtype, shape, contiguous_strides(shape)});
      }
      memory_[v] = outputs_[v][0];
    } else {
      memory_[v] = memory_for(value(v));
      outputs.push_back(view(v));
    }
    LibraryCall call{step.op, step.attrs, step.label, inputs, outputs, node.extra ? node.extra->data : nullptr};
    cpu::run_library(call);
    if (outputs.size() > 1) return;
    std::vector<std::byte> expected = memory_for(value(v));
    View out = outputs[0];
    out.data = expected.data();
    call.outputs = std::span<const View>(&out, 1);
    if (LibraryReference(call).run())
      compare(value(v), memory_.at(v), expected, tolerance_.of(value(v).dtype), std::string(info(step.op).name));
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
    cpu::run(*cpu::compile(*step.program), fast);  // the plan may be another device's
    run_reference(*step.program, slow);
    compare_with_loops(step, fast);
    for (std::size_t k = 0; k < step.outputs.size(); ++k) {
      const Value& x = plan_.graph.values[static_cast<std::size_t>(step.outputs[k])];
      const double tolerance = is_exact(*step.program) ? 0 : tolerance_.of(coarsest(*step.program, x.dtype));
      compare(x, memory_[step.outputs[k]], expected[k], tolerance, print(*step.program));
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
      for (std::size_t i = 0; i < static_cast<std::size_t>(allocated_elements(x)); ++i) {
        if (std::equal(&plain[i * size], &plain[i * size] + size, &loop[i * size])) continue;
        const auto at = static_cast<std::int64_t>(i);
        const double p = read_number(x.dtype, plain.data(), at), l = read_number(x.dtype, loop.data(), at);
        ASSERT_TRUE(std::isnan(p) && std::isnan(l))
            << "element " << i << " is " << p << " by steps and " << l << " in a loop\n"
            << print(*step.program);
      }
    }
  }

  void compare(const Value& x, const std::vector<std::byte>& got, const std::vector<std::byte>& want, double tolerance,
               const std::string& what) {
    const std::int64_t columns = x.room == 0 ? 1 : x.shape[x.shape.rank() - 1];  // what is behind them is nobody's
    for (std::int64_t i = 0; i < x.shape.numel(); ++i) {
      const std::int64_t at = i + i / columns * x.room;
      const double g = read_number(x.dtype, got.data(), at), w = read_number(x.dtype, want.data(), at);
      if (g == w || (std::isnan(g) && std::isnan(w))) continue;
      ASSERT_LE(std::fabs(g - w), tolerance * (1 + std::fabs(w)))
          << info(x.op).name << " " << ebb::name(x.dtype) << x.shape.str() << ", element " << i << " is " << g
          << ", the oracle says " << w << "\n"
          << what;
    }
    EXPECT_TRUE(std::equal(got.end() - 16, got.end(), want.end() - 16)) << "written past the end\n" << what;
  }

  const Plan& plan_;
  const Trace& trace_;
  const OracleTolerance& tolerance_;
  std::map<std::int32_t, std::vector<std::byte>> memory_;                // of values that a step has made
  std::map<std::int32_t, std::vector<std::vector<std::byte>>> outputs_;  // of calls with several results
  std::map<const Buffer*, std::vector<std::byte>> copies_;               // of memory of other devices
};

}  // namespace ebb::testing
