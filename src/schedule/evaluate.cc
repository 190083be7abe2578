#include <algorithm>
#include <list>
#include <unordered_map>
#include <unordered_set>

#include "core/format_error.h"
#include "core/host_lock.h"
#include "schedule/plan.h"

namespace ebb {
namespace {

// Plans by structure, the least recently used one leaves first.
class PlanCache {
 public:
  std::shared_ptr<const Plan> find(const Trace& t) {
    const std::uint64_t h = hash(t.key);
    auto [from, to] = index_.equal_range(h);
    for (auto it = from; it != to; ++it) {
      if (it->second->key == t.key) {
        order_.splice(order_.begin(), order_, it->second);
        return it->second->plan;
      }
    }
    auto plan = std::make_shared<const Plan>(make_plan(t));
    order_.push_front({t.key, h, plan});
    index_.emplace(h, order_.begin());
    if (order_.size() > kMost) drop_last();
    return plan;
  }

 private:
  static constexpr std::size_t kMost = 1024;
  struct Entry {
    std::vector<std::uint64_t> key;
    std::uint64_t hash;
    std::shared_ptr<const Plan> plan;
  };

  static std::uint64_t hash(const std::vector<std::uint64_t>& key) {
    std::uint64_t h = 0x9E3779B97F4A7C15u ^ key.size();
    for (std::uint64_t w : key) {
      h = (h ^ w) * 0xD6E8FEB86659FD93u;
      h ^= h >> 29;
    }
    return h;
  }

  void drop_last() {
    auto last = std::prev(order_.end());
    auto [from, to] = index_.equal_range(last->hash);
    for (auto it = from; it != to; ++it) {
      if (it->second == last) {
        index_.erase(it);
        break;
      }
    }
    order_.erase(last);
  }

  std::list<Entry> order_;
  std::unordered_multimap<std::uint64_t, std::list<Entry>::iterator> index_;
};

PlanCache& plan_cache() {
  static auto* cache = new PlanCache;
  return *cache;
}

std::vector<Node*> unevaluated_with_companions(std::span<Node* const> nodes) {
  std::vector<Node*> roots;
  std::unordered_set<const Node*> known;  // a step of training has thousands of roots
  auto add = [&](Node* n) {
    if (!n->evaluated.load(std::memory_order_acquire) && known.insert(n).second) roots.push_back(n);
  };
  for (Node* n : nodes) add(n);
  if (roots.empty()) return roots;
  // A loss and its gradients are one computation: who asks for one gets the others from the same sweeps.
  const std::size_t asked = roots.size();
  std::unordered_set<const void*> seen;  // all gradients of a loss have the same companions
  for (std::size_t i = 0; i < asked; ++i) {
    if (!roots[i]->extra || !roots[i]->extra->companions) continue;
    const auto& companions = *roots[i]->extra->companions;
    if (!seen.insert(&companions).second) continue;
    for (Node* c : companions) add(c);
  }
  return roots;
}

}  // namespace

void evaluate(std::span<Node* const> nodes) {
  OutsideHostLock computing;
  std::lock_guard lock(graph_mutex());
  const std::vector<Node*> roots = unevaluated_with_companions(nodes);
  if (roots.empty()) return;
  const Trace t = trace(roots);
  const std::shared_ptr<const Plan> plan = plan_cache().find(t);
  run_plan(*plan, t);
}

void eval(const std::vector<Tensor>& tensors) {
  std::vector<Node*> nodes;
  for (const Tensor& t : tensors) {
    require(t.defined(), "eval: a tensor has no value (default-constructed or moved from)");
    nodes.push_back(t.node());
  }
  evaluate(nodes);
}

std::string print_schedule(const std::vector<Tensor>& tensors) {
  std::lock_guard lock(graph_mutex());
  std::vector<Node*> nodes;
  for (const Tensor& t : tensors) {
    require(t.defined(), "print_schedule: a tensor has no value (default-constructed or moved from)");
    nodes.push_back(t.node());
  }
  const std::vector<Node*> roots = unevaluated_with_companions(nodes);
  if (roots.empty()) return "";
  return print(make_plan(trace(roots)));
}

const Tensor& Tensor::eval() const {
  require(defined(), "eval: this Tensor has no value (default-constructed or moved from)");
  if (!evaluated()) evaluate(std::span<Node* const>(&node_, 1));
  return *this;
}

const Storage& evaluated_storage(const Tensor& t) {
  t.eval();
  std::lock_guard lock(graph_mutex());
  Node* n = t.node();
  if (!is_contiguous(n->shape, n->storage.strides)) {
    // The same numbers in a row; from now on they are this node's memory.
    Tensor copy = [&] {
      NoHistory none;
      return make_node(Op::copy, n->dtype, n->shape, {t});
    }();
    copy.eval();
    n->storage = copy.node()->storage;
  }
  return n->storage;
}

namespace {

template <class From, class To>
void convert_all(const void* data, std::int64_t n, std::vector<To>& out) {
  const From* from = static_cast<const From*>(data);
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>) {
      out[static_cast<std::size_t>(i)] = static_cast<To>(to_float(from[i]));
    } else {
      out[static_cast<std::size_t>(i)] = static_cast<To>(from[i]);
    }
  }
}

}  // namespace

