// SPDX-License-Identifier: MIT
#include "schedule/plan_cache.h"

#include <array>

#include "schedule/schedule_model.h"

namespace ebb {
namespace {

std::uint64_t mixed(std::uint64_t h, std::uint64_t word) {
  h = (h ^ word) * 0xD6E8FEB86659FD93u;
  return h ^ h >> 29;
}

// Four words at a time, with independent multiplications.
std::uint64_t hash_of(const PlanCache::Key& key) {
  std::array<std::uint64_t, 4> lanes{0x9E3779B97F4A7C15u ^ key.size(), 1, 2, 3};
  std::size_t i = 0;
  for (; i + lanes.size() <= key.size(); i += lanes.size()) {
    for (std::size_t k = 0; k < lanes.size(); ++k) lanes[k] = mixed(lanes[k], key[i + k]);
  }
  for (; i < key.size(); ++i) lanes[0] = mixed(lanes[0], key[i]);
  return mixed(mixed(lanes[0], lanes[1]), mixed(lanes[2], lanes[3]));
}

}  // namespace

std::shared_ptr<const Plan> PlanCache::find(const Key& key, std::uint64_t hash) {
  auto [from, to] = index_.equal_range(hash);
  for (auto it = from; it != to; ++it) {
    if (it->second->key != key) continue;
    order_.splice(order_.begin(), order_, it->second);
    return it->second->plan;
  }
  return nullptr;
}

std::shared_ptr<const Plan> PlanCache::find(const Key& key) {
  const std::uint64_t hash = hash_of(key);
  std::lock_guard guard(mutex_);
  return find(key, hash);
}

std::shared_ptr<const Plan> PlanCache::add(const Key& key, Plan plan) {
  const std::uint64_t hash = hash_of(key);
  auto made = std::make_shared<const Plan>(std::move(plan));
  std::list<Entry> leaving;  // destroyed without the mutex
  std::lock_guard guard(mutex_);
  if (auto there = find(key, hash)) return there;
  order_.push_front({key, hash, made});
  index_.emplace(hash, order_.begin());
  if (order_.size() > kScheduleModel.most_plans) {
    const auto last = std::prev(order_.end());
    auto [from, to] = index_.equal_range(last->hash);
    while (from != to && from->second != last) ++from;
    index_.erase(from);
    leaving.splice(leaving.begin(), order_, last);
  }
  return made;
}

PlanCache& plan_cache() {
  static auto* cache = new PlanCache;
  return *cache;
}

}  // namespace ebb
