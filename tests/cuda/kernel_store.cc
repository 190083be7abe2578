// SPDX-License-Identifier: MIT
#include "cuda/kernel_store.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "cuda/print/sweep_text.h"

namespace ebb::testing {
namespace {

constexpr const char* kOptions =
    " -std=c++17 -nostdinc++ -O0 -w -Wno-psabi -fPIC -ffp-contract=off -fno-exceptions -fno-rtti "
    "-fno-asynchronous-unwind-tables ";
// Kernels call functions of C and nothing else: a linker that also opens the C++ library takes five times as long.
constexpr const char* kLinked = " -nostdlib -lm -lgcc";
constexpr std::size_t kBatch = 200;     // texts
constexpr const char* kWrapping = "4";  // changes with wrapped()

// A sanitizer loaded into this program (Python's) must not be loaded into the compiler.
constexpr const char* kCompiler = "env -u LD_PRELOAD " EBB_CXX;

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Written under a temporary name first: other test programs read the same folder.
std::string temporary(const std::string& name) {
  static std::atomic<int> count{0};
  return fmt::format("{}.{}.{}", name, ::getpid(), count.fetch_add(1));
}

// Names of the kernels that a text declares: `extern "C" __global__ void __launch_bounds__(...) NAME(const TYPE a)`.
const std::string kHead = "extern \"C\" __global__", kBounds = " void __launch_bounds__(";
std::vector<std::string> kernels_of(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t at = 0; (at = text.find(kHead + kBounds, at)) != std::string::npos;) {
    at += kHead.size() + kBounds.size();  // the bounds may have parentheses of their own
    for (int depth = 1; depth > 0 && at < text.size(); ++at) depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    const std::size_t name = text.find_first_not_of(" \n", at);
    names.push_back(text.substr(name, text.find('(', name) - name));
  }
  return names;
}

std::string wrapped(const std::string& text, int number) {
  std::string body = text;
  for (std::size_t at = 0; (at = body.find(kHead, at)) != std::string::npos;) body.replace(at, kHead.size(), "static");
  std::string out = fmt::format(
      "#undef EBB_SHARED_SECTION\n#define EBB_SHARED_SECTION \"ebb_shared_{0}\"\n"
      "extern \"C\" char __start_ebb_shared_{0}[] __attribute__((weak, visibility(\"hidden\")));\n"
      "extern \"C\" char __stop_ebb_shared_{0}[] __attribute__((weak, visibility(\"hidden\")));\n"
      "namespace k{0} {{\n{1}\n",
      number, body);
  for (const std::string& name : kernels_of(text)) {
    out += fmt::format(
        "extern \"C\" int run_{0}_{1}(unsigned blocks, unsigned threads, unsigned shared, const void* args, "
        "unsigned long long seed) {{\n"
        "  using Args = decltype(emulated::argument_of({1}));\n"
        "  if (!args) return sizeof(Args);\n"
        "  return emulated::launch([](const void* a) {{ {1}(*static_cast<const Args*>(a)); }}, blocks, threads, "
        "__start_ebb_shared_{0}, __stop_ebb_shared_{0}, shared, args, seed);\n}}\n",
        number, name);
  }
  return out + "}\n";
}

}  // namespace

std::string KernelStore::key_of(const std::string& bytes) {
  std::uint64_t h[2] = {0xCBF29CE484222325u, 0x9E3779B97F4A7C15u};
  for (const char c : bytes) {
    h[0] = (h[0] ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
    h[1] = (h[1] + static_cast<unsigned char>(c)) * 0xD6E8FEB86659FD93u;
    h[1] ^= h[1] >> 29;
  }
  return fmt::format("{:016x}{:016x}", h[0], h[1]);
}

KernelStore& KernelStore::get() {
  static auto* const store = new KernelStore;
  return *store;
}

KernelStore::KernelStore() {
  namespace fs = std::filesystem;
  const std::string header = EBB_EMULATED_HEADER;
  const std::string base = std::string(EBB_CXX) + kOptions + kWrapping + read_all(header) + cuda::prelude();
  folder_ = (fs::path(EBB_KERNEL_STORE) / key_of(base).substr(0, 16)).string();
  fs::create_directories(folder_);
  const std::string prelude = folder_ + "/prelude.h";
  if (!fs::exists(prelude + ".gch")) {
    const std::string source = temporary(prelude), made = temporary(prelude + ".gch");
    std::ofstream(source) << "#include \"" << header << "\"\n" << cuda::prelude();
    fs::rename(source, prelude);
    if (std::system((kCompiler + std::string(kOptions) + "-x c++-header " + prelude + " -o " + made).c_str()) == 0)
      fs::rename(made, prelude + ".gch");
  }
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (entry.path().extension() == ".index") read_index(entry.path().string());
  }
}

