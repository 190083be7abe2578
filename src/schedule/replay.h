// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "ebb/compile.h"
#include "ebb/random.h"
#include "schedule/recorded_runs.h"
#include "schedule/step_runner.h"

namespace ebb {

// A function's graph and plan for inputs of one signature. The steps of finished runs are kept for reuse, so that a run
// only binds its inputs; several threads may run it concurrently.
class Replay {
 public:
  // Calls f on placeholders. Computes the inputs.
  static std::unique_ptr<Replay> make(const FunctionToMany& f, const std::vector<Tensor>& inputs);

  // Do these (evaluated) inputs match its signature?
  bool fits(const std::vector<Tensor>& inputs) const;

  // A run: its steps are taken (one thread at a time), computed, unbound from the inputs, and returned for the next run
  // (one thread at a time).
  std::unique_ptr<StepRunner> begin(const std::vector<Tensor>& inputs);
  std::vector<Tensor> compute(StepRunner& steps, const std::vector<Tensor>& inputs) const;
  void unbind(StepRunner& steps) const;
  void keep(std::unique_ptr<StepRunner> steps) { idle_.push_back(std::move(steps)); }
  // Work needed before each run; called outside of all locks.
  void prepare() const {
    for (const auto& f : before_) f();
  }

 private:
  struct Signature {
    DType dtype;
    Shape shape;
    Strides strides;
    Device device;
  };
  struct RandomLeaf {
    std::int32_t value;
    std::uint64_t offset;  // from the first number that a call draws
  };
  // Where a result comes from: an input, a tensor that f captured, or a traced node.
  struct Source {
    std::int32_t input = -1;
    Tensor captured = {};
    std::int32_t node = -1;
  };

  Replay() = default;
  std::vector<Tensor> captured(std::uint64_t first_own_id) const;
  static bool find_captured(std::vector<Node*> stack, std::uint64_t first_own_id, GraphLock& lock,
                            std::vector<Tensor>& captured);
  void trace_nodes(const std::vector<Tensor>& roots);
  void plan(const RandomState& before, const RandomState& after);
  void plan_recordings();

  std::vector<Signature> signature_;
  std::vector<Tensor> placeholders_, traced_;  // what f received and returned: they keep the traced graph alive
  std::size_t results_ = 0;                    // of f; further ones are its effects
  std::vector<std::function<void()>> before_;
  std::vector<Source> sources_;                     // of each result
  std::vector<std::vector<std::int32_t>> collect_;  // [0]: results that exist before the first step; then by step
  Trace trace_;
  std::vector<Tensor> kept_;  // its nodes
  Plan plan_;
  std::vector<std::int32_t> input_values_;  // of each input, -1 where it is not read
  std::vector<RandomLeaf> random_;
  std::uint64_t drawn_ = 0;  // random operations per call
  std::vector<std::unique_ptr<StepRunner>> idle_;
  std::unique_ptr<RecordedRuns> recorded_;  // if the device records
};

}  // namespace ebb
