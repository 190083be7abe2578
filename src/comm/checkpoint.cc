// SPDX-License-Identifier: MIT
#include "ebb/distributed/checkpoint.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <sstream>

#include "core/format_error.h"
#include "ebb/ops/shape.h"
#include "graph/node.h"
#include "io/checkpoint_layout.h"
#include "io/deflate.h"

namespace ebb::distributed {
namespace {

// Elements of a tensor of the file that this rank writes.
struct Piece {
  std::string name;
  std::int64_t from;
  Tensor values;
  std::int64_t first, last;  // of `values`
};

// Broadcasts one rank's message to all ranks; all of them go on, or all throw the same. A failure is a text that begins
// with a '!'.
class Together {
 public:
  explicit Together(const World& among) : among_(among) {}
  std::vector<std::string> operator()(const std::function<std::string()>& own) const {
    std::string text;
    try {
      text = own();
    } catch (const Error& e) {
      text = std::string("!") + e.what();
    }
    std::vector<std::string> all = among_.gather_text(text);
    for (std::size_t r = 0; r < all.size(); ++r) {
      if (all[r].starts_with('!'))
        fail(Error::Kind::io, "save_checkpoint: rank {} on {}: {}", r, among_.host(static_cast<int>(r)),
             all[r].substr(1));
    }
    return all;
  }

 private:
  const World& among_;
};

template <class Use>
void each_line(const std::string& text, Use use) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    use(words);
  }
}

// "NAME FROM BYTES CRC\n" of the pieces that this rank has written.
std::string write_pieces(const std::vector<Piece>& pieces, const std::map<std::string, std::uint64_t>& begin,
                         const std::string& temporary) {
  io::FilePart file(temporary);
  std::string text;
  for (const Piece& p : pieces) {
    const HostElements elements = host_elements(p.values);
    const std::size_t size = size_of(p.values.dtype());
    const auto bytes = elements.bytes.subspan(static_cast<std::size_t>(p.first) * size,
                                              static_cast<std::size_t>(p.last - p.first) * size);
    file.write(begin.at(p.name) + static_cast<std::uint64_t>(p.from) * size, bytes.data(), bytes.size());
    text += fmt::format("{} {} {} {}\n", p.name, p.from, bytes.size(), io::crc32_of(bytes));
  }
  file.sync();
  return text;
}

// The checksums of whole tensors from those of their pieces.
std::map<std::string, std::uint32_t> checksums_of(const io::CheckpointLayout& layout,
                                                  const std::vector<std::string>& written) {
  struct Written {
    std::uint64_t bytes;
    std::uint32_t crc;
  };
  std::map<std::string, std::map<std::int64_t, Written>> pieces;
  for (const std::string& text : written) {
    each_line(text, [&](std::istringstream& words) {
      std::string name;
      std::int64_t from = 0;
      Written w{};
      words >> name >> from >> w.bytes >> w.crc;
      if (w.bytes > 0) pieces[name][from] = w;
    });
  }
  std::map<std::string, std::uint32_t> all;
  for (const auto& e : layout.entries()) {
    std::uint32_t crc = 0;
    std::uint64_t bytes = 0;
    for (const auto& [from, w] : pieces[e.name]) {
      crc = io::crc32_joined(crc, w.crc, w.bytes);
      bytes += w.bytes;
    }
    require(bytes == e.end - e.begin, Error::Kind::io, "of '{}' the ranks have written {} bytes of {}", e.name, bytes,
            e.end - e.begin);
    all[e.name] = crc;
  }
  return all;
}

}  // namespace

void save_checkpoint(const std::string& path, const io::Checkpoint& same, const OwnParts& own,
                     const io::SaveOptions& options, const World& among) {
  if (among.size() == 1) {
    io::Checkpoint whole = same;
    for (const auto& part : own.parameters) whole.parameters.emplace(part.name, reshape(part.values, part.shape));
    for (const auto& part : own.optimizer) whole.optimizer.emplace(part.name, reshape(part.values, part.shape));
    io::save_checkpoint(path, whole, options);
    return;
  }
  const Together together(among);
  const bool first = among.rank() == 0;

  // Contents of the file, and the part that this rank writes.
  std::vector<Piece> pieces;
  std::vector<io::NewTensor> tensors;
  std::vector<Tensor> values;
  for (const auto& [name, t] : io::named_tensors(same)) {
    const std::int64_t n = t.numel();
    pieces.push_back({name, n * among.rank() / among.size(), t, 0, 0});
    pieces.back().first = pieces.back().from;
    pieces.back().last = n * (among.rank() + 1) / among.size();
    tensors.push_back({name, t.dtype(), t.shape()});
    values.push_back(t);
  }
  std::string listing;
  const auto add = [&](const char* prefix, const ShardedOptimizer::StatePart& part) {
    pieces.push_back({prefix + part.name, part.from, part.values, 0, part.values.numel()});
    listing += fmt::format("{} {}", pieces.back().name, part.values.dtype());
    for (std::int64_t size : part.shape) listing += fmt::format(" {}", size);
    listing += "\n";
    values.push_back(part.values);
  };
  for (const auto& part : own.parameters) add(io::kParametersPrefix, part);
  for (const auto& part : own.optimizer) add(io::kOptimizerPrefix, part);
  std::map<std::string, io::NewTensor> of_ranks;
  const std::vector<std::string> listings = together([&] {
    eval(values);
    return listing;
  });
  for (const std::string& text : listings) {
    each_line(text, [&](std::istringstream& words) {
      std::string name, dtype;
      words >> name >> dtype;
      std::vector<std::int64_t> sizes;
      for (std::int64_t size = 0; words >> size;) sizes.push_back(size);
      of_ranks.try_emplace(name, io::NewTensor{name, dtype_from_name(dtype), Shape(sizes)});
    });
  }
  for (const auto& [name, t] : of_ranks) tensors.push_back(t);
  std::ranges::sort(tensors, {}, &io::NewTensor::name);  // the file of one rank

  // Rank 0 makes the file; the header needs the metadata, which only rank 0 has.
  const io::CheckpointLayout layout(path, same, tensors);
  std::unique_ptr<io::NewFile> file;
  const std::string made = together([&]() -> std::string {
    if (!first) return "";
    file = std::make_unique<io::NewFile>(path);
    return fmt::format("{} {}", layout.data_begin(), file->temporary());
  })[0];
  std::size_t end = 0;
  const std::uint64_t data_begin = std::stoull(made, &end);
  std::map<std::string, std::uint64_t> begin;
  for (const auto& e : layout.entries()) begin[e.name] = data_begin + e.begin;
  const std::vector<std::string> written = together([&] { return write_pieces(pieces, begin, made.substr(end + 1)); });
  together([&]() -> std::string {
    if (!first) return "";
    file->write(layout.head(checksums_of(layout, written)));
    io::commit_checkpoint(*file, path, options);
    return "";
  });
}

}  // namespace ebb::distributed
