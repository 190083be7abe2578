// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "cuda/plan/kernel_plan.h"

// The passes of plan_kernel(), in order: each reads the decisions of earlier ones and adds its own.
namespace ebb::cuda {

void choose_mapping(const Program& program, const GpuModel& model, KernelPlan& plan);
// Blocks that share each row, if there are too few rows for a block each; 1 otherwise. `usual`: with a block per row.
std::int64_t blocks_of_row(const Program& program, const GpuModel& model, const KernelPlan& usual);

void choose_passes(const Program& program, const GpuModel& model, KernelPlan& plan);
void choose_precision(const Program& program, const GpuModel& model, KernelPlan& plan);
void choose_kept(const Program& program, const GpuModel& model, KernelPlan& plan);
void choose_softmax(const Program& program, const GpuModel& model, KernelPlan& plan);
void choose_unrolling(const Program& program, const GpuModel& model, KernelPlan& plan);
void choose_residence(const Program& program, const GpuModel& model, KernelPlan& plan);
void choose_forms(const Program& program, const GpuModel& model, KernelPlan& plan);
void choose_rare_arms(const Program& program, const GpuModel& model, KernelPlan& plan);
void choose_launch(const Program& program, const GpuModel& model, KernelPlan& plan);

// Queries shared by several passes.
inline std::size_t at(std::int32_t v) { return static_cast<std::size_t>(v); }
inline const Instr& instr(const Program& p, std::int32_t v) { return p.instrs[at(v)]; }
inline bool is_check(const Instr& i) { return i.kind == Instr::Kind::compute && i.op == Op::check; }
inline bool is_power(const Instr& i) {
  return i.kind == Instr::Kind::compute && i.op == Op::pow && i.type == RegType::f32;
}
// Bytes for sums of segments, of one pass and the next.
inline std::int64_t bytes_of_parts(std::int64_t reductions, std::int64_t room) { return 2 * reductions * room * 8; }
bool in_epilogue(const Program& program, const Instr& instr);
bool is_found(const std::vector<KeptValue>& values, std::int32_t v);
// Marks the values of the line that v is computed from, back to those found on chip.
void need(const Program& program, const KernelPlan& plan, std::int32_t v, std::vector<char>& needed,
          const std::vector<KeptValue>& found = {});
// Values of the line that a pass is for.
std::vector<std::int32_t> roots_of(const Program& program, const PassPlan& pass);
// GPU instructions per element of this value, approximately, not counting its inputs.
double instructions_of(const Program& program, std::int32_t value, bool coarse);
// Leaves to unroll so that their accesses overlap: no more than the instruction cache holds.
int unrolled_leaves(const GpuModel& model, double instructions);
// Whether a block that loops over the rows of a group holds each in registers while the next one is loaded.
bool holds_rows_of_group(const GpuModel& model, const KernelPlan& plan);
bool holds_wide_row(const Program& p, const GpuModel& model, const KernelPlan& plan);

// Does the operand differ from row to row?
bool varies_by_row(const Program& p, const Operand& operand);

}  // namespace ebb::cuda
