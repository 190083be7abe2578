// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cases/loss_cases.h"
#include "cuda/backend.h"
#include "ebb/ebb.h"
#include "ebb/losses/registry.h"
#include "graph/op_table.h"
#include "loss_pictures.h"
#include "run_program.h"
#include "scratch_folder.h"
#include "source_folder.h"
#include "text_table.h"

// The inspecting commands: losses, ops, gradcheck, plot, info, bench, completion.
namespace ebb {
namespace {

using nlohmann::json;

json parsed(const std::vector<std::string>& words) {
  const ProgramResult r = run_ebb(words);
  EXPECT_EQ(r.code, 0) << r.err;
  return json::parse(r.out);
}

TEST(TextTable, AlignsLettersNotBytes) {
  program::TextTable table({"name", "value"}, {1});
  table.add({"β", "1"});
  table.add({"longer", "22"});
  EXPECT_EQ(table.str(), "name    value\nβ           1\nlonger     22\n");
}

TEST(LossesCommand, ListsTheRegistry) {
  const json all = parsed({"losses", "--json"});
  ASSERT_EQ(all.size(), loss_registry().size());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i]["name"], loss_registry()[i].name);
  EXPECT_EQ(parsed({"losses", "--family", "alignment", "--json"}).size(), 2u);
  const ProgramResult table = run_ebb({"losses"});
  EXPECT_NE(table.out.find("huber_loss"), std::string::npos);
}

TEST(LossesCommand, ShowsOneInFull) {
  const ProgramResult r = run_ebb({"losses", "huber_loss"});
  EXPECT_EQ(r.code, 0);
  for (const char* part :
       {"δ·(|d| − δ/2)", "delta = 1", "where the parabola becomes a line", "weight", "docs/losses.md#huber_loss"}) {
    EXPECT_NE(r.out.find(part), std::string::npos) << part << "\n" << r.out;
  }
  EXPECT_EQ(parsed({"losses", "huber_loss", "--json"})["options"][0]["default"], "1");
  EXPECT_EQ(run_ebb({"losses", "no_such"}).code, 2);
}

TEST(OpsCommand, ListsTheTable) {
  const json all = parsed({"ops", "--json"});
  ASSERT_EQ(all.size(), static_cast<std::size_t>(kOpCount));
  std::map<std::string, json> by_name;
  for (const json& op : all) by_name[op["name"]] = op;
  EXPECT_EQ(by_name["matmul"], (json{{"name", "matmul"}, {"class", "library"}, {"inputs", 2}, {"gradient", "yes"}}));
  EXPECT_EQ(by_name["floor"]["gradient"], "zero");
}

TEST(GradcheckCommand, ChecksWhatItsPatternsName) {
  const json rows = parsed({"gradcheck", "tanh*", "huber_loss", "--json"});
  ASSERT_EQ(rows.size(), 12u);  // tanh, tanhshrink and a loss, in four dtypes
  for (const json& row : rows) {
    EXPECT_TRUE(row["passed"]) << row;
    EXPECT_GT(row["gradient_error"], 0) << row;
    EXPECT_LE(row["gradient_error"], row["gradient_allowed"]) << row;
  }
  EXPECT_EQ(parsed({"gradcheck", "--dtype", "f64", "--dtype", "bf16", "mse_loss", "--json"}).size(), 2u);
  const ProgramResult none = run_ebb({"gradcheck", "no_such_thing"});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("is called no_such_thing"), std::string::npos) << none.err;
}

TEST(GradcheckCommand, EveryOperationAndLossPasses) {
  const ProgramResult r = run_ebb({"gradcheck"});
  EXPECT_EQ(r.code, 0) << r.err;
  std::istringstream lines(r.out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(line.find("FAILED"), std::string::npos) << line;
  }
}

TEST(PlotCommand, DrawsAnyLoss) {
  const ScratchFolder folder;
  for (const char* loss : {"huber_loss", "ctc_loss"}) {  // one of one prediction, one of many
    const ProgramResult r = run_ebb({"plot", loss, "--out", folder / "a.svg"});
    EXPECT_EQ(r.code, 0) << r.err;
    const std::string svg = read_whole(folder / "a.svg");
    EXPECT_EQ(svg.find("<svg"), 0u);
    EXPECT_NE(svg.find(loss), std::string::npos);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
  }
  const ProgramResult wide = run_ebb({"plot", "huber_loss", "--option", "delta=2", "--out", "-"});
  EXPECT_NE(wide.out.find("huber_loss, delta = 2"), std::string::npos) << wide.err;
  EXPECT_EQ(run_ebb({"plot", "huber_loss", "--option", "dalta=2"}).code, 2);
  EXPECT_EQ(run_ebb({"plot"}).code, 2);
}

