// SPDX-License-Identifier: MIT
// Exchange of elements between ranks: by NCCL if every rank has a GPU of its own, else via the host.
#include <vector>

#include "backend/background.h"
#include "core/buffer.h"
#include "cuda/library/kernels.h"
#include "cuda/library/nccl.h"

namespace ebb::cuda {

void run_collective(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  const auto& collective = *static_cast<const Collective*>(call.data.get());
  const auto* const ranked = dynamic_cast<const RankedCollective*>(&collective);
  std::vector<BufferPtr> keep(ranked ? ranked->inputs : call.inputs.size());
  std::vector<View> given;
  for (std::size_t k = 0; k < keep.size(); ++k) given.push_back(packed(gpu, call.inputs[k], keep[k], "collective"));
  LibraryCall dense = call;
  dense.inputs = given;
  if (NcclRanks* const ranks = ranked ? NcclRanks::of(*ranked, gpu) : nullptr) {
    check(driver().synchronize(gpu.stream()), "cuStreamSynchronize");
    mark.throw_so_far();  // other ranks must not continue with a failed computation of this one
    ranks->run(*ranked, dense);
    return;
  }
  std::vector<BufferPtr> memory;  // on the host
  const auto bytes_of = [](const View& v) { return static_cast<std::size_t>(v.shape.numel()) * size_of(v.dtype); };
  const auto on_host = [&](View v) {
    memory.push_back(BufferPtr::allocate(bytes_of(v), "collective"));
    v.data = memory.back().data();
    v.strides = contiguous_strides(v.shape);
    return v;
  };
  std::vector<View> sent, received;
  for (const View& v : given) {
    sent.push_back(on_host(v));
    gpu.to_host(sent.back().data, v.data, bytes_of(v));
  }
  mark.throw_so_far();
  for (const View& v : call.outputs) received.push_back(on_host(v));
  dense.inputs = sent;
  dense.outputs = received;
  collective.run(dense);
  wait_for_background();  // one still running would use host memory that ends here
  for (std::size_t k = 0; k < received.size(); ++k)
    gpu.from_host(call.outputs[k].data, received[k].data, bytes_of(received[k]));
}

}  // namespace ebb::cuda
