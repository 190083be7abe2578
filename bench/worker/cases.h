// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ebb/ebb.h"

// The measured cases, as a table: a case is its inputs by size and its formula. The comparison asks this program for
// the table, so that a case is described once; its peers know a case by its name.
namespace bench {

enum class Size { tiny, small, medium, large };
const char* name(Size size);
Size size_from_name(const std::string& name);

// Shapes that most cases have: elements in one line, rows of classes.
ebb::Shape elements(Size size);
ebb::Shape rows(Size size);

// How an input's elements are drawn.
enum class Kind {
  normal,   // mean 0, variance 1
  weights,  // normal, a twentieth as wide
  fan_in,   // normal with variance 1/(all sizes but the first): a layer's first weights
  ones,
  zeros,
  around,       // normal, around `limit`
  uniform,      // in [0.05, 0.95)
  positive,     // in [0.5, 2)
  sign,         // −1 or 1
  binary,       // 0 or 1
  mask,         // false or true
  classes,      // i64 in [0, limit)
  labels,       // i64 in [1, limit): 0 stands for blank
  length,       // i64, all of them `limit`
  some_labels,  // i64 rows of distinct classes below limit, ended by −1
  probs,        // rows that sum to one
  log_probs,    // their logarithms
};

struct Input {
  std::string name;
  Kind kind;
  ebb::Shape shape;
  bool differentiate = false;
  std::int64_t limit = 0;
};

using Tensors = std::vector<ebb::Tensor>;

// A model and its optimiser, trained on one batch.
class TrainingRun {
 public:
  virtual ~TrainingRun() = default;
  virtual ebb::Tensor step() = 0;   // forward, loss, backward, optimiser: the loss, computed
  virtual Tensors gradients() = 0;  // of all parameters, without a step
};

struct Case {
  std::string suite, name;
  std::function<std::vector<Input>(Size)> inputs;
  std::function<ebb::Tensor(const Tensors&)> loss;  // one number
  std::function<Tensors(const Tensors&)> compute;   // what is asked for instead of a loss and its gradients
  // The model that is trained, one step per call, from these inputs.
  std::function<std::unique_ptr<TrainingRun>(Size, const Tensors&)> training;
  std::string same_bits_as;  // the training whose numbers this one must repeat to the last bit
  // The same result made by hand in C++ (the target a formula is held against), and what that is called.
  std::function<Tensors(const Tensors&, bool with_gradient)> by_hand;
  std::string by_hand_name;
  bool memory_bound = false;    // reads its inputs and writes its gradients once: the share of copy bandwidth counts
  bool gradients_only = false;  // there is no point in the value alone
  bool f32_only = false;        // halves make no sense here
  std::vector<Size> sizes = {Size::small, Size::medium, Size::large};
  std::int64_t nodes = 0;  // operations in the formula, where the time of one is the question
};

const std::vector<Case>& all_cases();
const Case& find_case(const std::string& suite, const std::string& name);

std::vector<Case> engine_cases();
std::vector<Case> product_cases();
std::vector<Case> loss_cases();
std::vector<Case> custom_cases();
std::vector<Case> linear_cases();
std::vector<Case> autograd_cases();
std::vector<Case> train_cases();

// The inputs of a case, the same numbers for the same (case, size, dtype) everywhere.
Tensors make_inputs(const std::vector<Input>& inputs, ebb::DType dtype);

// Value, or value and gradients, not computed yet: [loss, gradients of the inputs that ask for one...], or what
// `compute` gives.
Tensors build(const Case& c, const std::vector<Input>& inputs, const Tensors& tensors, bool with_gradient);

}  // namespace bench
