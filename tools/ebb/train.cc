// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "comm/mpi_library.h"
#include "commands.h"
#include "core/format_error.h"
#include "dataset.h"
#include "device_option.h"
#include "ranks.h"
#include "restarts.h"
#include "run_config.h"
#include "run_folder.h"
#include "trainer.h"
#include "training_run.h"

namespace ebb::program {
namespace {

struct TrainCommand {
  RunConfig config;
  std::string settings_file, out, resume;
  bool overwrite = false, json = false;
  Restarts restarts;
};

// Settings that may differ when a run is resumed: how long it lasts and how it is shown, but nothing that earlier steps
// used.
bool may_change(const std::string& name) {
  for (const char* free : {"--epochs", "--steps", "--threads", "--workers", "--checkpoint-every", "--log-every"}) {
    if (name == free) return true;
  }
  return false;
}

RunConfig continued(const CLI::App& app, const TrainCommand& c, const RunFolder& folder) {
  RunConfig config = config_from_json(folder.read_config(), folder.config());
  nlohmann::json merged = to_json(config);
  const nlohmann::json given = to_json(c.config);
  each_setting(config, [&](const std::string& name, auto&, const char*, const auto&) {
    if (app.get_option("--" + name)->count() == 0) return;
    if (!may_change("--" + name)) {
      throw CLI::ValidationError("--" + name + " belongs to the run and cannot be changed when it is resumed");
    }
    merged[name] = given[name];
    if (name == "epochs") merged["steps"] = 0;
  });
  config = config_from_json(merged, folder.config());
  resolve(config);
  return config;
}

// 0 is the initial value of these settings; if given, it would be a run without a step.
void require_length(const CLI::App& app, const RunConfig& c) {
  const bool some = c.epochs > 0 || c.steps > 0;
  for (const auto& [name, value] :
       {std::pair{"--epochs", c.epochs}, std::pair{"--steps", static_cast<double>(c.steps)}}) {
    if (app.get_option(name)->count() > 0 && !(value > 0) && !(some && value == 0)) {
      throw CLI::ValidationError(
          fmt::format("{} must be positive, got {}; without it a number is chosen", name, value));
    }
  }
}

// A loaded model determines its sizes.
void take_sizes(const CLI::App& app, RunConfig& c) {
  for (const char* name :
       {"--width", "--layers", "--heads", "--kv-heads", "--feed-forward", "--head", "--rope-theta"}) {
    if (app.get_option(name)->count() > 0)
      throw CLI::ValidationError(
          fmt::format("{} is a setting of the model that --init names and cannot be given", name));
  }
  const models::LlamaConfig read = models::load_llama_config(c.init);
  c.width = read.hidden_size;
  c.layers = read.num_hidden_layers;
  c.heads = read.num_attention_heads;
  c.kv_heads = read.key_value_heads();
  c.feed_forward = read.intermediate_size;
  c.head = read.tie_word_embeddings ? "tied" : "untied";
  c.rope_theta = read.rope_theta;
}

void train(const CLI::App& app, TrainCommand& c) {
  require_length(app, c.config);
  if (c.restarts.wanted()) {
    if (comm::launched_by_mpi()) {
      throw CLI::ValidationError(
          "--restart-on-failure starts the ranks itself: `ebb train --launcher \"mpirun -n 4\" ...` without mpirun "
          "before it");
    }
    const std::string folder = c.resume.empty() ? c.out : c.resume;
    if (folder.empty()) throw CLI::ValidationError("--restart-on-failure and --launcher need --out or --resume");
    train_with_restarts(c.restarts, folder);
    return;
  }
  if (!c.resume.empty()) {
    // Avoids creating a folder only to report that it is empty.
    if (!std::filesystem::is_directory(c.resume)) RunFolder(c.resume, RunFolder::Use::reads).read_config();
    RunFolder folder = open_folder(c.resume);
    const RunConfig config = continued(app, c, folder);
    run_training(config, folder, {.resume = true, .json = c.json});
    return;
  }
  if (c.config.model == "auto") c.config.model = c.config.init.empty() ? model_for_data(c.config) : "llama";
  if (!c.config.init.empty()) take_sizes(app, c.config);
  resolve(c.config);
  if (c.config.shards == 0) c.config.shards = c.config.tensor_parallel > 0 ? 1 : usual_shards();
  RunFolder folder = open_folder(c.out.empty() ? "runs/" + c.config.model : c.out);
  if (folder.holds_run() && !c.overwrite) {
    throw CLI::ValidationError(fmt::format(
        "{0} holds a run already: --resume {0} continues it, --overwrite replaces it", folder.path().string()));
  }
  if (const std::string file = folder.in_the_way(); !file.empty() && !c.overwrite) {
    throw CLI::ValidationError(fmt::format("{} is in the way; another --out, or --overwrite to replace it", file));
  }
  run_training(c.config, folder, {.json = c.json});
}

}  // namespace

void add_train_command(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("train", "Train a network and write a report about it");
  auto c = std::make_shared<TrainCommand>();
  add_settings(*sub, c->config);
  add_device_option(*sub);
  sub->add_option("--config", c->settings_file,
                  "Options from a JSON or TOML file; those on the command line take precedence")
      ->check(CLI::ExistingFile);
  CLI::Option* out = sub->add_option("--out", c->out, "Folder of the run (runs/MODEL unless given)");
  CLI::Option* resume = sub->add_option("--resume", c->resume, "Continue the run in this folder")->excludes(out);
  sub->add_flag("--overwrite", c->overwrite,
                "Replace the run in the folder, as soon as the new one has saved a checkpoint")
      ->excludes(resume);
  sub->add_flag("--json", c->json, "Print the result as a JSON object, and all else on the standard error");
  sub->add_option("--launcher", c->restarts.launcher, "Start the ranks by this command: \"mpirun -n 4\"");
  sub->add_option("--restart-on-failure", c->restarts.most,
                  "Start again from the last checkpoint when a rank is lost, so many times at most")
      ->check(CLI::NonNegativeNumber);
  sub->footer(
      "Examples:\n"
      "  ebb train                                        a convolutional network on generated digits\n"
      "  ebb train --model mlp --epochs 3 --out runs/quick\n"
      "  ebb train --data iris.csv --target species       a table; a column of numbers gives a regression\n"
      "  ebb train --data photos/ --resize 64 --patience 5\n"
      "  ebb train --model resnet --data cifar-10-batches-bin --epochs 20 --dtype bf16\n"
      "  ebb train --model gpt --data book.txt --steps 2000 --clip 1\n"
      "  ebb train --init Llama-3.2-1B --data book.txt --dtype bf16 --clip 1\n"
      "  ebb train --config run.toml --lr 0.01\n"
      "  ebb train --resume runs/quick                    goes on where it was stopped, bit-identically\n"
      "  mpirun -n 4 ebb train --shards 4                 four processes, the bits of one; see docs/distributed.md\n"
      "  ebb train --launcher \"mpirun -n 4\" --restart-on-failure 5 --out runs/long\n"
      "Ctrl-C finishes the step, saves and tells how to go on.");
  sub->callback([sub, c] {
    if (!c->settings_file.empty()) read_settings_file(*sub, c->settings_file);
    if (!c->resume.empty() && (c->overwrite || !c->out.empty())) {  // one of them may come from the file
      throw CLI::ValidationError("--resume continues a run in its folder and excludes --out and --overwrite");
    }
    train(*sub, *c);
  });
}

}  // namespace ebb::program
