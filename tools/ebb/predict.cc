// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "core/format_error.h"
#include "ebb/memory.h"
#include "ebb/ops.h"
#include "run_folder.h"
#include "trained_weights.h"
#include "trainer.h"

namespace ebb::program {
namespace {

struct PredictCommand {
  TrainedWeights weights;
  std::string data, out;
  std::vector<std::string> keep;
  bool probabilities = false, json = false;
  std::int64_t threads = 0;
};

// The prediction for an example.
struct Prediction {
  bool finite = true;                 // NaN is not a prediction, and then no class is the most likely
  double number = 0;                  // of a regression
  std::size_t best = 0;               // of classes
  std::vector<double> probabilities;  // by class
};

std::vector<Prediction> predictions_of(const Tensor& predicted, const DataFacts& facts, std::size_t count) {
  const std::vector<double> all = predicted.to_vector();
  std::vector<Prediction> out(count);
  const auto classes = static_cast<std::ptrdiff_t>(facts.class_count());
  for (std::size_t i = 0; i < count; ++i) {
    if (facts.task == Task::numbers) {
      out[i].number = all[i];
      out[i].finite = std::isfinite(all[i]);
      continue;
    }
    const auto row = all.begin() + static_cast<std::ptrdiff_t>(i) * classes;
    out[i].probabilities.assign(row, row + classes);
    out[i].best = static_cast<std::size_t>(std::max_element(row, row + classes) - row);
    out[i].finite = std::all_of(row, row + classes, [](double p) { return std::isfinite(p); });
  }
  return out;
}

// A CSV field, quoted if necessary.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string s = "\"";
  for (char c : text) s += c == '"' ? std::string("\"\"") : std::string(1, c);
  return s + "\"";
}

std::string as_csv(const Unlabelled& data, const std::vector<Prediction>& all, const DataFacts& facts,
                   bool probabilities) {
  const bool numbers = facts.task == Task::numbers;
  std::vector<std::string> own{"prediction"};
  if (!numbers) own.push_back("probability");
  for (std::size_t k = 0; probabilities && k < facts.classes.size(); ++k) own.push_back("P(" + facts.classes[k] + ")");
  const std::string first = data.pictures ? "file" : "row";
  std::string s = first;
  for (const std::string& name : data.kept_names) {  // a file of earlier predictions has columns of these names, too
    const bool taken = name == first || std::find(own.begin(), own.end(), name) != own.end();
    s += "," + field(taken ? "kept " + name : name);
  }
  for (const std::string& name : own) s += "," + field(name);
  s += "\n";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Prediction& p = all[i];
    s += field(data.names[i]);
    for (std::size_t k = 0; k < data.kept_names.size(); ++k) s += "," + field(data.kept[i][k]);
    if (!p.finite) {
      s += numbers ? "," : ",,";
    } else {
      s += numbers ? fmt::format(",{:.9g}", p.number)
                   : fmt::format(",{},{:.6g}", field(facts.classes[p.best]), p.probabilities[p.best]);
    }
    for (std::size_t k = 0; probabilities && k < p.probabilities.size(); ++k)
      s += p.finite ? fmt::format(",{:.6g}", p.probabilities[k]) : ",";
    s += "\n";
  }
  return s;
}

// An array with one line per example.
std::string as_json(const Unlabelled& data, const std::vector<Prediction>& all, const DataFacts& facts,
                    bool probabilities) {
  std::string s = "[";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Prediction& p = all[i];
    nlohmann::ordered_json j;
    if (data.pictures) {
      j["file"] = data.names[i];
    } else {
      j["row"] = i + 1;
    }
    for (std::size_t k = 0; k < data.kept_names.size(); ++k) j["keep"][data.kept_names[k]] = data.kept[i][k];
    if (facts.task == Task::numbers) {
      j["prediction"] = p.number;
    } else if (!p.finite) {
      j["prediction"] = nullptr;
      j["probability"] = nullptr;
    } else {
      j["prediction"] = facts.classes[p.best];
      j["probability"] = p.probabilities[p.best];
    }
    for (std::size_t k = 0; probabilities && k < p.probabilities.size(); ++k)
      j["probabilities"][facts.classes[k]] = p.probabilities[k];
    s += (i == 0 ? "\n" : ",\n") + j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }
  return s + "\n]\n";
}

void run_predict(const PredictCommand& c) {
  if (c.threads > 0) set_num_threads(static_cast<int>(c.threads));
  const std::string path = c.weights.path();
  const TrainedModel trained = load_trained_model(path);
  require(!c.probabilities || trained.facts.task == Task::classes,
          "--probabilities: {} was trained to predict numbers, which have none", path);
  const Unlabelled data = load_unlabelled(c.data == "-" ? "/dev/stdin" : c.data, trained.facts, c.keep);
  for (const std::string& note : data.notes) std::fprintf(stderr, "ebb: note: %s\n", note.c_str());
  const auto predicted =
      predictions_of(predict(trained.model, data.inputs, trained.facts), trained.facts, data.names.size());
  const auto lost = std::find_if(predicted.begin(), predicted.end(), [](const Prediction& p) { return !p.finite; });
  if (lost != predicted.end()) {
    std::fprintf(stderr,
                 "ebb: note: %td of %zu predictions are not finite numbers and are left empty, the first that of %s%s: "
                 "its inputs are too far from those of the training\n",
                 std::count_if(lost, predicted.end(), [](const Prediction& p) { return !p.finite; }), predicted.size(),
                 data.pictures ? "" : "row ", data.names[static_cast<std::size_t>(lost - predicted.begin())].c_str());
  }
  const std::string text = (c.json ? as_json : as_csv)(data, predicted, trained.facts, c.probabilities);
  if (c.out.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    write_file(c.out, text);
  }
}

}  // namespace

void add_predict_command(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("predict", "Let a trained network label rows or pictures");
  auto c = std::make_shared<PredictCommand>();
  c->weights.add_options(sub, "What predicts");
  sub->add_option("--data", c->data,
                  "A CSV file, plain or gzipped, with the columns the network was trained on, the target not needed "
                  "(-: the standard input); a picture; or a folder of pictures")
      ->required();
  sub->add_option("--out", c->out, "A file for the predictions (the standard output unless given)");
  sub->add_option("--keep", c->keep, "Columns of the file that are handed on, by name or number, e.g. id,name")
      ->delimiter(',')
      ->allow_extra_args(false);
  sub->add_flag("--probabilities", c->probabilities, "A column with the probability of every class");
  sub->add_flag("--json", c->json, "A JSON array with an object for each row or picture");
  sub->add_option("--threads", c->threads, "Threads that compute (0: all)")->check(CLI::NonNegativeNumber);
  sub->footer(
      "Examples:\n"
      "  ebb predict --run runs/mlp --data new_flowers.csv --out species.csv\n"
      "  ebb predict --run runs/cnn --data photos/ --probabilities\n"
      "  zcat today.csv.gz | ebb predict --run runs/mlp --data - --keep id");
  sub->callback([c] { run_predict(*c); });
}

}  // namespace ebb::program
