#include "ebb/distributed/sharded_optimizer.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <sstream>

#include "comm/group.h"
#include "comm/ordered_sum.h"
#include "core/format_error.h"
#include "ebb/distributed/collectives.h"
#include "ebb/ops.h"
#include "ops/build.h"

namespace ebb::distributed {
namespace {

// "NAME DTYPE SIZE SIZE ...\n" of every tensor; names have no spaces.
std::string listing(const std::map<std::string, Tensor>& tensors) {
  std::string text;
  for (const auto& [name, t] : tensors) {
    text += fmt::format("{} {}", name, t.dtype());
    for (std::int64_t size : t.shape()) text += fmt::format(" {}", size);
    text += "\n";
  }
  return text;
}

// A model to an optimiser, which evaluates the buffers together with the parameters.
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

std::vector<int> ShardedOptimizer::owners(const Parameters& parameters, int ranks) {
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return parameters[a].tensor->numel() > parameters[b].tensor->numel();
  });
  std::vector<int> owner(parameters.size());
  std::vector<std::int64_t> elements(static_cast<std::size_t>(ranks));
  for (std::size_t p : order) {
    const auto least = std::min_element(elements.begin(), elements.end());
    owner[p] = static_cast<int>(least - elements.begin());
    *least += parameters[p].tensor->numel();
  }
  return owner;
}

void ShardedOptimizer::keep_own_state(const Parameters& own) {
  if (std::exchange(trimmed_, true)) return;
  std::set<std::string> names;
  for (const Parameter& p : own) names.insert(p.name);
  std::map<std::string, Tensor> state = optimizer_->state();
  std::erase_if(state,
                [&](const auto& entry) { return !names.contains(entry.first.substr(0, entry.first.rfind('/'))); });
  optimizer_->load_state(state);
}

void ShardedOptimizer::step_all(const Parameters& parameters, const Parameters& buffers, const Gradients& gradients) {
  if (world_.size() == 1) {
    PartsOfModel all{parameters, buffers};
    optimizer_->step(all, gradients);
    return;
  }
  const std::vector<int> owner = owners(parameters, world_.size());
  Parameters own, stepped;  // of this rank, and those of them that have a gradient
  std::vector<std::size_t> moved;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const bool has_gradient = gradients.contains(*parameters[p].tensor);
    if (has_gradient) moved.push_back(p);
    if (owner[p] != world_.rank()) continue;
    own.push_back(parameters[p]);
    if (has_gradient) stepped.push_back(parameters[p]);
  }
  keep_own_state(own);
  PartsOfModel part{stepped, buffers};
  if (!stepped.empty()) optimizer_->step(part, gradients);

  // New values go from their owners to everyone.
  auto share = std::make_shared<comm::ListShare>();
  std::vector<std::pair<Shape, DType>> list, outputs;
  std::vector<Tensor> mine, values;
  for (std::size_t p : moved) {
    const Tensor& t = *parameters[p].tensor;
    list.emplace_back(t.shape(), t.dtype());
    share->owners.push_back(owner[p]);
    share->bytes.push_back(static_cast<std::size_t>(t.numel()) * size_of(t.dtype()));
    if (owner[p] == world_.rank()) {
      mine.push_back(stop_gradient(t));
    } else {
      outputs.push_back(list.back());
    }
  }
  if (mine.empty()) mine.push_back(stop_gradient(*parameters[0].tensor));  // passed over; it says which device
  const std::vector<Tensor> received = world_.group().collective(share, "ShardedOptimizer", list, mine, outputs);
  for (const Tensor& t : received) values.push_back(variable(t));
  for (const Parameter& b : buffers) values.push_back(*b.tensor);
  if (received.empty()) world_.group().catch_up();  // others wait for this rank's
  eval(values);
  std::size_t next = 0;
  for (std::size_t p : moved) {
    if (owner[p] != world_.rank()) *parameters[p].tensor = values[next++];
  }
}

ClippedGradients ShardedOptimizer::clip_all(const Parameters& parameters, const Gradients& gradients,
                                            double max_norm) const {
  if (world_.size() == 1) return ebb::clip_by_norm(gradients, max_norm);
  require(max_norm > 0, "clip_by_norm: max_norm must be positive, got {}", max_norm);
  const NoHistory scope;
  std::map<const Node*, int> owner_of;
  const std::vector<int> owner = owners(parameters, world_.size());
  for (std::size_t p = 0; p < parameters.size(); ++p) owner_of[parameters[p].tensor->node()] = owner[p];
  std::vector<std::pair<Tensor, Tensor>> all = gradients.all();
  DType dtype = DType::f32;
  for (const auto& [v, g] : all) dtype = promote(dtype, compute_dtype(g.dtype()));
  std::vector<Tensor> norms;
  for (const auto& [v, g] : all) {
    const bool own = owner_of.at(v.node()) == world_.rank();
    norms.push_back(own ? cast(norm(widen(g)), dtype) : zeros({}, dtype));
  }
  const Tensor of_ranks = all_gather(unsqueeze(stack(norms), 0), world_);
  for (std::size_t k = 0; k < all.size(); ++k)
    norms[k] = select(select(of_ranks, 0, owner_of.at(all[k].first.node())), 0, static_cast<std::int64_t>(k));
  const Tensor total = norm(stack(norms)), factor = clamp(max_norm / (total + 1e-6), {}, 1.0);
  for (auto& [v, g] : all) {
    if (owner_of.at(v.node()) == world_.rank()) g = cast(widen(g) * factor, g.dtype());
  }
  return {Gradients(std::move(all)), total};
}

std::map<std::string, Tensor> ShardedOptimizer::state(int root) const {
  std::map<std::string, Tensor> all = optimizer_->state();
  if (world_.size() == 1 || !trimmed_) return all;
  const std::map<std::string, Tensor> own = std::move(all);
  all.clear();
  const std::vector<std::string> lists = world_.gather_text(listing(own));
  for (int r = 0; r < world_.size(); ++r) {
    std::istringstream lines(lists[static_cast<std::size_t>(r)]);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string name, dtype;
      words >> name >> dtype;
      std::vector<std::int64_t> sizes;
      for (std::int64_t size = 0; words >> size;) sizes.push_back(size);
      const Tensor mine = r == world_.rank() ? own.at(name) : zeros(Shape(sizes), dtype_from_name(dtype));
      const Tensor sent = broadcast(mine, r, world_).eval();
      if (root < 0 || root == world_.rank()) all.emplace(name, sent);
    }
  }
  return all;
}

void ShardedOptimizer::load_state(const std::map<std::string, Tensor>& state) {
  optimizer_->load_state(state);
  trimmed_ = false;
}

}  // namespace ebb::distributed
