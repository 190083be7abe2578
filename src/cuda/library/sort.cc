// argsort: blocks sort pieces of lines in shared memory, by merges of runs of doubling length; sorted runs in memory
// are then merged several at a time. An element finds its place by bisection of the other runs. Stable.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

constexpr std::int64_t kPiece = 1024;  // elements of a block
constexpr unsigned kMostWays = 16;     // runs merged at a time

constexpr const char* kKernels = R"cuda(
struct Args {
  View x, out;  // lines
  i64 length, x_step, out_step;
  i64 piece, pieces;  // elements of a piece, a power of two up to 1024, and how many pieces a line has
  i64 run_bits;       // runs to be merged have 2^run_bits elements
  const T* keys;      // of the lines, dense, in sorted runs, and where in its line each of them was
  const P* places;
  T* keys_to;  // null: there is only the result
  P* places_to;
};
EBB void leave(const Args& a, i64 line, i64 at_line, T key, i64 place) {
  if (a.keys_to) {
    a.keys_to[line * a.length + at_line] = key;
    a.places_to[line * a.length + at_line] = (P)place;
  } else {
    ((i64*)a.out.data)[at(a.out, line) + at_line * a.out_step] = place;
  }
}
// How many of a run's first `count` keys come before this one: those that are less, and of a run that lies left of it
// also those that are equal. `step`: a power of two, more than half of the count.
template <class N> EBB N count_before(T own, bool left, const T* run, N count, N step) {
  const A key = load(own);
  N n = 0;
  for (; step; step >>= 1) {
    if (n + step > count) continue;
    const A y = load(run[n + step - 1]);
    if (left ? !before(key, y) : before(y, key)) n += step;
  }
  return n;
}
extern "C" __global__ void __launch_bounds__(256) sort_pieces(const Args a) {
  __shared__ T keys[2][1024];
  __shared__ u16 places[2][1024];  // in their piece
  const int piece = (int)a.piece;
  const i64 all = a.x.n * a.pieces, of_block = 1024 / piece;
  for (i64 first = blockIdx.x * of_block; first < all; first += gridDim.x * of_block) {
    i64 line[4], begin[4];  // of this thread's elements, and where in the line their piece begins
    int live[4];            // elements of the piece
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int e = threadIdx.x + 256 * k, mine = e & (piece - 1);
      const i64 which = first + e / piece;
      line[k] = a.pieces == 1 ? which : quotient(which, a.pieces);
      begin[k] = (which - line[k] * a.pieces) * piece;
      const i64 left = which < all ? a.length - begin[k] : 0;
      live[k] = left < piece ? (int)left : piece;
      if (mine < live[k]) {
        keys[0][e] = ((const T*)a.x.data)[at(a.x, line[k]) + (begin[k] + mine) * a.x_step];
        places[0][e] = (u16)mine;
      }
    }
    __syncthreads();
    int side = 0;
    for (int run = 1; run < piece; run <<= 1, side ^= 1) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int e = threadIdx.x + 256 * k, mine = e & (piece - 1);
        if (mine >= live[k]) continue;
        const int other = (mine & -run) ^ run, left = live[k] - other;
        const T key = keys[side][e];
        const int n = count_before(key, other < mine, keys[side] + (e - mine + other), left < run ? left : run, run);
        const int to = e - mine + (mine & -2 * run) + (mine & (run - 1)) + n;
        keys[side ^ 1][to] = key;
        places[side ^ 1][to] = places[side][e];
      }
      __syncthreads();
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int e = threadIdx.x + 256 * k, mine = e & (piece - 1);
      if (mine < live[k]) leave(a, line[k], begin[k] + mine, keys[side][e], begin[k] + places[side][e]);
    }
    __syncthreads();
  }
}
// A block has 32 elements, and each of its warps looks for them in one of the runs: neighbours look for almost the same.
extern "C" __global__ void __launch_bounds__(512) merge_runs(const Args a) {
  __shared__ P counts[16][32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, ways = blockDim.x >> 5;
  const i64 all = a.x.n * a.length, run = (i64)1 << a.run_bits;
  for (i64 first = (i64)blockIdx.x * 32; first < all; first += (i64)gridDim.x * 32) {
    const i64 i = first + lane, line = a.x.n == 1 ? 0 : quotient(i, a.length), mine = i - line * a.length;
    const i64 own = mine >> a.run_bits, group = own & -(i64)ways, other = group + warp;
    if (i < all) {
      const i64 start = other << a.run_bits, left = a.length - start;
      counts[warp][lane] = (P)(other == own ? mine - start
                                            : count_before(a.keys[i], other < own, a.keys + line * a.length + start,
                                                           left < run ? left : run, run));
    }
    __syncthreads();
    if (warp == 0 && i < all) {
      i64 to = group << a.run_bits;
      for (int w = 0; w < ways; ++w) to += counts[w][lane];
      leave(a, line, to, a.keys[i], a.places[i]);
    }
    __syncthreads();
  }
}
)cuda";

