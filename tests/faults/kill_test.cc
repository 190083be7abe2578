// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "ebb/ebb.h"
#include "ebb/io.h"
#include "io/file_calls.h"
#include "scratch_folder.h"

// A process that saves checkpoints is killed at each of its system calls in turn. EBB_KILLS=2000 adds as many kills at
// calls of longer runs.
namespace ebb {
namespace {

int more_kills() {
  const char* text = std::getenv("EBB_KILLS");
  return text ? std::atoi(text) : 0;
}

// Kills this process at the system call with this number: before it, or, if it is a write, after a part of the bytes.
std::int64_t calls_left = 0;
[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}
void die_at(std::int64_t call) {
  calls_left = call;
  io::file_calls = {[](const char* path, int flags) {
                      if (calls_left-- == 0) die();
                      return io::kSystemCalls.open(path, flags);
                    },
                    [](int descriptor, const void* data, std::size_t bytes) -> ssize_t {
                      if (calls_left-- != 0) return io::kSystemCalls.write(descriptor, data, bytes);
                      if (io::kSystemCalls.write(descriptor, data, bytes / 2) < 0) ::_exit(1);
                      die();
                    },
                    [](int descriptor) {
                      if (calls_left-- == 0) die();
                      return io::kSystemCalls.fsync(descriptor);
                    },
                    [](const char* from, const char* to) {
                      if (calls_left-- == 0) die();
                      return io::kSystemCalls.link(from, to);
                    },
                    [](const char* from, const char* to) {
                      if (calls_left-- == 0) die();
                      return io::kSystemCalls.rename(from, to);
                    }};
}

class Kill : public ::testing::Test {
 protected:
  Kill() { io::save_checkpoint(path_, {.parameters = {{"w", full({5000}, 0)}}, .step = 0}); }

  // A process that saves `saves` steps and is killed at its system call number `call`. False if it has fewer.
  bool kill_at(std::int64_t call, int saves) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      die_at(call);
      for (std::int64_t step = complete_ + 1; step <= complete_ + saves; ++step) {
        io::save_checkpoint(path_, {.parameters = {{"w", full({5000}, step)}}, .step = step}, {.keep_previous = true});
        if (::write(ends[1], &step, sizeof step) != sizeof step) ::_exit(1);
      }
      ::_exit(0);
    }
    ::close(ends[1]);
    for (std::int64_t step; ::read(ends[0], &step, sizeof step) == sizeof step;) complete_ = step;
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    EXPECT_TRUE(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << "call " << call << ": " << status;
    return killed;
  }

  // Completely saved files exist and are intact.
  void check(std::int64_t call) {
    const io::Checkpoint c = io::load_checkpoint(path_);
    ASSERT_TRUE(c.step == complete_ || c.step == complete_ + 1)
        << c.step << " after " << complete_ << ", call " << call;
    ASSERT_EQ(c.parameters.at("w").to_vector<float>(), std::vector<float>(5000, static_cast<float>(c.step)));
    const std::string previous = io::previous_checkpoint(path_);
    has_previous_ = has_previous_ || std::filesystem::exists(previous);
    if (has_previous_) {
      ASSERT_LT(io::load_checkpoint(previous).step, c.step) << "call " << call;
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (entry.path().extension() == ".tmp") ++in_between_, std::filesystem::remove(entry.path());
    }
    complete_ = c.step;
  }

  const ScratchFolder folder_;
  const std::string path_ = folder_ / "run.safetensors";
  std::int64_t complete_ = 0, in_between_ = 0;  // in_between_: kills that left a part of a file
  bool has_previous_ = false;                   // from the first complete save on
};

TEST_F(Kill, LosesNoCompleteCheckpoint) {
  set_num_threads(1);  // a forked process has no workers
  std::int64_t calls = 0;
  for (; kill_at(calls, 2); ++calls) check(calls);
  EXPECT_GE(calls, 8);  // of each save: a file is opened, written, synchronised and renamed, and more
  EXPECT_GE(in_between_, 4);
  EXPECT_TRUE(has_previous_);
  std::mt19937 draw(20260101);
  for (int k = 0; k < more_kills(); ++k) {
    const auto call = static_cast<std::int64_t>(draw() % static_cast<unsigned>(10 * calls));
    kill_at(call, 20);
    check(call);
  }
}

}  // namespace
}  // namespace ebb
