// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "schedule/fuse.h"

namespace ebb {

// A value tentatively put into a group: the group's space with it, and the value's place in it. Nothing is changed
// until everything fits.
struct Trial {
  // ---- the group ----
  int into = -1;  // the group that takes the others in; -1: a new one
  std::vector<std::int64_t> axes;
  std::uint32_t rows = SweepGroup::kUndecided;
  std::vector<std::uint32_t> signatures;                          // of members so far, besides none
  std::vector<std::pair<int, std::vector<std::int8_t>>> renamed;  // joined groups and where their axes went
  // ---- the value: see Placement ----
  AxisMap map{};
  std::uint32_t varies = 0;
  Post post = Post::no;
  std::uint32_t reads = 0;
  AxisMap operand_map{};

  Trial() = default;
  explicit Trial(const Shape& shape);  // a value of this shape, not in a group yet

  std::uint32_t all() const { return (1u << axes.size()) - 1; }
  std::int64_t size_of(std::uint32_t set) const {
    std::int64_t size = 1;
    for (std::size_t a = 0; a < axes.size(); ++a) size *= set >> a & 1 ? axes[a] : 1;
    return size;
  }

  // Takes in group number h, whose value the new one sees with the map `seen`, and unifies its dimensions with those of
  // the new value. False: they do not fit one space.
  bool take_in(int h, const SweepGroup& other, AxisMap seen, int rank);
  // Binds dimension d of the map to an axis: an axis of the group that the value does not use yet and that has its size
  // (the columns first), or a new one. False: there are too many.
  bool bind(int d, std::int64_t size, int rank);

  // Renames a set of axes of group number `group` to the axes here.
  std::uint32_t renamed_set(int group, std::uint32_t set) const;
  void add_signature(std::uint32_t set);
  void add_signatures(const SweepGroup& group, const std::vector<std::int8_t>* where);
  // Three signatures at most: none, rows, all. Decides which axes are the rows where that was open.
  bool signatures_fit();

 private:
  bool name_axes(int h, const SweepGroup& other, const AxisMap& seen, int rank, std::vector<std::int8_t>& where);
};

// A set of axes after they were renamed.
std::uint32_t rename(std::uint32_t set, const std::vector<std::int8_t>& where);

}  // namespace ebb
