// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "dataset.h"
#include "ranks.h"
#include "run_config.h"
#include "run_folder.h"
#include "trainer.h"

namespace ebb::program {

// The contents of the page.
struct ReportFacts {
  RunConfig config;
  const Dataset* data = nullptr;
  const std::vector<MetricRow>* rows = nullptr;
  const Evaluation* evaluation = nullptr;                  // of the test examples
  std::vector<std::pair<std::string, std::string>> texts;  // prompts and what the model wrote
  std::int64_t parameters = 0, steps = 0, steps_per_epoch = 1;
  double seconds = 0;
  std::size_t peak_memory = 0;
  int threads = 1;
  std::vector<RankReport> ranks;  // of several processes
};

// One self-contained HTML page: no scripts, no network, light and dark.
std::string render_report(const ReportFacts& facts);

// Its parts.
std::string loss_curve(const ReportFacts& facts);
std::string accuracy_curve(const ReportFacts& facts);
std::string r2_curve(const ReportFacts& facts);
std::string scatter_plot(const ReportFacts& facts);  // numbers: predicted over actual
std::string rate_curve(const ReportFacts& facts);
std::string speed_curve(const ReportFacts& facts);
std::string confusion_matrix(const ReportFacts& facts);
std::string class_bars(const ReportFacts& facts);
std::string first_pictures(const ReportFacts& facts, std::size_t count);
std::string surest_mistakes(const ReportFacts& facts, std::size_t count);  // empty if there are none
// Drawings on paper follow the page's light or dark theme: inverted if their paper is of the other kind. Photographs
// are unchanged.
enum class Paper { none, black, white };
Paper paper_of(const Tensor& pictures);
const char* report_style();

std::string grouped(std::int64_t n);  // 12,345
std::string escaped(const std::string& text);
// A picture [channels, height, width] of bytes or numbers in [0, 1] as a data: URL of a PNG.
std::string picture_url(const Tensor& picture);

}  // namespace ebb::program
