// SPDX-License-Identifier: MIT
// The products of the fused attention by warpgroups (wgmma).
//   own_rows             the rows that a warp or a group multiplies again and again
//   multiply_transposed  c = own·tᵀ, of rows of a tile
//   add_product          c += x·t, of rows of a tile, with x rounded
//   wait_for             after it the products are there
// A warpgroup multiplies 64 rows by tiles that lie as its instructions want them: rows of 128 bytes, their pieces
// exchanged, and for longer rows a second such tile behind the first. While one waits for its products others compute.
// (A product that went on into the next turn of the loop would do more, but the compiler moves its sums between
// registers there, and so has to wait for each instruction.)
#pragma once
#define ATTENTION_PRODUCTS
#include "cuda/kernels/parts/attention_tiles.cuh"
#include "cuda/kernels/parts/warpgroup.cuh"

namespace ebb::cuda {

constexpr int kUnit = 64, kPartOfRows = 64, kPartOfColumns = 64;
constexpr int kTile = 64 * 64;
// As many as registers suffice for, and shared memory.
constexpr int kBlocks = kD > 64 ? 2 : 5, kBlocksOfRows = kD > 64 ? 2 : 4, kBlocksOfColumns = kD > 64 ? 2 : 3;
#ifdef __CUDACC_RTC__
EBB void copies_are_seen() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Reads from here on are ordered after what has been waited for.
template <int parts>
EBB void is_made(f32 (&c)[1][parts][4]) {
#pragma unroll
  for (int n = 0; n < parts; ++n)
    asm volatile("" : "+f"(c[0][n][0]), "+f"(c[0][n][1]), "+f"(c[0][n][2]), "+f"(c[0][n][3])::"memory");
}
// Whether its rows are columns of the right factor or its rows; the tile of the next 64 columns lies behind it.
EBB u64 tile_at(const u16* tile) { return tile_at((u32)__cvta_generic_to_shared(tile), kTile * 2); }
// Sums are begun or added to. The left factor is a tile, or lies in registers, which are the instruction's from then
// on: version 13.0 of the compiler gives them to others even if they are used again.
EBB void group_begin(f32 (&c)[8][4], u64 x, u64 y) {
  if (kBf16) {
    asm volatile(WGMMA("0", "64", "bf16", WGMMA_SUMS_32, "%32", "%33", "0, 0") : WGMMA_32("=", c, 0) : "l"(x), "l"(y));
  } else {
    asm volatile(WGMMA("0", "64", "f16", WGMMA_SUMS_32, "%32", "%33", "0, 0") : WGMMA_32("=", c, 0) : "l"(x), "l"(y));
  }
}
EBB void group_add_columns(f32 (&c)[8][4], u64 x, u64 y) {
  if (kBf16) {
    asm volatile(WGMMA("1", "64", "bf16", WGMMA_SUMS_32, "%32", "%33", "0, 0") : WGMMA_32("+", c, 0) : "l"(x), "l"(y));
  } else {
    asm volatile(WGMMA("1", "64", "f16", WGMMA_SUMS_32, "%32", "%33", "0, 0") : WGMMA_32("+", c, 0) : "l"(x), "l"(y));
  }
}
#define GROUP_ADD_ROWS(columns, type, sums, x, y, ...)    \
  asm volatile(WGMMA("1", columns, type, sums, x, y, "1") \
               : __VA_ARGS__                              \
               : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(tile))
EBB void group_add_rows(f32 (&c)[8][4], const u32 (&left)[4], u64 tile) {
  if (kBf16) {
    GROUP_ADD_ROWS("64", "bf16", WGMMA_SUMS_32, "{%32, %33, %34, %35}", "%36", WGMMA_32("+", c, 0));
  } else {
    GROUP_ADD_ROWS("64", "f16", WGMMA_SUMS_32, "{%32, %33, %34, %35}", "%36", WGMMA_32("+", c, 0));
  }
}
EBB void group_add_rows(f32 (&c)[16][4], const u32 (&left)[4], u64 tile) {
  if (kBf16) {
    GROUP_ADD_ROWS("128", "bf16", WGMMA_SUMS_64, "{%64, %65, %66, %67}", "%68", WGMMA_32("+", c, 0),
                   WGMMA_32("+", c, 8));
  } else {
    GROUP_ADD_ROWS("128", "f16", WGMMA_SUMS_64, "{%64, %65, %66, %67}", "%68", WGMMA_32("+", c, 0),
                   WGMMA_32("+", c, 8));
  }
}
#undef GROUP_ADD_ROWS
EBB void multiply_columns(f32 (&c)[8][4], const u16* own, const u16* tile, int k, int add) {
  const u64 x = tile_at(own + k / 4 * kTile) + 2 * (k % 4), y = tile_at(tile + k / 4 * kTile) + 2 * (k % 4);
  add ? group_add_columns(c, x, y) : group_begin(c, x, y);
}
template <int parts>
EBB void multiply_rows(f32 (&c)[parts][4], const u32 (&x)[4], const u16* tile, int k) {
  group_add_rows(c, x, tile_at(tile) + 128 * k);
}
#else
EBB void copies_are_seen() {}
EBB void products_begin() {}
EBB void products_end() {}
template <int left>
EBB void wait_for_products() {}
template <int parts>
EBB void is_made(f32 (&)[1][parts][4]) {}
EBB void multiply_columns(f32 (&c)[8][4], const u16* own, const u16* tile, int k, int add) {
  u32 x[4];
  load_matrices(x, own + place<kD>(first_of_warp() + (lane_of() & 15), 2 * k + (lane_of() >> 4)));
  multiply_tile<kBf16>(c, x, tile + k / 4 * kTile, k % 4, add, false);
}
template <int parts>
EBB void multiply_rows(f32 (&c)[parts][4], const u32 (&x)[4], const u16* tile, int k) {
  for (int n = 0; n < parts; n += 8) multiply_tile<kBf16>((f32(&)[8][4])c[n], x, tile + n / 8 * kTile, k, true, true);
}
#endif
EBB u16* tiles_in(char* memory) { return (u16*)(memory + (-(u32)__cvta_generic_to_shared(memory) & 1023)); }
template <class... Products>
EBB void wait_for(Products&... c) {
  wait_for_products<0>();
  (is_made(c), ...);
}
template <int depth>
struct Own {
  const u16* tile;
};
template <int depth>
EBB Own<depth> own_rows(const u16* tile) {
  return {tile};
}
template <int wide, int depth>
EBB void multiply_transposed(f32 (&c)[1][wide / 8][4], const Own<depth>& own, const u16* tile) {
  products_begin();
#pragma unroll
  for (int k = 0; k < depth / 16; ++k) multiply_columns(c[0], own.tile, tile, k, k > 0);
  products_end();
}
template <int deep, int wide>
EBB void add_product(f32 (&c)[1][wide / 8][4], const f32 (&x)[1][deep / 8][4], const u16* tile) {
  u32 left[deep / 16][1][4];
#pragma unroll
  for (int k = 0; k < deep / 16; ++k) pack<deep>(left[k], x, k);
  products_begin();
#pragma unroll
  for (int k = 0; k < deep / 16; ++k) multiply_rows(c[0], left[k][0], tile, k);
  products_end();
}

}  // namespace ebb::cuda
