#include "dataset.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "core/format_error.h"
#include "ebb/data/digits.h"
#include "ebb/data/readers.h"
#include "ebb/ops.h"
#include "ebb/random.h"
#include "sample_text.h"

namespace ebb::program {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kTalesLength = 300'000;

// Labelled examples as they are read, before they are divided.
struct Labelled {
  Tensor inputs, labels;
  std::vector<std::string> classes;
};

std::vector<std::string> numbers_as_names(std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t k = 0; k < count; ++k) names.push_back(std::to_string(k));
  return names;
}

std::int64_t largest(const Tensor& labels) { return labels.numel() == 0 ? -1 : max(labels).item<std::int64_t>(); }

// The first of these files that exists in the folder, plain or packed.
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

// The last column, or the one that is named, is the class.
Labelled read_table(const std::string& path, const std::string& target) {
  const Table table = read_csv(path);
  const auto columns = static_cast<std::int64_t>(table.names.size());
  require(columns >= 2, Error::Kind::io, "{}: one column is the class, so there must be at least two, not {}", path,
          columns);
  const auto found = target.empty() ? table.names.end() - 1 : std::find(table.names.begin(), table.names.end(), target);
  require(found != table.names.end(), "--target {}: {} has no such column", target, path);
  const std::int64_t at = found - table.names.begin();
  const std::vector<double> classes = table.values.slice(1, at, at + 1).to_vector();
  std::map<double, std::int64_t> number;
  for (std::size_t row = 0; row < classes.size(); ++row) {
    require(std::floor(classes[row]) == classes[row], Error::Kind::io,
            "{}: row {}, column {}: a class is a whole number, not {}", path, row + 1, *found, classes[row]);
    number.emplace(classes[row], 0);
  }
  require(number.size() <= 1000, Error::Kind::io, "{}: column {} has {} different values, too many for classes", path,
          *found, number.size());
  Labelled all;
  for (auto& [value, index] : number) {
    index = static_cast<std::int64_t>(all.classes.size());
    all.classes.push_back(fmt::format("{:.0f}", value));
  }
  std::vector<std::int64_t> labels;
  for (double c : classes) labels.push_back(number.at(c));
  all.labels = from_data(labels, {static_cast<std::int64_t>(labels.size())});
  std::vector<Tensor> others;
  if (at > 0) others.push_back(table.values.slice(1, 0, at));
  if (at + 1 < columns) others.push_back(table.values.slice(1, at + 1, columns));
  all.inputs = cat(others, 1).eval();
  require(all.inputs.numel() == 0 || isfinite(sum(all.inputs)).item<bool>(), Error::Kind::io,
          "{}: some values are missing or not finite; fill them first", path);
  return all;
}

std::string detect(const std::string& path) {
  require(fs::exists(path), Error::Kind::io,
          "{}: there is no such file or folder (digits and tales are generated without one)", path);
  if (!fs::is_directory(path)) return fs::path(path).extension() == ".csv" ? "csv" : "text";
  if (!images_file(path, false).empty() || !images_file(path, true).empty()) return "idx";
  if (fs::exists(fs::path(path) / "data_batch_1.bin") || fs::exists(fs::path(path) / "train.bin")) return "cifar";
  return "images";
}

Labelled read_labelled(const std::string& format, const std::string& path, bool test, const std::string& target) {
  if (format == "csv") return read_table(path, target);
  if (format == "cifar") return read_cifar(path, test);
  if (format == "images") return from_pictures(read_image_folder(path));
  const std::string images = images_file(path, test), labels = labels_file(path, test);
  require(!images.empty() && !labels.empty(), Error::Kind::io, "{}: there are no IDX files of {} pictures and labels",
          path, test ? "test" : "training");
  return read_idx_pair(images, labels);
}

// A path of test examples inside the data's own folder, if there is one.
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

// Labels as the model numbers the same names.
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

// A part of the rows for the test, chosen by the seed: files are often sorted by class.
void divide(const Labelled& read, const RunConfig& c, Dataset& into) {
  const std::int64_t n = read.inputs.size(0);
  const auto test = std::max<std::int64_t>(1, std::llround(c.test_fraction * static_cast<double>(n)));
  require(n > test, Error::Kind::io, "{}: {} examples are too few to train and test on", c.data, n);
  const RandomState before = random_state();
  manual_seed(c.seed ^ 0x7e57);
  const Tensor order = argsort(rand({n}, DType::f64)).eval();
  random_state() = before;
  const auto part = [&](std::int64_t from, std::int64_t to) {
    const Tensor rows = order.slice(0, from, to);
    Examples e{index_select(read.inputs, 0, rows), index_select(read.labels, 0, rows)};
    eval({e.inputs, e.targets});
    return e;
  };
  into.test = part(0, test);
  into.train = part(test, n);
}

Examples digits(std::int64_t count, std::uint64_t seed) {
  const Digits d = make_digits(count, seed);
  return {reshape(d.images, {count, 1, 28, 28}), d.labels};
}

std::string text_of(const std::string& path) {
  const Tensor bytes = read_text(path);
  return {reinterpret_cast<const char*>(bytes.data<std::uint8_t>()), static_cast<std::size_t>(bytes.numel())};
}

