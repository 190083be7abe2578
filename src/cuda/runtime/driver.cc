// SPDX-License-Identifier: MIT
#include "cuda/runtime/driver.h"

#include <atomic>
#include <csignal>
#include <deque>
#include <memory>

#include "core/format_error.h"
#include "cuda/runtime/open_library.h"

namespace ebb::cuda {
namespace {

std::atomic<const Driver*> installed_driver{nullptr};
std::atomic<const Compiler*> installed_compiler{nullptr};

std::string reason_for_no_driver;

const Driver* load_driver() {
  const OpenLibrary library = OpenLibrary::try_open({"libcuda.so.1", "libcuda.so"});
  if (!library) {
    reason_for_no_driver = "no NVIDIA driver (libcuda.so.1) was found";
    return nullptr;
  }
  auto d = std::make_unique<Driver>();
#define EBB_LOAD(name, symbol, parameters) d->name = reinterpret_cast<Result(*) parameters>(library.function(#symbol));
  EBB_CUDA_DRIVER(EBB_LOAD)
  const Result started = d->init(0);
  if (started == kSuccess) return d.release();
  const char* text = nullptr;
  d->error_text(started, &text);
  reason_for_no_driver = fmt::format("the NVIDIA driver does not start: {}", text ? text : std::to_string(started));
  return nullptr;
}

// While NVRTC compiles, it would handle SIGINT and SIGTERM in place of the program, by calling exit() at an arbitrary
// point of the program.
using Handler = void (*)(int);
Handler no_handler(int, Handler) { return SIG_IGN; }

const Compiler* load_compiler() {
  const OpenLibrary library =
      OpenLibrary::open("NVRTC, the compiler of kernels,", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
                        "install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc`");
  library.redirect("signal", reinterpret_cast<void*>(&no_handler));
  auto c = std::make_unique<Compiler>();
#define EBB_LOAD_C(name, symbol, parameters) \
  c->name = reinterpret_cast<Result(*) parameters>(library.function(#symbol));
  EBB_CUDA_COMPILER(EBB_LOAD_C)
  return c.release();
}

}  // namespace

const Driver* find_driver() {
  if (const Driver* d = installed_driver.load(std::memory_order_acquire)) return d;
  static const Driver* const loaded = load_driver();
  return loaded;
}

std::string no_driver() {
  find_driver();
  return reason_for_no_driver;
}

const Driver& driver() {
  const Driver* const d = find_driver();
  require(d != nullptr, "cuda: {}", no_driver());
  return *d;
}

const Compiler& compiler() {
  if (const Compiler* c = installed_compiler.load(std::memory_order_acquire)) return *c;
  static const Compiler* const loaded = load_compiler();
  return *loaded;
}

void install_driver(const Driver& driver, const Compiler& compiler) {
  // A thread may still be calling through an earlier table.
  static auto* const drivers = new std::deque<Driver>;
  static auto* const compilers = new std::deque<Compiler>;
  installed_compiler.store(&compilers->emplace_back(compiler), std::memory_order_release);
  installed_driver.store(&drivers->emplace_back(driver), std::memory_order_release);
}

void check(Result result, const char* call) {
  if (result == kSuccess) return;
  const char *name = nullptr, *text = nullptr;
  driver().error_name(result, &name);
  driver().error_text(result, &text);
  fail(result == kOutOfMemory ? Error::Kind::memory : Error::Kind::value, "cuda: {} failed: {} ({})", call,
       text ? text : "unknown error", name ? name : std::to_string(result));
}

}  // namespace ebb::cuda
