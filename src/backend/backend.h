// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

// One evaluation on a device, from begin() to end(): what its steps share, and the mark to wait for.
struct Run {
  Device device;
  void* stream = nullptr;  // if the device has streams
  MarkPtr mark;            // of the buffers this run fills; null if steps are synchronous
  std::uint32_t step = 0;  // the step started next, or last
  // Of what the step computes, where it is a strip of something larger: errors count rows from the first of all.
  std::int64_t first_row = 0;
};

// One of several sweeps that are run by one call.
struct SweepCall {
  SweepPtr sweep;
  std::vector<Argument> arguments;
  std::uint32_t step = 0;
};

// Steps that a device has recorded, to be run again by one call. It keeps the addresses it was recorded with.
struct Recording {
  virtual ~Recording() = default;
};

// Bytes to be copied within a device's memory.
struct CopyCall {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};

// Interface of a device with streams for other libraries that use it. A stream is a pointer, and null is one, too.
class Streams {
 public:
  virtual ~Streams() = default;

  virtual void* current() const = 0;     // the calling thread's
  virtual void enter(void* stream) = 0;  // it is this one from now on, see OnStream
  virtual void leave() noexcept = 0;     // and the one before again
  virtual bool capturing() const = 0;    // a graph, from the calling thread's stream
  // Memory for that stream, freed after whatever was done with it on other streams; `given`, or the driver's own.
  virtual std::shared_ptr<StreamMemory> memory(void* stream, std::shared_ptr<StreamMemory> given) = 0;

  virtual void let_wait(void* stream) = 0;  // what that stream is given next comes after what was started here
  virtual void wait_for(void* stream) = 0;  // what is started here next comes after what that stream was given
  // `release` of memory that belongs to somebody else, as a function that calls it when no work that was started uses
  // the memory any more: at once, or later by a call that starts work or waits for it.
  virtual std::function<void()> after_use(std::function<void()> release) = 0;
};

// Interface of a device that runs many steps by one call. From record() to recorded() the steps that this thread starts
// are recorded and not run. No recording comes back where the device cannot make one of them; an error among the steps
// ends it as well.
class Recordings {
 public:
  virtual ~Recordings() = default;

  virtual void record(Run& run) = 0;
  virtual std::unique_ptr<Recording> recorded(Run& run) = 0;
  // From now on the recording draws the random numbers of these arguments in a step.
  virtual void draw(Recording& recording, std::uint32_t step, std::span<const Argument> arguments) = 0;
  virtual void replay(Recording& recording, Run& run) = 0;
  virtual void copy(std::span<const CopyCall> copies, Run& run) = 0;
};

// Factors of matrices that are computed at once: see src/autograd/decompose.cc.
enum class Decomposition : std::uint8_t {
  eigh,  // columns of [w; V], of the lower triangle
  svd,   // columns of [U; s; V]
  qr,    // columns of [Q; R] of matrices no wider than high; what is below R's diagonal is anything
};

// Coordinates of elements, i64 [count, rank].
struct TruePlaces {
  BufferPtr memory;
  std::int64_t count;
};

