// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "ebb/device.h"

namespace ebb {

// When a product is computed strip by strip, and how long a strip is. Decided by shapes alone, so that the same program
// gives the same bits on every machine of a kind.
struct StripModel {
  // A smaller product is held: below a quarter of a gigabyte memory is rarely what a computation lacks.
  std::int64_t large = std::int64_t{256} << 20;
  // A smaller one is held rather than recomputed, where later strips need a number of the whole batch.
  std::int64_t large_enough_to_repeat = std::int64_t{2} << 30;
  // Bytes of the widest value of a strip. The head of a language model reads its weights once per strip, and adds to
  // their gradient once: with some hundred rows that takes a few percent of the products' own time.
  std::int64_t strip_bytes = std::int64_t{64} << 20;
  std::int64_t least_rows = 256;
  // Bytes of the widest value of a tile. Where a formula allows it, a strip is cut into tiles, strips of columns, and
  // no row is held. 0: never.
  std::int64_t tile_bytes = 0;
  // Set within a strip of so many rows: dimensions of this size are its rows, which are not cut again.
  std::int64_t rows_cut = 0;
  // A product smaller than large_enough_to_repeat is recomputed where that reduces a plan's estimated peak by this
  // much: a formula of pairs in both directions holds several values of the size of its product.
  std::int64_t saved_enough_to_repeat = std::int64_t{2} << 30;

  bool operator==(const StripModel&) const = default;
};

// A GPU multiplies so fast that adding to the gradient of the weights, 8 bytes of traffic per number, takes as long as
// one product of 700 rows (as for linear_cross_entropy, see cuda/library/head_plan.cc): of three products with 1,024
// rows that is 23 %, with 2,048 rows 11 %, and the strip is still smaller than the f32 sums. Products pad odd sizes by
// themselves.
// Padding a head once for all its strips would save copies, but rows would then differ in their last bits from those of
// a smaller batch without strips: on an H200, a third of the elements of a layer of 50,257 columns.
inline constexpr StripModel kGpuStrips{.large = std::int64_t{1} << 30,
                                       .large_enough_to_repeat = std::int64_t{8} << 30,
                                       .strip_bytes = std::int64_t{512} << 20,
                                       .least_rows = 2048};

// How the work on a strip of so many rows is cut into tiles. Where strips recompute products, tiles do so at any
// size.
StripModel tiles_of(const StripModel& strips, std::int64_t rows);

// The model for this thread's plans for a device.
StripModel strip_model(Device device);
std::optional<StripModel> strip_model_of_thread();

// Models tried next, in this order, until a plan stays within a budget of so many bytes: smaller values, then
// recomputed products, then strips of few rows. On a GPU tiles come first, since they add to the sums less often than
// short strips. They are slower than long ones: of SigLIP with 32,768 pairs, an H200 multiplies tiles of 4096 x 2048 at
// 608 TFLOP/s, of 4096 x 4096 at 687, and strips of 4096 rows at 746.
std::vector<StripModel> strips_within(std::size_t budget, Device device);

// Another model for this thread's plans, within the scope.
class UseStripModel {
 public:
  explicit UseStripModel(const StripModel& model);
  ~UseStripModel();
  UseStripModel(const UseStripModel&) = delete;

 private:
  std::optional<StripModel> before_;
};

}  // namespace ebb
