// SPDX-License-Identifier: MIT
// Sums at few places: each thread has its own sum for every place, in shared memory, and waits for no other. A block
// takes a piece of some lines that are neighbours; its threads are groups with a thread per line, and group g has
// elements g, g + groups, ... of the piece. The sums of groups are then added in a fixed order.
#pragma once
#include "cuda/kernels/args/index.h"
#include "cuda/kernels/parts/element.h"
#include "cuda/kernels/parts/view.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
typedef i64 I;
typedef f32 S;  // of sums
#endif

// Sums of one place and line over groups, by `lanes` threads each. A place begins with a group of its own: neighbouring
// threads then have different banks.
EBB S sum_of_groups(const S* sums, int place, int column, int columns, int groups, int lane, int lanes) {
  const int shift = place * lanes % groups;
  S total = 0;
#pragma unroll 4
  for (int j = lane; j < groups; j += lanes) {
    const int group = j + shift < groups ? j + shift : j + shift - groups;
    total += sums[place * (int)blockDim.x + group * columns + column];
  }
  return total;
}

extern "C" __global__ void __launch_bounds__(kThreads) sum_places(const PlaceSumsArgs a) {
  constexpr int kAhead = 8;  // loads in flight
  DYNAMIC_SHARED(smem);
  S* const sums = (S*)smem;
  const int threads = blockDim.x, me = threadIdx.x, columns = (int)a.columns, size = (int)a.size;
  const int groups = threads / columns, group = me / columns, column = me - group * columns;
  // Threads that add the sums of one place: a power of two, within a warp.
  int lanes = 1;
  while (lanes < 32 && 2 * lanes <= groups && 2 * lanes * size * columns <= threads) lanes *= 2;
  const i64 tasks = a.src.n * a.pieces * a.tiles;
  for (i64 task = blockIdx.x; task < tasks; task += gridDim.x) {
    const i64 line = a.tiles == 1 ? task : quotient(task, a.tiles), first_column = (task - line * a.tiles) * columns;
    const i64 outer = a.pieces == 1 ? line : quotient(line, a.pieces), piece = line - outer * a.pieces;
    const i64 begin = piece * a.piece, end = begin + a.piece < a.length ? begin + a.piece : a.length;
    const i64 c = first_column + column;
    for (int k = 0; k < size; ++k) sums[k * threads + me] = 0;
    if (c < a.inner && group < groups) {
      const I* const index = (const I*)a.index.data + at(a.index, outer) + c * a.index_column;
      const T* const src = (const T*)a.src.data + at(a.src, outer) + c * a.src_column;
      for (i64 first = begin + group; first < end; first += kAhead * groups) {
        i64 where[kAhead];
        T x[kAhead];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          const i64 i = first + k * groups;
          where[k] = i < end ? (i64)index[i * a.index_step] : 0;
          x[k] = i < end ? src[i * a.src_step] : (T)0;
        }
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          const i64 i = first + k * groups;
          if (i >= end) break;
          if ((u64)where[k] < (u64)size) {
            sums[(int)where[k] * threads + me] += (S)load(x[k]);
          } else {
            complain(a.complaints, a.slices ? i : (outer * a.length + i) * a.inner + c, 0, bits_of(where[k]));
          }
        }
      }
    }
    __syncthreads();
    const int results = size * columns * lanes;
    for (int first = 0; first < results; first += threads) {
      const int e = first + me, place = e / lanes / columns, of = e / lanes - place * columns;
      S total = e < results ? sum_of_groups(sums, place, of, columns, groups, e & (lanes - 1), lanes) : (S)0;
      for (int distance = 1; distance < lanes; distance *= 2) total += other_lane(total, distance);
      if (e >= results || (e & (lanes - 1)) || first_column + of >= a.inner) continue;
      const i64 to = (line * a.size + place) * a.inner + first_column + of;
      if (a.parts) {
        ((S*)a.parts)[to] = total;
      } else {
        ((T*)a.out)[to] = store((A)total);
      }
    }
    __syncthreads();
  }
}

}  // namespace ebb::cuda
