// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

namespace ebb {

// Tuning constants of the schedule, each with its reason. None depends on the device: its Backend answers for that, and
// decisions about strips are in StripModel. "Chosen" means chosen, not measured.
struct ScheduleModel {
  // ---- Simplification. Elements from which on signs and factors move into a scalar: a number that moves may need
  // memory of its own between sweeps (chosen).
  std::int64_t signs_move_elements = 1 << 13;
  // A view of a matrix with zeros that shows one of so many of its elements is made without the matrix (chosen).
  std::int64_t few_of_zeros = 16;
  // Windows of a pool that an element may be in for its gradient to look at all of them: else sums by place (chosen).
  std::int64_t most_windows_of_element = 64;

  // ---- Fusion.
  // Elements of a space whose total is worth waiting for inside its sweep: the whole space becomes one row (chosen).
  std::int64_t small_space = 16384;
  // Elements of a single row beyond which a pick or place does not make it the row of a sweep: one block on a GPU, one
  // thread on a CPU (chosen: one block reads so many numbers three times in as long as the launches take that it
  // saves).
  std::int64_t long_row = 1 << 18;
  // Sums of columns are added in parts of rows, one number per column and part: parts of fewer rows than this write
  // more than they read (chosen). The columns should then be the rows, if the device reads rows stored side by side in
  // memory as fast.
  std::int64_t few_rows = 8;
  // Columns whose sums stay on chip next to a row being reduced, on a GPU (chosen: a third of its shared memory).
  std::int64_t most_columns_beside_rows = 1 << 14;
  // And fewer than these, in a space of so many elements, are sums of their own: on a GPU eight of a row are one lane
  // of the warp that reads it, and a smaller space takes about as long as the launch of another sweep (chosen: both
  // gradients of kron, sums of 2,097,152 × 7 over either axis, took 0.8 ms as one sweep, PyTorch 0.23).
  std::int64_t fewest_columns_beside_rows = 64, many_short_rows = 1 << 18;
  // Rounds in which whole sweeps are delayed (waiting in vain for a total would go on forever), and rounds in total
  // (chosen: a network of 40 layers takes a few).
  int rounds_of_delay = 3, most_rounds = 250;
  // Steps tried from each start, and values that all of them place: each takes as long as a round, 1 ms per 1,000
  // values.
  std::size_t most_steps = 64, most_placed = 1 << 14;

  // ---- Values that sweeps recompute (see recompute.h).
  int rounds_of_making_again = 4;              // chosen: networks with batch norms take three
  std::int64_t worth_making_again = 32 << 10;  // bytes; less stays in the caches (chosen)
  // Most operations that recompute one value: for all its readers, and for one that reads little more for it (chosen).
  int most_operations_again = 48, few_operations_again = 16;
  std::int64_t much_less = 16;  // numbers of rows or channels, compared to a value of all elements (chosen)

  // ---- Values that a later sweep stores again for products (see store_again.h): bytes from which on memory is worth a
  // write, and writes that the products must take as long as (a ResNet-50 whose convolutions of few channels waited
  // would move 1.6 GB more in 36 ms); levels for which a value is held, and the most a product waits; operations added
  // to the sweep (chosen).
  std::int64_t worth_storing_again = 16 << 20;
  double writes_of_a_product = 5;
  int levels_held = 3, levels_waited = 4, few_added = 8;

  // ---- Elements of a loss up to which it is computed with what is made from its gradients (chosen: those of a batch).
  std::int64_t most_elements_of_loss = 1 << 16;

  // ---- Sweeps that run together: bytes of their results that are held back, and elements of a sweep beyond which it
  // takes much longer than its launch (chosen).
  std::size_t most_kept_together = std::size_t{64} << 20;
  std::int64_t most_elements_together = 1 << 22;

  // ---- Strips: loops per graph; rows per block of a product, since strips begin at its multiples; elements per row
  // copied into a loop: more would be as large as what strips avoid (chosen).
  std::size_t most_loops = 64;
  std::int64_t strip_rows_together = 32, most_copied_per_row = 1024;
  // How much longer a plan without large products may take, since it recomputes them: three products become four, or
  // five at most (chosen).
  double most_time_to_repeat = 1.5;

  // ---- A memory budget (see rematerialize.h). Steps rerun for one value; candidates tried at one peak, in order of
  // cost; 1/32 of the budget is for workspaces of calls, which the estimate does not know; an input of 1/16 of a value
  // is held rather than recomputed as well; bytes that a special function counts as where cheap values are recomputed
  // (all chosen).
  int most_steps_again = 24, most_candidates = 16;
  std::size_t budget_reserve = 32, small_input = 16;
  int bytes_of_a_function_in_need = 4;
  // Time in bytes of memory traffic (chosen: what matters is that products are expensive and sweeps are cheap).
  double flops_per_byte = 16, flops_per_byte_of_gpu = 128;

  // Padded parts of a sum, side by side, that are joined (chosen).
  std::size_t most_joined_parts = 8;

  // ---- Plans and recordings that are kept (chosen).
  std::size_t most_plans = 1024, most_replays = 64;
  std::size_t most_recordings = 8, most_result_sets = 3;
  std::size_t most_copied_bytes = std::size_t{64} << 20;  // of an input or result with an address of its own
  // Recordings after which an input that still comes from new addresses gets one of its own; recordings refused by the
  // device, and made in vain, after which steps are run one by one.
  std::size_t recordings_of_patience = 4, most_refused_recordings = 16, most_recordings_made = 64;
  // Roots up to which a list is searched instead of a set; nodes a trace initially has room for; words of a trace whose
  // memory is kept for the next.
  std::size_t few_roots = 8, usual_nodes = 64, most_trace_words = 1 << 14;
};

inline constexpr ScheduleModel kScheduleModel;

}  // namespace ebb