// The end of the text is for the test.
struct Texts {
  std::string train, test;
};
Texts load_texts(const RunConfig& c) {
  Texts t;
  t.train = c.data == "tales" ? make_tales(kTalesLength, c.seed) : text_of(c.data);
  if (!c.test_data.empty()) {
    t.test = text_of(c.test_data);
  } else {
    const auto kept = static_cast<std::size_t>(static_cast<double>(t.train.size()) * (1 - c.test_fraction));
    t.test = t.train.substr(kept);
    t.train.resize(kept);
  }
  return t;
}

bool is_text(const RunConfig& c) { return c.model == "gpt"; }

std::string format_of(const RunConfig& c) {
  const std::string format = c.format == "auto" ? detect(c.data) : c.format;
  require(format != "text", "--data {}: this is text, which only --model gpt is trained on", c.data);
  require(format != "csv" || c.model == "mlp", "--data {}: rows of numbers are for --model mlp, not {}", c.data,
          c.model);
  return format;
}

}  // namespace

Examples windows(const std::vector<std::int64_t>& tokens, std::int64_t context, const std::string& what) {
  const std::int64_t n = (static_cast<std::int64_t>(tokens.size()) - 1) / context;
  require(n >= 1, "{} has {} tokens, at least --context {} and one more are needed", what, tokens.size(), context);
  return {from_data(tokens.data(), {n, context}), from_data(tokens.data() + 1, {n, context})};
}

nlohmann::json to_json(const DataFacts& facts) {
  return {{"example", std::vector<std::int64_t>(facts.example.begin(), facts.example.end())},
          {"classes", facts.classes},
          {"merges", facts.pairs.merges()}};
}

DataFacts facts_from_json(const nlohmann::json& json, const std::string& where) {
  try {
    return {Shape(json.at("example").get<std::vector<std::int64_t>>()),
            json.at("classes").get<std::vector<std::string>>(),
            BytePairs(json.at("merges").get<std::vector<BytePairs::Merge>>())};
  } catch (const nlohmann::json::exception& e) {
    fail(Error::Kind::io, "{}: what is said about the data cannot be read ({})", where, e.what());
  }
}

Dataset load_dataset(const RunConfig& c) {
  Dataset all;
  if (is_text(c)) {
    require(c.data != "digits", "--data digits: pictures are not for --model gpt");
    const Texts texts = load_texts(c);
    if (c.tokens > 256) all.facts.pairs = BytePairs::train(texts.train, c.tokens);
    all.train = windows(all.facts.pairs.encode(texts.train), c.context, "the training text");
    all.test = windows(all.facts.pairs.encode(texts.test), c.context, "the test text");
    all.facts.example = {c.context};
    all.description = fmt::format("{} characters of {}", texts.train.size() + texts.test.size(),
                                  c.data == "tales" ? "generated tales" : c.data);
    return all;
  }
  require(c.data != "tales", "--data tales: text is only for --model gpt");
  if (c.data == "digits") {
    require(c.test_data.empty(), "--test-data {}: generated digits are tested on generated ones", c.test_data);
    all.train = digits(c.train_count, 2 * c.seed);
    all.test = digits(c.test_count, 2 * c.seed + 1);
    all.facts = {{1, 28, 28}, numbers_as_names(10), {}};
    all.description = fmt::format("{} generated digits", c.train_count + c.test_count);
    return all;
  }
  const std::string format = format_of(c);
  const Labelled read = read_labelled(format, train_path(format, c.data), false, c.target);
  require(read.inputs.size(0) > 0, Error::Kind::io, "{}: there are no examples", c.data);
  all.facts = {read.inputs.shape().without(0), read.classes, {}};
  if (c.test_data.empty() && own_test_path(format, c.data).empty()) {
    divide(read, c, all);
  } else {
    all.train = {read.inputs, read.labels};
    all.test = load_test_examples(c, all.facts);
  }
  all.description = fmt::format("{} examples of {}", all.train.size() + all.test.size(), c.data);
  return all;
}

Examples load_test_examples(const RunConfig& c, const DataFacts& facts) {
  if (is_text(c)) return windows(facts.pairs.encode(load_texts(c).test), c.context, "the test text");
  if (c.data == "digits") return digits(c.test_count, 2 * c.seed + 1);
  const std::string format = format_of(c);
  const std::string own = own_test_path(format, c.test_data.empty() ? c.data : c.test_data);
  const std::string path = own.empty() ? c.test_data : own;
  Examples test;
  if (path.empty()) {
    const Labelled read = read_labelled(format, train_path(format, c.data), false, c.target);
    Dataset divided;
    divide({read.inputs, renumber(read, facts.classes, c.data), {}}, c, divided);
    test = divided.test;
  } else {
    const Labelled read = read_labelled(format, path, format == "idx" || format == "cifar", c.target);
    test = {read.inputs, renumber(read, facts.classes, path)};
  }
  require(test.size() > 0, Error::Kind::io, "{}: there are no examples to test on", path.empty() ? c.data : path);
  require(test.inputs.shape().without(0) == facts.example, Error::Kind::io,
          "{}: examples to test on have shape {}, the model knows {}", path.empty() ? c.data : path,
          test.inputs.shape().without(0), facts.example);
  return test;
}

}  // namespace ebb::program
