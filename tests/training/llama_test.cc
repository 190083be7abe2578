// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ebb/ops.h"
#include "ebb/random.h"
#include "scratch_folder.h"
#include "text_reader.h"
#include "tiny_run.h"

// `ebb train --model llama` and uses of its folder.
namespace ebb::program {
namespace {

namespace fs = std::filesystem;

const std::string kTokenizer = std::string(EBB_GOLDEN) + "/../../models/golden/tokenizer_llama3.json";

class LlamaRun : public ::testing::Test {
 protected:
  LlamaRun() {
    std::string text;
    for (int i = 0; i < 150; ++i) text += "The tide of day " + std::to_string(i * i) + (i % 5 ? " came in. " : ".\n\n");
    write_whole(scratch / "tides.txt", text);
  }
  Words settings(const Words& more = {}) const {
    Words all{"--data", scratch / "tides.txt", "--context", "48"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Words sizes(const Words& more = {}) const {
    Words all{"--width", "16", "--layers", "2", "--kv-heads", "2", "--tokenizer", kTokenizer};
    all.insert(all.end(), more.begin(), more.end());
    return settings(all);
  }
  ProgramResult train(const std::string& run, const Words& words) const {
    ProgramResult r = run_ebb(tiny_run(run, words, "llama"));
    EXPECT_EQ(r.code, 0) << r.err;
    return r;
  }
  double test_loss(const std::string& run) const {
    const ProgramResult r = run_ebb({"eval", "--json", "--run", run, "--use", "last"});
    EXPECT_EQ(r.code, 0) << r.err;
    return r.code == 0 ? nlohmann::json::parse(r.out).at("loss").get<double>() : NAN;
  }
  std::string written(const Words& by, const Words& more = {}) const {
    Words words{"generate", "--prompt", "The tide", "--tokens", "30", "--seed", "3"};
    words.insert(words.end(), by.begin(), by.end());
    words.insert(words.end(), more.begin(), more.end());
    const ProgramResult r = run_ebb(words);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  }
  void expect_complaint(const Words& words, const std::string& part) const {
    const ProgramResult r = run_ebb(words);
    EXPECT_NE(r.code, 0);
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  }
  ScratchFolder scratch;
};

TEST_F(LlamaRun, IsTrainedTestedAndWrites) {
  const std::string run = scratch / "run";
  const ProgramResult r = train(run, sizes({"--steps", "40", "--dtype", "bf16", "--head", "untied"}));
  EXPECT_NE(r.out.find("The model as transformers reads it: " + run + "/model"), std::string::npos) << r.out;
  EXPECT_LT(test_loss(run), 5);  // log 300 = 5.7
  EXPECT_EQ(written({"--run", run}), written({"--run", run}, {"--recompute"}));
  // A transformers folder alone gives the same text.
  EXPECT_EQ(written({"--run", run}), written({"--model", run + "/model"}));
  EXPECT_EQ(read_whole(run + "/model/tokenizer.json"), read_whole(kTokenizer));
}

TEST_F(LlamaRun, GoesOnFromTheWeightsOfAFolder) {
  const std::string first = scratch / "first", second = scratch / "second";
  train(first, sizes({"--steps", "30"}));
  const ProgramResult r = train(second, settings({"--init", first + "/model", "--steps", "1", "--lr", "1e-30"}));
  EXPECT_NEAR(test_loss(second), test_loss(first), 1e-6);
  const auto config = nlohmann::json::parse(read_whole(second + "/config.json"));
  EXPECT_EQ(config.at("kv-heads"), 2);
  EXPECT_EQ(config.at("feed-forward"), 64);
  // The run no longer needs the folder.
  fs::rename(first, scratch / "elsewhere");
  const ProgramResult more = run_ebb({"train", "--resume", second, "--steps", "4"});
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_NEAR(test_loss(second), test_loss(scratch / "elsewhere"), 1e-6);
}

TEST_F(LlamaRun, PacksDocumentsIntoRows) {
  const std::string run = scratch / "run";
  const ProgramResult r = train(run, sizes({"--steps", "40", "--documents", "\\n\\n"}));
  const double loss = test_loss(run);
  EXPECT_LT(loss, 5) << r.out;
  EXPECT_EQ(written({"--run", run}), written({"--run", run}, {"--recompute"}));
}

TEST_F(LlamaRun, TrainsWithProductsOfEightBits) {
  const std::string run = scratch / "run", usual = scratch / "usual";
  train(run, sizes({"--steps", "40", "--dtype", "bf16", "--products", "fp8"}));
  train(usual, sizes({"--steps", "40", "--dtype", "bf16"}));
  EXPECT_LT(test_loss(run), 5);
  EXPECT_NEAR(test_loss(run), test_loss(usual), 0.2);
  EXPECT_NE(test_loss(run), test_loss(usual));
}

TEST_F(LlamaRun, NamesSettingsThatDoNotFit) {
  const std::string run = scratch / "run";
  const auto complains = [&](const Words& words, const std::string& part, const std::string& model = "llama") {
    expect_complaint(tiny_run(run, settings(words), model), part);
    EXPECT_FALSE(fs::exists(run));
  };
  complains({"--kv-heads", "3"}, "--kv-heads 3 cannot be shared evenly by --heads 4");
  complains({"--dropout", "0.1"}, "--dropout 0.1: --model llama has none");
  complains({"--documents", "x"}, "--documents x is for --model llama, not gpt", "gpt");
  complains({"--products", "fp8"}, "--products fp8 is for --model llama, not gpt", "gpt");
  complains({"--init", scratch / "none"}, "none/config.json");
  complains({"--tokenizer", scratch / "tides.txt"}, "tides.txt: its JSON cannot be read");
  const std::string golden = fs::path(kTokenizer).parent_path().string();
  complains({"--init", golden + "/untied", "--width", "8"}, "--width is a setting of the model that --init names");
  complains({"--init", golden + "/untied"}, "the folder has no tokenizer.json; name one by --tokenizer");
  complains({"--init", golden + "/untied", "--tokenizer", kTokenizer},
            "the tokenizer has 300 tokens, the model's vocabulary only 48");
}

TEST(LlamaReader, GivesTheLogitsOfTheWholeWindow) {
  manual_seed(5);
  constexpr std::int64_t kContext = 12;
  models::Llama llama({.vocab_size = 50,
                       .hidden_size = 16,
                       .intermediate_size = 24,
                       .num_hidden_layers = 2,
                       .num_attention_heads = 4,
                       .num_key_value_heads = 2,
                       .initializer_range = 0.3});
  TextReader reader(llama, kContext);
  std::vector<double> logits = reader.begin({3, 1, 4});
  for (int k = 0; k < 30; ++k) {
    const auto n = static_cast<std::int64_t>(reader.window().size());
    const std::vector<double> expected = llama.logits(from_data(reader.window(), {1, n}))[0][n - 1].to_vector();
    ASSERT_EQ(logits.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(logits[i], expected[i], 1e-5 * std::max(1.0, std::abs(expected[i]))) << k << " " << i;
    logits = reader.next(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
}

}  // namespace
}  // namespace ebb::program
