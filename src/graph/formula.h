// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "graph/node.h"

// Formulas whose nodes are made on demand.
//
// softmax is eight nodes, and making and tracing one takes longer than computing six numbers. A formula that is not
// differentiated, and was made before with operands of the same shapes and dtypes, is therefore a single node of
// Op::formula whose inputs are the operands: they were validated the first time. The schedule finds the plan of such a
// node by the formula itself. Only if there is none, or if code walks through the graph, are the formula's nodes made
// (expand), and the node becomes an ordinary alias of its value.
namespace ebb {

class Formula {
 public:
  using Operands = std::span<const Tensor>;  // undefined where one was left out
  using Options = std::span<const std::int64_t>;
  // Makes the nodes. May depend on the operands' shapes and dtypes and on the options, and on nothing
  // else.
  using Build = Tensor (*)(Operands, Options);

  // Its words are the function, which operands are present, the options, and then the operands' kinds.
  Formula(Build build, std::span<const std::uint64_t> words, std::size_t options, const Tensor& value,
          std::uint32_t depth);
  bool has_words(std::span<const std::uint64_t> words) const;

  // Appends what a plan's key needs in addition to the operands, which are already in it.
  void append_key(std::vector<std::uint64_t>& key) const;
  Tensor of(std::span<Node* const> operands) const;

  const DType dtype;
  const Shape shape;
  const std::uint32_t depth;  // of its longest path
  // Whether one node is worthwhile: not where its plan needs more than its operands.
  mutable std::atomic<bool> folds{true};

 private:
  const Build build_;
  const std::vector<std::uint64_t> words_;
  const std::size_t options_;
};

// The formula of these operands: one node if it was made before, else its nodes. Options that are not integers are
// passed as their bits.
Tensor deferred(std::span<const Tensor* const> operands, Formula::Options options, Formula::Build build);
inline Tensor deferred(std::initializer_list<const Tensor*> operands, std::initializer_list<std::int64_t> options,
                       Formula::Build build) {
  return deferred({operands.begin(), operands.size()}, {options.begin(), options.size()}, build);
}
inline std::int64_t option_of(double x) { return std::bit_cast<std::int64_t>(x); }
inline double real_of(std::int64_t option) { return std::bit_cast<double>(option); }

// Is it a formula whose nodes are not made yet? Needs its part of the graph.
inline bool is_folded(const Node& n) { return n.formula != nullptr && !n.evaluated.load(std::memory_order_acquire); }

// Makes the nodes of a formula; does nothing for other tensors. Called without the lock.
void expand(const Tensor& t);

// ---- for graph/node.cc ----------------------------------------------------------------------------------------------

// May a formula of these be one node? Not where it is differentiated or traced, in an Eager scope, which computes every
// operation by itself, or within a formula.
bool may_be_folded(std::span<const Tensor* const> operands);
Tensor make_folded(const std::shared_ptr<const Formula>& formula, std::span<const Tensor* const> operands);

// Within its scope the nodes of a formula are made; for one that was a single node before, as if made at that time.
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
