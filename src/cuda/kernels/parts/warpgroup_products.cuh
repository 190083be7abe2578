// SPDX-License-Identifier: MIT
// Products of warpgroups by tiles in shared memory, of any width: 64 rows by `columns` columns, 16 elements deep. A
// tile is panels of 64 columns, one behind the other: rows of 128 bytes, their pieces of 16 bytes exchanged (piece p of
// row r is at p ^ r % 8), each panel at a multiple of 1024 bytes. Texts that use it say in kBf16 which halves they
// have.
//   begin_product   c = x·yᵀ, x and y tiles            (rows of y are columns of c)
//   add_product     c += x·yᵀ
//   add_rows        c += x·y, x in registers, y a tile (columns of y are columns of c)
// They are asynchronous: products_begin() before the first of a group, products_end() after the last;
// wait_for_products<n>() returns when all but the last n groups are done. Until then sums and the registers of x are
// the instructions'; keep() after the wait makes the compiler see that.
#pragma once
#include "cuda/kernels/parts/warpgroup.cuh"

namespace ebb::cuda {

#ifdef EBB_EDITOR
constexpr bool kBf16 = true;
#endif

#ifdef __CUDACC_RTC__
// Sums of 16 columns are 8 numbers of a thread: operands 8 i to 8 i + 7 for columns from 16 i on.
#define WGMMA_S16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_S32 WGMMA_S16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_S48 WGMMA_S32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_S64 WGMMA_S48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_S80 WGMMA_S64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_S96 WGMMA_S80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_S112 WGMMA_S96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_S128 WGMMA_S112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_S160                                                         \
  WGMMA_S128                                                               \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77" \
  ", %78, %79"
#define WGMMA_S192                                                         \
  WGMMA_S160                                                               \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93" \
  ", %94, %95"
#define WGMMA_S224                                                                   \
  WGMMA_S192                                                                         \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109" \
  ", %110, %111"
#define WGMMA_S256                                                                       \
  WGMMA_S224                                                                             \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125" \
  ", %126, %127"
#define WGMMA_C16(how) WGMMA_4(how, c, 0), WGMMA_4(how, c, 1)
#define WGMMA_C32(how) WGMMA_16(how, c, 0)
#define WGMMA_C48(how) WGMMA_C32(how), WGMMA_4(how, c, 4), WGMMA_4(how, c, 5)
#define WGMMA_C64(how) WGMMA_32(how, c, 0)
#define WGMMA_C80(how) WGMMA_C64(how), WGMMA_4(how, c, 8), WGMMA_4(how, c, 9)
#define WGMMA_C96(how) WGMMA_C64(how), WGMMA_16(how, c, 8)
#define WGMMA_C112(how) WGMMA_C96(how), WGMMA_4(how, c, 12), WGMMA_4(how, c, 13)
#define WGMMA_C128(how) WGMMA_C64(how), WGMMA_32(how, c, 8)
#define WGMMA_C160(how) WGMMA_C128(how), WGMMA_16(how, c, 16)
#define WGMMA_C192(how) WGMMA_C128(how), WGMMA_32(how, c, 16)
#define WGMMA_C224(how) WGMMA_C192(how), WGMMA_16(how, c, 24)
#define WGMMA_C256(how) WGMMA_C192(how), WGMMA_32(how, c, 24)

// For `columns` and the numbers of the operands behind the sums.
#define WGMMA_OF(columns, p0, p1, p2, p3, p4)                                                                      \
  EBB void wgmma_begin(f32(&c)[columns / 8][4], u64 x, u64 y) {                                                    \
    if (kBf16) {                                                                                                   \
      asm volatile(WGMMA("0", #columns, "bf16", WGMMA_S##columns, "%" #p0, "%" #p1, "0, 0")                        \
                   : WGMMA_C##columns("=")                                                                         \
                   : "l"(x), "l"(y));                                                                              \
    } else {                                                                                                       \
      asm volatile(WGMMA("0", #columns, "f16", WGMMA_S##columns, "%" #p0, "%" #p1, "0, 0")                         \
                   : WGMMA_C##columns("=")                                                                         \
                   : "l"(x), "l"(y));                                                                              \
    }                                                                                                              \
  }                                                                                                                \
  EBB void wgmma_add(f32(&c)[columns / 8][4], u64 x, u64 y) {                                                      \
    if (kBf16) {                                                                                                   \
      asm volatile(WGMMA("1", #columns, "bf16", WGMMA_S##columns, "%" #p0, "%" #p1, "0, 0")                        \
                   : WGMMA_C##columns("+")                                                                         \
                   : "l"(x), "l"(y));                                                                              \
    } else {                                                                                                       \
      asm volatile(WGMMA("1", #columns, "f16", WGMMA_S##columns, "%" #p0, "%" #p1, "0, 0")                         \
                   : WGMMA_C##columns("+")                                                                         \
                   : "l"(x), "l"(y));                                                                              \
    }                                                                                                              \
  }                                                                                                                \
  EBB void wgmma_add_rows(f32(&c)[columns / 8][4], const u32(&x)[4], u64 y) {                                      \
    if (kBf16) {                                                                                                   \
      asm volatile(                                                                                                \
          WGMMA("1", #columns, "bf16", WGMMA_S##columns, "{%" #p0 ", %" #p1 ", %" #p2 ", %" #p3 "}", "%" #p4, "1") \
          : WGMMA_C##columns("+")                                                                                  \
          : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y));                                                   \
    } else {                                                                                                       \
      asm volatile(                                                                                                \
          WGMMA("1", #columns, "f16", WGMMA_S##columns, "{%" #p0 ", %" #p1 ", %" #p2 ", %" #p3 "}", "%" #p4, "1")  \
          : WGMMA_C##columns("+")                                                                                  \
          : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y));                                                   \
    }                                                                                                              \
  }
WGMMA_OF(16, 8, 9, 10, 11, 12)
WGMMA_OF(32, 16, 17, 18, 19, 20)
WGMMA_OF(48, 24, 25, 26, 27, 28)
WGMMA_OF(64, 32, 33, 34, 35, 36)
WGMMA_OF(80, 40, 41, 42, 43, 44)
WGMMA_OF(96, 48, 49, 50, 51, 52)
WGMMA_OF(112, 56, 57, 58, 59, 60)
WGMMA_OF(128, 64, 65, 66, 67, 68)
WGMMA_OF(160, 80, 81, 82, 83, 84)
WGMMA_OF(192, 96, 97, 98, 99, 100)
WGMMA_OF(224, 112, 113, 114, 115, 116)
WGMMA_OF(256, 128, 129, 130, 131, 132)
#undef WGMMA_OF

// Step k of 16 elements along the rows of a tile whose panels are `panel` elements apart.
EBB u64 along_rows(const u16* tile, int panel, int k) {
  return tile_at((u32)__cvta_generic_to_shared(tile + k / 4 * panel), 16) + 2 * (k % 4);
}
template <int parts>
EBB void begin_product(f32 (&c)[parts][4], const u16* x, int x_panel, const u16* y, int y_panel, int k) {
  wgmma_begin(c, along_rows(x, x_panel, k), along_rows(y, y_panel, k));
}
template <int parts>
EBB void add_product(f32 (&c)[parts][4], const u16* x, int x_panel, const u16* y, int y_panel, int k) {
  wgmma_add(c, along_rows(x, x_panel, k), along_rows(y, y_panel, k));
}
template <int parts>
EBB void add_rows(f32 (&c)[parts][4], const u32 (&x)[4], const u16* y, int y_panel, int k) {
  wgmma_add_rows(c, x, tile_at((u32)__cvta_generic_to_shared(y), y_panel * 2) + 128 * k);
}
template <int parts>
EBB void keep(f32 (&c)[parts][4]) {
#pragma unroll
  for (int n = 0; n < parts; ++n)
    asm volatile("" : "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])::"memory");
}
template <int steps>
EBB void keep(u32 (&x)[steps][4]) {
#pragma unroll
  for (int k = 0; k < steps; ++k)
    asm volatile("" : "+r"(x[k][0]), "+r"(x[k][1]), "+r"(x[k][2]), "+r"(x[k][3])::"memory");
}
#else
EBB void products_begin() {}
EBB void products_end() {}
template <int left>
EBB void wait_for_products() {}
template <class Registers>
EBB void keep(Registers&) {}
template <int parts>
EBB void add_product(f32 (&c)[parts][4], const u16* x, int x_panel, const u16* y, int y_panel, int k) {
  const int lane = threadIdx.x & 31, row = (threadIdx.x >> 5 & 3) * 16 + (lane & 15), piece = 2 * (k % 4) + (lane >> 4);
  u32 left[4];
  load_matrices(left, x + k / 4 * x_panel + row * 64 + 8 * (piece ^ (row & 7)));
  multiply_panels<kBf16>(c, left, y, y_panel, k, false);
}
template <int parts>
EBB void begin_product(f32 (&c)[parts][4], const u16* x, int x_panel, const u16* y, int y_panel, int k) {
  for (int n = 0; n < parts; ++n) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
  add_product(c, x, x_panel, y, y_panel, k);
}
template <int parts>
EBB void add_rows(f32 (&c)[parts][4], const u32 (&x)[4], const u16* y, int y_panel, int k) {
  multiply_panels<kBf16>(c, x, y, y_panel, k, true);
}
#endif

}  // namespace ebb::cuda
