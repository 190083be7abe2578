// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cases/loss_cases.h"
#include "ebb/ebb.h"
#include "run_program.h"
#include "scratch_folder.h"

// `ebb loss` from files equals the loss in the program, and reports errors in its words and files.
namespace ebb {
namespace {

void expect_complaint(const ProgramResult& r, int code, const std::string& text) {
  EXPECT_EQ(r.code, code) << r.err;
  EXPECT_NE(r.err.find(text), std::string::npos) << r.err;
  EXPECT_EQ(r.err.find("ebb: "), 0u) << r.err;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
}

std::string text_of(const LossOptionValue& value) {
  if (const double* number = std::get_if<double>(&value)) return nlohmann::json(*number).dump();
  return std::get<std::string>(value);
}

TEST(LossCommand, EveryLossFromFilesIsTheSameLossAndGradient) {
  const ScratchFolder folder;
  for (const cases::LossCase& c : cases::loss_cases()) {
    std::vector<std::string> words{"loss", std::string(c.loss), "--json", "--out", folder / "value.npy"};
    LossInputValues inputs = c.inputs;
    const cases::LossFunction f = cases::function_of(c);
    for (auto& [name, tensor] : inputs) {
      const std::string file = folder / (name + ".npy");
      io::save_npy(file, tensor);
      words.insert(words.end(), {"--" + name, file});
      if (std::find(f.names.begin(), f.names.end(), name) == f.names.end()) continue;
      words.insert(words.end(), {"--grad-" + name, folder / ("grad-" + name + ".npy")});
      tensor = variable(tensor);
    }
    for (const auto& [name, value] : c.options) words.insert(words.end(), {"--option", name + "=" + text_of(value)});
    const ProgramResult r = run_ebb(words);
    ASSERT_EQ(r.code, 0) << c.loss << ": " << r.err;
    const auto json = nlohmann::json::parse(r.out);
    const Tensor value = call_loss(c.loss, inputs, c.options);
    const Gradients g = backward(value);
    EXPECT_EQ(json["value"].get<double>(), value.item()) << c.loss;
    EXPECT_EQ(io::load_npy(folder / "value.npy").item(), value.item()) << c.loss;
    EXPECT_EQ(json["gradients"].size(), f.names.size()) << c.loss;
    for (const std::string& name : f.names) {
      EXPECT_EQ(io::load_npy(folder / ("grad-" + name + ".npy")).to_vector(), g[inputs[name]].to_vector())
          << c.loss << ", " << name;
    }
  }
}

class LossWords : public ::testing::Test {
 protected:
  LossWords() {
    io::save_npy(p, tensor({1.0, 2.0, 4.0}));
    io::save_npy(t, tensor({1.0, 0.0, 0.0}));
  }
  ProgramResult loss(const std::string& name, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"loss", name, "--pred", p, "--target", t});
    return run_ebb(more);
  }
  ScratchFolder folder;
  const std::string p = folder / "p.npy", t = folder / "t.npy";
};

TEST_F(LossWords, PredAndGradAreTheFirstInput) {
  const ProgramResult r = loss("mse_loss", {"--reduction", "sum", "--grad", folder / "g.npy"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out.find("mse_loss = 20.0\n"), 0u) << r.out;
  EXPECT_EQ(io::load_npy(folder / "g.npy").to_vector(), (std::vector<double>{0, 4, 8}));
}

TEST_F(LossWords, TermsAndWhatTheyCount) {
  io::save_npy(folder / "c.npy", tensor({1.0, 10.0, 100.0}));
  const ProgramResult r =
      loss("mse_loss", {"--reduction", "none", "--cotangent", folder / "c.npy", "--grad", folder / "g.npy", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(nlohmann::json::parse(r.out)["value"], (std::vector<double>{0, 4, 16}));
  EXPECT_EQ(io::load_npy(folder / "g.npy").to_vector(), (std::vector<double>{0, 40, 800}));
}

TEST_F(LossWords, WrongWordsAreWrongUsage) {
  expect_complaint(loss("hubber_loss"), 2, "ebb: loss: there is no 'hubber_loss'; did you mean 'huber_loss'?");
  expect_complaint(loss("huber_loss", {"--option", "dalta=1"}), 2, "it has no option 'dalta'; it has delta, reduction");
  expect_complaint(loss("huber_loss", {"--option", "delta"}), 2, "--option takes NAME=VALUE, got 'delta'");
  expect_complaint(loss("huber_loss", {"--option", "delta=big"}), 2, "the option delta is a number, got 'big'");
  expect_complaint(loss("huber_loss", {"--reduction", "average"}), 2, "average");
  expect_complaint(loss("huber_loss", {"--option", "reduction=avg"}), 2, "'avg' is not none, mean, sum or batchmean");
  expect_complaint(loss("huber_loss", {"--variance", p}), 2, "--variance");
  expect_complaint(loss("huber_loss", {"--var", p}), 2, "it has no input 'var'; it has input, target, weight");
  expect_complaint(loss("gaussian_nll_loss"), 2, "its input 'var' is missing; give --var FILE.npy");
  expect_complaint(loss("mse_loss", {"--grad-weight", folder / "g.npy"}), 2, "needs that input; give --weight");
  expect_complaint(run_ebb({"loss"}), 2, "`ebb loss`: loss is required");
}

TEST_F(LossWords, WrongFilesAreFailures) {
  expect_complaint(run_ebb({"loss", "mse_loss", "--pred", p, "--target", folder / "none.npy"}), 1, "none.npy");
  write_whole(folder / "bad.npy", "this is no array");
  expect_complaint(run_ebb({"loss", "mse_loss", "--pred", p, "--target", folder / "bad.npy"}), 1, "bad.npy");
  io::save_npy(folder / "short.npy", tensor({1.0, 2.0}));
  expect_complaint(run_ebb({"loss", "mse_loss", "--pred", p, "--target", folder / "short.npy"}), 1, "[3]");
  io::save_npy(folder / "whole.npy", tensor({1, 2, 3}));
  expect_complaint(
      run_ebb({"loss", "mse_loss", "--pred", folder / "whole.npy", "--target", t, "--grad", folder / "g.npy"}), 1,
      "holds i64, which has no gradient");
  // Class indices are integers.
  io::save_npy(folder / "x.npy", zeros({3, 5}));
  expect_complaint(run_ebb({"loss", "nll_loss", "--pred", folder / "x.npy", "--target", t}), 1, "nll_loss");
  expect_complaint(loss("mse_loss", {"--grad", folder / "no/such/folder/g.npy"}), 1, "no/such/folder");
}

}  // namespace
}  // namespace ebb
