// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "cuda/plan/kernel_plan.h"

namespace ebb::cuda {
namespace {

std::string mapping_text(const KernelPlan& plan) {
  switch (plan.mapping) {
    case Mapping::elements:
      return fmt::format("{} element{} per thread", plan.width, plan.width == 1 ? "" : "s");
    case Mapping::down_rows:
      return fmt::format("{} column{} per thread down {} rows", plan.width, plan.width == 1 ? "" : "s",
                         plan.thread_rows);
    case Mapping::lanes_per_row:
      return plan.lanes == 32 ? "warp per row"
                              : fmt::format("{} lane{} per row", plan.lanes, plan.lanes == 1 ? "" : "s");
    case Mapping::block_per_row:
      return plan.shares_rows() ? fmt::format("{} blocks per row, {} launches", plan.row_blocks, plan.launch.launches)
                                : "block per row";
    case Mapping::row_groups:
      return fmt::format("{} per {} rows", plan.chunk_warps > 0 ? "warp" : "block",
                         plan.chunk_warps > 0 ? kChunkRows : plan.group_rows);
    default:
      return fmt::format("{} column{} per thread of {} rows", plan.width, plan.width == 1 ? "" : "s", plan.group_rows);
  }
}

std::string operands_text(const std::vector<std::int32_t>& operands) {
  return fmt::format("x{}", fmt::join(operands, " x"));
}

std::string residence_text(const KernelPlan& plan) {
  const std::string staged = operands_text(plan.staged);
  const std::string part = plan.skewed         ? " as it lies"
                           : plan.all_staged() ? ""
                                               : fmt::format(" {} of {}", plan.staged_slots, plan.slots);
  switch (plan.residence) {
    case Residence::memory:
      return "";
    case Residence::shared:
      return fmt::format(", {} in shared memory{}", staged, part);
    case Residence::shared_and_registers:
      return fmt::format(", {} in shared memory{} and in registers", staged, part);
    default:
      return fmt::format(", {} in registers by way of shared memory{}", staged, part);
  }
}

// "%7 %9" for values that occur in several passes, each once.
class Values {
 public:
  void add(std::int32_t v) {
    if (std::find(all_.begin(), all_.end(), v) == all_.end()) all_.push_back(v);
  }
  std::string text(const char* what) const {
    return all_.empty() ? "" : fmt::format(", {} %{}", what, fmt::join(all_, " %"));
  }

 private:
  std::vector<std::int32_t> all_;
};

}  // namespace

std::string describe(const KernelPlan& plan) {
  const LaunchPlan& launch = plan.launch;
  std::string text = fmt::format("{}, {} threads", mapping_text(plan), launch.threads);
  if (launch.min_blocks > 0)
    text += fmt::format(", {} block{} per multiprocessor{}", launch.min_blocks, launch.min_blocks == 1 ? "" : "s",
                        launch.fewer_if_spilled ? " or fewer" : "");
  if (plan.alignment == Alignment::any) text += ", unaligned";
  if (!plan.vectors) text += ", strided";
  if (plan.together > 1) text += fmt::format(", {} at a time", plan.together);
  text += residence_text(plan);
  bool pairs[2] = {false, false}, softmax = false, maxima = false, owner = false, shares = false;  // f16, bf16
  std::string unrolls;
  Values keeps, rare, logarithms;
  for (const PassPlan& pass : plan.passes) {
    for (const Form& f : pass.forms) {
      if (f.kind == Form::Kind::halves) pairs[f.dtype == DType::bf16] = true;
    }
    softmax |= !pass.softmax.empty();
    maxima |= std::any_of(pass.half_maxima.begin(), pass.half_maxima.end(), [](std::int32_t o) { return o >= 0; });
    owner |= pass.placed_by_owner;
    shares |= pass.shares_loads;
    for (const KeptValue& k : pass.keeps) keeps.add(k.value);
    for (const RareArm& a : pass.rare_arms) rare.add(a.choice);
    for (const SharedLogarithm& l : pass.logarithms) {
      if (l.exponents.size() > 1) logarithms.add(l.first);
    }
    if (!pass.empty() && plan.row_unroll == 0) unrolls += fmt::format("{}{}", unrolls.empty() ? "" : "+", pass.unroll);
  }
  if (plan.row_unroll > 0) unrolls = std::to_string(plan.row_unroll);
  std::string once;
  for (const PassPlan& pass : plan.passes) {
    for (const std::int32_t o : pass.of_columns) once += fmt::format(" x{}", o);
  }
  if (!once.empty()) text += fmt::format(",{} loaded before the rows", once);
  if (!unrolls.empty()) text += ", unrolled " + unrolls;
  if (pairs[1]) text += ", bf16 pairs";
  if (pairs[0]) text += ", f16 pairs";
  if (maxima) text += ", maxima of pairs";
  if (softmax) text += ", softmax in one pass";
  if (owner) text += ", placed by its owner";
  if (shares) text += ", lanes share loads";
  text += keeps.text("keeps") + rare.text("rare arms of") + logarithms.text("powers share the logarithm of");
  if (plan.parts_behind_row) text += fmt::format(", {} reductions behind the row", plan.part_reductions);
  if (launch.shared > 0) text += fmt::format(", {} bytes of shared memory", launch.shared);
  if (plan.finishes)
    text += fmt::format(", finished by {} thread{}", launch.finish_threads, plan.finish.columns ? "s per block" : "s");
  if (plan.whole_columns) text += ", whole columns";
  if (plan.joinable) text += ", joinable";
  return text;
}

std::size_t hash(const KernelPlan& plan) { return std::hash<std::string>()(describe(plan)); }

}  // namespace ebb::cuda
