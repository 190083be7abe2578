// SPDX-License-Identifier: MIT
// The transducer: see kernels/transducer.cuh.
#include "cuda/kernels/texts.h"
#include "cuda/library/alignment.h"

namespace ebb::cuda {

void run_transducer(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const AlignmentKernels a(call, mark);
  if (a.samples == 0) return;
  const Shape places{a.samples * a.steps * (a.room + 1) * a.kept_bytes()};
  BufferPtr keep_alpha, keep_beta;
  const View alpha = workspace(gpu, DType::u8, places, keep_alpha, a.name());
  const View beta = a.keep() ? workspace(gpu, DType::u8, places, keep_beta, a.name()) : View{};
  auto args = a.args<TransducerArgs<void, void, void>>();
  args.alpha = alpha.data;
  args.beta = beta.data;
  launch_blocks(gpu, a.source(texts::transducer), "align", a.samples, args);
}

}  // namespace ebb::cuda