template <class T>
std::vector<T> Tensor::to_vector() const {
  require(std::is_floating_point_v<T> || !is_floating(dtype()), Error::Kind::type,
          "to_vector: a tensor of {} cannot be read as integers; cast it first", name(dtype()));
  const Storage& s = evaluated_storage(*this);
  std::vector<T> out(static_cast<std::size_t>(numel()));
  if (numel() == 0) return out;
  const void* data = s.buffer.data() + s.offset * static_cast<std::int64_t>(size_of(dtype()));
  switch (dtype()) {
    case DType::f64:
      convert_all<double>(data, numel(), out);
      break;
    case DType::f32:
      convert_all<float>(data, numel(), out);
      break;
    case DType::f16:
      convert_all<Half>(data, numel(), out);
      break;
    case DType::bf16:
      convert_all<BFloat16>(data, numel(), out);
      break;
    case DType::i64:
      convert_all<std::int64_t>(data, numel(), out);
      break;
    case DType::i32:
      convert_all<std::int32_t>(data, numel(), out);
      break;
    case DType::u8:
      convert_all<std::uint8_t>(data, numel(), out);
      break;
    case DType::bool_:
      convert_all<std::uint8_t>(data, numel(), out);
      break;
  }
  return out;
}

template <class T>
T Tensor::item() const {
  require(numel() == 1, "item: the tensor has shape {}; only one element can be read as a number", shape());
  if constexpr (std::is_same_v<T, bool>) {
    if (is_floating(dtype())) return to_vector<double>()[0] != 0;
    return to_vector<std::int64_t>()[0] != 0;
  } else {
    return to_vector<T>()[0];
  }
}

template <class T>
const T* Tensor::data() const {
  require(dtype_of_type<T>::value == dtype(), Error::Kind::type, "data: the tensor is {}, not {}", name(dtype()),
          name(dtype_of_type<T>::value));
  const Storage& s = evaluated_storage(*this);
  return s.buffer ? reinterpret_cast<const T*>(s.buffer.data()) + s.offset : nullptr;
}

template double Tensor::item<double>() const;
template float Tensor::item<float>() const;
template std::int64_t Tensor::item<std::int64_t>() const;
template std::int32_t Tensor::item<std::int32_t>() const;
template bool Tensor::item<bool>() const;
template std::vector<double> Tensor::to_vector<double>() const;
template std::vector<float> Tensor::to_vector<float>() const;
template std::vector<std::int64_t> Tensor::to_vector<std::int64_t>() const;
template std::vector<std::int32_t> Tensor::to_vector<std::int32_t>() const;
template std::vector<std::uint8_t> Tensor::to_vector<std::uint8_t>() const;
template const double* Tensor::data<double>() const;
template const float* Tensor::data<float>() const;
template const Half* Tensor::data<Half>() const;
template const BFloat16* Tensor::data<BFloat16>() const;
template const std::int64_t* Tensor::data<std::int64_t>() const;
template const std::int32_t* Tensor::data<std::int32_t>() const;
template const std::uint8_t* Tensor::data<std::uint8_t>() const;
template const bool* Tensor::data<bool>() const;

}  // namespace ebb
