// SPDX-License-Identifier: MIT
#include "core/stop.h"

#include <chrono>
#include <cstdint>
#include <ctime>
#include <utility>

namespace ebb {
namespace {

constinit thread_local const std::stop_token* current_token = nullptr;
void (*host_check)() = nullptr;

// Often enough for a person at a keyboard; the check takes the host's lock.
constexpr std::int64_t kBetweenHostChecks = 50;

// Accurate to milliseconds: every step calls it, and reading a precise clock takes as long as adding 1,000 numbers.
std::int64_t milliseconds() {
#if defined(CLOCK_MONOTONIC_COARSE)
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
#else
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
#endif
}

void ask_host() {
  constinit thread_local std::int64_t last = 0;  // 0: not checked yet
  const std::int64_t now = milliseconds();
  if (now - last < kBetweenHostChecks) return;
  if (std::exchange(last, now) != 0) host_check();
}

}  // namespace

StopScope::StopScope(std::stop_token token) : token_(std::move(token)), before_(current_token) {
  current_token = &token_;
}
StopScope::~StopScope() { current_token = before_; }

const std::stop_token* current_stop_token() { return current_token; }

void throw_if_stopped(const std::stop_token* token) {
  if (token && token->stop_requested()) throw Stopped("the evaluation was stopped, as its stop token requested");
}

void check_stop() {
  throw_if_stopped(current_token);
  if (host_check) ask_host();
}

void set_host_interrupt(void (*check)()) { host_check = check; }

}  // namespace ebb
