// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "cuda/kernels/args/types.h"

namespace ebb::cuda {

// Static shared memory that a kernel may declare in addition to its dynamic shared memory, in bytes.
inline constexpr std::int64_t kSharedOfText = 18 << 10;

// Limits of the hardware: bytes of shared memory. The defaults are Hopper's.
struct GpuLimits {
  std::int64_t shared = 227 << 10;                    // per block
  std::int64_t shared_of_multiprocessor = 228 << 10;  // all blocks of a multiprocessor together

  bool operator==(const GpuLimits&) const = default;
};

// Inputs of a plan besides the program: the limits of a GPU, and every tuning constant with its measurement. Times are
// of one NVIDIA H200 (docs/notebook/2026-11.md). "By trial" means that neighbouring values were tried there when the
// constant was introduced and the figures were not kept.
struct GpuModel {
  GpuLimits limits;

  // ---- Mapping.
  // Blocks of a grid; more with one block per row, because blocks that stay for several rows are 5 to 15 % slower.
  std::int64_t most_blocks = 1 << 16, most_blocks_of_rows = 1 << 20;
  // From so many arrays of 4 bytes or more per element on, as in an optimiser, a thread takes 4 elements instead of 8:
  // registers would spill (by trial).
  std::size_t many_wide_arrays = 4;
  // Warps per row of up to `segments_of_few_warps` segments, so that several blocks share a multiprocessor; and per
  // longer row, or row that fills one (by trial).
  std::int64_t warps_of_row = 16, segments_of_few_warps = 64, warps_of_long_row = 32;
  // Threads per multiprocessor of blocks that share rows: 64 registers each.
  int resident_threads = 1024;
  // Blocks of 512 threads whose rows fit on a multiprocessor together: three overlap better than two (by trial).
  int overlapping_blocks = 3;
  // Warps per multiprocessor below which operands of a row are read again instead of being kept in shared memory (by
  // trial), and bytes per block reserved for sums of segments while counting them.
  std::int64_t fewest_warps = 10, shared_of_sums = 2 << 10;

  // Up to so many rows, of at least so many segments, are shared by blocks that fill a large GPU, with a launch per
  // pass (chosen; with a block each, three to five rows of losses took 2.5 to 3 times as long as in PyTorch).
  std::int64_t most_shared_rows = 32, shared_segments = 64, blocks_of_shared_rows = 528;

  // ---- Groups of rows. They decide the order of sums over rows, so they are the same for all GPUs: results depend on
  // shapes alone. All groups run at once on 128 multiprocessors or more, and no more are made: a second wave for a few
  // would take as long as the first, and each group's sums go through memory.
  std::int64_t fewest_groups = 64, most_groups = 4096;
  std::int64_t column_threads = 3 * 256 * 128;  // three blocks per multiprocessor, a thread per few columns of a group
  std::int64_t group_blocks = 2 * 128;          // two blocks of eight warps with short rows, one group each
  // Groups of longer rows: at most as many blocks as have their rows and sums in so much shared memory of a
  // multiprocessor. With few warps each, they need each other to keep memory busy: a layer norm's gradient of 5,120
  // columns was at 11 % of copy bandwidth with 1.4 blocks per multiprocessor.
  std::int64_t group_shared = 216 << 10, most_blocks_of_groups = 8;
  std::int64_t chunk_warps = 8;  // per block, each with a chunk of short rows
  // Registers per thread for sums over rows; and warps per multiprocessor, which leave twice as many registers.
  int most_sum_words = 96, warps_of_sums = 16;

