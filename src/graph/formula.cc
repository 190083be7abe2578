// SPDX-License-Identifier: MIT
#include "graph/formula.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "graph/lock.h"

namespace ebb {
namespace {

constexpr std::size_t kMostOperands = 8, kMostWords = 96;
constexpr std::size_t kBeforeOptions = 2;  // words: the function, and which operands there are

// The words that identify a formula. If there are too many, the formula's nodes are made immediately.
class Words {
 public:
  void add(std::uint64_t word) {
    if (count_ < words_.size()) words_[count_] = word;
    ++count_;
  }
  // Adds shape, dtype and device; whether operands go together is checked when nodes are made.
  void add(const Tensor& t) {
    if (!t.defined()) return add(std::uint64_t{0});
    const Node& n = *t.node();
    const auto device = static_cast<std::uint64_t>(n.device.kind) << 8 | n.device.index;
    add(std::uint64_t{1} | static_cast<std::uint64_t>(n.homeless) << 1 | static_cast<std::uint64_t>(n.dtype) << 8 |
        static_cast<std::uint64_t>(n.shape.rank()) << 16 | (n.homeless ? 0 : device) << 32);
    for (const std::int64_t size : n.shape) add(static_cast<std::uint64_t>(size));
  }
  bool fit() const { return count_ <= words_.size(); }
  std::span<const std::uint64_t> all() const { return {words_.data(), count_}; }
  std::size_t hash() const {
    std::uint64_t h = count_;
    for (std::size_t k = 0; k < count_; ++k) h = (h ^ words_[k]) * 0xD6E8FEB86659FD93u, h ^= h >> 32;
    return h;
  }

 private:
  std::array<std::uint64_t, kMostWords> words_;
  std::size_t count_ = 0;
};

// Formulas that this thread has made before, each in the slot of its hash.
class Known {
 public:
  std::shared_ptr<const Formula>& at(std::size_t hash) { return places_[hash % places_.size()]; }

 private:
  std::array<std::shared_ptr<const Formula>, 256> places_;
};
struct KnownOfThread {
  Known* known;
  bool closed;  // static destructors may compute after the thread's variables are gone
};
constinit thread_local KnownOfThread known_of_thread{nullptr, false};
struct CloseKnown {
  ~CloseKnown() {
    known_of_thread.closed = true;
    delete std::exchange(known_of_thread.known, nullptr);
  }
};
Known* known_formulas() {
  KnownOfThread& of = known_of_thread;
  if (of.known || of.closed) return of.known;
  thread_local CloseKnown close;
  return of.known = new Known;
}

std::uint32_t unevaluated_depth(const Node& n) { return n.evaluated.load(std::memory_order_acquire) ? 0 : n.depth; }

// A node's formula may be one of an operand, or a leaf: then there is nothing to defer.
bool is_worth_a_node(const Tensor& value, std::span<const Tensor> operands) {
  if (value.evaluated() || info(value.node()->op).cls == OpClass::leaf) return false;
  return std::none_of(operands.begin(), operands.end(), [&](const Tensor& t) { return t.node() == value.node(); });
}

}  // namespace

Formula::Formula(Build build, std::span<const std::uint64_t> words, std::size_t options, const Tensor& value,
                 std::uint32_t d)
    : dtype(value.dtype()),
      shape(value.shape()),
      depth(d),
      build_(build),
      words_(words.begin(), words.end()),
      options_(options) {}

bool Formula::has_words(std::span<const std::uint64_t> words) const {
  return std::equal(words.begin(), words.end(), words_.begin(), words_.end());
}

void Formula::append_key(std::vector<std::uint64_t>& key) const {
  key.insert(key.end(), words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(kBeforeOptions + options_));
}

Tensor Formula::of(std::span<Node* const> operands) const {
  std::array<Tensor, kMostOperands> all;
  std::size_t next = 0, count = 0;
  for (std::uint64_t given = words_[1]; next < operands.size(); ++count, given >>= 1) {
    if (given & 1) all[count] = Tensor(operands[next++]);
  }
  std::vector<std::int64_t> options;
  for (std::size_t k = 0; k < options_; ++k) options.push_back(static_cast<std::int64_t>(words_[kBeforeOptions + k]));
  return build_({all.data(), all.size()}, options);
}

Tensor deferred(std::span<const Tensor* const> operands, Formula::Options options, Formula::Build build) {
  std::array<Tensor, kMostOperands> all;
  const auto make = [&] {
    for (std::size_t k = 0; k < operands.size(); ++k) all[k] = *operands[k];
    const MakingFormula scope;
    return build(all, options);
  };
  Known* const known = may_be_folded(operands) ? known_formulas() : nullptr;
  if (!known) return make();
  std::uint64_t given = 0;
  for (std::size_t k = 0; k < operands.size(); ++k) given |= std::uint64_t{operands[k]->defined()} << k;
  Words words;
  words.add(std::bit_cast<std::uint64_t>(build));
  words.add(given);
  for (const std::int64_t option : options) words.add(static_cast<std::uint64_t>(option));
  for (const Tensor* t : operands) words.add(*t);
  if (!words.fit()) return make();
  std::shared_ptr<const Formula>& place = known->at(words.hash());
  if (place && place->has_words(words.all()))
    return place->folds.load(std::memory_order_relaxed) ? make_folded(place, operands) : make();
  const Tensor value = make();
  if (!is_worth_a_node(value, all)) return value;
  std::uint32_t below = 0;
  for (const Tensor& t : all) below = std::max(below, t.defined() ? unevaluated_depth(*t.node()) : 0);
  const std::uint32_t depth = value.node()->depth;
  place =
      std::make_shared<const Formula>(build, words.all(), options.size(), value, std::max(depth, below + 1) - below);
  return value;
}

void expand(const Tensor& t) {
  std::shared_ptr<const Formula> formula;
  std::vector<Tensor> operands;
  std::vector<Node*> nodes;
  {
    GraphLock lock(t.node());
    if (!is_folded(*t.node())) return;
    formula = t.node()->formula;
    for (Node* n : t.node()->inputs) {
      operands.emplace_back(n);
      nodes.push_back(n);
    }
  }
  Tensor value;
  {
    const MakingFormula scope(*t.node());
    value = formula->of(nodes);
  }
  std::vector<Forgotten> forgotten;  // released after the lock
  forgotten.reserve(1);
  GraphLock lock(t.node());
  if (!is_folded(*t.node())) return;  // another thread was faster
  Node& n = *t.node();
  forgotten.push_back(forget_inputs(&n));
  n.inputs.reserve(1);
  retain(value.node());
  n.inputs.push_back(value.node());
  n.formula = nullptr;
}

}  // namespace ebb
