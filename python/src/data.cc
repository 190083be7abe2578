// SPDX-License-Identifier: MIT
#include "ebb/data.h"

#include <memory>

#include "bind.h"
#include "paths.h"

namespace ebb::python {
namespace {

nb::dict images_of(const LabelledImages& set) {
  nb::dict d;
  d["images"] = set.images;
  d["labels"] = set.labels;
  if (set.coarse_labels.defined()) d["coarse_labels"] = set.coarse_labels;
  if (!set.classes.empty()) d["classes"] = set.classes;
  return d;
}

std::vector<std::string> strings_of(const std::vector<Path>& paths) {
  std::vector<std::string> names;
  for (const Path& path : paths) names.push_back(path.string());
  return names;
}

LoaderOptions loader_options(std::int64_t batch_size, bool shuffle, bool drop_last, int workers, int prefetch,
                             std::uint64_t seed) {
  return {.batch_size = batch_size,
          .shuffle = shuffle,
          .drop_last = drop_last,
          .workers = workers,
          .prefetch = prefetch,
          .seed = seed};
}

// Waiting for a worker, also for its end, must not keep it from running Python.
struct Loader {
  std::unique_ptr<DataLoader> loader;
  Loader(std::unique_ptr<DataLoader> l) : loader(std::move(l)) {}
  Loader(Loader&&) = default;
  ~Loader() {
    const nb::gil_scoped_release waiting;
    loader.reset();
  }
};
std::optional<Batch> next_batch(Loader& l) {
  const nb::gil_scoped_release waiting;
  return l.loader->next();
}
void restore(Loader& l, const LoaderPosition& position) {
  const nb::gil_scoped_release waiting;
  l.loader->restore(position);
}

CsvOptions::Header header_of(std::optional<bool> header) {
  return !header ? CsvOptions::Header::detect : *header ? CsvOptions::Header::yes : CsvOptions::Header::no;
}

void bind_loader(nb::module_& m) {
  nb::class_<Loader>(m, "DataLoader",
                     "Batches of a data set, epoch after epoch. What a batch holds is a function of the seed, the "
                     "epoch and its number, "
                     "so it does not depend on the workers.")
      .def(
          "__init__",
          [](Loader* self, const std::vector<Tensor>& columns, std::int64_t batch_size, bool shuffle, bool drop_last,
             int workers, int prefetch, std::uint64_t seed) {
            new (self) Loader(std::make_unique<DataLoader>(
                columns, loader_options(batch_size, shuffle, drop_last, workers, prefetch, seed)));
          },
          "columns"_a, "batch_size"_a = 32, nb::kw_only(), "shuffle"_a = true, "drop_last"_a = false, "workers"_a = 0,
          "prefetch"_a = 2, "seed"_a = 0, "Rows of tensors of equal length: DataLoader([images, labels], 64).")
      .def(
          "__init__",
          [](Loader* self, std::int64_t size, const DataLoader::Make& make, std::int64_t batch_size, bool shuffle,
             bool drop_last, int workers, int prefetch, std::uint64_t seed) {
            new (self) Loader(std::make_unique<DataLoader>(
                size, make, loader_options(batch_size, shuffle, drop_last, workers, prefetch, seed)));
          },
          "size"_a, "make"_a, "batch_size"_a = 32, nb::kw_only(), "shuffle"_a = true, "drop_last"_a = false,
          "workers"_a = 0, "prefetch"_a = 2, "seed"_a = 0,
          "make(items) gives the batch of these items, a list of tensors.")
      .def(
          "__len__", [](const Loader& l) { return l.loader->batches(); }, "Batches in an epoch.")
      .def_prop_ro("size", [](const Loader& l) { return l.loader->size(); })
      .def(
          "__iter__", [](nb::object self) { return self; }, "What is left of the epoch.")
      .def("__next__",
           [](Loader& loader) {
             std::optional<Batch> batch = next_batch(loader);
             if (!batch) throw nb::stop_iteration();
             return std::move(*batch);
           })
      .def("next", next_batch, "The next batch; None once at the end of each epoch.")
      .def_prop_rw(
          "position",
          [](const Loader& l) {
            const LoaderPosition p = l.loader->position();
            return std::make_tuple(p.seed, p.epoch, p.batch);
          },
          [](Loader& l, std::tuple<std::uint64_t, std::int64_t, std::int64_t> p) {
            restore(l, {.seed = std::get<0>(p), .epoch = std::get<1>(p), .batch = std::get<2>(p)});
          },
          "(seed, epoch, batch) of what comes next; set it to go back there.");
}

}  // namespace

void bind_data(const Api& api) {
  nb::module_ m = api.module.def_submodule("_data", "Data sets and the loader.");
  bind_loader(m);
  m.def(
      "make_digits",
      [](std::int64_t n, std::uint64_t seed) {
        Digits d;
        {
          const nb::gil_scoped_release drawing;
          d = make_digits(n, seed);
        }
        return std::make_pair(d.images, d.labels);
      },
      doc("make_digits"), "n"_a, "seed"_a = 0);
  m.def("read_idx", of_path(read_idx), doc("read_idx"), "path"_a);
  m.def(
      "read_cifar10", [](const std::vector<Path>& paths) { return images_of(read_cifar10(strings_of(paths))); },
      doc("read_cifar10"), "paths"_a);
  m.def(
      "read_cifar100", [](const std::vector<Path>& paths) { return images_of(read_cifar100(strings_of(paths))); },
      doc("read_cifar100"), "paths"_a);
  m.def("read_image", of_path(read_image), doc("read_image"), "path"_a, "channels"_a = 0);
  m.def(
      "read_image_folder",
      [](const Path& folder, int channels) { return images_of(read_image_folder(folder.string(), channels)); },
      doc("read_image_folder"), "folder"_a, "channels"_a = 3);
  m.def(
      "read_csv",
      [](const Path& path, std::optional<char> separator, std::optional<char> decimal, std::optional<bool> header,
         const std::vector<std::string>& columns, std::optional<std::vector<std::string>> missing, DType dtype) {
        CsvOptions o{.separator = separator.value_or('\0'),
                     .decimal = decimal.value_or('\0'),
                     .header = header_of(header),
                     .columns = columns,
                     .dtype = dtype};
        if (missing) o.missing = *missing;
        Table table = read_csv(path.string(), o);
        return std::make_pair(std::move(table.names), table.values);
      },
      doc("read_csv"), "path"_a, nb::kw_only(), "separator"_a.none() = nb::none(), "decimal"_a.none() = nb::none(),
      "header"_a.none() = nb::none(), "columns"_a = std::vector<std::string>{}, "missing"_a.none() = nb::none(),
      "dtype"_a = DTypeObject{DType::f32});
  m.def("read_text", of_path(read_text), doc("read_text"), "path"_a);
  nb::class_<BytePairs>(
      m, "BytePairs",
      "Byte-pair encoding over bytes: any text can be encoded, and decoding gives it back byte for byte.")
      .def(nb::init<>())
      .def(nb::init<std::vector<BytePairs::Merge>>(), "merges"_a)
      .def_static(
          "train", [](const std::string& text, std::int64_t tokens) { return BytePairs::train(text, tokens); },
          "text"_a, "tokens"_a, "Learns merges from a text until there are this many tokens.")
      .def_static("load", of_path(&BytePairs::load), "path"_a, "The merges that save() wrote.")
      .def(
          "save", [](const BytePairs& b, const Path& path) { b.save(path.string()); }, "path"_a,
          "Writes the merges to a file.")
      .def_prop_ro("tokens", &BytePairs::tokens)
      .def_prop_ro("merges", &BytePairs::merges)
      .def(
          "encode", [](const BytePairs& b, const std::string& text) { return b.encode(text); }, "text"_a,
          "The tokens of a text.")
      .def(
          "decode",
          [](const BytePairs& b, const std::vector<std::int64_t>& tokens) {
            const std::string text = b.decode(tokens);
            return nb::bytes(text.data(), text.size());
          },
          "tokens"_a, "The bytes of these tokens; decode() them if they are UTF-8.");
  m.def(
      "pack_sequences",
      [](const std::vector<std::vector<std::int64_t>>& sequences, std::int64_t length) {
        const PackedSequences p = pack_sequences(sequences, length);
        return tuple_of(p.tokens, p.next, p.positions);
      },
      "sequences"_a, "length"_a,
      "(tokens, next, positions) of rows in which several sequences lie one after the other, [rows, length] each. A "
      "model "
      "that is given the positions computes each sequence by itself; next is -100 in what is left of a row.");
  nb::class_<Tokenizer>(
      m, "Tokenizer",
      "A byte-level byte-pair tokenizer from Hugging Face's tokenizer.json, as GPT-2 and Llama 3 have it.")
      .def_static("load", of_path(&Tokenizer::load), "path"_a, "Reads tokenizer.json, or that of a folder.")
      .def_static(
          "from_json",
          [](const std::string& json, const std::string& where) { return Tokenizer::from_json(json, where); }, "json"_a,
          "where"_a = "tokenizer.json", "Reads the text of a tokenizer.json.")
      .def(
          "save", [](const Tokenizer& t, const Path& path) { t.save(path.string()); }, "path"_a,
          "Writes the file it was read from.")
      .def_prop_ro("tokens", &Tokenizer::tokens)
      .def("token", &Tokenizer::token, "content"_a, "The number of an added token; None where there is none.")
      .def(
          "encode",
          [](const Tokenizer& t, const std::string& text, bool special_tokens) {
            return t.encode(text, special_tokens);
          },
          "text"_a, "special_tokens"_a = false,
          "The tokens of a text; with special_tokens also what the tokenizer puts before and behind it.")
      .def(
          "decode",
          [](const Tokenizer& t, const std::vector<std::int64_t>& tokens, bool special_tokens) {
            const std::string text = t.decode(tokens, special_tokens);
            return nb::bytes(text.data(), text.size());
          },
          "tokens"_a, "special_tokens"_a = false, "The bytes of these tokens; decode() them if they are UTF-8.");
}

}  // namespace ebb::python
