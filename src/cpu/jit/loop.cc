#include "cpu/jit/loop.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "cpu/jit/code.h"
#include "cpu/tile/kernels.h"

namespace ebb::cpu {

bool native_loops_usable() {
  // Tests force slower targets to see whether they agree; those have no machine code of their own here.
  const char* target = tile_kernels().target;
  return can_emit() &&
         (std::strcmp(target, "NEON") == 0 || std::strcmp(target, "AVX2") == 0 || std::strcmp(target, "AVX3") == 0);
}

namespace {
std::atomic<NativeLoops> when{NativeLoops::for_large_sweeps};
}  // namespace

void set_native_loops(NativeLoops w) { when = w; }

bool worth_native_loops(std::int64_t elements) {
  constexpr std::int64_t kLarge = 1 << 13;
  const NativeLoops now = when;
  return native_loops_usable() && now != NativeLoops::never && (now == NativeLoops::always || elements >= kLarge);
}

std::shared_ptr<const NativeLoop> make_native_loop(const LoopProgram& program) {
  if (!native_loops_usable() || program.pointers > static_cast<int>(kMaxLoopPointers)) return nullptr;
  const LoopCode code = lower(program);
  const std::size_t guards = code.guards.size() + (code.ordinary.empty() ? 0 : 1);
  const std::size_t state = code.sums.size() * kLoopGroup * (code.wide ? 8 : 4) + guards * kGuardBytes;
  if (state > kMaxLoopState) return nullptr;
  const auto results = std::count_if(code.values.begin(), code.values.end(),
                                     [](const auto& v) { return v.source == LoopCode::Source::result; });
  // Measured: few instructions wait for memory more than for each other, and many need the registers.
  constexpr std::ptrdiff_t kFew = 12, kMany = 22;
  const int vectors = vectors_in_a_group(code.wide);
  const int most = results > kFew && results <= kMany ? std::min(2 * vectors, 8) : std::min(vectors, 4);
  for (int side_by_side = most; side_by_side > 0; side_by_side /= 2) {
    const std::vector<std::uint8_t> bytes = emit(code, side_by_side);
    if (bytes.empty()) continue;
    const std::size_t group = kLoopGroup * static_cast<std::size_t>(std::max(1, side_by_side / vectors));
    auto loop = std::make_shared<const NativeLoop>(bytes, group, static_cast<int>(guards), state);
    return loop->ready() ? loop : nullptr;
  }
  return nullptr;
}

}  // namespace ebb::cpu
