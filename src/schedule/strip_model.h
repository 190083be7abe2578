// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace ebb {

// When a product is computed strip by strip, and how long a strip is. All of it decides by shapes alone, so that the
// same program gives the same bits on every machine.
struct StripModel {
  // A smaller product is held: below a quarter of a gigabyte memory is rarely what a computation lacks.
  std::int64_t large = std::int64_t{256} << 20;
  // A smaller one is held rather than made again, where later strips need a number of the whole batch.
  std::int64_t large_enough_to_repeat = std::int64_t{2} << 30;
  // Of the widest value of a strip. The head of a language model reads its weights once per strip, and adds to their
  // gradient once: with some hundred rows that takes a few percent of the products' own time.
  std::int64_t strip_bytes = std::int64_t{64} << 20;
  std::int64_t least_rows = 256;

  bool operator==(const StripModel&) const = default;
};

// The model that plans of this thread are made with.
StripModel strip_model();

// Another model for this thread's plans, within the scope.
class UseStripModel {
 public:
  explicit UseStripModel(const StripModel& model);
  ~UseStripModel();
  UseStripModel(const UseStripModel&) = delete;

 private:
  StripModel before_;
};

}  // namespace ebb
