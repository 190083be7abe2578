// SPDX-License-Identifier: MIT
// CTC: see kernels/ctc.cuh.
#include "cuda/kernels/texts.h"
#include "cuda/library/alignment.h"

namespace ebb::cuda {

void run_ctc(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const AlignmentKernels a(call, mark);
  if (a.samples == 0) return;
  const std::int64_t labels = a.joined ? a.room : a.samples * a.room;
  BufferPtr keep_alpha, keep_beta, keep_edges, keep_places, keep_outcomes;
  const auto bytes = [&](BufferPtr& keep, std::int64_t count, std::int64_t size) {
    return workspace(gpu, DType::u8, Shape{count * size}, keep, a.name()).data;
  };
  const std::int64_t pairs = a.keep() ? a.steps * (labels + a.samples) : 0;
  auto args = a.args<CtcArgs<void, void, void, void>>();
  args.alpha = bytes(keep_alpha, pairs, 2 * a.kept_bytes());
  args.beta = bytes(keep_beta, pairs, 2 * a.kept_bytes());
  args.edges = bytes(keep_edges, 2 * a.samples * a.steps, a.kept_bytes());
  args.places = static_cast<CtcPlace*>(bytes(keep_places, labels, sizeof(CtcPlace)));
  args.outcomes = static_cast<CtcOutcome*>(bytes(keep_outcomes, a.samples, sizeof(CtcOutcome)));
  const KernelSource source = a.source(texts::ctc);
  launch_blocks(gpu, source, "align", (a.keep() ? 2 : 1) * a.samples, args);
  if (a.keep()) launch_blocks(gpu, source, "gradient", (a.steps * a.samples + kCtcRows - 1) / kCtcRows, args);
}

}  // namespace ebb::cuda
