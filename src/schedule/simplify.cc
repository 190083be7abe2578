#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_set>
#include <utility>

#include "core/format_error.h"
#include "graph/loss_calls.h"
#include "schedule/values.h"

namespace ebb {
namespace {

// Strides that show `from` (with `strides`) in the shape `to` without moving elements; false where none exist.
bool view_reshape(const Shape& from, const Strides& strides, const Shape& to, Strides& out) {
  if (to.numel() == 0) {
    out = contiguous_strides(to);
    return true;
  }
  // Match runs of old dimensions with runs of new ones of the same number of elements; inside a run the old dimensions
  // must be contiguous.
  int i = 0, j = 0;
  const int n = from.rank(), m = to.rank();
  while (j < m) {
    if (to[j] == 1) {
      out[j++] = 0;
      continue;
    }
    while (i < n && from[i] == 1) ++i;
    int i1 = i + 1, j1 = j + 1;
    std::int64_t old_size = from[i], new_size = to[j];
    while (old_size != new_size) {
      if (old_size < new_size) {
        old_size *= from[i1++];
      } else {
        new_size *= to[j1++];
      }
    }
    std::int64_t expected = -1;
    std::int64_t inner = 0;
    for (int k = i1 - 1; k >= i; --k) {
      if (from[k] == 1) continue;
      if (expected == -1) {
        inner = strides[k];
      } else if (strides[k] != expected) {
        return false;
      }
      expected = strides[k] * from[k];
    }
    std::int64_t step = inner;
    for (int k = j1 - 1; k >= j; --k) {
      out[k] = step;
      step *= to[k];
    }
    i = i1;
    j = j1;
  }
  return true;
}

struct ValueKeyHash {
  const std::vector<Value>* values;
  std::size_t operator()(std::int32_t v) const {
    const Value& x = (*values)[v];
    std::uint64_t h = static_cast<std::uint64_t>(x.op) * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(x.dtype);
    auto mix = [&h](std::uint64_t w) { h = (h ^ w) * 0xD6E8FEB86659FD93u, h ^= h >> 32; };
    for (std::int64_t s : x.shape) mix(static_cast<std::uint64_t>(s));
    for (std::int32_t i : x.inputs) mix(static_cast<std::uint64_t>(i));
    for (std::int64_t a : x.attrs.i) mix(static_cast<std::uint64_t>(a));
    mix(x.attrs.axes);
    std::uint64_t bits;
    std::memcpy(&bits, &x.literal, sizeof bits);
    mix(bits);
    return h;
  }
};
struct ValueKeyEqual {
  const std::vector<Value>* values;
  bool operator()(std::int32_t a, std::int32_t b) const {
    const Value &x = (*values)[a], &y = (*values)[b];
    return x.op == y.op && x.dtype == y.dtype && x.shape == y.shape && x.inputs == y.inputs && x.attrs == y.attrs &&
           x.label == y.label && x.literal == y.literal && !x.is_leaf && !y.is_leaf && !x.is_unique && !y.is_unique;
  }
};

class Simplifier {
 public:
  explicit Simplifier(const Trace& trace)
      : t_(trace), merged_(64, ValueKeyHash{&g_.values}, ValueKeyEqual{&g_.values}) {}

  ValueGraph run() {
    g_.values.reserve(t_.nodes.size() + 8);
    g_.of_node.assign(t_.nodes.size(), -1);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(t_.nodes.size()); ++i) g_.of_node[i] = visit(i);
    for (std::int32_t r : t_.roots) {
      g_.of_node[r] = in_memory(g_.of_node[r]);
      g_.roots.push_back(g_.of_node[r]);
    }
    take_losses_from_gradients();
    return std::move(g_);
  }

 private:
  std::int32_t visit(std::int32_t i) {
    const Node& n = *t_.nodes[i];
    if (t_.is_leaf(i)) return leaf(i);
    const OpInfo& row = info(n.op);
    if (row.cls == OpClass::alias && n.op != Op::depend) return g_.of_node[t_.inputs_of(i)[0]];
    Value v;
    v.op = n.op;
    v.dtype = n.dtype;
    v.shape = n.shape;
    v.attrs = n.attrs;
    v.label = n.label;
    v.node = i;
    v.is_unique = t_.unique[i];
    for (std::int32_t in : t_.inputs_of(i)) v.inputs.push_back(g_.of_node[in]);
    return add(std::move(v));
  }

