// A product of bf16 whose results leave as exponentials, for Hopper.
//
// Two blocks of a cluster take 128 rows each and the same 256 columns. A thread sends for tiles of x and of W, of W
// half, which both blocks get; two warpgroups multiply, 64 rows each; three warps turn the finished tile into
// exponentials while the next one is multiplied. The blocks stay, and walk over all tiles, rows first: W is read from
// memory once.
//
// Sums are the same whatever the number of rows: along k in steps of 16 in order, and over a tile's columns.
#include "cuda/library/exponential_product.h"

#include <algorithm>
#include <array>

#include "core/format_error.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {
namespace {

constexpr unsigned kThreadsOfBlock = 384, kRowsOfBlock = 128, kDeep = 64, kStages = 3;
constexpr unsigned kStageBytes = (kRowsOfBlock + kTileOfExponentials) * kDeep * 2;
constexpr unsigned kLineBytes = kTileOfExponentials * 2 + 16;  // of a finished row: 16 more spread it over the banks
constexpr unsigned kSharedBytes = 1024 + kStages * kStageBytes + kRowsOfBlock * kLineBytes + 16 * kStages;

// The instruction has its 128 sums as operands.
std::string product_text() {
  std::string names, operands;
  for (int i = 0; i < 128; ++i) {
    names += fmt::format("{}%{}", i ? ", " : "", i);
    operands += fmt::format("{}\"+f\"(d[{}])", i ? ", " : "", i);
  }
  return "EBB void multiply_add(f32 (&d)[128], u64 x, u64 w, int add) {\n"
         "  asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, %130, 0;\\n\"\n"
         "    \"wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" +
         names + "}, %128, %129, p, 1, 1, 0, 0;\\n}\\n\"\n    : " + operands +
         " : \"l\"(x), \"l\"(w), \"r\"(add));\n}\n";
}

const char* const kText = R"cuda(
constexpr int kRows = 128, kColumns = 256, kDeep = 64, kStages = 3;
constexpr u32 kXBytes = kRows * kDeep * 2, kStage = kXBytes + kColumns * kDeep * 2, kLine = kColumns * 2 + 16;
constexpr f32 kToTwo = 1.4426950408889634f;
struct __align__(64) Map { u64 words[16]; };
struct Args {
  Map x, w;
  u16* out;
  const f32* reference;
  const i32* chosen;
  f32 *own, *parts;
  i64 rows, classes, width;
};

EBB void set_up(u32 barrier, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)); }
EBB void expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
EBB void wait(u32 barrier, int phase) {
  asm volatile("{\n.reg .pred p;\nagain: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done;\nbra again;\ndone:\n}"
               ::"r"(barrier), "r"(phase) : "memory");
}
// In a block of the cluster. Without an order of memory: what it is about is read by tensor cores and written by copies.
EBB void arrive(u32 barrier, u32 block) {
  asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nmbarrier.arrive.shared::cluster.b64 _, [there];\n}"
               ::"r"(barrier), "r"(block) : "memory");
}
EBB void copy_tile(u32 to, const Map& map, u32 barrier, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
               ::"r"(to), "l"(&map), "r"(barrier), "r"(x), "r"(y) : "memory");
}
EBB void copy_tile_to_both(u32 to, const Map& map, u32 barrier, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
               " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to), "l"(&map), "r"(barrier), "r"(x), "r"(y), "h"((u16)3) : "memory");
}
// Lines of 128 bytes, their 16-byte pieces where the copy's swizzle has put them; groups of eight lines lie 1024 apart.
EBB u64 tile_at(u32 address) { return (u64)((address & 0x3FFFF) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62; }
EBB void meet_cluster() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
// Between the multiplying warps and those that exponentiate: 1: the finished tile has been read, 2: there is one.
template <int which> EBB void meet() { asm volatile("bar.sync %0, 352;" ::"n"(which) : "memory"); }
template <int which> EBB void tell() { asm volatile("bar.arrive %0, 352;" ::"n"(which) : "memory"); }

struct Walk {
  int rows, tiles, blocks, first, step;
  __device__ __forceinline__ Walk(const Args& a)
      : rows((int)(a.rows + 2 * kRows - 1) / (2 * kRows)), tiles(rows * ((int)(a.classes + kColumns - 1) / kColumns)),
        blocks((int)(a.width + kDeep - 1) / kDeep), first(blockIdx.x >> 1), step(gridDim.x >> 1) {}
  __device__ __forceinline__ int row(int t, u32 rank) const { return (t % rows * 2 + (int)rank) * kRows; }
  __device__ __forceinline__ int column_tile(int t) const { return t / rows; }
};

EBB void send_for_tiles(const Args& a, u32 rank, u32 base, u32 full, u32 empty) {
  const Walk walk(a);
  int s = 0, phase = 0;
  for (int t = walk.first; t < walk.tiles; t += walk.step) {
    const int row = walk.row(t, rank), column = walk.column_tile(t) * kColumns + (int)rank * (kColumns / 2);
    for (int k = 0; k < walk.blocks; ++k) {
      wait(empty + 8 * s, phase ^ 1);
      const u32 at = base + s * kStage;
      expect(full + 8 * s, kStage);
      copy_tile(at, a.x, full + 8 * s, k * kDeep, row);
      copy_tile_to_both(at + kXBytes + rank * (kColumns / 2 * kDeep * 2), a.w, full + 8 * s, k * kDeep, column);
      if (++s == kStages) s = 0, phase ^= 1;
    }
  }
}

// 64 rows by a warpgroup. A stage is empty when both warpgroups of both blocks say so: the copies come to both.
EBB void multiply(const Args& a, int half, u32 base, u32 full, u32 empty, u32 finished) {
  const Walk walk(a);
  const int warp = (threadIdx.x >> 5) & 3, lane = threadIdx.x & 31, in_group = threadIdx.x & 127;
  f32 d[kColumns / 2];
  int s = 0, phase = 0;
  for (int t = walk.first; t < walk.tiles; t += walk.step) {
    int last = 0;
    for (int k = 0; k < walk.blocks; ++k) {
      wait(full + 8 * s, phase);
      const u32 at = base + s * kStage;
      const u64 x = tile_at(at + half * (kXBytes / 2)), w = tile_at(at + kXBytes);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int i = 0; i < kDeep / 16; ++i) multiply_add(d, x + 2 * i, w + 2 * i, k | i);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      if (k > 0) {
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (in_group < 2) arrive(empty + 8 * last, in_group);
      }
      last = s;
      if (++s == kStages) s = 0, phase ^= 1;
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (in_group < 2) arrive(empty + 8 * last, in_group);
    meet<1>();
    const u32 to = finished + (half * 64 + warp * 16 + (lane & 15)) * kLine + (lane >> 4) * 16;
#pragma unroll
    for (int j = 0; j < kColumns / 16; ++j) {
      const u32 w0 = to_bf16x2(d[8 * j], d[8 * j + 1]), w1 = to_bf16x2(d[8 * j + 2], d[8 * j + 3]);
      const u32 w2 = to_bf16x2(d[8 * j + 4], d[8 * j + 5]), w3 = to_bf16x2(d[8 * j + 6], d[8 * j + 7]);
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                   ::"r"(to + j * 32), "r"(w0), "r"(w1), "r"(w2), "r"(w3) : "memory");
    }
    tell<2>();
  }
  meet<1>();  // as often as it is told
}

