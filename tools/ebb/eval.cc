// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "choices.h"
#include "commands.h"
#include "core/format_error.h"
#include "device_option.h"
#include "ebb/memory.h"
#include "progress.h"
#include "report.h"
#include "run_folder.h"
#include "trained_weights.h"
#include "trainer.h"

namespace ebb::program {
namespace {

struct EvalCommand {
  TrainedWeights weights;
  std::string data, format, target;
  std::int64_t test_count = 0, threads = 0;
  std::optional<std::uint64_t> seed;
  bool json = false;
};

// The settings of the run, with other data if the user requests it.
RunConfig settings_of(const EvalCommand& c, RunConfig config) {
  if (!c.data.empty()) {
    config.data = c.data;
    // A file given here is all test data; generated data has a test set of its own.
    config.test_data = c.data == "digits" || c.data == "tales" ? "" : c.data;
    config.format = "auto";
  }
  if (!c.format.empty()) config.format = c.format;
  if (!c.target.empty()) config.target = c.target;
  if (c.test_count > 0) config.test_count = c.test_count;
  if (c.seed) config.seed = *c.seed;
  return config;
}

void run_eval(const EvalCommand& c) {
  if (c.threads > 0) set_num_threads(static_cast<int>(c.threads));
  const std::string path = c.weights.path();
  const TrainedModel trained = load_trained_model(path);
  const RunConfig config = settings_of(c, trained.config);
  const Examples examples = load_test_examples(config, trained.facts);
  const Clock clock;
  const Evaluation e = evaluate(trained.model, examples, trained.facts);
  const double seconds = clock.seconds();
  const Task task = trained.facts.task;
  if (c.json) {
    nlohmann::ordered_json out{{"checkpoint", path},  {"step", trained.step},        {"model", config.model},
                               {"data", config.data}, {"examples", examples.size()}, {"seconds", seconds}};
    out.update(measured(e, examples, trained.facts));
    std::printf("%s\n", out.dump().c_str());
    return;
  }
  std::string line =
      fmt::format("{} after step {} on {}: loss {:.4f}", config.model, grouped(trained.step), config.data, e.loss);
  line += ", " + in_words(e, trained.facts);
  std::printf("%s (%s %s, %s)\n", line.c_str(), grouped(examples.size()).c_str(),
              task == Task::text ? "windows" : "examples", duration(seconds).c_str());
}

}  // namespace

void add_eval_command(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("eval", "Test a trained network");
  auto c = std::make_shared<EvalCommand>();
  c->weights.add_options(sub, "What is tested");
  add_device_option(*sub);
  sub->add_option("--data", c->data, "Other data than that of the run: digits, tales, or a path, all of it");
  sub->add_option("--format", c->format, "What the path holds")
      ->check(one_of({"auto", "idx", "cifar", "images", "csv", "text"}));
  sub->add_option("--target", c->target, "CSV: the column with the class or number, where its name differs");
  sub->add_option("--test-count", c->test_count, "How many digits to generate")->check(CLI::PositiveNumber);
  sub->add_option("--seed", c->seed, "Of generated data; another one gives digits nobody has seen");
  sub->add_option("--threads", c->threads, "Threads that compute (0: all)")->check(CLI::NonNegativeNumber);
  sub->add_flag("--json", c->json, "Print a JSON object, with the confusion matrix");
  sub->footer(
      "Examples:\n"
      "  ebb eval --run runs/cnn\n"
      "  ebb eval --run runs/cnn --seed 7 --test-count 10000\n"
      "  ebb eval --checkpoint runs/cnn/checkpoint.safetensors --data mnist/ --json");
  sub->callback([c] { run_eval(*c); });
}

}  // namespace ebb::program
