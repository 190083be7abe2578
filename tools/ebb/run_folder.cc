// SPDX-License-Identifier: MIT
#include "run_folder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>

#include "core/format_error.h"
#include "event_file.h"
#include "io/json.h"
#include "io/new_file.h"

namespace ebb::program {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kLines = "metrics.jsonl";
constexpr const char* kTable = "metrics.csv";
constexpr const char* kEvents = "events.out.tfevents.ebb";
constexpr const char* kTableHead = "step,epoch,split,loss,accuracy,lr,samples_per_second,seconds,r2,bits_per_byte\n";

// All files of a run.
constexpr std::array kFiles{"config.json",
                            "checkpoint.safetensors",
                            "checkpoint.previous.safetensors",
                            "best.safetensors",
                            kLines,
                            kTable,
                            kEvents,
                            "report.html"};
constexpr const char* kNew = ".new";         // a run that is not established yet
constexpr const char* kComplete = ".ready";  // one that is, with its files being moved into the folder
constexpr const char* kManifest = "files";   // lists the files of that one

constexpr std::array kSplits{"train", "validation", "test"};
Split split_of(const std::string& name) {
  return static_cast<Split>(std::find(kSplits.begin(), kSplits.end(), name) - kSplits.begin());
}

std::string as_line(const MetricRow& r) {
  nlohmann::ordered_json j{{"step", r.step}, {"epoch", r.epoch}, {"split", name_of(r.split)}, {"loss", r.loss}};
  if (r.accuracy) j["accuracy"] = *r.accuracy;
  if (r.r2) j["r2"] = *r.r2;
  if (r.bits_per_byte) j["bits_per_byte"] = *r.bits_per_byte;
  j.update({{"lr", r.lr}, {"samples_per_second", r.samples_per_second}, {"seconds", r.seconds}, {"time", r.time}});
  return j.dump() + "\n";
}

// JSON cannot express infinities and NaN, which are written as null.
double number(const json& j, const char* key) {
  return j.at(key).is_null() ? std::numeric_limits<double>::quiet_NaN() : j.at(key).get<double>();
}

std::optional<MetricRow> from_line(const std::string& line) {
  try {
    const json j = json::parse(line);
    MetricRow r{j.at("step"), number(j, "epoch"), split_of(j.at("split")), number(j, "loss")};
    if (j.contains("accuracy")) r.accuracy = number(j, "accuracy");
    if (j.contains("r2")) r.r2 = number(j, "r2");
    if (j.contains("bits_per_byte")) r.bits_per_byte = number(j, "bits_per_byte");
    r.lr = number(j, "lr");
    r.samples_per_second = number(j, "samples_per_second");
    r.seconds = number(j, "seconds");
    r.time = number(j, "time");
    return r;
  } catch (const json::exception&) {
    return {};
  }
}

std::string as_table_row(const MetricRow& r) {
  const auto field = [](const std::optional<double>& value) { return value ? fmt::format("{:.9g}", *value) : ""; };
  return fmt::format("{},{:.6g},{},{:.9g},{},{:.9g},{:.6g},{:.6g},{},{}\n", r.step, r.epoch, name_of(r.split), r.loss,
                     field(r.accuracy), r.lr, r.samples_per_second, r.seconds, field(r.r2), field(r.bits_per_byte));
}

std::string as_events(const MetricRow& r) {
  const std::string split = name_of(r.split);
  const auto event = [&](const std::string& tag, double value) {
    return tf_record(scalar_event(r.time, r.step, tag, static_cast<float>(value)));
  };
  std::string all = event("loss/" + split, r.loss);
  if (r.accuracy) all += event("accuracy/" + split, *r.accuracy);
  if (r.r2) all += event("r2/" + split, *r.r2);
  if (r.bits_per_byte) all += event("bits_per_byte/" + split, *r.bits_per_byte);
  if (r.split == Split::train) {
    all += event("learning_rate", r.lr) + event("samples_per_second", r.samples_per_second);
  }
  return all;
}

// Files left unfinished by a killed run: NAME.xxxxxxxx.tmp.
void remove_halves(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".tmp" && entry.path().stem().extension().string().size() == 9) {
      fs::remove(entry.path(), error);
    }
  }
}

}  // namespace

const char* name_of(Split split) { return kSplits[static_cast<std::size_t>(split)]; }

RunFolder::RunFolder(fs::path folder, Use use) : folder_(std::move(folder)), inside_(folder_) {
  if (use == Use::reads || !fs::exists(folder_ / kComplete / kManifest)) return;
  // A process that has the lock moves its files itself.
  std::string holder;
  if (const std::optional<FolderLock> lock = FolderLock::take(folder_, holder)) finish_replacing();
}

