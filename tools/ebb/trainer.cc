// SPDX-License-Identifier: MIT
#include "trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>

#include "comm/group.h"
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
  // Not from 0: the first step would be wasted.
  return warm > 0 ? warm_up(after, warm, 1.0 / static_cast<double>(warm + 1)) : after;
}

Model first_model(const RunConfig& c, const Dataset& data) {
  manual_seed(c.seed);
  Model model(c, data.facts);
  if (!is_text(c) && data.facts.centre.empty()) model.fit_input(data.train.inputs);  // rows are scaled already
  std::vector<Tensor> values;
  for (const Parameter& p : state(model)) values.push_back(*p.tensor);
  eval(values);
  return model;
}

Tensor own_part(const Tensor& whole, std::int64_t from, const Shape& shape) {
  return contiguous(reshape(narrow(reshape(whole, {whole.numel()}), 0, from, shape.numel()), shape)).eval();
}

// Tensors of which this rank has only a part: the whole shape, and where its part begins.
using Divided = std::map<std::string, std::pair<Shape, std::int64_t>>;
Divided divided_parts(Model& model) {
  Divided all;
  ParallelGpt* const gpt = model.divided();
  if (!gpt) return all;
  std::map<const Tensor*, std::string> names;
  for (const Parameter& p : parameters(model)) names.emplace(p.tensor, p.name);
  gpt->each_divided(
      [&](Tensor& own, const Shape& shape, std::int64_t from) { all.emplace(names.at(&own), std::pair(shape, from)); });
  return all;
}

// Copies the tensors of these names, which must have the model's shapes; of a divided one this rank's part.
void take(const Parameters& into, const io::TensorMap& from, bool variables, const Divided& divided,
          const std::string& path) {
  for (const Parameter& p : into) {
    const auto found = from.find(p.name);
    require(found != from.end(), Error::Kind::io, "{}: '{}' of the model is missing", path, p.name);
    const auto part = divided.find(p.name);
    const Shape shape = part == divided.end() ? p.tensor->shape() : part->second.first;
    require(found->second.shape() == shape && found->second.dtype() == p.tensor->dtype(), Error::Kind::io,
            "{}: '{}' is {} {}, the model needs {} {}", path, p.name, found->second.dtype(), found->second.shape(),
            p.tensor->dtype(), shape);
    const Tensor value =
        part == divided.end() ? found->second : own_part(found->second, part->second.second, p.tensor->shape());
    *p.tensor = variables ? variable(value) : value;
  }
}

void take_model(Model& model, const io::Checkpoint& c, const std::string& path) {
  const Divided divided = divided_parts(model);
  take(parameters(model), c.parameters, true, divided, path);
  take(buffers(model), c.parameters, false, divided, path);
}

// For tensors that are named after parameters, "NAME" or "NAME/WHAT".
io::TensorMap own_parts_of(const io::TensorMap& whole, const Divided& divided, Model& model) {
  io::TensorMap all = whole;
  for (const Parameter& p : parameters(model)) {
    const auto part = divided.find(p.name);
    if (part == divided.end()) continue;
    for (auto& [key, value] : all) {
      const bool its = key == p.name || (key.starts_with(p.name + "/") && value.shape() == part->second.first);
      if (its) value = own_part(value, part->second.second, p.tensor->shape());
    }
  }
  return all;
}

// Sorts tensors named after parameters into those that all ranks have and those of which each has its own part.
void sort_parts(const std::string& prefix, const io::TensorMap& tensors, const Divided& divided, Model& model,
                io::TensorMap& same, std::vector<distributed::ShardedOptimizer::StatePart>& own) {
  std::map<std::string, Shape> shapes;
  for (const Parameter& p : parameters(model)) shapes.emplace(p.name, p.tensor->shape());
  for (const auto& [key, value] : tensors) {
    const std::string name = shapes.contains(key) ? key : key.substr(0, key.rfind('/'));
    const auto part = divided.find(name);
    if (part == divided.end() || value.shape() != shapes.at(name)) {
      same.emplace(prefix + key, value);
    } else {
      own.push_back({prefix + key, part->second.first, part->second.second, value});
    }
  }
}

constexpr const char* kMoments = "moments.";  // prefix of the names of the optimiser's tensors,
constexpr const char* kAverage = "average.";  // and of the averaged weights

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

// A model whose step also computes its reported numbers: requested later, they would need another evaluation.
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

constexpr std::int64_t kUsualPatience = 15;  // tests, of forty

void eval_together(const distributed::BatchGradients& step) {
  std::vector<Tensor> all{step.loss};
  all.insert(all.end(), step.sums.begin(), step.sums.end());
  for (const auto& [variable, gradient] : step.gradients.all()) all.push_back(gradient);
  eval(all);
}

}  // namespace

