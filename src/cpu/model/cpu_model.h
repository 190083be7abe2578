// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

namespace ebb::cpu {

// Inputs of plans on the CPU besides shapes: the machine, and every tuning constant with its measurement. "Chosen,
// not measured" means that no figure is known. None of them changes a bit of a result unless stated; those that do are
// the same on all machines, so that results depend on shapes alone.
//
// The constants that decide the bits of a product (kGemmDepth and the instructions for bf16) are in cpu/gemm/kernels.h,
// and those compiled into inner loops (tile sizes, prefetch distances) are next to them.
struct CpuModel {
  // ---- The machine.
  std::int64_t l2_bytes = 0;  // of a core; 0: unknown

  // ---- Products: small ones, and vectors.
  // Products of up to so many multiplications use dot products, since packing would take longer (chosen, not
  // measured).
  std::int64_t dots_multiplications = 128;
  // Elements of the matrix that a task of a vector product reads, and units of its outputs (chosen, not measured).
  // Fewer than `few_vector_outputs` do not keep the processor busy one by one: blocks of k are summed side by side.
  // Below `shared_vector_outputs` columns that are not dense, k is shared instead (both chosen).
  std::int64_t vector_elements = 1 << 17, vector_unit = 64;
  std::int64_t few_vector_outputs = 4, shared_vector_outputs = 256;

  // ---- Products: few outputs, long sums.
  // At most so many rows and columns, and at least so many of the longest blocks of k; elements of the partial results
  // that exist at a time (chosen, not measured).
  std::int64_t deep_side = 128, deep_blocks = 4, deep_elements = 1 << 20;

  // ---- Products: how much work is worth a task.
  // 10 to 20 µs of work. 256³ on 16 cores of a Xeon with AVX-512: 570 GFLOP/s with 3e6, 620 to 770 with 1.5e6. Pairs of
  // bf16 (VDPBF16PS): chosen, not measured.
  double task_flops = 1.5e6, task_flops_of_pairs = 3e6;
  // An otherwise idle thread is worth waking for less. On 2 cores of a Cascade Lake the median of 128³ went from 74 to
  // 65 µs; on more cores it has not been measured.
  double first_task_flops = 0.5e6;
  // Tasks per thread, and the fewest in total: where A is kept near, twice as many would cost 256³ an eighth.
  std::int64_t tasks_per_thread = 4, least_tasks = 16, least_tasks_near = 8;
  // Cost of an element of C besides its sum, in steps of k (chosen, not measured).
  std::int64_t result_steps = 16;

  // ---- Products: parts of C.
  // Rows that a task multiplies at a time: their part of A fits in the second-level cache with room to spare. Panels of
  // B per task: 8, and 16 where tile registers compute an output (chosen, not measured).
  std::int64_t task_rows = 256, task_panels = 8, task_panels_of_tiles = 16;
  // Rows and columns for which factors are packed by all; vice versa where B is kept near (chosen, not measured).
  std::int64_t part_rows = 2048, part_cols = 1024;
  // Share of the second-level cache for panels of B, next to streamed data; and bytes, where its size is not known
  // (chosen, not measured).
  double l2_for_panels = 0.625;
  std::int64_t panel_bytes = 1 << 18;
  // Rows below which tasks are not cut; of tasks that copy B, because half as many would make as many copies again
  // (chosen, not measured).
  std::int64_t least_rows = 32, least_rows_of_copies = 64;
  // Unit at which columns may be cut that are not packed for other tasks.
  std::int64_t col_unit = 16;
  // With few rows, two tasks per thread of at least 32 columns: B packed for others is read from their caches. At least
  // 16 tasks across, because what a task packs should still be near when it is read; on one thread 8, because runs of
  // 64 columns are packed slowly: on Cascade Lake [128, 784]·[784, 1024] takes 1.96 ms with 8, 2.01 with 16.
  std::int64_t tasks_per_thread_of_few_rows = 2, least_cols_of_few_rows = 32;
  std::int64_t least_tasks_across = 16, least_tasks_across_alone = 8;
  // Cutting rows copies B once more. On two cores of Emerald Rapids 512³ takes 1.11 ms in parts of 256 × 96 and 1.19 in
  // parts of 128 × 176; 384³ loses 5 %. So for longer sums, parts are twice as high as wide.
  std::int64_t long_sums = 384, rows_per_col_of_long_sums = 2;

