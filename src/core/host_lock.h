// SPDX-License-Identifier: MIT
#pragma once

namespace ebb {

// A host language may have a lock of its own that its thread holds while it calls us (Python's GIL). The thread
// releases it while it computes or waits for another thread; otherwise a thread waiting for our mutex while holding the
// host's lock and one holding our mutex while waiting for the host's lock would deadlock.
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
