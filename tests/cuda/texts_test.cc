// SPDX-License-Identifier: MIT
// Every text of a library call that tests of this program have asked for compiles for GPUs (those for Hopper alone: see
// FusedAttention and ScaledRows). Suites with parameters run in the order of their files: this one comes last.
#include "cuda/compile_for_gpu.h"
#include "cuda/kernel_store.h"

namespace ebb::testing {
namespace {

class LibraryTexts : public ::testing::TestWithParam<const char*> {};

TEST_P(LibraryTexts, CompileForGpus) {
  EBB_SKIP_WITHOUT_NVRTC();
  std::vector<cuda::KernelSource> sources;
  for (const KernelStore::Asked& asked : KernelStore::get().asked()) {
    const bool printed = asked.kernel == "sweep" || asked.kernel == "finish";  // see PrintedSweeps
    if (!printed && is_for(asked.source, GetParam())) sources.push_back(asked.source);
  }
  EXPECT_EQ(compile_error(joined(sources), GetParam()), "");
}

INSTANTIATE_TEST_SUITE_P(Of, LibraryTexts, ::testing::ValuesIn(kArchitectures),
                         [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace ebb::testing
