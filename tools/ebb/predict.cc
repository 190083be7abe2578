#include <CLI/CLI.hpp>
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
  bool probabilities = false;
  std::int64_t threads = 0;
};

// A field of CSV, in quotes where it needs them.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string s = "\"";
  for (char c : text) s += c == '"' ? std::string("\"\"") : std::string(1, c);
  return s + "\"";
}

std::string table_of(const Unlabelled& data, const Tensor& predicted, const DataFacts& facts, bool probabilities) {
  std::string s = data.pictures ? "file,prediction" : "row,prediction";
  if (facts.task == Task::numbers) {
    s += "\n";
    const std::vector<double> values = predicted.to_vector();
    for (std::size_t i = 0; i < values.size(); ++i) s += fmt::format("{},{:.9g}\n", field(data.names[i]), values[i]);
    return s;
  }
  s += ",probability";
  if (probabilities) {
    for (const std::string& name : facts.classes) s += "," + field("P(" + name + ")");
  }
  s += "\n";
  const auto classes = static_cast<std::size_t>(facts.class_count());
  const std::vector<double> all = predicted.to_vector();
  for (std::size_t i = 0; i < data.names.size(); ++i) {
    const auto row = all.begin() + static_cast<std::ptrdiff_t>(i * classes);
    const auto best = std::max_element(row, row + static_cast<std::ptrdiff_t>(classes));
    s += fmt::format("{},{},{:.6g}", field(data.names[i]), field(facts.classes[static_cast<std::size_t>(best - row)]),
                     *best);
    for (std::size_t k = 0; probabilities && k < classes; ++k) s += fmt::format(",{:.6g}", row[static_cast<long>(k)]);
    s += "\n";
  }
  return s;
}

void run_predict(const PredictCommand& c) {
  if (c.threads > 0) set_num_threads(static_cast<int>(c.threads));
  const std::string path = c.weights.path();
  const TrainedModel trained = load_trained_model(path);
  require(!c.probabilities || trained.facts.task == Task::classes,
          "--probabilities: {} was trained to predict numbers, which have none", path);
  const Unlabelled data = load_unlabelled(c.data, trained.facts);
  const std::string table =
      table_of(data, predict(trained.model, data.inputs, trained.facts), trained.facts, c.probabilities);
  if (c.out.empty()) {
    std::fwrite(table.data(), 1, table.size(), stdout);
  } else {
    write_file(c.out, table);
  }
}

}  // namespace

void add_predict_command(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("predict", "Let a trained network label rows or pictures");
  auto c = std::make_shared<PredictCommand>();
  c->weights.add_options(sub, "What predicts");
  sub->add_option("--data", c->data,
                  "A CSV file with the columns the network was trained on, the target not needed; a picture; or a "
                  "folder of pictures")
      ->required();
  sub->add_option("--out", c->out, "A CSV file for the predictions (the standard output unless given)");
  sub->add_flag("--probabilities", c->probabilities, "A column with the probability of every class");
  sub->add_option("--threads", c->threads, "Threads that compute (0: all)")->check(CLI::NonNegativeNumber);
  sub->footer(
      "Examples:\n"
      "  ebb predict --run runs/mlp --data new_flowers.csv --out species.csv\n"
      "  ebb predict --run runs/cnn --data photos/ --probabilities");
  sub->callback([c] { run_predict(*c); });
}

}  // namespace ebb::program
