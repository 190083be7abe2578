// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "dataset.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "core/format_error.h"
#include "data/picture.h"
#include "ebb/data/digits.h"
#include "ebb/data/readers.h"
#include "ebb/ops.h"
#include "ebb/random.h"
#include "io/text_file.h"

namespace ebb::program {
namespace {

namespace fs = std::filesystem;

// Examples as read, before they are divided.
struct Labelled {
  Tensor inputs, labels;
  std::vector<std::string> classes;
  TableFacts table = {};
  std::vector<std::string> notes = {};
};

std::vector<std::string> numbers_as_names(std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t k = 0; k < count; ++k) names.push_back(std::to_string(k));
  return names;
}

std::int64_t largest(const Tensor& labels) { return labels.numel() == 0 ? -1 : max(labels).item<std::int64_t>(); }

// The first of these files that exists in the folder, plain or compressed.
std::string find_file(const fs::path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    for (const char* end : {"", ".gz"}) {
      if (fs::exists(folder / (std::string(name) + end))) return (folder / (std::string(name) + end)).string();
    }
  }
  return {};
}

std::string images_file(const fs::path& folder, bool test) {
  return test ? find_file(folder, {"t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte", "test-images-idx3-ubyte"})
              : find_file(folder, {"train-images-idx3-ubyte", "train-images.idx3-ubyte"});
}
std::string labels_file(const fs::path& folder, bool test) {
  return test ? find_file(folder, {"t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte", "test-labels-idx1-ubyte"})
              : find_file(folder, {"train-labels-idx1-ubyte", "train-labels.idx1-ubyte"});
}

Labelled read_idx_pair(const std::string& images, const std::string& labels) {
  Labelled all{read_idx(images), cast(read_idx(labels), DType::i64), {}};
  require(all.inputs.rank() == 3 && all.labels.rank() == 1 && all.inputs.size(0) == all.labels.size(0), Error::Kind::io,
          "{}: expected pictures [n, height, width] and as many labels in {}, got {} and {}", images, labels,
          all.inputs.shape(), all.labels.shape());
  all.inputs = unsqueeze(all.inputs, 1);
  all.classes = numbers_as_names(largest(all.labels) + 1);
  return all;
}

Labelled from_pictures(LabelledImages read) {
  Labelled all{read.images, read.labels, std::move(read.classes)};
  if (all.classes.empty()) all.classes = numbers_as_names(largest(all.labels) + 1);
  return all;
}

std::vector<std::string> cifar_files(const fs::path& folder, bool test) {
  if (fs::exists(folder / "train.bin")) return {(folder / (test ? "test.bin" : "train.bin")).string()};
  if (test) return {(folder / "test_batch.bin").string()};
  std::vector<std::string> files;
  for (int k = 1; k <= 5; ++k) {
    const fs::path file = folder / fmt::format("data_batch_{}.bin", k);
    if (fs::exists(file)) files.push_back(file.string());
  }
  return files;
}

Labelled read_cifar(const fs::path& folder, bool test) {
  const std::vector<std::string> files = cifar_files(folder, test);
  return from_pictures(fs::exists(folder / "train.bin") ? read_cifar100(files) : read_cifar10(files));
}

// ---- pictures -------------------------------------------------------------------------------------------------------

// The networks of this program are for small pictures.
constexpr std::int64_t kLargestSide = 128, kUsualSide = 64;

// All the pictures [n, channels, height, width]. A height of 0 keeps their size, unless they differ in it or are too
// large.
Tensor read_pictures(const std::vector<std::string>& files, std::int64_t channels, std::int64_t height,
                     std::int64_t width) {
  std::vector<std::uint8_t> pixels;
  const bool keep = height == 0;
  for (const std::string& file : files) {
    Picture picture = read_picture(file);
    if (keep) {
      if (pixels.empty()) height = picture.height, width = picture.width;
      const bool same = picture.height == height && picture.width == width;
      if (!same || std::max(height, width) > kLargestSide)
        return read_pictures(files, channels, kUsualSide, kUsualSide);
    }
    append_planes(resized(picture, height, width), static_cast<std::size_t>(channels), pixels);
  }
  return from_data(pixels, {static_cast<std::int64_t>(files.size()), channels, height, width});
}

