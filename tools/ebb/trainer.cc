#include "trainer.h"

#include <array>
#include <cmath>
#include <filesystem>

#include "core/closest_name.h"
#include "core/format_error.h"
#include "ebb/losses.h"
#include "ebb/ops.h"
#include "ebb/random.h"
#include "io/json.h"
#include "run_folder.h"

namespace ebb::program {
namespace {

using nlohmann::json;

std::unique_ptr<Optimizer> optimizer_of(const RunConfig& c) {
  OptionValues options{{"lr", c.lr}, {"weight_decay", c.weight_decay}};
  const OptimizerInfo& info = optimizer_info(c.optimizer);
  if (info.has_option("momentum")) options["momentum"] = c.momentum;
  if (info.has_option("decoupled_weight_decay")) options["decoupled_weight_decay"] = 1.0;
  return make_optimizer(c.optimizer, options, decay_matrices);
}

Schedule make_schedule(const RunConfig& c, std::int64_t total) {
  const std::int64_t warm = std::llround(c.warmup < 1 ? c.warmup * static_cast<double>(total) : c.warmup);
  const std::int64_t rest = std::max<std::int64_t>(1, total - warm);
  const Schedule after = c.schedule == "cosine"   ? cosine_schedule(c.lr, {.steps = rest})
                         : c.schedule == "linear" ? linear_schedule(c.lr, {1, 0, rest})
                                                  : constant_schedule(c.lr);
  // Not from 0: the first step would be lost.
  return warm > 0 ? warm_up(after, warm, 1.0 / static_cast<double>(warm + 1)) : after;
}

Model first_model(const RunConfig& c, const Dataset& data) {
  manual_seed(c.seed);
  Model model(c, data.facts);
  if (c.model != "gpt") model.fit_input(data.train.inputs);
  std::vector<Tensor> values;
  for (const Parameter& p : state(model)) values.push_back(*p.tensor);
  eval(values);
  return model;
}

// Takes the tensors of these names, which must have the shapes the model has.
void take(const Parameters& into, const io::TensorMap& from, bool variables, const std::string& path) {
  for (const Parameter& p : into) {
    const auto found = from.find(p.name);
    require(found != from.end(), Error::Kind::io, "{}: '{}' of the model is missing", path, p.name);
    require(found->second.shape() == p.tensor->shape() && found->second.dtype() == p.tensor->dtype(), Error::Kind::io,
            "{}: '{}' is {} {}, the model needs {} {}", path, p.name, found->second.dtype(), found->second.shape(),
            p.tensor->dtype(), p.tensor->shape());
    *p.tensor = variables ? variable(found->second) : found->second;
  }
}

void take_model(Model& model, const io::Checkpoint& c, const std::string& path) {
  take(parameters(model), c.parameters, true, path);
  take(buffers(model), c.parameters, false, path);
}

constexpr const char* kMoments = "moments.";  // what the names of the optimiser's tensors begin with,
constexpr const char* kAverage = "average.";  // and those of the averaged weights

io::TensorMap with_prefix(const io::TensorMap& all, std::string_view prefix) {
  io::TensorMap some;
  for (const auto& [name, tensor] : all) {
    if (name.starts_with(prefix)) some.emplace(name.substr(prefix.size()), tensor);
  }
  return some;
}

json metadata_of(const io::Checkpoint& c, const std::string& key, const std::string& path) {
  const auto found = c.metadata.find(key);
  require(found != c.metadata.end(), Error::Kind::io, "{}: this checkpoint was not written by `ebb train`", path);
  return io::parse_json(found->second, 6, path + ": " + key);
}

// A model whose step also computes what is said about it: asked for later, that would be another evaluation.
struct ModelAndLoss {
  Model& model;
  nn::Buffer loss, right;
  template <class V>
  void visit(V&& v) {
    model.visit(v);
    v("loss", loss);
    v("right", right);
  }
};

void eval_together(const distributed::BatchGradients& step) {
  std::vector<Tensor> all{step.loss};
  all.insert(all.end(), step.sums.begin(), step.sums.end());
  for (const auto& [variable, gradient] : step.gradients.all()) all.push_back(gradient);
  eval(all);
}

}  // namespace

Trainer::Trainer(const RunConfig& c, const Dataset& data)
    : config_(c),
      facts_(data.facts),
      model_(first_model(c, data)),
      parallel_({.shards = static_cast<int>(std::max<std::int64_t>(1, c.shards)),
                 .to_owners = c.optimizer_state == "sharded" && c.dtype != "f16" && c.accumulate == 1}),
      optimizer_(optimizer_of(c), c.optimizer_state == "sharded" ? distributed::world() : distributed::world_of_one()),
      dtype_(dtype_from_name(c.dtype)),
      loader_({data.train.inputs, data.train.targets},
              parallel_.loader_options({.batch_size = std::min(c.batch, data.train.size()),
                                        .drop_last = true,
                                        .workers = static_cast<int>(c.workers),
                                        .seed = c.seed})) {
  if (c.ema > 0) average_.emplace(c.ema);
  steps_per_epoch_ = (loader_.batches() + c.accumulate - 1) / c.accumulate;
  total_steps_ =
      c.steps > 0 ? c.steps : std::max<std::int64_t>(1, std::llround(c.epochs * static_cast<double>(steps_per_epoch_)));
  schedule_ = make_schedule(c, total_steps_);
}

distributed::ShardLoss Trainer::loss_of(Model& model, const Batch& batch) const {
  BatchLoss l;
  if (dtype_ == DType::f32) {
    l = batch_loss(model, batch[0], batch[1], config_.label_smoothing);
  } else {
    Model half = cast_parameters(model, dtype_);
    l = batch_loss(half, batch[0], batch[1], config_.label_smoothing);
    take_buffers(model, half);
  }
  return l.right.defined() ? distributed::ShardLoss{l.loss, {l.right}} : distributed::ShardLoss{l.loss};
}

void Trainer::update(const distributed::BatchGradients& step) {
  const Gradients g =
      config_.clip > 0 ? optimizer_.clip_by_norm(model_, step.gradients, config_.clip).gradients : step.gradients;
  if (dtype_ == DType::f16) {
    scaler_.step_unscaled(optimizer_, model_, g);
  } else {
    ModelAndLoss all{model_, {step.loss}, {step.sums.empty() ? Tensor() : step.sums[0]}};
    optimizer_.step(all, g);
  }
}

StepResult Trainer::step() {
  StepResult result;
  result.lr = schedule_(step_);
  optimizer_.set_lr(result.lr);

  // The batches of this step; one step does not reach into the next epoch.
  distributed::DataParallel::Backward scaled;
  if (dtype_ == DType::f16) {
    scaled = [&](const Tensor& loss) { return scaler_.unscale(backward(scaler_.scale(loss))); };
  }
  std::int64_t batches = 0;
  while (batches < config_.accumulate) {
    const std::optional<ShardedBatch> batch = loader_.next_shards();
    if (!batch && batches > 0) break;
    if (!batch) continue;  // the end of an epoch; the next call begins another
    result.examples += batch->rows;
    parallel_.add(
        model_, *batch, [&](Model& m, const Batch& shard) { return loss_of(m, shard); }, scaled);
    ++batches;
  }
  const distributed::BatchGradients step = parallel_.take(model_);
  if (config_.accumulate > 1 || dtype_ == DType::f16) eval_together(step);
  update(step);
  if (average_) average_->update(model_);
  ++step_;

  result.mean_loss = step.loss;
  if (!step.sums.empty()) result.how_many_right = step.sums[0];
  result.step = step_;
  if (step.loss.device() == Device{}) return result;
  std::vector<Tensor> now{result.mean_loss};  // nothing that they are made of is kept for them
  if (result.how_many_right.defined()) now.push_back(result.how_many_right);
  eval(now);
  return result;
}

Model Trainer::tested_model() const { return average_ && step_ > 0 ? average_->averaged(model_) : model_; }

io::Checkpoint Trainer::checkpoint() {
  io::Checkpoint c;
  for (const Parameter& p : state(model_)) c.parameters.emplace(p.name, *p.tensor);
  for (const auto& [name, tensor] : optimizer_.state(0)) c.optimizer.emplace(kMoments + name, tensor);
  if (average_) {
    for (const auto& [name, tensor] : average_->state()) c.optimizer.emplace(kAverage + name, tensor);
  }
  c.random = random_state();
  c.step = step_;
  c.loader = loader_.position();
  const LossScaler::State s = scaler_.state();
  c.metadata = {{"config", to_json(config_).dump()},
                {"facts", to_json(facts_).dump()},
                {"scaler", json{s.scale, s.good_in_a_row, s.steps, s.skipped}.dump()}};
  return c;
}

io::Checkpoint Trainer::tested_checkpoint() const {
  io::Checkpoint c;
  Model model = tested_model();
  for (const Parameter& p : state(model)) c.parameters.emplace(p.name, *p.tensor);
  c.step = step_;
  c.metadata = {{"config", to_json(config_).dump()}, {"facts", to_json(facts_).dump()}};
  return c;
}

void Trainer::restore(const io::Checkpoint& c, const std::string& path) {
  take_model(model_, c, path);
  optimizer_.load_state(with_prefix(c.optimizer, kMoments));
  if (average_) average_->load_state(with_prefix(c.optimizer, kAverage));
  const json s = metadata_of(c, "scaler", path);
  require(s.is_array() && s.size() == 4 && s[0].is_number(), Error::Kind::io,
          "{}: the state of the loss scaler is lost", path);
  scaler_.load_state(
      {s[0].get<double>(), s[1].get<std::int64_t>(), s[2].get<std::int64_t>(), s[3].get<std::int64_t>()});
  loader_.restore(c.loader);
  random_state() = c.random;
  step_ = c.step;
}

namespace {

constexpr std::int64_t kTestBatch = 250, kTestWindows = 64;

// Calls use(from, to) for parts of n examples.
template <class Use>
void in_parts(std::int64_t n, std::int64_t most, Use use) {
  for (std::int64_t at = 0; at < n; at += most) use(at, std::min(n, at + most));
}

void evaluate_text(Model& model, const Examples& examples, const DataFacts& facts, Evaluation& all) {
  const std::int64_t n = examples.size();
  std::size_t bytes = 0;
  in_parts(n, kTestWindows, [&](std::int64_t at, std::int64_t end) {
    const Tensor targets = examples.targets.slice(0, at, end);
    const double part = static_cast<double>(end - at) / static_cast<double>(n);
    all.loss += part * batch_loss(model, examples.inputs.slice(0, at, end), targets).loss.item();
    bytes += facts.pairs.decode(contiguous(targets).to_vector<std::int64_t>()).size();
  });
  const double tokens = static_cast<double>(examples.targets.numel());
  all.bits_per_byte = all.loss / std::log(2.0) * tokens / static_cast<double>(bytes);
}

void evaluate_numbers(Model& model, const Examples& examples, const DataFacts& facts, Evaluation& all) {
  const auto in_units = [&](const Tensor& scaled) {
    std::vector<double> values = scaled.to_vector();
    for (double& v : values) v = facts.target_mean + facts.target_scale * v;
    return values;
  };
  in_parts(examples.size(), kTestBatch, [&](std::int64_t at, std::int64_t end) {
    const Tensor out = reshape(model(examples.inputs.slice(0, at, end)), {-1});
    for (double v : in_units(out)) all.values.push_back(v);
  });
  all.actual = in_units(examples.targets);
  const auto n = static_cast<double>(all.actual.size());
  double mean = 0, squares = 0, absolute = 0, variance = 0;
  for (double a : all.actual) mean += a / n;
  for (std::size_t i = 0; i < all.actual.size(); ++i) {
    const double error = all.values[i] - all.actual[i];
    squares += error * error / n;
    absolute += std::abs(error) / n;
    variance += (all.actual[i] - mean) * (all.actual[i] - mean) / n;
  }
  all.loss = squares / (facts.target_scale * facts.target_scale);
  all.rmse = std::sqrt(squares);
  all.mae = absolute;
  all.r2 = variance > 0 ? 1 - squares / variance : 0;
}

void evaluate_classes(Model& model, const Examples& examples, Evaluation& all) {
  const std::int64_t n = examples.size();
  in_parts(n, kTestBatch, [&](std::int64_t at, std::int64_t end) {
    const Tensor targets = examples.targets.slice(0, at, end), logits = model(examples.inputs.slice(0, at, end));
    const Tensor loss = cross_entropy(logits, targets), predicted = argmax(logits, 1);
    const Tensor sure = max(softmax(logits, 1), 1), right = sum(predicted == targets);
    eval({loss, predicted, sure, right});
    all.loss += loss.item() * static_cast<double>(end - at) / static_cast<double>(n);
    all.accuracy += right.item() / static_cast<double>(n);
    for (std::int64_t k : predicted.to_vector<std::int64_t>()) all.predicted.push_back(k);
    for (double s : sure.to_vector()) all.sure.push_back(s);
  });
}

}  // namespace

Evaluation evaluate(Model model, const Examples& examples, const DataFacts& facts) {
  set_training(model, false);
  Evaluation all;
  if (facts.task == Task::text) evaluate_text(model, examples, facts, all);
  if (facts.task == Task::numbers) evaluate_numbers(model, examples, facts, all);
  if (facts.task == Task::classes) evaluate_classes(model, examples, all);
  return all;
}

Tensor predict(Model model, const Tensor& inputs, const DataFacts& facts) {
  set_training(model, false);
  std::vector<Tensor> parts;
  in_parts(inputs.size(0), kTestBatch, [&](std::int64_t at, std::int64_t end) {
    const Tensor out = model(inputs.slice(0, at, end));
    parts.push_back((facts.task == Task::numbers
                         ? cast(reshape(out, {-1}), DType::f64) * facts.target_scale + facts.target_mean
                         : softmax(out, 1))
                        .eval());
  });
  return parts.empty() ? zeros({0, facts.outputs()}) : cat(parts, 0).eval();
}

std::string in_words(const Evaluation& e, const DataFacts& facts) {
  if (facts.task == Task::classes) return fmt::format("accuracy {:.2f} %", 100 * e.accuracy);
  if (facts.task == Task::numbers) {
    return fmt::format("R² {:.4f}, mean absolute error {:.4g}, root mean squared error {:.4g}", e.r2, e.mae, e.rmse);
  }
  return fmt::format("perplexity {:.2f}, {:.3f} bits per byte", std::exp(e.loss), e.bits_per_byte);
}

std::vector<std::int64_t> confusion(const Evaluation& e, const Examples& examples, std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes * classes));
  const std::vector<std::int64_t> actual = examples.targets.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ++counts[static_cast<std::size_t>(actual[i] * classes + e.predicted[i])];
  }
  return counts;
}

TrainedModel load_trained_model(const std::string& path) {
  const io::Checkpoint c = io::load_checkpoint(path);
  const RunConfig config = config_from_json(metadata_of(c, "config", path), path);
  const DataFacts facts = facts_from_json(metadata_of(c, "facts", path), path);
  Model model(config, facts);
  take_model(model, c, path);
  const io::TensorMap average = with_prefix(c.optimizer, kAverage);
  if (!average.empty()) take(parameters(model), average, true, path);
  set_training(model, false);
  return {config, facts, std::move(model), c.step};
}

std::string checkpoint_of_run(const std::string& path, const std::string& which) {
  const RunFolder folder(path);
  require(folder.holds_run() || folder.holds_checkpoint(), Error::Kind::io,
          "{}: there is no run in this folder, checkpoint.safetensors is missing", path);
  std::string file = folder.checkpoint();
  if (which == "best") {
    file = folder.best();
  } else if (which.empty() && std::filesystem::exists(folder.best())) {
    const RunConfig config = config_from_json(folder.read_config(), folder.config());
    if (config.validation_fraction > 0) file = folder.best();
  }
  require(std::filesystem::exists(file), Error::Kind::io, "{}: the run has not saved anything yet", file);
  return file;
}

}  // namespace ebb::program
