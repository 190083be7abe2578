// SPDX-License-Identifier: MIT
// Kernels on disk: whatever is wrong with a file there, the kernel is recompiled and the code is correct.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <set>

#include "cuda/runtime/driver.h"
#include "cuda/runtime/kernel_cache.h"
#include "emulated_device.h"
#include "scratch_folder.h"

namespace ebb::testing {
namespace {

namespace fs = std::filesystem;

fs::path cache() { return fs::path(std::getenv("XDG_CACHE_HOME")) / "ebb" / "cuda"; }

// Every test has a folder of its own, and a kernel that this process has not requested yet.
class KernelCache : public ::testing::Test {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();  // keeps nothing there
    for (auto& [name, value] : before_) value = std::getenv(name) ? std::getenv(name) : "";
    setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
    setenv("EBB_CUDA_CACHE_MB", "64", 1);
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) setenv(name, value.c_str(), 1);
  }

  static std::string next_kernel() {
    static int count = 0;
    return "extern \"C\" __global__ void cached_kernel_" + std::to_string(count++) + "() {}\n";
  }
  static std::string code(const std::string& kernel, int spill_blocks = 0) {
    return cuda::machine_code(kernel, "sm_90", spill_blocks);
  }

  // In processes of their own, all at once.
  static void compile_in_other_processes(const std::string& kernel, int count) {
    std::vector<pid_t> children;
    for (int k = 0; k < count; ++k) {
      const pid_t child = ::fork();
      if (child == 0) ::_exit(code(kernel).empty() ? 1 : 0);
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int status = -1;
      ::waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
  }

  static std::set<fs::path> files() {
    std::set<fs::path> all;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(cache(), none)) all.insert(entry.path());
    return all;
  }

  // The code of a kernel whose file was changed by `damage`; whether it came from the disk.
  template <class Damage>
  static bool from_disk_after(Damage&& damage, std::string* result = nullptr) {
    const std::string kernel = next_kernel();
    const std::set<fs::path> old = files();
    compile_in_other_processes(kernel, 1);
    for (const fs::path& path : files()) {
      if (!old.contains(path)) damage(path);
    }
    const cuda::CompileStats stats = cuda::compile_stats();
    const std::string made = code(kernel);
    if (device_is_emulated()) {
      EXPECT_NE(made.find(kernel), std::string::npos);
    }
    EXPECT_FALSE(made.empty());
    if (result) *result = made;
    const cuda::CompileStats now = cuda::compile_stats();
    EXPECT_EQ(now.compiled + now.from_disk, stats.compiled + stats.from_disk + 1);
    return now.from_disk > stats.from_disk;
  }

  ScratchFolder folder_;
  std::pair<const char*, std::string> before_[2] = {{"XDG_CACHE_HOME", ""}, {"EBB_CUDA_CACHE_MB", ""}};
};

TEST_F(KernelCache, AnotherProcessReadsIt) {
  EXPECT_TRUE(from_disk_after([](const fs::path&) {}));
}

TEST_F(KernelCache, DamagedFilesAreCompiledAgain) {
  std::mt19937 draw(3);
  for (int k = 0; k < 60; ++k) {
    EXPECT_FALSE(from_disk_after([&](const fs::path& path) {
      std::string bytes = read_whole(path);
      bytes[draw() % bytes.size()] ^= static_cast<char>(1 << draw() % 8);
      write_whole(path, bytes);
    })) << k;
  }
}

TEST_F(KernelCache, TruncatedAndLengthenedFilesAreCompiledAgain) {
  for (const std::size_t length : {0, 1, 8, 39, 40, 41, 100}) {
    EXPECT_FALSE(from_disk_after([&](const fs::path& path) { fs::resize_file(path, length); })) << length;
  }
  EXPECT_FALSE(from_disk_after([&](const fs::path& path) { write_whole(path, read_whole(path) + "x"); }));
}

TEST_F(KernelCache, AnotherKernelsFileIsNotTakenForThisOne) {
  fs::path first;
  from_disk_after([&](const fs::path& path) { first = path; });
  EXPECT_FALSE(
      from_disk_after([&](const fs::path& path) { fs::copy_file(first, path, fs::copy_options::overwrite_existing); }));
}

TEST_F(KernelCache, AFolderInTheFilesPlaceAndOneThatCannotBeMadeDoNoHarm) {
  EXPECT_FALSE(from_disk_after([&](const fs::path& path) {
    fs::remove(path);
    fs::create_directory(path);
  }));
  write_whole(folder_ / "file", "");
  setenv("XDG_CACHE_HOME", (folder_ / "file").c_str(), 1);  // a file where a folder is wanted
  EXPECT_FALSE(from_disk_after([](const fs::path&) {}));
}

TEST_F(KernelCache, APipeInTheFilesPlaceIsNotWaitedFor) {
  EXPECT_FALSE(from_disk_after([&](const fs::path& path) {
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  }));
}

