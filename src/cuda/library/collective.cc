// Elements that ranks exchange, by way of the host: the transport works on its memory.
#include <vector>

#include "core/buffer.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {

void run_collective(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  std::vector<BufferPtr> memory;  // on the host
  const auto bytes_of = [](const View& v) { return static_cast<std::size_t>(v.shape.numel()) * size_of(v.dtype); };
  const auto on_host = [&](View v) {
    memory.push_back(BufferPtr::allocate(bytes_of(v), "collective"));
    v.data = memory.back().data();
    v.strides = contiguous_strides(v.shape);
    return v;
  };
  std::vector<View> sent, received;
  const auto& collective = *static_cast<const Collective*>(call.data.get());
  for (const View& v : call.inputs.first(collective.inputs)) {
    BufferPtr keep;
    const View given = packed(gpu, v, keep, "collective");
    sent.push_back(on_host(given));
    gpu.to_host(sent.back().data, given.data, bytes_of(given));
  }
  mark.throw_so_far();  // other ranks must not go on with what this one could not compute
  for (const View& v : call.outputs) received.push_back(on_host(v));
  LibraryCall host = call;
  host.inputs = sent;
  host.outputs = received;
  collective.run(host);
  for (std::size_t k = 0; k < received.size(); ++k)
    gpu.from_host(call.outputs[k].data, received[k].data, bytes_of(received[k]));
}

}  // namespace ebb::cuda
