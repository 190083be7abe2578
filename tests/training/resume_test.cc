// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>

#include "ebb/io.h"
#include "graph/node.h"
#include "run_folder.h"
#include "scratch_folder.h"
#include "tiny_run.h"

// A run that was stopped, in whatever way, and resumed is bit-identical to an uninterrupted one.
namespace ebb::program {
namespace {

namespace fs = std::filesystem;

void expect_same_tensors(const io::TensorMap& a, const io::TensorMap& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, x] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    const Tensor& y = b.at(name);
    ASSERT_EQ(x.shape(), y.shape()) << name;
    ASSERT_EQ(x.dtype(), y.dtype()) << name;
    const HostElements p = host_elements(x), q = host_elements(y);
    ASSERT_EQ(std::memcmp(p.bytes.data(), q.bytes.data(), p.bytes.size()), 0) << name;
  }
}

// Everything except the times.
void expect_same_run(const RunFolder& a, const RunFolder& b) {
  const io::Checkpoint x = io::load_checkpoint(a.checkpoint()), y = io::load_checkpoint(b.checkpoint());
  expect_same_tensors(x.parameters, y.parameters);
  expect_same_tensors(x.optimizer, y.optimizer);
  EXPECT_EQ(x.step, y.step);
  EXPECT_EQ(x.loader, y.loader);
  EXPECT_EQ(x.random.seed, y.random.seed);
  EXPECT_EQ(x.random.next_operation, y.random.next_operation);
  EXPECT_EQ(x.metadata.at("scaler"), y.metadata.at("scaler"));
  RunFolder c(a.path()), d(b.path());
  c.keep_metrics(x.step);
  d.keep_metrics(y.step);
  ASSERT_EQ(c.metrics().size(), d.metrics().size());
  ASSERT_GT(c.metrics().size(), 0u);
  for (std::size_t k = 0; k < c.metrics().size(); ++k) {
    EXPECT_EQ(c.metrics()[k].step, d.metrics()[k].step);
    EXPECT_EQ(c.metrics()[k].split, d.metrics()[k].split);
    EXPECT_EQ(c.metrics()[k].loss, d.metrics()[k].loss) << "step " << c.metrics()[k].step;
    EXPECT_EQ(c.metrics()[k].accuracy, d.metrics()[k].accuracy);
    EXPECT_EQ(c.metrics()[k].lr, d.metrics()[k].lr);
  }
}

void expect_whole(const RunFolder& folder) {
  EXPECT_TRUE(fs::exists(folder.report()));
  for (const fs::directory_entry& e : fs::directory_iterator(folder.path())) {
    EXPECT_NE(e.path().extension(), ".tmp") << e.path();
  }
}

// Interrupts a run when it prints `word`, resumes it, and compares it with an uninterrupted one.
void interrupt_and_resume(const std::vector<std::string>& settings, const std::string& word,
                          const std::string& model = "mlp") {
  ScratchFolder scratch;
  const RunFolder whole(scratch / "whole"), parts(scratch / "parts");
  ASSERT_EQ(run_ebb(tiny_run(whole.path(), settings, model)).code, 0);

  RunningProgram first(ebb_words(tiny_run(parts.path(), settings, model)));
  ASSERT_TRUE(first.wait_for(word)) << first.err();
  first.send(SIGINT);
  const int code = first.wait();
  ASSERT_EQ(code, 130) << first.err();
  EXPECT_NE(first.err().find("`ebb train --resume " + parts.path().string() + "` goes on from there"),
            std::string::npos)
      << first.err();
  EXPECT_FALSE(fs::exists(parts.report()));

  const ProgramResult second = run_ebb({"train", "--resume", parts.path()});
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_NE(second.out.find("going on after step"), std::string::npos) << second.out;
  expect_same_run(whole, parts);
  expect_whole(parts);
}

TEST(Resume, AnInterruptedRunEndsWithTheSameBits) {
  interrupt_and_resume({"--steps", "1200", "--dropout", "0.2", "--ema", "0.9", "--clip", "1"}, "epoch   4/");
}

TEST(Resume, SoDoesOneInHalvesThatAccumulates) {
  interrupt_and_resume({"--steps", "600", "--dtype", "f16", "--accumulate", "3", "--optimizer", "sgd"}, "epoch   5/");
}

TEST(Resume, SoDoesAConvolutionalNetworkWithRunningStatistics) {
  interrupt_and_resume({"--steps", "200", "--width", "2", "--dtype", "bf16", "--ema", "0.5"}, "epoch  2/", "cnn");
}

TEST(Resume, SoDoesAGpt) {
  ScratchFolder scratch;
  std::string text;
  for (int i = 0; i < 200; ++i) text += std::to_string(i * i) + (i % 7 ? " " : "\n");
  write_whole(scratch / "numbers.txt", text);
  interrupt_and_resume({"--data", scratch / "numbers.txt", "--steps", "200", "--width", "16", "--layers", "1",
                        "--context", "8", "--tokens", "260", "--dropout", "0.1"},
                       "epoch  2/", "gpt");
}

TEST(Resume, AFinishedRunOnlyWritesItsReportAgain) {
  ScratchFolder scratch;
  const RunFolder folder(scratch / "run");
  ASSERT_EQ(run_ebb(tiny_run(folder.path(), {"--steps", "10"})).code, 0);
  const std::string before = read_whole(folder.checkpoint());
  fs::remove(folder.report());
  ASSERT_EQ(run_ebb({"train", "--resume", folder.path()}).code, 0);
  EXPECT_EQ(read_whole(folder.checkpoint()), before);
  EXPECT_TRUE(fs::exists(folder.report()));
}