  // ---- Rows in shared memory and registers.
  // Bytes for sums of segments in static shared memory, within kSharedOfText; more are stored after the row.
  std::int64_t static_parts = 16 << 10;
  // At least a third of a row's leaves must fit shared memory, else all are read again; and half of shared memory is
  // for sums over a few rows. Long rows being computed exceed the level-2 cache together: a cross-entropy of f32 and
  // 128,256 classes that read everything three times took 48 % of a copy's rate, one with two passes 61 %.
  std::int64_t leaves_that_fit = 3, shared_of_kept_sums = 2;
  // Chunks of 16 bytes in a thread's registers, of a row and of everything a pass reads: a cross-entropy of bf16 holds
  // its row while the next one is loaded, and so does a layer norm of bf16 with weights and 4,096 columns. Where a
  // block iterates over the rows of a group, few threads share a multiprocessor and each has more registers. A single
  // row of f32, too, which fills half of them: a cross-entropy of 32,001 classes, with its row in shared memory and the
  // next one loaded by the last pass alone, took 61 % of a copy's rate (the other way: not measured).
  std::int64_t most_held = 8, most_read = 24, most_held_of_groups = 16, most_held_of_one = 16;
  // Chunks held in registers for lack of shared memory: two sizes, so that there are few texts.
  std::int64_t few_rest = 4, most_rest = 8;
  // Instructions of unrolled leaves: more do not fit the instruction cache. Leaves unrolled after a first round in
  // registers (by trial).
  double written_out_instructions = 1024;
  int unrolled_beside_registers = 2;

  // ---- Values kept between passes, in instructions per element.
  double chunk_access = 0.125;  // 16 bytes are one instruction for eight elements
  double worth_keeping = 0.5;   // minimum saving
  // Candidates up to which values are also tried in pairs, and programs that are considered: planning time.
  std::size_t pair_candidates = 48, most_instructions_kept = 400;

  // ---- Sweeps without rows.
  // Leaves that are unrolled; most bytes in flight per thread, and instructions per element, for that (by trial).
  int unrolled_leaves = 4, bytes_in_flight = 128;
  double unrolled_instructions = 96;
  // Bytes of 32-byte packs per leaf from which on two lanes load for each other, and instructions per element up to
  // which that pays off: `ipo_loss` takes 393 µs instead of 443, `dpo_loss`, which computes four times as much, 419
  // instead of 402.
  int shared_load_bytes = 128;
  double shared_load_instructions = 32;

  // Where neighbours in one operand are strangers in another, a thread takes single elements: with a load of two or
  // four bytes per thread, 4 or 8 KiB of a multiprocessor's are in flight, a quarter of what memory needs. So a thread
  // has several: bytes in flight, elements, and instructions of all of them (chosen).
  std::int64_t single_bytes_in_flight = 32, most_singles = 8, single_instructions = 96;

  // ---- Sweeps over columns: rows whose loads are in flight, fewer where several operands are loaded or special
  // functions computed, where more warps help more than more loads (by trial). From `many_column_sums` on a thread has
  // four columns: with eight, the gradient of a batch norm took 177 registers, one block fitted a multiprocessor and
  // the sweep moved 1.9 TB/s, the mean of the same images, with 76 registers and three blocks, 4.1.
  int rows_in_flight = 8, rows_in_flight_of_functions = 2, blocks_of_columns = 3;
  // The same of fewer than `odd_columns` columns: threads, each of which has few bytes of a row; groups from which on
  // 256 chains add them (chosen. With 8,192 threads, 26,690,047 rows of five bf16 took 2.5 ms, PyTorch 0.15).
  std::int64_t narrow_column_threads = 1 << 17, groups_of_many_chains = 4096;
  std::int64_t column_bytes_in_flight = 128, many_column_sums = 2;
  // An operand counts as one of a sweep's arrays from this share of its elements on (chosen, not measured).
  std::int64_t worth_counting = 64;