TEST_F(KernelCache, TheFolderIsPrivateWhateverTheUmaskIs) {
  const mode_t before = ::umask(0);
  EXPECT_TRUE(from_disk_after([](const fs::path&) {}));
  ::umask(before);
  EXPECT_EQ(fs::status(cache()).permissions(), fs::perms::owner_all);
}

TEST_F(KernelCache, AFolderThatOthersCanWriteToIsNotUsed) {
  for (const fs::perms others : {fs::perms::group_write, fs::perms::others_write}) {
    fs::create_directories(cache());
    fs::permissions(cache(), fs::perms::owner_all | others);
    EXPECT_FALSE(from_disk_after([](const fs::path&) {}));
    EXPECT_TRUE(files().empty());
  }
  fs::permissions(cache(), fs::perms::owner_all);
  EXPECT_TRUE(from_disk_after([](const fs::path&) {}));
}

TEST_F(KernelCache, AFolderAndAFileOfSomebodyElseAreNotUsed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  EXPECT_FALSE(from_disk_after([](const fs::path& path) { EXPECT_EQ(::chown(path.c_str(), 12345, 12345), 0); }));
  EXPECT_EQ(::chown(cache().c_str(), 12345, 12345), 0);
  EXPECT_FALSE(from_disk_after([](const fs::path&) {}));
  EXPECT_EQ(::chown(cache().c_str(), ::geteuid(), ::getegid()), 0);
  const fs::path elsewhere = fs::path(folder_.path()) / "elsewhere";
  fs::rename(cache(), elsewhere);
  fs::create_directory_symlink(elsewhere, cache());
  EXPECT_FALSE(from_disk_after([](const fs::path&) {}));
}

// A compiler that reports fewer spilled bytes for fewer blocks: blocks give way to registers, down to two blocks per
// multiprocessor.
TEST_F(KernelCache, BlocksMakeRoomForRegistersThatSpill) {
  static std::vector<int> spills;
  static int fewer;
  const auto compiled_with = [](std::vector<int> bytes, int spill_blocks) {
    spills = std::move(bytes);
    const std::string text = next_kernel();
    int status = -1;
    if (const pid_t child = ::fork(); child == 0) {  // replacements stay in the child
      cuda::Compiler c = cuda::compiler();
      c.compile = [](cuda::RtcProgram, int count, const char* const* options) {
        const std::string_view last = options[count - 1], name = "--define-macro=FEWER=";
        if (!last.starts_with(name)) ::_exit(100);
        fewer = std::atoi(last.substr(name.size()).data());
        return cuda::kSuccess;
      };
      static std::string log;
      c.log_size = [](cuda::RtcProgram, std::size_t* bytes_of_log) {
        log =
            "ptxas info : Compiling entry function 'finish'\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes "
            "spill "
            "loads\nptxas info : Compiling entry function 'sweep'\n    8 bytes stack frame, " +
            std::to_string(spills[static_cast<std::size_t>(fewer)]) + " bytes spill stores, 64 bytes spill loads\n";
        *bytes_of_log = log.size() + 1;
        return cuda::kSuccess;
      };
      c.log = [](cuda::RtcProgram, char* to) {
        std::memcpy(to, log.c_str(), log.size() + 1);
        return cuda::kSuccess;
      };
      c.code_size = [](cuda::RtcProgram, std::size_t* bytes_of_code) {
        *bytes_of_code = 1;
        return cuda::kSuccess;
      };
      c.code = [](cuda::RtcProgram, char* to) {
        *to = 'x';
        return cuda::kSuccess;
      };
      cuda::install_driver(cuda::driver(), c);
      code(text, spill_blocks);
      ::_exit(fewer);
    } else {
      ::waitpid(child, &status, 0);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(compiled_with({0, 0, 0}, 4), 0);
  EXPECT_EQ(compiled_with({16, 0, 0}, 4), 0);  // a few bytes are no reason
  EXPECT_EQ(compiled_with({128, 8, 0}, 4), 1);
  EXPECT_EQ(compiled_with({128, 40, 0}, 4), 2);
  EXPECT_EQ(compiled_with({400, 300, 200, 100}, 4), 2);
  EXPECT_EQ(compiled_with({400, 300, 200, 100}, 3), 1);
  EXPECT_EQ(compiled_with({400, 300, 200, 100}, 0), 0);
}

TEST_F(KernelCache, ManyProcessesMayWriteTheSameKernelAtOnce) {
  for (int k = 0; k < 10; ++k) {
    const std::string kernel = next_kernel();
    const std::size_t before = files().size();
    compile_in_other_processes(kernel, 8);
    EXPECT_EQ(files().size(), before + 1);  // nothing half-written is left
    const long from_disk = cuda::compile_stats().from_disk;
    code(kernel);
    EXPECT_EQ(cuda::compile_stats().from_disk, from_disk + 1);
  }
}

}  // namespace
}  // namespace ebb::testing