// FOLDER/CLASS/*.jpg and so on.
Labelled read_folder(const std::string& folder, std::int64_t channels, std::int64_t height, std::int64_t width) {
  Labelled all;
  std::vector<std::string> files;
  std::vector<std::int64_t> labels;
  for (const std::string& kind : folders_in(folder)) {
    const std::vector<std::string> inside = picture_files(kind);
    files.insert(files.end(), inside.begin(), inside.end());
    labels.insert(labels.end(), inside.size(), static_cast<std::int64_t>(all.classes.size()));
    if (inside.empty()) continue;
    all.classes.push_back(fs::path(kind).filename().string());
    require(io::find_invalid_utf8(all.classes.back()) == std::string::npos, Error::Kind::io,
            "{}: the name of the class is not UTF-8; rename the folder", kind);
  }
  require(!files.empty(), Error::Kind::io,
          "{}: there are neither pictures in FOLDER/CLASS/*.png, .jpg, .ppm or .pgm nor files of MNIST or CIFAR",
          folder);
  all.inputs = read_pictures(files, channels, height, width);
  all.labels = from_data(labels, {static_cast<std::int64_t>(labels.size())});
  return all;
}

// ---- which reader ---------------------------------------------------------------------------------------------------

// people.csv.gz is a table, too.
bool is_table(const std::string& path) {
  const fs::path plain = fs::path(path).extension() == ".gz" ? fs::path(path).stem() : fs::path(path);
  std::string suffix = plain.extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  return suffix == ".csv" || suffix == ".tsv" || suffix == ".tab";
}

// A setting that only tables have, as it was given.
std::string table_setting(const RunConfig& c) {
  if (!c.target.empty()) return "--target " + c.target;
  if (!c.ignore.empty()) return fmt::format("--ignore {}", fmt::join(c.ignore, ","));
  if (!c.missing.empty()) return fmt::format("--missing {}", fmt::join(c.missing, ","));
  return c.task == "regression" ? "--task regression" : "";
}

void require_table_settings_for_table(const RunConfig& c, bool table) {
  require(table || table_setting(c).empty(), "{} is for CSV files, not for {}", table_setting(c), c.data);
}

// A run reads its data more than once: to survey a table, to test, to go on.
void require_readable_again(const std::string& path) {
  require(!fs::exists(path) || fs::is_directory(path) || fs::is_regular_file(path), Error::Kind::io,
          "{}: a pipe or device is read only once; save the data in a file, which can be read again", path);
}

// A file with columns to name is a table, whatever its own name is.
std::string detect(const RunConfig& c, const std::string& path) {
  require(path != "-", Error::Kind::io,
          "--data -: only `ebb predict` reads the standard input; save the data in a file, which can be read again");
  require(fs::exists(path), Error::Kind::io,
          "{}: there is no such file or folder (digits and tales are generated without one)", path);
  if (!fs::is_directory(path)) return is_table(path) || !table_setting(c).empty() ? "csv" : "text";
  if (!images_file(path, false).empty() || !images_file(path, true).empty()) return "idx";
  if (fs::exists(fs::path(path) / "data_batch_1.bin") || fs::exists(fs::path(path) / "train.bin")) return "cifar";
  return "images";
}

// A file or folder to train on.
Labelled read_labelled(const std::string& format, const std::string& path, const RunConfig& c) {
  if (format == "csv") {
    TableSurvey survey = survey_table(path, {c.target, c.ignore, c.task, c.missing});
    const TableRows rows = read_rows(path, survey.facts, survey.classes, {.targets = true});
    return {rows.inputs, rows.targets, std::move(survey.classes), std::move(survey.facts), std::move(survey.notes)};
  }
  if (format == "cifar") return read_cifar(path, false);
  if (format == "images") {
    const bool one = c.resize.size() == 1;
    return c.resize.empty() ? read_folder(path, 3, 0, 0) : read_folder(path, 3, c.resize[0], c.resize[one ? 0 : 1]);
  }
  const std::string images = images_file(path, false), labels = labels_file(path, false);
  require(!images.empty() && !labels.empty(), Error::Kind::io,
          "{}: there are no IDX files of training pictures and labels", path);
  return read_idx_pair(images, labels);
}