void KernelStore::read_index(const std::string& path) {
  std::ifstream in(path);
  std::string key;
  for (int number = 0; in >> key; ++number)
    places_[key] = {std::filesystem::path(path).replace_extension(".so").string(), number};
}

bool KernelStore::compile(const std::vector<Source>& sources) {
  std::string source = "#include \"prelude.h\"\n", index;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    source += wrapped(sources[i].text, static_cast<int>(i));
    index += key_of(sources[i].text) + "\n";
  }
  const std::string name = folder_ + "/" + key_of(source);
  const std::string file = temporary(name) + ".cc", library = temporary(name + ".so"), list = temporary(name + ".list");
  std::ofstream(file) << source;
  const std::string command = kCompiler + std::string(kOptions) + "-shared -o " + library + " " + file + kLinked;
  const bool good = std::system(command.c_str()) == 0;
  if (!good) {
    fmt::print(stderr, "{} failed; the source is {}\n", command, file);
    return false;
  }
  std::filesystem::remove(file);
  std::ofstream(list) << index;
  std::filesystem::rename(library, name + ".so");
  std::filesystem::rename(list, name + ".index");
  std::lock_guard guard(mutex_);
  read_index(name + ".index");
  return true;
}

void KernelStore::prepare(const std::vector<Source>& sources) {
  std::vector<Source> missing;
  {
    std::lock_guard guard(mutex_);
    std::set<std::string> seen;
    for (const Source& source : sources) {
      if (const std::string key = key_of(source.text); !places_.contains(key) && seen.insert(key).second)
        missing.push_back(source);
    }
  }
  std::vector<std::vector<Source>> batches((missing.size() + kBatch - 1) / kBatch);
  for (std::size_t i = 0; i < missing.size(); ++i) batches[i % batches.size()].push_back(std::move(missing[i]));
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> workers;
  for (unsigned w = 0; w < std::max(1u, std::thread::hardware_concurrency()); ++w) {
    workers.emplace_back([&] {
      for (std::size_t b = next++; b < batches.size(); b = next++) compile(batches[b]);
    });
  }
  for (std::thread& w : workers) w.join();
}

void* KernelStore::kernel(const Source& source, const std::string& name) {
  const std::string key = key_of(source.text);
  std::unique_lock lock(mutex_);
  asked_.try_emplace(key, Asked{source, name});
  auto it = places_.find(key);
  if (it == places_.end()) {
    ++compiled_alone_;
    lock.unlock();
    if (!compile({source})) return nullptr;
    lock.lock();
    it = places_.find(key);
  }
  void*& library = libraries_[it->second.library];
  if (!library) library = dlopen(it->second.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  return library ? dlsym(library, fmt::format("run_{}_{}", it->second.number, name).c_str()) : nullptr;
}

std::vector<KernelStore::Asked> KernelStore::asked() {
  std::lock_guard guard(mutex_);
  std::vector<Asked> all;
  for (const auto& [key, asked] : asked_) all.push_back(asked);
  return all;
}

// A text in a file: its length, whether it has products of warpgroups, and itself.
std::vector<KernelStore::Source> KernelStore::read_texts(const std::string& path) {
  std::vector<Source> sources;
  std::ifstream in(path, std::ios::binary);
  bool warpgroups = false;
  for (std::size_t bytes = 0; in >> bytes >> warpgroups && in.get() == '\n';) {
    std::string text(bytes, '\0');
    if (!in.read(text.data(), static_cast<std::streamsize>(bytes))) break;
    sources.push_back({.text = std::move(text), .warpgroups = warpgroups});
  }
  return sources;
}

void KernelStore::add_text(const std::string& path, const Source& source) {
  static auto* const mutex = new std::mutex;
  static auto* const seen = new std::set<std::string>;
  std::lock_guard guard(*mutex);
  if (!seen->insert(key_of(source.text)).second) return;
  std::ofstream(path, std::ios::binary | (seen->size() == 1 ? std::ios::trunc : std::ios::app))
      << source.text.size() << " " << source.warpgroups << "\n"
      << source.text;
}

}  // namespace ebb::testing
