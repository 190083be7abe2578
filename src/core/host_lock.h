// SPDX-License-Identifier: MIT
#pragma once

namespace ebb {

// A host language may have its own lock that its thread holds while it calls us (Python's GIL). The thread releases it
// while it computes or waits for another thread; otherwise a thread that waits for our mutex holding the host's lock,
// and one that holds our mutex and needs the host's lock, would deadlock.
struct HostLock {
  void* (*leave)();      // releases it; null if this thread does not hold it
  void (*enter)(void*);  // takes it again, given the result of leave()
};
void set_host_lock(const HostLock& lock);  // once, before the first computation

// Releases the host's lock for its lifetime.
class OutsideHostLock {
 public:
  OutsideHostLock();
  ~OutsideHostLock();
  OutsideHostLock(const OutsideHostLock&) = delete;

 private:
  void* token_;
};

}  // namespace ebb
