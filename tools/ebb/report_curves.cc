// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "line_plot.h"
#include "report.h"

namespace ebb::program {
namespace {

// Held-out data: the validation data if there is some, else the test data.
Split held_out(const ReportFacts& f) { return f.data->validation.size() > 0 ? Split::validation : Split::test; }

constexpr std::size_t kMostPoints = 800;  // more than a screen can show

// The lines of metrics as points over epochs.
template <class Value>
plot::Line line(const ReportFacts& f, Split split, const char* name, const char* style, Value value) {
  plot::Line all;
  for (const MetricRow& r : *f.rows) {
    if (r.split != split || !std::isfinite(value(r))) continue;
    all.x.push_back(r.epoch);
    all.y.push_back(value(r));
  }
  plot::Line out{name, {}, {}, style, split != Split::train};
  const std::size_t every = (all.x.size() + kMostPoints - 1) / kMostPoints;
  for (std::size_t i = 0; i < all.x.size(); ++i) {
    if (i % every != 0 && i + 1 != all.x.size()) continue;
    out.x.push_back(all.x[i]);
    out.y.push_back(all.y[i]);
  }
  return out;
}

// An exponential average, so that the trend shows through the noise of batches.
plot::Line smoothed(const plot::Line& raw, const char* name, const char* style) {
  plot::Line out{name, raw.x, {}, style};
  const double keep = 1 - 1 / std::max(1.0, static_cast<double>(raw.y.size()) / 40);
  double sum = 0, weight = 0;
  for (double y : raw.y) {
    sum = keep * sum + y;
    weight = keep * weight + 1;
    out.y.push_back(sum / weight);
  }
  return out;
}

double least(const plot::Line& l) { return l.y.empty() ? NAN : *std::min_element(l.y.begin(), l.y.end()); }
double most(const plot::Line& l) { return l.y.empty() ? NAN : *std::max_element(l.y.begin(), l.y.end()); }

// A single training point is a line of no length.
std::string draw(const plot::Axes& axes, std::vector<plot::Line> lines) {
  std::erase_if(lines, [](const plot::Line& l) { return l.x.empty(); });
  return plot::lines(axes, lines);
}

// Small enough for the words to be legible on a phone; less important plots are flat.
void set_size(plot::Axes& axes, const ReportFacts& f, bool flat) {
  axes.width = 460;
  axes.height = flat && f.data->facts.task != Task::text ? 200 : 270;
}

}  // namespace

std::string loss_curve(const ReportFacts& f) {
  const auto loss = [](const MetricRow& r) { return r.loss; };
  const plot::Line raw = line(f, Split::train, "", "faint", loss), smooth = smoothed(raw, "training", "a");
  const plot::Line test = line(f, held_out(f), name_of(held_out(f)), "b", loss);
  const double low = std::fmin(least(smooth), least(test)), high = std::fmax(most(smooth), most(test));
  const bool logarithmic = low > 0 && high > 8 * low;
  plot::Axes axes{.title = "Loss", .x_label = "epoch"};
  axes.log_y = logarithmic;
  axes.y_from = logarithmic ? low / 1.6 : std::floor(low * 10) / 10;
  axes.y_to = logarithmic ? high * 1.2 : std::ceil(high * 10) / 10;
  set_size(axes, f, false);
  return draw(axes, {raw, smooth, test});
}

std::string accuracy_curve(const ReportFacts& f) {
  const auto accuracy = [](const MetricRow& r) { return r.accuracy.value_or(NAN); };
  const plot::Line raw = line(f, Split::train, "", "faint", accuracy), smooth = smoothed(raw, "training", "a");
  const plot::Line test = line(f, held_out(f), name_of(held_out(f)), "b", accuracy);
  // From where most of the course happens: the first steps would compress it against the upper edge.
  double low = least(test);
  if (smooth.y.size() > 8) low = std::fmin(low, smooth.y[smooth.y.size() / 8]);
  plot::Axes axes{.title = "Accuracy", .x_label = "epoch"};
  axes.y_from = std::max(0.0, std::floor(low * 20 - 0.5) / 20);
  axes.y_to = 1;
  axes.percent = true;
  set_size(axes, f, false);
  return draw(axes, {raw, smooth, test});
}

std::string r2_curve(const ReportFacts& f) {
  const plot::Line test =
      line(f, held_out(f), name_of(held_out(f)), "b", [](const MetricRow& r) { return r.r2.value_or(NAN); });
  plot::Axes axes{.title = "R², the share of the variance explained", .x_label = "epoch"};
  axes.y_from = std::max(-0.2, std::floor(least(test) * 20 - 0.5) / 20);
  axes.y_to = 1;
  set_size(axes, f, false);
  return draw(axes, {test});
}

std::string scatter_plot(const ReportFacts& f) {
  const Evaluation& e = *f.evaluation;
  plot::Line points{"", {}, {}, "a", true, false};
  const std::size_t every = (e.actual.size() + kMostPoints - 1) / kMostPoints;
  for (std::size_t i = 0; i < e.actual.size(); i += std::max<std::size_t>(1, every)) {
    points.x.push_back(e.actual[i]);
    points.y.push_back(e.values[i]);
  }
  const double low = std::min(least(points), *std::min_element(points.x.begin(), points.x.end()));
  const double high = std::max(most(points), *std::max_element(points.x.begin(), points.x.end()));
  plot::Axes axes{.title = "Predicted over actual", .x_label = "actual"};
  set_size(axes, f, false);
  axes.height = 400;
  return draw(axes, {{"exact", {low, high}, {low, high}, "c"}, points});
}

std::string rate_curve(const ReportFacts& f) {
  plot::Axes axes{.title = "Learning rate", .x_label = "epoch"};
  axes.y_from = 0;
  set_size(axes, f, true);
  return draw(axes, {line(f, Split::train, "", "c", [](const MetricRow& r) { return r.lr; })});
}

std::string speed_curve(const ReportFacts& f) {
  const plot::Line raw = line(f, Split::train, "", "faint", [](const MetricRow& r) { return r.samples_per_second; });
  plot::Axes axes{.title = is_text(f.config) ? "Windows of text per second" : "Examples per second",
                  .x_label = "epoch"};
  axes.y_from = 0;
  set_size(axes, f, true);
  return draw(axes, {raw, smoothed(raw, "", "a")});
}

}  // namespace ebb::program