// The same for a model with known columns and classes.
Labelled read_again(const std::string& path, const DataFacts& known) {
  const TableRows rows = read_rows(path, known.table, known.classes, {.targets = true});
  return {rows.inputs, rows.targets, known.classes, known.table};
}

// The path of test examples inside the data's own folder, if any.
std::string own_test_path(const std::string& format, const std::string& path) {
  if (format == "idx") return images_file(path, true).empty() ? "" : path;
  if (format == "cifar") return fs::exists(cifar_files(path, true).front()) ? path : "";
  if (format == "images") return fs::is_directory(fs::path(path) / "test") ? (fs::path(path) / "test").string() : "";
  return {};
}
std::string train_path(const std::string& format, const std::string& path) {
  const fs::path inside = fs::path(path) / "train";
  return format == "images" && fs::is_directory(inside) ? inside.string() : path;
}

// Labels numbered as the model numbers the same names.
Tensor renumber(const Labelled& read, const std::vector<std::string>& classes, const std::string& path) {
  if (read.classes == classes) return read.labels;
  std::vector<std::int64_t> number;
  for (const std::string& name : read.classes) {
    const auto found = std::find(classes.begin(), classes.end(), name);
    require(found != classes.end(), Error::Kind::io, "{}: class '{}' is not one of the {} the model knows", path, name,
            classes.size());
    number.push_back(found - classes.begin());
  }
  return index_select(from_data(number, {static_cast<std::int64_t>(number.size())}), 0, read.labels).eval();
}

// A file or folder for a model whose data facts are known.
Examples read_known(const std::string& format, const std::string& path, const RunConfig& c, const DataFacts& facts,
                    bool test) {
  if (format == "csv") {
    const TableRows rows = read_rows(path, facts.table, facts.classes, {.targets = true, .target = c.target});
    return {rows.inputs, rows.targets};
  }
  Labelled read;
  if (format == "cifar") {
    read = read_cifar(path, test);
  } else if (format == "images") {
    require(facts.example.rank() == 3, Error::Kind::io, "{}: these are pictures, the model knows examples of shape {}",
            path, facts.example);
    read = read_folder(path, facts.example[0], facts.example[1], facts.example[2]);
  } else {
    const std::string images = images_file(path, test), labels = labels_file(path, test);
    require(!images.empty() && !labels.empty(), Error::Kind::io, "{}: there are no IDX files of {} pictures and labels",
            path, test ? "test" : "training");
    read = read_idx_pair(images, labels);
  }
  return {read.inputs, renumber(read, facts.classes, path)};
}

// Splits the examples randomly by the seed: files are often sorted by class. `first` gets the share, `rest` the
// others.
void divide(const Examples& all, double share, std::uint64_t seed, const std::string& path, Examples& first,
            Examples& rest) {
  const std::int64_t n = all.size();
  const auto some = std::max<std::int64_t>(1, std::llround(share * static_cast<double>(n)));
  require(n > some, Error::Kind::io, "{}: {} examples are too few to train and test on", path, n);
  const RandomState before = random_state();
  manual_seed(seed);
  const Tensor order = argsort(rand({n}, DType::f64)).eval();
  random_state() = before;
  const auto part = [&](std::int64_t from, std::int64_t to) {
    const Tensor rows = order.slice(0, from, to);
    Examples e{index_select(all.inputs, 0, rows), index_select(all.targets, 0, rows)};
    eval({e.inputs, e.targets});
    return e;
  };
  first = part(0, some);
  rest = part(some, n);
}

constexpr std::uint64_t kTestSeed = 0x7e57, kValidationSeed = 0x7a11d;

// Tables of fewer rows are used entirely for training: a tenth of them would decide by chance. Classes, whose labels
// are smoothed, need validation less than numbers.
constexpr std::int64_t kFewestNumbersToHoldBack = 100, kFewestClassesToHoldBack = 1000;

