// SPDX-License-Identifier: MIT
#include "ebb/data/tokenizer.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <unordered_map>

#include "core/format_error.h"
#include "data/merge_pairs.h"
#include "data/pre_tokens.h"
#include "io/json.h"
#include "io/new_file.h"
#include "io/weight_files.h"

namespace ebb {
namespace {

using Json = nlohmann::json;
constexpr std::int64_t kMostTokens = 1 << 24;

// GPT-2's alphabet: printable bytes represent themselves, the others are characters from U+0100 on.
std::array<char32_t, 256> byte_alphabet() {
  std::array<char32_t, 256> all{};
  char32_t further = 256;
  for (char32_t b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    all[b] = printable ? b : further++;
  }
  return all;
}

// The bytes that a token of the vocabulary represents; empty if one of its characters is not in the alphabet.
std::optional<std::string> bytes_of(const std::string& token) {
  static const std::unordered_map<char32_t, char> alphabet = [] {
    std::unordered_map<char32_t, char> map;
    for (std::size_t b = 0; b < 256; ++b) map.emplace(byte_alphabet()[b], static_cast<char>(b));
    return map;
  }();
  std::string bytes;
  for (std::size_t i = 0; i < token.size();) {
    auto c = static_cast<unsigned char>(token[i]);
    char32_t code = c;
    std::size_t length = 1;
    if (c >= 0xC0 && c < 0xE0 && i + 1 < token.size()) {  // the alphabet ends before U+0800
      code = (c & 0x1FU) << 6 | (static_cast<unsigned char>(token[i + 1]) & 0x3FU);
      length = 2;
    }
    const auto found = alphabet.find(code);
    if (found == alphabet.end()) return {};
    bytes += found->second;
    i += length;
  }
  return bytes;
}

Json member(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? Json() : *found;
}
bool is_on(const Json& object, const char* name, bool otherwise = false) {
  const Json value = member(object, name);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}
std::string type_of(const Json& object) {
  const Json type = member(object, "type");
  return type.is_string() ? type.get<std::string>() : object.dump().substr(0, 40);
}

}  // namespace

struct Tokenizer::Data {
  struct Added {
    std::string content;
    std::int64_t id;
    bool special;
  };
  std::string where, text;
  std::vector<std::optional<std::string>> spelling;  // bytes by token
  std::vector<bool> special;
  std::unordered_map<std::string, std::int32_t> by_bytes;
  std::array<std::int32_t, 256> byte_token{};  // −1: none
  std::unordered_map<std::uint64_t, PairMerge> merges;
  bool ignore_merges = false;  // a word that is a token is not split
  SplitPattern pattern = SplitPattern::whole;
  bool prefix_space = false;
  std::vector<Added> added;
  std::array<std::vector<std::size_t>, 256> added_by_first;  // indices into `added`, the longest first
  std::vector<std::int64_t> before, behind;                  // tokens added by the post-processor

  void read_added(const Json& list);
  void read_model(const Json& model);
  void read_pre_tokenizer(const Json& step);
  void read_post_processor(const Json& step);
  void set(std::int64_t id, std::string bytes);
  const Added* added_at(std::string_view text, std::size_t at) const;
  void encode_part(std::string_view part, std::unordered_map<std::string, std::vector<std::int32_t>>& known,
                   std::vector<std::int64_t>& out) const;
};

void Tokenizer::Data::set(std::int64_t id, std::string bytes) {
  require(id >= 0 && id < kMostTokens, Error::Kind::io, "{}: token {} is outside [0, {})", where, id, kMostTokens);
  const auto at = static_cast<std::size_t>(id);
  if (at >= spelling.size()) {
    spelling.resize(at + 1);
    special.resize(at + 1);
  }
  require(!spelling[at] || *spelling[at] == bytes, Error::Kind::io, "{}: token {} is both '{}' and '{}'", where, id,
          spelling[at].value_or(""), bytes);
  spelling[at] = std::move(bytes);
}

void Tokenizer::Data::read_model(const Json& model) {
  require(type_of(model) == "BPE", Error::Kind::io, "{}: the model is {}; only BPE is supported", where,
          type_of(model));
  for (const char* name : {"byte_fallback", "fuse_unk"})
    require(!is_on(model, name), Error::Kind::io, "{}: the model has {}; only byte-level BPE is supported", where,
            name);
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix", "dropout"}) {
    const Json value = member(model, name);
    require(value.is_null() || value == "" || value == 0, Error::Kind::io, "{}: the model has {} {}, not supported",
            where, name, value.dump());
  }
  ignore_merges = is_on(model, "ignore_merges");
  const Json vocabulary = member(model, "vocab"), pairs = member(model, "merges");
  require(vocabulary.is_object() && pairs.is_array(), Error::Kind::io, "{}: vocab or merges are missing", where);
  std::unordered_map<std::string, std::int32_t> ids;
  byte_token.fill(-1);
  for (const auto& [name, id] : vocabulary.items()) {
    require(id.is_number_unsigned(), Error::Kind::io, "{}: the number of token '{}' cannot be {}", where, name,
            id.dump());
    std::optional<std::string> bytes = bytes_of(name);
    set(id.get<std::int64_t>(), bytes.value_or(name));
    const auto token = id.get<std::int32_t>();
    ids.emplace(name, token);
    if (!bytes) continue;
    if (bytes->size() == 1) byte_token[static_cast<unsigned char>((*bytes)[0])] = token;
    by_bytes.emplace(*std::move(bytes), token);
  }
  for (std::size_t rank = 0; rank < pairs.size(); ++rank) {
    const Json& pair = pairs[rank];  // "a b", or ["a", "b"]
    std::string left, right;
    if (pair.is_string()) {
      const auto both = pair.get<std::string>();
      const std::size_t space = both.find(' ');
      if (space != std::string::npos) left = both.substr(0, space), right = both.substr(space + 1);
    } else if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string()) {
      left = pair[0].get<std::string>(), right = pair[1].get<std::string>();
    }
    const auto a = ids.find(left), b = ids.find(right), merged = ids.find(left + right);
    require(a != ids.end() && b != ids.end() && merged != ids.end(), Error::Kind::io,
            "{}: merge {} is {}, which is not a pair of tokens that make another", where, rank, pair.dump());
    merges.insert_or_assign(packed_pair(a->second, b->second),
                            PairMerge{static_cast<std::int32_t>(rank), merged->second});
  }
}

