// SPDX-License-Identifier: MIT
#include "training_run.h"

#include <cmath>
#include <ctime>
#include <filesystem>
#include <limits>

#include "core/format_error.h"
#include "ebb/memory.h"
#include "exit.h"
#include "generation.h"
#include "interrupt.h"
#include "io/json.h"
#include "progress.h"
#include "ranks.h"
#include "report.h"
#include "trainer.h"

namespace ebb::program {
namespace {

using nlohmann::json;

constexpr std::int64_t kMetricLines = 400;

struct Sums {
  double loss = 0;
  std::int64_t right = 0, examples = 0, steps = 0;
  void add(const StepResult& r) {
    loss += r.loss();
    right += r.right();
    examples += r.examples;
    ++steps;
  }
  double mean_loss() const { return loss / static_cast<double>(std::max<std::int64_t>(1, steps)); }
  double accuracy() const {
    return static_cast<double>(right) / static_cast<double>(std::max<std::int64_t>(1, examples));
  }
};
void to_json(json& j, const Sums& s) { j = {s.loss, s.right, s.examples, s.steps}; }
void from_json(const json& j, Sums& s) { s = {j.at(0), j.at(1), j.at(2), j.at(3)}; }

// A test of a short epoch would take longer than the epoch, and a hundred lines say less than forty.
constexpr std::int64_t kMostTests = 40;
constexpr std::size_t kMostUnread = 16;  // results of steps

class TrainingRun {
 public:
  // `known`: data facts of a continued run.
  TrainingRun(const RunConfig& config, RunFolder& folder, bool json, const DataFacts* known)
      : config_(config),
        folder_(folder),
        json_(json),
        progress_(!leads() ? Progress::To::nobody
                  : json   ? Progress::To::errors
                           : Progress::To::output),
        data_(load_dataset(config, known)),
        trainer_(with_length(), data_) {
    const std::int64_t total = trainer_.total_steps(), epoch = trainer_.steps_per_epoch();
    const std::int64_t epochs = (total + epoch - 1) / epoch, often = epoch * ((epochs + kMostTests - 1) / kMostTests);
    log_every_ = config.log_every > 0 ? config.log_every : std::max<std::int64_t>(1, total / kMetricLines);
    eval_every_ = config.eval_every > 0 ? config.eval_every : often;
    checkpoint_every_ = config.checkpoint_every > 0 ? config.checkpoint_every : often;
  }
  const RunConfig& config() const { return config_; }

  void start_from(const std::string& folder) { trainer_.start_from(folder); }

  void resume() {
    const std::string path = folder_.checkpoint();
    const io::Checkpoint c = io::load_checkpoint(path);
    trainer_.restore(c, path);
    const auto found = c.metadata.find("progress");
    require(found != c.metadata.end(), Error::Kind::io, "{}: this checkpoint was not written by `ebb train`", path);
    const json progress = io::parse_json(found->second, 3, path + ": progress");
    try {
      progress.at("since_line").get_to(since_line_);
      progress.at("since_test").get_to(since_test_);
      progress.at("seconds").get_to(seconds_before_);
      progress.at("peak_memory").get_to(peak_before_);
      const json& best = progress.at("best_loss");
      best_loss_ = best.is_null() ? std::numeric_limits<double>::infinity() : best.get<double>();
      progress.at("tests_since_best").get_to(tests_since_best_);
    } catch (const json::exception&) {
      fail(Error::Kind::io, "{}: how far the run had come cannot be read", path);
    }
    patience_is_over_ = no_better_for_long();
    saved_step_ = c.step;
    if (leads()) folder_.keep_metrics(c.step);
  }

