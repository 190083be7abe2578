// SPDX-License-Identifier: MIT
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "cases/all_cases.h"
#include "cpu/jit/loop.h"
#include "ebb/ebb.h"
#include "graph/node.h"
#include "target.h"

// Random graphs: any operation of the table on operands of any shape, dtype and layout, with indices in and out of
// range, NaN and infinities. Results must not depend on the number of threads, on loops of machine code or on
// compile(); one operation after the other must give about the same; an error must occur in all ways or in none.
namespace ebb::fuzz {
namespace {

constexpr std::int64_t kMostElements = 20'000;

using Results = std::vector<Tensor>;

class Graph {
 public:
  explicit Graph(Bytes bytes) : start_(bytes) {
    space_ = shape(start_);
    const std::size_t count = 2 + start_.below(3);
    for (std::size_t k = 0; k < count; ++k) leaves_.push_back(leaf(start_, k == 0));
  }

  const std::vector<Tensor>& leaves() const { return leaves_; }

  // The same steps on these leaves, whenever it is called.
  Results build(const std::vector<Tensor>& leaves) const {
    Choices c = start_;
    std::vector<Tensor> pool = leaves;
    Results results;
    for (int steps = 0; !c.empty() && steps < 24; ++steps) {
      may_fail([&] {
        const Tensor made = step(c, pool);
        if (!made.defined() || room(made.shape()) > kMostElements) return;  // huge: only its shape was of interest
        pool.push_back(made);
        if (c.below(3) == 0) results.push_back(made);
      });
    }
    results.push_back(pool.back());
    return results;
  }

 private:
  static Shape shape(Choices& c) {
    static constexpr std::int64_t kSizes[] = {3, 1, 2, 5, 0, 4, 7, 16, 33, 9, 130};
    std::vector<std::int64_t> sizes(c.below(4));
    for (std::int64_t& size : sizes) size = kSizes[c.below(std::size(kSizes))];
    const Shape made(sizes);
    return made.numel() > kMostElements ? Shape{33, 3} : made;
  }

  // The elements, and the sums over an empty tensor: a billion rows without columns are a billion sums.
  static double room(const Shape& shape) {
    double product = 1;
    for (const std::int64_t size : shape) product *= static_cast<double>(std::max<std::int64_t>(size, 1));
    return product;
  }

  static DType dtype(Choices& c) {
    static constexpr DType kTypes[] = {DType::f32, DType::f32,   DType::f32, DType::f64, DType::bf16,
                                       DType::f16, DType::bool_, DType::i64, DType::i32, DType::u8};
    return kTypes[c.below(std::size(kTypes))];
  }

  Tensor leaf(Choices& c, bool first) const {
    static constexpr double kInf = std::numeric_limits<double>::infinity();
    static constexpr double kSpecial[] = {
        0,     -0.0, 1,     -1,   kInf, -kInf, std::numeric_limits<double>::quiet_NaN(),
        1e-40, 3e38, 65504, 1e-7, 255,  -128,  1e300};
    Shape s = space_;
    if (!first) {
      const std::size_t kind = c.below(5);
      if (kind == 1 && s.rank() > 0) s = s.with(s.rank() - 1, 1);
      if (kind == 2 && s.rank() > 1) s = Shape{s[s.rank() - 1]};
      if (kind == 3) s = Shape{};
      if (kind == 4) s = shape(c);
    }
    const DType type = dtype(c);
    const bool wild = c.below(4) == 0;
    std::uint32_t state = 1 + c.byte();
    std::vector<double> values(static_cast<std::size_t>(s.numel()));
    for (double& v : values) {
      state = state * 1664525u + 1013904223u;
      v = static_cast<double>(state >> 8) * 0x1p-22 - 2;
      if (!is_floating(type)) v = std::floor(v * 2);
      if (wild && state >> 28 == 0) v = kSpecial[(state >> 20) % std::size(kSpecial)];
    }
    Tensor t = cast(from_data(values, s), type).eval();
    const std::size_t layout = c.below(6);
    if (layout == 1 && s.rank() > 1) t = transpose(cast(transpose(t, 0, -1), type).eval(), 0, -1);
    if (layout == 2 && s.rank() > 0) t = flip(t, {0}).eval();
    if (layout == 3 && s.rank() > 0) t = slice(cat({t, t}, -1).eval(), -1, 0, kEnd, 2);
    return t.eval();
  }

