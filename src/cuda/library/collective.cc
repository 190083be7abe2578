// Elements that ranks exchange, by way of the host: the transport works on its memory.
#include "core/buffer.h"
#include "cuda/library/kernels.h"

namespace ebb::cuda {

void run_collective(const LibraryCall& call, Gpu& gpu, RunMark& mark) {
  BufferPtr keep;
  const View given = packed(gpu, call.inputs[0], keep, "collective");
  const auto on_host = [](View v, BufferPtr& memory) {
    memory = BufferPtr::allocate(static_cast<std::size_t>(v.shape.numel()) * size_of(v.dtype), "collective");
    v.data = memory.data();
    return v;
  };
  BufferPtr sent, received;
  const View from = on_host(given, sent), to = on_host(call.outputs[0], received);
  gpu.to_host(from.data, given.data, static_cast<std::size_t>(given.shape.numel()) * size_of(given.dtype));
  mark.throw_so_far();  // other ranks must not go on with what this one could not compute
  LibraryCall host = call;
  host.inputs = {&from, 1};
  host.outputs = {&to, 1};
  static_cast<const Collective*>(call.data.get())->run(host);
  gpu.from_host(call.outputs[0].data, to.data, static_cast<std::size_t>(to.shape.numel()) * size_of(to.dtype));
}

}  // namespace ebb::cuda