  // ---- Sweeps of elements with operands that repeat in every row, such as a batch norm's images.
  // Rows from which on a thread walks down them (chosen); most rows per thread, fewer where it has eight columns, and
  // threads wanted: four waves. A norm with residual, relu and its mask took 349 µs with 4 rows of 8 columns and 359
  // with 16, its gradient 291 with 16 rows of 4 columns and 305 with 4. Bytes of a thread's loads in flight, and rows
  // of them: that gradient takes 303 µs with two rows instead of four. Words of registers for repeated operands, beyond
  // which a thread has four columns: a gradient of three images takes 380 µs with four and 405 with eight. Columns from
  // which on an odd row is taken in packs, and packs from which on a warp has none of the next row, so that its lanes
  // can store for each other (chosen).
  std::int64_t fewest_walked_rows = 8, most_thread_rows = 16, most_rows_of_eight = 4, walking_threads = 1 << 19;
  int blocks_of_walks = 3;  // per multiprocessor: 85 registers of a thread
  // More rows are in flight where a thread has one or two columns of them (chosen).
  std::int64_t walking_rows_of_few = 8;
  std::int64_t walking_bytes_in_flight = 96, walking_rows_in_flight = 4, most_repeated_words = 32, odd_columns = 64;
  std::int64_t packs_of_warps = 96;

  // ---- The kernel `finish`.
  // Parts that one block adds: beyond, one multiprocessor would read for longer than several take to synchronise.
  // Blocks in that case.
  std::int64_t parts_of_block = 1 << 15, finish_blocks = 128;
  // Groups of parts that kThreads threads add; threads if there are more. A lane has its share of a group in registers:
  // after 16,384 rows it takes 4.5 µs instead of 8, after a sweep of elements 2.4 instead of 4.3.
  std::int64_t groups_of_few_threads = 8;
  int finish_threads = 512, finish_threads_of_elements = 1024;
  // Sums over rows added at the same time (256 words of shared memory each), and loads of each in flight.
  std::size_t sums_at_a_time = 4;
  int loads_of_chain = 16;

  // ---- Forms of numbers, and branches.
  int worth_pairing = 2;         // sums and products of halves, computed in pairs by one instruction
  double rare_instructions = 6;  // of an arm after a branch, which costs about two: `generalized_kl`
  // Bytes of memory moved while a special function of some 30 instructions is computed.
  int function_bytes = 4;

  // ---- Launches. A block loads the next of its rows while it computes one. Eight rows per block where warps have rows
  // of their own or the block is alone on its multiprocessor; one where other blocks continue while its warps wait for
  // each other: cross-entropy of 32,768 classes takes 520 µs, 560 with eight rows each and 579 with equal shares. Three
  // where there are fewer than 512 threads.
  unsigned rows_of_lone_blocks = 8, rows_of_few_threads = 3, enough_threads = 512;

