// SPDX-License-Identifier: MIT
// One file that all ranks write together.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <mutex>

#include "comm/local.h"
#include "ebb/distributed.h"
#include "ebb/ops.h"
#include "expect_error.h"
#include "scratch_folder.h"

namespace ebb::distributed {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Rank r has its share of the elements of "moments" and "counts"; everyone has the weights.
void save(const std::string& path, const io::SaveOptions& options = {}) {
  const World w = world();
  io::Checkpoint same;
  same.parameters = {{"weight", arange(35) * 0.5}, {"small", full({}, 3.0)}, {"none", zeros({0, 4})}};
  same.step = 7;
  same.metadata = {{"said by", "rank " + std::to_string(w.rank())}};
  OwnParts own;
  const auto part = [&](const Tensor& whole) {
    const std::int64_t n = whole.numel(), from = n * w.rank() / w.size(), to = n * (w.rank() + 1) / w.size();
    return ShardedOptimizer::StatePart{"", whole.shape(), from, narrow(reshape(whole, {n}), 0, from, to - from)};
  };
  own.optimizer = {part(reshape(arange(30), {5, 6})), part(cast(arange(9), DType::i64))};
  own.optimizer[0].name = "moments";
  own.optimizer[1].name = "counts";
  own.parameters = {part(reshape(arange(12) * 2.0, {3, 4}))};
  own.parameters[0].name = "divided";
  save_checkpoint(path, same, own, options);
}

TEST(CheckpointOfRanks, IsTheFileOfOneRank) {
  const ScratchFolder scratch;
  const std::string alone = scratch / "alone";
  save(alone);
  for (const int ranks : {2, 3, 7}) {
    const std::string path = scratch / ("by" + std::to_string(ranks));
    run_as_threads(ranks, [&] { save(path); });
    EXPECT_EQ(bytes_of(path), bytes_of(alone)) << ranks;
  }
  const io::Checkpoint c = io::load_checkpoint(scratch / "by3");
  EXPECT_EQ(c.step, 7);
  EXPECT_EQ(c.metadata.at("said by"), "rank 0");
  EXPECT_EQ(c.optimizer.at("moments").shape(), (Shape{5, 6}));
  EXPECT_EQ(c.parameters.at("divided").to_vector()[11], 22);
}

TEST(CheckpointOfRanks, KeepsThePreviousOneAndLeavesNothingElse) {
  const ScratchFolder scratch;
  const std::string path = scratch / "run.safetensors";
  for (int k = 0; k < 3; ++k) run_as_threads(2, [&] { save(path, {.keep_previous = true}); });
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) files += entry.is_regular_file();
  EXPECT_EQ(files, 2u);
  EXPECT_EQ(io::load_checkpoint(io::previous_checkpoint(path)).step, 7);
}

TEST(CheckpointOfRanks, AnErrorIsOneOnAllRanks) {
  const ScratchFolder scratch;
  std::atomic<int> errors{0};
  run_as_threads(3, [&] {
    EXPECT_THROW_MESSAGE(save(scratch / "nowhere/run"), "save_checkpoint: rank 0 on localhost");
    ++errors;
    world().barrier();  // they continue together
  });
  EXPECT_EQ(errors, 3);
}

// A rank that has less than the others expect.
TEST(CheckpointOfRanks, AMissingPartIsAnError) {
  const ScratchFolder scratch;
  run_as_threads(2, [&] {
    OwnParts own;
    if (world().rank() == 0) own.optimizer = {{"moments", {4}, 0, ones({2})}};
    EXPECT_THROW_MESSAGE(save_checkpoint(scratch / "run", {}, own),
                         "of 'optimizer.moments' the ranks have written 8 bytes of 16");
  });
  EXPECT_FALSE(std::filesystem::exists(scratch / "run"));
}

}  // namespace
}  // namespace ebb::distributed
