// SPDX-License-Identifier: MIT
#pragma once
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "schedule/plan.h"

namespace ebb {

// Plans by structure, with LRU eviction. Thread-safe.
class PlanCache {
 public:
  using Key = std::vector<std::uint64_t>;
  std::shared_ptr<const Plan> find(const Key& key);  // null if there is none
  // Returns the plan cached afterwards: this one, or that of a thread that was faster.
  std::shared_ptr<const Plan> add(const Key& key, Plan plan);

 private:
  struct Entry {
    Key key;
    std::uint64_t hash;
    std::shared_ptr<const Plan> plan;
  };
  std::shared_ptr<const Plan> find(const Key& key, std::uint64_t hash);

  std::mutex mutex_;
  std::list<Entry> order_;
  std::unordered_multimap<std::uint64_t, std::list<Entry>::iterator> index_;
};

PlanCache& plan_cache();

}  // namespace ebb
