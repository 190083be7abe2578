#include "run_folder.h"

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
constexpr const char* kTableHead = "step,epoch,split,loss,accuracy,lr,samples_per_second,seconds\n";

std::string as_line(const MetricRow& r) {
  nlohmann::ordered_json j{
      {"step", r.step}, {"epoch", r.epoch}, {"split", r.test ? "test" : "train"}, {"loss", r.loss}};
  if (r.accuracy) j["accuracy"] = *r.accuracy;
  j.update({{"lr", r.lr}, {"samples_per_second", r.samples_per_second}, {"seconds", r.seconds}, {"time", r.time}});
  return j.dump() + "\n";
}

// JSON has no word for infinities and NaN, which are written as null.
double number(const json& j, const char* key) {
  return j.at(key).is_null() ? std::numeric_limits<double>::quiet_NaN() : j.at(key).get<double>();
}

std::optional<MetricRow> from_line(const std::string& line) {
  try {
    const json j = json::parse(line);
    MetricRow r{j.at("step"), number(j, "epoch"), j.at("split") == "test", number(j, "loss")};
    if (j.contains("accuracy")) r.accuracy = number(j, "accuracy");
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
  return fmt::format("{},{:.6g},{},{:.9g},{},{:.9g},{:.6g},{:.6g}\n", r.step, r.epoch, r.test ? "test" : "train",
                     r.loss, r.accuracy ? fmt::format("{:.9g}", *r.accuracy) : "", r.lr, r.samples_per_second,
                     r.seconds);
}

std::string as_events(const MetricRow& r) {
  const std::string split = r.test ? "test" : "train";
  const auto event = [&](const std::string& tag, double value) {
    return tf_record(scalar_event(r.time, r.step, tag, static_cast<float>(value)));
  };
  std::string all = event("loss/" + split, r.loss);
  if (r.accuracy) all += event("accuracy/" + split, *r.accuracy);
  if (!r.test) all += event("learning_rate", r.lr) + event("samples_per_second", r.samples_per_second);
  return all;
}

void append(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::app);
  out << bytes << std::flush;
  require(out.good(), Error::Kind::io, "{}: cannot be written", path);
}

// Files that a killed run had not finished: NAME.xxxxxxxx.tmp.
void remove_halves(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".tmp" && entry.path().stem().extension().string().size() == 9) {
      fs::remove(entry.path(), error);
    }
  }
}

}  // namespace

bool RunFolder::holds_run() const { return fs::exists(config()); }
bool RunFolder::holds_checkpoint() const { return fs::exists(checkpoint()); }

void RunFolder::begin(const json& config_json) {
  std::error_code error;
  fs::create_directories(folder_, error);
  require(!error, Error::Kind::io, "{}: the folder cannot be made ({})", folder_.string(), error.message());
  // The configuration goes first: without it nothing here counts as a run.
  for (const std::string& old : {config(), checkpoint(), file(kLines), file(kTable), file(kEvents), report()}) {
    fs::remove(old, error);
  }
  rows_.clear();
  keep_metrics(0);
  write_file(config(), config_json.dump(2) + "\n");
}

json RunFolder::read_config() const {
  require(holds_run(), Error::Kind::io, "{}: there is no run in this folder, config.json is missing", folder_.string());
  return io::parse_json(read_file(config()), 3, config());
}

void RunFolder::keep_metrics(std::int64_t up_to_step) {
  remove_halves(folder_);
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
  append(file(kLines), as_line(row));
  append(file(kTable), as_table_row(row));
  append(file(kEvents), as_events(row));
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
