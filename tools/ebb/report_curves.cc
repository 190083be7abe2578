#include <algorithm>
#include <cmath>

#include "line_plot.h"
#include "report.h"

namespace ebb::program {
namespace {

// The training or test lines as points over epochs.
template <class Value>
plot::Line line(const ReportFacts& f, bool test, const char* name, const char* style, Value value) {
  plot::Line out{name, {}, {}, style, test};
  for (const MetricRow& r : *f.rows) {
    if (r.test != test || !std::isfinite(value(r))) continue;
    out.x.push_back(r.epoch);
    out.y.push_back(value(r));
  }
  return out;
}

// An average that forgets, so that the course shows through the noise of batches.
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

// One training line alone is a dot of no length.
std::string draw(const plot::Axes& axes, std::vector<plot::Line> lines) {
  std::erase_if(lines, [](const plot::Line& l) { return l.x.empty(); });
  return plot::lines(axes, lines);
}

// A text has three plots beside each other, all else two, the less important ones flat.
void set_size(plot::Axes& axes, const ReportFacts& f, bool flat) {
  if (f.config.model == "gpt") {
    axes.width = 440;
  } else if (flat) {
    axes.height = 220;
  }
}

}  // namespace

std::string loss_curve(const ReportFacts& f) {
  const auto loss = [](const MetricRow& r) { return r.loss; };
  const plot::Line raw = line(f, false, "", "faint", loss), smooth = smoothed(raw, "training", "a");
  const plot::Line test = line(f, true, "test", "b", loss);
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
  const plot::Line raw = line(f, false, "", "faint", accuracy), smooth = smoothed(raw, "training", "a");
  const plot::Line test = line(f, true, "test", "b", accuracy);
  // From where most of the course happens: the first steps would press it against the upper edge.
  double low = least(test);
  if (smooth.y.size() > 8) low = std::fmin(low, smooth.y[smooth.y.size() / 8]);
  plot::Axes axes{.title = "Accuracy", .x_label = "epoch"};
  axes.y_from = std::max(0.0, std::floor(low * 20 - 0.5) / 20);
  axes.y_to = 1;
  axes.percent = true;
  return draw(axes, {raw, smooth, test});
}

std::string rate_curve(const ReportFacts& f) {
  plot::Axes axes{.title = "Learning rate", .x_label = "epoch"};
  axes.y_from = 0;
  set_size(axes, f, true);
  return draw(axes, {line(f, false, "", "c", [](const MetricRow& r) { return r.lr; })});
}

std::string speed_curve(const ReportFacts& f) {
  const plot::Line raw = line(f, false, "", "faint", [](const MetricRow& r) { return r.samples_per_second; });
  plot::Axes axes{.title = f.config.model == "gpt" ? "Windows of text a second" : "Examples a second",
                  .x_label = "epoch"};
  axes.y_from = 0;
  set_size(axes, f, true);
  return draw(axes, {raw, smoothed(raw, "", "a")});
}

}  // namespace ebb::program
