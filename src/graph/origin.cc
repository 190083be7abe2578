// SPDX-License-Identifier: MIT
#include "graph/origin.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ebb/origins.h"

extern char** environ;

namespace ebb {

struct Origin {
  std::string host;
  std::vector<void*> frames;  // return addresses, the innermost first; empty if the host named its line
};

namespace detail {

std::atomic<bool> origins_on{[] {
  const char* text = std::getenv("EBB_ORIGINS");
  return text && std::string_view(text) != "0" && *text;
}()};
std::atomic<std::int64_t> origins_kept{0};

}  // namespace detail

namespace {

constexpr int kMostFrames = 48;

struct Kept {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, OriginPtr> by_id;
};
Kept& kept() {
  static Kept* const instance = new Kept;  // never destroyed: nodes die after main
  return *instance;
}

std::string (*host_line)() = nullptr;

// The standard output of a program, empty if it cannot be run.
std::string output_of(std::vector<std::string> words) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t id = -1;
  const bool started = ::posix_spawnp(&id, argv[0], &actions, nullptr, argv.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string all;
  std::array<char, 4096> part;
  for (ssize_t n; started && ((n = ::read(ends[0], part.data(), part.size())) > 0 || (n < 0 && errno == EINTR));) {
    if (n > 0) all.append(part.data(), static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  if (started) ::waitpid(id, nullptr, 0);
  return all;
}

// Location of a frame: the file with its code, and the address in that file just before its return address.
struct Frame {
  std::string object, symbol;
  std::uintptr_t address = 0;
};
Frame frame_at(void* code) {
  Dl_info info{};
  Frame frame;
  if (::dladdr(code, &info) == 0 || !info.dli_fname) return frame;
  frame.object = info.dli_fname;
  // The program's own name is whatever its caller passed: it need not be a path.
  if (::access(frame.object.c_str(), R_OK) != 0) frame.object = "/proc/self/exe";
  frame.address = reinterpret_cast<std::uintptr_t>(code) - reinterpret_cast<std::uintptr_t>(info.dli_fbase) - 1;
  if (info.dli_sname) frame.symbol = info.dli_sname;
  return frame;
}

// Skips the library's own lines: those below src and the inline functions of its headers. Also those of the sanitizers
// of GCC and clang, which are between backtrace() and its caller.
bool is_own(std::string_view line) {
  static const std::string_view here = __FILE__;
  static const std::string_view src = here.substr(0, here.rfind("graph/origin.cc"));
  return line.starts_with(src) || line.find("/include/ebb/") != std::string_view::npos ||
         line.find("/include/c++/") != std::string_view::npos ||
         line.find("/libsanitizer/") != std::string_view::npos || line.find("/compiler-rt/") != std::string_view::npos;
}

// addr2line is run once for all frames of an object; it prints one line each, "??:0" for unknown ones.
std::string line_in_source(const std::vector<Frame>& frames) {
  for (std::size_t i = 0; i < frames.size();) {
    std::size_t end = i;
    std::vector<std::string> words{"addr2line", "-e", frames[i].object};
    for (; end < frames.size() && frames[end].object == frames[i].object; ++end)
      words.push_back(fmt::format("{:#x}", frames[end].address));
    const std::string answer = frames[i].object.empty() ? "" : output_of(std::move(words));
    for (std::size_t at = 0; at < answer.size();) {
      const std::size_t stop = std::min(answer.find('\n', at), answer.size());
      std::string_view line = std::string_view(answer).substr(at, stop - at);
      line = line.substr(0, line.find(" (discriminator"));
      if (!line.starts_with("??") && !line.ends_with(":?") && !line.ends_with(":0") && !is_own(line))
        return std::string(line);
      at = stop + 1;
    }
    i = end;
  }
  return {};
}

}  // namespace

void set_origins(bool on) { detail::origins_on.store(on); }
void set_host_origin(std::string (*line)()) { host_line = line; }

void note_origin(const Node& node) {
  auto origin = std::make_shared<Origin>();
  if (host_line) origin->host = host_line();
  if (origin->host.empty()) {
    std::array<void*, kMostFrames> frames;
    const int count = ::backtrace(frames.data(), kMostFrames);
    origin->frames.assign(frames.begin(), frames.begin() + count);
  }
  Kept& all = kept();
  std::lock_guard lock(all.mutex);
  all.by_id[node.id] = std::move(origin);
  detail::origins_kept.store(static_cast<std::int64_t>(all.by_id.size()), std::memory_order_relaxed);
}

void forget_origin_kept(const Node& node) noexcept {
  Kept& all = kept();
  std::lock_guard lock(all.mutex);
  all.by_id.erase(node.id);
  detail::origins_kept.store(static_cast<std::int64_t>(all.by_id.size()), std::memory_order_relaxed);
}

OriginPtr origin_of(const Node& node) {
  Kept& all = kept();
  std::lock_guard lock(all.mutex);
  const auto found = all.by_id.find(node.id);
  return found == all.by_id.end() ? nullptr : found->second;
}

std::string place_of(const Origin& origin) {
  if (!origin.host.empty()) return origin.host;
  std::vector<Frame> frames;
  for (void* code : origin.frames) frames.push_back(frame_at(code));
  std::string line = line_in_source(frames);
  if (!line.empty()) return line;
  // No debugging information: the first frame outside the library, as far as its symbols tell.
  for (const Frame& frame : frames) {
    if (frame.object.empty() || frame.symbol.find("N3ebb") != std::string::npos ||
        frame.symbol.starts_with("_ZN3ebb") || frame.object.find("libebb") != std::string::npos)
      continue;
    return fmt::format("{}+{:#x}, compile with -g to see the line", frame.object, frame.address);
  }
  return {};
}

}  // namespace ebb
