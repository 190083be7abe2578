// SPDX-License-Identifier: MIT
#include "core/format_error.h"
#include "cuda/runtime/gpu.h"
#include "cuda/runtime/recording.h"

namespace ebb::cuda {

ErrorSlot* RunMark::slot() {
  if (slot_) return slot_;
  std::lock_guard guard(gpu_.mutex_);
  if (gpu_.slots_.empty()) gpu_.make_slots();
  slot_ = gpu_.slots_.back();
  gpu_.slots_.pop_back();
  *slot_ = {};
  return slot_;
}

std::shared_ptr<const RunMark::CheckedSteps> RunMark::give_steps() {
  return std::make_shared<const CheckedSteps>(std::exchange(steps_, {}));
}

std::uint64_t RunMark::add_step(Explain explain) {
  constexpr std::size_t kMostSteps = 1u << (64 - ErrorSlot::kCheckBits - ErrorSlot::kPositionBits);
  if (steps_.size() == kMostSteps - 1) {  // out of numbers: errors of earlier steps must be read first
    if (Recorder::of_thread()) fail(Error::Kind::value, "cuda: a recording has {} steps that may fail", steps_.size());
    check(driver().synchronize(stream_), "cuStreamSynchronize");
    throw_so_far();
    steps_.clear();
  }
  steps_.push_back({std::move(explain), step_});
  return steps_.size() - 1;
}

std::exception_ptr RunMark::own_error() {
  const CheckedSteps& steps = recorded_ ? *recorded_ : steps_;
  if (!slot_) return nullptr;
  const std::uint64_t key = *const_cast<const volatile u64*>(&slot_->key);
  if (key == ErrorSlot::kNone) return nullptr;
  const auto check = static_cast<int>(key & ((1u << ErrorSlot::kCheckBits) - 1));
  const std::uint64_t position = key >> ErrorSlot::kCheckBits & ((std::uint64_t{1} << ErrorSlot::kPositionBits) - 1);
  const std::uint64_t step = key >> (ErrorSlot::kCheckBits + ErrorSlot::kPositionBits);
  failed_at_ = steps[step].step;
  return std::make_exception_ptr(steps[step].explain(check, static_cast<std::int64_t>(position), slot_->bits));
}

void RunMark::wait_until_ended() {
  if (ended_.load(std::memory_order_acquire)) return;
  std::unique_lock lock(gpu_.mutex_);
  ++gpu_.waiting_;
  gpu_.changed_.wait(lock, [this] { return ended_.load(std::memory_order_relaxed); });
  --gpu_.waiting_;
}

void RunMark::throw_so_far() {
  for (const Parent& parent : parents_) parent.mark->wait(parent.step);
  std::lock_guard guard(gpu_.mutex_);
  error_ = own_error();
  if (error_) std::rethrow_exception(error_);
}

void RunMark::finish() {
  wait_until_ended();
  std::vector<Parent> parents;
  Event event = nullptr;
  {
    std::lock_guard guard(gpu_.mutex_);
    if (settled_) return;
    parents = parents_;
    event = event_;
  }
  for (const Parent& parent : parents) parent.mark->finish();
  gpu_.use();
  const Result result = run_ > 0 ? gpu_.reach(run_) : driver().wait(event);
  std::lock_guard guard(gpu_.mutex_);
  if (settled_) return;
  if (result != kSuccess) {
    try {
      check(result, "cuEventSynchronize");
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  gpu_.settle(*this);
}

void RunMark::look_into_run() {
  if (captured_) return;  // it has not run yet
  check(driver().synchronize(stream_), "cuStreamSynchronize");
  throw_so_far();
}

void RunMark::wait(std::uint32_t step) {
  if (!ended_.load(std::memory_order_acquire) && thread_ == std::this_thread::get_id()) return look_into_run();
  finish();
  if (!failed_before(step)) return;
  {
    std::lock_guard guard(gpu_.mutex_);
    if (gpu_.unseen_ == error_) {
      gpu_.unseen_ = nullptr;
      gpu_.unseen_elsewhere_ = false;
    }
  }
  std::rethrow_exception(error_);
}

}  // namespace ebb::cuda
