// SPDX-License-Identifier: MIT
// Every text of a library call that tests of this program have requested compiles for one GPU, and one of each kernel
// for all kinds of them (those only for Hopper: see FusedAttention and ScaledRows). Suites with parameters run in the
// order of their files: this one comes last.
#include <set>

#include "cuda/compile_for_gpu.h"
#include "cuda/kernel_store.h"

namespace ebb::testing {
namespace {

class LibraryTexts : public ::testing::TestWithParam<const char*> {};

TEST_P(LibraryTexts, CompileForGpus) {
  EBB_SKIP_WITHOUT_NVRTC();
  std::vector<cuda::KernelSource> sources;
  std::set<std::string> kernels;
  std::size_t number = 0;
  for (const KernelStore::Asked& asked : KernelStore::get().asked()) {
    const bool printed = asked.kernel.starts_with("sweep") || asked.kernel == "finish";  // see PrintedSweeps
    if (printed || !is_for(asked.source, GetParam())) continue;
    const bool is_first = kernels.insert(asked.kernel).second;
    if (is_turn_of(GetParam(), number++) || is_first) sources.push_back(asked.source);
  }
  EXPECT_EQ(compile_errors(sources, GetParam()), "");
}

INSTANTIATE_TEST_SUITE_P(Of, LibraryTexts, ::testing::ValuesIn(kArchitectures),
                         [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace ebb::testing
