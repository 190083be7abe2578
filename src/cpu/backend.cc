// SPDX-License-Identifier: MIT
#include "cpu/backend.h"

#include <cstring>

#include "cpu/gemm/bf16.h"
#include "cpu/library.h"
#include "cpu/model/cpu_model.h"
#include "cpu/moves.h"
#include "cpu/sweep/sweep.h"

namespace ebb::cpu {
namespace {

class CpuBackend final : public Backend {
 public:
  SweepPtr compile(const Program& program) override {
    SweepPtr moves = moving_sweep(program);
    return moves ? moves : cpu::compile(program);
  }
  using Backend::describe;
  std::string describe(const LibraryCall& call) const override { return describe_library(call); }
  Run begin(std::span<const FilledBy>) override { return {}; }
  void end(Run&) override {}
  void run(const SweepPtr& sweep, std::span<const Argument> arguments, Run& run) override {
    if (!run_moving_sweep(*sweep, arguments, run.first_row)) cpu::run(*sweep, arguments, run.first_row);
  }
  bool has(Op op) const override { return has_library(op); }
  void run(const LibraryCall& call, Run&) override { run_library(call); }
  void to_host(void* to, const Buffer& from, std::size_t offset, std::size_t bytes) override {
    std::memcpy(to, from.data + offset, bytes);
  }
  void from_host(Buffer& to, const void* from, std::size_t bytes) override { std::memcpy(to.data, from, bytes); }
  void synchronize() override {}
  BlockSource& memory() override { return *block_source({}); }
  int bytes_of_a_function() const override { return cpu_model().function_bytes; }
  bool reduces_rows_beside() const override { return true; }
  bool rounds_to_bf16() const override { return gemm_bf16_tiles() != nullptr; }
};

}  // namespace

Backend& backend() {
  static CpuBackend instance;
  return instance;
}

}  // namespace ebb::cpu
