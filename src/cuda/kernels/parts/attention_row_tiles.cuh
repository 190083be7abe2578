// SPDX-License-Identifier: MIT
// Tiles of rows that attention by warpgroups goes through, forward and backward.
#pragma once
#include "cuda/kernels/parts/attention_pipeline.cuh"

namespace ebb::cuda {

// Rows that see most columns come first: what is left at the end is short.
struct RowTiles {
  int batches, tiles, rows, columns, heads;
  bool causal;
  const i32* documents;
  __device__ __forceinline__ RowTiles(const Args& a)
      : batches((int)a.batches),
        tiles(((int)a.rows + kOwn - 1) / kOwn),
        rows((int)a.rows),
        columns((int)a.columns),
        heads((int)a.heads),
        causal(a.causal),
        documents(a.documents) {}
  __device__ __forceinline__ int all() const { return tiles * batches; }
  __device__ __forceinline__ int batch(int t) const { return t % batches; }
  __device__ __forceinline__ int first(int t) const { return (tiles - 1 - t / batches) * kOwn; }
  // Columns that some of its rows see: from a multiple of a step on.
  __device__ __forceinline__ int begin(int t) const {
    return kDocuments ? documents[(i64)(batch(t) / heads) * 2 * rows + first(t)] / kStep * kStep : 0;
  }
  __device__ __forceinline__ int seen(int t) const {
    const int behind = first(t) + kOwn < rows ? first(t) + kOwn : rows;
    const int end = kDocuments ? documents[((i64)(batch(t) / heads) * 2 + 1) * rows + behind - 1] : columns;
    return causal && first(t) + kOwn < end ? first(t) + kOwn : end;
  }
};

// The producer: own rows of q (and of the cotangent), then k and v.
template <bool gradient>
EBB void load_row_tiles(const Args& a, Memory<gradient, false>& m) {
  const RowTiles walk(a);
  const int heads = (int)a.heads;
  int phase = 1;
  for (int t = blockIdx.x; t < walk.all(); t += gridDim.x, phase ^= 1) {
    const int outer = walk.batch(t) / heads, head = walk.batch(t) % heads, key = head / (int)a.groups / (int)a.shared;
    const int first = walk.first(t), seen = walk.seen(t);
    wait_at(m.own_empty, phase);
    expect_at(m.own_full, (kOwnD + (gradient ? kOwnE : 0)) * 2);
    copy_rows<kOwn, kWidth>(m.own, a.q_map, a.q, m.own_full, first, a.rows, head, outer);
    if (gradient) copy_rows<kOwn, kValues>(m.more_own, a.g_map, a.g, m.own_full, first, a.rows, head, outer);
    for (int j = walk.begin(t); j < seen; j += kStep) {
      u64* const full = m.first.begin(kStepD);
      copy_rows<kStep, kWidth>(m.first.tile(), a.k_map, a.k, full, j, a.columns, key, outer);
      m.first.next();
      u64* const also_full = m.second.begin(kStepE);
      copy_rows<kStep, kValues>(m.second.tile(), a.v_map, a.v, also_full, j, a.columns, key, outer);
      m.second.next();
    }
  }
}

}  // namespace ebb::cuda
