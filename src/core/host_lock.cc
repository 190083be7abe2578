// SPDX-License-Identifier: MIT
#include "core/host_lock.h"

namespace ebb {
namespace {

HostLock host{nullptr, nullptr};

}  // namespace

void set_host_lock(const HostLock& lock) { host = lock; }

OutsideHostLock::OutsideHostLock() : token_(host.leave ? host.leave() : nullptr) {}
OutsideHostLock::~OutsideHostLock() {
  if (token_) host.enter(token_);
}

}  // namespace ebb
