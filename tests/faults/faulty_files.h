// SPDX-License-Identifier: MIT
#pragma once
#include <cerrno>
#include <cstdint>

#include "io/file_calls.h"

namespace ebb {

// During its lifetime, the writers' system calls are counted, and call number `at` (from 0) fails with `error`. Further
// faults: a disk that is full after `room` bytes, writes that take at most `longest` bytes, and every other call
// interrupted by a signal.
struct Fault {
  std::int64_t at = -1;
  int error = EIO;
  std::int64_t room = -1;
  std::size_t longest = 0;
  bool interrupts = false;
};

class FaultyFiles {
 public:
  explicit FaultyFiles(const Fault& fault) {
    plan() = fault;
    calls() = 0;
    injected() = 0;
    io::file_calls = {
        [](const char* path, int flags) { return fails() ? -1 : io::kSystemCalls.open(path, flags); },
        [](int descriptor, const void* data, std::size_t bytes) -> ssize_t {
          return fails() ? -1 : limited_write(descriptor, data, bytes);
        },
        [](int descriptor) { return fails() ? -1 : io::kSystemCalls.fsync(descriptor); },
        [](const char* from, const char* to) { return fails() ? -1 : io::kSystemCalls.link(from, to); },
        [](const char* from, const char* to) { return fails() ? -1 : io::kSystemCalls.rename(from, to); }};
  }
  ~FaultyFiles() { io::file_calls = io::kSystemCalls; }
  FaultyFiles(const FaultyFiles&) = delete;

  static std::int64_t& calls() {
    static std::int64_t count = 0;
    return count;
  }
  static std::int64_t& injected() {
    static std::int64_t count = 0;
    return count;
  }

 private:
  static Fault& plan() {
    static Fault fault;
    return fault;
  }
  static bool fails() {
    const std::int64_t call = calls()++;
    const Fault& f = plan();
    const bool interrupted = f.interrupts && call % 2 == 0;
    if (!interrupted && call != f.at) return false;
    ++injected();
    errno = interrupted ? EINTR : f.error;
    return true;
  }
  static ssize_t limited_write(int descriptor, const void* data, std::size_t bytes) {
    Fault& f = plan();
    if (f.longest > 0 && bytes > f.longest) {
      bytes = f.longest;
      ++injected();
    }
    if (f.room >= 0) {
      if (f.room == 0) {
        ++injected();
        errno = f.error;
        return -1;
      }
      bytes = std::min(bytes, static_cast<std::size_t>(f.room));
      f.room -= static_cast<std::int64_t>(bytes);
    }
    return io::kSystemCalls.write(descriptor, data, bytes);
  }
};

}  // namespace ebb
