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

// A sweep compiled for a device. Immutable; several threads may run it.
struct CompiledSweep {
  virtual ~CompiledSweep() = default;
};
using SweepPtr = std::shared_ptr<const CompiledSweep>;

// One evaluation on a device, from begin() to end(): what its steps share, and the mark to wait for.
struct Run {
  Device device;
  void* stream = nullptr;  // if the device has streams
  MarkPtr mark;            // of the buffers this run fills; null if steps are synchronous
  std::uint32_t step = 0;  // the step to start next, or the last one
  // First row of the step within the whole, where the step computes a strip: errors count rows from there.
  std::int64_t first_row = 0;
};

// One of several sweeps run by a single call.
struct SweepCall {
  SweepPtr sweep;
  std::vector<Argument> arguments;
  std::uint32_t step = 0;
};

// Steps recorded by a device, replayed by one call. Keeps the addresses it was recorded with.
struct Recording {
  virtual ~Recording() = default;
};

// A copy of bytes within a device's memory.
struct CopyCall {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};

// Interface for other libraries that share a device's streams. A stream is a pointer; null is a valid stream.
class Streams {
 public:
  virtual ~Streams() = default;

  virtual void* current() const = 0;     // the calling thread's
  virtual void enter(void* stream) = 0;  // makes it the current one, see OnStream
  virtual void leave() noexcept = 0;     // restores the previous one
  virtual bool capturing() const = 0;    // is a graph being captured from the calling thread's stream?
  // Memory for that stream, freed once all work on other streams is done with it; `given`, or the driver's own.
  virtual std::shared_ptr<StreamMemory> memory(void* stream, std::shared_ptr<StreamMemory> given) = 0;

  virtual void let_wait(void* stream) = 0;  // work given to that stream from now on comes after what was started here
  virtual void wait_for(void* stream) = 0;  // work started here from now on comes after what that stream was given
  // Wraps `release`, which frees another library's memory, in a function that calls it once no started work uses the
  // memory: at once, or later in a call that starts work or waits for it.
  virtual std::function<void()> after_use(std::function<void()> release) = 0;
};

// Interface of a device that runs many steps by one call. Steps that this thread starts between record() and recorded()
// are recorded instead of run. The result is null if the device cannot record one of them; an error among the steps
// ends the recording as well.
class Recordings {
 public:
  virtual ~Recordings() = default;

  virtual void record(Run& run) = 0;
  virtual std::unique_ptr<Recording> recorded(Run& run) = 0;
  // From now on the recording draws the random numbers of these arguments in the given step.
  virtual void draw(Recording& recording, std::uint32_t step, std::span<const Argument> arguments) = 0;
  virtual void replay(Recording& recording, Run& run) = 0;
  virtual void copy(std::span<const CopyCall> copies, Run& run) = 0;
};

// Factorisations computed for a whole batch of matrices: see src/autograd/decompose.cc.
enum class Decomposition : std::uint8_t {
  eigh,  // columns of [w; V], of the lower triangle
  svd,   // columns of [U; s; V]
  qr,    // columns of [Q; R] of matrices no wider than high; entries below R's diagonal are undefined
};

// Coordinates of elements, i64 [count, rank].
struct TruePlaces {
  BufferPtr memory;
  std::int64_t count;
};

