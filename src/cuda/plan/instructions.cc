// SPDX-License-Identifier: MIT
// The cost model of values: GPU instructions per element.
#include "cuda/plan/passes.h"

namespace ebb::cuda {
namespace {

// Estimates; `coarse`: by the quick functions of the prelude.
double function_instructions(Op op, bool coarse) {
  switch (op) {
    case Op::copy:
    case Op::check:
      return 0;
    case Op::div:
      return coarse ? 3 : 10;
    case Op::reciprocal:
      return coarse ? 1 : 9;
    case Op::sqrt:
    case Op::rsqrt:
      return coarse ? 3 : 10;
    case Op::exp:
    case Op::exp2:
      return coarse ? 2 : 8;
    case Op::log:
    case Op::log2:
    case Op::log10:
      return coarse ? 8 : 18;
    case Op::expm1:
    case Op::log1p:
    case Op::log1p_unit:
    case Op::tanh:
      return coarse ? 9 : 22;
    case Op::pow:
      return coarse ? 16 : 60;
    case Op::sign:
      return 4;
    default:
      return info(op).costly ? 30 : 1;
  }
}

}  // namespace

double instructions_of(const Program& p, std::int32_t v, bool coarse) {
  const Instr& i = p.instrs[static_cast<std::size_t>(v)];
  switch (i.kind) {
    case Instr::Kind::load: {
      const Operand& o = p.operands[static_cast<std::size_t>(i.arg[0])];
      if (o.kind == Operand::Kind::random) return 60;
      if (o.kind == Operand::Kind::iota) return 2;
      return o.kind == Operand::Kind::memory && is_half(o.dtype) ? 1 : 0.25;
    }
    case Instr::Kind::round:
      return is_half(i.dtype) ? 2 : 1;
    case Instr::Kind::convert:
      return 1;
    case Instr::Kind::place:
      return 3;
    case Instr::Kind::compute: {
      const bool wide = i.type == RegType::f64;
      return function_instructions(i.op, coarse && !wide) * (wide ? 2 : 1);
    }
    default:
      return 1;
  }
}

int unrolled_leaves(const GpuModel& model, double instructions) {
  int leaves = kLeaves;
  while (leaves > 1 && leaves * kLeaf * instructions > model.written_out_instructions) leaves /= 2;
  return leaves;
}

}  // namespace ebb::cuda
