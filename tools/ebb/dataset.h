#pragma once
#include <string>
#include <vector>

#include "ebb/data/text.h"
#include "ebb/tensor.h"
#include "run_config.h"

namespace ebb::program {

// Examples and what they are; text as windows of tokens.
struct Examples {
  Tensor inputs;   // pictures [n, channels, height, width] (u8, or f32 in [0, 1]), rows [n, features]; tokens [n, T]
  Tensor targets;  // classes i64 [n]; the tokens that follow [n, T]
  std::int64_t size() const { return inputs.size(0); }
};

// What a model must know about its data; a checkpoint holds it, so that the model can be used without the data.
struct DataFacts {
  Shape example;                     // of one input: [channels, height, width] or [features]; text: [context]
  std::vector<std::string> classes;  // names, in the order of their numbers; empty for text
  BytePairs pairs;                   // text
  std::int64_t class_count() const { return static_cast<std::int64_t>(classes.size()); }
};
nlohmann::json to_json(const DataFacts& facts);
DataFacts facts_from_json(const nlohmann::json& json, const std::string& where);

struct Dataset {
  Examples train, test;
  DataFacts facts;
  std::string description;  // "24000 generated digits"
};

// What `config` names. A path that cannot be what it should be is an Error.
Dataset load_dataset(const RunConfig& config);

// Only the examples to test on, for a model that was trained before: classes get the numbers they had then, and text is
// cut into the tokens it knew.
Examples load_test_examples(const RunConfig& config, const DataFacts& facts);

// Windows of `context` tokens beside each other, and the same one token later.
Examples windows(const std::vector<std::int64_t>& tokens, std::int64_t context, const std::string& what);

}  // namespace ebb::program