void Tokenizer::Data::read_added(const Json& list) {
  if (list.is_null()) return;
  require(list.is_array(), Error::Kind::io, "{}: added_tokens is not a list", where);
  for (const Json& item : list) {
    const Json content = member(item, "content"), id = member(item, "id");
    require(content.is_string() && !content.get<std::string>().empty() && id.is_number_unsigned(), Error::Kind::io,
            "{}: an added token has no content or no id: {}", where, item.dump());
    for (const char* option : {"single_word", "lstrip", "rstrip"})
      require(!is_on(item, option), Error::Kind::io, "{}: the added token {} has {}, not supported", where,
              content.dump(), option);
    added.push_back({content.get<std::string>(), id.get<std::int64_t>(), is_on(item, "special")});
    set(added.back().id, added.back().content);
    special[static_cast<std::size_t>(added.back().id)] = added.back().special;
  }
  for (std::size_t k = 0; k < added.size(); ++k)
    added_by_first[static_cast<unsigned char>(added[k].content[0])].push_back(k);
  for (auto& some : added_by_first) {
    std::stable_sort(some.begin(), some.end(),
                     [&](std::size_t a, std::size_t b) { return added[a].content.size() > added[b].content.size(); });
  }
}

void Tokenizer::Data::read_pre_tokenizer(const Json& step) {
  const std::string type = type_of(step);
  if (type == "Sequence") {
    for (const Json& inner : member(step, "pretokenizers")) read_pre_tokenizer(inner);
    return;
  }
  const auto split = [&](SplitPattern by) {
    require(pattern == SplitPattern::whole, Error::Kind::io, "{}: the pre-tokenizer splits twice, not supported",
            where);
    pattern = by;
  };
  if (type == "ByteLevel") {
    prefix_space = is_on(step, "add_prefix_space", true);
    if (is_on(step, "use_regex", true)) split(SplitPattern::gpt2);
    return;
  }
  require(type == "Split", Error::Kind::io,
          "{}: the pre-tokenizer {} is not supported; only ByteLevel, Split and a Sequence of them are", where, type);
  const Json regex = member(member(step, "pattern"), "Regex");
  const auto found = regex.is_string() ? pattern_of(regex.get<std::string>()) : std::nullopt;
  require(found.has_value() && member(step, "behavior") == "Isolated" && !is_on(step, "invert"), Error::Kind::io,
          "{}: the pre-tokenizer splits by {}; only the isolated words of GPT-2 and Llama 3 are supported", where,
          member(step, "pattern").dump());
  split(*found);
}

void Tokenizer::Data::read_post_processor(const Json& step) {
  const std::string type = type_of(step);
  if (step.is_null() || type == "ByteLevel") return;
  if (type == "Sequence") {
    for (const Json& inner : member(step, "processors")) read_post_processor(inner);
    return;
  }
  require(type == "TemplateProcessing", Error::Kind::io,
          "{}: the post-processor {} is not supported; only ByteLevel and TemplateProcessing are", where, type);
  bool seen = false;  // the text itself
  for (const Json& item : member(step, "single")) {
    const Json name = member(member(item, "SpecialToken"), "id");
    if (!name.is_string()) {
      seen = true;
      continue;
    }
    const Json ids = member(member(member(step, "special_tokens"), name.get<std::string>().c_str()), "ids");
    for (const Json& id : ids) {
      require(id.is_number_unsigned(), Error::Kind::io, "{}: the ids of {} cannot be {}", where, name.dump(),
              ids.dump());
      (seen ? behind : before).push_back(id.get<std::int64_t>());
    }
  }
}