  std::int32_t leaf(std::int32_t i) {
    if (t_.same[i] != i) return g_.of_node[t_.same[i]];
    const Node& n = *t_.nodes[i];
    Value v;
    const bool stored = t_.stored[i];
    v.op = stored ? Op::data : n.op;
    v.dtype = n.dtype;
    v.shape = n.shape;
    v.node = i;
    v.is_leaf = true;
    v.strides = v.op == Op::data ? n.storage.strides : contiguous_strides(n.shape);
    v.is_one =
        !stored && n.op == Op::constant && (is_floating(n.dtype) ? n.payload.real == 1.0 : n.payload.integer == 1);
    return push(std::move(v));
  }

  std::int32_t push(Value v) {
    g_.values.push_back(std::move(v));
    return static_cast<std::int32_t>(g_.values.size()) - 1;
  }

  // The value, simplified, merged with an equal one if there is one.
  std::int32_t add(Value v) {
    switch (info(v.op).cls) {
      case OpClass::view:
      case OpClass::alias:
        return add_view(std::move(v));
      case OpClass::elementwise:
        return add_elementwise(std::move(v));
      case OpClass::reduce:
        return add_reduce(std::move(v));
      default:
        break;
    }
    if ((v.op == Op::pick || v.op == Op::place)) {
      // With one column there is no row to sweep; the library's kernels do it.
      const auto axis = static_cast<int>(v.attrs.i[0]);
      const Shape& full = v.op == Op::pick ? at(v.inputs[0]).shape : v.shape;
      if (full[axis] == 1 || full.numel() == 0) {
        v.op = v.op == Op::pick ? Op::gather : Op::scatter_zero_add;
      }
    }
    if (info(v.op).cls == OpClass::library) {
      for (std::int32_t& in : v.inputs) in = in_memory(in);
    }
    return intern(std::move(v));
  }

  // Constants, ramps and random numbers exist only inside sweeps. A reader that needs memory gets a copy of them: one
  // number with strides of zero where it is only broadcast.
  std::int32_t in_memory(std::int32_t v) {
    const Value& b = at(at(v).is_view() ? at(v).base : v);
    const bool made_up = b.op == Op::constant || (b.is_leaf && (b.op == Op::iota || b.op == Op::random_uniform));
    if (!made_up) return v;
    const std::int32_t source = at(v).shape.numel() > 0 ? uniform_source(v) : -1;
    Value copy;
    copy.op = Op::copy;
    copy.dtype = at(v).dtype;
    copy.shape = source >= 0 ? Shape{} : at(v).shape;
    copy.inputs = {source >= 0 ? source : v};
    const Shape shape = at(v).shape;
    const std::int32_t made = intern(std::move(copy));
    return source >= 0 ? uniform(made, shape) : made;
  }

  std::int32_t intern(Value v) {
    const std::int32_t index = push(std::move(v));
    auto [it, fresh] = merged_.insert(index);
    if (!fresh) g_.values.pop_back();
    return *it;
  }

  const Value& at(std::int32_t v) const { return g_.values[v]; }

  // The scalar behind a value that only broadcasts it, -1 for others.
  std::int32_t uniform_source(std::int32_t v) const {
    const Value& x = at(v);
    if (x.op == Op::expand && at(x.inputs[0]).shape.rank() == 0) return x.inputs[0];
    if (x.shape.rank() == 0 && !x.is_view()) return v;
    return -1;
  }

  std::int32_t uniform(std::int32_t source, const Shape& shape) {
    if (shape.rank() == 0) return source;
    Value v;
    v.op = Op::expand;
    v.dtype = at(source).dtype;
    v.shape = shape;
    v.inputs = {source};
    return finish_view(std::move(v));
  }

  std::int32_t add_view(Value v) {
    const std::int32_t in = v.inputs[0];
    if (v.op == Op::reshape || v.op == Op::permute || v.op == Op::expand || v.op == Op::narrow) {
      if (v.shape == at(in).shape && v.op != Op::narrow && v.op != Op::permute) return in;
      if (v.shape.numel() > 0) {
        const std::int32_t source = uniform_source(in);
        if (source >= 0) return uniform(source, v.shape);
      }
      if (v.op == Op::reshape && at(in).op == Op::reshape) {
        v.inputs[0] = at(in).inputs[0];
        return add_view(std::move(v));
      }
      if (v.op == Op::expand && at(in).op == Op::expand && at(at(in).inputs[0]).shape.rank() == v.shape.rank()) {
        v.inputs[0] = at(in).inputs[0];
        return add_view(std::move(v));
      }
    }
    return finish_view(std::move(v));
  }

