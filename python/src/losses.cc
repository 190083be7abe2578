// SPDX-License-Identifier: MIT
#include "ebb/losses/registry.h"

#include <deque>

#include "bind.h"
#include "core/format_error.h"
#include "described.h"
#include "ebb/autograd.h"
#include "ebb/losses/distance.h"
#include "ebb/ops.h"
#include "graph/lock.h"
#include "linear_heads.h"
#include "memory_view.h"

// Losses come from the registry: Python makes a function of each entry, with its inputs and options as arguments, and
// calls it here by its number.
namespace ebb::python {

Tensor exclusive(const Tensor& x) {
  if (place_of(x) != Device{}) {
    const Storage& s = x.eval().node()->storage;
    if (is_contiguous(x.shape(), s.strides) && !s.buffer.get()->lent && s.buffer.unique()) return x;
    return copy_of(x);
  }
  const Storage& s = evaluated_storage(x);
  const Buffer* buffer = s.buffer.get();
  if (!buffer || (!buffer->release && s.buffer.unique())) return x;
  return from_bytes(buffer->data + s.offset * static_cast<std::int64_t>(size_of(x.dtype())), x.dtype(), x.shape());
}

namespace {

struct Entry {
  const LossInfo* info;
  std::vector<nb::object> defaults;  // of the options; an argument that is the very object was not given
};

std::deque<Entry>& entries() {
  static auto* all = [] {
    auto* list = new std::deque<Entry>;  // never destroyed: it holds Python objects
    for (const LossInfo& info : loss_registry()) {
      list->push_back({&info, defaults_of(info.options)});
    }
    return list;
  }();
  return *all;
}

nb::list describe_losses() {
  nb::list all;
  for (const Entry& e : entries()) {
    nb::list inputs;
    for (const LossInput& i : e.info->inputs) inputs.append(nb::make_tuple(i.name, i.differentiable, i.optional));
    nb::dict d;
    d["name"] = e.info->name;
    d["family"] = e.info->family;
    d["formula"] = e.info->formula;
    d["docs"] = e.info->docs();
    d["inputs"] = inputs;
    d["options"] = described(e.info->options, e.defaults);
    all.append(d);
  }
  return all;
}

// A loss of halves before its last step, which rounds it to a half.
Tensor unrounded(const Tensor& loss) {
  const Tensor last = loss.node()->op == Op::formula ? ebb::input_of(loss, 0) : loss;
  if (!last.defined() || last.node()->op != Op::cast || !is_half(loss.dtype())) return loss;
  const Tensor wide = ebb::input_of(last, 0);
  return wide.defined() && wide.dtype() == DType::f32 ? wide : loss;
}

struct Call {
  const LossInfo* info;
  std::vector<Tensor> inputs;
  LossOptionValues options;
  bool wide = false;  // the loss in f32, whatever its inputs are
  Tensor operator()(const std::vector<Tensor>& all) const {
    const Tensor loss = info->evaluate(all, options);
    return wide ? unrounded(loss) : loss;
  }
};

Tensor tensor_of(nb::handle h, const std::string& function, const std::string& name) {
  if (const Tensor* t = tensor_in(h)) return *t;
  Tensor converted;
  if (is_array_like(h) && nb::try_cast(h, converted)) return converted;
  throw Error(Error::Kind::type,
              function + ": " + name + " is a tensor, got " + nb::cast<std::string>(h.type().attr("__name__")));
}

Tensor input_of(const LossInfo& info, std::size_t i, nb::handle h) {
  if (h.is_none() && info.inputs[i].optional) return {};
  return tensor_of(h, std::string(info.name), std::string(info.inputs[i].name));
}

Call read_call(std::size_t number, const nb::args& args, std::size_t first) {
  const Entry& e = entries().at(number);
  Call call{e.info, {}, {}, false};
  std::size_t at = first;
  for (std::size_t i = 0; i < e.info->inputs.size(); ++i) call.inputs.push_back(input_of(*e.info, i, args[at++]));
  for (std::size_t k = 0; k < e.defaults.size(); ++k) {
    const nb::handle h = args[at++];
    if (h.is(e.defaults[k])) continue;
    const std::string& name = e.info->options[k].name;
    call.options.emplace(name, option_value(e.info->name, name, h));
  }
  return call;
}

Tensor evaluate_by_number(std::size_t number, nb::args args) {
  const Call call = read_call(number, args, 0);
  return call(call.inputs);
}

// The value and the gradients with respect to the inputs at these positions; with a cotangent, of sum(loss ·
// cotangent).
struct NotOneNumber {};  // thrown where a loss needs a cotangent and there is none, if whoever calls can do without
std::pair<Tensor, std::vector<Tensor>> differentiate(const Call& call, const std::vector<int>& positions,
                                                     const Tensor& cotangent, bool if_one_number = false) {
  std::vector<Tensor> chosen;
  for (int p : positions) chosen.push_back(call.inputs[static_cast<std::size_t>(p)]);
  Tensor value;
  auto [y, grads] = value_and_grad(FunctionOfMany([&](const std::vector<Tensor>& tracked) {
    std::vector<Tensor> all = call.inputs;
    for (std::size_t k = 0; k < positions.size(); ++k) all[static_cast<std::size_t>(positions[k])] = tracked[k];
    value = call(all);
    if (if_one_number && value.rank() != 0) throw NotOneNumber{};
    if (!cotangent.defined()) return value;
    require(cotangent.shape() == value.shape(), "{}_backward: the gradient has shape {}, the loss {}", call.info->name,
            cotangent.shape(), value.shape());
    return sum(value * cast(cotangent, value.dtype()));
  }))(chosen);
  return {value, std::move(grads)};
}

nb::tuple value_and_grad_by_number(std::size_t number, const std::vector<int>& positions, nb::args args) {
  const Call call = read_call(number, args, 0);
  auto [value, grads] = differentiate(call, positions, {});
  const bool differentiated = value.requires_grad();
  std::vector<Tensor> all{value};
  all.insert(all.end(), grads.begin(), grads.end());
  if (!differentiated) eval(all);
  if (grads.size() == 1) return nb::make_tuple(value, grads[0]);
  return nb::make_tuple(value, nb::cast(grads));
}

// One cotangent for each input; None where it is not differentiable or was left out.
nb::tuple backward_by_number(std::size_t number, nb::handle cotangent, bool wide, nb::args args) {
  Call call = read_call(number, args, 0);
  const Tensor grad = tensor_of(cotangent, std::string(call.info->name) + "_backward", "grad");
  call.wide = wide;
  std::vector<int> positions;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& x = call.inputs[i];
    if (x.defined() && is_floating(x.dtype()) && call.info->inputs[i].differentiable)
      positions.push_back(static_cast<int>(i));
  }
  const auto result = differentiate(call, positions, grad);
  nb::list cotangents;
  std::size_t next = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const bool has = next < positions.size() && positions[next] == static_cast<int>(i);
    cotangents.append(has ? nb::cast(result.second[next++]) : nb::none());
  }
  return nb::tuple(cotangents);
}

