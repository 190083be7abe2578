// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ebb/memory.h"
#include "schedule/step_runner.h"

namespace ebb {

// Runs of one plan as recordings of its device (CUDA graphs): one call instead of a launch per kernel. A recording
// keeps the addresses it was made with, so
//   - temporary memory is an arena of its own, shared by all recordings: they follow each other in the stream;
//   - results are written to sets of buffers that are reused once nothing refers to them. A loop that feeds results
//     back as inputs alternates between two sets, and so between two recordings;
//   - there is one recording per tuple of input addresses, and per setting of products. An input whose address keeps changing is first copied to a
//     fixed one, and a result that the caller keeps is copied out.
// Each run draws fresh random numbers.
class RecordedRuns {
 public:
  // `results` has the sizes of the buffers (several for some calls) of each value that must outlive the run; `random`
  // lists the leaves whose numbers change from run to run.
  RecordedRuns(const Plan& plan, std::map<std::int32_t, std::vector<std::size_t>> results,
               const std::vector<std::int32_t>& random);

  // Computes the results within a StepRunner::Running. False: nothing was done, and the steps must be run.
  bool run(StepRunner& steps);
  // Called once the results were taken from the steps.
  void forget_results(StepRunner& steps) const {
    for (const Result& r : results_) steps.forget_computed(r.value);
  }

 private:
  struct Leaf {
    std::int32_t value;
    std::int64_t before;  // bytes from its first byte to the element with index 0
    std::size_t bytes;
    BufferPtr home = {};  // where it is copied to, if it is
  };
  struct Result {
    std::int32_t value;
    std::vector<std::size_t> bytes;
    bool copied = false;
    std::uint32_t step = 0;  // that fills it
  };
  using Set = StepRunner::Places;
  // The settings of products when the recording was made.
  struct Settings {
    bool invariant = batch_invariant(), fewer_digits = tf32();
    bool operator==(const Settings&) const = default;
  };
  struct Entry {
    std::vector<void*> key;  // addresses of the leaves; null where one is copied
    Settings settings;
    std::unique_ptr<Recording> recording;
    std::shared_ptr<const Set> results;
  };

  std::vector<void*> key_of(const StepRunner& steps) const;
  bool is_held(const Set& set, const Result& result) const;
  bool is_free(const Set& set) const;
  std::shared_ptr<const Set> free_set();
  bool copy_held_results();
  void copy_restless_leaves(const std::vector<void*>& key);
  bool record(StepRunner& steps, std::vector<void*> key);
  void replay(StepRunner& steps, Entry& entry);
  void give_up();

  const Plan& plan_;
  std::vector<Leaf> leaves_;
  std::vector<Result> results_;
  std::vector<std::size_t> random_steps_;

  std::mutex mutex_;
  Recordings* device_ = nullptr;  // of the run in progress
  std::unique_ptr<Arena> arena_;
  std::vector<std::shared_ptr<const Set>> sets_;
  std::list<Entry> entries_;  // the most recently used first
  std::size_t calls_ = 0, made_ = 0, refused_ = 0;
  bool off_ = false;
};

}  // namespace ebb
