// SPDX-License-Identifier: MIT
// Products of warpgroups (wgmma), for Hopper: 64 rows by a tile in shared memory.
#pragma once
#include "cuda/kernels/parts/prelude.cuh"

namespace ebb::cuda {

#ifdef __CUDACC_RTC__
// The instruction has its sums as operands, one for every two of its columns: c[n / 4][n % 4].
#define WGMMA_SUMS_32                                                    \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_SUMS_64                                                                \
  WGMMA_SUMS_32                                                                      \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_SUMS_128                                                                           \
  WGMMA_SUMS_64                                                                                  \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"             \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"             \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_4(how, c, n) how "f"(c[n][0]), how "f"(c[n][1]), how "f"(c[n][2]), how "f"(c[n][3])
#define WGMMA_16(how, c, n) WGMMA_4(how, c, n), WGMMA_4(how, c, n + 1), WGMMA_4(how, c, n + 2), WGMMA_4(how, c, n + 3)
#define WGMMA_32(how, c, n) WGMMA_16(how, c, n), WGMMA_16(how, c, n + 4)
// c = x·y where `adds` is "0", else c += x·y; `tail` says whether factors are transposed.
#define WGMMA(adds, columns, type, sums, x, y, tail)                                                               \
  "{\n.reg .pred p;\nsetp.ne.b32 p, " adds                                                                         \
  ", 0;\n"                                                                                                         \
  "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " {" sums "}, " x ", " y ", p, 1, 1, " tail \
  ";\n}\n"
EBB void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
EBB void products_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int left>
EBB void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}
// A tile at a multiple of 1024 bytes: rows of 128 bytes, their 16-byte pieces exchanged; groups of eight rows lie 1024
// apart. `behind`: where the tile of the next 64 columns lies, for a factor that has one.
EBB u64 tile_at(u32 address, u32 behind) {
  return (u64)((address & 0x3FFFF) >> 4) | (u64)(behind >> 4) << 16 | (u64)64 << 32 | (u64)1 << 62;
}
#endif

}  // namespace ebb::cuda
