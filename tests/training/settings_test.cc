// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "expect_error.h"
#include "run_config.h"
#include "scratch_folder.h"
#include "trainer.h"

// Settings from the command line and from files.
namespace ebb::program {
namespace {

RunConfig read(const std::vector<std::string>& words, const std::string& file) {
  RunConfig config;
  CLI::App app;
  add_settings(app, config);
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // CLI11 takes them from the back
  app.parse(reversed);
  if (!file.empty()) read_settings_file(app, file);
  return config;
}

TEST(Settings, AFileGivesWhatTheCommandLineLeavesOpen) {
  ScratchFolder scratch;
  const std::string toml = scratch / "run.toml", json = scratch / "run.json";
  write_whole(toml,
              "# a run\nmodel = \"mlp\"\nhidden = [32, 16]\nlr = 0.5\nweight_decay = 0.25\n\n[train]\nbatch = 7\n");
  write_whole(json, R"({"model": "mlp", "hidden": [32, 16], "lr": 0.5, "weight-decay": 0.25, "batch": 7})");
  for (const std::string& file : {toml, json}) {
    const RunConfig c = read({"--lr", "0.125"}, file);
    EXPECT_EQ(c.model, "mlp") << file;
    EXPECT_EQ(c.hidden, (std::vector<std::int64_t>{32, 16})) << file;
    EXPECT_EQ(c.lr, 0.125) << file;
    EXPECT_EQ(c.weight_decay, 0.25) << file;
    EXPECT_EQ(c.batch, 7) << file;
  }
}

TEST(Settings, WhatIsWrongInAFileIsNamed) {
  ScratchFolder scratch;
  const std::string file = scratch / "run.toml";
  const auto expect = [&](const std::string& text, const std::string& part) {
    write_whole(file, text);
    EXPECT_THROW_MESSAGE(read({}, file), part);
  };
  expect("batchh = 3\n", "there is no setting 'batchh'; did you mean 'batch'?");
  expect("model = \"tree\"\n", "run.toml: --model");
  expect("batch = \"many\"\n", "run.toml: ");
  expect("[other]\nbatch = 3\n", "settings are outside sections or in [train]");
  expect("{\"batch\": ", "run.toml: ");
  expect("{\"model\": {\"a\": 1}}", "run.toml: --model");
  EXPECT_THROW_MESSAGE(read({}, scratch / "none.toml"), "cannot be read");
}

TEST(Settings, SurviveJson) {
  RunConfig c;
  c.hidden = {3, 4};
  c.seed = 18446744073709551615u;
  c.lr = 0.1;
  c.data = "a \"quoted\" path";
  resolve(c);
  const nlohmann::json json = to_json(c);
  EXPECT_EQ(to_json(config_from_json(nlohmann::json::parse(json.dump()), "test")), json);
  // A run from before this setting existed had relu and unsmoothed targets.
  const RunConfig old = config_from_json({{"model", "mlp"}}, "config.json");
  EXPECT_EQ(old.activation, "relu");
  EXPECT_EQ(old.label_smoothing, 0);
  EXPECT_THROW_MESSAGE(config_from_json({{"batch", "x"}}, "config.json"), "config.json: 'batch' cannot be \"x\"");
}

TEST(Settings, WhatMakesNoSenseIsRefusedInTheWordsOfTheOptions) {
  const auto expect = [](auto change, const std::string& part) {
    RunConfig c;
    change(c);
    EXPECT_THROW_MESSAGE(resolve(c), part);
  };
  expect([](RunConfig& c) { c.batch = -1; }, "--batch must be at least 0, got -1");
  expect([](RunConfig& c) { c.dropout = 1; }, "--dropout must lie in [0, 1), got 1");
  expect([](RunConfig& c) { c.test_fraction = 0; }, "--test-fraction must lie between 0 and 1");
  expect([](RunConfig& c) { c.tokens = 10; }, "--tokens must be at least 256, got 10");
  expect([](RunConfig& c) { c.model = "gpt", c.width = 30, c.heads = 4; },
         "--width 30 cannot be divided among --heads 4");
  // However a name got into the settings, an unknown one is rejected, not replaced.
  expect([](RunConfig& c) { c.optimizer = "adamm"; }, "--optimizer: 'adamm' is not one of adamw, adam");
  expect([](RunConfig& c) { c.optimizer = "adamm"; }, "did you mean 'adam");
  expect([](RunConfig& c) { c.schedule = "cosin"; }, "did you mean 'cosine'?");
  expect([](RunConfig& c) { c.model = "rnn"; }, "--model: 'rnn' is not one of");
  expect([](RunConfig& c) { c.lr = -1; }, "--lr must be at least 0");
}

TEST(Settings, EveryModelAndOptimiserGetsARate) {
  for (const char* model : {"mlp", "cnn", "resnet", "gpt", "llama"}) {
    for (const char* optimizer : {"adamw", "sgd", "lion", "lars"}) {
      RunConfig c;
      c.model = model;
      c.optimizer = optimizer;
      resolve(c);
      resolve_length(c, 1000);
      EXPECT_GT(c.lr, 0);
      EXPECT_GT(c.batch, 0);
      EXPECT_GT(c.epochs, 0);
    }
  }
}

TEST(Settings, LittleDataGetsManyPasses) {
  for (const std::int64_t examples : {1, 10, 100, 1000, 100000}) {
    RunConfig c;
    c.model = "mlp";
    resolve(c);
    resolve_length(c, examples);
    const double steps =
        c.epochs * std::max(1.0, std::floor(static_cast<double>(examples) / static_cast<double>(c.batch)));
    EXPECT_GE(steps, 2000) << examples;
    EXPECT_GE(c.epochs, 10) << examples;
  }
}

TEST(Settings, RowsGetAHundredPassesUnlessTheyTakeLong) {
  const auto epochs = [](std::int64_t examples) {
    RunConfig c;
    c.model = "mlp";
    resolve(c);
    resolve_length(c, examples, true);
    return c.epochs;
  };
  EXPECT_GT(epochs(100), 100);  // 2,000 steps
  EXPECT_EQ(epochs(5000), 100);
  EXPECT_EQ(epochs(64000), 10);  // 10,000 steps
  EXPECT_EQ(epochs(1000000), 10);
}

TEST(Settings, NamesAreUtf8) {
  RunConfig c;
  c.model = "mlp";
  c.data = "caf\xE9.csv";
  EXPECT_THROW_MESSAGE(resolve(c), "the name is not UTF-8");
  c.data = "caf\xC3\xA9.csv";
  resolve(c);
}

TEST(Settings, AnOptimiserThatNobodyKnowsIsAnError) {
  RunConfig c;
  c.model = "mlp";
  c.train_count = c.test_count = 10;
  resolve(c);
  resolve_length(c, 10);
  const Dataset data = load_dataset(c);
  c.optimizer = "adamm";
  EXPECT_THROW_MESSAGE(Trainer(c, data), "optimizer: there is no 'adamm'; did you mean 'adam");
}

}  // namespace
}  // namespace ebb::program