Tokenizer Tokenizer::from_json(std::string_view text, const std::string& where) {
  auto data = std::make_shared<Data>();
  data->where = where;
  data->text = text;
  const Json all = io::parse_json(text, 12, where);
  require(all.is_object() && all.contains("model"), Error::Kind::io, "{}: this is not a tokenizer.json", where);
  const Json normalizer = member(all, "normalizer");
  require(normalizer.is_null(), Error::Kind::io, "{}: the normalizer {} is not supported", where, type_of(normalizer));
  const Json decoder = member(all, "decoder"), split = member(all, "pre_tokenizer");
  require(decoder.is_null() || type_of(decoder) == "ByteLevel", Error::Kind::io,
          "{}: the decoder {} is not supported; only ByteLevel is", where, type_of(decoder));
  require(!split.is_null(), Error::Kind::io, "{}: there is no pre-tokenizer; only byte-level BPE is supported", where);
  data->read_model(all["model"]);
  data->read_added(member(all, "added_tokens"));
  data->read_pre_tokenizer(split);
  data->read_post_processor(member(all, "post_processor"));
  Tokenizer result;
  result.data_ = std::move(data);
  return result;
}

Tokenizer Tokenizer::load(const std::string& path) {
  const bool folder = std::filesystem::is_directory(path);
  const std::string file = folder ? (std::filesystem::path(path) / "tokenizer.json").string() : path;
  return from_json(io::text_of_file(file), file);
}

void Tokenizer::save(const std::string& path) const {
  io::NewFile file(path);
  file.write(data_->text);
  file.commit();
}

const std::string& Tokenizer::json() const { return data_->text; }

std::int64_t Tokenizer::tokens() const { return static_cast<std::int64_t>(data_->spelling.size()); }

std::optional<std::int64_t> Tokenizer::token(const std::string& content) const {
  for (const Data::Added& a : data_->added) {
    if (a.content == content) return a.id;
  }
  return {};
}

const Tokenizer::Data::Added* Tokenizer::Data::added_at(std::string_view text, std::size_t at) const {
  for (std::size_t k : added_by_first[static_cast<unsigned char>(text[at])]) {
    if (text.substr(at).starts_with(added[k].content)) return &added[k];
  }
  return nullptr;
}

void Tokenizer::Data::encode_part(std::string_view part,
                                  std::unordered_map<std::string, std::vector<std::int32_t>>& known,
                                  std::vector<std::int64_t>& out) const {
  if (part.empty()) return;
  std::string with_space;
  if (prefix_space && part[0] != ' ') {
    with_space = " " + std::string(part);
    part = with_space;
  }
  const auto find = [&](std::int32_t left, std::int32_t right) {
    const auto found = merges.find(packed_pair(left, right));
    return found == merges.end() ? PairMerge{-1, -1} : found->second;
  };
  const auto encode_word = [&](const std::string& word) {
    std::vector<std::int32_t> tokens;
    if (const auto whole = by_bytes.find(word); ignore_merges && whole != by_bytes.end())
      return std::vector{whole->second};
    for (char c : word) {
      const auto b = static_cast<unsigned char>(c);
      tokens.push_back(byte_token[b]);
      require(byte_token[b] >= 0, "{}: the text has the byte {:#04x}, for which the vocabulary has no token", where, b);
    }
    merge_pairs(tokens, find);
    return tokens;
  };
  for (std::string_view word : pre_tokens(part, pattern)) {
    auto found = known.find(std::string(word));
    if (found == known.end()) found = known.emplace(word, encode_word(std::string(word))).first;
    out.insert(out.end(), found->second.begin(), found->second.end());
  }
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text, bool special_tokens) const {
  std::vector<std::int64_t> out;
  if (special_tokens) out = data_->before;
  std::unordered_map<std::string, std::vector<std::int32_t>> known;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Data::Added* added = data_->added_at(text, at);
    if (!added) {
      ++at;
      continue;
    }
    data_->encode_part(text.substr(begin, at - begin), known, out);
    out.push_back(added->id);
    begin = at += added->content.size();
  }
  data_->encode_part(text.substr(begin), known, out);
  if (special_tokens) out.insert(out.end(), data_->behind.begin(), data_->behind.end());
  return out;
}

std::string Tokenizer::decode(const std::vector<std::int64_t>& tokens, bool special_tokens) const {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int64_t token = tokens[i];
    require(token >= 0 && token < this->tokens(), Error::Kind::index,
            "Tokenizer::decode: token[{}] = {} is outside [0, {})", i, token, this->tokens());
    const auto at = static_cast<std::size_t>(token);
    // A number without a token is a row of the embedding added as padding: it has no meaning.
    if (data_->spelling[at] && (special_tokens || !data_->special[at])) text += *data_->spelling[at];
  }
  return text;
}

}  // namespace ebb
