// SPDX-License-Identifier: MIT
#include <algorithm>

#include "cpu/model/cpu_model.h"
#include "cpu/sweep/code.h"

// Which registers share a tile slot, and how long tiles are: decided once all steps are known.
namespace ebb::cpu {
namespace {

// Assigns tile slots by last use: a step may write the tile of an operand last used there.
void allocate(CompiledSweep& sweep, const std::vector<std::vector<Step>*>& code) {
  // Lists the steps of chains one by one. If a chain has guards, all that it reads stays until its end: the steps are
  // rerun where one does not hold.
  struct Timed {
    const Step* step;
    int stay;  // until when its operands stay
    bool in_place;
  };
  std::vector<Timed> steps;
  for (const std::vector<Step>* list : code) {
    for (const Step& s : *list) {
      if (s.kind != Step::Kind::chain) {
        steps.push_back({&s, static_cast<int>(steps.size()), true});
        continue;
      }
      const Chain& chain = sweep.chains[s.item];
      const int end = static_cast<int>(steps.size() + chain.steps.size()) - 1;
      const bool guarded = chain.loop->guards() > 0;
      for (const Step& inner : chain.steps)
        steps.push_back({&inner, guarded ? end : static_cast<int>(steps.size()), !guarded});
    }
  }
  auto is_slot = [&](std::int32_t r) { return r >= 0 && sweep.registers[r].kind == Register::Kind::slot; };
  std::vector<int> last(sweep.registers.size(), -1);
  std::vector<std::vector<std::int32_t>> ends(steps.size());
  for (int at = 0; at < static_cast<int>(steps.size()); ++at) {
    const Step& s = *steps[at].step;
    for (std::int32_t r : {s.a, s.b, s.c}) {
      if (is_slot(r)) last[r] = std::max(last[r], steps[at].stay);
    }
    if (is_slot(s.dst)) last[s.dst] = std::max(last[s.dst], at);
  }
  std::vector<int> free;
  int used = 0;
  auto take = [&] {
    if (free.empty()) return used++;
    const int slot = free.back();
    free.pop_back();
    return slot;
  };
  // Invariant tiles hold their slots permanently.
  for (const Timed& t : steps) {
    if (!t.step->invariant) continue;
    sweep.registers[t.step->dst].index = take();
    last[t.step->dst] = -1;
  }
  for (std::size_t r = 0; r < last.size(); ++r) {
    if (last[r] >= 0) ends[last[r]].push_back(static_cast<std::int32_t>(r));
  }
  for (std::size_t at = 0; at < steps.size(); ++at) {
    const Step& s = *steps[at].step;
    const bool elementwise = steps[at].in_place && (s.kind == Step::Kind::compute || s.kind == Step::Kind::check);
    auto in_place = [&](std::int32_t r) { return elementwise && (r == s.a || r == s.b || r == s.c); };
    for (std::int32_t r : ends[at]) {
      if (in_place(r)) free.push_back(sweep.registers[r].index);
    }
    if (is_slot(s.dst) && sweep.registers[s.dst].index < 0) sweep.registers[s.dst].index = take();
    for (std::int32_t r : ends[at]) {
      if (!in_place(r)) free.push_back(sweep.registers[r].index);
    }
  }
  sweep.slots = std::max(sweep.slots, used);
}

bool is_one_chain(const std::vector<Step>& steps) { return steps.size() == 1 && steps[0].kind == Step::Kind::chain; }

// One number of a row in memory, a reduction of it, or a row of zeros except for one number: memory speed in one
// pass.
bool untiled(const CompiledSweep& sweep, const Step& s) {
  if (s.kind == Step::Kind::reduce)
    return !sweep.upright() && s.b < 0 && sweep.registers[s.a].kind == Register::Kind::operand;
  if (s.kind == Step::Kind::pick) return sweep.registers[s.a].kind == Register::Kind::operand;
  return s.kind == Step::Kind::place && sweep.registers[s.dst].kind == Register::Kind::output;
}

// Without rows, tiles may be several blocks long while their registers still fit L1 together: longer runs of memory are
// accessed at a time.
void widen_tiles(CompiledSweep& sweep) {
  if (!sweep.flat) return;
  const std::vector<Step>& steps = sweep.stages[0].full_steps;
  const std::size_t slots = static_cast<std::size_t>(std::max(sweep.slots, 1));
  if (is_one_chain(steps)) {
    // A single chain keeps nothing in tiles, except one block at a time for its steps.
    sweep.tile *= 16;
    sweep.slots_hold_a_block = true;
    return;
  }
  const std::int64_t blocks = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(cpu_model().sweep_tile_bytes / (slots * sweep.slot_bytes)), 1, 4);
  sweep.tile *= blocks;
  sweep.slot_bytes *= static_cast<std::size_t>(blocks);
}

// Fewer rows per tile if all slots together would not stay in the second-level cache.
void fit_rows(CompiledSweep& sweep) {
  if (!sweep.row_by_row) return;
  const CpuModel& model = cpu_model();
  const auto share = static_cast<std::int64_t>(static_cast<double>(model.l2_bytes) * model.sweep_l2_for_row_tiles);
  const std::int64_t bytes = model.l2_bytes > 0 ? share : model.sweep_row_tiles_bytes;
  const std::int64_t of_row = static_cast<std::int64_t>(sweep.slot_bytes) / sweep.rows_per_tile * sweep.slots;
  sweep.rows_per_tile = std::clamp<std::int64_t>(bytes / std::max<std::int64_t>(of_row, 1), 1, sweep.rows_per_tile);
  sweep.tile = sweep.rows_per_tile * sweep.columns_per_tile;
}

}  // namespace

void give_slots(CompiledSweep& sweep) {
  if (sweep.long_rows) {
    for (StageCode& c : sweep.stages) {
      allocate(sweep, {&c.full_steps});
      c.whole_rows =
          std::all_of(c.full_steps.begin(), c.full_steps.end(), [&](const Step& s) { return untiled(sweep, s); });
      c.one_chain = !sweep.upright() && is_one_chain(c.full_steps);
    }
    sweep.slots_hold_a_block = !sweep.upright();
  } else {
    std::vector<std::vector<Step>*> all;
    for (StageCode& c : sweep.stages) all.push_back(&c.full_steps);
    allocate(sweep, all);
    fit_rows(sweep);
  }
  widen_tiles(sweep);
}

}  // namespace ebb::cpu
