// SPDX-License-Identifier: MIT
#include "report.h"

#include <algorithm>
#include <cmath>

#include "core/format_error.h"
#include "ebb/optim/registry.h"
#include "progress.h"

namespace ebb::program {
namespace {

bool is_text(const ReportFacts& f) { return f.data->facts.task == Task::text; }
bool is_numbers(const ReportFacts& f) { return f.data->facts.task == Task::numbers; }

std::string title(const ReportFacts& f) {
  const std::string data = f.config.data == "digits"  ? "digits"
                           : f.config.data == "tales" ? "tales by the sea"
                                                      : f.config.data.substr(f.config.data.find_last_of('/') + 1);
  if (is_numbers(f)) return fmt::format("Predicting {} of {}", f.data->facts.table.target.name, data);
  return (is_text(f) ? "Writing " : "Classifying ") + data;
}

std::string introduction(const ReportFacts& f) {
  const std::string& m = f.config.model;
  const char* network = m == "mlp"      ? "A network of linear layers"
                        : m == "cnn"    ? "A convolutional network"
                        : m == "resnet" ? "A residual network"
                                        : "A small transformer";
  const std::string unit = is_text(f) ? "windows of text" : "examples";
  return fmt::format("{} with {} parameters learned from {} {} and was tested on {} it had never seen.", network,
                     grouped(f.parameters), grouped(f.data->train.size()), unit, grouped(f.data->test.size()));
}

// A ring filled by the share of correct answers, or of explained variance.
std::string ring(const ReportFacts& f) {
  if (is_text(f)) return {};
  const double around = 2 * 3.14159265358979 * 54;
  const double part = is_numbers(f) ? f.evaluation->r2 : f.evaluation->accuracy;
  const std::string number =
      is_numbers(f) ? fmt::format("{:.3f}", part) : fmt::format("{:.{}f} %", 100 * part, part == 1 ? 0 : 2);
  const char* words = is_numbers(f) ? "R² of the test" : "test accuracy";
  return fmt::format(
      "<svg class=\"ring\" viewBox=\"0 0 132 132\" role=\"img\" aria-label=\"{4}\"><circle class=\"track\" "
      "cx=\"66\" cy=\"66\" r=\"54\"/><circle class=\"value\" cx=\"66\" cy=\"66\" r=\"54\" transform=\"rotate(-90 66 "
      "66)\" stroke-dasharray=\"{0:.2f} {1:.2f}\"/><text x=\"66\" y=\"70\">{2}</text><text class=\"small\" "
      "x=\"66\" y=\"87\">{3}</text></svg>",
      std::clamp(part, 0.0, 1.0) * around, around, number, words, words);
}

std::string cards(const ReportFacts& f) {
  std::string s = "<div class=\"cards\">";
  const auto card = [&s](const std::string& number, const std::string& words) {
    s += fmt::format("<div class=\"card\"><b>{}</b><span>{}</span></div>\n", number, words);
  };
  const Evaluation& e = *f.evaluation;
  if (is_text(f)) {
    card(fmt::format("{:.2f}", std::exp(e.loss)), "perplexity of the test text");
    card(fmt::format("{:.3f}", e.bits_per_byte), "bits per byte of the test text");
  } else if (is_numbers(f)) {
    card(fmt::format("{:.4g}", e.mae), "mean absolute error");
    card(fmt::format("{:.4g}", e.rmse), "root mean squared error");
  } else {
    const double wrong = (1 - e.accuracy) * static_cast<double>(f.data->test.size());
    card(grouped(std::llround(wrong)), fmt::format("of {} are misclassified", grouped(f.data->test.size())));
  }
  card(fmt::format("{:.4f}", e.loss), "loss on the test set");
  const std::string threads = fmt::format("{} {}", f.threads, f.threads == 1 ? "thread" : "threads");
  card(duration(f.seconds), f.ranks.size() > 1 ? fmt::format("of training on {} ranks of {}", f.ranks.size(), threads)
                                               : "of training on " + threads);
  const double epochs = static_cast<double>(f.steps) / static_cast<double>(f.steps_per_epoch);
  card(grouped(f.steps), fmt::format("steps, {:.3g} {}", epochs, epochs == 1 ? "epoch" : "epochs"));
  const double examples = static_cast<double>(f.steps * f.config.batch * f.config.accumulate);
  card(grouped(std::llround(examples / std::max(1e-9, f.seconds))),
       is_text(f) ? "windows per second" : "examples per second");
  const double bytes = static_cast<double>(f.peak_memory);
  card(bytes < 1e6 ? fmt::format("{:.0f} kB", bytes / 1e3) : fmt::format("{:.0f} MB", bytes / 1e6),
       "of tensors at the peak");
  return s + "</div>\n";
}

std::string section(const char* id, const std::string& heading, const std::string& words, const std::string& inside) {
  return fmt::format("<section id=\"{}\"><h2>{}</h2><p>{}</p>{}</section>\n", id, heading, words, inside);
}

// Says why the two curves of the loss cannot be compared directly.
std::string about_the_loss(const ReportFacts& f) {
  const double s = f.config.label_smoothing, n = static_cast<double>(f.data->facts.class_count());
  std::string words;
  if (s > 0 && n > 1) {
    // The targets' own entropy: 1 − s + s/n for the class, s/n for each other one.
    const double own = 1 - s + s / n, other = s / n;
    const double floor = -own * std::log(own) - (n - 1) * other * std::log(other);
    words += fmt::format(
        "The training loss is that of smoothed targets (label-smoothing {:g}): it cannot fall below {:.3f}, so it lies "
        "above the {} loss, which is of the classes themselves. ",
        s, floor, f.data->validation.size() > 0 ? "validation" : "test");
  }
  if (f.config.dropout > 0) words += "Dropout makes the training loss larger, too; it is off in tests. ";
  if (!words.empty()) words.pop_back();
  return words.empty() ? "" : fmt::format("<p>{}</p>", words);
}

std::string classes(const ReportFacts& f) {
  const std::string matrix = confusion_matrix(f);
  std::string s = "<div class=\"two\">";
  if (!matrix.empty()) {
    s += section("confusion", "Confusion matrix", "A row for each class, a column for each prediction. Errors are red.",
                 "<div class=\"scroll\">" + matrix + "</div>");
  }
  s += section("classes", "Class by class",
               f.data->facts.class_count() > 20 ? "The twenty hardest: the share that is classified correctly."
                                                : "The share that is classified correctly, the hardest first.",
               class_bars(f));
  s += "</div>\n";
  const Paper paper = paper_of(f.data->test.inputs);
  const char* kind = paper == Paper::black ? " black" : paper == Paper::white ? " white" : "";
  const auto images = [&](const std::string& figures) {
    return fmt::format("<div class=\"images{}\">{}</div>", kind, figures);
  };
  const std::string first = first_pictures(f, 28), wrong = surest_mistakes(f, 28);
  if (!first.empty()) {
    s += section("samples", "A first look at the test set", "The prediction, and how probable the network holds it.",
                 images(first));
  }
  if (!wrong.empty()) {
    s += section("mistakes", "Most confident errors", "Would you have known better?", images(wrong));
  }
  return s;
}

std::string texts(const ReportFacts& f) {
  std::string s;
  for (const auto& [prompt, text] : f.texts) {
    s += fmt::format("<blockquote><b>{}</b>{}</blockquote>\n", escaped(prompt), escaped(text));
  }
  return section("texts", "What it writes", "The beginning in colour was given, the rest is the network's.", s);
}

// Settings of other networks and other data would only be clutter.
bool matters(const std::string& name, const RunConfig& c) {
  const auto any_of = [&](std::initializer_list<const char*> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (any_of({"heads", "context"})) return is_text(c);
  if (name == "tokens") return is_text(c) && c.tokenizer.empty() && c.init.empty();
  if (any_of({"kv-heads", "feed-forward", "head", "rope-theta"})) return c.model == "llama";
  if (name == "init") return !c.init.empty();
  if (name == "tokenizer") return !c.tokenizer.empty();
  if (name == "products") return c.products == "fp8";
  if (name == "documents") return !c.documents.empty();
  if (name == "hidden") return c.model == "mlp";
  if (name == "width") return c.model != "mlp";
  if (name == "layers") return is_text(c) || c.model == "resnet";
  if (any_of({"train-count", "test-count"})) return c.data == "digits";
  if (name == "test-fraction") return c.data != "digits";
  if (name == "validation-fraction") return c.validation_fraction > 0;
  if (name == "patience") return c.patience > 0;
  if (name == "shards") return c.shards > 1;
  if (name == "optimizer-state") return c.optimizer_state == "replicated";
  if (any_of({"task", "target", "ignore", "missing"})) return c.model == "mlp" && c.data != "digits";
  if (name == "resize") return !c.resize.empty();
  if (name == "momentum") return optimizer_info(c.optimizer).has_option("momentum");
  if (name == (c.steps > 0 ? "epochs" : "steps")) return false;
  return true;
}

std::string settings(const ReportFacts& f) {
  std::string s = "<dl class=\"settings\">";
  const nlohmann::json all = to_json(f.config);
  each_setting(f.config, [&](const char* name, const auto&, const char*, const auto&) {
    const nlohmann::json& value = all.at(name);
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (text.empty() || text == "[]" || !matters(name, f.config)) return;
    s += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, escaped(text));
  });
  return section("settings", "Configuration", "What this run was made of; <code>config.json</code> has every setting.",
                 s + "</dl>");
}

// How evenly the work was shared among ranks.
std::string ranks(const ReportFacts& f) {
  if (f.ranks.size() < 2) return {};
  std::string s = "<dl class=\"settings\">";
  const double seconds = std::max(1e-9, f.seconds);
  for (std::size_t r = 0; r < f.ranks.size(); ++r) {
    const RankReport& one = f.ranks[r];
    s +=
        fmt::format("<div><dt>rank {} on {}</dt><dd>waited {:.1f} %, sent {:.1f} MB in {:.1f} % of the time</dd></div>",
                    r, escaped(one.host), 100 * one.waiting / seconds, static_cast<double>(one.bytes) / 1e6,
                    100 * one.moving / seconds);
  }
  return section("ranks", "Ranks", "How long each process waited for the others.", s + "</dl>");
}

}  // namespace

std::string grouped(std::int64_t n) {
  std::string s = std::to_string(n);
  for (std::size_t at = s.size(); at > 3 + (n < 0 ? 1u : 0u);) s.insert(at -= 3, ",");
  return s;
}

std::string escaped(const std::string& text) {
  std::string s;
  for (char c : text) {
    switch (c) {
      case '&':
        s += "&amp;";
        break;
      case '<':
        s += "&lt;";
        break;
      case '>':
        s += "&gt;";
        break;
      case '"':
        s += "&quot;";
        break;
      default:
        s += c;
    }
  }
  return s;
}

std::string render_report(const ReportFacts& f) {
  std::string s = fmt::format(
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><link rel=\"icon\" href=\"data:,\">\n"
      "{1}</head><body><main>\n<header><div><h1>{0}</h1><p>{2}</p></div>{3}</header>\n",
      escaped(title(f)), report_style(), introduction(f), ring(f));
  s += cards(f);
  const auto plot = [](const char* id, const std::string& svg) {
    return fmt::format("<section id=\"{}\">{}</section>\n", id, svg);
  };
  const std::string course = plot("rate", rate_curve(f)) + plot("speed", speed_curve(f));
  if (is_text(f)) {
    s += "<div class=\"three\">" + plot("loss", loss_curve(f) + about_the_loss(f)) + course + "</div>\n" + texts(f);
  } else if (is_numbers(f)) {
    s += "<div class=\"two\">" + plot("loss", loss_curve(f) + about_the_loss(f)) + plot("r2", r2_curve(f)) + "</div>\n";
    s += "<div class=\"two\">" + plot("scatter", scatter_plot(f)) + "<div>" + course + "</div></div>\n";
  } else {
    s += "<div class=\"two\">" + plot("loss", loss_curve(f) + about_the_loss(f)) + plot("accuracy", accuracy_curve(f)) +
         "</div>\n";
    s += classes(f) + "<div class=\"two\">" + course + "</div>\n";
  }
  s += ranks(f) + settings(f);
  s += "<footer>Computed and drawn by Ebb " EBB_VERSION ".</footer></main></body></html>\n";
  return s;
}

}  // namespace ebb::program