void RunFolder::lock() {
  if (lock_) return;
  std::string holder;
  std::optional<FolderLock> taken = FolderLock::take(folder_, holder);
  require(taken.has_value(), Error::Kind::io,
          "{}: {} is training in this folder; wait until it has ended, or choose another --out", folder_.string(),
          holder);
  lock_.emplace(std::move(*taken));
  finish_replacing();
}

bool RunFolder::holds_run() const { return fs::exists(config()); }
bool RunFolder::holds_checkpoint() const { return fs::exists(checkpoint()); }

std::string RunFolder::in_the_way() const {
  for (const char* name : kFiles) {
    if (fs::exists(folder_ / name)) return (folder_ / name).string();
  }
  return {};
}

void RunFolder::begin(const json& config_json) {
  lock();
  std::error_code error;
  fs::remove_all(folder_ / kNew, error);  // of a run that was killed before it was established
  if (!error && !in_the_way().empty()) {
    inside_ = folder_ / kNew;
    fs::create_directories(inside_, error);
  }
  require(!error && fs::is_directory(inside_, error), Error::Kind::io, "{}: the folder cannot be made{}",
          inside_.string(), error ? " (" + error.message() + ")" : "");
  begun_ = true;
  write_file(config(), config_json.dump(2) + "\n");  // first: with it alone the run can be resumed
  keep_metrics(0);
}

// The folder with the new run is renamed, which is one step of the file system and decides which of the two runs
// exists; moving the files afterwards can be repeated.
void RunFolder::establish() {
  if (!begun_) return;
  begun_ = false;
  if (inside_ == folder_) return;
  std::string names;
  for (const char* name : kFiles) {
    if (fs::exists(inside_ / name)) names += std::string(name) + "\n";
  }
  write_file(file(kManifest), names);
  std::error_code error;
  fs::remove_all(folder_ / kComplete, error);
  fs::rename(inside_, folder_ / kComplete, error);
  require(!error, Error::Kind::io, "{}: the new run cannot take the place of the old one ({})", folder_.string(),
          error.message());
  inside_ = folder_;
  finish_replacing();
}

void RunFolder::finish_replacing() {
  const fs::path from = folder_ / kComplete;
  std::error_code error;
  if (!fs::exists(from / kManifest, error)) return;
  const std::string names = "\n" + read_file((from / kManifest).string());
  for (const char* name : kFiles) {
    if (names.find("\n" + std::string(name) + "\n") == std::string::npos) {
      fs::remove(folder_ / name, error);
    } else if (fs::exists(from / name)) {
      fs::rename(from / name, folder_ / name, error);
      require(!error, Error::Kind::io, "{}: cannot be moved to {} ({})", (from / name).string(), folder_.string(),
              error.message());
    }
  }
  fs::remove_all(from, error);
}

void RunFolder::abandon() noexcept {
  if (!begun_) return;
  begun_ = false;
  std::error_code error;
  if (inside_ != folder_) {
    fs::remove_all(inside_, error);
    inside_ = folder_;
  } else {
    for (const char* name : kFiles) fs::remove(folder_ / name, error);
  }
  lock_.reset();
}

json RunFolder::read_config() const {
  require(holds_run(), Error::Kind::io, "{}: there is no run in this folder, config.json is missing", folder_.string());
  return io::parse_json(read_file(config()), 3, config());
}

void RunFolder::keep_metrics(std::int64_t up_to_step) {
  remove_halves(inside_);
  rows_.clear();
  std::ifstream in(file(kLines));
  for (std::string line; std::getline(in, line);) {
    const std::optional<MetricRow> row = from_line(line);
    if (row && row->step <= up_to_step) rows_.push_back(*row);
  }
  in.close();
  std::string lines, table = kTableHead, events = tf_record(version_event(rows_.empty() ? 0 : rows_[0].time));
  for (const MetricRow& row : rows_) {
    lines += as_line(row);
    table += as_table_row(row);
    events += as_events(row);
  }
  write_file(file(kLines), lines);
  write_file(file(kTable), table);
  write_file(file(kEvents), events);
}

void RunFolder::add(const MetricRow& row) {
  rows_.push_back(row);
  io::append_to_file(file(kLines), as_line(row));
  io::append_to_file(file(kTable), as_table_row(row));
  io::append_to_file(file(kEvents), as_events(row));
}

void write_file(const std::string& path, const std::string& text) {
  io::NewFile file(path);
  file.write(text);
  file.commit();
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  require(in.good(), Error::Kind::io, "{}: cannot be read", path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace ebb::program
