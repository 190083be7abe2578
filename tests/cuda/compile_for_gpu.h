// SPDX-License-Identifier: MIT
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cuda/print/sweep_text.h"
#include "cuda/runtime/driver.h"
#include "cuda/runtime/kernel_source.h"
#include "cuda/runtime/open_library.h"

namespace ebb::testing {

// NVRTC's own table of functions, not one that the emulated device may have installed. Null if NVRTC is
// unavailable.
inline const cuda::Compiler* nvrtc() {
  using namespace cuda;
  static const Compiler* const found = []() -> const Compiler* {
    const auto library = OpenLibrary::try_open({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
    if (!library) return nullptr;
    auto* const c = new Compiler;
#define EBB_LOAD(name, symbol, parameters) c->name = reinterpret_cast<Result(*) parameters>(library.function(#symbol));
    EBB_CUDA_COMPILER(EBB_LOAD)
#undef EBB_LOAD
    return c;
  }();
  return found;
}

#define EBB_SKIP_WITHOUT_NVRTC() \
  if (!::ebb::testing::nvrtc()) GTEST_SKIP() << "NVRTC was not found (pip install nvidia-cuda-nvrtc)"

// NVRTC's error for a text on this architecture; empty if it compiles. Only if NVRTC is available.
inline std::string compile_error(const std::string& source, const std::string& architecture, const char* optimising) {
  using namespace cuda;
  const Compiler& c = *nvrtc();
  RtcProgram program = nullptr;
  if (c.create(&program, source.c_str(), "text.cu", 0, nullptr, nullptr) != kSuccess) return "no program was made";
  const std::string target = "--gpu-architecture=" + architecture;
  const char* const options[] = {target.c_str(), "--std=c++17", "--fmad=false", optimising};
  std::string log;
  if (c.compile(program, optimising ? 4 : 3, options) != kSuccess) {
    std::size_t bytes = 0;
    c.log_size(program, &bytes);
    log.resize(bytes);
    c.log(program, log.data());
    log = architecture + "\n" + log.substr(0, 4000);
  }
  c.destroy(&program);
  return log;
}

// The result is never run, so it need not be fast: without optimisation three texts of library calls took 0.25 s
// instead of 3.6. NVRTC before 12.9 has no such option.
inline std::string compile_error(const std::string& source, const std::string& architecture) {
  static constexpr const char* kFast = "--Ofast-compile=max";
  static const bool is_known = compile_error("__global__ void empty() {}", "sm_80", kFast).empty();
  return compile_error(source, architecture, is_known ? kFast : nullptr);
}

// One program of many texts (without the prelude).
inline std::string joined(const std::vector<cuda::KernelSource>& sources) {
  const std::string head = "extern \"C\" __global__";
  std::string source = cuda::prelude();
  for (std::size_t k = 0; k < sources.size(); ++k) {
    std::string text = sources[k].text;
    for (std::size_t at = 0; (at = text.find(head, at)) != std::string::npos;)
      text.replace(at, head.size(), "__global__");
    source += "namespace k" + std::to_string(k) + " {\n" + text + "\n}\n";
  }
  return source;
}

// NVRTC's errors for the texts, compiled in programs of several and on all cores: NVRTC's memory grows faster than a
// program (all of test_cuda's took it 6 GB), and every program begins with the prelude. Calls `took` with those that
// compiled.
inline std::string compile_errors(
    const std::vector<cuda::KernelSource>& sources, const std::string& architecture,
    const std::function<void(const std::vector<cuda::KernelSource>&)>& took = [](const auto&) {}) {
  constexpr std::size_t kTexts = 40;  // of a program
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::string errors;
  std::vector<std::thread> workers;
  for (unsigned w = 0; w < std::max(1u, std::thread::hardware_concurrency()); ++w) {
    workers.emplace_back([&] {
      for (std::size_t first = kTexts * next++; first < sources.size(); first = kTexts * next++) {
        const auto begin = sources.begin() + static_cast<std::ptrdiff_t>(first);
        const auto end = sources.begin() + static_cast<std::ptrdiff_t>(std::min(first + kTexts, sources.size()));
        const std::vector<cuda::KernelSource> some(begin, end);
        const std::string error = compile_error(joined(some), architecture);
        const std::lock_guard guard(mutex);
        if (error.empty()) took(some);
        errors += error;
      }
    });
  }
  for (std::thread& w : workers) w.join();
  return errors;
}

// Products of warpgroups are instructions of sm_90a alone; all other texts are for every GPU.
inline bool is_for(const cuda::KernelSource& source, const std::string& architecture) {
  return source.warpgroups == (architecture == "sm_90a");
}

inline constexpr const char* kArchitectures[] = {"sm_80", "sm_90", "sm_100"};

// NVRTC takes 0.1 s per text and architecture. Texts of one kernel differ in types and sizes, which do not depend on
// the GPU, so each is compiled for one of them.
inline bool is_turn_of(std::string_view architecture, std::size_t text) {
  return architecture == kArchitectures[text % std::size(kArchitectures)];
}

}  // namespace ebb::testing