  void run() {
    introduce();
    const std::int64_t total = trainer_.total_steps();
    clock_ = {};
    line_clock_ = {};
    steps_before_ = trainer_.steps_done();
    while (trainer_.steps_done() < total && !out_of_patience()) {
      unread_.push_back(trainer_.step());
      const StepResult r = unread_.back();
      const std::int64_t step = trainer_.steps_done();
      bool last = step == total;
      // A GPU continues while its results are not read.
      if (last || r.mean_loss.device() == Device{} || unread_.size() == kMostUnread || step % log_every_ == 0 ||
          step % eval_every_ == 0 || step % checkpoint_every_ == 0)
        read_results();
      if (leads() && (last || step % log_every_ == 0)) write_line(r.lr);
      if (last || step % eval_every_ == 0) {
        if (leads() || trainer_.is_divided()) test(r.lr);
        patience_is_over_ = distributed::world().any(leads() && no_better_for_long());
      }
      last |= out_of_patience();
      if (last || step % checkpoint_every_ == 0) save();
      if (leads()) show();
      if (distributed::world().any(watch_.interrupted()) && !last) stop();
    }
    ranks_ = rank_reports();
    if (leads()) finish();
  }

 private:
  const RunConfig& with_length() {
    resolve_with(config_, data_);
    return config_;
  }
  Task task() const { return data_.facts.task; }
  bool validates() const { return data_.validation.size() > 0; }
  bool no_better_for_long() const { return config_.patience > 0 && tests_since_best_ >= config_.patience; }
  bool out_of_patience() const { return patience_is_over_; }             // the leader tests, and all ranks stop
  double seconds() const { return seconds_before_ + clock_.seconds(); }  // of training
  std::size_t peak_memory() const { return std::max(peak_before_, memory_stats().peak); }
  double epoch() const {
    return static_cast<double>(trainer_.steps_done()) / static_cast<double>(trainer_.steps_per_epoch());
  }
  double epochs() const {
    return static_cast<double>(trainer_.total_steps()) / static_cast<double>(trainer_.steps_per_epoch());
  }

  void introduce() {
    std::string line = fmt::format("Training {} ({} parameters) on {}: {} to train on, ", config_.model,
                                   grouped(trainer_.parameter_count()), data_.description, grouped(data_.train.size()));
    if (validates()) line += fmt::format("{} to validate, ", grouped(data_.validation.size()));
    line += fmt::format("{} to test.", grouped(data_.test.size()));
    progress_.say(line);
    if (const TableFacts& table = data_.facts.table; !table.columns.empty()) {
      progress_.say(fmt::format("Predicting {} from {} {}: {}.", what_is_predicted(), table.inputs(),
                                table.inputs() == 1 ? "input" : "inputs",
                                task() == Task::numbers
                                    ? "regression (--task classification takes the values as classes)"
                                    : fmt::format("{} classes", data_.facts.class_count())));
    }
    for (const std::string& note : data_.notes) progress_.say(fmt::format("Note: {}.", note));
    std::string what = fmt::format(
        "{} {} of {} {}, {:.3g} {}, {} with a rate of {:g}, {}, {} {}", grouped(trainer_.total_steps()),
        trainer_.total_steps() == 1 ? "step" : "steps", config_.batch * config_.accumulate,
        config_.batch * config_.accumulate == 1 ? "example" : "examples", epochs(), epochs() == 1 ? "epoch" : "epochs",
        config_.optimizer, config_.lr, config_.dtype, num_threads(), num_threads() == 1 ? "thread" : "threads");
    const distributed::World all = distributed::world();
    if (all.size() > 1) {
      what += config_.tensor_parallel > 0
                  ? fmt::format(" on each of {} ranks, which share {} parts of the model", all.size(),
                                config_.tensor_parallel)
                  : fmt::format(" on each of {} ranks, {} shards of a batch", all.size(), config_.shards);
    }
    progress_.say(trainer_.steps_done() == 0
                      ? what + "."
                      : fmt::format("{}; going on after step {}.", what, grouped(trainer_.steps_done())));
  }

  std::string what_is_predicted() const {
    const TableFacts& table = data_.facts.table;
    return table.header ? table.target.name : fmt::format("column {}", table.target.position + 1);
  }

