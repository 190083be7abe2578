#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ebb/ebb.h"
#include "line_plot.h"

// The page that the digits example leaves: one file, no network, light and dark.
namespace report {

struct Epoch {
  double training_loss, test_loss, test_accuracy;
};
struct History {
  std::vector<double> step_loss;
  std::vector<Epoch> epochs;
  int steps_per_epoch = 1;
  double training_seconds = 0;
};

inline std::string base64(const std::string& bytes) {
  static const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned v = 0;
    for (std::size_t k = 0; k < 3; ++k)
      v = v << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? digits[v >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

// 28 × 28 values in [0, 1] as a bitmap of 16 grey levels in a data URL: the simplest format that every browser shows.
inline std::string bitmap(const float* pixels) {
  constexpr int kSide = 28, kRow = 16, kHeader = 14 + 40 + 16 * 4;  // four bits a pixel, rows padded to 4 bytes
  std::string b = "BM";
  auto number = [&b](unsigned v, int bytes) {
    for (int k = 0; k < bytes; ++k) b += static_cast<char>(v >> 8 * k);
  };
  number(kHeader + kSide * kRow, 4), number(0, 4), number(kHeader, 4);
  number(40, 4), number(kSide, 4), number(kSide, 4), number(1, 2), number(4, 2), number(0, 4), number(kSide * kRow, 4);
  number(2835, 4), number(2835, 4), number(16, 4), number(0, 4);
  for (unsigned k = 0; k < 16; ++k) number(k * 17 * 0x010101u, 4);
  for (int y = kSide - 1; y >= 0; --y) {  // bottom row first
    for (int x = 0; x < 2 * kRow; x += 2) {
      auto level = [&](int at) {
        return at < kSide ? static_cast<unsigned>(std::clamp(pixels[y * kSide + at], 0.0f, 1.0f) * 15 + 0.5f) : 0u;
      };
      number(level(x) << 4 | level(x + 1), 1);
    }
  }
  return "data:image/bmp;base64," + base64(b);
}

inline std::string loss_curve(const History& h) {
  const auto every = std::max<std::size_t>(1, h.step_loss.size() / 600);
  std::vector<double> epoch, raw, smooth;
  double sum = 0, weight = 0;  // an average that forgets: 2 % a step
  for (std::size_t i = 0; i < h.step_loss.size(); ++i) {
    sum = 0.98 * sum + h.step_loss[i], weight = 0.98 * weight + 1;
    if (i % every) continue;
    epoch.push_back(static_cast<double>(i) / h.steps_per_epoch);
    raw.push_back(h.step_loss[i]), smooth.push_back(sum / weight);
  }
  plot::Line test{"test", {}, {}, "b", true};
  for (std::size_t e = 0; e < h.epochs.size(); ++e) {
    test.x.push_back(static_cast<double>(e + 1)), test.y.push_back(h.epochs[e].test_loss);
  }
  const double least = *std::min_element(smooth.begin(), smooth.end());
  return plot::lines({.title = "Cross-entropy", .x_label = "epoch", .y_from = least / 3, .y_to = 3, .log_y = true},
                     {{"each batch", epoch, raw, "faint"}, {"training", epoch, smooth, "a"}, test});
}

inline std::string accuracy_curve(const History& h) {
  plot::Line line{"test", {}, {}, "b", true};
  for (std::size_t e = 0; e < h.epochs.size(); ++e) {
    line.x.push_back(static_cast<double>(e + 1)), line.y.push_back(h.epochs[e].test_accuracy);
  }
  const double lowest = *std::min_element(line.y.begin(), line.y.end());
  return plot::lines(
      {.title = "Accuracy", .x_label = "epoch", .y_from = std::floor(lowest * 50) / 50, .y_to = 1, .percent = true},
      {line});
}

inline std::string confusion_table(const std::vector<std::int64_t>& labels, const std::vector<std::int64_t>& guesses) {
  int count[10][10] = {}, most_wrong = 1;
  for (std::size_t i = 0; i < labels.size(); ++i) ++count[labels[i]][guesses[i]];
  for (int r = 0; r < 10; ++r) {
    for (int c = 0; c < 10; ++c) most_wrong = std::max(most_wrong, r == c ? 0 : count[r][c]);
  }
  std::string s =
      "<table class=\"confusion\"><tr><td></td><td colspan=\"10\" class=\"axis\">read as</td></tr><tr><th></th>";
  for (int c = 0; c < 10; ++c) s += plot::text("<th>%d</th>", c);
  for (int r = 0; r < 10; ++r) {
    s += plot::text("</tr>\n<tr><th>%d</th>", r);
    int total = 0;
    for (int c = 0; c < 10; ++c) total += count[r][c];
    for (int c = 0; c < 10; ++c) {
      const int n = count[r][c];
      // The diagonal by its share of the row, mistakes by their share of the commonest mistake.
      const double depth = r == c ? 0.25 + 0.45 * n / std::max(total, 1) : n ? 0.12 + 0.6 * n / most_wrong : 0;
      s += plot::text("<td class=\"%s\" style=\"--d:%.2f\" title=\"%d of %d images of %d read as %d\">%s</td>",
                      r == c ? "right" : "wrong", depth, n, total, r, c, n ? std::to_string(n).c_str() : "");
    }
  }
  return s + "</tr></table>\n";
}

inline std::string picture(const float* pixels, std::int64_t label, std::int64_t guess, double sure) {
  return plot::text(
      "<figure class=\"%s\"><img src=\"%s\" alt=\"a hand-drawn %ld\"><figcaption><b>%ld</b> %.0f %%%s"
      "</figcaption></figure>\n",
      label == guess ? "right" : "wrong", bitmap(pixels).c_str(), static_cast<long>(label), static_cast<long>(guess),
      100 * sure, label == guess ? "" : plot::text("<br>is a %ld", static_cast<long>(label)).c_str());
}

inline const char* style() {
  return R"(<style>
:root{color-scheme:light dark;--bg:#fff;--card:#f6f8fa;--ink:#1f2328;--soft:#57606a;--edge:#d1d9e0;
--right:26,127,55;--wrong:207,34,46;--invert:1}
@media (prefers-color-scheme:dark){:root{--bg:#0d1117;--card:#151b23;--ink:#f0f6fc;--soft:#9198a1;--edge:#30363d;
--right:63,185,80;--wrong:248,81,73;--invert:0}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif}
main{max-width:1320px;margin:0 auto;padding:40px 24px 64px}
h1{font-size:30px;line-height:1.2;margin:0 0 6px}h2{font-size:18px;margin:0 0 4px}
p{margin:0 0 16px;color:var(--soft);max-width:70ch}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:16px;margin:26px 0}
.card,section{background:var(--card);border:1px solid var(--edge);border-radius:12px}
.card{padding:16px 20px}.card b{display:block;font-size:28px;line-height:1.25;font-variant-numeric:tabular-nums}
.card span{color:var(--soft);font-size:13px}
section{padding:20px 22px;margin:0 0 20px;min-width:0}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:20px}
.two section{margin-bottom:20px}svg{display:block;width:100%;height:auto}
.images{display:flex;flex-wrap:wrap;gap:12px}
figure{margin:0;width:72px;text-align:center}
figure img{width:72px;height:72px;border-radius:8px;image-rendering:pixelated;filter:invert(var(--invert));display:block}
figcaption{font-size:12px;line-height:1.35;margin-top:4px;color:var(--soft);font-variant-numeric:tabular-nums}
figcaption b{font-size:15px;color:rgb(var(--right))}.wrong figcaption b{color:rgb(var(--wrong))}
.scroll{overflow-x:auto}
.confusion{border-spacing:3px;width:100%;max-width:640px;table-layout:fixed;font-variant-numeric:tabular-nums}
.confusion td,.confusion th{text-align:center;padding:6px 0;border-radius:6px;font-size:13px;font-weight:400}
.confusion th{color:var(--soft)}.confusion .axis{color:var(--soft);padding:0}
.confusion .right{background:rgba(var(--right),var(--d))}.confusion .wrong{background:rgba(var(--wrong),var(--d))}
footer{color:var(--soft);font-size:13px;margin-top:28px}
</style>
)";
}