  Tensor step(Choices& c, const std::vector<Tensor>& pool) const {
    const auto any = [&]() -> const Tensor& { return pool[c.below(pool.size())]; };
    const auto axis = [&] { return static_cast<std::int64_t>(c.below(5)) - 2; };
    const auto size = [&]() -> std::int64_t {
      static constexpr std::int64_t kSizes[] = {1,
                                                2,
                                                3,
                                                0,
                                                4,
                                                33,
                                                -1,
                                                std::int64_t{1} << 31,
                                                std::int64_t{1} << 40,
                                                std::numeric_limits<std::int64_t>::max(),
                                                std::numeric_limits<std::int64_t>::min(),
                                                -3,
                                                17};
      return kSizes[c.below(std::size(kSizes))];
    };
    const Tensor& x = any();
    switch (c.below(60)) {
      case 0:
        return reshape(x, {x.numel()});
      case 1:
        return reshape(x, {size(), size()});
      case 2:
        return transpose(x, axis(), axis());
      case 3: {
        const std::int64_t start = size(), stop = size();
        return slice(x, axis(), start, stop, size());
      }
      case 4:
        return flip(x, {axis()});
      case 5:
        return expand(x, Shape{size(), size()});
      case 6:
        return cat({x, any()}, axis());
      case 7:
        return stack({x, any(), x}, axis());
      case 8:
        return cast(x, dtype(c));
      case 9:
        return gather(x, axis(), cast(any(), DType::i64));
      case 10:
        return index_select(x, axis(), cast(any(), DType::i64));
      case 11:
        return where(cast(any(), DType::bool_), x, any());
      case 12:
        return sort(x, axis(), c.below(2) == 0).first;
      case 13:
        return topk(x, size(), axis()).second;
      case 14:
        return cumsum(x, axis());
      case 15:
        return softmax(x, axis());
      case 16:
        return sum(x, axis(), c.below(2) == 0);
      case 17:
        return mean(x);
      case 18:
        return max(x, axis(), c.below(2) == 0);
      case 19:
        return matmul(x, any());
      case 20:
        return x + any();
      case 21:
        return x * any() - 0.5;
      case 22:
        return x / any();
      case 23:
        return cast(x > any(), DType::f32);
      case 24:
        return cross_entropy(x, cast(any(), DType::i64));
      case 25:
        return layer_norm(x, {x.size(-1)});
      case 26:
        return unsqueeze(x, axis());
      case 27:
        return repeat(x, {size(), size()});
      case 28:
        return tril(x, size());
      case 29:
        return full(Shape{size(), size()}, 1.5);
      case 30:
        return conv1d(x, any(), {}, {.stride = size(), .padding = size()});
      case 31:
        return max_pool1d(x, size());
      case 32:
        return c.below(2) ? det(x) : solve(x, any());
      case 33:
        return scatter(x, axis(), cast(any(), DType::i64), any());
      case 34:
        return argmax(x, axis());
      default: {
        const auto& cases = table::all_cases();
        const table::Case& one = cases[(c.byte() * 256u + c.byte()) % cases.size()];
        if (expects_checked_operands(one.op)) return x + 1;
        table::Tensors inputs{x};
        while (inputs.size() < one.inputs.size()) inputs.push_back(any());
        for (std::size_t k = 0; k < inputs.size(); ++k) {
          if (one.inputs[k].kind == table::Input::Kind::index) inputs[k] = cast(inputs[k], DType::i64);
          if (one.inputs[k].kind == table::Input::Kind::mask) inputs[k] = cast(inputs[k], DType::bool_);
        }
        return one.call(inputs);
      }
    }
  }

  // Some cases call the graph's own functions, for operands that the operation has checked; the steps above call the
  // operations themselves.
  static bool expects_checked_operands(Op op) {
    const OpClass cls = info(op).cls;
    return (cls != OpClass::elementwise && cls != OpClass::alias && cls != OpClass::reduce) || op == Op::check ||
           op == Op::fma || op == Op::copy;
  }