  // Where the view's elements are, and whether a sweep can follow it.
  std::int32_t finish_view(Value v) {
    const std::int32_t in = v.inputs[0];
    const Value& x = at(in);
    v.base = x.is_view() ? x.base : in;
    v.offset = x.is_view() ? x.offset : 0;
    const Strides from = x.is_view() || x.is_leaf ? x.strides : contiguous_strides(x.shape);
    std::array<std::int8_t, Shape::kMaxRank> shows{};
    if (x.is_view()) {
      shows = x.shows;
    } else {
      for (int d = 0; d < x.shape.rank(); ++d) shows[d] = static_cast<std::int8_t>(d);
    }
    v.mappable = !x.is_view() || x.mappable;
    v.shows.fill(-1);
    const int rank = v.shape.rank();
    switch (v.op) {
      case Op::permute: {
        const auto axes = unpack_axes(v.attrs.i[0]);
        for (int d = 0; d < rank; ++d) {
          v.strides[d] = from[axes[d]];
          v.shows[d] = shows[axes[d]];
        }
        break;
      }
      case Op::expand: {
        const int lead = rank - x.shape.rank();
        for (int d = lead; d < rank; ++d) {
          const bool repeats = x.shape[d - lead] != v.shape[d];
          v.strides[d] = repeats ? 0 : from[d - lead];
          v.shows[d] = repeats ? std::int8_t{-1} : shows[d - lead];
        }
        break;
      }
      case Op::narrow: {
        const auto axis = static_cast<int>(v.attrs.i[0]);
        for (int d = 0; d < rank; ++d) v.strides[d] = from[d];
        v.strides[axis] *= v.attrs.i[2];
        v.offset += from[axis] * v.attrs.i[1];
        v.mappable = false;
        break;
      }
      case Op::reshape: {
        if (!view_reshape(x.shape, from, v.shape, v.strides)) {
          // The elements must move: a contiguous copy first, then the view of that.
          Value copy;
          copy.op = Op::copy;
          copy.dtype = v.dtype;
          copy.shape = x.shape;
          copy.inputs = {in};
          v.inputs[0] = intern(std::move(copy));
          return finish_view(std::move(v));
        }
        v.mappable = v.mappable && same_but_ones(x.shape, shows, v.shape, v.shows);
        break;
      }
      case Op::output:
        // The k-th result of a library call with several; its memory is the call's own.
        v.base = -1;
        v.mappable = false;
        return intern(std::move(v));
      default:  // depend: the same memory, later
        v.strides = from;
        v.mappable = false;
        break;
    }
    return intern(std::move(v));
  }

  // A reshape that only adds or drops dimensions of size 1.
  static bool same_but_ones(const Shape& from, const std::array<std::int8_t, Shape::kMaxRank>& shows, const Shape& to,
                            std::array<std::int8_t, Shape::kMaxRank>& out) {
    int i = 0;
    for (int d = 0; d < to.rank(); ++d) {
      if (to[d] == 1) continue;
      while (i < from.rank() && from[i] == 1) ++i;
      if (i == from.rank() || from[i] != to[d]) return false;
      out[d] = shows[i++];
    }
    return true;
  }

  std::int32_t add_elementwise(Value v) {
    if (v.op == Op::cast && at(v.inputs[0]).dtype == v.dtype) return v.inputs[0];
    if (v.op == Op::mul || v.op == Op::div) {  // multiplying and dividing by one are exact
      const std::int32_t b = uniform_source(v.inputs[1]), a = uniform_source(v.inputs[0]);
      if (b >= 0 && at(b).is_one) return v.inputs[0];
      if (v.op == Op::mul && a >= 0 && at(a).is_one) return v.inputs[1];
    }
    if (v.op == Op::abs) v.inputs[0] = without_sign(v.inputs[0]);
    if (info(v.op).commutes && v.inputs[0] > v.inputs[1]) {
      std::swap(v.inputs[0], v.inputs[1]);  // one order, so that equal values merge
    }
    // An operation on broadcast values is done once, then broadcast.
    if (v.shape.rank() > 0 && v.shape.numel() > 0 && v.op != Op::check) {
      std::vector<std::int32_t> sources;
      for (std::int32_t in : v.inputs) {
        const std::int32_t s = uniform_source(in);
        if (s < 0) break;
        sources.push_back(s);
      }
      if (sources.size() == v.inputs.size()) {
        const Shape shape = v.shape;
        v.shape = Shape{};
        v.inputs = std::move(sources);
        v.node = -1;
        return uniform(add_elementwise(std::move(v)), shape);
      }
    }
    // Worthwhile only for many elements: a number that moves may need its own memory on its way between sweeps.
    constexpr std::int64_t kMany = 1 << 13;
    if (is_floating(v.dtype) && v.shape.numel() >= kMany) {
      if (const std::int32_t cheaper = with_signs_moved(v); cheaper >= 0) return cheaper;
    }
    const std::int32_t smaller = without_repeats(v);
    return smaller >= 0 ? smaller : intern(std::move(v));
  }

