// SPDX-License-Identifier: MIT
#include "cuda/library/cudnn.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "cuda/runtime/open_library.h"
#include "ebb/error.h"

namespace ebb::cuda {
namespace {

std::atomic<bool> is_installed{false};
std::atomic<const Cudnn*> installed{nullptr};

const Cudnn* open_table() {
  const char* const wanted = std::getenv("EBB_CUDNN");
  if (wanted && std::string_view(wanted) == "0") return nullptr;
  const OpenLibrary library = OpenLibrary::try_open({"libcudnn.so.9", "libcudnn.so"});
  if (!library) return nullptr;
  auto* const t = new Cudnn;
  try {
#define EBB_LOAD(name, symbol, parameters) \
  t->name = reinterpret_cast<cudnn::Status(*) parameters>(library.function(#symbol));
    EBB_CUDNN(EBB_LOAD)
#undef EBB_LOAD
  } catch (const Error&) {  // an old one without these functions is as good as none
    delete t;
    return nullptr;
  }
  return t;
}

}  // namespace

const Cudnn* cudnn_table() {
  if (is_installed.load(std::memory_order_acquire)) return installed.load(std::memory_order_acquire);
  static const Cudnn* const table = open_table();
  return table;
}

void install_cudnn(const Cudnn* table) {
  installed.store(table, std::memory_order_release);
  is_installed.store(true, std::memory_order_release);
}

}  // namespace ebb::cuda
