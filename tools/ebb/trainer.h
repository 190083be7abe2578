// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset.h"
#include "ebb/amp.h"
#include "ebb/distributed.h"
#include "ebb/io.h"
#include "ebb/optim.h"
#include "models.h"
#include "run_config.h"

namespace ebb::program {

// Results of a step. A GPU may not have computed it yet: loss() and right() wait for it.
struct StepResult {
  Tensor mean_loss, how_many_right;  // over the examples; undefined for text
  double lr = 0;
  std::int64_t examples = 0;
  std::int64_t step = 0;  // from 1
  double loss() const { return mean_loss.item(); }
  std::int64_t right() const { return how_many_right.defined() ? how_many_right.item<std::int64_t>() : 0; }
};

// Chooses settings that depend on the data: how long to train, in what batches, and whether labels are smoothed.
void resolve_with(RunConfig& config, const Dataset& data);

// A model, its optimiser and the stream of its batches. All of it goes into a checkpoint, and a restored trainer is
// bit-identical to an uninterrupted one, with any number of ranks.
class Trainer {
 public:
  Trainer(const RunConfig& config, const Dataset& data);

  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  std::int64_t total_steps() const { return total_steps_; }
  std::int64_t steps_done() const { return step_; }
  double lr(std::int64_t step) const { return schedule_(step); }

  StepResult step();
  Model tested_model() const;  // the average of the weights, if there is one
  // Is the model divided among ranks? Then all of them test and save it.
  bool is_divided() { return model_.divided() != nullptr; }
  std::int64_t parameter_count();  // of all ranks together
  const LossScaler& scaler() const { return scaler_; }

  // With additional metadata. All ranks save, and write one file together.
  void save(const std::string& path, const io::Metadata& metadata);
  // Saves the tested model, for use and not for continuing. Called by all ranks if it is divided, else by one of them.
  void save_tested(const std::string& path) const;
  void restore(const io::Checkpoint& checkpoint, const std::string& path);
  void start_from(const std::string& folder);  // with weights written by transformers

 private:
  distributed::ShardLoss loss_of(Model& model, const Batch& batch) const;
  void update(const distributed::BatchGradients& step);
  Gradients clipped(const Gradients& gradients);

  RunConfig config_;
  DataFacts facts_;
  Model model_;
  distributed::DataParallel parallel_;
  distributed::ShardedOptimizer optimizer_;
  std::optional<WeightEma> average_;
  LossScaler scaler_;
  DType dtype_;
  DataLoader loader_;
  Schedule schedule_;
  std::int64_t steps_per_epoch_ = 0, total_steps_ = 0, step_ = 0;
};

// Results of a model on examples it was not trained on.
struct Evaluation {
  double loss = 0;
  // Classes: the share that is right; the predicted class of each example and its probability.
  double accuracy = 0;
  std::vector<std::int64_t> predicted;
  std::vector<double> sure;
  // Numbers, in the units of the target: predictions, errors, and the share of the variance explained.
  std::vector<double> values, actual;
  double rmse = 0, mae = 0, r2 = 0;
  // Text: bits per byte, independent of the tokens.
  double bits_per_byte = 0;
};
Evaluation evaluate(Model model, const Examples& examples, const DataFacts& facts);

// Predictions of a model: [n, classes] probabilities, or [n] numbers in the units of the target.
Tensor predict(Model model, const Tensor& inputs, const DataFacts& facts);

// One line: "accuracy 93.40 %", "R² 0.87, mean absolute error 3.1", "perplexity 1.53, 0.31 bits per byte".
std::string in_words(const Evaluation& evaluation, const DataFacts& facts);

// The same for programs: loss, accuracy with the confusion matrix, R² with the errors, or perplexity.
nlohmann::ordered_json measured(const Evaluation& evaluation, const Examples& examples, const DataFacts& facts);

// Confusion matrix: counts at [actual · classes + predicted].
std::vector<std::int64_t> confusion(const Evaluation& evaluation, const Examples& examples, std::int64_t classes);

// A model from a checkpoint, with all that is needed to use it.
struct TrainedModel {
  RunConfig config;
  DataFacts facts;
  Model model;
  std::int64_t step;
};
TrainedModel load_trained_model(const std::string& checkpoint_path);
TrainedModel load_llama_folder(const std::string& folder, std::int64_t context);  // as transformers writes it
DataFacts load_facts(const std::string& checkpoint_path);

// Path of a run's checkpoint: `which` is best, last, or empty for the best if validation data chose it.
std::string checkpoint_of_run(const std::string& folder, const std::string& which = "");

}  // namespace ebb::program
