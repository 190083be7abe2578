// SPDX-License-Identifier: MIT
#include "ebb/distributed/sharded_optimizer.h"

#include <algorithm>
#include <sstream>

#include "comm/division.h"
#include "comm/group.h"
#include "comm/ordered_sum.h"
#include "core/format_error.h"
#include "ebb/distributed/collectives.h"
#include "ebb/ops.h"
#include "ops/build.h"
#include "ops/piece_norms.h"

namespace ebb::distributed {
namespace {

// "NAME DTYPE FROM COUNT SIZE SIZE ...\n" of every part; names have no spaces.
std::string listing(const std::vector<ShardedOptimizer::StatePart>& parts) {
  std::string text;
  for (const ShardedOptimizer::StatePart& p : parts) {
    text += fmt::format("{} {} {} {}", p.name, p.values.dtype(), p.from, p.values.numel());
    for (std::int64_t size : p.shape) text += fmt::format(" {}", size);
    text += "\n";
  }
  return text;
}

Tensor elements(const Tensor& whole, std::int64_t from, std::int64_t count) {
  return narrow(reshape(whole, {whole.numel()}), 0, from, count);
}

// Tensors assembled on every rank from the parts of their owners. `mine` are this rank's parts; where a rank has a
// whole tensor it keeps that one, and the entry here is undefined.
std::vector<Tensor> put_together(const std::vector<comm::Parts>& parts,
                                 const std::vector<std::pair<Shape, DType>>& list, std::vector<Tensor> mine,
                                 const Tensor& any, const char* label, const World& world) {
  auto share = std::make_shared<comm::ListShare>();
  std::vector<std::pair<Shape, DType>> outputs;
  for (std::size_t k = 0; k < list.size(); ++k) {
    const auto size = static_cast<std::int64_t>(size_of(list[k].second));
    for (const comm::OwnedPart& p : parts[k]) share->segments.push_back({k, p.from * size, p.to * size, p.owner});
    const bool own = parts[k].size() == 1 && parts[k][0].owner == world.rank();
    share->output.push_back(own ? -1 : static_cast<int>(outputs.size()));
    if (!own) outputs.push_back(list[k]);
  }
  if (mine.empty()) mine.push_back(any);  // ignored, except for its device
  const std::vector<Tensor> received = world.group().collective(share, label, list, mine, outputs);
  std::vector<Tensor> all(list.size());
  for (std::size_t k = 0; k < list.size(); ++k) {
    if (share->output[k] >= 0) all[k] = received[static_cast<std::size_t>(share->output[k])];
  }
  return all;
}

// A model as an optimiser sees it: evaluates the buffers together with the parameters.
struct PartsOfModel {
  const Parameters &parameters_, &buffers_;
};
const Parameters& parameters(PartsOfModel& m) { return m.parameters_; }
const Parameters& buffers(PartsOfModel& m) { return m.buffers_; }

}  // namespace

ShardedOptimizer::ShardedOptimizer(std::unique_ptr<Optimizer> optimizer, const World& among)
    : optimizer_(std::move(optimizer)), world_(among) {
  require(optimizer_ != nullptr, "ShardedOptimizer: there is no optimiser");
}

// A parameter, its division among ranks, and this rank's part.
struct ShardedOptimizer::Piece {
  Parameter parameter;
  comm::Parts parts;
  const comm::OwnedPart* mine(int rank) const { return comm::part_of(parts, rank); }
};

std::vector<ShardedOptimizer::Piece> ShardedOptimizer::pieces(const Parameters& parameters) const {
  std::vector<comm::Parts> parts = comm::divide(parameters, world_.size());
  std::vector<Piece> all;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (!optimizer_->elementwise()) parts[p] = {{comm::main_owner(parts[p]), 0, parameters[p].tensor->numel()}};
    all.push_back({parameters[p], std::move(parts[p])});
  }
  return all;
}

void ShardedOptimizer::keep_own_state(const std::vector<Piece>& own) {
  if (std::exchange(trimmed_, true)) return;
  cut_.clear();
  std::map<std::string, const Piece*> named;
  for (const Piece& p : own) named.emplace(p.parameter.name, &p);
  std::map<std::string, Tensor> kept;
  for (const auto& [key, value] : optimizer_->state()) {
    const std::size_t slash = key.rfind('/');
    const auto found = named.find(key.substr(0, slash));
    if (found == named.end()) continue;
    const comm::OwnedPart& part = *found->second->mine(world_.rank());
    const bool whole = key.substr(slash + 1) == "step" || part.size() == value.numel();
    kept.emplace(
        key,
        whole ? value : reshape(elements(value, part.from, part.size()), comm::part_shape(value.shape(), part)).eval());
  }
  for (const Piece& p : own) {
    const Tensor& t = *p.parameter.tensor;
    const comm::OwnedPart& part = *p.mine(world_.rank());
    if (part.size() < t.numel()) cut_.emplace(p.parameter.name, std::pair(part.from, t.shape()));
  }
  optimizer_->load_state(kept);
}

