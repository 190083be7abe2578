#pragma once
#include <memory>
#include <span>

#include "backend/call.h"
#include "core/buffer.h"
#include "core/device_table.h"
#include "sweep/program.h"

namespace ebb {

// A sweep made ready for a device. Immutable, may be run by several threads.
struct CompiledSweep {
  virtual ~CompiledSweep() = default;
};
using SweepPtr = std::shared_ptr<const CompiledSweep>;

// One evaluation on a device, from begin() to end(). What its steps need to know of each other, and who waits for them.
struct Run {
  Device device;
  void* stream = nullptr;  // where a device has such
  MarkPtr mark;            // of the buffers this run fills; null where steps are done when they return
  std::uint32_t step = 0;  // the one that is started next, or was started last
};

// A device, seen from the schedule: it compiles and runs the steps of a plan, and moves elements to and from the host.
// Everything above the schedule is the same for all devices.
//
// Steps of one run are started in order, and each sees what those before it wrote. They may still be going on when the
// call returns; then errors that depend on data reach who waits for the run's mark, with the text they would have had.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual SweepPtr compile(const Program& program) = 0;

  // `inputs` fill the buffers that the run will read: it fails if one of those has failed.
  virtual Run begin(std::span<const FilledBy> inputs) = 0;
  virtual void end(Run& run) = 0;  // also after an error
  virtual void run(const SweepPtr& sweep, std::span<const Argument> arguments, Run& run) = 0;
  virtual bool has(Op op) const = 0;  // an operation of class library
  virtual void run(const LibraryCall& call, Run& run) = 0;

  // Dense bytes between host memory and this device's. to_host waits for the data, and throws if computing it failed.
  virtual void to_host(void* to, const Buffer& from, std::size_t offset, std::size_t bytes) = 0;
  virtual void from_host(Buffer& to, const void* from, std::size_t bytes) = 0;
  virtual void synchronize() = 0;

  virtual BlockSource& memory() = 0;

  // Has this device instructions for products of bf16 that are worth rounding to bf16 for?
  virtual bool rounds_to_bf16() const = 0;
};

// Defined by the schedule layer, the only one that knows which devices there are. An Error where there is no such
// device.
Backend& backend_of(Device device);

// For tests: a device of their own under a name that the machine has no device for.
void install_backend(Device device, Backend& backend);

}  // namespace ebb
