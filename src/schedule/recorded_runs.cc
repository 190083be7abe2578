// SPDX-License-Identifier: MIT
#include "schedule/recorded_runs.h"

#include <algorithm>
#include <set>

#include "core/stop.h"
#include "schedule/schedule_model.h"

namespace ebb {

RecordedRuns::RecordedRuns(const Plan& plan, std::map<std::int32_t, std::vector<std::size_t>> results,
                           const std::vector<std::int32_t>& random)
    : plan_(plan), arena_(std::make_unique<Arena>(plan.device)) {
  std::set<std::int32_t> read;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    bool draws = false;
    for (const std::int32_t v : plan.steps[s].inputs) {
      const std::int32_t b = plan.graph.base(v);
      read.insert(b);
      draws |= std::find(random.begin(), random.end(), b) != random.end();
    }
    if (draws) random_steps_.push_back(s);
    off_ |= draws && !plan.steps[s].sweep;  // a recorded call would repeat its numbers
  }
  for (const std::int32_t v : read) {
    const Value& x = plan.graph.values[v];
    if (!x.is_leaf || x.op != Op::data) continue;
    std::int64_t first = 0, last = 0;  // elements before and after the one with index 0
    for (int d = 0; d < x.shape.rank(); ++d) (x.strides[d] < 0 ? first : last) += (x.shape[d] - 1) * x.strides[d];
    const auto element = static_cast<std::int64_t>(size_of(x.dtype));
    const bool empty = x.shape.numel() == 0;
    leaves_.push_back(
        {v, empty ? 0 : -first * element, static_cast<std::size_t>(empty ? 0 : (last - first + 1) * element)});
  }
  for (auto& result : results) results_.push_back({result.first, std::move(result.second)});
}

bool RecordedRuns::run(StepRunner& steps) {
  std::lock_guard guard(mutex_);
  // The first run loads kernels and chooses algorithms; a function called once is not worth a recording.
  if (off_ || ++calls_ == 1 || steps.looks_for_errors()) return false;
  device_ = steps.backend().recordings();
  if (!device_) return false;
  check_stop();
  std::vector<void*> key = key_of(steps);
  const Settings settings;
  const auto fits = [&](const Entry& e) { return e.key == key && e.settings == settings && is_free(*e.results); };
  auto found = std::find_if(entries_.begin(), entries_.end(), fits);
  if (found == entries_.end()) {
    copy_restless_leaves(key);
    key = key_of(steps);
    if (!record(steps, std::move(key))) return false;
    found = entries_.begin();
  } else {
    entries_.splice(entries_.begin(), entries_, found);
  }
  try {
    replay(steps, *found);
  } catch (const Error&) {  // running the steps individually will report the error
    steps.forget_computed();
    give_up();
    return false;
  }
  return true;
}

void RecordedRuns::give_up() {
  off_ = true;
  entries_.clear();
  sets_.clear();
  arena_ = std::make_unique<Arena>(plan_.device);
  for (Leaf& leaf : leaves_) leaf.home = {};
}

std::vector<void*> RecordedRuns::key_of(const StepRunner& steps) const {
  std::vector<void*> key;
  key.reserve(leaves_.size());
  for (const Leaf& leaf : leaves_) key.push_back(leaf.home ? nullptr : steps.leaf_address(leaf.value));
  return key;
}

bool RecordedRuns::is_held(const Set& set, const Result& result) const {
  const std::vector<BufferPtr>& buffers = set.at(result.value);
  return std::any_of(buffers.begin(), buffers.end(), [](const BufferPtr& b) { return !b.unique(); });
}

bool RecordedRuns::is_free(const Set& set) const {
  return std::none_of(results_.begin(), results_.end(), [&](const Result& r) { return !r.copied && is_held(set, r); });
}

std::shared_ptr<const RecordedRuns::Set> RecordedRuns::free_set() {
  for (const auto& set : sets_) {
    if (is_free(*set)) return set;
  }
  if (sets_.size() == kScheduleModel.most_result_sets && !copy_held_results()) return nullptr;
  Set made;
  for (const Result& r : results_) {
    for (const std::size_t bytes : r.bytes)
      made[r.value].push_back(
          BufferPtr::allocate(std::max<std::size_t>(1, bytes), "a compiled function", plan_.device));
  }
  return sets_.emplace_back(std::make_shared<const Set>(std::move(made)));
}