  // ---- Library calls.
  // Scores in memory at a time for attention by products: one product writes and the next reads them, so they should
  // stay in the level-2 cache (chosen, not measured).
  std::int64_t score_bytes = std::int64_t{32} << 20;
  // Products of halves: sizes, and elements from row to row, are multiples of this in Ebb's own layouts; others are
  // padded by copies for products of at least this width and depth (chosen, not measured: a copy of an operand takes as
  // long as 64 to 128 columns of the other). The three products of 32,768 rows, 1,024 columns and 50,257 classes take
  // 70 ms, those of 50,304 classes 12.8. An odd side of so many columns has its last ones in a product of their own,
  // which is wide enough for cuBLASLt to choose one of its usual kernels.
  std::int64_t aligned_elements = 8, worth_aligning = 256;
  std::int64_t worth_dividing = 2048, last_part = 256;
  // linear_cross_entropy. Lengths of its chunks are multiples of a tile's rows. Bytes and rows of logits at a time
  // where a chunk's logits are stored as a whole: with fewer than some thousand rows most time would go into the head's
  // gradient.
  std::int64_t head_rows = 128, logit_bytes = std::int64_t{1} << 30, logit_rows = 4096;
  // In bf16, bytes and rows of gradients of logits at a time: adding to the head's gradient takes as long as 700 rows
  // of the three products' 3·rows, 3 % of 8,192 rows. Their logits in f32 are stored for fewer rows: enough for a few
  // waves of tiles, and for reading the head in a fraction of the product's time (all by count of bytes, not by trial).
  std::int64_t logit_gradient_bytes = std::int64_t{5} << 28, logit_gradient_rows = 16384;
  std::int64_t part_bytes = std::int64_t{512} << 20;
  // scatter and its sums: lines from which on each has a thread, if neighbouring lines are neighbours in memory; bytes
  // of shared memory that a line's sums may take (chosen, not measured: two blocks per multiprocessor. Sorted by place,
  // 4,096 lines of 4,096 elements for 8,192 places took 4.1 ms, ten times PyTorch's atomics).
  std::int64_t many_lines = 1 << 14, most_line_bytes = 112 << 10;
  // A scatter of short lines on chip: elements per thread (chosen. With 256 threads for each of 253,134 lines of 140
  // places, max_unpool2d took 0.6 ms, a third of that in PyTorch). Places per element up to which values are stored
  // beside positions (chosen: below that, clearing and reading them moves fewer bytes than a copy and scattered stores).
  std::int64_t elements_of_putting_thread = 4, places_with_values = 4;
  // Lines of an index of up to so many elements get a thread each where there are many of them. Floats of lines from so
  // many elements on are sorted by their places before they are added; where sums fit on chip, they are divided into
  // pieces instead. Chosen: one thread took 6.8 s for a line of 33 million.
  std::int64_t short_line = 16, long_line = 1024, long_line_on_chip = 1 << 14;
  // Short lines. Up to so many elements, a thread has a line and its places, on chip: with a thread per place, which
  // looked through its line, sums of 2,097,153 lines of five took 302 µs, PyTorch's 91. A thread per element looks
  // through all of its line where there are more places than this for each. Up to `line_in_order` elements, unless
  // there are as many per place as `own_sums_per_place` or 32 lines side by side, they are added in order: by a warp
  // per line where there are so many lines, or so few elements; slices of an output of so many elements after sorting
  // their places. (Chosen. With a block per line, the gradient of index_select along the last axis of [12,113,047, 2]
  // took 50 times PyTorch's time.)
  std::int64_t line_of_places = 8, line_of_firsts = 32, places_per_first = 4;
  std::int64_t line_in_order = 512, line_of_warp = 64, own_sums_per_place = 16, lines_of_warps = 1024,
               worth_sorting = 1 << 16;
  // Rows of up to so many bytes that are no multiples of 16 are selected by threads that each write 16 bytes (chosen, not
  // measured: a group of lanes per row took 222 µs for 1,048,577 rows of 17 halves, whose bytes take 20).
  std::int64_t collected_row_bytes = 256;
  // Rows of so many bytes, over all slices, are cleared before those with tokens are written: finding the tokens of
  // each would move three times 16 bytes per row.
  std::int64_t short_row_bytes = 48;
  // Threads' own sums: bytes per block with which a multiprocessor has four blocks, and with which 64 threads do; a
  // thread adds at least so many elements, and a piece has so many per place, since its sums go through memory. Fewer
  // where neighbouring lines share a block's threads, whose pieces are few: 424,008 rows of 70 for 50 places were 265
  // pieces of 1,600, two blocks of 70 busy threads per multiprocessor, and took 0.30 ms, PyTorch 0.21. A piece with one
  // set of sums for all threads is `shared_elements` or more, and a line has up to so many pieces, whose sums are added
  // by one launch. Chosen: with all threads at one set of sums, 4,668 lines of 2,859 elements for ten places took 0.84
  // ms, reading them 0.04.
  std::int64_t own_sum_bytes = 54 << 10, most_own_sum_bytes = 64 << 10, own_sum_elements = 64, shared_elements = 4096,
               most_pieces = 1024;
  std::int64_t piece_per_place = 32, piece_per_place_of_slices = 8;
  // Tiles of a sort by digits, where there are fewer of full size: two blocks per multiprocessor, of at least four
  // elements per thread (chosen, not measured: 424,008 keys are 104 tiles of 4,096).
  std::int64_t radix_tiles = 264;
  // Fewest tiles of such a sort whose counts one block sums: as many as its loads in flight. By a warp per digit, 32
  // blocks in all, sums of 10,800 tiles took 62 µs a pass, counting itself 72.
  std::int64_t summed_tiles = 16;
  // Sums in fixed point, where they do not fit on chip: a line's length leaves digits of 35 bits, of which eight hold
  // any f32; more places per element than this are sorted, which takes memory by the number of elements; and bytes of
  // digits for several lines at a time (chosen). 4.3 million numbers for 100,000 places take 0.096 ms, sorted 0.61;
  // PyTorch's atomics, in any order, 0.063.
  // An index of up to `sorted_once` elements that all lines have in common is sorted once, and then each number of the
  // output is added by itself (chosen: 16,389 lines of 65,542 bf16 numbers took eight times as long as PyTorch's).
  std::int64_t sorted_once = 1 << 18;
  std::int64_t longest_exact = 1 << 27, exact_places = 4, exact_bytes = std::int64_t{256} << 20;
  // sparsemax: rows from which on several blocks share one, elements of a block's piece and pieces of a row, and steps
  // of Michelot's that are launched before a block per row continues. Normal numbers take 3 to 5 steps, uniform ones
  // one per halving of those above the threshold. (Chosen, not measured: a block alone took 133 ms for 28 million
  // numbers.) The length and the piece decide bits.
  std::int64_t long_threshold_row = 1 << 16, threshold_piece = 8192, most_threshold_pieces = 1024, threshold_steps = 14;
  // grid_sample: threads that fill a large GPU, and channels per lane before another lane shares a point's. (Chosen,
  // not measured.)
  std::int64_t grid_threads = 1 << 17, grid_lane_channels = 8;
  // Banded matrices (other sizes of images): planes per thread while there are so many threads; terms from which on an
  // element has a warp, and a block. The latter two decide bits. (Chosen, not measured.)
  std::int64_t band_planes = 4, band_threads = 1 << 18, band_warp_taps = 64, band_block_taps = 4096;
  // Sums of integers that a block adds in shared memory before adding to memory; lines from which on one block each
  // fills a large GPU.
  std::int64_t table_bytes = 96 << 10, busy_blocks = 132;
  // Matrices that cuSOLVER and cuBLAS factor: those of up to `few_rows` (4,096 of 16 rows took 0.54 ms in blocks of our
  // own and 0.13 in PyTorch, before those worked by panels) and from `solver_rows` on, from `lu_solver_rows` for L·U.
  // Between them a block of our own factors a matrix: a Cholesky factor of 251 rows with its gradient took less time
  // than PyTorch's, a determinant of 300 twice cuSOLVER's (H200). Up to `batched_rows` one call takes all: 16 of 256
  // rows one after the other took 4 to 9 times PyTorch's time. Other factorisations (eigenvalues, singular values,
  // orthonormal columns) run on the host below so many rows and columns.
  std::int64_t few_rows = 32, solver_rows = 385, lu_solver_rows = 257, batched_rows = 256, decomposed_rows = 96;
  // Triangular systems: blocks of eight columns up to which there are no wider ones (chosen, not measured: with 32
  // columns per block, 257 columns of 257 rows took 219 µs in nine blocks).
  std::int64_t substituting_blocks = 4 * 132;
  // cummax and cummin of lines whose elements are not neighbours: threads that fill a large GPU, and elements that one
  // has at least (chosen, not measured. 4,499 lines of 257 elements, 256 of them for one thread, took 0.3 ms).
  std::int64_t scan_threads = 1 << 17, shortest_scan_strip = 16;
  // searchsorted: bytes of a line that each block copies to shared memory, if there are so many values per element of
  // it; blocks that fill a large GPU (chosen, not measured). In memory a line of 1,025 numbers of f32 took 146 µs for 8
  // million values, PyTorch 91: a warp's loads touch most of its 33 pieces of 128 bytes.
  std::int64_t searched_bytes = 48 << 10, searches_per_element = 64, search_blocks = 8 * 132;
  // argmax and argmin: tasks that fill a large GPU, blocks or as many threads: with eight blocks of four loads of four
  // bytes per thread, 32 KiB of a multiprocessor's are in flight. Elements of a block's piece and of a thread's; pieces
  // of a line. (Chosen. With 256 pieces, whose best one thread found, a line of 8,388,609 numbers took 59 µs, PyTorch
  // 18.)
  std::int64_t best_tasks = 8 * 132, best_piece = 16 * kThreads, best_strip = 64, most_best_pieces = 1024;
  // Pieces of a line up to which one thread finds the best of them: a block per line took 143 µs for 75,813 lines of 191.
  std::int64_t few_best_pieces = 16;
  // Lines of up to so many elements have a group of lanes each, longer ones where their warps fill a large GPU. A lane
  // has so many elements before the line gets more lanes. Elements of a line lie close to each other up to this step:
  // lanes that take neighbours of a line then share the bytes they load. (Chosen. With a block per line, 2,097,153
  // lines of five numbers took 50 times PyTorch's time.)
  std::int64_t short_best_line = 512, longest_lane_line = 4096, best_lane_elements = 8, close_elements = 8;
  // Selection by digits: lines from which on one block each fills a large GPU; elements of a piece otherwise, and
  // pieces of a line (chosen, not measured).
  std::int64_t many_selected_lines = 256, select_piece = 16384, most_select_pieces = 1024;
  // Products by cuBLASLt. Bytes of workspace that an algorithm may request (chosen, not measured). The algorithm is
  // chosen for at least so many rows of halves, because for fewer rows cuBLASLt has others, which add in another order.
  // Products of so many operations are timed (chosen), in rounds of which the first warms up; a product shorter than
  // the sample, in milliseconds, is repeated; a gain of less than 2 % may be chance (chosen).
  std::size_t product_workspace = std::size_t{32} << 20;
  std::int64_t fewest_product_rows = 64;
  double timed_operations = 8e9;
  int timing_rounds = 4;
  float timing_sample = 0.2F, timing_gain = 0.98F;
  // Products of halves with a long k and a narrow result are computed as parts of k side by side: otherwise there are
  // too few tiles for all multiprocessors. Decides bits; chosen, not measured. Very narrow ones in parts of so many
  // elements: writing and reading them takes a sixth of the product's time.
  std::int64_t product_parts = 4, long_product = 16384, narrow_product = 1024;
  // 192 x 192 of 12,288 terms, three tiles, took 255 µs in one part.
  std::int64_t very_narrow_product = 256, long_narrow_product = 8192, part_of_narrow = 4096, most_product_parts = 128;
  // Products of halves with fewer columns than `aligned_elements` whose sums are at least so long are computed by
  // warps, one for each part of a sum (chosen, not measured).
  std::int64_t long_thin_sum = 256, thin_part = 2048;
  // Of f32 those with fewer rows than that and so many columns: by threads, one for a part of a column's sums; the
  // terms of a part at least, and threads that fill a large GPU. Matrices of f32 and f64 of up to so many rows, columns
  // and terms have a thread per element. (Chosen, not measured; both decide bits.)
  std::int64_t wide_thin_product = 128, few_rows_part = 64, few_rows_threads = 1 << 18, small_matrix = 16;
  // The same for f32 and f64, whose tiles are taken to be 64 by 64. Of 1 to 128 parts the fastest had about so many
  // tiles, and no fewer elements in a part: on an H200 128 x 128 of 4,096 elements took 69, 44, 31 and 34 µs in 2, 4, 8
  // and 16 parts, 300 x 200 of 100,003 took 740, 540, 430 and 410 in 4, 16, 32 and 64. Shorter sums are not divided.
  std::int64_t product_tile = 64, enough_product_tiles = 1024, shortest_part = 512, worth_parts = 2048;
  // cuDNN. Proposals with more workspace than this are skipped: its FFTs and transposed copies may request gigabytes;
  // number of proposals requested (chosen, not measured).
  std::int64_t convolution_workspace = std::int64_t{1} << 30;
  std::size_t convolution_proposals = 32;
  // Without cuDNN, bytes of windows as columns at a time (chosen, not measured).
  std::int64_t window_column_bytes = std::int64_t{128} << 20;
  // The gradient of windows in exact f32: blocks that the positions are divided for, and steps of a part at least
  // (chosen, not measured). Decides bits. cuDNN's deterministic engine for it took 0.9 to 2.6 ms on an H200 where its
  // others, which add in any order, took 0.06 to 0.5.
  std::int64_t weight_gradient_blocks = 1056, weight_gradient_steps = 16;
  // Convolutions by direct.cuh: blocks below which a thread has fewer positions, channels up to which it computes
  // gradients of images without strides, and classes of positions that have blocks of their own. Windows of one channel
  // each: taps per block and steps of a part (chosen, not measured; the latter decides bits). cuDNN's gradients of
  // images in exact f32 took 0.4 to 19 ms where its deterministic engine for few channels took 0.03 to 1.0 (H200).
  std::int64_t direct_blocks = 264, direct_channels = 24, direct_classes = 64;
  std::int64_t depthwise_taps = 9, depthwise_steps = 8;
  // Attention: columns below which rows of 64 are processed in many small blocks, fewer of which wait for the first
  // tile and for the last (by trial).
  std::int64_t long_attention_rows = 2048;
  // Widest rows of attention by threads (f32, and halves that tensor cores do not take). Of PyTorch's time on an H200
  // values and gradients took 0.5 for a width of 16, 0.8 for 32, 1.0 for 48 and 80, 1.3 for 64, and 1.6 for 128, where
  // shared memory has room for four warps only: wider rows are computed by products (96 is chosen between them).
  std::int64_t widest_attention_by_threads = 96;
  // Rows of linear_cross_entropy that are computed as exponentials: each separately, like those whose sum is too large.
  // For tests, also where no product leaves exponentials.
  bool each_row_anew = false;

