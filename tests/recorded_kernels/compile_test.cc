// SPDX-License-Identifier: MIT
// The kernels recorded by the tests of operations, losses and networks (EBB_RECORD_KERNELS) compile for each kind of
// GPU. There are tens of thousands, 0.03 s of a core each: one in 32 is compiled, or with EBB_COMPILE_EVERY=1 all of
// them. Kernels that compiled before are skipped: a list of them is kept in the build folder.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "cuda/compile_for_gpu.h"
#include "cuda/kernel_store.h"
#include "cuda/print/sweep_text.h"

namespace ebb::testing {
namespace {

bool in_sample(const std::string& text) {
  const char* const given = std::getenv("EBB_COMPILE_EVERY");
  const unsigned long every = given ? std::strtoul(given, nullptr, 10) : 32;
  return every <= 1 || std::strtoul(KernelStore::key_of(text).substr(0, 8).c_str(), nullptr, 16) % every == 0;
}

// The texts of the files in $EBB_RECORDED_KERNELS, each once.
std::vector<cuda::KernelSource> recorded() {
  std::map<std::string, cuda::KernelSource> sources;  // by key
  const char* const files = std::getenv("EBB_RECORDED_KERNELS");
  std::istringstream list(files ? files : "");
  for (std::string path; std::getline(list, path, ':');) {
    for (cuda::KernelSource& source : KernelStore::read_texts(path))
      sources.try_emplace(KernelStore::key_of(source.text), std::move(source));
  }
  std::vector<cuda::KernelSource> all;
  for (auto& [key, source] : sources) all.push_back(std::move(source));
  return all;
}

class KnownToCompile {
 public:
  explicit KnownToCompile(const std::string& architecture) {
    int major = 0, minor = 0;
    nvrtc()->version(&major, &minor);
    path_ = fmt::format("{}/{}-{}.{}-{}", EBB_COMPILED_KERNELS, architecture, major, minor,
                        KernelStore::key_of(cuda::prelude()));
    std::filesystem::create_directories(EBB_COMPILED_KERNELS);
    std::ifstream in(path_);
    for (std::string key; in >> key;) keys_.insert(key);
  }
  bool contains(const std::string& text) const { return keys_.contains(KernelStore::key_of(text)); }
  void add(const std::vector<cuda::KernelSource>& sources) {
    std::ofstream out(path_, std::ios::app);
    for (const cuda::KernelSource& source : sources) out << KernelStore::key_of(source.text) << "\n";
  }

 private:
  std::string path_;
  std::set<std::string> keys_;
};

class RecordedKernels : public ::testing::TestWithParam<const char*> {};

TEST_P(RecordedKernels, Compile) {
  EBB_SKIP_WITHOUT_NVRTC();
  const std::string architecture = GetParam();
  if (!compile_error("__global__ void empty() {}", architecture).empty())
    GTEST_SKIP() << "this NVRTC does not know " << architecture;
  KnownToCompile known(architecture);
  std::vector<cuda::KernelSource> left;
  std::size_t all = 0;
  for (cuda::KernelSource& source : recorded()) {
    if (!is_for(source, architecture) || !in_sample(source.text)) continue;
    ++all;
    if (!known.contains(source.text)) left.push_back(std::move(source));
  }
  if (all == 0 && architecture != "sm_90a") GTEST_SKIP() << "no kernels were recorded (ctest runs what records them)";
  EXPECT_EQ(compile_errors(left, architecture, [&](const auto& some) { known.add(some); }), "");
  std::printf("%zu kernels for %s, %zu of them new\n", all, architecture.c_str(), left.size());
}

INSTANTIATE_TEST_SUITE_P(For, RecordedKernels, ::testing::Values("sm_80", "sm_90", "sm_90a", "sm_100"),
                         [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace ebb::testing