// The end of a text is held back, of all else a part chosen by the seed.
void hold_back_validation(const RunConfig& c, Dataset& data) {
  const std::int64_t fewest = data.facts.task == Task::numbers ? kFewestNumbersToHoldBack : kFewestClassesToHoldBack;
  const bool unasked = !data.facts.table.columns.empty() && data.train.size() >= fewest;
  const double share = c.validation_fraction >= 0 ? c.validation_fraction : unasked ? kUsualValidation : 0;
  if (share == 0) return;
  if (data.facts.task == Task::text) {
    const std::int64_t n = data.train.size();
    const auto some = std::max<std::int64_t>(1, std::llround(share * static_cast<double>(n)));
    require(n > some, Error::Kind::io, "{}: {} windows of text are too few to hold some back", c.data, n);
    const Examples all = data.train;
    data.train = {all.inputs.slice(0, 0, n - some), all.targets.slice(0, 0, n - some)};
    data.validation = {all.inputs.slice(0, n - some, n), all.targets.slice(0, n - some, n)};
    return;
  }
  const Examples all = data.train;
  divide(all, share, c.seed ^ kValidationSeed, c.data, data.validation, data.train);
}

// ---- rows: what is missing, and their scale -------------------------------------------------------------------------

Tensor by_input(const std::vector<double>& values) {
  return tensor_from(values, {static_cast<std::int64_t>(values.size())}, DType::f64);
}

// Rows as the network reads them. Subtracted in f64: of 1.7e12 + 100·i, a time in milliseconds, f32 would leave
// nothing.
Tensor scaled(const Tensor& rows, const DataFacts& facts) {
  if (facts.fill.empty()) return rows;
  Tensor x = where(isnan(rows), by_input(facts.fill), rows);
  if (!facts.centre.empty()) x = (x - by_input(facts.centre)) * by_input(facts.scale);
  return cast(x, DType::f32).eval();
}

Examples prepared(const Examples& e, const DataFacts& facts) {
  Examples out{scaled(e.inputs, facts), e.targets};
  if (facts.task == Task::numbers) {
    out.targets = cast((e.targets - facts.target_mean) / facts.target_scale, DType::f32).eval();
  }
  return out;
}

// Learns the facts from the training examples only.
void learn_facts(const Examples& train, DataFacts& facts) {
  if (facts.table.columns.empty()) return;
  const Tensor known = logical_not(isnan(train.inputs));
  const Tensor count = maximum(sum(cast(known, DType::f64), {0}), 1.0);
  const Tensor mean_of_known = sum(where(known, train.inputs, 0.0), {0}) / count;
  const Tensor filled = where(known, train.inputs, mean_of_known);
  const Tensor deviation = stddev(filled, Axes{0}, false, 0), size = max(abs(filled), Axes{0});
  // An input that never changes, except for the rounding of its mean, taught the network nothing: it stays 0.
  const Tensor scale = where(deviation > 1e-12 * size, 1.0 / deviation, 0.0);
  eval({mean_of_known, scale});
  facts.fill = facts.centre = mean_of_known.to_vector();
  facts.scale = scale.to_vector();
  if (facts.task != Task::numbers) return;
  facts.target_mean = mean(train.targets).item();
  const double spread = stddev(train.targets, Axes{0}, false, 0).item();
  facts.target_scale = spread > 0 ? spread : 1;
}

// Columns whose values differ in the file but are equal in f32 even after centring: a few outliers leave no digits to
// them.
void note_lost_digits(const Examples& rows, const DataFacts& facts, std::vector<std::string>& notes) {
  const std::int64_t n = std::min<std::int64_t>(rows.size(), 4096);
  const Tensor some = rows.inputs.slice(0, 0, n);
  const std::vector<double> exact = t(some).to_vector(), rounded = t(scaled(some, facts)).to_vector();
  std::int64_t input = 0;
  for (const CsvColumn& c : facts.table.columns) {
    std::set<double> before, after;
    for (std::int64_t k = input * n; c.words.empty() && k < (input + 1) * n; ++k) {
      const auto at = static_cast<std::size_t>(k);
      if (std::isnan(exact[at])) continue;
      before.insert(exact[at]);
      after.insert(rounded[at]);
    }
    if (50 * after.size() < 49 * before.size()) {
      notes.push_back(
          fmt::format("column {} ({}): {} of {} different values are equal in f32, which has 7 digits; take a "
                      "logarithm, or cut off "
                      "what lies far from the rest",
                      c.position + 1, c.name, before.size() - after.size(), before.size()));
    }
    input += c.inputs();
  }
}