  // A y with exactly |y| = |x|: x without the signs applied to it. So |x| and |−x| are one value, and sigmoid(x),
  // softplus(−x) and similar functions share one exponential.
  std::int32_t without_sign(std::int32_t x) {
    const Value v = at(x);  // a copy: values may move
    if (!is_floating(v.dtype)) return x;
    if (v.op == Op::neg) return without_sign(v.inputs[0]);
    if (v.op == Op::cast && is_floating(at(v.inputs[0]).dtype)) {  // rounding is symmetric about 0
      const std::int32_t inner = without_sign(v.inputs[0]);
      return inner == v.inputs[0] ? x : made(v, Op::cast, {inner});
    }
    if (v.op == Op::mul) {  // −(s·x) became (−s)·x, see minus()
      for (int k = 0; k < 2; ++k) {
        const std::int32_t s = uniform_source(v.inputs[k]);
        if (s < 0 || at(s).op != Op::neg) continue;
        return made(v, Op::mul, {uniform(at(s).inputs[0], v.shape), v.inputs[1 - k]});
      }
    }
    return x;
  }

  // An elementwise operation on values of the shape and dtype of `like`.
  std::int32_t made(const Value& like, Op op, std::vector<std::int32_t> inputs, bool mask = false) {
    Value v;
    v.op = op;
    v.dtype = mask ? DType::bool_ : like.dtype;
    v.shape = like.shape;
    v.inputs = std::move(inputs);
    return add_elementwise(std::move(v));
  }

  bool is_number(std::int32_t v) const { return uniform_source(v) >= 0; }

  // Gradients are full of signs and factors that can move, without changing a bit, to where they cost less: into a
  // scalar, into the branches of a choice between scalars, from a sum into a difference. -1: none can.
  std::int32_t with_signs_moved(const Value& v) {
    const std::int32_t a = v.inputs[0], b = v.inputs.size() > 1 ? v.inputs[1] : -1;
    switch (v.op) {
      case Op::neg:
        return minus(v, a);
      case Op::add:  // x + −y = x − y
        if (at(b).op == Op::neg) return made(v, Op::sub, {a, at(b).inputs[0]});
        return at(a).op == Op::neg ? made(v, Op::sub, {b, at(a).inputs[0]}) : -1;
      case Op::sub:
        return at(b).op == Op::neg ? made(v, Op::add, {a, at(b).inputs[0]}) : -1;
      case Op::mul: {
        const std::int32_t product = is_number(a) ? times(v, a, b) : -1;
        return product < 0 && is_number(b) ? times(v, b, a) : product;
      }
      default:
        return -1;
    }
  }

  // −x
  std::int32_t minus(const Value& v, std::int32_t x) {
    const std::vector<std::int32_t> in = at(x).inputs;
    auto negative = [&](std::int32_t of) { return made(v, Op::neg, {of}); };
    switch (at(x).op) {
      case Op::neg:
        return in[0];
      case Op::mul:
        if (is_number(in[0])) return made(v, Op::mul, {negative(in[0]), in[1]});
        return is_number(in[1]) ? made(v, Op::mul, {in[0], negative(in[1])}) : -1;
      case Op::where:
        return is_number(in[1]) && is_number(in[2]) ? made(v, Op::where, {in[0], negative(in[1]), negative(in[2])})
                                                    : -1;
      default:
        return -1;
    }
  }

