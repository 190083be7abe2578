// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "expect_error.h"
#include "run_folder.h"
#include "scratch_folder.h"
#include "tiny_run.h"

// One process at a time trains in a folder.
namespace ebb::program {
namespace {

namespace fs = std::filesystem;

class Lock : public ::testing::Test {
 protected:
  std::string folder() const { return scratch / "run"; }
  Words endless(const Words& more = {}) const {
    Words words = tiny_run(folder(), {"--steps", "100000000", "--checkpoint-every", "8"});
    words.insert(words.end(), more.begin(), more.end());
    return ebb_words(words);
  }
  std::string holder(const RunningProgram& program) const { return "process " + std::to_string(program.id()) + " on "; }
  ScratchFolder scratch;
};

TEST_F(Lock, ASecondRunInTheFolderIsRefusedAndNamesTheFirst) {
  RunningProgram first(endless());
  ASSERT_TRUE(first.wait_for("epoch")) << first.err();
  for (const Words& words : {tiny_run(folder(), {"--steps", "3"}), tiny_run(folder(), {"--steps", "3", "--overwrite"}),
                             Words{"train", "--resume", folder()}}) {
    const ProgramResult second = run_ebb(words);
    EXPECT_EQ(second.code, 1);
    EXPECT_EQ(second.err.find("ebb: " + folder() + ": " + holder(first)), 0u) << second.err;
    EXPECT_NE(second.err.find("is training in this folder"), std::string::npos) << second.err;
    EXPECT_EQ(second.out, "");
  }
  // Reading is allowed.
  EXPECT_EQ(run_ebb({"eval", "--run", folder()}).code, 0);
  first.send(SIGINT);
  EXPECT_EQ(first.wait(), 130);
  EXPECT_FALSE(fs::exists(folder() + "/.lock"));
  EXPECT_EQ(run_ebb(tiny_run(folder(), {"--steps", "3", "--overwrite"})).code, 0);
}

TEST_F(Lock, OneThatAKilledProcessLeftIsTakenOver) {
  RunningProgram first(endless());
  ASSERT_TRUE(first.wait_for("epoch")) << first.err();
  while (!RunFolder(folder()).holds_checkpoint()) {  // for the second to continue from
    siginfo_t ended{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(first.id()), &ended, WEXITED | WNOHANG | WNOWAIT), 0);
    ASSERT_EQ(ended.si_pid, 0) << first.err();
    std::this_thread::yield();
  }
  first.send(SIGKILL);
  first.wait();
  EXPECT_TRUE(fs::exists(folder() + "/.lock"));
  RunningProgram second(ebb_words({"train", "--resume", folder()}));
  ASSERT_TRUE(second.wait_for("going on after step")) << second.err();
  ASSERT_TRUE(second.wait_for("epoch")) << second.err();
  EXPECT_EQ(read_whole(folder() + "/.lock").find(holder(second)), 0u);
  second.send(SIGTERM);
  EXPECT_EQ(second.wait(), 130);
}

TEST_F(Lock, IsNotTheLastOfAFolderThatWasMadeForIt) {
  {
    RunFolder a(folder());
    a.lock();
    EXPECT_THROW_KIND(RunFolder(folder()).lock(), io, "is training in this folder");
  }
  EXPECT_FALSE(fs::exists(folder()));
  EXPECT_NE(run_ebb({"train", "--resume", scratch / "no/such/run"}).code, 0);
  EXPECT_FALSE(fs::exists(scratch / "no"));
}

TEST_F(Lock, TheRanksOfAJobShareOne) {
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun here";
  const auto ranks = [](const Words& words) {
    Words all{"mpirun", "--oversubscribe", "-n", "2"};
    if (::geteuid() == 0) all.insert(all.begin() + 1, "--allow-run-as-root");
    all.insert(all.end(), words.begin(), words.end());
    return all;
  };
  RunningProgram job(ranks(endless()));
  ASSERT_TRUE(job.wait_for("epoch")) << job.err();
  const ProgramResult other = run_program(ranks(ebb_words({"train", "--resume", folder()})));
  EXPECT_NE(other.code, 0);
  const std::size_t said = other.err.find("is training in this folder");
  EXPECT_NE(said, std::string::npos) << other.err;
  EXPECT_EQ(other.err.find("is training in this folder", said + 1), std::string::npos) << other.err;  // by one rank
  job.send(SIGINT);
  job.wait();
}

// Files of an established run are moved by the process that has the lock, not by one that only reads.
TEST_F(Lock, AReplacementUnderWayIsLeftToItsProcess) {
  RunFolder a(folder());
  a.lock();
  fs::create_directories(folder() + "/.ready");
  write_whole(folder() + "/config.json", "{}");
  write_whole(folder() + "/.ready/config.json", "{\"model\": \"new\"}");
  write_whole(folder() + "/.ready/files", "config.json\n");
  EXPECT_EQ(RunFolder(folder()).read_config().size(), 0u);
  EXPECT_TRUE(fs::exists(folder() + "/.ready"));
}

}  // namespace
}  // namespace ebb::program
