// SPDX-License-Identifier: MIT
#include "cuda/library/cudnn.h"

#include "cuda/runtime/open_library.h"

namespace ebb::cuda {
namespace {

OptionalLibrary<Cudnn>& library() {
  static auto* const all =
      new OptionalLibrary<Cudnn>("EBB_CUDNN", {"libcudnn.so.9", "libcudnn.so"}, [](const OpenLibrary& from, Cudnn& t) {
#define EBB_LOAD(name, symbol, parameters) \
  t.name = reinterpret_cast<cudnn::Status(*) parameters>(from.function(#symbol));
        EBB_CUDNN(EBB_LOAD)
#undef EBB_LOAD
      });
  return *all;
}

}  // namespace

const Cudnn* cudnn_table() { return library().get(); }
void install_cudnn(const Cudnn* table) { library().install(table); }

}  // namespace ebb::cuda
