// SPDX-License-Identifier: MIT
// The products of the fused attention by warps (mma.sync).
//   own_rows             the rows that a warp or a group multiplies again and again
//   multiply_transposed  c = own·tᵀ, of rows of a tile
//   add_product          c += x·t, of rows of a tile, with x rounded
//   wait_for             after it the products are there
#pragma once
#define ATTENTION_PRODUCTS
#include "cuda/kernels/parts/attention_tiles.cuh"

namespace ebb::cuda {

#ifdef __CUDACC_RTC__
EBB void load_transposed(u32 (&x)[4], const u16* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"((u32)__cvta_generic_to_shared(at)));
}
// c [16, 8] += a [16, 16]·b [16, 8]. With i = lane / 4 and j = 2·(lane % 4), a lane has rows i and i + 8 of c, columns
// j and j + 1; the same of a, then those of columns 8 further; of b rows j, j + 1, j + 8, j + 9 of column i.
template <bool bf16>
EBB void multiply_add(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if (bf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}
#endif
template <int depth>
struct Own {
  u32 x[kSlices][depth / 16][4];
};
template <int depth>
EBB Own<depth> own_rows(const u16* tile) {
  Own<depth> own;
  load_rows<depth>(own.x, tile);
  return own;
}
// c = own·tᵀ of `wide` rows of the tile.
template <int wide, int depth>
EBB void multiply_transposed(f32 (&c)[kSlices][wide / 8][4], const Own<depth>& own, const u16* tile) {
  const int lane = lane_of();
  clear<wide>(c);
  const u16* const at = tile + ((lane & 7) + (lane >> 4) * 8) * (depth + 8) + (lane >> 3 & 1) * 8;
#pragma unroll
  for (int k = 0; k < depth / 16; ++k) {
#pragma unroll
    for (int n = 0; n < wide / 16; ++n) {
      u32 b[4];
      load_matrices(b, at + n * 16 * (depth + 8) + k * 16);
#pragma unroll
      for (int s = 0; s < kSlices; ++s) {
        multiply_add<kBf16>(c[s][2 * n], own.x[s][k], b[0], b[1]);
        multiply_add<kBf16>(c[s][2 * n + 1], own.x[s][k], b[2], b[3]);
      }
    }
  }
}
// c += x·t of `deep` rows of the tile.
template <int deep, int wide>
EBB void add_product(f32 (&c)[kSlices][wide / 8][4], const f32 (&x)[kSlices][deep / 8][4], const u16* tile) {
  const u16* const at = tile + (lane_of() & 15) * (wide + 8) + (lane_of() >> 4) * 8;
#pragma unroll
  for (int i = 0; i < deep / 16; ++i) {
    u32 left[kSlices][4];
    pack<deep>(left, x, i);
#pragma unroll
    for (int n = 0; n < wide / 16; ++n) {
      u32 b[4];
      load_transposed(b, at + i * 16 * (wide + 8) + n * 16);
#pragma unroll
      for (int s = 0; s < kSlices; ++s) {
        multiply_add<kBf16>(c[s][2 * n], left[s], b[0], b[1]);
        multiply_add<kBf16>(c[s][2 * n + 1], left[s], b[2], b[3]);
      }
    }
  }
}
// A warp multiplies by itself, and its products are made at once.
constexpr int kUnit = 16 * kSlices, kPartOfRows = 32, kPartOfColumns = 16;
constexpr int kBlocks = 2, kBlocksOfRows = 2, kBlocksOfColumns = 2;
EBB void copies_are_seen() {}
template <class... Products>
EBB void wait_for(Products&...) {}
EBB u16* tiles_in(char* memory) { return (u16*)memory; }

}  // namespace ebb::cuda