// NaN is above all numbers, and -0 is 0.
std::string sort_text(DType dtype, bool descending, bool narrow) {
  return view_text() + element_text(dtype) +
         fmt::format(
             "EBB bool rises(A a, A b) {{ return {}; }}\nEBB bool before(A a, A b) {{ return {}; }}\n"
             "typedef {} P;\n",
             is_floating(dtype) ? "a < b || (b != b && a == a)" : "a < b", descending ? "rises(b, a)" : "rises(a, b)",
             narrow ? "u32" : "i64") +
         kKernels;
}

}  // namespace

void run_argsort(const LibraryCall& call, Gpu& gpu) {
  argsort(gpu, at_least_1d(call.inputs[0]), static_cast<int>(call.attrs.i[0]), call.attrs.i[1] != 0,
          at_least_1d(call.outputs[0]));
}

void argsort(Gpu& gpu, const View& x, int axis, bool descending, const View& out) {
  const std::int64_t n = x.shape.numel(), length = n ? x.shape[axis] : 0;
  if (n == 0) return;
  const bool narrow = length <= std::int64_t{1} << 31;
  const std::string text = sort_text(x.dtype, descending, narrow);
  View lines = x, results = out;
  lines.shape = results.shape = x.shape.with(axis, 1);
  const auto whole = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(length)));
  const std::int64_t piece = std::min(kPiece, whole), pieces = (length + piece - 1) / piece;
  struct Runs {
    BufferPtr kept_keys, kept_places;
    void *keys = nullptr, *places = nullptr;
  } from, to, none;
  const auto allocate = [&](Runs& r) {
    r.keys = dense(x, x.dtype, r.kept_keys, gpu, "argsort").data;
    r.places = dense(x, narrow ? DType::i32 : DType::i64, r.kept_places, gpu, "argsort").data;
  };
  const auto words = [&](int run_bits, const Runs& given, const Runs& made) {
    Words w;
    w.add(lines).add(results).add(length).add(x.strides[axis]).add(out.strides[axis]).add(piece).add(pieces);
    w.add(std::int64_t{run_bits}).add(given.keys).add(given.places).add(made.keys).add(made.places);
    return w;
  };
  if (pieces > 1) allocate(to);
  const std::int64_t of_block = kPiece / piece;
  launch_blocks(gpu, text, "sort_pieces", (lines.shape.numel() * pieces + of_block - 1) / of_block, words(0, none, to));
  // Where there is little to do, launches are what takes time; otherwise searches are, of which four ways need half as
  // many as sixteen.
  const unsigned most = n <= 1 << 17 ? kMostWays : 4;
  int run_bits = std::countr_zero(static_cast<std::uint64_t>(piece));
  for (std::int64_t runs = pieces; runs > 1;) {
    const unsigned ways = std::bit_ceil(static_cast<unsigned>(std::min<std::int64_t>(runs, most)));
    runs = (runs + ways - 1) / ways;
    std::swap(from, to);
    if (runs > 1 && !to.keys) allocate(to);
    launch_blocks(gpu, text, "merge_runs", (n + 31) / 32, words(run_bits, from, runs > 1 ? to : none), 0, 32 * ways);
    run_bits += std::countr_zero(ways);
  }
}

}  // namespace ebb::cuda
