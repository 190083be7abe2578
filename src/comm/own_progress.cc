// SPDX-License-Identifier: MIT
#include "comm/own_progress.h"

#include <dirent.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace ebb::comm {
namespace {

// Processor time per call: threads that only poll for work (MPI's) use less.
constexpr double kWork = 0.005;

double seconds_of(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::string contents(const char* path) {
  char text[1024];
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t n = ::read(file, text, sizeof text);
  ::close(file);
  return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : std::string();
}

std::uint64_t number_after(const std::string& text, const char* word) {
  const std::size_t at = text.find(word);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + std::strlen(word), nullptr, 10);
}

}  // namespace

// Bytes read and written by any call, excluding this thread's own reading of /proc.
std::uint64_t OwnProgress::moved_bytes() {
  const std::string text = contents("/proc/self/io");
  const std::uint64_t all = number_after(text, "rchar: ") + number_after(text, "wchar: ") - own_reads_;
  own_reads_ += text.size();
  return all;
}

// Is one of its threads in state D?
bool OwnProgress::waits_for_disk() {
  DIR* const threads = ::opendir("/proc/self/task");
  if (!threads) return false;
  bool waits = false;
  while (const dirent* entry = ::readdir(threads)) {
    if (entry->d_name[0] == '.') continue;
    const std::string text = contents((std::string("/proc/self/task/") + entry->d_name + "/stat").c_str());
    own_reads_ += text.size();
    const std::size_t name_end = text.rfind(')');
    waits |= name_end != std::string::npos && text.compare(name_end, 3, ") D") == 0;
  }
  ::closedir(threads);
  return waits;
}

double OwnProgress::idle_seconds() {
  const double processor = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID);
  const std::uint64_t bytes = moved_bytes();
  const bool works = processor - processor_ > kWork || bytes != bytes_ || waits_for_disk();
  processor_ = processor;
  bytes_ = bytes;
  const auto now = std::chrono::steady_clock::now();
  if (works) since_ = now;
  return std::chrono::duration<double>(now - since_).count();
}

}  // namespace ebb::comm