inline void write(const std::filesystem::path& folder, const History& h, const ebb::Digits& test,
                  const ebb::Tensor& probabilities, std::int64_t hidden, std::int64_t training_images) {
  const auto labels = test.labels.to_vector<std::int64_t>();
  const auto guesses = ebb::argmax(probabilities, 1).to_vector<std::int64_t>();
  const auto sure = ebb::max(probabilities, 1).to_vector();
  const float* images = test.images.data<float>();
  auto show = [&](std::size_t i) { return picture(images + 784 * i, labels[i], guesses[i], sure[i]); };

  std::vector<std::size_t> wrong;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] != guesses[i]) wrong.push_back(i);
  }
  std::sort(wrong.begin(), wrong.end(), [&](std::size_t a, std::size_t b) { return sure[a] > sure[b]; });
  const Epoch& last = h.epochs.back();
  const std::string loss_svg = loss_curve(h);

  std::string s =
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Reading digits</title>"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n";
  s += style();
  s += "</head><body><main>\n<h1>Reading digits</h1>\n";
  s += plot::text(
      "<p>A network of two layers, 784 → %ld → 10, learned to read drawn digits from %ld examples. "
      "Everything here was computed and drawn by Ebb.</p>\n",
      static_cast<long>(hidden), static_cast<long>(training_images));
  auto card = [&s](const std::string& number, const std::string& words) {
    s += "<div class=\"card\"><b>" + number + "</b><span>" + words + "</span></div>\n";
  };
  s += "<div class=\"cards\">";
  card(plot::text("%.2f %%", 100 * last.test_accuracy),
       plot::text("of %zu unseen digits are read right", labels.size()));
  card(std::to_string(wrong.size()), "are read wrongly");
  card(plot::text("%.4f", last.test_loss), "cross-entropy on the test set");
  card(plot::text("%.1f s", h.training_seconds),
       plot::text("for %zu epochs of %d steps", h.epochs.size(), h.steps_per_epoch));
  s += "</div>\n<div class=\"two\"><section>" + loss_svg + "</section><section>" + accuracy_curve(h) +
       "</section></div>\n";

  s += "<div class=\"two\"><section><h2>What is taken for what</h2><p>A row for each digit drawn, a column for each "
       "answer. "
       "Mistakes are red.</p><div class=\"scroll\">";
  s += confusion_table(labels, guesses) +
       "</div></section>\n<section><h2>A first look at the test set</h2>"
       "<p>The answer, and how sure the network is of it.</p><div class=\"images\">";
  for (std::size_t i = 0; i < std::min<std::size_t>(28, labels.size()); ++i) s += show(i);
  s += "</div></section></div>\n";
  if (!wrong.empty()) {
    s += "<section><h2>Its surest mistakes</h2><p>Would you have read them right?</p><div class=\"images\">";
    for (std::size_t i = 0; i < std::min<std::size_t>(28, wrong.size()); ++i) s += show(wrong[i]);
    s += "</div></section>\n";
  }
  s += "<footer>Written by the example <code>digits</code> of Ebb.</footer></main></body></html>\n";

  std::filesystem::create_directories(folder);
  std::ofstream(folder / "report.html") << s;
  std::ofstream(folder / "loss.svg") << loss_svg;
  std::ofstream(folder / "accuracy.svg") << accuracy_curve(h);
}

}  // namespace report