  Choices start_;
  Shape space_;
  std::vector<Tensor> leaves_;
};

// Outcome of one way of computing: the elements, or the error.
struct Outcome {
  Results results;
  std::vector<HostElements> elements;
  std::optional<std::string> error;
};

Outcome outcome(const std::function<Results()>& compute) {
  Outcome o;
  try {
    o.results = compute();
    eval(o.results);
    for (const Tensor& t : o.results) o.elements.push_back(host_elements(t));
  } catch (const Error& error) {
    o.error = error.what();
    if (o.error->find("internal") != std::string::npos) found(*o.error);
  }
  return o;
}

// Equal in every bit, except that all NaNs are equal.
void expect_same(const Outcome& a, const Outcome& b, const std::string& ways, const std::function<Results()>& compute) {
  const auto found = [&](const std::string& what) { fuzz::found(what + "\n" + print_schedule(compute())); };
  if (a.error.has_value() != b.error.has_value())
    found(ways + ": one of them fails: " + (a.error ? *a.error : *b.error));
  if (a.error) return;
  for (std::size_t k = 0; k < a.results.size(); ++k) {
    if (a.results[k].shape() != b.results[k].shape() || a.results[k].dtype() != b.results[k].dtype())
      found(ways + ": results of different shapes or dtypes");
    const auto &left = a.elements[k].bytes, &right = b.elements[k].bytes;
    if (left.empty() || std::memcmp(left.data(), right.data(), left.size()) == 0) continue;
    const std::vector<double> x = a.results[k].to_vector(), y = b.results[k].to_vector();
    for (std::size_t i = 0; i < x.size(); ++i) {
      if ((std::isnan(x[i]) && std::isnan(y[i])) ||
          std::bit_cast<std::uint64_t>(x[i]) == std::bit_cast<std::uint64_t>(y[i]))
        continue;
      char text[200];
      std::snprintf(text, sizeof text, "%s: element %zu of result %zu (%s) is %.17g and %.17g", ways.c_str(), i, k,
                    std::string(name(a.results[k].dtype())).c_str(), x[i], y[i]);
      found(text);
    }
  }
}

struct Way {
  Way(int threads, cpu::NativeLoops loops) {
    set_num_threads(threads);
    cpu::set_native_loops(loops);
  }
  ~Way() { cpu::set_native_loops(cpu::NativeLoops::for_large_sweeps); }
};

Tensor total(const Results& results) {
  Tensor all = zeros({});
  for (const Tensor& t : results) {
    if (is_floating(t.dtype())) all = all + sum(cast(t, DType::f32));
  }
  return all;
}

// The gradients of a sum of all results with respect to the leaves, and of a sum of those.
Results gradients(const Graph& graph, bool second) {
  std::vector<Tensor> leaves = graph.leaves(), variables;
  for (Tensor& t : leaves) {
    if (is_floating(t.dtype())) variables.push_back(t = variable(t));
  }
  const Gradients g = backward(total(graph.build(leaves)), {.create_graph = second});
  Results all;
  for (const Tensor& v : variables) all.push_back(g[v]);
  if (!second) return all;
  const Gradients h = backward(total(all));
  for (const Tensor& v : variables) all.push_back(h[v]);
  return all;
}

}  // namespace
}  // namespace ebb::fuzz

EBB_FUZZ_TARGET(graph) {
  using namespace ebb;
  using namespace ebb::fuzz;
  using cpu::NativeLoops;
  set_memory_limit(std::size_t{1} << 30);
  const Graph graph(bytes);
  const auto plain = [&] { return graph.build(graph.leaves()); };
  const auto in_way = [&](int threads, NativeLoops loops, const std::function<Results()>& compute) {
    const Way way(threads, loops);
    return outcome(compute);
  };
  const Outcome steps = in_way(1, NativeLoops::never, plain);
  expect_same(steps, in_way(3, NativeLoops::never, plain), "one thread and three", plain);
  expect_same(steps, in_way(1, NativeLoops::always, plain), "steps and loops of machine code", plain);
  const auto compiled = [&] {
    const FunctionToMany f = compile(FunctionToMany([&](const std::vector<Tensor>& x) { return graph.build(x); }));
    f(graph.leaves());
    return f(graph.leaves());
  };
  expect_same(steps, in_way(1, NativeLoops::never, compiled), "plain and compiled", plain);

  const auto once = [&] { return gradients(graph, false); };
  const auto twice = [&] { return gradients(graph, true); };
  for (const std::function<Results()>& way : {std::function<Results()>(once), std::function<Results()>(twice)}) {
    expect_same(in_way(1, NativeLoops::never, way), in_way(3, NativeLoops::always, way),
                "gradients by one thread and by three with loops of machine code", way);
  }
}