  void read_results() {
    for (const StepResult& r : std::exchange(unread_, {})) {
      check(r);
      since_line_.add(r);
      since_test_.add(r);
    }
  }

  void check(const StepResult& r) const {
    if (std::isfinite(r.loss()) || config_.dtype == "f16") return;  // f16 skips such steps by itself
    fail(Error::Kind::value,
         "the loss is {} after step {}; a smaller --lr, a longer --warmup or --clip 1 usually helps{}", r.loss(),
         r.step, saved_step_ > 0 ? fmt::format(" (the checkpoint of step {} is kept)", saved_step_) : "");
  }

  MetricRow row(Split split, double loss, double lr, double rate) const {
    MetricRow r{trainer_.steps_done(), epoch(), split, loss};
    r.lr = lr;
    r.samples_per_second = rate;
    r.seconds = seconds();
    r.time = static_cast<double>(std::time(nullptr));
    return r;
  }

  void write_line(double lr) {
    const double rate = static_cast<double>(since_line_.examples) / std::max(1e-9, line_clock_.seconds());
    MetricRow r = row(Split::train, since_line_.mean_loss(), lr, rate);
    if (task() == Task::classes) r.accuracy = since_line_.accuracy();
    folder_.add(r);
    since_line_ = {};
    line_clock_ = {};
  }

  Evaluation measure(const Model& model, Split split, double lr) {
    const Clock clock;
    const Examples& examples = split == Split::validation ? data_.validation : data_.test;
    Evaluation e = evaluate(model, examples, data_.facts);
    MetricRow r = row(split, e.loss, lr, static_cast<double>(examples.size()) / std::max(1e-9, clock.seconds()));
    if (task() == Task::classes) r.accuracy = e.accuracy;
    if (task() == Task::numbers) r.r2 = e.r2;
    if (task() == Task::text) r.bits_per_byte = e.bits_per_byte;
    if (leads()) folder_.add(r);
    return e;
  }

  // On the validation data if there is some: the test data then decides nothing.
  void test(double lr) {
    const Evaluation e = measure(trainer_.tested_model(), validates() ? Split::validation : Split::test, lr);
    keep_best(e.loss);
    const int digits = static_cast<int>(std::to_string(std::llround(std::ceil(epochs()))).size());
    const char* kind = validates() ? "validation" : "test";
    std::string line = config_.eval_every > 0
                           ? fmt::format("  step {}/{}", trainer_.steps_done(), trainer_.total_steps())
                           : fmt::format("  epoch {:{}.4g}/{:.4g}", epoch(), digits, epochs());
    line += fmt::format("  training loss {:.4f}  {} loss {:.4f}  ", since_test_.mean_loss(), kind, e.loss);
    line += task() == Task::classes   ? fmt::format("{} accuracy {:.2f} %", kind, 100 * e.accuracy)
            : task() == Task::numbers ? fmt::format("R² {:.4f}", e.r2)
                                      : fmt::format("perplexity {:.2f}", std::exp(e.loss));
    progress_.say(line + "  " + duration(seconds()));
    since_test_ = {};
    line_clock_ = {};
    if (!validates()) evaluation_ = e;
  }

  void keep_best(double loss) {
    ++tests_since_best_;
    if (!(loss < best_loss_)) return;
    best_loss_ = loss;
    tests_since_best_ = 0;
    trainer_.save_tested(folder_.best());
  }

  // One file, which all ranks write together.
  void save() {
    saved_step_ = trainer_.steps_done();
    json progress;
    progress["since_line"] = since_line_;
    progress["since_test"] = since_test_;
    progress["seconds"] = seconds();
    progress["peak_memory"] = peak_memory();
    progress["best_loss"] = best_loss_;  // null if there is none yet
    progress["tests_since_best"] = tests_since_best_;
    trainer_.save(folder_.checkpoint(), {{"progress", progress.dump()}});
    if (leads()) folder_.establish();
  }

