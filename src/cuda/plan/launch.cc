// SPDX-License-Identifier: MIT
// Shared memory, launch bounds, the kernel `finish` and the layout of the workspace.
#include <algorithm>

#include "core/ceil_div.h"
#include "core/format_error.h"
#include "cuda/plan/passes.h"

namespace ebb::cuda {
namespace {

// Reductions of one pass whose sums of segments are in shared memory.
std::int64_t part_reductions(const KernelPlan& plan) {
  std::size_t most = 0;
  if (plan.row_in_warp() || plan.parts_room == 0) return 0;
  for (std::size_t k = 0; k < plan.passes.size(); ++k) {
    std::size_t count = plan.passes[k].reductions.size();
    for (const SoftmaxSum& e : plan.passes[k].softmax) count += e.place >= 0;
    if (!plan.passes[k].softmax.empty()) count += plan.passes[k + 1].reductions.size();
    most = std::max(most, count);
  }
  return static_cast<std::int64_t>(most);
}

}  // namespace

void choose_launch(const Program& p, const GpuModel& model, KernelPlan& plan) {
  LaunchPlan& launch = plan.launch;
  FinishPlan& finish = plan.finish;
  WorkspacePlan& work = plan.workspace;
  const auto totals = static_cast<std::int64_t>(plan.totals.size());
  const bool rows = plan.mapping == Mapping::lanes_per_row || plan.mapping == Mapping::block_per_row ||
                    plan.mapping == Mapping::row_groups;
  launch.stays = !plan.staged.empty();
  launch.row_of_block = plan.mapping == Mapping::block_per_row;
  launch.fewer_if_spilled =
      (rows || plan.mapping == Mapping::columns || plan.mapping == Mapping::down_rows) && launch.min_blocks > 2;

  finish.parts_of_group = plan.mapping == Mapping::elements ? kGroup / kChunk : kGroup;
  finish.bound_threads = finish.parts_of_group == kGroup ? model.finish_threads : model.finish_threads_of_elements;
  finish.min_blocks = finish.parts_of_group == kGroup ? 1 : 0;
  finish.chains = plan.groups <= kChains ? 1 : kChains;
  finish.column_bits = plan.groups <= kChains ? 8 : 2;  // chains times columns are a block's threads
  if (plan.mapping == Mapping::columns && plan.row_step > 1 && plan.groups > model.groups_of_many_chains) {
    finish.chains = kThreads;
    finish.column_bits = 0;
  }
  finish.sums_at_a_time = model.sums_at_a_time;
  finish.loads_of_chain = model.loads_of_chain;

  std::int64_t words = 0;
  unsigned finish_blocks = 1;
  if (totals > 0) {
    words += totals * plan.parts;
    work.part_groups = ceil_div(plan.parts, finish.parts_of_group);
    if (work.part_groups > model.groups_of_few_threads)
      launch.finish_threads = static_cast<unsigned>(finish.bound_threads);
    if (!finish.columns) {
      work.group_sums = words;
      words += totals * work.part_groups;
      work.counter = words++;
      if (plan.parts > model.parts_of_block) {
        launch.finish_threads = kThreads;
        finish_blocks = static_cast<unsigned>(
            std::min(model.finish_blocks, ceil_div(work.part_groups, model.groups_of_few_threads)));
      }
    }
  }
  if (!plan.column_sums.empty() && !plan.whole_columns) {
    work.sums = words;
    words += static_cast<std::int64_t>(plan.column_sums.size()) * plan.groups * p.columns();
  }
  if (plan.shares_rows()) {
    work.segment_sums = words;
    words += plan.parts_before(p.stages) * p.rows() * plan.segments;
    work.picked = words;
    words += p.rows() * std::count_if(p.instrs.begin(), p.instrs.end(),
                                      [](const Instr& i) { return i.kind == Instr::Kind::pick; });
  }
  std::int64_t shared = plan.staged.empty() ? 0 : plan.row_bytes;
  if (plan.mapping == Mapping::row_groups && plan.kept_on_chip) {
    work.kept = shared;
    shared += plan.kept_bytes;
  } else if (plan.mapping == Mapping::row_groups) {
    words += words % 2;  // 16 bytes at a time
    work.kept = words;
    words += plan.kept_bytes / 8 * launch.blocks;
  }
  plan.part_reductions = part_reductions(plan);
  plan.parts_at = shared;
  const std::int64_t parts = bytes_of_parts(plan.part_reductions, plan.parts_room);
  plan.parts_behind_row = parts > model.static_parts;
  if (plan.parts_behind_row) shared += parts;
  launch.shared = static_cast<unsigned>(shared);
  launch.has_dynamic_shared =
      !plan.staged.empty() || plan.parts_behind_row || (plan.mapping == Mapping::row_groups && plan.kept_on_chip);
  launch.workspace = static_cast<std::size_t>(words) * sizeof(std::uint64_t);
  if (plan.finishes) {
    const std::int64_t blocks = ceil_div(p.columns(), std::int64_t{1} << finish.column_bits);
    launch.finish_blocks =
        finish.columns ? static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, model.most_blocks)) : finish_blocks;
  }
  // One launch has one number of threads; random numbers are excluded, since a recording finds them by their step.
  plan.joinable = launch.threads == kThreads && launch.shared == 0 && launch.launches == 1 &&
                  std::none_of(p.operands.begin(), p.operands.end(),
                               [](const Operand& o) { return o.kind == Operand::Kind::random; });
}

unsigned rows_per_block(const LaunchPlan& launch, unsigned resident_blocks, const GpuModel& model) {
  if (resident_blocks < 2 || !launch.row_of_block) return model.rows_of_lone_blocks;
  return resident_blocks * launch.threads < model.enough_threads ? model.rows_of_few_threads : 1;
}

}  // namespace ebb::cuda
