// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "run_program.h"
#include "scratch_folder.h"
#include "source_folder.h"

namespace ebb {
namespace {

namespace fs = std::filesystem;

TEST(DoctorCommand, SaysWhatIsThereAndHowToGetTheRest) {
  const ProgramResult r = run_ebb({"doctor"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out.find("ebb " EBB_VERSION "\n  SIMD "), 0u) << r.out;
  const nlohmann::json all = nlohmann::json::parse(run_ebb({"doctor", "--json"}).out);
  EXPECT_EQ(all["version"], EBB_VERSION);
  std::set<std::string> names;
  for (const auto& f : all["findings"]) names.insert(f["name"]);
  const std::string page = read_whole((testing::source_folder() / "docs/environment.md").string());
  for (const std::string& name : names) EXPECT_NE(page.find("\n      " + name + " "), std::string::npos) << name;
  EXPECT_TRUE(names.contains("SIMD") && names.contains("NVRTC") && names.contains("cuSOLVER") && names.contains("MPI"));
  for (const auto& f : all["findings"]) {
    const std::string text = f[f["found"] ? "what" : "cure"];
    EXPECT_FALSE(text.empty()) << f;
    EXPECT_NE(r.out.find(text), std::string::npos) << text;
  }
}

TEST(DoctorCommand, NamesTheFolderOfKernels) {
  const ScratchFolder scratch;
  const auto cache = [&](const std::string& setting) {
    return run_program({"/bin/sh", "-c", setting + " '" EBB_PROGRAM "' doctor"}).out;
  };
  EXPECT_NE(cache("XDG_CACHE_HOME=" + scratch.path()).find(scratch / "ebb/cuda"), std::string::npos);
  EXPECT_NE(cache("EBB_CUDA_CACHE_MB=0").find("switched off by EBB_CUDA_CACHE_MB=0"), std::string::npos);
  EXPECT_NE(cache("XDG_CACHE_HOME= HOME=").find("set XDG_CACHE_HOME or HOME"), std::string::npos);
}

// docs/environment.md lists every variable that the sources read: those that src requests from the system, and all
// whose names begin with EBB_.
TEST(Environment, EveryVariableIsOnThePage) {
  const fs::path root = testing::source_folder();
  const std::string page = read_whole((root / "docs/environment.md").string());
  std::set<std::string> names;
  const auto collect = [&](const std::string& text, const std::string& before, const std::string& beginning) {
    for (std::size_t at = text.find(before + beginning); at != std::string::npos;
         at = text.find(before + beginning, at + 1)) {
      const std::size_t begin = at + before.size();
      const std::string name =
          text.substr(begin, text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", begin) - begin);
      const char end = text[begin + name.size()];
      if ((end == '"' || end == '\'') && name != beginning && !name.starts_with("EBB_BUILD_")) names.insert(name);
    }
  };
  for (const char* folder : {"src", "tools", "python", "tests", "bench", "examples", "fuzz"}) {
    for (const fs::directory_entry& e : fs::recursive_directory_iterator(root / folder)) {
      const std::string end = e.path().extension().string();
      if (end != ".cc" && end != ".h" && end != ".py") continue;
      const std::string text = read_whole(e.path().string());
      if (std::string_view(folder) == "src") collect(text, "getenv(\"", "");
      collect(text, "\"", "EBB_");
      collect(text, "'", "EBB_");
    }
  }
  EXPECT_TRUE(names.contains("EBB_ORIGINS") && names.contains("EBB_CUDNN") && names.contains("HOME"));
  for (const std::string& name : names) EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << name;
}

}  // namespace
}  // namespace ebb
