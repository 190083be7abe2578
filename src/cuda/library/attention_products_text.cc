// The products of attention's kernels (fused_attention_text.cc): those of warps, or of warpgroups.
//   own_rows             the rows that a warp or a group multiplies again and again
//   multiply_transposed  c = own·tᵀ, of rows of a tile
//   add_product          c += x·t, of rows of a tile, with x rounded
//   wait_for             after it the products are there
#include <fmt/format.h>

#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

const char* const kProductsOfWarps = R"cuda(
#ifdef __CUDACC_RTC__
EBB void load_transposed(u32 (&x)[4], const u16* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"((u32)__cvta_generic_to_shared(at)));
}
// c [16, 8] += a [16, 16]·b [16, 8]. With i = lane / 4 and j = 2·(lane % 4), a lane has rows i and i + 8 of c, columns j and
// j + 1; the same of a, then those of columns 8 further; of b rows j, j + 1, j + 8, j + 9 of column i.
template <bool bf16> EBB void multiply_add(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if (bf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}
#endif
template <int depth> struct Own { u32 x[kSlices][depth / 16][4]; };
template <int depth> EBB Own<depth> own_rows(const u16* tile) {
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
template <class... Products> EBB void wait_for(Products&...) {}
EBB u16* tiles_in(char* memory) { return (u16*)memory; }
)cuda";

// A warpgroup multiplies 64 rows by tiles that lie as its instructions want them: rows of 128 bytes, their pieces
// exchanged, and for longer rows a second such tile behind the first. While one waits for its products others compute.
// (A product that went on into the next turn of the loop would do more, but the compiler moves its sums between
// registers there, and so has to wait for each instruction.)
const char* const kProductsOfGroups = R"cuda(
constexpr int kUnit = 64, kPartOfRows = 64, kPartOfColumns = 64;
constexpr int kTile = 64 * 64;
// As many as registers suffice for, and shared memory.
constexpr int kBlocks = kD > 64 ? 2 : 5, kBlocksOfRows = kD > 64 ? 2 : 4, kBlocksOfColumns = kD > 64 ? 2 : 3;
#ifdef __CUDACC_RTC__
EBB void copies_are_seen() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
EBB void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
EBB void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
EBB void products_are_made() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
// What is read from here on is read after what has been waited for.
template <int parts> EBB void is_made(f32 (&c)[1][parts][4]) {
#pragma unroll
  for (int n = 0; n < parts; ++n) asm volatile("" : "+f"(c[0][n][0]), "+f"(c[0][n][1]), "+f"(c[0][n][2]), "+f"(c[0][n][3])::"memory");
}
// The tile at a multiple of 1024 bytes; groups of eight of its rows lie 1024 apart, whether they are columns of the right
// factor or its rows, and the tile of the next 64 columns lies behind it.
EBB u64 tile_at(const u16* tile) {
  return (u64)(((u32)__cvta_generic_to_shared(tile) & 0x3FFFF) >> 4) | (u64)(kTile * 2 >> 4) << 16 | (u64)64 << 32 | (u64)1 << 62;
}
EBB void multiply_columns(f32 (&c)[8][4], const u16* own, const u16* tile, int k, int add) {
  const u64 x = tile_at(own + k / 4 * kTile) + 2 * (k % 4), y = tile_at(tile + k / 4 * kTile) + 2 * (k % 4);
  add ? group_add_columns(c, x, y) : group_begin(c, x, y);
}
template <int parts> EBB void multiply_rows(f32 (&c)[parts][4], const u32 (&x)[4], const u16* tile, int k) {
  group_add_rows(c, x, tile_at(tile) + 128 * k);
}
#else
EBB void copies_are_seen() {}
EBB void begin_products() {}
EBB void end_products() {}
EBB void products_are_made() {}
template <int parts> EBB void is_made(f32 (&)[1][parts][4]) {}
EBB void multiply_columns(f32 (&c)[8][4], const u16* own, const u16* tile, int k, int add) {
  u32 x[4];
  load_matrices(x, own + place<kD>(first_of_warp() + (lane_of() & 15), 2 * k + (lane_of() >> 4)));
  multiply_tile<kBf16>(c, x, tile + k / 4 * kTile, k % 4, add, false);
}
template <int parts> EBB void multiply_rows(f32 (&c)[parts][4], const u32 (&x)[4], const u16* tile, int k) {
  for (int n = 0; n < parts; n += 8) multiply_tile<kBf16>((f32(&)[8][4])c[n], x, tile + n / 8 * kTile, k, true, true);
}
#endif
EBB u16* tiles_in(char* memory) { return (u16*)(memory + (-(u32)__cvta_generic_to_shared(memory) & 1023)); }
template <class... Products> EBB void wait_for(Products&... c) {
  products_are_made();
  (is_made(c), ...);
}
template <int depth> struct Own { const u16* tile; };
template <int depth> EBB Own<depth> own_rows(const u16* tile) { return {tile}; }
template <int wide, int depth>
EBB void multiply_transposed(f32 (&c)[1][wide / 8][4], const Own<depth>& own, const u16* tile) {
  begin_products();
#pragma unroll
  for (int k = 0; k < depth / 16; ++k) multiply_columns(c[0], own.tile, tile, k, k > 0);
  end_products();
}
template <int deep, int wide>
EBB void add_product(f32 (&c)[1][wide / 8][4], const f32 (&x)[1][deep / 8][4], const u16* tile) {
  u32 left[deep / 16][1][4];
#pragma unroll
  for (int k = 0; k < deep / 16; ++k) pack<deep>(left[k], x, k);
  begin_products();
#pragma unroll
  for (int k = 0; k < deep / 16; ++k) multiply_rows(c[0], left[k][0], tile, k);
  end_products();
}
)cuda";

