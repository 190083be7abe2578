// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "folder_lock.h"

namespace ebb::program {

enum class Split { train, validation, test };
const char* name_of(Split split);

// A line of metrics: training since the previous line, or results on examples it does not train on.
struct MetricRow {
  std::int64_t step = 0;
  double epoch = 0;
  Split split = Split::train;
  double loss = 0;
  std::optional<double> accuracy = {};       // of classes
  std::optional<double> r2 = {};             // of numbers: the explained share of their variance
  std::optional<double> bits_per_byte = {};  // of text
  double lr = 0;
  double samples_per_second = 0;
  double seconds = 0;  // of training so far
  double time = 0;     // of day, since 1970
};

// The files of a run. The metrics are stored three times, for programs (metrics.jsonl), for spreadsheets (metrics.csv)
// and for TensorBoard (events.out.tfevents.ebb); the lines of JSON are read back.
//
// A run begun in another run's folder is written next to it and replaces it all at once when its first checkpoint is
// saved: until then the other one is unchanged, whatever happens.
class RunFolder {
 public:
  // reads: nothing is written, for ranks that do not lead.
  enum class Use { writes, reads };
  explicit RunFolder(std::filesystem::path folder, Use use = Use::writes);
  // During the lifetime of this object no other process trains in the folder. Throws an Error if one already does.
  void lock();

  const std::filesystem::path& path() const { return folder_; }
  std::string file(const char* name) const { return (inside_ / name).string(); }
  std::string checkpoint() const { return file("checkpoint.safetensors"); }
  std::string best() const { return file("best.safetensors"); }  // with the lowest loss on held-out examples
  std::string config() const { return file("config.json"); }
  std::string report() const { return file("report.html"); }
  bool holds_run() const;  // a run that --resume can continue
  bool holds_checkpoint() const;
  std::string in_the_way() const;  // a file that a new run would replace; empty if there is none

  // Makes the folder, locks it and writes config.json.
  void begin(const nlohmann::json& config);
  // The new run replaces the previous one.
  void establish();
  // Removes a run that was begun and not established.
  void abandon() noexcept;
  nlohmann::json read_config() const;

  // Keeps the lines up to this step, as an interrupted run left them: those after it are written again by the resumed
  // one. An incomplete last line is dropped.
  void keep_metrics(std::int64_t up_to_step);
  const std::vector<MetricRow>& metrics() const { return rows_; }
  void add(const MetricRow& row);

 private:
  void finish_replacing();

  std::filesystem::path folder_, inside_;  // inside_: where files are written, which differs until a run is established
  bool begun_ = false;
  std::optional<FolderLock> lock_;
  std::vector<MetricRow> rows_;
};

// Writes a file that appears completely or not at all.
void write_file(const std::string& path, const std::string& text);
std::string read_file(const std::string& path);

}  // namespace ebb::program
