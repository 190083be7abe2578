// SPDX-License-Identifier: MIT
#include "schedule/trial.h"

#include <algorithm>

namespace ebb {

std::uint32_t rename(std::uint32_t set, const std::vector<std::int8_t>& where) {
  std::uint32_t out = 0;
  for (std::size_t a = 0; a < where.size(); ++a) {
    if (set >> a & 1) out |= 1u << where[a];
  }
  return out;
}

Trial::Trial(const Shape& shape) {
  for (int d = 0; d < shape.rank(); ++d) map[d] = shape[d] == 1 ? kUnit : kFree;
}

bool Trial::take_in(int h, const SweepGroup& other, AxisMap seen, int rank) {
  if (into < 0 && axes.empty()) {
    into = h;
    axes = other.axes;
    rows = other.rows;
    add_signatures(other, nullptr);
    for (int d = 0; d < rank; ++d) {
      if (map[d] == kFree || map[d] == kUnit) map[d] = seen[d];
    }
    return true;
  }
  std::vector<std::int8_t> where;
  for (const auto& [group, names] : renamed) {
    if (group == h) where = names;
  }
  if (h != into && where.empty() && !name_axes(h, other, seen, rank, where)) return false;
  if (!where.empty()) {
    for (int d = 0; d < rank; ++d) {
      if (seen[d] >= 0) seen[d] = where[seen[d]];
    }
  }
  for (int d = 0; d < rank; ++d) {
    if (seen[d] < 0) continue;
    if (map[d] < 0) {
      for (int e = 0; e < rank; ++e) {
        if (map[e] == seen[d]) return false;
      }
      map[d] = seen[d];
    }
    if (map[d] != seen[d]) return false;
  }
  return true;
}

// Maps the axes of another group to this one's.
bool Trial::name_axes(int h, const SweepGroup& other, const AxisMap& seen, int rank, std::vector<std::int8_t>& where) {
  where.assign(other.axes.size(), kFree);
  for (int d = 0; d < rank; ++d) {
    if (map[d] >= 0 && seen[d] >= 0) {
      if (where[seen[d]] != kFree && where[seen[d]] != map[d]) return false;
      where[seen[d]] = map[d];
    }
  }
  // Axes that the two groups do not share through this value: pairs equal sizes, adds the rest. Two groups that each
  // have an axis the other lacks do not fit one space.
  bool added = false;
  for (std::size_t a = 0; a < where.size(); ++a) {
    if (where[a] != kFree) continue;
    for (std::size_t b = 0; b < axes.size(); ++b) {
      const bool taken = std::find(where.begin(), where.end(), static_cast<std::int8_t>(b)) != where.end();
      if (!taken && axes[b] == other.axes[a]) {
        where[a] = static_cast<std::int8_t>(b);
        break;
      }
    }
    if (where[a] == kFree) {
      where[a] = static_cast<std::int8_t>(axes.size());
      axes.push_back(other.axes[a]);
      added = true;
    }
  }
  if (axes.size() > Shape::kMaxRank) return false;
  // Where the whole space is one row, a reduction took in every axis: no further one may come.
  if ((rows == 0 || other.rows == 0) && (added || where.size() != axes.size())) return false;
  if (added) {
    std::uint32_t covered = 0;
    for (std::int8_t w : where) covered |= 1u << w;
    if (covered != all()) return false;
  }
  if (other.rows != SweepGroup::kUndecided) {
    const std::uint32_t theirs = rename(other.rows, where);
    if (rows == SweepGroup::kUndecided) rows = theirs;
    if (rows != theirs) return false;
  }
  add_signatures(other, &where);
  renamed.emplace_back(h, where);
  return true;
}

bool Trial::bind(int d, std::int64_t size, int rank) {
  std::uint32_t used = 0;
  for (int e = 0; e < rank; ++e) {
    if (map[e] >= 0) used |= 1u << map[e];
  }
  for (int prefer_columns = 1; prefer_columns >= 0; --prefer_columns) {
    for (std::size_t a = 0; a < axes.size(); ++a) {
      if ((used >> a & 1) || axes[a] != size) continue;
      if (prefer_columns && (rows == SweepGroup::kUndecided || (rows >> a & 1))) continue;
      map[d] = static_cast<std::int8_t>(a);
      return true;
    }
  }
  if (axes.size() == Shape::kMaxRank) return false;
  map[d] = static_cast<std::int8_t>(axes.size());
  axes.push_back(size);
  return true;
}

std::uint32_t Trial::renamed_set(int group, std::uint32_t set) const {
  for (const auto& [other, where] : renamed) {
    if (other == group) return rename(set, where);
  }
  return set;
}

void Trial::add_signature(std::uint32_t set) {
  if (set != 0 && std::find(signatures.begin(), signatures.end(), set) == signatures.end()) signatures.push_back(set);
}

void Trial::add_signatures(const SweepGroup& group, const std::vector<std::int8_t>* where) {
  for (std::uint32_t set : group.signatures) add_signature(where ? rename(set, *where) : set);
}

bool Trial::signatures_fit() {
  for (std::uint32_t s : signatures) {
    if (s == all() || s == 0) continue;
    if (rows == SweepGroup::kUndecided) rows = s;
    if (rows != s) return false;
  }
  return rows == SweepGroup::kUndecided || rows != all() || all() == 0;
}

}  // namespace ebb