// The instruction has its sums as operands, one for every two of its columns. It begins them or adds to them; its left
// factor is a tile, or lies in registers, which are the instruction's from then on: version 13.0 of the compiler gives
// them to others even if they are used again.
std::string group_product(const char* name, DType dtype, std::int64_t columns, bool adds, bool left_in_registers,
                          bool transposed) {
  std::string names, operands;
  const std::int64_t sums = columns / 2;
  for (std::int64_t i = 0; i < sums; ++i) {
    names += fmt::format("{}%{}", i ? ", " : "", i);
    operands += fmt::format("{}\"{}f\"(c[{}][{}])", i ? ", " : "", adds ? '+' : '=', i / 4, i % 4);
  }
  const std::string left = left_in_registers ? fmt::format("{{%{}, %{}, %{}, %{}}}", sums, sums + 1, sums + 2, sums + 3)
                                             : fmt::format("%{}", sums);
  return fmt::format(
      "EBB void {}(f32 (&c)[{}][4], {}, u64 tile) {{\n"
      "  asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, {}, 0;\\n\"\n"
      "    \"wgmma.mma_async.sync.aligned.m64n{}k16.f32.{}.{} {{{}}}, {}, %{}, p, 1, 1, {}{};\\n}}\\n\"\n"
      "    : {} : {}, \"l\"(tile));\n}}\n",
      name, sums / 4, left_in_registers ? "const u32 (&x)[4]" : "u64 x", adds ? 1 : 0, columns, ebb::name(dtype),
      ebb::name(dtype), names, left, sums + (left_in_registers ? 4 : 1), left_in_registers ? "" : "0, ",
      transposed ? 1 : 0, operands,
      left_in_registers ? "\"r\"(x[0]), \"r\"(x[1]), \"r\"(x[2]), \"r\"(x[3])" : "\"l\"(x)");
}

}  // namespace

std::string attention_products_text(const AttentionShape& a) {
  if (!a.by_groups) return kProductsOfWarps;
  return "#ifdef __CUDACC_RTC__\n" + group_product("group_begin", a.dtype, 64, false, false, false) +
         group_product("group_add_columns", a.dtype, 64, true, false, false) +
         group_product("group_add_rows", a.dtype, a.width, true, true, true) + "#endif\n" + kProductsOfGroups;
}

}  // namespace ebb::cuda
