// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "ebb/io.h"
#include "run_folder.h"
#include "scratch_folder.h"
#include "tiny_run.h"

// A new run in a folder with an existing one, and failing starts.
namespace ebb::program {
namespace {

namespace fs = std::filesystem;

// All files below a folder with what is in them.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const fs::directory_entry& e : fs::recursive_directory_iterator(folder)) {
    if (e.is_regular_file()) all[e.path().string()] = read_whole(e.path().string());
  }
  return all;
}

TEST(Overwrite, AStartThatFailsLeavesTheOldRunAsItWas) {
  ScratchFolder scratch;
  const std::string run = scratch / "run";
  ASSERT_EQ(run_ebb(tiny_run(run, {"--steps", "5"})).code, 0);
  write_whole(run + "/notes.txt", "mine");
  const auto before = contents(run);
  for (const Words& wrong : {Words{"--data", "no/such.csv"}, Words{"--optimizer", "adamm"}, Words{"--batch", "-1"},
                             Words{"--data", "tales"}, Words{"--heads", "0"}, Words{"--test-data", "x"},
                             Words{"--lr", "1e30", "--optimizer", "sgd", "--steps", "50"}}) {
    Words words = tiny_run(run, {"--overwrite"});
    words.insert(words.end(), wrong.begin(), wrong.end());
    EXPECT_NE(run_ebb(words).code, 0) << wrong[0];
    EXPECT_EQ(contents(run), before) << wrong[0];
  }
  // So does one killed before it has saved anything.
  RunningProgram program(
      ebb_words(tiny_run(run, {"--overwrite", "--steps", "1000000", "--checkpoint-every", "1000000"})));
  ASSERT_TRUE(program.wait_for("epoch")) << program.err();
  program.send(SIGKILL);
  program.wait();
  for (const auto& [file, text] : before) EXPECT_EQ(read_whole(file), text) << file;
  ASSERT_EQ(run_ebb({"eval", "--run", run}).code, 0);
}

TEST(Overwrite, TheNewRunReplacesTheOldOneAndNothingElse) {
  ScratchFolder scratch;
  const std::string run = scratch / "run";
  ASSERT_EQ(run_ebb(tiny_run(run, {"--steps", "5"})).code, 0);
  write_whole(run + "/notes.txt", "mine");
  ASSERT_EQ(run_ebb(tiny_run(run, {"--steps", "7", "--overwrite"})).code, 0);
  EXPECT_EQ(io::load_checkpoint(RunFolder(run).checkpoint()).step, 7);
  EXPECT_EQ(RunFolder(run).read_config().at("steps"), 7);
  EXPECT_EQ(read_whole(run + "/notes.txt"), "mine");
  for (const fs::directory_entry& e : fs::directory_iterator(run)) EXPECT_FALSE(e.is_directory()) << e.path();
}

TEST(Overwrite, AStartThatFailsDoesNotStandInTheWayOfTheCorrectedOne) {
  ScratchFolder scratch;
  for (const Words& wrong : {Words{"--data", "no/such.csv"}, Words{"--test-data", "x"},
                             Words{"--lr", "1e30", "--optimizer", "sgd", "--steps", "50"}}) {
    const std::string run = scratch / "run";
    EXPECT_NE(run_ebb(tiny_run(run, wrong)).code, 0) << wrong[0];
    EXPECT_FALSE(fs::exists(run)) << wrong[0];
    const ProgramResult again = run_ebb(tiny_run(run, {"--steps", "3"}));
    EXPECT_EQ(again.code, 0) << again.err;
    fs::remove_all(run);
  }
}

TEST(Overwrite, FilesThatAreNoRunAreNotReplacedUnasked) {
  ScratchFolder scratch;
  write_whole(scratch / "metrics.csv", "mine");
  const ProgramResult r = run_ebb(tiny_run(scratch.path(), {"--steps", "2"}));
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("metrics.csv is in the way"), std::string::npos) << r.err;
  EXPECT_EQ(read_whole(scratch / "metrics.csv"), "mine");
}

// Killed while the files of the new run are moved: the next process to open the folder moves the rest.
TEST(Overwrite, AReplacementThatWasCutOffIsFinished) {
  ScratchFolder scratch;
  const std::string run = scratch / "run";
  fs::create_directories(run + "/.ready");
  write_whole(run + "/config.json", "{\"model\": \"new\"}");  // this one was moved already
  write_whole(run + "/checkpoint.safetensors", "old");
  write_whole(run + "/report.html", "old");
  write_whole(run + "/.ready/checkpoint.safetensors", "new");
  write_whole(run + "/.ready/files", "config.json\ncheckpoint.safetensors\n");
  const RunFolder folder(run);
  EXPECT_EQ(folder.read_config().at("model"), "new");
  EXPECT_EQ(read_whole(folder.checkpoint()), "new");
  EXPECT_FALSE(fs::exists(folder.report()));
  EXPECT_FALSE(fs::exists(run + "/.ready"));
}

}  // namespace
}  // namespace ebb::program
