// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "run_program.h"
#include "scratch_folder.h"

TEST(Program, TellsItsVersion) {
  const ProgramResult r = run_ebb({"--version"});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.out, "ebb " EBB_VERSION "\n");
}

TEST(Program, WrongUsageIsOneLineAndExitCodeTwo) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{}, {"--no-such-option"}, {"no-such-command"}}) {
    const ProgramResult r = run_ebb(words);
    EXPECT_EQ(r.code, 2);
    EXPECT_EQ(r.out, "");
    EXPECT_EQ(r.err.find("ebb: "), 0u) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  }
}

TEST(Program, SuggestsCommandsAndOptions) {
  EXPECT_EQ(run_ebb({"gradchek"}).err, "ebb: there is no command 'gradchek'; did you mean 'gradcheck'?\n");
  EXPECT_EQ(run_ebb({"zzzz"}).err, "ebb: there is no command 'zzzz'; `ebb --help` lists them\n");
  EXPECT_EQ(run_ebb({"losses", "--famly=margin"}).err,
            "ebb: `ebb losses` has no option '--famly'; did you mean '--family'?\n");
  EXPECT_EQ(run_ebb({"ops", "--zzzzzzzz"}).err,
            "ebb: `ebb ops` has no option '--zzzzzzzz'; `ebb ops --help` lists them\n");
  EXPECT_EQ(run_ebb({"predict", "--run", "runs/iris", "--dta", "new.csv"}).err,  // not: --data is required
            "ebb: `ebb predict` has no option '--dta'; did you mean '--data'?\n");
  EXPECT_EQ(run_ebb({"predict", "--run", "runs/iris"}).err,
            "ebb: `ebb predict`: --data is required; `ebb predict --help` shows examples\n");
  EXPECT_EQ(run_ebb({"--verson"}).err, "ebb: `ebb` has no option '--verson'; did you mean '--version'?\n");
  EXPECT_EQ(run_ebb({}).err, "ebb: a command is missing; `ebb --help` lists them\n");
}

TEST(Program, SuggestsOptionsForPathsAndForNamesElsewhere) {
  const ScratchFolder folder;
  const std::string rows = folder / "people.csv", run = folder / "run";
  std::ofstream(rows) << "x,y\n1,2\n";
  std::filesystem::create_directory(run);
  EXPECT_EQ(run_ebb({"train", rows}).err,
            "ebb: `ebb train` does not take '" + rows + "'; did you mean '--data " + rows + "'?\n");
  EXPECT_EQ(run_ebb({"predict", run, rows}).err,  // not: --data is required
            "ebb: `ebb predict` does not take '" + run + "'; did you mean '--run " + run + "'?\n");
  EXPECT_EQ(run_ebb({"predict", "--run", run, rows}).err,
            "ebb: `ebb predict` does not take '" + rows + "'; did you mean '--data " + rows + "'?\n");
  EXPECT_EQ(run_ebb({"train", "nothing.csv"}).err,
            "ebb: `ebb train` does not take 'nothing.csv'; `ebb train --help` explains it\n");
  EXPECT_EQ(run_ebb({"train", "--learning-rate", "0.1"}).err,
            "ebb: `ebb train` has no option '--learning-rate'; did you mean '--lr'?\n");
  EXPECT_EQ(run_ebb({"train", "--test-split=0.2"}).err,
            "ebb: `ebb train` has no option '--test-split'; did you mean '--test-fraction'?\n");
  EXPECT_EQ(run_ebb({"version"}).err, "ebb: there is no command 'version'; did you mean '--version'?\n");
  EXPECT_EQ(run_ebb({"-v"}).err, "ebb: `ebb` has no option '-v'; did you mean '--version'?\n");
}

TEST(Program, HelpIsAWord) {
  EXPECT_EQ(run_ebb({"help"}).out, run_ebb({"--help"}).out);
  EXPECT_EQ(run_ebb({"help", "train"}).out, run_ebb({"train", "--help"}).out);
  EXPECT_EQ(run_ebb({"-V"}).out, run_ebb({"--version"}).out);
  EXPECT_EQ(run_ebb({"help", "trian"}).err, "ebb: there is no command 'trian'; did you mean 'train'?\n");
}

TEST(Program, SaysWhatAnOptionTakes) {
  for (const auto& [words, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"train", "--hidden", "abc"}, "--hidden takes whole numbers, got 'abc'"},
           {{"train", "--steps", "1e3"}, "--steps takes whole numbers, got '1e3'"},
           {{"train", "--lr", "fast"}, "--lr takes numbers, got 'fast'"},
           {{"train", "--seed=x"}, "--seed takes whole numbers from 0 on, got 'x'"},
           {{"gradcheck", "exp", "--dtype", "double"}, "--dtype: 'double' is not one of f64, f32, f16, bf16"},
           {{"losses", "--family", "margins"}, "--family: 'margins' is not one of regression, "},
           {{"predict", "--data", "a.csv"},
            "`ebb predict`: --run or --checkpoint is required; `ebb predict --help`"}}) {
    const ProgramResult r = run_ebb(words);
    EXPECT_EQ(r.code, 2);
    EXPECT_EQ(r.err.find("ebb: " + said), 0u) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  }
}

TEST(Program, SaysWhatAFileIsNot) {
  const ScratchFolder folder;
  const std::string rows = folder / "people.csv";
  std::ofstream(rows) << "x,y\n1,2\n2,1\n";
  for (const auto& [words, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"predict", "--run", rows, "--data", rows}, "this is a file, --run takes the folder of a run"},
           {{"train", "--data", "-"}, "--data -: only `ebb predict` reads the standard input"},
           {{"info", rows}, "this is not a safetensors file"},
           {{"plot", "mse_loss", "--out", folder / "a.png"}, "pictures are drawn as SVG; let the name end in .svg"}}) {
    const ProgramResult r = run_ebb(words);
    EXPECT_EQ(r.code, 1);
    EXPECT_NE(r.err.find(said), std::string::npos) << r.err;
  }
}

// CLI11 alone takes the largest number that there is.
TEST(Program, RefusesNumbersBeyondTheirTypes) {
  const std::vector<std::vector<std::string>> calls{{"train", "--seed", "99999999999999999999"},
                                                    {"train", "--seed=18446744073709551616"},
                                                    {"train", "--steps=9223372036854775808"},
                                                    {"train", "--hidden=4,9223372036854775808"},
                                                    {"train", "--eval-every=-9223372036854775809"}};
  for (const std::vector<std::string>& words : calls) {
    const ProgramResult r = run_ebb(words);
    EXPECT_EQ(r.code, 2) << words[1];
    EXPECT_NE(r.err.find(" is beyond "), std::string::npos) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  }
  EXPECT_EQ(run_ebb({"train", "--seed", "99999999999999999999"}).err,
            "ebb: --seed: 99999999999999999999 is beyond 18446744073709551615\n");
}
