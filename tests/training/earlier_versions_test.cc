// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <sstream>

#include "ebb/io.h"
#include "run_program.h"
#include "scratch_folder.h"

// Runs of earlier versions are in golden/VERSION: a table, the run folder trained on it and that version's
// predictions. They are never rewritten; a release that changes a format adds a folder. VERSION's program was called
// as:
//   ebb train --data flowers.csv --model mlp --hidden 8 --steps 200 --eval-every 50 --log-every 50 --batch 16 --lr 0.02
//             --threads 1 --out run && ebb predict --run run --data flowers.csv --probabilities --out predictions.csv
namespace ebb::program {
namespace {

namespace fs = std::filesystem;

class RunOf : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    fs::copy(fs::path(EBB_GOLDEN) / GetParam(), scratch / "golden", fs::copy_options::recursive);
  }
  // The program, run in the folder of the table: the run knows it by a relative path.
  ProgramResult ebb(const std::string& words) const {
    return run_program({"sh", "-c", "cd '" + scratch / "golden" + "' && exec '" EBB_PROGRAM "' " + words});
  }
  ScratchFolder scratch;
};

std::vector<std::vector<std::string>> cells(const std::string& csv) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(csv);
  for (std::string line, cell; std::getline(lines, line);) {
    rows.emplace_back();
    for (std::istringstream row(line); std::getline(row, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

TEST_P(RunOf, PredictsWhatItPredictedThen) {
  const ProgramResult r = ebb("predict --run run --data flowers.csv --probabilities");
  ASSERT_EQ(r.code, 0) << r.err;
  const auto now = cells(r.out), then = cells(read_whole(scratch / "golden/predictions.csv"));
  ASSERT_EQ(now.size(), then.size());
  ASSERT_EQ(now[0], then[0]);
  for (std::size_t i = 1; i < now.size(); ++i) {
    ASSERT_EQ(now[i].size(), then[i].size()) << i;
    EXPECT_EQ(now[i][1], then[i][1]) << "row " << i;
    for (std::size_t k = 2; k < now[i].size(); ++k)
      EXPECT_NEAR(std::stod(now[i][k]), std::stod(then[i][k]), 1e-4) << "row " << i << ", " << now[0][k];
  }
}

TEST_P(RunOf, GoesOn) {
  const ProgramResult r = ebb("train --resume run --steps 220");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(read_whole(scratch / "golden/run/metrics.jsonl").find("\"step\":220,"), std::string::npos);
}

TEST_P(RunOf, HasACheckpointThatTheLibraryReads) {
  const io::Checkpoint checkpoint = io::load_checkpoint(scratch / "golden/run/checkpoint.safetensors");
  EXPECT_EQ(checkpoint.step, 200);
  EXPECT_FALSE(checkpoint.parameters.empty());
  EXPECT_FALSE(checkpoint.optimizer.empty());
}

std::vector<std::string> versions() {
  std::vector<std::string> found;
  for (const auto& folder : fs::directory_iterator(EBB_GOLDEN)) found.push_back(folder.path().filename());
  std::sort(found.begin(), found.end());
  return found;
}
INSTANTIATE_TEST_SUITE_P(Versions, RunOf, testing::ValuesIn(versions()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace
}  // namespace ebb::program
