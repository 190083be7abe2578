// SPDX-License-Identifier: MIT
#include "core/stop.h"

#include <chrono>

namespace ebb {
namespace {

constinit thread_local const std::stop_token* current = nullptr;
void (*host_check)() = nullptr;

// Often enough for a person at a keyboard; asking takes the host's lock.
constexpr auto kBetweenHostChecks = std::chrono::milliseconds(50);

void ask_host() {
  thread_local std::chrono::steady_clock::time_point last{};
  const auto now = std::chrono::steady_clock::now();
  if (now - last < kBetweenHostChecks) return;
  const bool first = last == std::chrono::steady_clock::time_point{};
  last = now;
  if (!first) host_check();
}

}  // namespace

StopScope::StopScope(std::stop_token token) : token_(std::move(token)), before_(current) { current = &token_; }
StopScope::~StopScope() { current = before_; }

const std::stop_token* current_stop_token() { return current; }

void throw_if_stopped(const std::stop_token* token) {
  if (token && token->stop_requested()) throw Stopped("the evaluation was stopped, as its stop token requested");
}

void check_stop() {
  throw_if_stopped(current);
  if (host_check) ask_host();
}

void set_host_interrupt(void (*check)()) { host_check = check; }

}  // namespace ebb