// A device, seen from the schedule: it compiles and runs the steps of a plan, and moves elements to and from the host.
// Everything above the schedule is the same for all devices.
//
// Steps of one run are started in order, and each sees what those before it wrote. They may still be running when the
// call returns; errors that depend on data are then thrown by a wait for the run's mark, with the same message.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual SweepPtr compile(const Program& program) = 0;
  // In one line, how it will be run; of a call, shapes, strides and dtypes are known, not where elements are.
  virtual std::string describe(const CompiledSweep&) const { return ""; }
  virtual std::string describe(const LibraryCall&) const { return ""; }

  // `inputs` fill the buffers that the run will read: the run fails if one of them has failed.
  virtual Run begin(std::span<const FilledBy> inputs) = 0;
  virtual void end(Run& run) = 0;  // also after an error
  virtual void run(const SweepPtr& sweep, std::span<const Argument> arguments, Run& run) = 0;
  virtual bool has(Op op) const = 0;  // an operation of class library
  virtual void run(const LibraryCall& call, Run& run) = 0;

  // Cost of a special function of one element, in bytes of memory that are moved in the same time. Sweeps make again
  // what would cost more to be written and read. 0: they never do.
  virtual int bytes_of_a_function() const { return 0; }

  // Are rows that lie side by side in memory reduced as fast as others? A reduction of few numbers over the first axis
  // is one of rows then, not of columns.
  virtual bool reduces_rows_beside() const { return false; }

  // Are convolutions of this dtype faster where the channels of all images lie last in memory? They are given and leave
  // such images then, and sweeps over these keep the order.
  virtual bool wants_channels_last(DType) const { return false; }

  // Are distances of rows faster by the call than by products and sweeps? (It has the call in any case: operands that
  // are on no device yet may end up here.)
  virtual bool calls_distances() const { return true; }

  // Does a linear_cross_entropy call take TokenStatisticsCall (calls/linear_cross_entropy.h)?
  virtual bool has_token_statistics() const { return false; }

  // Products of halves may be faster where rows begin at multiples of some bytes. Elements from one row to the next of a
  // temporary matrix with so many columns, for a product of this depth and width that reads or makes it.
  virtual std::int64_t row_step(DType, std::int64_t columns, std::int64_t /*depth*/, std::int64_t /*width*/) const {
    return columns;
  }

  // Does a call of matmul take a third input, a row that is added to all of the result's before they are rounded?
  virtual bool adds_rows_to_products() const { return false; }

  // Sweeps of one kind (not 0) that do not depend on each other may be run together: the steps `calls` name.
  virtual std::uint64_t kind(const CompiledSweep&) const { return 0; }
  virtual void run_together(std::span<const SweepCall> calls,
                            Run& together) {  // one after the other, if nothing better
    for (const SweepCall& call : calls) {
      together.step = call.step;
      run(call.sweep, call.arguments, together);
    }
  }
  virtual void expect_together(const CompiledSweep&, std::size_t) {}  // so many will be

  virtual Recordings* recordings() { return nullptr; }  // null also where it must not record now

  // Dense bytes between host memory and this device's. to_host waits for the data, and throws if computing it failed.
  virtual void to_host(void* to, const Buffer& from, std::size_t offset, std::size_t bytes) = 0;
  virtual void from_host(Buffer& to, const void* from, std::size_t bytes) = 0;
  virtual void synchronize() = 0;

  virtual BlockSource& memory() = 0;
  virtual Streams* streams() { return nullptr; }
  // data *= factor, one number, in memory that belongs to another library, on the calling thread's stream. Where the
  // factor is 1, as that of most gradients, data is not read.
  virtual void scale(const View& data, const View& factor);

  // Factors of finite matrices [count, columns, rows], stored by columns, f32 or f64, dense: out [count, k, ...] has
  // the factors' columns one after the other, `verdicts` (0: well) come back for all of them. False where the device
  // has nothing better than the host.
  virtual bool decompose(Decomposition, const View& /*a*/, const View& /*out*/, std::vector<int>& /*verdicts*/, Run&) {
    return false;
  }

  // Where a dense bool tensor's elements are true, in order. Nothing where the device has nothing better than the host.
  virtual std::optional<TruePlaces> true_places(const View& /*bits*/, Run&) { return std::nullopt; }

  // Does this device have bf16 product instructions that are worth rounding to bf16 for?
  virtual bool rounds_to_bf16() const = 0;
};

// Defined by the schedule layer, the only one that knows which devices exist. An Error if there is no such device.
Backend& backend_of(Device device);

// For tests: registers a device under a name for which the machine has no device.
void install_backend(Device device, Backend& backend);

}  // namespace ebb