  // ---- Products: how factors are read and packed.
  // Panels in place save their packing, at the price of one page per step of k. That is worth it where they are read
  // once or twice, or span only a few pages anyway (Neoverse V1: at 128³ it loses 6 %, at 1024³ 20 %).
  std::int64_t in_place_passes = 2, in_place_elements = 4096;
  std::int64_t in_place_rows = 1024, in_place_cols = 2048;  // counted at most (chosen, not measured)
  // The share of the second-level caches in which a factor and other data count as near. On two cores of Emerald Rapids
  // 1024³ of f32, whose factors would just fill them, takes 9.0 ms packed and 10.0 in place.
  double l2_for_factor = 0.875;
  // Passes over rows of A in place, per thread. On two cores of Cascade Lake [128, 784]·[1024, 784]ᵀ, which reads them
  // 22 times, takes 960 µs packed and 1,010 in place; 256³, 6 times, 161 and 143. Rows that begin at the same offset in
  // a page share the few lines that the level-1 cache has for it.
  std::int64_t in_rows_passes = 8, in_rows_passes_of_pages = 4, page_bytes = 4096;
  // Elements that a task packs for all (chosen, not measured); bytes of several blocks of k packed at a time, by all
  // and by one task (chosen, not measured).
  std::int64_t pack_elements = 65536, pack_elements_near = 16384;
  std::int64_t packed_bytes = 5 << 20, packed_bytes_of_task = 5 << 18;

  // ---- Products by tile registers, whose tasks pack what they read. On 16 cores of Emerald Rapids 512³ took 145 µs
  // with both factors packed by all and 60 like this. Costs per step of k, relative to the time of an output: of a row
  // or column that is packed, of a row that is read in place, of a task (divided by k); and how far apart the last
  // tasks end, in tasks (fitted to that machine, figures not kept).
  double packing_cost = 70, reading_cost = 20, task_cost = 7e5, tasks_apart = 0.3;
  std::int64_t lone_rows = 2048, lone_tasks_per_thread = 4;

  // ---- Products in turns: few rows, and a large B whose columns are dense. On two cores of Emerald Rapids
  // [128, 784]·[784, 1024] takes 838 µs like this and 937 without, [128, 1024]·[1024, 1024] 1,159 and 1,220; on two of
  // Cascade Lake the first takes 7 % less time, on one 3 to 6 %. With more than task_rows rows A does not stay in the
  // second cache: 512³ takes 3 % more time on either. Nor do shorter sums gain, or a small B: 384³ loses 8 %. Vectors
  // of fewer than 64 bytes, and f64, have not been measured. Nor may B be much larger than a thread's second cache: on
  // a core of Granite Rapids (2 MB) the time without turns relative to that with them is 1.12 to 1.19 at 2.5 to 4
  // MB, 1.05 at 6, 0.94 at 8, 0.80 at 16, and from 32 MB on 0.42 to 0.67.
  std::int64_t turn_rows = 64, turn_depth = 384, turn_panels = 4, turn_vector_bytes = 64;
  std::int64_t turn_bytes = 1 << 20, turn_most_bytes_of_thread = 6 << 20;

  // ---- Products rounded to halves: columns and elements of the part of the result held in f32, and elements that a
  // task rounds (chosen, not measured).
  std::int64_t halves_cols = 2048, halves_elements = 1 << 20, halves_least_rows = 64, rounding_elements = 16384;

  // ---- Batches of products. At least so many products, or smaller ones, are computed by one thread each; small ones
  // several per task (chosen, not measured).
  std::int64_t many_batches = 16, most_batches_of_task = 4096;
  // Largest product of a batch, in multiplications, that is computed without a plan. On a Granite Rapids 100 products
  // [8, 8]·[8, 8] take 7 µs like this and 60 with one, 300 products [16, 4]·[4, 16] 22 and 82.
  std::int64_t small_multiplications = 4096;
  double shared_batch_flops = 3e6, batch_task_flops = 2e6;
  // Plans of products that a thread keeps: attention with its gradient takes seven in turns, and making them was a
  // tenth of [226, 4, 7, 24] on a Cascade Lake.
  static constexpr std::size_t kept_plans = 8;

