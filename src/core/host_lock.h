#pragma once

namespace ebb {

// A host language may have a lock of its own that its thread holds while it calls us (Python's interpreter lock). This
// thread lets go of it while it computes or waits for another thread; otherwise a thread that waits for our mutex with
// the host's lock, and one that holds our mutex and needs the host's lock, would wait for each other.
struct HostLock {
  void* (*leave)();      // lets go; null where this thread does not hold it
  void (*enter)(void*);  // takes it again, with what leave() gave
};
void set_host_lock(const HostLock& lock);  // once, before the first computation

// Outside the host's lock while it lives.
class OutsideHostLock {
 public:
  OutsideHostLock();
  ~OutsideHostLock();
  OutsideHostLock(const OutsideHostLock&) = delete;

 private:
  void* token_;
};

}  // namespace ebb
