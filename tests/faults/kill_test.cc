#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "ebb/ebb.h"
#include "ebb/io.h"
#include "scratch_folder.h"

// A process that does nothing but save checkpoints is killed at any moment. EBB_KILLS=2000 does it that often.
namespace ebb {
namespace {

int kills() {
  const char* text = std::getenv("EBB_KILLS");
  return text ? std::atoi(text) : 200;
}

// Saves step after step and says through the pipe which one is complete.
[[noreturn]] void save_without_end(const std::string& path, std::int64_t step, int pipe) {
  for (;; ++step) {
    io::save_checkpoint(path, {.parameters = {{"w", full({5000}, step)}}, .step = step}, {.keep_previous = true});
    if (::write(pipe, &step, sizeof step) != sizeof step) ::_exit(1);
  }
}

TEST(Kill, NoCompletedCheckpointIsLost) {
  set_num_threads(1);  // a forked process has no workers
  const ScratchFolder folder;
  const std::string path = folder / "run.safetensors";
  std::mt19937 draw(20260101);
  std::int64_t complete = 0, in_between = 0;
  io::save_checkpoint(path, {.parameters = {{"w", full({5000}, 0)}}, .step = 0});
  for (int k = 0; k < kills(); ++k) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_without_end(path, complete + 1, ends[1]);
    ::close(ends[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(draw() % 4000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (std::int64_t step; ::read(ends[0], &step, sizeof step) == sizeof step;) complete = step;
    ::close(ends[0]);
    const io::Checkpoint c = io::load_checkpoint(path);
    ASSERT_TRUE(c.step == complete || c.step == complete + 1) << c.step << " after " << complete;
    ASSERT_EQ(c.parameters.at("w").to_vector<float>(), std::vector<float>(5000, static_cast<float>(c.step)));
    if (c.step > 1) {
      ASSERT_NO_THROW(io::load_checkpoint(io::previous_checkpoint(path)));
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      if (entry.path().extension() == ".tmp") ++in_between, std::filesystem::remove(entry.path());
    }
    complete = c.step;
  }
  EXPECT_GT(in_between, kills() / 20);  // that many kills came in the middle of a file
  std::printf("%d kills, %ld of them in the middle of a file, %ld steps saved\n", kills(),
              static_cast<long>(in_between), static_cast<long>(complete));
}

}  // namespace
}  // namespace ebb
