// SPDX-License-Identifier: MIT
#include "cuda/library/cublaslt.h"

#include <atomic>

#include "core/format_error.h"
#include "cuda/runtime/open_library.h"

namespace ebb::cuda {
namespace {
std::atomic<const Lt*> installed_lt_table{nullptr};
}  // namespace

const Lt& lt() {
  if (const Lt* const t = installed_lt_table.load(std::memory_order_acquire)) return *t;
  static const Lt* const table = [] {
    const OpenLibrary library = OpenLibrary::open("cuBLASLt, which multiplies matrices,",
                                                  {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"},
                                                  "install the CUDA toolkit, or `pip install nvidia-cublas`");
    auto* t = new Lt;
#define EBB_LOAD(name, symbol, parameters) t->name = reinterpret_cast<Status(*) parameters>(library.function(#symbol));
    EBB_CUBLASLT(EBB_LOAD)
#undef EBB_LOAD
    require(t->create(&t->handle) == 0, "cuda: cuBLASLt does not start");
    return t;
  }();
  return *table;
}

void install_lt(const Lt& table) { installed_lt_table.store(new Lt(table), std::memory_order_release); }

}  // namespace ebb::cuda