  // ---- Convolutions (all chosen, not measured).
  std::int64_t conv_band_bytes = 320 << 10;         // source rows of a band of outputs, in the second-level cache
  std::int64_t conv_separate_channels = 32;         // fewest channels for copying the source per column of windows
  std::int64_t conv_weight_sums = 64 << 20;         // bytes of the sums of chunks of images: decides bits
  std::int64_t conv_weight_chunks = 16;             // of images, at most: decides bits
  std::int64_t conv_weight_band_bytes = 256 << 10;  // of the source, and as many of the gradients
  double conv_weight_task_flops = 4e6;
  std::int64_t pool_elements = 1 << 15;  // of a task
  std::int64_t grid_channels = 64;       // of a task of grid_sample, which finds its taps once; chosen, not measured
  // Distances: rows and panels of 64 columns of a task, and runs of 256 columns that a task of a gradient takes at a
  // time (chosen, not measured).
  std::int64_t distance_rows = 16, distance_panels = 16, distance_runs = 4;
  // Planes that a pool processes side by side: outputs per line and elements at most, the fewest planes, and planes per
  // task. max_pool3d of [1024, 4, 4, 4, 4] on a Granite Rapids: 0.8 ms, and 1.9 one by one.
  std::int64_t pool_beside_line = 15, pool_beside_elements = 512, pool_beside_planes = 16, pool_task_planes = 512;
  // Steps of the sum at a time, so that windows and source stay in the level-1 cache; bytes of lines whose gradients
  // are correlated at a time.
  static constexpr std::int64_t conv_depth = 192, conv_weight_line_bytes = 16384;