TEST(Resume, TheEndMayBeMovedButNotWhatTheStepsWereMadeOf) {
  ScratchFolder scratch;
  const RunFolder folder(scratch / "run");
  ASSERT_EQ(run_ebb(tiny_run(folder.path(), {"--steps", "10"})).code, 0);
  const ProgramResult other = run_ebb({"train", "--resume", folder.path(), "--lr", "1"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("--lr belongs to the run"), std::string::npos) << other.err;
  ASSERT_EQ(run_ebb({"train", "--resume", folder.path(), "--steps", "20"}).code, 0);
  EXPECT_EQ(io::load_checkpoint(folder.checkpoint()).step, 20);
}

TEST(Resume, ADamagedCheckpointIsRefused) {
  ScratchFolder scratch;
  const RunFolder folder(scratch / "run");
  ASSERT_EQ(run_ebb(tiny_run(folder.path(), {"--steps", "10"})).code, 0);
  std::string bytes = read_whole(folder.checkpoint());
  bytes[bytes.size() - 5] ^= 1;
  write_whole(folder.checkpoint(), bytes);
  const ProgramResult r = run_ebb({"train", "--resume", folder.path()});
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("the checkpoint is damaged"), std::string::npos) << r.err;
  EXPECT_EQ(run_ebb({"train", "--resume", scratch / "nothing"}).code, 1);
}

TEST(Resume, ADamagedCheckpointOffersTheOneBeforeIt) {
  ScratchFolder scratch;
  const RunFolder folder(scratch / "run");
  ASSERT_EQ(run_ebb(tiny_run(folder.path(), {"--steps", "10", "--checkpoint-every", "4"})).code, 0);
  const std::string previous = io::previous_checkpoint(folder.checkpoint());
  std::string bytes = read_whole(folder.checkpoint());
  write_whole(folder.checkpoint(), bytes.substr(0, bytes.size() / 2));
  const ProgramResult r = run_ebb({"train", "--resume", folder.path()});
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("the one before it, " + previous + " of step 8, is intact"), std::string::npos) << r.err;
  fs::rename(previous, folder.checkpoint());
  ASSERT_EQ(run_ebb({"train", "--resume", folder.path()}).code, 0);
  const std::string again = read_whole(folder.checkpoint());  // its header has other times
  EXPECT_EQ(again.substr(again.size() - 1000), bytes.substr(bytes.size() - 1000));
}

TEST(Resume, TerminationAndHangUpSaveTooUnlessTheyAreIgnored) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    ScratchFolder scratch;
    RunningProgram program(ebb_words(tiny_run(scratch / "run", {"--steps", "100000"})));
    ASSERT_TRUE(program.wait_for("epoch")) << program.err();
    program.send(signal);
    EXPECT_EQ(program.wait(), 130) << program.err();
    EXPECT_NE(program.err().find("stopped and saved after step"), std::string::npos) << program.err();
    EXPECT_GT(io::load_checkpoint(RunFolder(scratch / "run").checkpoint()).step, 0);
  }
  ScratchFolder scratch;
  std::vector<std::string> words = ebb_words(tiny_run(scratch / "run", {"--steps", "400"}));
  words.insert(words.begin(), "nohup");
  RunningProgram program(words);
  ASSERT_TRUE(program.wait_for("epoch")) << program.err();
  program.send(SIGHUP);
  EXPECT_EQ(program.wait(), 0) << program.err();
}

// The moments are numbers of milliseconds from a fixed seed; what they interrupt differs from machine to machine.
TEST(Resume, KilledTwoHundredTimesItEndsWithTheSameBits) {
  ScratchFolder scratch;
  const std::vector<std::string> settings{"--steps",     "1500", "--checkpoint-every", "1",  "--eval-every", "100",
                                          "--log-every", "10",   "--dropout",          "0.1"};
  const RunFolder whole(scratch / "whole");
  ASSERT_EQ(run_ebb(tiny_run(whole.path(), settings)).code, 0);

  std::mt19937 draw(20260101);
  int kills = 0, runs = 0;
  bool done = true;
  std::optional<RunFolder> folder;
  const auto next = [&] {  // the words that continue the run, or begin one
    if (done) {
      folder.emplace(scratch / ("killed-" + std::to_string(runs++)));
      done = false;
    }
    return folder->holds_run() ? std::vector<std::string>{"train", "--resume", folder->path()}
                               : tiny_run(folder->path(), settings);
  };
  while (kills < 200) {
    RunningProgram program(ebb_words(next()));
    std::this_thread::sleep_for(std::chrono::milliseconds(draw() % 90));
    program.send(SIGKILL);
    const int code = program.wait();
    if (code == 128 + SIGKILL) {
      ++kills;
      if (folder->holds_checkpoint()) {
        ASSERT_NO_THROW(io::load_checkpoint(folder->checkpoint()));
      }
      continue;
    }
    ASSERT_EQ(code, 0) << program.err();
    expect_same_run(whole, *folder);
    done = true;
  }
  const ProgramResult last = run_ebb(next());
  ASSERT_EQ(last.code, 0) << last.err;
  expect_same_run(whole, *folder);
  expect_whole(*folder);
}

}  // namespace
}  // namespace ebb::program
