// SPDX-License-Identifier: MIT
#pragma once
#include <stop_token>

#include "ebb/error.h"

namespace ebb {

// Thrown by an evaluation that was stopped.
struct Stopped : Error {
  using Error::Error;
};

// Within its scope, evaluations of this thread end with Stopped soon after the token's source requests it, between
// tasks that take milliseconds. What was not computed can still be computed later.
//
//     std::stop_source source;          // another thread calls source.request_stop()
//     StopScope scope(source.get_token());
//     loss.eval();
class StopScope {
 public:
  explicit StopScope(std::stop_token token);
  ~StopScope();
  StopScope(const StopScope&) = delete;

 private:
  std::stop_token token_;
  const std::stop_token* before_;
};

}  // namespace ebb