// ---- generated digits --------------------------------------------------------------------------------------

Examples digits(std::int64_t count, std::uint64_t seed) {
  const Digits d = make_digits(count, seed);
  return {reshape(d.images, {count, 1, 28, 28}), d.labels};
}

std::string format_of_data(const RunConfig& c, const std::string& path) {
  const std::string format = c.format == "auto" ? detect(c, path) : c.format;
  require(format != "text", "--data {}: this is text, which only --model gpt and llama are trained on", path);
  require(format != "csv" || c.model == "mlp", "--data {}: rows of a table are for --model mlp, not {}", path, c.model);
  return format;
}

}  // namespace

nlohmann::json to_json(const DataFacts& facts) {
  return {{"task", static_cast<int>(facts.task)},
          {"example", std::vector<std::int64_t>(facts.example.begin(), facts.example.end())},
          {"classes", facts.classes},
          {"merges", to_json(facts.vocabulary)},
          {"model_config", facts.model_config},
          {"table", to_json(facts.table)},
          {"fill", facts.fill},
          {"centre", facts.centre},
          {"scale", facts.scale},
          {"target_mean", facts.target_mean},
          {"target_scale", facts.target_scale}};
}

DataFacts facts_from_json(const nlohmann::json& json, const std::string& where) {
  try {
    const int task = json.at("task").get<int>();
    require(task >= 0 && task <= 2, Error::Kind::io, "{}: there is no task {}", where, task);
    return {static_cast<Task>(task),
            Shape(json.at("example").get<std::vector<std::int64_t>>()),
            json.at("classes").get<std::vector<std::string>>(),
            vocabulary_from_json(json.at("merges"), where),
            json.value("model_config", std::string()),
            table_from_json(json.at("table")),
            json.at("fill").get<std::vector<double>>(),
            json.value("centre", std::vector<double>{}),
            json.value("scale", std::vector<double>{}),
            json.at("target_mean").get<double>(),
            json.at("target_scale").get<double>()};
  } catch (const nlohmann::json::exception& e) {
    fail(Error::Kind::io, "{}: what is said about the data cannot be read ({})", where, e.what());
  }
}

std::string model_for_data(const RunConfig& c) {
  if (c.data.empty() || c.data == "digits") return "cnn";
  if (c.data == "tales") return "gpt";
  require_readable_again(c.data);
  const std::string format = c.format == "auto" ? detect(c, c.data) : c.format;
  return format == "text" ? "gpt" : format == "csv" ? "mlp" : "cnn";
}