  // s·x, s one number
  std::int32_t times(const Value& v, std::int32_t s, std::int32_t x) {
    const std::vector<std::int32_t> in = at(x).inputs;
    auto product = [&](std::int32_t with) { return made(v, Op::mul, {s, with}); };
    switch (at(x).op) {
      case Op::neg:
        return made(v, Op::mul, {made(v, Op::neg, {s}), in[0]});
      case Op::where:
        return is_number(in[1]) && is_number(in[2]) ? made(v, Op::where, {in[0], product(in[1]), product(in[2])}) : -1;
      case Op::sign: {
        // A choice between s and −s; where x is 0 or NaN, so is s·x, with the same sign. Cheaper than computing the
        // sign, which is the gradient of every absolute value.
        const std::int32_t zero = uniform(literal(0, v.dtype), v.shape);
        const std::int32_t above = made(v, Op::gt, {in[0], zero}, true), below = made(v, Op::lt, {in[0], zero}, true);
        const std::int32_t rest = made(v, Op::where, {below, made(v, Op::neg, {s}), product(in[0])});
        return made(v, Op::where, {above, s, rest});
      }
      default:
        return -1;
    }
  }

  // Where every input is broadcast along some dimensions, the operation is done without them and its result broadcast.
  std::int32_t without_repeats(const Value& v) {
    if (v.shape.numel() == 0 || v.op == Op::check) return -1;
    std::uint32_t repeated = 0;
    for (int d = 0; d < v.shape.rank(); ++d) {
      if (v.shape[d] == 1) continue;
      bool all = true;
      for (std::int32_t in : v.inputs) all = all && repeats(in, d);
      if (all) repeated |= 1u << d;
    }
    if (repeated == 0) return -1;
    std::vector<std::int64_t> sizes(v.shape.begin(), v.shape.end());
    for (int d = 0; d < v.shape.rank(); ++d) {
      if (repeated >> d & 1) sizes[d] = 1;
    }
    Value small = v;
    small.shape = Shape(sizes);
    small.node = -1;
    for (std::int32_t& in : small.inputs) {
      Value e;
      e.op = Op::expand;
      e.dtype = at(in).dtype;
      e.shape = small.shape;
      e.inputs = {at(in).inputs[0]};
      in = add_view(std::move(e));
    }
    Value e;
    e.op = Op::expand;
    e.dtype = v.dtype;
    e.shape = v.shape;
    e.inputs = {add_elementwise(std::move(small))};
    return add_view(std::move(e));
  }

  bool repeats(std::int32_t v, int d) const {
    const Value& x = at(v);
    if (x.op != Op::expand) return false;
    const Shape& inner = at(x.inputs[0]).shape;
    const int lead = x.shape.rank() - inner.rank();
    return d < lead || inner[d - lead] == 1;
  }

  std::int32_t literal(double value, DType dtype) {
    Value v;
    v.op = Op::constant;
    v.dtype = dtype;
    v.literal = value;
    v.is_one = value == 1;
    return intern(std::move(v));
  }

  std::int32_t add_reduce(Value v) {
    const std::int32_t in = v.inputs[0];
    const Shape& from = at(in).shape;
    std::uint32_t axes = 0;
    for (int d = 0; d < from.rank(); ++d) {
      if ((v.attrs.axes >> d & 1) && from[d] != 1) axes |= 1u << d;
    }
    v.attrs.axes = axes;
    if (axes == 0) return in;  // nothing is reduced, and reduced axes keep size 1
    // A row with one number placed in it sums to that number.
    if (v.op == Op::sum && at(in).op == Op::place && axes == 1u << at(in).attrs.i[0]) return at(in).inputs[0];
    // Over axes along which the input is broadcast, a sum is a product and a maximum is the input itself.
    if (at(in).op == Op::expand && from.numel() > 0 && v.op != Op::prod) {
      const Value& e = at(in);
      const Shape& inner = at(e.inputs[0]).shape;
      const int lead = from.rank() - inner.rank();
      std::uint32_t repeated = 0;
      double times = 1;
      for (int d = 0; d < from.rank(); ++d) {
        if ((axes >> d & 1) && (d < lead || inner[d - lead] == 1)) {
          repeated |= 1u << d;
          times *= static_cast<double>(from[d]);
        }
      }
      if (repeated) {
        std::vector<std::int64_t> sizes(from.begin(), from.end());
        for (int d = 0; d < from.rank(); ++d) {
          if (repeated >> d & 1) sizes[d] = 1;
        }
        Value smaller;
        smaller.op = Op::expand;
        smaller.dtype = e.dtype;
        smaller.shape = Shape(sizes);
        smaller.inputs = {e.inputs[0]};
        std::int32_t rest = add_view(std::move(smaller));
        if (axes != repeated) {
          Value r = v;
          r.inputs = {rest};
          r.attrs.axes = axes & ~repeated;
          r.node = -1;
          rest = add_reduce(std::move(r));
        }
        if (v.op != Op::sum) return rest;
        Value product;
        product.op = Op::mul;
        product.dtype = v.dtype;
        product.shape = v.shape;
        product.inputs = {rest, uniform(literal(times, v.dtype), v.shape)};
        return add_elementwise(std::move(product));
      }
    }
    return intern(std::move(v));
  }