void resolve_with(RunConfig& config, const Dataset& data) {
  const bool rows = !data.facts.table.columns.empty(), validates = data.validation.size() > 0;
  resolve_length(config, data.train.size(), rows);
  if (config.validation_fraction < 0) config.validation_fraction = validates ? kUsualValidation : 0;
  if (config.patience < 0) config.patience = validates && rows ? kUsualPatience : 0;
  // Tables are often small and their classes overlap; a network that is always certain has learned their noise.
  const bool classes_of_rows = data.facts.task == Task::classes && data.facts.example.rank() == 1;
  if (config.label_smoothing < 0) config.label_smoothing = classes_of_rows ? 0.1 : 0;
}

Trainer::Trainer(const RunConfig& c, const Dataset& data)
    : config_(c),
      facts_(data.facts),
      model_(first_model(c, data)),
      parallel_({.shards = static_cast<int>(std::max<std::int64_t>(1, c.shards)),
                 .to_owners = c.optimizer_state == "sharded" && c.dtype != "f16" && c.accumulate == 1},
                c.tensor_parallel > 0 ? distributed::world_of_one() : distributed::world()),
      optimizer_(optimizer_of(c), c.optimizer_state == "sharded" && c.tensor_parallel == 0
                                      ? distributed::world()
                                      : distributed::world_of_one()),
      dtype_(dtype_from_name(c.dtype)),
      loader_({data.train.inputs, data.train.targets},
              parallel_.loader_options({.batch_size = std::min(c.batch, data.train.size()),
                                        .drop_last = true,
                                        .workers = static_cast<int>(c.workers),
                                        .seed = c.seed})) {
  if (c.ema > 0) average_.emplace(c.ema);
  steps_per_epoch_ = (loader_.batches() + c.accumulate - 1) / c.accumulate;
  const double steps = std::min(c.epochs * static_cast<double>(steps_per_epoch_), 0x1p53);  // more are no integers
  total_steps_ = c.steps > 0 ? c.steps : std::max<std::int64_t>(1, std::llround(steps));
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

Gradients Trainer::clipped(const Gradients& gradients) {
  if (config_.clip == 0) return gradients;
  ParallelGpt* const divided = model_.divided();
  if (!divided) return optimizer_.clip_by_norm(model_, gradients, config_.clip).gradients;
  const Tensor factor = clamp(config_.clip / (norm_over_parts(*divided, gradients) + 1e-6), {}, 1.0);
  std::vector<std::pair<Tensor, Tensor>> all = gradients.all();
  for (auto& [v, g] : all) g = cast(cast(g, DType::f32) * factor, g.dtype());
  return Gradients(std::move(all));
}

void Trainer::update(const distributed::BatchGradients& step) {
  const Gradients g = clipped(step.gradients);
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

  // The batches of this step; a step does not reach into the next epoch.
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
  std::vector<Tensor> now{result.mean_loss};  // keeps nothing they depend on alive
  if (result.how_many_right.defined()) now.push_back(result.how_many_right);
  eval(now);
  return result;
}

std::int64_t Trainer::parameter_count() {
  std::int64_t all = ebb::parameter_count(model_);
  if (ParallelGpt* const divided = model_.divided())
    divided->each_divided([&](Tensor& own, const Shape& whole, std::int64_t) { all += whole.numel() - own.numel(); });
  return all;
}

Model Trainer::tested_model() const { return average_ && step_ > 0 ? average_->averaged(model_) : model_; }

void Trainer::save(const std::string& path, const io::Metadata& metadata) {
  io::Checkpoint c;
  distributed::OwnParts own;
  const Divided divided = divided_parts(model_);
  io::TensorMap weights, moments;
  for (const Parameter& p : state(model_)) weights.emplace(p.name, *p.tensor);
  sort_parts("", weights, divided, model_, c.parameters, own.parameters);
  for (auto& part : optimizer_.own_state()) {
    if (config_.optimizer_state == "sharded" && !is_divided()) {
      part.name = kMoments + part.name;
      own.optimizer.push_back(part);
    } else {  // all ranks have all of them
      moments.emplace(part.name, part.values);
    }
  }
  sort_parts(kMoments, moments, divided, model_, c.optimizer, own.optimizer);
  if (average_) sort_parts(kAverage, average_->state(), divided, model_, c.optimizer, own.optimizer);
  c.random = random_state();
  c.step = step_;
  c.loader = loader_.position();
  const LossScaler::State s = scaler_.state();
  c.metadata = {{"config", to_json(config_).dump()},
                {"facts", to_json(facts_).dump()},
                {"scaler", json{s.scale, s.good_in_a_row, s.steps, s.skipped}.dump()}};
  c.metadata.insert(metadata.begin(), metadata.end());
  distributed::save_checkpoint(path, c, own, {.keep_previous = true});
}

void Trainer::save_tested(const std::string& path) const {
  io::Checkpoint c;
  distributed::OwnParts own;
  Model model = tested_model();
  io::TensorMap weights;
  for (const Parameter& p : state(model)) weights.emplace(p.name, *p.tensor);
  sort_parts("", weights, divided_parts(model), model, c.parameters, own.parameters);
  c.step = step_;
  c.metadata = {{"config", to_json(config_).dump()}, {"facts", to_json(facts_).dump()}};
  distributed::save_checkpoint(path, c, own, {}, model.divided() ? distributed::world() : distributed::world_of_one());
}

void Trainer::start_from(const std::string& folder) {
  models::Llama llama = models::load_llama(folder);
  llama.set_fp8(config_.products == "fp8");
  model_.network = std::move(llama);
  std::vector<Tensor> values;
  for (const Parameter& p : state(model_)) values.push_back(*p.tensor);
  eval(values);
}

void Trainer::restore(const io::Checkpoint& c, const std::string& path) {
  take_model(model_, c, path);
  const Divided divided = divided_parts(model_);
  optimizer_.load_state(own_parts_of(with_prefix(c.optimizer, kMoments), divided, model_));
  if (average_) average_->load_state(own_parts_of(with_prefix(c.optimizer, kAverage), divided, model_));
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
  double tokens = 0;  // number predicted
  in_parts(n, kTestWindows, [&](std::int64_t at, std::int64_t end) {
    const Tensor targets = examples.targets.slice(0, at, end);
    std::vector<std::int64_t> predicted = contiguous(targets).to_vector<std::int64_t>();
    std::erase(predicted, -100);
    const auto count = static_cast<double>(predicted.size());
    all.loss += count * batch_loss(model, examples.inputs.slice(0, at, end), targets).loss.item();
    tokens += count;
    bytes += facts.vocabulary.decode(predicted).size();
  });
  all.loss /= tokens;
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

nlohmann::ordered_json measured(const Evaluation& e, const Examples& examples, const DataFacts& facts) {
  nlohmann::ordered_json out{{"loss", e.loss}};
  if (facts.task == Task::text) {
    out["perplexity"] = std::exp(e.loss);
    out["bits_per_byte"] = e.bits_per_byte;
  } else if (facts.task == Task::numbers) {
    out.update({{"r2", e.r2}, {"rmse", e.rmse}, {"mae", e.mae}});
  } else {
    const std::int64_t n = facts.class_count();
    const std::vector<std::int64_t> counts = confusion(e, examples, n);
    out["accuracy"] = e.accuracy;
    out["classes"] = facts.classes;
    for (std::int64_t row = 0; row < n; ++row) {
      out["confusion"].push_back(std::vector<std::int64_t>(counts.begin() + row * n, counts.begin() + (row + 1) * n));
    }
  }
  return out;
}

std::vector<std::int64_t> confusion(const Evaluation& e, const Examples& examples, std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes * classes));
  const std::vector<std::int64_t> actual = examples.targets.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ++counts[static_cast<std::size_t>(actual[i] * classes + e.predicted[i])];
  }
  return counts;
}

