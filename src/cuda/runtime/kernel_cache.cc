// SPDX-License-Identifier: MIT
#include "cuda/runtime/kernel_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/format_error.h"
#include "cuda/plan/gpu_model.h"
#include "cuda/print/sweep_text.h"
#include "cuda/runtime/compiler_use.h"
#include "cuda/runtime/driver.h"

namespace ebb::cuda {
namespace {

constexpr const char* kOptions[] = {"--std=c++17", "--fmad=false",       "--prec-div=true",   "--prec-sqrt=true",
                                    "--ftz=false", "--disable-warnings", "--ptxas-options=-v"};

std::uint64_t hash(const std::string& bytes, std::uint64_t seed) {  // FNV-1a, mixed
  std::uint64_t h = 0xCBF29CE484222325u ^ seed;
  for (const char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  h ^= h >> 32;
  return h * 0x9E3779B97F4A7C15u;
}

// In bytes. Set by EBB_CUDA_CACHE_MB; 0: nothing is kept on disk.
std::uintmax_t size_limit() {
  const char* const megabytes = std::getenv("EBB_CUDA_CACHE_MB");
  return (megabytes && *megabytes ? std::strtoull(megabytes, nullptr, 10) : 512) << 20;
}

// Code from there is run: the folder must belong to this user and be writable by no other. Empty otherwise.
std::filesystem::path folder() {
  if (size_limit() == 0) return {};
  std::filesystem::path in;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) {
    in = cache;
  } else if (const char* home = std::getenv("HOME"); home && *home) {
    in = std::filesystem::path(home) / ".cache";
  } else {
    return {};
  }
  in = in / "ebb" / "cuda";
  struct stat info {};
  if (::lstat(in.c_str(), &info) != 0) {
    std::error_code none;
    std::filesystem::create_directories(in.parent_path(), none);
    ::mkdir(in.c_str(), 0700);
  }
  const bool ours = ::lstat(in.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
                    (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  return ours ? in : std::filesystem::path{};
}

// Removes the least recently used files until the rest is within three quarters of the limit.
void trim(const std::filesystem::path& in) {
  namespace fs = std::filesystem;
  struct File {
    fs::file_time_type used;
    std::uintmax_t bytes;
    fs::path path;
  };
  std::error_code none;
  std::vector<File> files;
  std::uintmax_t total = 0;
  for (const auto& entry : fs::directory_iterator(in, none)) {
    if (!entry.is_regular_file(none)) continue;
    files.push_back({entry.last_write_time(none), entry.file_size(none), entry.path()});
    total += files.back().bytes;
  }
  if (total <= size_limit()) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& f : files) {
    if (total <= size_limit() / 4 * 3) break;
    if (fs::remove(f.path, none)) total -= f.bytes;
  }
}

// A file: magic, the whole key again, the code's checksum and length, the code. A file with other contents is
// ignored.
constexpr std::uint64_t kMagic = 0x3161'6475'6362'6265u;  // "ebbcuda1"
struct Header {
  std::uint64_t magic = kMagic, key_low = 0, key_high = 0, checksum = 0, bytes = 0;
};

}  // namespace

std::string read_kernel_file(const std::filesystem::path& path, KernelKey key) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // does not wait for a pipe's writer
  if (file < 0) return {};
  const auto read = [&](void* to, std::size_t bytes) {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t n = ::read(file, at, bytes);
      if (n <= 0 && !(n < 0 && errno == EINTR)) return false;
      if (n > 0) at += n, bytes -= static_cast<std::size_t>(n);
    }
    return true;
  };
  std::string code;
  Header h;
  struct stat info {};
  if (::fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() && read(&h, sizeof h) &&
      h.magic == kMagic && h.key_low == key.low && h.key_high == key.high &&
      h.bytes == static_cast<std::uint64_t>(info.st_size) - sizeof h) {
    code.resize(h.bytes);
    if (!read(code.data(), code.size()) || hash(code, 1) != h.checksum) code.clear();
  }
  if (!code.empty()) ::futimens(file, nullptr);  // for trim()
  ::close(file);
  return code;
}

namespace {

// Written under a temporary name first, so that no process reads half a file. Failing only costs the next process time.
void write_file(const std::filesystem::path& path, KernelKey key, const std::string& code) {
  static std::atomic<unsigned> count{0};
  std::error_code none;
  const std::filesystem::path temporary = path.string() + fmt::format(".{}.{}", ::getpid(), count.fetch_add(1));
  const Header h{kMagic, key.low, key.high, hash(code, 1), code.size()};
  bool whole = false;
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(&h), sizeof h);
    out.write(code.data(), static_cast<std::streamsize>(code.size()));
    out.flush();
    whole = out.good();
  }
  if (whole) std::filesystem::rename(temporary, path, none);
  if (!whole || none) std::filesystem::remove(temporary, none);
  static std::atomic<unsigned> written{0};
  if (written.fetch_add(1) % 64 == 0) trim(path.parent_path());
}