// Eight rows at a time, eight columns a lane: all their loads first.
EBB void exponentiate(const Args& a, int warp, int lane, u32 rank, const char* finished) {
  constexpr int kGroups = kRows / 8, kWarps = 3;
  const Walk walk(a);
  const int rows = (int)a.rows, classes = (int)a.classes, tiles = (classes + kColumns - 1) / kColumns;
  tell<1>();
  for (int t = walk.first; t < walk.tiles; t += walk.step) {
    const int first_row = walk.row(t, rank), tile = walk.column_tile(t), column = tile * kColumns + 8 * lane;
    const bool live = column < classes;
    // A lane has the numbers of one row of its group. They come a group ahead.
    f32 next_reference;
    int next_chosen;
    const auto look_ahead = [&](int group) {
      const int of = first_row + group * 8 + (lane & 7);
      const bool there = group < kGroups && of < rows;
      next_reference = there ? a.reference[of] * kToTwo : 0.0f;
      next_chosen = there && lane < 8 ? a.chosen[of] - tile * kColumns : -1;
    };
    look_ahead(warp);
    meet<2>();
#pragma unroll 1
    for (int group = warp; group < kGroups; group += kWarps) {
      const char* const lines = finished + group * 8 * (int)kLine;
      const int row = first_row + group * 8, mine = row + (lane & 7), chosen = next_chosen;
      const f32 reference = next_reference;
      look_ahead(group + kWarps);
      if ((u32)chosen < (u32)kColumns) a.own[mine] = from_bf16(*(const u16*)(lines + lane * (int)kLine + chosen * 2));
      Words4 z[8];
#pragma unroll
      for (int r = 0; r < 8; ++r) z[r] = *(const Words4*)(lines + r * (int)kLine + lane * 16);
      f32 sum[8];
#pragma unroll
      for (int r = 0; r < 8; ++r) {
        const f32 less = __shfl_sync(0xffffffffu, reference, r);
        f32 total = 0;
        u32 e[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const f32 low = power_of_two(fmaf(__uint_as_float(z[r].x[j] << 16), kToTwo, -less));
          const f32 high = power_of_two(fmaf(__uint_as_float(z[r].x[j] & 0xFFFF0000u), kToTwo, -less));
          total += low + high;
          e[j] = to_bf16x2(low, high);
        }
        if (live && row + r < rows) store16(a.out + (i64)(row + r) * classes + column, e[0], e[1], e[2], e[3]);
        sum[r] = live ? total : 0.0f;
      }
      // Lanes exchange halves of their rows, so that each has the sum of one row over four lanes, then over all.
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const bool up = lane & 4;
        const f32 other = other_lane(up ? sum[j] : sum[j + 4], 4);
        sum[j] = (up ? sum[j + 4] : sum[j]) + other;
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const bool up = lane & 2;
        const f32 other = other_lane(up ? sum[j] : sum[j + 2], 2);
        sum[j] = (up ? sum[j + 2] : sum[j]) + other;
      }
      const f32 other = other_lane(lane & 1 ? sum[0] : sum[1], 1);
      f32 total = (lane & 1 ? sum[1] : sum[0]) + other;
      total += other_lane(total, 8);
      total += other_lane(total, 16);
      if (lane < 8 && mine < rows) a.parts[(i64)mine * tiles + tile] = total;
    }
    tell<1>();
  }
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1) exponentials(const __grid_constant__ Args a) {
  DYNAMIC_SHARED(chip);
  const u32 unaligned = (u32)__cvta_generic_to_shared(chip), base = (unaligned + 1023) & ~1023u;
  const u32 finished = base + kStages * kStage, full = finished + kRows * kLine, empty = full + 8 * kStages;
  const int group = threadIdx.x >> 7, warp = (threadIdx.x >> 5) & 3, lane = threadIdx.x & 31;
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      set_up(full + 8 * s, 1);
      set_up(empty + 8 * s, 4);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  meet_cluster();
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 120;");
    if (warp > 0) {
      exponentiate(a, warp - 1, lane, rank, chip + (finished - unaligned));
    } else if (lane == 0) {
      send_for_tiles(a, rank, base, full, empty);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 192;");
    multiply(a, group - 1, base, full, empty, finished);
  }
  meet_cluster();  // nobody leaves while copies may still come
}
)cuda";