  // ---- Sweeps.
  // Cost of a task, where one instruction per element counts 1 and an expensive one 6: 65 µs on Neoverse V1, measured
  // on 2 cores of it; on x86-64 16 µs, where 16 cores share 130,000 elements. Tasks of a sweep at most (chosen).
#if defined(__x86_64__)
  std::int64_t sweep_task_cost = 1 << 16;
#else
  std::int64_t sweep_task_cost = 1 << 18;
#endif
  std::int64_t sweep_most_tasks = 128;
  // Bytes of all tiles of a sweep, in the level-1 cache (chosen, not measured).
  std::size_t sweep_tile_bytes = 16 << 10;
  // Sums over rows that all threads add instead of one: partial sums × columns (chosen, not measured).
  std::int64_t sweep_shared_sums = 4096;
  // Cost of a special function of an element, in bytes of memory traffic: sweeps recompute values that would cost more
  // to write and to read (schedule/recompute.h). High enough that values with such a function are kept (chosen).
  int function_bytes = 256;
  // Elements of a row whose stages share a tile, and from which on loops run over one row of it at a time: row values
  // are then single numbers, and sums are part of a loop. On a Cascade Lake, ns per element with such loops and with
  // row values spread over tiles of 4,096 elements: layer_norm of rows of 100 f32 1.31 and 1.62, 160 0.87 and 1.64, 256
  // 0.65 and 1.07, 1,000 0.57 and 1.05; softmax of 100 1.84 and 1.38, 160 1.26 and 1.13, 256 0.97 and 0.99, 1,000 0.82
  // and 1.00. Rows of 8,000 in one tile and in pieces: 0.61 and 0.86, 0.77 and 1.20. Not measured on ARM, whose loops
  // leave the elements behind their last turn to the steps.
#if defined(__x86_64__)
  std::int64_t sweep_whole_row = 8192, sweep_row_by_row = 192;
#else
  std::int64_t sweep_whole_row = 2048, sweep_row_by_row = std::int64_t{1} << 60;
#endif
  // Bytes of a tile of such rows, unless four rows, which reductions take at a time, take more: on that machine
  // layer_norm of rows of 5,000 f32 takes 0.62 ns per element four at a time, 0.66 two at a time, 0.69 one at a time.
  // The share of the second-level cache for all tiles, or their bytes where its size is not known; how many tiles a
  // sweep should have, for threads (chosen, not measured).
  std::int64_t sweep_row_tile_bytes = 64 << 10, sweep_row_tiles_bytes = 1 << 18;
  double sweep_l2_for_row_tiles = 0.5;
  static constexpr std::int64_t sweep_row_tiles = 16;
  // Elements of a tile of several rows whose loops take them all at once, which amortises calls and the ends of loops:
  // layer_norm of [4096, 256] on a Granite Rapids went from 0.65 to 0.78 of PyTorch's speed, group_norm with rows of
  // 513 from 0.45 to 0.69. Those that are longer than a block have fewer bytes than the second number: a tile of one
  // row spreads no row values and reads weights in place.
  std::int64_t sweep_rows_tile = 4096, sweep_rows_bytes = 16 << 10;
  // Sweeps that only sum columns: elements worth a thread, and the fewest columns per thread (chosen, not measured).
  // [148, 1547] on one thread of a Granite Rapids: 36 µs in parts of rows, 18 in slabs of columns.
  std::int64_t sweep_slab_elements = 1 << 15, sweep_slab_columns = 128;
  // Elements that reductions of dense memory process at a time (chosen, not measured).
  std::int64_t sweep_straight_elements = 1 << 15;
  // Tiles of rows side by side: their elements, the fewest neighbouring rows for that, and for strips; the most rows of
  // a strip, the elements of one whose columns are taken at once, and of one that stages pass over again (chosen, not
  // measured). Two neighbours are enough: the softmax of [60000, 2] over the first axis takes 0.66 ms on a Granite
  // Rapids, and 1.9 with rows copied to tiles.
  std::int64_t sweep_beside_tile = 8192, sweep_least_beside = 2, sweep_strip_rows = 64;
  std::int64_t sweep_most_strip_rows = 2048, sweep_whole_strip = 1 << 16, sweep_strip_elements = 1 << 18;
  // Runs of rows side by side that are taken as boxes, all in one piece: of so many elements with their columns where
  // there are several, and of fewer rows than this however many. The softmax over the second axis on a Granite Rapids,
  // as boxes and as strips: [41, 33, 67] 98 and 290 us, bf16 104 and 370; [11, 500, 67] 350 and 1,210, bf16 520 and
  // 1,660; [129, 19, 431] 1.2 and 1.8 ms, bf16 1.4 and 2.6.
  std::int64_t sweep_short_run = 1 << 16, sweep_few_rows = 256;
  // Calls in a row whose guards fail before the steps replace a compiled loop, and calls until it is tried again
  // (chosen, not measured).
  int sweep_failed_guards = 4, sweep_calls_between_tries = 64;
  // Strips: unit of rows, several turns of a loop of machine code; the usual rows; the number of strips wanted for many
  // threads (chosen, not measured).
  static constexpr std::int64_t sweep_strip_unit = 128, sweep_usual_strip_rows = 256, sweep_strips = 64;
  // Elements of a piece, and of a row, up to which a call costs more than the loop it calls: on a Granite Rapids a call
  // takes as long as a dozen elements of `gather`.
  static constexpr std::int64_t sweep_short_piece = 16, sweep_narrow_row = 16;
  // Columns whose sums are in the level-1 cache, of a slab and of the parts of tasks; blocks whose lanes are added side
  // by side, since each is a chain of dependent additions; bytes of the next piece that are prefetched (all chosen, not
  // measured).
  static constexpr std::int64_t sweep_slab_sums = 512, sweep_part_sums = 256, sweep_blocks_at_once = 16;
  static constexpr std::int64_t sweep_fetched_ahead = 1024;

  // ---- Losses with kernels of their own.
  // Rows of logits in memory at a time: products benefit from many rows (each chunk reads W and adds to dW once more),
  // memory from few. Decides bits of the weight's gradient (measured, figures not kept).
  std::int64_t logits_bytes = std::int64_t{64} << 20, logits_rows = 1024, logits_least_rows = 256;
  std::int64_t logits_few_rows = 128, logits_chunks_of_unit = 2;

  // Blocks of scores of attention, which stay in the second-level cache: decides bits (chosen, not measured).
  static constexpr std::int64_t attention_rows = 64, attention_columns = 256;
  // Fewer rows than these behind the last whole block belong to it: decides bits of the gradients of keys and values.
  // Rows whose exponentials are made by one call, which stay in the level-1 cache (both chosen, not measured).
  static constexpr std::int64_t attention_least_rows = 16, attention_rows_together = 8;
  // multilabel_margin_loss: classes between two targets from which on they are read in place; classes per pass, which
  // decides bits; elements of a task (chosen, not measured).
  static constexpr std::int64_t hinges_short_gap = 256, hinges_block = 1024, hinges_task_elements = 1 << 15;

  bool operator==(const CpuModel&) const = default;
};

// The model of this machine.
const CpuModel& cpu_model();

}  // namespace ebb::cpu
