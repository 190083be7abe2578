// SPDX-License-Identifier: MIT
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ebb/distributed/world.h"
#include "ebb/optim/gradients.h"
#include "ebb/optim/optimizer.h"

namespace ebb::distributed {

// An optimiser whose state exists once in the world (ZeRO stage 1): every element of a parameter has an owner, a rank
// that keeps its moments, updates it and sends the new value to the others. Gradients are those of DataParallel, the
// same on all ranks, or only at their owners (DataParallelOptions::to_owners). Ranks own equal numbers of elements:
// where a parameter is too large for that it is cut, unless the optimiser looks at whole parameters (LAMB, LARS, Muon).
// A step has the bits of the unsharded one.
//
//   distributed::ShardedOptimizer optimizer(make_optimizer("adamw", {{"lr", 3e-4}}));
//   optimizer.step(model, gradients);
class ShardedOptimizer {
 public:
  explicit ShardedOptimizer(std::unique_ptr<Optimizer> optimizer, const World& among = world());

  template <class Model>
  void step(Model& model, const Gradients& gradients) {
    step_all(parameters(model), buffers(model), gradients);
  }

  // As ebb::clip_by_norm, with the same bits: owners tell each other the norms of their gradients. A collective.
  template <class Model>
  ClippedGradients clip_by_norm(Model& model, const Gradients& gradients, double max_norm) const {
    return clip_all(parameters(model), gradients, max_norm);
  }

  // As Optimizer's; of one rank.
  template <class Model>
  void step_where(const Tensor& good, Model& model, const Gradients& gradients, const std::vector<Tensor>& also = {}) {
    optimizer_->step_where(good, model, gradients, also);
  }
  bool has_stepped(const Parameters& parameters, const Gradients& gradients) const {
    return world_.size() == 1 && optimizer_->has_stepped(parameters, gradients);
  }

  double lr() const { return optimizer_->lr(); }
  void set_lr(double lr) { optimizer_->set_lr(lr); }

  // The whole state, gathered from all ranks, for a checkpoint that any number of ranks can read: a collective, which
  // all ranks call. With `root` only that rank gets it, and the others get nothing.
  std::map<std::string, Tensor> state(int root = -1) const;
  // The whole state; a rank keeps what belongs to its own parameters, which it learns at its first step.
  void load_state(const std::map<std::string, Tensor>& state);

  // This rank's part of the state: elements of tensors with these names and shapes, from `from` on. Of all ranks
  // together it is the whole state, once.
  struct StatePart {
    std::string name;
    Shape shape;
    std::int64_t from = 0;
    Tensor values;
  };
  std::vector<StatePart> own_state() const;

 private:
  void step_all(const Parameters& parameters, const Parameters& buffers, const Gradients& gradients);
  ClippedGradients clip_all(const Parameters& parameters, const Gradients& gradients, double max_norm) const;
  struct Piece;
  std::vector<Piece> pieces(const Parameters& parameters) const;
  void keep_own_state(const std::vector<Piece>& own);
  Gradients with_whole_gradients(const Parameters& parameters, const Gradients& gradients) const;

  std::unique_ptr<Optimizer> optimizer_;
  World world_;
  bool trimmed_ = false;                                       // the state holds what this rank owns, and nothing else
  std::map<std::string, std::pair<std::int64_t, Shape>> cut_;  // parameters it has a part of: from where, whole shape
};

}  // namespace ebb::distributed
