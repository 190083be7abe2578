// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cuda/kernels/args/error_slot.h"
#include "cuda/plan/kernel_plan.h"
#include "ebb/error.h"
#include "sweep/program.h"

namespace ebb::cuda {

// A member of the kernels' struct Args, eight bytes each, in the order of the text.
struct Parameter {
  enum class Kind : std::uint8_t {
    number,      // sizes and strides: `number` itself
    pointer,     // the slot's memory, `number` bytes further
    real,        // a constant as `dtype` keeps it
    integer,     // a constant as `dtype` keeps it
    start,       // of a ramp, `number` steps further
    step,        // of a ramp
    seed,        // of random numbers
    operation,   // of random numbers
    error,       // ErrorSlot*
    error_step,  // which step of its run this is
    workspace,
  } kind = Kind::number;
  int slot = -1;
  std::int64_t number = 0;
  DType dtype = DType::f32;
  bool aligned = false;  // a pointer that the text assumes to be a multiple of 16 bytes
};

// A program as CUDA C++ without an #include. The text encodes structure and no sizes, strides or numbers, so that it is
// compiled once for all of them.
struct SweepText : LaunchPlan {
  std::string text;
  std::vector<Parameter> parameters;
  std::vector<std::int32_t> checks;  // instructions that may report errors, by their number in ErrorSlot::key
};
SweepText print_kernel(const Program& program, const KernelPlan& plan);
// Plans and prints.
SweepText print_sweep(const Program& program, const GpuModel& model = {}, Alignment alignment = Alignment::sixteen);
// Whether the text may run with these arguments.
bool is_aligned(const SweepText& text, std::span<const Argument> arguments);

const char* prelude();  // src/cuda/kernels/parts/prelude.cuh, which precedes every text

// The values of Args, in order.
std::vector<std::uint64_t> bound_words(const SweepText& text, std::span<const Argument> arguments, const void* error,
                                       std::uint64_t step, void* workspace);

// The error that the CPU would have thrown.
Error complaint(const Program& program, std::int32_t instr, std::int64_t position, std::uint64_t bits,
                std::int64_t first_row = 0);

}  // namespace ebb::cuda