// Optimisers that look at whole parameters need whole gradients.
Gradients ShardedOptimizer::with_whole_gradients(const Parameters& parameters, const Gradients& gradients) const {
  if (optimizer_->elementwise()) return gradients;
  const std::vector<comm::Parts> parts = comm::divide(parameters, world_.size());
  std::map<const Node*, std::size_t> place;
  for (std::size_t p = 0; p < parameters.size(); ++p) place.emplace(parameters[p].tensor->node(), p);
  std::vector<std::pair<Tensor, Tensor>> all = gradients.all();
  std::vector<std::size_t> cut;
  std::vector<comm::Parts> of_cut;
  std::vector<std::pair<Shape, DType>> list;
  std::vector<Tensor> mine;
  for (std::size_t k = 0; k < all.size(); ++k) {
    const Tensor& g = all[k].second;
    const auto found = place.find(all[k].first.node());
    if (found == place.end() || parts[found->second].size() == 1 || !comm::has_part_only(g)) continue;
    cut.push_back(k);
    of_cut.push_back(parts[found->second]);
    list.emplace_back(g.shape(), g.dtype());
    if (const comm::OwnedPart* p = comm::part_of(of_cut.back(), world_.rank()))
      mine.push_back(comm::gradient_part(g, *p));
  }
  if (cut.empty()) return gradients;
  const std::vector<Tensor> whole =
      put_together(of_cut, list, mine, stop_gradient(all[0].first), "ShardedOptimizer", world_);
  for (std::size_t k = 0; k < cut.size(); ++k) all[cut[k]].second = whole[k];
  return Gradients(std::move(all));
}

void ShardedOptimizer::step_all(const Parameters& parameters, const Parameters& buffers, const Gradients& given) {
  if (world_.size() == 1) {
    PartsOfModel all{parameters, buffers};
    optimizer_->step(all, given);
    return;
  }
  const Gradients gradients = with_whole_gradients(parameters, given);
  std::vector<Piece> own, moved;
  for (const Piece& p : pieces(parameters)) {
    if (p.mine(world_.rank())) own.push_back(p);
    if (gradients.contains(*p.parameter.tensor)) moved.push_back(p);
  }
  keep_own_state(own);

  // This rank's parts, each a separate parameter to the optimiser.
  std::vector<Tensor> values(moved.size());
  std::vector<std::pair<Tensor, Tensor>> own_gradients;
  Parameters stepped;
  for (std::size_t k = 0; k < moved.size(); ++k) {
    const comm::OwnedPart* const part = moved[k].mine(world_.rank());
    if (!part) continue;
    const Tensor& t = *moved[k].parameter.tensor;
    const Tensor gradient = gradients[t];
    const NoHistory scope;
    const bool whole = part->size() == t.numel();
    const Shape shape = comm::part_shape(t.shape(), *part);
    values[k] = whole ? t : variable(reshape(elements(stop_gradient(t), part->from, part->size()), shape));
    own_gradients.emplace_back(values[k], whole ? gradient : reshape(comm::gradient_part(gradient, *part), shape));
    stepped.push_back({moved[k].parameter.name, &values[k]});
  }
  // Together with all collectives, including those that bring this rank nothing: gradients for others would otherwise
  // be computed in a second evaluation, at another time than on their owners, and ranks would wait for each other.
  Parameters with_collectives = buffers;
  Tensor pending = world_.group().pending();
  if (pending.defined()) with_collectives.push_back({"", &pending});
  PartsOfModel part{stepped, with_collectives};
  if (!stepped.empty()) optimizer_->step(part, Gradients(std::move(own_gradients)));

  // New values go from their owners to everyone.
  std::vector<comm::Parts> parts;
  std::vector<std::pair<Shape, DType>> list;
  std::vector<Tensor> mine;
  for (std::size_t k = 0; k < moved.size(); ++k) {
    const Tensor& t = *moved[k].parameter.tensor;
    parts.push_back(moved[k].parts);
    list.emplace_back(t.shape(), t.dtype());
    if (values[k].defined()) mine.push_back(stop_gradient(values[k]));
  }
  const std::vector<Tensor> received =
      put_together(parts, list, mine, stop_gradient(*parameters[0].tensor), "ShardedOptimizer", world_);
  std::vector<Tensor> now;
  for (std::size_t k = 0; k < moved.size(); ++k) {
    if (received[k].defined()) now.push_back(values[k] = variable(received[k]));
  }
  if (now.empty()) world_.group().catch_up();  // others wait for this rank's
  for (const Parameter& b : buffers) now.push_back(*b.tensor);
  eval(now);
  for (std::size_t k = 0; k < moved.size(); ++k) *moved[k].parameter.tensor = values[k];
}

