// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "ebb/ebb.h"
#include "run_program.h"
#include "scratch_folder.h"

// Destinations of results: files, pipes, devices, and failures to reach them.
namespace ebb {
namespace {

namespace fs = std::filesystem;

// A shell command line, in which $EBB is the program.
ProgramResult shell(const std::string& line) {
  return run_program({"/bin/sh", "-c", "EBB='" EBB_PROGRAM "'; " + line});
}

class Output : public ::testing::Test {
 protected:
  void SetUp() override {
    io::save_npy(scratch / "x.npy", cast(arange(3), DType::f32));
    mse = "$EBB loss mse_loss --pred " + scratch / "x.npy" + " --target " + scratch / "x.npy";
  }
  ScratchFolder scratch;
  std::string mse;
};

TEST_F(Output, ALostResultIsAFailure) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  for (const std::string& command :
       {std::string("$EBB info"), "$EBB info " + scratch / "x.npy", "$EBB info --json " + scratch / "x.npy", mse,
        mse + " --json", std::string("$EBB losses"), std::string("$EBB ops --json"), std::string("$EBB --help"),
        std::string("$EBB --version"), std::string("$EBB completion bash"),
        std::string("$EBB gradcheck relu --dtype f64"),
        "$EBB convert " + scratch / "x.npy" + " " + scratch / "y.npz --overwrite"}) {
    const ProgramResult r = shell(command + " > /dev/full");
    EXPECT_EQ(r.code, 1) << command;
    EXPECT_EQ(r.err.find("ebb: the standard output cannot be written"), 0u) << command << "\n" << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  }
}

// The next file opened would otherwise be number 1, and results be printed into it.
TEST_F(Output, AClosedStandardOutputIsAFailure) {
  const ProgramResult r = shell(mse + " --out " + scratch / "y.npy >&-");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("the standard output cannot be written"), std::string::npos) << r.err;
  EXPECT_EQ(io::load_npy(scratch / "y.npy").item(), 0);
}

TEST_F(Output, PipesAndDevicesAreWrittenAndNotReplaced) {
  const std::string pipe = scratch / "pipe.npy";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
  std::string got;
  std::thread reader([&] { got = read_whole(pipe); });
  const ProgramResult r = shell("$EBB convert " + scratch / "x.npy" + " " + pipe);
  EXPECT_EQ(r.code, 0) << r.err;
  reader.join();
  EXPECT_EQ(got, read_whole(scratch / "x.npy"));
  EXPECT_EQ(fs::status(pipe).type(), fs::file_type::fifo);

  ASSERT_EQ(shell(mse + " --out /dev/null").code, 0);
  EXPECT_EQ(fs::status("/dev/null").type(), fs::file_type::character);

  // Appended to the previous contents, and followed by later output.
  const std::string all = scratch / "all";
  ASSERT_EQ(shell("(printf begin; $EBB plot mse_loss --out /dev/stdout; printf end) > " + all).code, 0);
  const std::string text = read_whole(all);
  EXPECT_EQ(text.substr(0, 5), "begin");
  EXPECT_NE(text.find("</svg>"), std::string::npos);
  EXPECT_EQ(text.substr(text.size() - 3), "end");
  EXPECT_TRUE(fs::is_symlink("/dev/stdout"));
}

}  // namespace
}  // namespace ebb