// A caller that keeps some result of every run, such as the losses, must not prevent the reuse of all of them.
bool RecordedRuns::copy_held_results() {
  std::vector<Result*> kept;
  for (Result& r : results_) {
    if (r.copied || !std::all_of(sets_.begin(), sets_.end(), [&](const auto& s) { return is_held(*s, r); })) continue;
    std::size_t bytes = 0;
    for (const std::size_t b : r.bytes) bytes += b;
    if (bytes > kScheduleModel.most_copied_bytes) return false;
    kept.push_back(&r);
  }
  for (Result* r : kept) r->copied = true;
  if (kept.empty() || std::none_of(sets_.begin(), sets_.end(), [&](const auto& s) { return is_free(*s); })) {
    for (Result* r : kept) r->copied = false;
    return false;
  }
  entries_.clear();
  sets_.clear();
  return true;
}

// After some recordings: an input that still comes from new addresses gets a fixed one.
void RecordedRuns::copy_restless_leaves(const std::vector<void*>& key) {
  if (entries_.size() < kScheduleModel.recordings_of_patience) return;
  bool any = false;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    Leaf& leaf = leaves_[i];
    const bool known =
        std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key[i] == key[i]; });
    if (leaf.home || known || leaf.bytes > kScheduleModel.most_copied_bytes) continue;
    leaf.home = BufferPtr::allocate(std::max<std::size_t>(1, leaf.bytes), "a compiled function", plan_.device);
    any = true;
  }
  if (any) entries_.clear();
}

bool RecordedRuns::record(StepRunner& steps, std::vector<void*> key) {
  // This caller's pattern of use does not suit recordings.
  if (++made_ > kScheduleModel.most_recordings_made && made_ > calls_ / 4) {
    give_up();
    return false;
  }
  Run& run = steps.current();
  Entry entry;
  entry.key = std::move(key);
  std::vector<std::pair<BufferPtr, std::int64_t>> bound(leaves_.size());
  bool recording = false;
  try {
    entry.results = free_set();
    if (!entry.results) {
      if (++refused_ == kScheduleModel.most_refused_recordings) give_up();
      return false;
    }
    for (const Leaf& leaf : leaves_) {
      if (!leaf.home) continue;
      const auto element = static_cast<std::int64_t>(size_of(plan_.graph.values[leaf.value].dtype));
      bound[static_cast<std::size_t>(&leaf - leaves_.data())] =
          steps.swap_leaf(leaf.value, {leaf.home, leaf.before / element});
    }
    steps.put_outputs(entry.results.get());
    const Arena::Use use(*arena_);
    recording = true;
    device_->record(run);
    for (const PlanStep& step : plan_.steps) {
      steps.run(step);
      steps.release_after(step);
    }
    entry.recording = device_->recorded(run);
    recording = false;
  } catch (const Error&) {
    const Arena::Use use(*arena_);
    if (recording) device_->recorded(run);  // it ends
    steps.forget_computed();
  }
  steps.put_outputs(nullptr);
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    if (bound[i].first) steps.swap_leaf(leaves_[i].value, bound[i]);
  }
  {
    const Arena::Use use(*arena_);
    steps.forget_computed();
  }
  if (!entry.recording) {
    give_up();
    return false;
  }
  for (Result& r : results_) r.step = entry.results->at(r.value)[0].get()->filled_by.step;
  entries_.push_front(std::move(entry));
  if (entries_.size() > kScheduleModel.most_recordings) entries_.pop_back();
  return true;
}

void RecordedRuns::replay(StepRunner& steps, Entry& entry) {
  Run& run = steps.current();
  std::vector<CopyCall> copies;
  for (const Leaf& leaf : leaves_) {
    if (!leaf.home || leaf.bytes == 0) continue;
    copies.push_back(
        {leaf.home.data(), static_cast<std::byte*>(steps.leaf_address(leaf.value)) - leaf.before, leaf.bytes});
  }
  if (!copies.empty()) device_->copy(copies, run);
  for (const std::size_t s : random_steps_) {
    const PlanStep& step = plan_.steps[s];
    device_->draw(*entry.recording, static_cast<std::uint32_t>(s + 1), steps.arguments(step));
  }
  device_->replay(*entry.recording, run);
  copies.clear();
  for (const Result& r : results_) {
    const std::vector<BufferPtr>& written = entry.results->at(r.value);
    if (!r.copied) {
      steps.set_computed(r.value, written, r.step);
      continue;
    }
    std::vector<BufferPtr> fresh;
    for (std::size_t k = 0; k < written.size(); ++k) {
      fresh.push_back(BufferPtr::allocate(std::max<std::size_t>(1, r.bytes[k]), "a compiled function", plan_.device));
      if (r.bytes[k]) copies.push_back({fresh[k].data(), written[k].data(), r.bytes[k]});
    }
    steps.set_computed(r.value, fresh, r.step);
  }
  if (!copies.empty()) device_->copy(copies, run);
}

}  // namespace ebb
