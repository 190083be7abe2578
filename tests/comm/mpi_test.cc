// SPDX-License-Identifier: MIT
// The world under mpirun. Without Open MPI these tests are skipped.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ebb/io.h"
#include "run_program.h"
#include "scratch_folder.h"

namespace {

using Words = std::vector<std::string>;

bool have_mpirun() { return std::system("command -v mpirun >/dev/null 2>&1") == 0; }

Words under_mpirun(int ranks, const Words& program) {
  Words all{"mpirun", "--oversubscribe", "-n", std::to_string(ranks)};
  if (::geteuid() == 0) all.insert(all.begin() + 1, "--allow-run-as-root");
  all.insert(all.end(), program.begin(), program.end());
  return all;
}
Words worker(int ranks, const std::string& story) { return under_mpirun(ranks, {EBB_COMM_WORKER, story}); }

class Mpi : public testing::Test {
 protected:
  void SetUp() override {
    if (!have_mpirun()) GTEST_SKIP() << "there is no mpirun here";
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // MPI's own, at exit
  }
};

TEST_F(Mpi, CollectivesGiveWhatTheirNamesSay) {
  for (int ranks : {1, 2, 4}) {
    const ProgramResult r = run_program(worker(ranks, "collectives"));
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.out, "good\n") << ranks;
  }
}

TEST_F(Mpi, TrainingHasTheBitsOfOneProcess) {
  for (const char* story : {"mlp", "cnn", "gpt", "sharded"}) {
    const ProgramResult alone = run_program({EBB_COMM_WORKER, story});
    ASSERT_EQ(alone.code, 0) << alone.err;
    for (int ranks : {2, 4}) {
      const ProgramResult r = run_program(worker(ranks, story));
      EXPECT_EQ(r.code, 0) << r.err;
      EXPECT_EQ(r.out, alone.out) << story << " by " << ranks;
    }
  }
}

TEST_F(Mpi, ProgramsThatDifferAreAnErrorAndNoDeadlock) {
  const ProgramResult differ = run_program(worker(3, "differ"));
  EXPECT_NE(differ.code, 0);
  EXPECT_NE(differ.err.find("does all_reduce of f32 [3]"), std::string::npos) << differ.err;
  const ProgramResult ends = run_program(worker(3, "one ends"));
  EXPECT_NE(ends.code, 0);
  const ProgramResult fails = run_program(worker(3, "one fails"));
  EXPECT_NE(fails.code, 0);
  EXPECT_NE(fails.err.find("rank 1 has no luck"), std::string::npos) << fails.err;
}

TEST_F(Mpi, ARankThatDoesNotArriveIsNamed) {
  for (const auto& [story, said] :
       {std::pair{"one hangs", "it hangs"}, {"one is late", "works, but does not arrive"}}) {
    const ProgramResult r = run_program(worker(3, story));
    EXPECT_NE(r.code, 0);
    EXPECT_NE(r.err.find("rank 1 on"), std::string::npos) << r.err;
    EXPECT_NE(r.err.find(said), std::string::npos) << r.err;
  }
}

// For longer than the time a rank may be idle.
TEST_F(Mpi, ARankThatWorksIsWaitedFor) {
  const ProgramResult r = run_program(worker(3, "one works"));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out, "together\n");
}

// The process id of a rank, from the ranks' output.
int process_of(const std::string& out, int rank) {
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    int r = -1, pid = 0;
    if (std::sscanf(line.c_str(), "pid %d %d", &r, &pid) == 2 && r == rank) return pid;
  }
  return -1;
}

class LostRank : public Mpi, public testing::WithParamInterface<std::pair<int, int>> {};
INSTANTIATE_TEST_SUITE_P(Signals, LostRank,
                         testing::Values(std::pair{SIGKILL, 1}, std::pair{SIGSTOP, 2}, std::pair{SIGSTOP, 0}));

TEST_P(LostRank, IsNoticedByAllWithinTenSeconds) {
  const auto [signal, lost] = GetParam();
  RunningProgram program(worker(3, "forever"));
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(program.wait_for("pid " + std::to_string(r) + " ")) << program.err();
  ASSERT_TRUE(program.wait_for("\n"));
  int pid = process_of(program.out(), lost);
  ASSERT_GT(pid, 0) << program.out();
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(::kill(pid, signal), 0);
  EXPECT_NE(program.wait(), 0);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(seconds, 10);
  const std::string said = program.err() + program.out();
  // mpirun may notice a dead rank first; it names rank and node, too.
  EXPECT_NE(said.find("rank " + std::to_string(lost)), std::string::npos) << said;
}