  // ---- Copies and runs (all chosen, not measured).
  // Zeros around elements are cleared first if there are so many bytes of them side by side, and so many elements of the
  // result for each that is copied (a vector of 16,519 f32 as a diagonal took 0.37 ms in one launch, PyTorch's fill 0.23).
  std::int64_t cleared_piece = 1024, cleared_per_element = 16;
  // Bytes per block where many copies are one launch: four words of 16 bytes per thread; most blocks per copy.
  std::size_t copied_bytes_per_block = kThreads * 4 * 16, most_copying_blocks = 1024;
  // Copies between two orders of memory go by way of tiles if both innermost dimensions have so many elements. Without
  // tiles an image of 65 channels took 3.5 ms from one order to the other on an H200, a hundred times as long as its
  // bytes.
  std::int64_t shortest_tile_side = 8;
  // Pinned memory for copies from and to the host: bytes of a piece, and the number of pieces, used in rotation.
  static constexpr std::size_t staging_bytes = std::size_t{512} << 10, staging_pieces = 16;
  // An event costs as much as a launch: runs between events, and between checks for runs that have ended. Slots for
  // errors of runs.
  std::uint64_t runs_per_event = 64, runs_per_look = 16;
  std::size_t error_slots = 1024;

  // ---- Compilation. Bytes of registers that a thread may spill before a kernel is recompiled for fewer blocks per
  // multiprocessor (see LaunchPlan::spill_blocks): `listnet_loss` of bf16 takes 115 µs instead of 157, softmax 261
  // instead of 272.
  static constexpr int few_spilled_bytes = 16;

  bool operator==(const GpuModel&) const = default;
};

}  // namespace ebb::cuda
