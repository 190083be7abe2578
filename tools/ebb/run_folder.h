#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ebb::program {

// A line of metrics: training since the line before, or a test.
struct MetricRow {
  std::int64_t step = 0;
  double epoch = 0;
  bool test = false;
  double loss = 0;
  std::optional<double> accuracy = {};  // none for text
  double lr = 0;
  double samples_per_second = 0;
  double seconds = 0;  // of training so far
  double time = 0;     // of day, since 1970
};

// What a run leaves on the disk. The metrics are there three times, for programs (metrics.jsonl), for spreadsheets
// (metrics.csv) and for TensorBoard (events.out.tfevents.ebb); the lines of JSON are what is read back.
class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& path() const { return folder_; }
  std::string file(const char* name) const { return (folder_ / name).string(); }
  std::string checkpoint() const { return file("checkpoint.safetensors"); }
  std::string config() const { return file("config.json"); }
  std::string report() const { return file("report.html"); }
  bool holds_run() const;  // something that --resume can continue
  bool holds_checkpoint() const;

  // Makes the folder and writes config.json. What a run before it left is removed.
  void begin(const nlohmann::json& config);
  nlohmann::json read_config() const;

  // The lines up to this step, as an interrupted run left them: those after it are written anew by the resumed one. A
  // last line that was cut off in the middle does not count.
  void keep_metrics(std::int64_t up_to_step);
  const std::vector<MetricRow>& metrics() const { return rows_; }
  void add(const MetricRow& row);

 private:
  std::filesystem::path folder_;
  std::vector<MetricRow> rows_;
};

// A file that is there whole or not at all.
void write_file(const std::string& path, const std::string& text);
std::string read_file(const std::string& path);

}  // namespace ebb::program