Dataset load_dataset(const RunConfig& c, const DataFacts* known) {
  for (const std::string& path : {c.data, c.test_data}) require_readable_again(path);
  Dataset all;
  if (is_text(c)) {
    if (!known) require_table_settings_for_table(c, false);
    all = load_text_dataset(c, known);
    hold_back_validation(c, all);
    return all;
  }
  require(c.data != "tales", "--data tales: text is only for --model gpt and llama");
  all.facts.task = Task::classes;
  if (c.data == "digits") {
    require(c.test_data.empty(), "--test-data {}: generated digits are tested on generated ones", c.test_data);
    if (!known) require_table_settings_for_table(c, false);
    all.train = digits(c.train_count, 2 * c.seed);
    all.test = digits(c.test_count, 2 * c.seed + 1);
    all.facts.example = {1, 28, 28};
    all.facts.classes = numbers_as_names(10);
    all.description = fmt::format("{} generated digits", c.train_count + c.test_count);
    hold_back_validation(c, all);
    return all;
  }
  const std::string format = format_of_data(c, c.data);
  if (!known) require_table_settings_for_table(c, format == "csv");
  Labelled read =
      known && format == "csv" ? read_again(c.data, *known) : read_labelled(format, train_path(format, c.data), c);
  require(read.inputs.size(0) > 0, Error::Kind::io, "{}: there are no examples", c.data);
  all.facts.task = read.classes.empty() ? Task::numbers : Task::classes;
  all.facts.example = read.inputs.shape().without(0);
  all.facts.classes = std::move(read.classes);
  all.facts.table = std::move(read.table);
  const bool own_test = !c.test_data.empty() || !own_test_path(format, c.data).empty();
  if (own_test) {
    all.train = {read.inputs, read.labels};
  } else {
    divide({read.inputs, read.labels}, c.test_fraction, c.seed ^ kTestSeed, c.data, all.test, all.train);
  }
  hold_back_validation(c, all);
  all.notes = std::move(read.notes);
  if (known && format == "csv") {
    all.facts = *known;
  } else if (format == "csv") {
    learn_facts(all.train, all.facts);
    note_lost_digits(all.train, all.facts, all.notes);
  }
  all.test = own_test ? load_test_examples(c, all.facts) : prepared(all.test, all.facts);
  all.train = prepared(all.train, all.facts);
  if (all.validation.size() > 0) all.validation = prepared(all.validation, all.facts);
  const std::int64_t own_count = all.train.size() + all.validation.size() + (c.test_data.empty() ? all.test.size() : 0);
  all.description = fmt::format("{} examples of {}", own_count, c.data);
  if (!c.test_data.empty()) all.description += fmt::format(" and {} of {}", all.test.size(), c.test_data);
  return all;
}

Examples load_test_examples(const RunConfig& c, const DataFacts& facts) {
  if (is_text(c)) return load_test_text(c, facts);
  if (c.data == "digits") return digits(c.test_count, 2 * c.seed + 1);
  const std::string named = c.test_data.empty() ? c.data : c.test_data;
  const std::string format = format_of_data(c, named);
  const std::string own = own_test_path(format, named);
  const std::string path = own.empty() ? named : own;
  Examples test;
  if (own.empty() && c.test_data.empty()) {
    Examples rest;
    divide(read_known(format, train_path(format, c.data), c, facts, false), c.test_fraction, c.seed ^ kTestSeed, c.data,
           test, rest);
  } else {
    test = read_known(format, path, c, facts, format == "idx" || format == "cifar");
  }
  require(test.size() > 0, Error::Kind::io, "{}: there are no examples to test on", path);
  require(test.inputs.shape().without(0) == facts.example, Error::Kind::io,
          "{}: examples to test on have shape {}, the model knows {}", path, test.inputs.shape().without(0),
          facts.example);
  return prepared(test, facts);
}

Unlabelled load_unlabelled(const std::string& path, const DataFacts& facts, const std::vector<std::string>& keep) {
  require(facts.task != Task::text, "predict: this network writes text; `ebb generate` lets it");
  require(fs::exists(path), Error::Kind::io, "{}: there is no such file or folder", path);
  Unlabelled all;
  if (!facts.table.columns.empty()) {
    require(!fs::is_directory(path), Error::Kind::io,
            "{}: the network was trained on rows of a CSV file, this is a folder", path);
    TableRows rows = read_rows(path, facts.table, facts.classes, {.keep = keep});
    all.inputs = scaled(rows.inputs, facts);
    for (std::int64_t k = 0; k < all.inputs.size(0); ++k) all.names.push_back(std::to_string(k + 1));
    all.kept_names = std::move(rows.kept_names);
    all.kept = std::move(rows.kept);
    all.notes = std::move(rows.notes);
    return all;
  }
  require(keep.empty(), "--keep {}: pictures have no columns", fmt::join(keep, ","));
  all.pictures = true;
  if (fs::is_directory(path)) {
    all.names = picture_files(path);
    for (const std::string& folder : folders_in(path)) {
      const std::vector<std::string> inside = picture_files(folder);
      all.names.insert(all.names.end(), inside.begin(), inside.end());
    }
  } else {
    all.names = {path};
  }
  require(!all.names.empty(), Error::Kind::io, "{}: there are no pictures (.png, .jpg, .ppm, .pgm) in this folder",
          path);
  all.inputs = read_pictures(all.names, facts.example[0], facts.example[1], facts.example[2]);
  return all;
}

}  // namespace ebb::program
