// SPDX-License-Identifier: MIT
#include "cpu/jit/loop.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <utility>

#include "cpu/jit/code.h"
#include "cpu/tile/kernels.h"

namespace ebb::cpu {

namespace {

// Loops use the instruction set of the tile kernels: tests force slower targets to check that they agree.
LoopTarget loop_target() {
  constexpr std::pair<const char*, LoopTarget> kTargets[] = {
#if defined(__aarch64__)
    {"NEON", LoopTarget::neon},
#elif defined(__x86_64__)
    {"AVX2", LoopTarget::avx2},
    {"AVX3", LoopTarget::avx512},
#endif
    {"none", LoopTarget::none}
  };
  for (const auto& [name, target] : kTargets) {
    if (std::strcmp(tile_kernels().target, name) == 0) return target;
  }
  return LoopTarget::none;
}

// Measured: short loops wait for memory more than for dependencies, and long ones need the registers.
int vectors_side_by_side(LoopTarget target, bool wide, std::ptrdiff_t instructions) {
  constexpr std::ptrdiff_t kFew = 12, kMany = 22;
  const int vectors = vectors_in_a_group(target, wide);
  const bool middle = instructions > kFew && instructions <= kMany;
  if (target == LoopTarget::avx512) return instructions > kFew ? 4 : 2;  // with twice the registers of AVX2
  return middle ? std::min(2 * vectors, 8) : std::min(vectors, 4);
}

std::atomic<NativeLoops> when{NativeLoops::for_large_sweeps};
}  // namespace

bool native_loops_usable() { return loop_target() != LoopTarget::none; }

void set_native_loops(NativeLoops w) { when = w; }

bool worth_native_loops(std::int64_t elements) {
  constexpr std::int64_t kLarge = 1 << 13;
  const NativeLoops now = when;
  return native_loops_usable() && now != NativeLoops::never && (now == NativeLoops::always || elements >= kLarge);
}

// All ones for the first `rest` elements of a turn, zeros for the others: a window on a row of both.
const void* NativeLoop::mask_vectors(std::size_t rest) const {
  constexpr std::size_t kTurnBytes = 256;  // 8 vectors of AVX2
  static const auto row = [] {
    std::array<std::uint64_t, 2 * kTurnBytes / 8> bits{};
    std::fill_n(bits.begin(), bits.size() / 2, ~std::uint64_t{0});
    return bits;
  }();
  return reinterpret_cast<const std::byte*>(row.data()) + kTurnBytes - rest * (wide_ ? 8 : 4);
}

std::shared_ptr<const NativeLoop> make_native_loop(const LoopProgram& program) {
  if (!native_loops_usable() || program.pointers > static_cast<int>(kMaxLoopPointers)) return nullptr;
  const LoopCode code = lower(program);
  const std::size_t guards = code.guards.size() + (code.ordinary.empty() ? 0 : 1);
  const std::size_t state = code.sums.size() * kLoopGroup * (code.wide ? 8 : 4) + guards * kGuardBytes;
  if (state > kMaxLoopState) return nullptr;
  const auto results = std::count_if(code.values.begin(), code.values.end(),
                                     [](const auto& v) { return v.source == LoopCode::Source::result; });
  const LoopTarget target = loop_target();
  const int vectors = vectors_in_a_group(target, code.wide);
  for (int side_by_side = vectors_side_by_side(target, code.wide, results); side_by_side > 0; side_by_side /= 2) {
    const std::vector<std::uint8_t> bytes = emit(code, target, side_by_side);
    if (bytes.empty()) continue;
    const std::size_t group = kLoopGroup * static_cast<std::size_t>(std::max(1, side_by_side / vectors));
    auto loop = std::make_shared<const NativeLoop>(bytes, group, static_cast<int>(guards), state,
                                                   rests_of(code, target, side_by_side), code.wide);
    return loop->ready() ? loop : nullptr;
  }
  return nullptr;
}

}  // namespace ebb::cpu
