// SPDX-License-Identifier: MIT
// Launches of kernels/exponentials.cuh.
#include "cuda/library/exponential_product.h"

#include "cuda/kernels/texts.h"

namespace ebb::cuda {

bool can_make_exponentials(const Gpu& gpu, const ExponentialProduct& p) {
  return can_be_wide(gpu, p.factors, ExponentialTile::kSharedBytes) && p.step % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(p.out) % 16 == 0;
}

KernelSource exponentials_source() { return {texts::exponentials, true, true}; }

void make_exponentials(Gpu& gpu, const ExponentialProduct& p) {
  const ExponentialsArgs args{.product = wide_product_args(p.factors),
                              .out = static_cast<u16*>(p.out),
                              .reference = static_cast<const f32*>(p.reference),
                              .chosen = static_cast<const i32*>(p.chosen),
                              .own = static_cast<f32*>(p.own),
                              .parts = static_cast<f32*>(p.parts),
                              .step = p.step,
                              .unused = {}};
  launch_wide(gpu, exponentials_source(), "exponentials", p.factors, args, ExponentialTile::kSharedBytes);
}

}  // namespace ebb::cuda
