// SPDX-License-Identifier: MIT
#include "ebb/compile.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "ebb/ebb.h"
#include "expect_error.h"

// Behaviour of compiled functions; tests/table and the losses' tests check that they compute the same as the functions.
namespace ebb {
namespace {

Tensor compiled_numbers(const Shape& shape, unsigned seed = 1) {
  manual_seed(seed);
  return randn(shape, DType::f64).eval();
}

// A function that counts its calls.
struct Counted {
  std::shared_ptr<int> calls = std::make_shared<int>(0);
  Function f = [calls = calls](const Tensor& x) {
    ++*calls;
    return sum(square(x));
  };
};

TEST(Compile, BuildsOnceForASignature) {
  const Counted counted;
  const Function compiled = compile(counted.f);
  for (unsigned seed = 1; seed < 5; ++seed) {
    const Tensor x = compiled_numbers({3, 4}, seed);
    EXPECT_EQ(compiled(x).item(), counted.f(x).item());
  }
  EXPECT_EQ(*counted.calls, 4 + 1);
  compiled(compiled_numbers({5}));                      // another shape
  compiled(cast(compiled_numbers({5}), DType::f32));    // another dtype
  compiled(transpose(compiled_numbers({4, 3}), 0, 1));  // other strides
  EXPECT_EQ(*counted.calls, 4 + 4);
  compiled(compiled_numbers({3, 4}));
  compiled(compiled_numbers({5}));
  EXPECT_EQ(*counted.calls, 4 + 4);
}

TEST(Compile, ForgetsTheSignatureThatWasNotUsedForLongest) {
  const Counted counted;
  const Function compiled = compile(counted.f);
  for (std::int64_t n = 1; n <= 65; ++n) compiled(ones({n}));
  EXPECT_EQ(*counted.calls, 65);
  compiled(ones({65}));
  compiled(ones({2}));
  EXPECT_EQ(*counted.calls, 65);
  EXPECT_EQ(compiled(ones({1})).item(), 1);
  EXPECT_EQ(*counted.calls, 66);
}

TEST(Compile, TakesInputsThatAreNotComputedYet) {
  const Function compiled = compile(Function([](const Tensor& x) { return exp(x); }));
  const Tensor x = compiled_numbers({7});
  compiled(x);
  EXPECT_EQ(compiled(x * 2).to_vector(), exp(x * 2).to_vector());
}

TEST(Compile, ResultsMayBeInputsViewsConstantsOrTheSameTwice) {
  const Tensor fixed = compiled_numbers({2}, 9);
  const FunctionToMany f = [&](const std::vector<Tensor>& v) {
    const Tensor y = tanh(v[0]);
    return std::vector<Tensor>{v[0], transpose(v[0], 0, 1), y, y, reshape(y, {6}), zeros({2, 2}), fixed, fixed * 2};
  };
  const FunctionToMany compiled = compile(f);
  for (unsigned seed : {1u, 2u}) {
    const Tensor x = compiled_numbers({2, 3}, seed);
    const std::vector<Tensor> got = compiled({x}), expected = f({x});
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t k = 0; k < got.size(); ++k) {
      EXPECT_EQ(got[k].shape(), expected[k].shape()) << k;
      EXPECT_EQ(got[k].to_vector(), expected[k].to_vector()) << k;
    }
  }
}

TEST(Compile, WorksWithoutInputsAndWithoutResults) {
  const FunctionToMany none = compile(FunctionToMany([](const std::vector<Tensor>&) { return std::vector<Tensor>{}; }));
  EXPECT_TRUE(none({}).empty());
  EXPECT_TRUE(none({ones({2})}).empty());
  const FunctionOfMany fixed = compile(FunctionOfMany([](const std::vector<Tensor>&) { return sum(arange(5)); }));
  EXPECT_EQ(fixed({}).item(), 10);
  EXPECT_EQ(fixed({}).item(), 10);
}

TEST(Compile, EmptyTensors) {
  const auto compiled = compile(value_and_grad(Function([](const Tensor& x) { return sum(exp(x)); })));
  for (int k = 0; k < 2; ++k) {
    const auto [value, gradient] = compiled(zeros({0, 3}));
    EXPECT_EQ(value.item(), 0);
    EXPECT_EQ(gradient.shape(), (Shape{0, 3}));
  }
}

// Calls that need row-major inputs copy other layouts, and only those.
TEST(Compile, KnowsHowItsInputsLie) {
  const FunctionToMany f = [](const std::vector<Tensor>& v) {
    const Tensor x = variable(v[0]), head = variable(v[1]);
    const Tensor loss = linear_cross_entropy(x, head, v[2]);
    const Gradients g = backward(loss);
    return std::vector<Tensor>{loss, g[x], g[head]};
  };
  const FunctionToMany compiled = compile(f);
  const Tensor target = tensor({1, 0, 4, 2, 3, 1});
  const auto peak = [](const FunctionToMany& function, const std::vector<Tensor>& inputs) {
    eval(function(inputs));
    release_cached_memory();
    reset_peak_memory(default_device());
    const std::size_t before = memory_stats(default_device()).live;
    eval(function(inputs));
    return memory_stats(default_device()).peak - before;
  };
  for (const bool transposed : {false, true}) {
    Tensor x = compiled_numbers({6, 300}), head = compiled_numbers({5, 300}, 2);
    if (transposed) {
      x = transpose(contiguous(transpose(x, 0, 1)), 0, 1).eval();
      head = transpose(contiguous(transpose(head, 0, 1)), 0, 1).eval();
    }
    const std::vector<Tensor> inputs{x, head, target};
    const std::vector<Tensor> got = compiled(inputs), expected = f(inputs);
    for (std::size_t k = 0; k < got.size(); ++k) EXPECT_EQ(got[k].to_vector(), expected[k].to_vector()) << k;
    if (default_device().kind == Device::Kind::cpu) {
      EXPECT_EQ(peak(compiled, inputs), peak(f, inputs));
    } else {
      EXPECT_LE(peak(compiled, inputs), peak(f, inputs));  // a GPU's compiled functions keep their memory
    }
  }
}

// ---- gradients ------------------------------------------------------------------------------------------------------

TEST(Compile, OfAGradientHasNoHistory) {
  const auto step = compile(value_and_grad(Function([](const Tensor& x) { return sum(pow(x, 3.0)); })));
  const Tensor x = compiled_numbers({5});
  for (int k = 0; k < 2; ++k) {
    const auto [value, gradient] = step(x);
    EXPECT_FALSE(value.requires_grad() || gradient.requires_grad());
    EXPECT_EQ(gradient.to_vector(), (3 * square(x)).to_vector());
  }
}

TEST(Compile, OfManyInputsAndTheirGradients) {
  const FunctionOfMany f = [](const std::vector<Tensor>& v) { return mse_loss(matmul(v[0], v[1]), v[2]); };
  const auto plain = value_and_grad(f), step = compile(value_and_grad(f));
  for (unsigned seed : {1u, 2u}) {
    const std::vector<Tensor> v{compiled_numbers({3, 4}, seed), compiled_numbers({4, 2}, seed + 10),
                                compiled_numbers({3, 2}, seed + 20)};
    const auto [value, gradients] = step(v);
    const auto [expected, expected_gradients] = plain(v);
    EXPECT_EQ(value.item(), expected.item());
    ASSERT_EQ(gradients.size(), 3u);
    for (int k = 0; k < 3; ++k) EXPECT_EQ(gradients[k].to_vector(), expected_gradients[k].to_vector());
  }
}

TEST(Compile, IsDifferentiatedThroughTheFunction) {
  const Counted counted;
  const Function compiled = compile(counted.f);
  const Tensor x = compiled_numbers({3});
  compiled(x);
  EXPECT_EQ(grad(compiled)(x).to_vector(), (2 * x).to_vector());
  const Tensor w = variable(x);
  EXPECT_EQ(backward(compiled(w))[w].to_vector(), (2 * x).to_vector());
  EXPECT_EQ(hvp(compiled, x, ones({3}, DType::f64)).to_vector(), full({3}, 2.0, DType::f64).to_vector());
}

TEST(Compile, GradientsOfGradientsInside) {
  const Function f = [](const Tensor& x) { return sum(exp(x) * x); };
  const Function compiled = compile(Function([f](const Tensor& x) { return hessian(f, x); }));
  for (unsigned seed : {1u, 2u}) {
    const Tensor x = compiled_numbers({4}, seed);
    EXPECT_EQ(compiled(x).to_vector(), hessian(f, x).to_vector());
  }
}

TEST(Compile, CheckpointsInside) {
  const Function block = [](const Tensor& x) { return dropout(tanh(x), 0.5); };
  const auto f = value_and_grad(Function([block](const Tensor& x) { return sum(checkpoint(block, x)); }));
  const auto compiled = compile(f);
  const Tensor x = compiled_numbers({50});
  for (unsigned seed : {1u, 2u}) {
    manual_seed(seed);
    const auto got = compiled(x);
    manual_seed(seed);
    const auto expected = f(x);
    EXPECT_EQ(got.second.to_vector(), expected.second.to_vector());
  }
}

// ---- what is kept and what is not -----------------------------------------------------------------------------------

TEST(Compile, KeepsWhatItCaptures) {
  Tensor captured = compiled_numbers({3}, 7);
  const std::vector<double> then = captured.to_vector();
  const Function compiled = compile(Function([&](const Tensor& x) { return x + captured; }));
  const Tensor x = zeros({3}, DType::f64);
  EXPECT_EQ(compiled(x).to_vector(), then);
  captured = compiled_numbers({3}, 8);
  EXPECT_EQ(compiled(x).to_vector(), then);
}

TEST(Compile, ComputesCapturedValuesOnce) {
  manual_seed(1);
  const Tensor noise = randn({4});  // not computed yet
  const Function compiled = compile(Function([&](const Tensor& x) { return x + noise; }));
  const Tensor x = zeros({4});
  const std::vector<double> first = compiled(x).to_vector();
  EXPECT_EQ(compiled(x).to_vector(), first);
  EXPECT_EQ(noise.to_vector(), first);
}

TEST(Compile, DrawsTheRandomNumbersOfTheFunction) {
  const Function f = [](const Tensor& x) {
    rand({3});  // drawn, and never used
    return dropout(x, 0.5) + rand(x.shape(), x.dtype());
  };
  const Function compiled = compile(f);
  const Tensor x = ones({100});
  manual_seed(5);
  std::vector<std::vector<double>> got, expected;
  for (int k = 0; k < 3; ++k) got.push_back(compiled(x).to_vector());
  const std::uint64_t operations = random_state().next_operation;
  manual_seed(5);
  for (int k = 0; k < 3; ++k) expected.push_back(f(x).to_vector());
  EXPECT_EQ(got, expected);
  EXPECT_NE(got[0], got[1]);
  EXPECT_EQ(operations, random_state().next_operation);
  manual_seed(6);
  const std::vector<double> other = compiled(x).to_vector();
  manual_seed(6);
  EXPECT_EQ(other, f(x).to_vector());
}

TEST(Compile, LetsGoOfItsInputs) {
  const Function compiled = compile(Function([](const Tensor& x) { return sum(x); }));
  for (int k = 0; k < 2; ++k) compiled(ones({1000}));
  const std::size_t before = memory_stats(default_device()).live;
  compiled(ones({1000}));
  EXPECT_EQ(memory_stats(default_device()).live, before);
}

TEST(Compile, FreesValuesOnTheWay) {
  const Function f = [](const Tensor& x) {
    Tensor y = x;
    for (int k = 0; k < 10; ++k) y = cumsum(y, 0);  // each is a call with memory of its own
    return sum(y);
  };
  const Function compiled = compile(f);
  const Tensor x = ones({10000}).eval();
  for (int k = 0; k < 2; ++k) compiled(x);
  reset_peak_memory(default_device());
  const std::size_t before = memory_stats(default_device()).live;
  compiled(x);
  EXPECT_LE(memory_stats(default_device()).peak - before, 3 * 10000 * sizeof(float));
}

// ---- one inside the other, debugging, threads -----------------------------------------------------------------------

TEST(Compile, InsideAnotherIsPartOfIt) {
  const Counted counted;
  const Function inner = compile(counted.f);
  const Function outer = compile(Function([&](const Tensor& x) { return inner(x) + inner(x * 2); }));
  const Tensor x = compiled_numbers({3});
  for (int k = 0; k < 3; ++k) EXPECT_EQ(outer(x).item(), counted.f(x).item() + counted.f(x * 2).item());
  EXPECT_EQ(*counted.calls, 2 + 6);
}

TEST(Compile, InAnEagerScopeCallsTheFunction) {
  const Counted counted;
  const Function compiled = compile(counted.f);
  Eager scope;
  for (int k = 0; k < 3; ++k) compiled(ones({3}));
  EXPECT_EQ(*counted.calls, 3);
}

TEST(Compile, BuildsGraphsDeeperThanTheBound) {
  const int before = set_graph_bound(50);
  const Function f = [](const Tensor& x) {
    Tensor y = x;
    for (int k = 0; k < 200; ++k) y = sin(y);
    return y;
  };
  const Tensor x = compiled_numbers({5});
  EXPECT_EQ(compile(f)(x).to_vector(), f(x).to_vector());
  set_graph_bound(before);
}

TEST(Compile, RunsInSeveralThreadsAtOnce) {
  const auto f = value_and_grad(Function([](const Tensor& x) { return sum(log_softmax(x) * x); }));
  const auto compiled = compile(f);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned k = 0; k < 20; ++k) {
        const Tensor x = compiled_numbers({3 + t % 2, 17}, 100 * t + k);
        if (compiled(x).second.to_vector() != f(x).second.to_vector()) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// ---- errors ---------------------------------------------------------------------------------------------------------

TEST(Compile, RefusesFunctionsThatLookAtNumbers) {
  const Function looks = compile(Function([](const Tensor& x) { return sum(x).item() > 0 ? x : -x; }));
  EXPECT_THROW_MESSAGE(looks(ones({3})), "compile: the function reads values that depend on its inputs");
  // It may read values that do not depend on them.
  const Function may = compile(Function([](const Tensor& x) { return x * sum(arange(4)).item(); }));
  EXPECT_EQ(may(ones({1})).item(), 6);
  // The engine is usable afterwards.
  EXPECT_EQ(sum(ones({3})).item(), 3);
}

TEST(Compile, RefusesVariablesThatAreNotInputs) {
  const Tensor w = variable(compiled_numbers({2, 3}));
  const Function f = compile(Function([&](const Tensor& x) { return matmul(x, w); }));
  EXPECT_THROW_MESSAGE(f(compiled_numbers({4, 2})),
                       "compile: the function uses a variable of shape [2, 3] that is not one of its inputs");
  const Tensor twice = w * 2;
  const Function g = compile(Function([&](const Tensor& x) { return matmul(x, twice); }));
  EXPECT_THROW_MESSAGE(g(compiled_numbers({4, 2})), "that is not one of its inputs");
  const Tensor fixed = stop_gradient(w);
  const Function h = compile(Function([&](const Tensor& x) { return matmul(x, fixed); }));
  const Tensor x = compiled_numbers({4, 2});
  EXPECT_EQ(h(x).to_vector(), matmul(x, fixed).to_vector());
}

TEST(Compile, RefusesInputsKeptFromAnotherFunction) {
  Tensor kept;
  const Function keeps = compile(Function([&](const Tensor& x) { return kept = x; }));
  keeps(ones({3}));
  const Function uses = compile(Function([&](const Tensor& x) { return x + kept; }));
  EXPECT_THROW_MESSAGE(uses(ones({3})), "compile: the function uses an input of another compiled function");
  EXPECT_THROW_MESSAGE(kept.to_vector(), "reads values that depend");
}

TEST(Compile, PassesOnTheErrorsOfTheFunction) {
  const Function f = compile(Function([](const Tensor& x) { return matmul(x, ones({3, 2})); }));
  EXPECT_THROW_MESSAGE(f(ones({4, 2})), "matmul");
  EXPECT_EQ(f(ones({4, 3})).shape(), (Shape{4, 2}));
  // Data-dependent errors come from the run, and the next run is unaffected.
  const FunctionOfMany picks =
      compile(FunctionOfMany([](const std::vector<Tensor>& v) { return cross_entropy(v[0], v[1]); }));
  const Tensor x = compiled_numbers({2, 3});
  const Tensor good = tensor({0, 2}), bad = tensor({0, 7});
  const double expected = cross_entropy(x, good).item();
  EXPECT_EQ(picks({x, good}).item(), expected);
  EXPECT_THROW_MESSAGE(picks({x, bad}), "target[1] = 7 is outside [0, 3)");
  EXPECT_EQ(picks({x, good}).item(), expected);
}

TEST(Compile, NamesInputsAndResultsWithoutAValue) {
  const Function f = compile(Function([](const Tensor&) { return Tensor(); }));
  EXPECT_THROW_MESSAGE(f(ones({1})), "compile: result 0 of the function has no value");
  EXPECT_THROW_MESSAGE(f(Tensor()), "compile: input 0 has no value");
  EXPECT_THROW_MESSAGE(compile(FunctionToMany()), "compile: the function is empty");
  EXPECT_THROW_MESSAGE(compile(Function()), "compile: the function is empty");
}

}  // namespace
}  // namespace ebb
