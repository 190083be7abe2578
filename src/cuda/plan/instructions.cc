// SPDX-License-Identifier: MIT
// The cost model of values: GPU instructions per element; `coarse`: by the quick functions of the prelude.
#include "cuda/plan/passes.h"

namespace ebb::cuda {
double instructions_of(const Program& p, std::int32_t v, bool coarse) {
  const Instr& i = p.instrs[static_cast<std::size_t>(v)];
  switch (i.kind) {
    case Instr::Kind::load: {
      const Operand& o = p.operands[static_cast<std::size_t>(i.arg[0])];
      if (o.kind == Operand::Kind::random) return 20;  // neighbours share blocks of four
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
      const OpCost& cost = info(i.op).cost;
      return (coarse && !wide ? cost.quick : cost.instructions) * (wide ? 2 : 1);
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
