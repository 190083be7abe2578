// SPDX-License-Identifier: MIT
#include "ebb/optim/optimizer.h"

#include <cmath>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "ops/build.h"

namespace ebb::optim {

bool decay_matrices(const std::string&, const Tensor& parameter) { return parameter.rank() >= 2; }

Optimizer::Optimizer(const char* name, double lr, std::vector<const char*> slot_names)
    : name_(name), slot_names_(std::move(slot_names)) {
  set_lr(lr);
}

void Optimizer::set_lr(double lr) {
  require(lr >= 0, "{}: the learning rate must not be negative, got {}", name_, lr);
  lr_ = lr;
}

// All new values are known before any of them is stored: an error leaves parameters and state unchanged.
struct Optimizer::Change {
  const Parameter* parameter;
  Tensor value, gradient;
  Slots slots;
};

std::vector<Optimizer::Change> Optimizer::changes(const Parameters& parameters, const Gradients& gradients,
                                                  const Tensor& good) const {
  std::unordered_map<const Node*, const Tensor*> gradient_of;
  for (const auto& [v, g] : gradients.all()) gradient_of.emplace(v.node(), &g);
  std::vector<Change> all;
  NoHistory scope;
  for (const Parameter& p : parameters) {
    require(p.tensor->requires_grad(), "{}: parameter {} is not a variable; make it with variable()", name_, p.name);
    const auto found = gradient_of.find(p.tensor->node());
    if (found == gradient_of.end()) continue;  // the loss does not depend on it
    const auto old = slots_.find(p.name);
    Slots slots = old == slots_.end() ? Slots{} : old->second;
    slots.tensors.resize(slot_names_.size());
    for (const Tensor& t : slots.tensors) {
      if (!t.defined()) continue;
      require(t.shape() == p.tensor->shape(),
              "{}: the state of {} has shape {}, the parameter {}; use another optimiser for another model", name_,
              p.name, t.shape(), p.tensor->shape());
    }
    const Slots before = slots;
    if (good.defined()) {
      slots.count = (slots.count.defined() ? slots.count : full({}, static_cast<double>(slots.step), DType::f64)) + 1;
    } else if (slots.count.defined()) {
      slots.step = std::llround(slots.count.item());
      slots.count = {};
    }
    ++slots.step;
    Tensor value = update(p.name, widen(*p.tensor), widen(*found->second), slots);
    if (good.defined()) {
      value = where(good, value, widen(*p.tensor));
      slots.count = where(good, slots.count, slots.count - 1);
      for (std::size_t k = 0; k < slots.tensors.size(); ++k) {
        if (slots.tensors[k].defined() && before.tensors[k].defined())
          slots.tensors[k] = where(good, slots.tensors[k], before.tensors[k]);
      }
    }
    all.push_back({&p, variable(cast(value, p.tensor->dtype())), *found->second, std::move(slots)});
  }
  require(!parameters.empty(),
          "{}: the model has no parameters; a struct names its members in visit(), and tensors are members that are "
          "defined",
          name_);
  require(!all.empty(),
          "{}: none of the {} parameters has a gradient; differentiate a loss that was computed from this model since "
          "its last step",
          name_, parameters.size());
  return all;
}

namespace {

template <class Changes>
std::vector<Tensor> values_of(const Changes& changes) {
  std::vector<Tensor> together;
  for (const auto& c : changes) {
    together.push_back(c.value);
    for (const Tensor& t : c.slots.tensors) {
      if (t.defined()) together.push_back(t);
    }
    if (c.slots.count.defined()) together.push_back(c.slots.count);
    // The caller still holds the gradients. One that the update only sums, such as a bias's, would keep all its
    // summands alive; computed, it keeps only itself.
    constexpr std::int64_t kSmall = 1 << 16;
    if (c.gradient.numel() <= kSmall) together.push_back(c.gradient);
  }
  return together;
}

}  // namespace

bool Optimizer::has_stepped(const Parameters& parameters, const Gradients& gradients) const {
  for (const Parameter& p : parameters) {
    const auto slots = slots_.find(p.name);
    if (gradients.contains(*p.tensor) && (slots == slots_.end() || slots->second.step == 0)) return false;
  }
  return true;
}

void Optimizer::step_all(const Parameters& parameters, const Parameters& buffers, const Gradients& gradients,
                         const Tensor& good, const std::vector<Tensor>& also) {
  std::vector<Change> all = changes(parameters, gradients, good);
  std::vector<Tensor> together = values_of(all);
  together.insert(together.end(), also.begin(), also.end());
  for (const Parameter& b : buffers) together.push_back(*b.tensor);
  eval(together);
  for (Change& c : all) {
    *c.parameter->tensor = std::move(c.value);
    slots_[c.parameter->name] = std::move(c.slots);
  }
}

std::string Optimizer::print_all(const Parameters& parameters, const Gradients& gradients) const {
  return print_schedule(values_of(changes(parameters, gradients)));
}

std::map<std::string, Tensor> Optimizer::state() const {
  std::map<std::string, Tensor> all;
  for (const auto& [name, slots] : slots_) {
    if (slots.step == 0) continue;
    all[name + "/step"] = slots.count.defined() ? cast(slots.count, DType::i64) : tensor(slots.step);
    for (std::size_t k = 0; k < slots.tensors.size(); ++k) {
      if (slots.tensors[k].defined()) all[name + "/" + slot_names_[k]] = slots.tensors[k];
    }
  }
  return all;
}

void Optimizer::load_state(const std::map<std::string, Tensor>& state) {
  std::unordered_map<std::string, Slots> slots;
  for (const auto& [key, value] : state) {
    const std::size_t slash = key.rfind('/');
    require(slash != std::string::npos, "{}: the state has an entry {}, expected PARAMETER/NAME", name_, key);
    const std::string what = key.substr(slash + 1);
    Slots& s = slots[key.substr(0, slash)];
    s.tensors.resize(slot_names_.size());
    if (what == "step") {
      s.step = value.item<std::int64_t>();
      continue;
    }
    std::size_t k = 0;
    while (k < slot_names_.size() && what != slot_names_[k]) ++k;
    require(k < slot_names_.size(), "{}: the state has an entry {}, which this optimiser does not keep", name_, key);
    s.tensors[k] = value;
  }
  slots_ = std::move(slots);
}

}  // namespace ebb::optim
