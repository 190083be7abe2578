// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "ebb/tensor.h"
#include "run_config.h"
#include "table.h"
#include "text_dataset.h"

namespace ebb::program {

// Examples and their targets; text as windows of tokens.
struct Examples {
  Tensor inputs;   // pictures [n, channels, height, width] (u8, or f32 in [0, 1]), rows [n, inputs]; tokens [n, T],
                   // with positions [n, 2, T] where they are packed;
                   // rows f32, shifted and scaled by the facts
  Tensor targets;  // classes i64 [n]; numbers f32 [n], shifted and scaled by the facts; the tokens that follow [n, T],
                   // −100 where there is none
  std::int64_t size() const { return inputs.defined() ? inputs.size(0) : 0; }
};

// The kind of prediction that a network is trained for.
enum class Task { classes, numbers, text };

// A model's knowledge of its data; a checkpoint holds it, so that the model can be used without the data.
struct DataFacts {
  Task task = Task::text;
  Shape example;                             // of one input: [channels, height, width] or [inputs]; text: [context]
  std::vector<std::string> classes;          // names, in the order of their numbers
  Vocabulary vocabulary;                     // text
  std::string model_config;                  // text: the config.json of the model that was read (--init)
  TableFacts table;                          // rows of a CSV file
  std::vector<double> fill;                  // rows: replaces a missing number, by input
  std::vector<double> centre, scale;         // rows: (number − centre)·scale is what the network reads, by input; of
                                             // older models empty: the network itself has them
  double target_mean = 0, target_scale = 1;  // numbers: target = mean + scale · network output
  std::int64_t class_count() const { return static_cast<std::int64_t>(classes.size()); }
  std::int64_t outputs() const { return task == Task::numbers ? 1 : class_count(); }
};
nlohmann::json to_json(const DataFacts& facts);
DataFacts facts_from_json(const nlohmann::json& json, const std::string& where);

struct Dataset {
  Examples train, test;
  Examples validation;  // a part of the training examples, if --validation-fraction is given
  DataFacts facts;
  std::string description;         // "24000 generated digits"
  std::vector<std::string> notes;  // sentences about the data for its owner
};

// The default network for this data.
std::string model_for_data(const RunConfig& config);

// The data that `config` names. Throws an Error for an unsuitable path. A model that continues training passes the
// facts it `knows`: the same columns, classes and scales.
Dataset load_dataset(const RunConfig& config, const DataFacts* known = nullptr);

// Only the test examples, for a model trained before: classes get their earlier numbers, and text is cut into the
// tokens the model knows.
Examples load_test_examples(const RunConfig& config, const DataFacts& facts);

// Inputs without targets, and the name of each: the row's number, or the picture's file.
struct Unlabelled {
  Tensor inputs;
  std::vector<std::string> names;
  bool pictures = false;
  std::vector<std::string> kept_names;         // of columns that are passed on,
  std::vector<std::vector<std::string>> kept;  // and their fields, by row
  std::vector<std::string> notes;
};
Unlabelled load_unlabelled(const std::string& path, const DataFacts& facts, const std::vector<std::string>& keep = {});

}  // namespace ebb::program