// The derivative of sum(gradients · cotangents) with respect to the cotangent of the loss and the inputs at these
// positions, where the gradients are those at the same positions: what differentiating a backward pass needs.
std::vector<Tensor> second_of(const Call& call, const std::vector<int>& positions,
                              const std::vector<Tensor>& cotangents, const Tensor& grad) {
  std::vector<Tensor> chosen{grad};
  for (int p : positions) chosen.push_back(call.inputs[static_cast<std::size_t>(p)]);
  return ebb::grad(FunctionOfMany([&](const std::vector<Tensor>& tracked) {
    Call inner = call;
    for (std::size_t k = 0; k < positions.size(); ++k)
      inner.inputs[static_cast<std::size_t>(positions[k])] = tracked[k + 1];
    const auto [value, grads] = differentiate(inner, positions, tracked[0]);
    Tensor total;
    for (std::size_t k = 0; k < grads.size(); ++k) {
      const Tensor part = sum(grads[k] * cotangents[k]);
      total = total.defined() ? total + part : part;
    }
    return total;
  }))(chosen);
}

// For torch.func: the loss {y} (order 0), its gradients at these positions (1) or what second_of gives (2). With a
// count, of as many samples at once: those of cotangents, grad and inputs that are batched have a leading axis of that
// size, and so have all results.
std::vector<Tensor> losses_of_order(int order, std::int64_t count, const std::vector<bool>& batched, std::size_t number,
                                    bool wide, const std::vector<int>& positions, const std::vector<Tensor>& cotangents,
                                    const Tensor* grad, nb::args args) {
  Call call = read_call(number, args, 0);
  call.wide = wide;
  const auto one = [&](const Call& c, const std::vector<Tensor>& cots, const Tensor& g) {
    if (order == 0) return std::vector<Tensor>{c(c.inputs)};
    return order == 1 ? differentiate(c, positions, g).second : second_of(c, positions, cots, g);
  };
  std::vector<Tensor> found;
  if (count == 0) {
    found = one(call, cotangents, or_none(grad));
  } else {
    std::vector<std::vector<Tensor>> parts;  // of each result
    for (std::int64_t i = 0; i < count; ++i) {
      std::size_t at = 0;
      const auto sample = [&](const Tensor& t) { return batched.at(at++) && t.defined() ? select(t, 0, i) : t; };
      std::vector<Tensor> cots;
      for (const Tensor& t : cotangents) cots.push_back(sample(t));
      const Tensor g = grad ? sample(*grad) : Tensor{};
      Call each = call;
      for (Tensor& t : each.inputs) t = sample(t);
      const std::vector<Tensor> results = one(each, cots, g);
      parts.resize(results.size());
      for (std::size_t k = 0; k < results.size(); ++k) parts[k].push_back(results[k]);
    }
    for (const std::vector<Tensor>& p : parts) found.push_back(stack(p, 0));
  }
  eval(found);
  for (Tensor& t : found) t = exclusive(t);
  return found;
}

