// SPDX-License-Identifier: MIT
#include "cuda/runtime/compiler_use.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "core/format_error.h"

// exit() first destroys the thread_local objects of the thread that calls it, then runs the handlers of atexit and the
// destructors of static objects, the last registered first. Ours can be the first of all these only as a thread_local:
// NVRTC registers destructors in the middle of a compilation. Threads without one (neither the one that loaded this
// library nor one that requested a compilation) rely on the handler, registered anew after every compilation.
namespace ebb::cuda {
namespace {

struct Uses {
  const pid_t process = ::getpid();
  std::mutex mutex;
  std::condition_variable fewer;
  int running = 0;
  bool ending = false;
  std::atomic<void (*)()> join{nullptr};
};

// A process that was forked has none of its parent's threads, but may have its locks. Never destroyed.
std::atomic<Uses*> made{nullptr};
Uses& uses() {
  Uses* found = made.load();
  if (found && found->process == ::getpid()) return *found;
  auto* const fresh = new Uses;
  if (made.compare_exchange_strong(found, fresh)) return *fresh;
  delete fresh;
  return *found;
}

thread_local int held_by_thread = 0;  // exit() may be called in the middle of a compilation, by a signal handler

void end() {
  if (!made.load()) return;
  Uses& all = uses();
  {
    std::unique_lock lock(all.mutex);
    all.ending = true;
    all.fewer.wait(lock, [&] { return all.running <= held_by_thread; });
  }
  if (auto* const join = all.join.exchange(nullptr)) join();
}

struct EndOfThread {
  void register_here() {}
  ~EndOfThread() {
    // The main thread's is destroyed only by exit(). On another thread there is no telling whether it ends or exits; in
    // the latter case this handler is the first to run.
    if (::getpid() == static_cast<pid_t>(::syscall(SYS_gettid)))
      end();
    else
      std::atexit(end);
  }
};
thread_local EndOfThread end_of_thread;

// For the thread that loads the library, in most programs the main thread.
[[maybe_unused]] const bool of_loading_thread = (end_of_thread.register_here(), true);

}  // namespace

CompilerUse::CompilerUse() {
  end_of_thread.register_here();
  Uses& all = uses();
  std::lock_guard guard(all.mutex);
  require(!all.ending, "cuda: kernels cannot be compiled any more, the process is ending; finish work on a GPU before");
  ++all.running;
  ++held_by_thread;
}

CompilerUse::~CompilerUse() {
  std::atexit(end);
  Uses& all = uses();
  {
    std::lock_guard guard(all.mutex);
    --all.running;
    --held_by_thread;
  }
  all.fewer.notify_all();
}

void join_at_the_end(void (*join)()) { uses().join = join; }

void wait_if_this_thread_exits() { end_of_thread.register_here(); }

}  // namespace ebb::cuda