// ---- the program
// --------------------------------------------------------------------------------------------------------

Words tiny_train(const std::filesystem::path& folder, const Words& more) {
  Words words{EBB_PROGRAM,     "train", "--model",      "cnn", "--width", "2",  "--out",     folder.string(),
              "--train-count", "128",   "--test-count", "16",  "--batch", "16", "--threads", "1",
              "--workers",     "0",     "--shards",     "4"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The contents of a checkpoint except for its timings.
std::string contents(const std::filesystem::path& folder) {
  const ebb::io::Checkpoint c = ebb::io::load_checkpoint((folder / "checkpoint.safetensors").string());
  std::string all = std::to_string(c.step);
  for (const auto* tensors : {&c.parameters, &c.optimizer}) {
    for (const auto& [name, t] : *tensors) {
      const std::vector<double> v = t.to_vector();
      all += name;
      all.append(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(double));
    }
  }
  return all;
}

TEST_F(Mpi, TheProgramLeavesOneCheckpointWithTheBitsOfOneProcess) {
  const ScratchFolder scratch;
  const Words steps{"--steps", "12", "--eval-every", "6", "--clip", "1", "--dropout", "0.1"};
  const ProgramResult alone = run_program(tiny_train(scratch / "1", steps));
  ASSERT_EQ(alone.code, 0) << alone.err;
  for (int ranks : {1, 2, 4}) {
    const std::filesystem::path folder = scratch / ("by" + std::to_string(ranks));
    Words more = steps;
    if (ranks == 2) more.insert(more.end(), {"--optimizer-state", "replicated"});
    const ProgramResult r = run_program(under_mpirun(ranks, tiny_train(folder, more)));
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_TRUE(contents(folder) == contents(scratch / "1")) << ranks;
    const std::size_t first = r.out.find("Training cnn");
    EXPECT_NE(first, std::string::npos) << r.out;
    EXPECT_EQ(r.out.find("Training cnn", first + 1), std::string::npos) << r.out;  // only one rank prints
    EXPECT_EQ(r.out.find("ranks waited for each other") != std::string::npos, ranks > 1) << r.out;
    EXPECT_TRUE(std::filesystem::exists(folder / "report.html"));
  }
}

TEST_F(Mpi, ACheckpointOfFourRanksIsResumedWithAnyNumber) {
  const ScratchFolder scratch;
  const ProgramResult whole =
      run_program(tiny_train(scratch / "whole", {"--epochs", "2", "--schedule", "constant", "--warmup", "0"}));
  ASSERT_EQ(whole.code, 0) << whole.err;
  const ProgramResult half =
      run_program(under_mpirun(4, tiny_train(scratch / "half", {"--epochs", "1", "--schedule", "constant", "--warmup",
                                                                "0", "--optimizer-state", "sharded"})));
  ASSERT_EQ(half.code, 0) << half.err;
  for (int ranks : {1, 2, 3}) {
    const std::filesystem::path folder = scratch / ("resumed" + std::to_string(ranks));
    std::filesystem::copy(scratch / "half", folder);
    const Words resume{EBB_PROGRAM, "train", "--resume", folder.string(), "--epochs", "2"};
    const ProgramResult r = run_program(ranks == 1 ? resume : under_mpirun(ranks, resume));
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_TRUE(contents(folder) == contents(scratch / "whole")) << ranks;
  }
}

// The layers of a GPT are divided: one loss for any number of ranks, one checkpoint, which a single process can read.
TEST_F(Mpi, TheProgramDividesItsGpt) {
  const ScratchFolder scratch;
  {
    std::ofstream text(scratch / "text.txt");
    for (int k = 0; k < 400; ++k) text << "the " << k % 7 << " of " << k % 11 << "\n";
  }
  const auto train = [&](const std::string& name, const Words& more) {
    Words words{EBB_PROGRAM,
                "train",
                "--model",
                "gpt",
                "--width",
                "16",
                "--layers",
                "2",
                "--heads",
                "4",
                "--context",
                "16",
                "--tokens",
                "256",
                "--batch",
                "4",
                "--threads",
                "1",
                "--workers",
                "0",
                "--data",
                scratch / "text.txt",
                "--tensor-parallel",
                "4",
                "--out",
                scratch / name,
                "--eval-every",
                "5",
                "--clip",
                "0.5",
                "--dropout",
                "0.1",
                "--ema",
                "0.9"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const ProgramResult alone = run_program(train("1", {"--steps", "10"}));
  ASSERT_EQ(alone.code, 0) << alone.err;
  for (int ranks : {2, 3}) {
    const std::string name = std::to_string(ranks);
    const ProgramResult r = run_program(under_mpirun(ranks, train(name, {"--steps", "10"})));
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_TRUE(contents(scratch / name) == contents(scratch / "1")) << ranks;
    EXPECT_NE(r.out.find("which share 4 parts of the model"), std::string::npos) << r.out;
  }
  // Half of it by four ranks, the rest by two.
  const Words half{"--steps", "5", "--schedule", "constant", "--warmup", "0"};
  ASSERT_EQ(run_program(train("whole", {"--steps", "10", "--schedule", "constant", "--warmup", "0"})).code, 0);
  ASSERT_EQ(run_program(under_mpirun(4, train("half", half))).code, 0);
  const ProgramResult resumed =
      run_program(under_mpirun(2, {EBB_PROGRAM, "train", "--resume", scratch / "half", "--steps", "10"}));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(contents(scratch / "half") == contents(scratch / "whole"));
  // Its loss computed by the undivided network.
  const ProgramResult tested = run_program({EBB_PROGRAM, "eval", "--run", scratch / "2"});
  EXPECT_EQ(tested.code, 0) << tested.err;
}

// Ranks are killed in the middle of their steps by tests/comm/chaos.py.
TEST_F(Mpi, ARunThatIsTakenDownLeavesAGoodCheckpoint) {
  const ScratchFolder scratch;
  RunningProgram program(under_mpirun(
      3, tiny_train(scratch / "run", {"--steps", "100000", "--eval-every", "10", "--checkpoint-every", "1"})));
  ASSERT_TRUE(program.wait_for("step 20/")) << program.err();
  program.send(SIGTERM);  // to mpirun, which ends its ranks
  EXPECT_NE(program.wait(), 0);
  EXPECT_FALSE(contents(scratch / "run").empty());
}

// A launcher that kills the first rank of its first run as soon as there is a checkpoint.
std::string unlucky_launcher(const ScratchFolder& scratch) {
  std::string path = scratch / "launcher";
  std::ofstream(path) << "#!/bin/sh\n"
                         "cd "
                      << scratch.path()
                      << "\n"
                         "mpirun=\"mpirun --oversubscribe "
                      << (::geteuid() == 0 ? "--allow-run-as-root" : "")
                      << " -n 3\"\n"
                         "test -e second && exec $mpirun \"$@\"\n"
                         "touch second\n"
                         "$mpirun \"$@\" &\n"
                         "until test -e run/checkpoint.safetensors; do sleep 0.05; done\n"
                         "for pid in $(cat /proc/$!/task/$!/children); do kill -9 $pid; break; done\n"
                         "wait $!\n";
  return path;
}

TEST_F(Mpi, RanksThatFailAreStartedAgainFromTheLastCheckpoint) {
  const ScratchFolder scratch;
  const Words settings{"--steps", "60", "--eval-every", "4", "--checkpoint-every", "1"};
  const ProgramResult whole = run_program(tiny_train(scratch / "whole", settings));
  ASSERT_EQ(whole.code, 0) << whole.err;
  Words words = tiny_train(scratch / "run", settings);
  words.insert(words.end(), {"--launcher", "sh " + unlucky_launcher(scratch), "--restart-on-failure=2"});
  const ProgramResult r = run_program(words);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("restart 1 of 2"), std::string::npos) << r.err;
  EXPECT_EQ(r.err.find("restart 2 of 2"), std::string::npos) << r.err;
  EXPECT_TRUE(contents(scratch / "run") == contents(scratch / "whole"));
}

TEST_F(Mpi, RestartsEnd) {
  const ScratchFolder scratch;
  const ProgramResult r =
      run_program({EBB_PROGRAM, "train", "--out", scratch / "run", "--launcher", "false", "--restart-on-failure", "1"});
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("failed with code 1 after 1 restarts"), std::string::npos) << r.err;
  const ProgramResult nowhere = run_program({EBB_PROGRAM, "train", "--restart-on-failure", "1"});
  EXPECT_EQ(nowhere.code, 2) << nowhere.err;
}

}  // namespace