// The value and, where it is one number, its gradients; None where the gradients need a cotangent first.
nb::tuple forward_by_number(std::size_t number, const std::vector<int>& positions, bool wide, nb::args args) {
  Call call = read_call(number, args, 0);
  call.wide = wide;
  if (positions.empty()) return nb::make_tuple(exclusive(call(call.inputs)), nb::none());
  try {
    auto [value, grads] = differentiate(call, positions, {}, true);
    std::vector<Tensor> all{value};
    all.insert(all.end(), grads.begin(), grads.end());
    eval(all);
    for (Tensor& g : grads) g = exclusive(g);
    return nb::make_tuple(exclusive(value), grads);
  } catch (const NotOneNumber&) {
    return nb::make_tuple(exclusive(call(call.inputs)), nb::none());
  }
}

using Distance = std::function<Tensor(const Tensor&, const Tensor&)>;

}  // namespace

void bind_losses(const Api& api) {
  nb::module_& m = api.module;
  m.def("_losses", describe_losses);
  m.def("_loss", evaluate_by_number, "number"_a, "args"_a);
  m.def("_loss_value_and_grad", value_and_grad_by_number, "number"_a, "positions"_a, "args"_a);
  m.def("_loss_backward", backward_by_number, "number"_a, "grad"_a, "wide"_a, "args"_a);
  m.def("_loss_forward", forward_by_number, "number"_a, "positions"_a, "wide"_a, "args"_a);
  m.def("_exclusive", exclusive, "x"_a);
  m.def("_losses_of_order", losses_of_order, "order"_a, "count"_a, "batched"_a, "number"_a, "wide"_a, "positions"_a,
        "cotangents"_a, "grad"_a.none(), "args"_a);
  bind_linear_heads(api);
  // A function cannot be an option of the registry.
  m.def("_triplet_margin_with_distance", [](const Tensor& a, const Tensor& p, const Tensor& n, const Distance& distance,
                                            double margin, bool swap, const std::string& reduction) {
    return triplet_margin_with_distance_loss(
        a, p, n,
        {.distance_function = distance, .margin = margin, .swap = swap, .reduction = reduction_from_name(reduction)});
  });
}

}  // namespace ebb::python
