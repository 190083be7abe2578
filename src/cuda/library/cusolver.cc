// SPDX-License-Identifier: MIT
#include "cuda/library/cusolver.h"

#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cuda/runtime/open_library.h"
#include "ebb/error.h"

namespace ebb::cuda {
namespace {

std::atomic<bool> is_installed{false};
std::atomic<const Cusolver*> installed{nullptr};

const Cusolver* open_table() {
  const char* const wanted = std::getenv("EBB_CUSOLVER");
  if (wanted && std::string_view(wanted) == "0") return nullptr;
  const OpenLibrary library = OpenLibrary::try_open({"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"});
  if (!library) return nullptr;
  auto* const t = new Cusolver;
  try {
#define EBB_LOAD(name, symbol, parameters) \
  t->name = reinterpret_cast<cusolver::Status(*) parameters>(library.function(#symbol));
    EBB_CUSOLVER(EBB_LOAD)
#undef EBB_LOAD
    for (const bool wide : {false, true}) {
      cusolver::OfType& of_type = wide ? t->f64 : t->f32;
      const std::string head = wide ? "cusolverDnD" : "cusolverDnS";
#define EBB_LOAD(name, symbol, parameters) \
  of_type.name = reinterpret_cast<cusolver::Status(*) parameters>(library.function((head + #symbol).c_str()));
      EBB_CUSOLVER_OF_TYPE(EBB_LOAD)
#undef EBB_LOAD
    }
  } catch (const Error&) {  // an old one without these functions is as good as none
    delete t;
    return nullptr;
  }
  return t;
}

}  // namespace

const Cusolver* cusolver_table() {
  if (is_installed.load(std::memory_order_acquire)) return installed.load(std::memory_order_acquire);
  static const Cusolver* const table = open_table();
  return table;
}

void install_cusolver(const Cusolver* table) {
  installed.store(table, std::memory_order_release);
  is_installed.store(true, std::memory_order_release);
}

}  // namespace ebb::cuda