DataFacts load_facts(const std::string& path) {
  return facts_from_json(metadata_of(io::load_checkpoint(path), "facts", path), path);
}

TrainedModel load_trained_model(const std::string& path) {
  const io::Checkpoint c = io::load_checkpoint(path);
  const RunConfig config = config_from_json(metadata_of(c, "config", path), path);
  const DataFacts facts = facts_from_json(metadata_of(c, "facts", path), path);
  const distributed::World alone = distributed::world_of_one();  // a divided model is assembled here
  const distributed::detail::InWorld scope(alone);
  Model model(config, facts);
  take_model(model, c, path);
  const io::TensorMap average = with_prefix(c.optimizer, kAverage);
  if (!average.empty()) take(parameters(model), average, true, divided_parts(model), path);
  if (const ParallelGpt* divided = model.divided()) model.network = undivided(*divided, config, facts);
  set_training(model, false);
  return {config, facts, std::move(model), c.step};
}

TrainedModel load_llama_folder(const std::string& folder, std::int64_t context) {
  constexpr std::int64_t kUsual = 2048;
  RunConfig config;
  config.model = "llama";
  DataFacts facts;
  facts.vocabulary.tokenizer = Tokenizer::load(folder);
  models::Llama llama = models::load_llama(folder);
  facts.model_config = models::llama_config_to_json(llama.config);
  facts.example = {context > 0 ? context : std::min(kUsual, llama.config.max_position_embeddings)};
  Model model(config, facts);
  model.network = std::move(llama);
  return {config, facts, std::move(model), 0};
}

std::string checkpoint_of_run(const std::string& path, const std::string& which) {
  require(!std::filesystem::is_regular_file(path), Error::Kind::io,
          "{}: this is a file, --run takes the folder of a run; did you mean '--checkpoint {}'?", path, path);
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
