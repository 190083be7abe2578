#include "ebb/distributed/sharded_optimizer.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <sstream>

#include "comm/group.h"
#include "core/format_error.h"
#include "ebb/distributed/collectives.h"
#include "ebb/ops/create.h"
#include "ebb/ops/shape.h"

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

  // New values go from their owners to everyone, by dtype: ranks fill up to the length of the longest.
  std::vector<Tensor> values;
  for (const Parameter& b : buffers) values.push_back(*b.tensor);
  std::vector<Tensor> received(parameters.size());
  for (int d = 0; d < kDTypeCount; ++d) {
    std::vector<std::int64_t> length(static_cast<std::size_t>(world_.size()));
    std::vector<Tensor> mine;
    for (std::size_t p : moved) {
      const Tensor& t = *parameters[p].tensor;
      if (t.dtype() != static_cast<DType>(d)) continue;
      length[static_cast<std::size_t>(owner[p])] += t.numel();
      if (owner[p] == world_.rank()) mine.push_back(reshape(stop_gradient(t), {-1}));
    }
    const std::int64_t longest = *std::max_element(length.begin(), length.end());
    if (longest == 0) continue;
    const std::int64_t missing = longest - length[static_cast<std::size_t>(world_.rank())];
    if (missing > 0) mine.push_back(zeros({missing}, static_cast<DType>(d)));
    const Tensor all = all_gather(cat(mine), world_);
    std::vector<std::int64_t> at(length.size());
    for (std::size_t p : moved) {
      const Tensor& t = *parameters[p].tensor;
      if (t.dtype() != static_cast<DType>(d)) continue;
      std::int64_t& offset = at[static_cast<std::size_t>(owner[p])];
      if (owner[p] != world_.rank()) {
        // A copy: a view would keep the parameters of all ranks alive as long as one of them.
        const Tensor part = reshape(narrow(all, 0, owner[p] * longest + offset, t.numel()), t.shape());
        received[p] = variable(make_node(Op::copy, t.dtype(), t.shape(), {part}));
        values.push_back(received[p]);
      }
      offset += t.numel();
    }
  }
  eval(values);
  for (std::size_t p : moved) {
    if (received[p].defined()) *parameters[p].tensor = received[p];
  }
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