ClippedGradients ShardedOptimizer::clip_all(const Parameters& parameters, const Gradients& gradients,
                                            double max_norm) const {
  if (world_.size() == 1) return ebb::clip_by_norm(gradients, max_norm);
  require(max_norm > 0, "clip_by_norm: max_norm must be positive, got {}", max_norm);
  const NoHistory scope;
  std::map<const Node*, comm::Parts> parts_of;
  const std::vector<comm::Parts> parts = comm::divide(parameters, world_.size());
  for (std::size_t p = 0; p < parameters.size(); ++p) parts_of[parameters[p].tensor->node()] = parts[p];
  std::vector<std::pair<Tensor, Tensor>> all = gradients.all();
  DType dtype = DType::f32;
  for (const auto& [v, g] : all) dtype = promote(dtype, compute_dtype(g.dtype()));

  // Each rank has the norms of the pieces in its parts, and zeros for the others.
  struct Place {
    int owner;
    std::int64_t at, pieces;
  };
  std::vector<Place> places;
  std::vector<Tensor> norms;
  std::int64_t at = 0;
  for (const auto& [v, g] : all) {
    for (const comm::OwnedPart& p : parts_of.at(v.node())) {
      const std::int64_t pieces = std::max<std::int64_t>(1, (p.size() + kNormPiece - 1) / kNormPiece);
      const bool own = p.owner == world_.rank(), whole = p.size() == v.numel();
      norms.push_back(own ? cast(piece_norms(widen(whole ? g : comm::gradient_part(g, p)), 2), dtype)
                          : zeros({pieces}, dtype));
      places.push_back({p.owner, at, pieces});
      at += pieces;
    }
  }
  const Tensor of_ranks = all_gather(unsqueeze(cat(norms), 0), world_);
  for (std::size_t k = 0; k < places.size(); ++k)
    norms[k] = narrow(select(of_ranks, 0, places[k].owner), 0, places[k].at, places[k].pieces);
  const Tensor total = norm(cat(norms)), factor = clamp(max_norm / (total + 1e-6), {}, 1.0);
  const auto clipped = [&](const Tensor& g) { return cast(widen(g) * factor, g.dtype()); };
  for (auto& [v, g] : all) {
    const comm::OwnedPart* const mine = comm::part_of(parts_of.at(v.node()), world_.rank());
    if (!comm::has_part_only(g)) {
      g = clipped(g);
    } else if (mine) {
      g = comm::gradient_with_part(g.shape(), g.dtype(), clipped(comm::gradient_part(g, *mine)));
    }
  }
  return {Gradients(std::move(all)), total};
}

std::vector<ShardedOptimizer::StatePart> ShardedOptimizer::own_state() const {
  std::vector<StatePart> all;
  if (!trimmed_ && world_.rank() != 0) return all;  // everyone has all of it
  for (const auto& [key, value] : optimizer_->state()) {
    const std::size_t slash = key.rfind('/');
    const auto cut = cut_.find(key.substr(0, slash));
    const bool count = key.substr(slash + 1) == "step";
    if (cut != cut_.end() && !count) {
      all.push_back({key, cut->second.second, cut->second.first, value});
    } else if (cut == cut_.end() || cut->second.first == 0) {  // ranks with other parts count the same
      all.push_back({key, value.shape(), 0, value});
    }
  }
  return all;
}

std::map<std::string, Tensor> ShardedOptimizer::state(int root) const {
  if (world_.size() == 1 || !trimmed_) return optimizer_->state();
  const std::vector<StatePart> own = own_state();
  const std::vector<std::string> lists = world_.gather_text(listing(own));
  struct Gathered {
    Shape shape;
    std::map<std::int64_t, Tensor> parts;
  };
  std::map<std::string, Gathered> found;
  for (int r = 0; r < world_.size(); ++r) {
    std::istringstream lines(lists[static_cast<std::size_t>(r)]);
    std::size_t next = 0;
    for (std::string line; std::getline(lines, line); ++next) {
      std::istringstream words(line);
      std::string name, dtype;
      std::int64_t from = 0, count = 0;
      words >> name >> dtype >> from >> count;
      std::vector<std::int64_t> sizes;
      for (std::int64_t size = 0; words >> size;) sizes.push_back(size);
      const Tensor mine =
          r == world_.rank() ? reshape(own[next].values, {count}) : zeros({count}, dtype_from_name(dtype));
      const Tensor sent = broadcast(mine, r, world_).eval();
      if (root >= 0 && root != world_.rank()) continue;
      found[name].shape = Shape(sizes);
      found[name].parts.emplace(from, sent);
    }
  }
  std::map<std::string, Tensor> all;
  for (const auto& [name, g] : found) {
    std::vector<Tensor> parts;
    for (const auto& [from, values] : g.parts) parts.push_back(values);
    all.emplace(name, reshape(parts.size() == 1 ? parts[0] : cat(parts), g.shape).eval());
  }
  return all;
}

void ShardedOptimizer::load_state(const std::map<std::string, Tensor>& state) {
  optimizer_->load_state(state);
  trimmed_ = false;
  cut_.clear();
}

}  // namespace ebb::distributed