  void show() {
    const std::int64_t done = trainer_.steps_done() - steps_before_,
                       left = trainer_.total_steps() - trainer_.steps_done();
    const double per_step = clock_.seconds() / static_cast<double>(done);
    const Sums& s = since_test_;
    if (s.steps == 0) return;
    const double examples = static_cast<double>(s.examples) / static_cast<double>(s.steps);
    progress_.show({trainer_.steps_done(), trainer_.total_steps(), epoch(), epochs(), s.mean_loss(),
                    task() == Task::classes ? std::optional(s.accuracy()) : std::nullopt, examples / per_step,
                    per_step * static_cast<double>(left)});
  }

  [[noreturn]] void stop() {
    read_results();
    save();
    if (progress_.terminal()) progress_.say("");
    throw Interrupted(fmt::format("stopped and saved after step {} of {}; `ebb train --resume {}` goes on from there",
                                  trainer_.steps_done(), trainer_.total_steps(), folder_.path().string()));
  }

  // The model's continuations of beginnings from the test text.
  std::vector<std::pair<std::string, std::string>> sample_texts(const Model& model) const {
    std::vector<std::pair<std::string, std::string>> all;
    const std::int64_t given = std::min<std::int64_t>(12, config_.context);
    for (std::int64_t k = 0; k < 3; ++k) {
      const Tensor window = data_.test.inputs[k * data_.test.size() / 3];
      const Tensor tokens = window.rank() == 2 ? window[0] : window;
      const std::string prompt = data_.facts.vocabulary.decode(tokens.slice(0, 0, given).to_vector<std::int64_t>());
      const GenerateOptions options{.tokens = 120, .seed = config_.seed};
      all.emplace_back(prompt, continue_text(model, data_.facts, prompt, options));
    }
    return all;
  }

  // The weights that were best on the validation data; without any the last ones.
  void finish() {
    const double training_seconds = folder_.metrics().empty() ? seconds() : folder_.metrics().back().seconds;
    std::int64_t step = trainer_.steps_done();
    // A divided model is assembled from its file: the other ranks are at their end.
    Model model = trainer_.is_divided() ? load_trained_model(folder_.checkpoint()).model : trainer_.tested_model();
    if (validates() && std::filesystem::exists(folder_.best())) {
      TrainedModel best = load_trained_model(folder_.best());
      model = std::move(best.model);
      step = best.step;
    }
    if (out_of_patience()) {
      progress_.say(fmt::format("Stopped after step {}: {} tests without a lower validation loss than {:.4f}.",
                                grouped(trainer_.steps_done()), config_.patience, best_loss_));
    }
    if (validates()) {
      progress_.say(fmt::format("The weights of step {} are kept, the best on the validation data.", grouped(step)));
      const auto& rows = folder_.metrics();
      const bool tested = !rows.empty() && rows.back().split == Split::test;  // by an earlier session
      evaluation_ = tested ? evaluate(model, data_.test, data_.facts)
                           : measure(model, Split::test, trainer_.lr(trainer_.steps_done()));
    }
    if (!evaluation_) evaluation_ = evaluate(model, data_.test, data_.facts);
    ReportFacts facts;
    facts.config = config_;
    facts.data = &data_;
    facts.rows = &folder_.metrics();
    facts.evaluation = &*evaluation_;
    facts.parameters = trainer_.parameter_count();
    facts.steps = trainer_.steps_done();
    facts.steps_per_epoch = trainer_.steps_per_epoch();
    facts.seconds = training_seconds;
    facts.peak_memory = peak_memory();
    facts.threads = num_threads();
    facts.ranks = ranks_;
    if (task() == Task::text) facts.texts = sample_texts(model);
    write_file(folder_.report(), render_report(facts));
    if (const models::Llama* llama = model.llama()) save_for_transformers(*llama);
    say_result(training_seconds);
    say_waiting(training_seconds);
    progress_.say("The report, with curves and pictures: " + folder_.report());
    if (json_) print_result(step, training_seconds);
  }

