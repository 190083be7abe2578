// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "graph/node.h"

// Formulas whose nodes are made when somebody needs them.
//
// softmax is eight nodes, and making and tracing one takes longer than computing six numbers. A formula that nobody
// differentiates, and that was made before of operands of the same shapes and dtypes, is therefore one node of
// Op::formula whose inputs are the operands: everything that could be wrong with them was looked for the first time.
// The schedule finds the plan of such a node by the formula itself. Only where there is none, or somebody walks through
// the graph, are the formula's nodes made (expand), and the node becomes what others are, an alias of its value.
namespace ebb {

class Formula {
 public:
  using Operands = std::span<const Tensor>;  // undefined where one was left out
  using Options = std::span<const std::int64_t>;
  // Makes the nodes. What it does may depend on the operands' shapes and dtypes and on the options, and on nothing
  // else.
  using Build = Tensor (*)(Operands, Options);

  // Its words are the function, which operands there are, the options, and then the operands' kinds.
  Formula(Build build, std::span<const std::uint64_t> words, std::size_t options, const Tensor& value,
          std::uint32_t depth);
  bool has_words(std::span<const std::uint64_t> words) const;

  // Appends what a plan's key needs beside the operands, which are in it.
  void append_key(std::vector<std::uint64_t>& key) const;
  Tensor of(std::span<Node* const> operands) const;

  const DType dtype;
  const Shape shape;
  const std::uint32_t depth;  // of its longest path
  // Whether it is worth being one node: not where its plan needs more than its operands.
  mutable std::atomic<bool> folds{true};

 private:
  const Build build_;
  const std::vector<std::uint64_t> words_;
  const std::size_t options_;
};

// The formula of these operands: one node if it was made before, else its nodes. Options that are no integers are given
// by their bits.
Tensor deferred(std::span<const Tensor* const> operands, Formula::Options options, Formula::Build build);
inline Tensor deferred(std::initializer_list<const Tensor*> operands, std::initializer_list<std::int64_t> options,
                       Formula::Build build) {
  return deferred({operands.begin(), operands.size()}, {options.begin(), options.size()}, build);
}
inline std::int64_t option_of(double x) { return std::bit_cast<std::int64_t>(x); }
inline double real_of(std::int64_t option) { return std::bit_cast<double>(option); }

// Is it a formula whose nodes are not made? Needs its part of the graph.
inline bool is_folded(const Node& n) { return n.formula != nullptr && !n.evaluated.load(std::memory_order_acquire); }

// Makes the nodes of a formula; where the tensor is none, nothing is done. Without the lock.
void expand(const Tensor& t);

// ---- what graph/node.cc has for them --------------------------------------------------------------------------------

// May a formula of these be one node? Not where it is differentiated or traced, or itself a part of a formula.
bool may_be_folded(std::span<const Tensor* const> operands);
Tensor make_folded(const std::shared_ptr<const Formula>& formula, std::span<const Tensor* const> operands);

// Within its scope the nodes of a formula are made; for one that was a node before, as if they had been made then.
class MakingFormula {
 public:
  MakingFormula();
  explicit MakingFormula(const Node& before);
  ~MakingFormula();
  MakingFormula(const MakingFormula&) = delete;

 private:
  bool history_, eager_, tracing_, making_;
  std::uint64_t id_;
};

}  // namespace ebb
