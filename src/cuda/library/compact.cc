// SPDX-License-Identifier: MIT
// nonzero: see kernels/true_places.cuh.
#include "cuda/kernels/args/compact.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {

TruePlaces find_true(Gpu& gpu, const View& bits) {
  const std::int64_t n = bits.shape.numel(), pieces = (n + kTruePiece - 1) / kTruePiece;
  BufferPtr keep;
  const View counts = workspace(gpu, DType::i64, Shape{pieces + 1}, keep, "nonzero");
  TruePlacesArgs args{.bits = static_cast<const u8*>(bits.data),
                      .n = n,
                      .pieces = pieces,
                      .counts = elements<u64>(counts),
                      .out = nullptr,
                      .rank = bits.shape.rank(),
                      .size = {}};
  for (int d = 0; d < bits.shape.rank(); ++d) args.size[d] = bits.shape[d];
  const KernelSource source{texts::true_places};
  launch_blocks(gpu, source, "count_true", pieces, args);
  launch_blocks(gpu, source, "add_counts", 1, args);
  TruePlaces found{{}, 0};
  gpu.to_host(&found.count, element_at(counts, pieces), sizeof found.count);
  const View out = workspace(gpu, DType::i64, Shape{found.count, bits.shape.rank()}, found.memory, "nonzero");
  args.out = elements<i64>(out);
  if (found.count > 0) launch_blocks(gpu, source, "write_true", pieces, args);
  return found;
}

}  // namespace ebb::cuda
