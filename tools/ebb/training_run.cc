#include "training_run.h"

#include <cmath>
#include <ctime>

#include "core/format_error.h"
#include "ebb/memory.h"
#include "exit.h"
#include "generation.h"
#include "interrupt.h"
#include "io/json.h"
#include "progress.h"
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
    loss += r.loss;
    right += r.right;
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

class TrainingRun {
 public:
  TrainingRun(const RunConfig& config, RunFolder& folder)
      : config_(config), folder_(folder), data_(load_dataset(config)), trainer_(config, data_) {
    const std::int64_t total = trainer_.total_steps();
    log_every_ = config.log_every > 0 ? config.log_every : std::max<std::int64_t>(1, total / kMetricLines);
    eval_every_ = config.eval_every > 0 ? config.eval_every : trainer_.steps_per_epoch();
    checkpoint_every_ = config.checkpoint_every > 0 ? config.checkpoint_every : trainer_.steps_per_epoch();
  }

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
    } catch (const json::exception&) {
      fail(Error::Kind::io, "{}: how far the run had come cannot be read", path);
    }
    saved_step_ = c.step;
    folder_.keep_metrics(c.step);
  }

  void run() {
    introduce();
    const std::int64_t total = trainer_.total_steps();
    clock_ = {};
    line_clock_ = {};
    steps_before_ = trainer_.steps_done();
    while (trainer_.steps_done() < total) {
      const StepResult r = trainer_.step();
      check(r);
      since_line_.add(r);
      since_test_.add(r);
      const std::int64_t step = trainer_.steps_done();
      const bool last = step == total;
      if (last || step % log_every_ == 0) write_line(r.lr);
      if (last || step % eval_every_ == 0) test(r.lr);
      if (last || step % checkpoint_every_ == 0) save();
      show();
      if (watch_.interrupted() && !last) stop();
    }
    finish();
  }

 private:
  bool text() const { return data_.facts.classes.empty(); }
  double seconds() const { return seconds_before_ + clock_.seconds(); }  // of training
  std::size_t peak_memory() const { return std::max(peak_before_, memory_stats().peak); }
  double epoch() const {
    return static_cast<double>(trainer_.steps_done()) / static_cast<double>(trainer_.steps_per_epoch());
  }
  double epochs() const {
    return static_cast<double>(trainer_.total_steps()) / static_cast<double>(trainer_.steps_per_epoch());
  }

  void introduce() {
    progress_.say(fmt::format("Training {} ({} parameters) on {}: {} to train on, {} to test.", config_.model,
                              grouped(trainer_.parameter_count()), data_.description, grouped(data_.train.size()),
                              grouped(data_.test.size())));
    const std::string what = fmt::format("{} steps of {} examples, {:.3g} {}, {} with a rate of {:g}, {}, {} {}",
                                         grouped(trainer_.total_steps()), config_.batch * config_.accumulate, epochs(),
                                         epochs() == 1 ? "epoch" : "epochs", config_.optimizer, config_.lr,
                                         config_.dtype, num_threads(), num_threads() == 1 ? "thread" : "threads");
    progress_.say(trainer_.steps_done() == 0
                      ? what + "."
                      : fmt::format("{}; going on after step {}.", what, grouped(trainer_.steps_done())));
  }

  void check(const StepResult& r) const {
    if (std::isfinite(r.loss) || config_.dtype == "f16") return;  // f16 leaves such steps out by itself
    fail(Error::Kind::value,
         "the loss is {} after step {}; a smaller --lr, a longer --warmup or --clip 1 usually helps{}", r.loss,
         trainer_.steps_done(),
         saved_step_ > 0 ? fmt::format(" (the checkpoint of step {} is kept)", saved_step_) : "");
  }

  MetricRow row(bool of_test, double loss, double accuracy, double lr, double rate) const {
    MetricRow r{trainer_.steps_done(), epoch(), of_test, loss};
    if (!text()) r.accuracy = accuracy;
    r.lr = lr;
    r.samples_per_second = rate;
    r.seconds = seconds();
    r.time = static_cast<double>(std::time(nullptr));
    return r;
  }

  void write_line(double lr) {
    const double rate = static_cast<double>(since_line_.examples) / std::max(1e-9, line_clock_.seconds());
    folder_.add(row(false, since_line_.mean_loss(), since_line_.accuracy(), lr, rate));
    since_line_ = {};
    line_clock_ = {};
  }

  void test(double lr) {
    const Clock clock;
    evaluation_ = evaluate(trainer_.tested_model(), data_.test);
    const double rate = static_cast<double>(data_.test.size()) / std::max(1e-9, clock.seconds());
    folder_.add(row(true, evaluation_->loss, evaluation_->accuracy, lr, rate));
    const int digits = static_cast<int>(std::to_string(std::llround(std::ceil(epochs()))).size());
    std::string line = config_.eval_every > 0
                           ? fmt::format("  step {}/{}", trainer_.steps_done(), trainer_.total_steps())
                           : fmt::format("  epoch {:{}.4g}/{:.4g}", epoch(), digits, epochs());
    line += fmt::format("  training loss {:.4f}  test loss {:.4f}", since_test_.mean_loss(), evaluation_->loss);
    line += text() ? fmt::format("  perplexity {:.2f}", std::exp(evaluation_->loss))
                   : fmt::format("  test accuracy {:.2f} %", 100 * evaluation_->accuracy);
    progress_.say(line + "  " + duration(seconds()));
    since_test_ = {};
    line_clock_ = {};
  }

  void save() {
    io::Checkpoint c = trainer_.checkpoint();
    json progress;
    progress["since_line"] = since_line_;
    progress["since_test"] = since_test_;
    progress["seconds"] = seconds();
    progress["peak_memory"] = peak_memory();
    c.metadata["progress"] = progress.dump();
    io::save_checkpoint(folder_.checkpoint(), c);
    saved_step_ = c.step;
  }

  void show() {
    const std::int64_t done = trainer_.steps_done() - steps_before_,
                       left = trainer_.total_steps() - trainer_.steps_done();
    const double per_step = clock_.seconds() / static_cast<double>(done);
    const Sums& s = since_test_;
    if (s.steps == 0) return;
    const double examples = static_cast<double>(s.examples) / static_cast<double>(s.steps);
    progress_.show({trainer_.steps_done(), trainer_.total_steps(), epoch(), epochs(), s.mean_loss(),
                    text() ? std::nullopt : std::optional(s.accuracy()), examples / per_step,
                    per_step * static_cast<double>(left)});
  }

  [[noreturn]] void stop() {
    save();
    if (progress_.terminal()) progress_.say("");
    throw Interrupted(fmt::format("stopped and saved after step {} of {}; `ebb train --resume {}` goes on from there",
                                  trainer_.steps_done(), trainer_.total_steps(), folder_.path().string()));
  }

  // How the model goes on from beginnings in the test text.
  std::vector<std::pair<std::string, std::string>> sample_texts() const {
    std::vector<std::pair<std::string, std::string>> all;
    const std::int64_t given = std::min<std::int64_t>(12, config_.context);
    for (std::int64_t k = 0; k < 3; ++k) {
      const Tensor window = data_.test.inputs[k * data_.test.size() / 3];
      const std::string prompt = data_.facts.pairs.decode(window.slice(0, 0, given).to_vector<std::int64_t>());
      const GenerateOptions options{.tokens = 120, .seed = config_.seed};
      all.emplace_back(prompt, continue_text(trainer_.tested_model(), data_.facts, prompt, options));
    }
    return all;
  }

  void finish() {
    const double training_seconds = folder_.metrics().empty() ? seconds() : folder_.metrics().back().seconds;
    if (!evaluation_) evaluation_ = evaluate(trainer_.tested_model(), data_.test);
    ReportFacts facts;
    facts.config = config_;
    facts.data = &data_;
    facts.rows = &folder_.metrics();
    facts.evaluation = &*evaluation_;
    facts.parameters = trainer_.parameter_count();
    facts.steps = trainer_.total_steps();
    facts.steps_per_epoch = trainer_.steps_per_epoch();
    facts.seconds = training_seconds;
    facts.peak_memory = peak_memory();
    facts.threads = num_threads();
    if (text()) facts.texts = sample_texts();
    write_file(folder_.report(), render_report(facts));
    const auto n = static_cast<std::int64_t>(data_.test.size());
    if (text()) {
      progress_.say(fmt::format("Test loss {:.4f}, perplexity {:.2f}, after {} of training.", evaluation_->loss,
                                std::exp(evaluation_->loss), duration(training_seconds)));
    } else {
      const auto wrong = std::llround((1 - evaluation_->accuracy) * static_cast<double>(n));
      progress_.say(fmt::format("Test accuracy {:.2f} % after {} of training: {} of {} are read wrongly.",
                                100 * evaluation_->accuracy, duration(training_seconds), wrong, grouped(n)));
    }
    progress_.say("The report, with curves and pictures: " + folder_.report());
  }

  RunConfig config_;
  RunFolder& folder_;
  InterruptWatch watch_;
  Progress progress_;
  Dataset data_;
  Trainer trainer_;
  std::int64_t log_every_ = 1, eval_every_ = 1, checkpoint_every_ = 1, saved_step_ = 0, steps_before_ = 0;
  Sums since_line_, since_test_;
  double seconds_before_ = 0;  // of the sessions before this one
  std::size_t peak_before_ = 0;
  Clock clock_, line_clock_;
  std::optional<Evaluation> evaluation_;
};

}  // namespace

void run_training(const RunConfig& config, RunFolder& folder, bool resume) {
  if (config.threads > 0) set_num_threads(static_cast<int>(config.threads));
  TrainingRun run(config, folder);
  if (resume) run.resume();
  run.run();
}

}  // namespace ebb::program