// A device as the schedule sees it: compiles and runs the steps of a plan, and moves elements to and from the host.
// Everything above the schedule is the same for all devices.
//
// Steps of one run are started in order, and each sees what earlier ones wrote. They may still be running when the call
// returns; waiting for the run's mark then throws data-dependent errors, with the same message.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual SweepPtr compile(const Program& program) = 0;
  // One line on how it will be run. Shapes, strides and dtypes of a call are known, addresses are not.
  virtual std::string describe(const CompiledSweep&) const { return ""; }
  virtual std::string describe(const LibraryCall&) const { return ""; }

  // `inputs` fill the buffers that the run will read: the run fails if one of them has failed.
  virtual Run begin(std::span<const FilledBy> inputs) = 0;
  virtual void end(Run& run) = 0;  // also after an error
  virtual void run(const SweepPtr& sweep, std::span<const Argument> arguments, Run& run) = 0;
  virtual bool has(Op op) const = 0;  // an operation of class library
  virtual void run(const LibraryCall& call, Run& run) = 0;

  // Cost of a special function of one element, in bytes of memory traffic that take the same time. Sweeps recompute
  // values that would cost more to write and read. 0: they never do.
  virtual int bytes_of_a_function() const { return 0; }

  // Are rows stored side by side in memory reduced as fast as contiguous ones? Then a reduction of few numbers over the
  // first axis is a reduction of rows, not of columns.
  virtual bool reduces_rows_beside() const { return false; }

  // Are convolutions of this dtype faster with the channels of all images last in memory? Then they take and return
  // such images, and sweeps over these keep the order.
  virtual bool wants_channels_last(DType) const { return false; }

  // Does window_spread take places of largest elements (calls/convolution.h)?
  virtual bool spreads_to_places() const { return false; }

  // Are distances of rows faster by the call than by products and sweeps? (The call must exist in any case: operands
  // that are not on any device yet may end up here.)
  virtual bool calls_distances() const { return true; }

  // Does a linear_cross_entropy call take TokenStatisticsCall (calls/linear_cross_entropy.h)?
  virtual bool has_token_statistics() const { return false; }

  // Elements from one row to the next of a temporary matrix with so many columns, for a product of this depth and width
  // that reads or writes it: products of halves may be faster where rows begin at multiples of some bytes.
  virtual std::int64_t row_step(DType, std::int64_t columns, std::int64_t /*depth*/, std::int64_t /*width*/) const {
    return columns;
  }

  // Does matmul take a third input, a row added to every row of the result before rounding?
  virtual bool adds_rows_to_products() const { return false; }

  // Nonzero: independent sweeps of the same kind may be run together, as the steps that `calls` name.
  virtual std::uint64_t kind(const CompiledSweep&) const { return 0; }
  virtual void run_together(std::span<const SweepCall> calls,
                            Run& together) {  // one after the other by default
    for (const SweepCall& call : calls) {
      together.step = call.step;
      run(call.sweep, call.arguments, together);
    }
  }
  virtual void expect_together(const CompiledSweep&, std::size_t) {}  // announces that so many will be

  virtual Recordings* recordings() { return nullptr; }  // null also where it must not record now

  // Copies dense bytes between host and device memory. to_host waits for the data, and throws if computing it failed.
  virtual void to_host(void* to, const Buffer& from, std::size_t offset, std::size_t bytes) = 0;
  virtual void from_host(Buffer& to, const void* from, std::size_t bytes) = 0;
  virtual void synchronize() = 0;

  virtual BlockSource& memory() = 0;
  virtual Streams* streams() { return nullptr; }
  // data *= factor, one number, in memory of another library, on the calling thread's stream. Where the factor is 1, as
  // it is for most gradients, data is not read.
  virtual void scale(const View& data, const View& factor);

  // Factorises finite matrices [count, columns, rows], stored by columns, f32 or f64, dense: out [count, k, ...]
  // receives the factors' columns one after the other, `verdicts` one entry per matrix (0: success). False where the
  // device has nothing faster than the host.
  virtual bool decompose(Decomposition, const View& /*a*/, const View& /*out*/, std::vector<int>& /*verdicts*/, Run&) {
    return false;
  }

  // Coordinates of a dense bool tensor's true elements, in order. Empty if the device has nothing faster than the host.
  virtual std::optional<TruePlaces> true_places(const View& /*bits*/, Run&) { return std::nullopt; }

  // Does this device have bf16 product instructions that make rounding to bf16 worthwhile?
  virtual bool rounds_to_bf16() const = 0;
};

// Defined by the schedule layer, the only one that knows which devices exist. An Error if there is no such device.
Backend& backend_of(Device device);

// For tests: registers a device under a name that matches no device of the machine.
void install_backend(Device device, Backend& backend);

}  // namespace ebb