TEST(PlotCommand, EveryLossHasACurveWithItsSlope) {
  for (const LossInfo& loss : loss_registry()) {
    const program::LossCurve c = program::loss_curve(loss.name);
    ASSERT_GT(c.x.size(), 100u);
    // The gradient is the slope of the drawn line where the line bends little.
    std::size_t right = 0, all = 0;
    for (std::size_t i = 1; i + 1 < c.x.size(); ++i) {
      const double slope = (c.value[i + 1] - c.value[i - 1]) / (c.x[i + 1] - c.x[i - 1]);
      if (!std::isfinite(slope)) continue;
      ++all;
      right += std::abs(slope - c.gradient[i]) <= 0.02 * (1 + std::abs(slope));
    }
    if (!cases::gradient_is_slope(loss.name)) continue;
    EXPECT_GE(right, all * 9 / 10) << loss.name;
  }
}

TEST(PlotCommand, TheGalleryIsTheDocumentations) {
  const ScratchFolder folder;
  ASSERT_EQ(run_ebb({"plot", "--gallery", folder.path()}).code, 0);
  const auto docs = testing::source_folder() / "docs/img/losses";
  std::size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator(docs)) {
    ++count;
    EXPECT_TRUE(std::filesystem::exists(folder / file.path().filename().string())) << file.path();
  }
  EXPECT_EQ(count, loss_registry().size());
}

TEST(InfoCommand, DescribesEveryKindOfFile) {
  const ScratchFolder folder;
  io::save_npy(folder / "a.npy", zeros({2, 3}));
  json npy = parsed({"info", folder / "a.npy", "--json"});
  EXPECT_EQ(npy["format"], "npy");
  EXPECT_EQ(npy["tensors"][0]["shape"], (std::vector<int>{2, 3}));
  EXPECT_EQ(npy["bytes"], 24);

  io::save_npz(folder / "b.npz", {{"x", zeros({4}, DType::f64)}, {"y", zeros({2}, DType::i64)}});
  json npz = parsed({"info", folder / "b.npz", "--json"});
  EXPECT_EQ(npz["format"], "npz");
  EXPECT_EQ(npz["tensors"].size(), 2u);
  EXPECT_EQ(npz["elements"], 6);

  io::save_safetensors(folder / "c.safetensors", {{"w", zeros({5, 7}, DType::bf16)}}, {{"made by", "a test"}});
  json tensors = parsed({"info", folder / "c.safetensors", "--json"});
  EXPECT_EQ(tensors["format"], "safetensors");
  EXPECT_EQ(tensors["tensors"][0]["dtype"], "BF16");
  EXPECT_EQ(tensors["metadata"]["made by"], "a test");

  io::Checkpoint checkpoint;
  checkpoint.parameters["w"] = zeros({3});
  checkpoint.step = 17;
  io::save_checkpoint(folder / "d.safetensors", checkpoint);
  json saved = parsed({"info", folder / "d.safetensors", "--json"});
  EXPECT_EQ(saved["format"], "checkpoint");
  EXPECT_EQ(saved["metadata"]["ebb.step"], "17");
  const ProgramResult text = run_ebb({"info", folder / "d.safetensors"});
  EXPECT_NE(text.out.find("parameters.w"), std::string::npos) << text.out;

  std::string bytes = read_whole(folder / "d.safetensors");
  bytes.back() ^= 1;
  write_whole(folder / "d.safetensors", bytes);
  const ProgramResult damaged = run_ebb({"info", folder / "d.safetensors"});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_NE(damaged.err.find("damaged"), std::string::npos) << damaged.err;
  for (const std::string& bad : {folder / "none", folder.path()}) EXPECT_EQ(run_ebb({"info", bad}).code, 1) << bad;
}

TEST(BenchCommand, MeasuresAndItsOutputParses) {
  const json result = parsed({"bench", "--json", "--threads", "1"});
  EXPECT_EQ(result["threads"], 1);
  ASSERT_EQ(result["rows"].size(), 6u);
  for (const json& row : result["rows"]) EXPECT_GT(row["rate"], 0) << row;
}