  // A loss with its own kernel that is requested together with its gradient: one call computes both. (Not where the
  // gradient waits for the loss, because its cotangent is computed from it.)
  void take_losses_from_gradients() {
    bool moved = false;
    for (std::int32_t both = 0; both < static_cast<std::int32_t>(g_.values.size()); ++both) {
      const std::int32_t alone = call_for_losses(both);
      if (alone < 0 || needs(both, alone)) continue;
      for (Value& v : g_.values) {
        if (v.op == Op::output && v.inputs[0] == alone) v.inputs[0] = both, moved = true;
      }
    }
    if (moved) sort_inputs_first(g_);
  }

  // The call that computes only the losses of such a call; -1 if there is none.
  std::int32_t call_for_losses(std::int32_t both) {
    const Value& x = at(both);
    if (x.is_leaf || info(x.op).cls != OpClass::library) return -1;
    const std::optional<LossesAlone> alone = losses_alone(x.op, x.attrs, x.inputs.size());
    if (!alone) return -1;
    Value v;
    v.op = x.op;
    v.dtype = x.dtype;
    v.shape = x.shape;
    v.label = x.label;
    v.attrs = alone->attrs;
    for (std::size_t k : alone->inputs) v.inputs.push_back(x.inputs[k]);
    const auto it = merged_.find(push(std::move(v)));
    g_.values.pop_back();
    return it == merged_.end() ? -1 : *it;
  }

  // Does v depend on `other`?
  bool needs(std::int32_t v, std::int32_t other) const {
    std::vector<char> seen(g_.values.size(), 0);
    std::vector<std::int32_t> stack{v};
    while (!stack.empty()) {
      const std::int32_t top = stack.back();
      stack.pop_back();
      if (top == other) return true;
      if (std::exchange(seen[top], 1)) continue;
      const Value& x = at(top);
      stack.insert(stack.end(), x.inputs.begin(), x.inputs.end());
      if (x.is_view()) stack.push_back(x.base);
    }
    return false;
  }

  const Trace& t_;
  ValueGraph g_;
  std::unordered_set<std::int32_t, ValueKeyHash, ValueKeyEqual> merged_;
};

}  // namespace

ValueGraph simplify(const Trace& trace) { return Simplifier(trace).run(); }

void sort_inputs_first(ValueGraph& g) {
  const auto n = static_cast<std::int32_t>(g.values.size());
  std::vector<std::int32_t> place(n, -1), order;
  std::vector<std::pair<std::int32_t, bool>> stack;  // a value, and whether what it needs is on the stack above it
  for (std::int32_t v = 0; v < n; ++v) {
    stack.emplace_back(v, false);
    while (!stack.empty()) {
      const auto [top, entered] = stack.back();
      stack.pop_back();
      if (place[top] >= 0) continue;
      if (entered) {
        place[top] = static_cast<std::int32_t>(order.size());
        order.push_back(top);
        continue;
      }
      stack.emplace_back(top, true);
      const Value& x = g.values[top];
      if (x.is_view()) stack.emplace_back(x.base, false);
      for (auto in = x.inputs.rbegin(); in != x.inputs.rend(); ++in) stack.emplace_back(*in, false);
    }
  }
  std::vector<Value> sorted;
  for (std::int32_t v : order) {
    Value& x = sorted.emplace_back(std::move(g.values[v]));
    for (std::int32_t& in : x.inputs) in = place[in];
    if (x.is_view()) x.base = place[x.base];
  }
  g.values = std::move(sorted);
  for (std::int32_t& v : g.of_node) v = place[v];
  for (std::int32_t& v : g.roots) v = place[v];
}

}  // namespace ebb