  void save_for_transformers(const models::Llama& llama) {
    const std::string folder = folder_.file("model");
    models::save_llama(folder, llama);
    if (const auto& tokenizer = data_.facts.vocabulary.tokenizer) tokenizer->save(folder + "/tokenizer.json");
    progress_.say(fmt::format("The model as transformers reads it: {}", folder));
  }

  void print_result(std::int64_t step, double training_seconds) const {
    nlohmann::ordered_json out{
        {"run", folder_.path().string()}, {"model", config_.model}, {"data", config_.data},
        {"steps", trainer_.steps_done()}, {"best_step", step},      {"seconds", training_seconds},
        {"examples", data_.test.size()}};
    out.update(measured(*evaluation_, data_.test, data_.facts));
    out["notes"] = data_.notes;
    std::printf("%s\n", out.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
  }

  void say_result(double training_seconds) {
    const auto n = static_cast<std::int64_t>(data_.test.size());
    std::string line = task() == Task::text ? fmt::format("Test loss {:.4f}, ", evaluation_->loss) : "Test ";
    line += in_words(*evaluation_, data_.facts);
    line += fmt::format(" after {} of training", duration(training_seconds));
    if (task() == Task::classes) {
      const auto wrong = std::llround((1 - evaluation_->accuracy) * static_cast<double>(n));
      line += fmt::format(": {} of {} are misclassified", wrong, grouped(n));
    }
    progress_.say(line + ".");
  }

  // Ranks that wait have too little to do, or others too much.
  void say_waiting(double training_seconds) {
    if (ranks_.size() < 2) return;
    std::string shares;
    for (const RankReport& r : ranks_) {
      shares += fmt::format("{}{:.0f}", shares.empty() ? "" : ", ", 100 * r.waiting / std::max(1e-9, training_seconds));
    }
    progress_.say(fmt::format("The {} ranks waited for each other {} % of the time.", ranks_.size(), shares));
  }

  RunConfig config_;
  RunFolder& folder_;
  bool json_;
  InterruptWatch watch_;
  Progress progress_;
  Dataset data_;
  Trainer trainer_;
  std::int64_t log_every_ = 1, eval_every_ = 1, checkpoint_every_ = 1, saved_step_ = 0, steps_before_ = 0;
  Sums since_line_, since_test_;
  std::vector<StepResult> unread_;
  double best_loss_ = std::numeric_limits<double>::infinity();
  std::int64_t tests_since_best_ = 0;
  bool patience_is_over_ = false;
  std::vector<RankReport> ranks_;
  double seconds_before_ = 0;  // of earlier sessions
  std::size_t peak_before_ = 0;
  Clock clock_, line_clock_;
  std::optional<Evaluation> evaluation_;
};

}  // namespace

void run_training(const RunConfig& config, RunFolder& folder, const TrainingOptions& options) {
  if (config.threads > 0) {
    set_num_threads(static_cast<int>(config.threads));
  } else {
    share_threads();
  }
  set_memory_budget(bytes_of(config.memory), default_device());
  // Data and network come first: errors in them are reported before anything is written.
  std::optional<DataFacts> known;
  if (options.resume && folder.holds_checkpoint()) known = load_facts(folder.checkpoint());
  TrainingRun run(config, folder, options.json, known ? &*known : nullptr);
  distributed::world().barrier();  // all ranks have seen the folder as it was
  if (!config.init.empty() && !(options.resume && folder.holds_checkpoint())) run.start_from(config.init);
  if (!options.resume) {
    if (leads()) folder.begin(to_json(run.config()));
  } else if (folder.holds_checkpoint()) {
    run.resume();
  } else if (leads()) {
    folder.keep_metrics(0);  // it was stopped before it had saved anything
  }
  try {
    run.run();
  } catch (const Interrupted&) {
    throw;
  } catch (...) {
    if (leads()) folder.abandon();  // unless a checkpoint is worth keeping
    throw;
  }
}

}  // namespace ebb::program