// How a matrix of bf16 is cut into tiles: the driver's CUtensorMap.
std::array<std::uint64_t, 16> tensor_map(const void* data, std::int64_t rows, std::int64_t columns, unsigned high) {
  alignas(64) std::array<std::uint64_t, 16> map{};
  const std::uint64_t sizes[] = {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows)};
  const std::uint64_t steps[] = {static_cast<std::uint64_t>(columns) * 2};
  const std::uint32_t box[] = {kDeep, high}, each[] = {1, 1};
  check(driver().encode_tiles(map.data(), kMapBf16, 2, const_cast<void*>(data), sizes, steps, box, each, 0,
                              kMapSwizzle128, kMapPromote256, 0),
        "cuTensorMapEncodeTiled");
  return map;
}

}  // namespace

bool can_make_exponentials(const Gpu& gpu, const ExponentialProduct& p) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;  // the kernel counts in 32 bits
  const auto bits = reinterpret_cast<std::uintptr_t>(p.x) | reinterpret_cast<std::uintptr_t>(p.head) |
                    reinterpret_cast<std::uintptr_t>(p.out);
  return gpu.architecture() == "sm_90" && driver().encode_tiles && gpu.limits().shared >= kSharedBytes &&
         gpu.multiprocessors() >= 2 && bits % 16 == 0 && p.width % 8 == 0 && p.width > 0 && p.classes % 8 == 0 &&
         p.rows < kMost && p.classes < kMost && p.width < kMost;
}

const std::string& exponentials_text() {
  static const std::string text = product_text() + kText;
  return text;
}

void make_exponentials(Gpu& gpu, const ExponentialProduct& p) {
  Words words;
  for (const std::uint64_t w : tensor_map(p.x, p.rows, p.width, kRowsOfBlock)) words.add(static_cast<std::int64_t>(w));
  for (const std::uint64_t w : tensor_map(p.head, p.classes, p.width, kTileOfExponentials / 2))
    words.add(static_cast<std::int64_t>(w));
  words.add(static_cast<const void*>(p.out)).add(p.reference).add(p.chosen);
  words.add(static_cast<const void*>(p.own)).add(static_cast<const void*>(p.parts));
  words.add(p.rows).add(p.classes).add(p.width);
  const std::int64_t tiles = (p.rows + 2 * kRowsOfBlock - 1) / (2 * kRowsOfBlock) * tiles_of(p.classes);
  const std::int64_t clusters = std::min<std::int64_t>(tiles, gpu.multiprocessors() / 2);
  gpu.launch(gpu.kernel(KernelSource{exponentials_text(), true, true}, "exponentials"), static_cast<unsigned>(2 * clusters), words.words(),
             kThreadsOfBlock, kSharedBytes);
}

}  // namespace ebb::cuda