std::mutex stats_mutex;
CompileStats stats;

// The most that any kernel spills, from the assembler's log.
int spilled_bytes(const std::string& log) {
  static constexpr std::string_view kWords = " bytes spill stores";
  int most = 0;
  for (std::size_t at = log.find(kWords); at != std::string::npos; at = log.find(kWords, at + 1)) {
    std::size_t first = at;
    while (first > 0 && std::isdigit(static_cast<unsigned char>(log[first - 1]))) --first;
    most = std::max(most, std::atoi(log.c_str() + first));
  }
  return most;
}

struct Compiled {
  std::string code, log;
};
Compiled compile_with(const std::string& source, const std::string& architecture, int fewer_blocks) {
  const Compiler& c = compiler();
  RtcProgram program = nullptr;
  require(c.create(&program, source.c_str(), "sweep.cu", 0, nullptr, nullptr) == kSuccess,
          "cuda: NVRTC takes no program");
  std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
  const std::string target = "--gpu-architecture=" + architecture;
  const std::string fewer = fmt::format("--define-macro=FEWER={}", fewer_blocks);
  options.insert(options.end(), {target.c_str(), fewer.c_str()});
  const Result result = c.compile(program, static_cast<int>(options.size()), options.data());
  Compiled made;
  std::size_t bytes = 0;
  if (result == kSuccess && c.code_size(program, &bytes) == kSuccess) {
    made.code.resize(bytes);
    c.code(program, made.code.data());
  }
  if (c.log_size(program, &bytes) == kSuccess) {
    made.log.resize(bytes);
    c.log(program, made.log.data());
  }
  c.destroy(&program);
  return made;
}

std::string compile(const std::string& source, const std::string& architecture, int spill_blocks) {
  const auto start = std::chrono::steady_clock::now();
  Compiled made = compile_with(source, architecture, 0);
  for (int fewer = 1; spill_blocks - fewer >= 2 && spilled_bytes(made.log) > GpuModel::few_spilled_bytes; ++fewer)
    made = compile_with(source, architecture, fewer);
  if (made.code.empty())
    fail(Error::Kind::value, "internal: NVRTC does not compile a kernel for {}: {}\n{}", architecture, made.log,
         source);
  std::lock_guard guard(stats_mutex);
  ++stats.compiled;
  stats.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return std::move(made.code);
}

std::string make_code(const std::string& text, const std::string& architecture, int spill_blocks) {
  const CompilerUse use;
  const std::string source = prelude() + text;
  int major = 0, minor = 0;
  compiler().version(&major, &minor);
  std::string key = fmt::format("{} {}.{} {}", architecture, major, minor, GpuModel::few_spilled_bytes);
  for (const char* option : kOptions) key += std::string(" ") + option;
  key += "\n" + source;
  const KernelKey hashed{hash(key, 2), hash(key, 3)};
  const std::filesystem::path in = folder();
  const std::filesystem::path path = in / fmt::format("{:016x}{:016x}", hashed.high, hashed.low);
  if (!in.empty()) {
    std::string code = read_kernel_file(path, hashed);
    if (!code.empty()) {
      std::lock_guard guard(stats_mutex);
      ++stats.from_disk;
      return code;
    }
  }
  std::string code = compile(source, architecture, spill_blocks);
  if (!in.empty()) write_file(path, hashed, code);
  return code;
}

}  // namespace

std::string machine_code(const std::string& text, const std::string& architecture, int spill_blocks) {
  static auto* const mutex = new std::mutex;
  static auto* const made = new std::map<std::string, std::shared_future<std::string>>;
  std::promise<std::string> mine;
  std::shared_future<std::string> code;
  bool first = false;
  {
    std::lock_guard guard(*mutex);
    const auto [it, fresh] = made->try_emplace(architecture + "\n" + text);
    if (fresh) it->second = mine.get_future().share();
    code = it->second;
    first = fresh;
  }
  if (first) {
    try {
      mine.set_value(make_code(text, architecture, spill_blocks));
    } catch (...) {
      mine.set_exception(std::current_exception());
    }
  }
  return code.get();
}

CompileStats compile_stats() {
  std::lock_guard guard(stats_mutex);
  return stats;
}

}  // namespace ebb::cuda