// Returns what bash would offer after these words, the last of which is being typed.
std::vector<std::string> offered(const std::string& script, const std::string& words, int count) {
  const std::string ask = "source " + script + "; COMP_WORDS=(" + words + "); COMP_CWORD=" + std::to_string(count - 1) +
                          "; _ebb; printf '%s\\n' \"${COMPREPLY[@]}\"";
  const ProgramResult r = run_program({"bash", "-c", ask});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  std::vector<std::string> all;
  std::istringstream lines(r.out);
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  std::sort(all.begin(), all.end());
  return all;
}

TEST(CompletionCommand, BashOffersCommandsFlagsLossesAndFiles) {
  const ScratchFolder folder;
  const ProgramResult r = run_ebb({"completion", "bash"});
  ASSERT_EQ(r.code, 0);
  const std::string script = folder / "ebb.bash";
  write_whole(script, r.out);
  using Words = std::vector<std::string>;
  EXPECT_EQ(offered(script, "ebb lo", 2), (Words{"loss", "losses"}));
  EXPECT_EQ(offered(script, "ebb loss hub", 3), (Words{"huber_loss"}));
  EXPECT_EQ(offered(script, "ebb plot kl_d", 3), (Words{"kl_div", "kl_divergence"}));
  EXPECT_EQ(offered(script, "ebb loss mse_loss --red", 4), (Words{"--reduction"}));
  EXPECT_EQ(offered(script, "ebb loss mse_loss --reduction s", 5), (Words{"sum"}));
  EXPECT_EQ(offered(script, "ebb gradcheck --dtype f", 4), (Words{"f16", "f32", "f64"}));
  EXPECT_EQ(offered(script, "ebb completion f", 3), (Words{"fish"}));
  EXPECT_EQ(offered(script, "ebb info " + (folder / "ebb.b"), 3), (Words{script}));
}

TEST(CompletionCommand, EveryShellKnowsEveryCommand) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const ProgramResult r = run_ebb({"completion", shell});
    EXPECT_EQ(r.code, 0);
    for (const char* word : {"gradcheck", "completion", "huber_loss", "reduction", "bf16"}) {
      EXPECT_NE(r.out.find(word), std::string::npos) << shell << " " << word;
    }
  }
  EXPECT_EQ(run_ebb({"completion", "tcsh"}).code, 2);
}

TEST(InfoCommand, ListsTheDevicesOrSaysWhyThereIsNoGpu) {
  const ProgramResult r = run_ebb({"info"});
  EXPECT_EQ(r.code, 0);
  EXPECT_TRUE(r.out.starts_with("cpu ")) << r.out;
  const json all = parsed({"info", "--json"});
  ASSERT_EQ(all["devices"].size(), 1u + static_cast<std::size_t>(cuda::count()));
  EXPECT_EQ(all["devices"][0]["device"], "cpu");
  if (cuda::count() == 0) {
    EXPECT_NE(r.out.find("\nno GPU: " + cuda::why_unavailable(0) + "\n"), std::string::npos) << r.out;
    EXPECT_EQ(all["no_gpu"], cuda::why_unavailable(0));
  } else {
    EXPECT_NE(r.out.find("\ncuda:0 "), std::string::npos) << r.out;
    EXPECT_EQ(all["no_gpu"], "");
  }
}

TEST(DeviceOption, RejectsWhatIsNotThere) {
  const ProgramResult unknown = run_ebb({"gradcheck", "mse_loss", "--device", "tpu"});
  EXPECT_NE(unknown.code, 0);
  EXPECT_NE(unknown.err.find("'tpu' is not a device; use cpu, cuda or cuda:N"), std::string::npos) << unknown.err;
  const ProgramResult missing = run_ebb({"gradcheck", "mse_loss", "--device", "cuda:15"});
  EXPECT_NE(missing.code, 0);
  EXPECT_NE(missing.err.find("there is no cuda:15 on this machine: " + cuda::why_unavailable(15)), std::string::npos)
      << missing.err;
  for (const char* there : {"cpu", "auto"}) {
    const ProgramResult r = run_ebb({"gradcheck", "mse_loss", "--device", there});
    EXPECT_EQ(r.code, 0) << r.err;
  }
}

}  // namespace
}  // namespace ebb
