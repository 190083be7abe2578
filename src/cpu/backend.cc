// SPDX-License-Identifier: MIT
#include "cpu/backend.h"

#include <algorithm>
#include <cstring>
#include <typeinfo>
#include <vector>

#include "cpu/gemm/bf16.h"
#include "cpu/library.h"
#include "cpu/library/copy.h"
#include "cpu/model/cpu_model.h"
#include "cpu/sweep/sweep.h"

namespace ebb::cpu {
namespace {

// A sweep that only reorders elements. Tiles are read a line at a time, which for lines that step from row to row is
// one cache line per element; copies go by squares.
struct Reordering final : ebb::CompiledSweep {
  Shape shape;
  DType dtype;
  Strides from, to;
  int from_slot, to_slot;
  std::int64_t offset;

  void run(std::span<const Argument> arguments) const {
    auto* const source = static_cast<std::byte*>(arguments[static_cast<std::size_t>(from_slot)].data);
    copy_elements({arguments[static_cast<std::size_t>(to_slot)].data, dtype, shape, to},
                  {source + offset * static_cast<std::int64_t>(size_of(dtype)), dtype, shape, from});
  }
};

// Null for other sweeps: needs a load, perhaps copied, and a store of the same dtype, which is dense along a dimension
// where the source is not, while the source is dense along another.
SweepPtr reordering_of(const Program& p) {
  if (p.operands.size() != 1 || p.outputs.size() != 1 || p.dims.empty()) return nullptr;
  const Operand& from = p.operands[0];
  const Output& to = p.outputs[0];
  if (from.kind != Operand::Kind::memory || from.dtype != to.dtype || p.instrs[to.value].level != Level::full)
    return nullptr;
  for (const Instr& i : p.instrs) {
    if (i.kind != Instr::Kind::load && !(i.kind == Instr::Kind::compute && i.op == Op::copy)) return nullptr;
  }
  std::vector<int> order;
  bool across = false, along = false;
  for (int d = 0; d < static_cast<int>(p.dims.size()); ++d) {
    order.push_back(d);
    if (from.strides[d] < 0) return nullptr;
    if (p.dims[static_cast<std::size_t>(d)] == 1) continue;
    across |= to.strides[d] == 1 && from.strides[d] > 1;
    along |= to.strides[d] != 1 && from.strides[d] == 1;
  }
  if (!across || !along) return nullptr;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return to.strides[a] > to.strides[b]; });
  Reordering sweep;
  sweep.shape = Shape(p.dims.data(), static_cast<int>(p.dims.size()));
  for (int d = 0; d < sweep.shape.rank(); ++d) {
    const int k = order[static_cast<std::size_t>(d)];
    sweep.shape = sweep.shape.with(d, p.dims[static_cast<std::size_t>(k)]);
    sweep.from[d] = from.strides[k];
    sweep.to[d] = to.strides[k];
  }
  sweep.dtype = to.dtype;
  sweep.from_slot = from.slot;
  sweep.to_slot = to.slot;
  sweep.offset = from.offset;
  return std::make_shared<const Reordering>(std::move(sweep));
}

class CpuBackend final : public Backend {
 public:
  SweepPtr compile(const Program& program) override {
    SweepPtr reordering = reordering_of(program);
    return reordering ? reordering : cpu::compile(program);
  }
  using Backend::describe;
  std::string describe(const LibraryCall& call) const override { return describe_library(call); }
  Run begin(std::span<const FilledBy>) override { return {}; }
  void end(Run&) override {}
  void run(const SweepPtr& sweep, std::span<const Argument> arguments, Run& run) override {
    if (const ebb::CompiledSweep& s = *sweep; typeid(s) == typeid(Reordering))
      return static_cast<const Reordering&>(s).run(arguments);
    cpu::run(*sweep, arguments, run.first_row);
  }
  bool has(Op op) const override { return has_library(op); }
  void run(const LibraryCall& call, Run&) override { run_library(call); }
  void to_host(void* to, const Buffer& from, std::size_t offset, std::size_t bytes) override {
    std::memcpy(to, from.data + offset, bytes);
  }
  void from_host(Buffer& to, const void* from, std::size_t bytes) override { std::memcpy(to.data, from, bytes); }
  void synchronize() override {}
  BlockSource& memory() override { return *block_source({}); }
  int bytes_of_a_function() const override { return cpu_model().function_bytes; }
  bool reduces_rows_beside() const override { return true; }
  bool rounds_to_bf16() const override { return gemm_bf16_tiles() != nullptr; }
};

}  // namespace

Backend& backend() {
  static CpuBackend instance;
  return instance;
}

}  // namespace ebb::cpu
