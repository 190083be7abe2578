// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "comm/local.h"
#include "ebb/autograd.h"
#include "ebb/compile.h"
#include "ebb/distributed.h"
#include "ebb/ops.h"
#include "expect_error.h"

namespace ebb::distributed {
namespace {

std::vector<double> numbers(const Tensor& t) { return cast(t, DType::f64).to_vector(); }

TEST(World, AProgramWithoutALauncherIsAWorldOfOne) {
  const World w = world();
  EXPECT_EQ(w.rank(), 0);
  EXPECT_EQ(w.size(), 1);
  const Tensor x = tensor({1.0, 2.0});
  EXPECT_EQ(numbers(all_reduce(x)), (std::vector<double>{1, 2}));
  EXPECT_EQ(numbers(all_gather(x)), (std::vector<double>{1, 2}));
  EXPECT_EQ(numbers(reduce_scatter(x)), (std::vector<double>{1, 2}));
  EXPECT_TRUE(w.any(true));
  EXPECT_FALSE(w.any(false));
  EXPECT_EQ(w.gather_text("a"), std::vector<std::string>{"a"});
  w.barrier();
}

class Collectives : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 4));

TEST_P(Collectives, GiveWhatTheirNamesSay) {
  run_as_threads(GetParam(), [] {
    const int rank = world().rank(), size = world().size();
    const Tensor own = full({2}, rank + 1.0);
    const double total = size * (size + 1) / 2.0;
    EXPECT_EQ(numbers(all_reduce(own)), (std::vector<double>{total, total}));
    std::vector<double> each;
    for (int r = 0; r < size; ++r) each.insert(each.end(), 2, r + 1.0);
    EXPECT_EQ(numbers(all_gather(own)), each);
    EXPECT_EQ(numbers(broadcast(own, size - 1)), (std::vector<double>{double(size), double(size)}));
    // Element r of rank s goes to rank r.
    const Tensor row = arange(size) + 10 * rank;
    std::vector<double> column, sum{0};
    for (int s = 0; s < size; ++s) column.push_back(rank + 10 * s), sum[0] += rank + 10 * s;
    EXPECT_EQ(numbers(all_to_all(row)), column);
    EXPECT_EQ(numbers(reduce_scatter(row)), sum);
    EXPECT_TRUE(world().any(rank == size - 1));
    EXPECT_FALSE(world().any(false));
    const auto texts = world().gather_text(std::string(static_cast<std::size_t>(rank), 'x'));
    for (int r = 0; r < size; ++r) EXPECT_EQ(texts[static_cast<std::size_t>(r)].size(), static_cast<std::size_t>(r));
  });
}

TEST_P(Collectives, LargeOnesAreSummedInPartsWithTheSameBits) {
  run_as_threads(GetParam(), [] {
    manual_seed(static_cast<std::uint64_t>(world().rank()));
    const Tensor drawn = (randn({10007}) * 8).eval();  // larger than what is sent to everyone, and not divisible
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8}) {
      const Tensor x = cast(drawn, dtype).eval();
      const Tensor whole = all_reduce(x);
      const Tensor first = all_reduce(narrow(x, 0, 0, 100));
      EXPECT_EQ(numbers(narrow(whole, 0, 0, 100)), numbers(first)) << name(dtype);
    }
  });
}

TEST_P(Collectives, WorkForEveryDTypeAndLayout) {
  run_as_threads(GetParam(), [] {
    const double size = world().size();
    for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8}) {
      const Tensor x = t(reshape(cast(arange(6), dtype), {2, 3}));  // strided
      std::vector<double> expected;
      for (double v : {0., 3., 1., 4., 2., 5.}) expected.push_back(v * size);
      EXPECT_EQ(numbers(reshape(all_reduce(x), {6})), expected) << name(dtype);
    }
    EXPECT_EQ(all_reduce(zeros({0, 3})).shape(), (Shape{0, 3}));
    EXPECT_EQ(numbers(all_reduce(tensor(2.0))), std::vector<double>{2 * size});
  });
}

// The loss of the world is Σ over ranks of Σ w·f(x), so gradients can be checked against one process that has all x.
TEST_P(Collectives, HaveTheGradientsOfTheSumOfAllLosses) {
  const int ranks = GetParam();
  struct Case {
    const char* name;
    std::function<Tensor(const Tensor&)> f;
    // The result of every rank from the inputs of all, for the reference.
    std::function<std::vector<Tensor>(const std::vector<Tensor>&)> reference;
  };
  const auto total = [](const std::vector<Tensor>& x) {
    Tensor s = x[0];
    for (std::size_t k = 1; k < x.size(); ++k) s = s + x[k];
    return s;
  };
  const std::vector<Case> cases{
      {"all_reduce", [](const Tensor& x) { return all_reduce(x); },
       [&](const std::vector<Tensor>& x) { return std::vector<Tensor>(x.size(), total(x)); }},
      {"all_gather", [](const Tensor& x) { return all_gather(x); },
       [&](const std::vector<Tensor>& x) { return std::vector<Tensor>(x.size(), cat(x)); }},
      {"reduce_scatter", [](const Tensor& x) { return reduce_scatter(x); },
       [&](const std::vector<Tensor>& x) { return chunk(total(x), static_cast<std::int64_t>(x.size())); }},
      {"broadcast", [&](const Tensor& x) { return broadcast(x, world().size() - 1); },
       [&](const std::vector<Tensor>& x) { return std::vector<Tensor>(x.size(), x.back()); }},
      {"all_to_all", [](const Tensor& x) { return all_to_all(x); },
       [&](const std::vector<Tensor>& x) {
         std::vector<Tensor> out;
         for (std::size_t r = 0; r < x.size(); ++r) {
           std::vector<Tensor> parts;
           for (const Tensor& t : x) parts.push_back(chunk(t, static_cast<std::int64_t>(x.size()))[r]);
           out.push_back(cat(parts));
         }
         return out;
       }},
  };
  for (const Case& c : cases) {
    const auto input = [&](int r) { return sin(arange(12.0) + r * 3.0); };
    const auto loss = [](const Tensor& y, int r) { return sum(square(y) * (r + 1.0)); };
    std::vector<Tensor> x;
    for (int r = 0; r < ranks; ++r) x.push_back(variable(input(r)));
    const std::vector<Tensor> y = c.reference(x);
    Tensor all = loss(y[0], 0);
    for (int r = 1; r < ranks; ++r) all = all + loss(y[static_cast<std::size_t>(r)], r);
    const Gradients expected = backward(all);
    std::vector<std::vector<double>> wanted;
    for (const Tensor& v : x) wanted.push_back(numbers(expected[v]));
    run_as_threads(ranks, [&] {
      const int r = world().rank();
      const Tensor own = variable(input(r));
      const Gradients g = backward(loss(c.f(own), r));
      const std::vector<double> got = numbers(g[own]);
      for (std::size_t k = 0; k < got.size(); ++k) {
        EXPECT_NEAR(got[k], wanted[static_cast<std::size_t>(r)][k], 1e-4) << c.name << " rank " << r;
      }
    });
  }
}

// A rank that never reads a result takes part all the same.
TEST_P(Collectives, AreComputedInTheOrderOfTheirCreationWhoeverAsks) {
  run_as_threads(GetParam(), [] {
    const Tensor a = all_reduce(full({3}, 1.0)), b = all_gather(full({2}, 2.0)), c = all_reduce(full({4}, 3.0));
    const double size = world().size();
    if (world().rank() == 0) {
      EXPECT_EQ(numbers(c)[0], 3 * size);
    }
    EXPECT_EQ(numbers(b)[0], 2);
    if (world().rank() != 0) {
      EXPECT_EQ(numbers(a)[0], size);
    }
    const Tensor last = all_reduce(full({1}, 5.0));
    if (world().rank() == 0) {  // others end their program without it
      EXPECT_EQ(last.item(), 5 * size);
    }
  });
}

TEST_P(Collectives, EqualOnesAreNotMerged) {
  run_as_threads(GetParam(), [] {
    const Tensor x = full({3}, 1.0);
    const auto before = world().traffic().collectives;
    eval({all_reduce(x), all_reduce(x)});
    EXPECT_EQ(world().traffic().collectives - before, world().size() > 1 ? 2 : 0);
  });
}

struct Mismatch {
  const char* name;
  std::function<void(int rank)> program;
  const char* text;
};

TEST(Collectives, NameTheFirstDifferenceBetweenPrograms) {
  const std::vector<Mismatch> cases{
      {"shape", [](int r) { all_reduce(zeros({r == 1 ? 3 : 2})).eval(); },
       "rank 1 on localhost does all_reduce of f32 [3]"},
      {"dtype", [](int r) { all_reduce(zeros({2}, r == 2 ? DType::f64 : DType::f32)).eval(); },
       "all_reduce of f64 [2]"},
      {"operation", [](int r) { r == 1 ? all_gather(zeros({2})).eval() : all_to_all(zeros({3})).eval(); },
       "rank 1 on localhost does all_gather"},
      {"root", [](int r) { broadcast(zeros({2}), r == 2 ? 1 : 0).eval(); }, "from rank 1"},
      {"order",
       [](int r) {
         const Tensor a = r == 0 ? all_reduce(zeros({2})) : all_reduce(zeros({5}));
         const Tensor b = r == 0 ? all_reduce(zeros({5})) : all_reduce(zeros({2}));
         eval({a, b});
       },
       "differ at collective 0"},
      {"end",
       [](int r) {
         if (r != 2) world().barrier();
       },
       "rank 2 on localhost has ended its program"},
  };
  for (const Mismatch& c : cases) {
    std::atomic<int> errors{0};
    run_as_threads(3, [&] {
      try {
        c.program(world().rank());
      } catch (const Error& e) {
        ++errors;
        EXPECT_NE(std::string(e.what()).find(c.text), std::string::npos) << e.what();
        EXPECT_THROW(world().barrier(), Error);  // no way back
      }
    });
    EXPECT_EQ(errors, std::string(c.name) == "end" ? 2 : 3) << c.name;
  }
}

TEST(Collectives, RefuseWhatCannotBeDivided) {
  run_as_threads(2, [] {
    EXPECT_THROW_MESSAGE(reduce_scatter(zeros({3})), "cannot be divided among 2 ranks");
    EXPECT_THROW_MESSAGE(all_to_all(zeros({})), "cannot be divided");
    EXPECT_THROW_MESSAGE(broadcast(zeros({3}), 2), "there is no rank 2");
    EXPECT_THROW_MESSAGE(all_reduce(zeros({2}, DType::bool_)), "truth values");
  });
}

// On every call, in order, including those whose results are not used.
TEST(Collectives, ArePartOfCompiledFunctions) {
  run_as_threads(3, [] {
    const auto f = compile([](const Tensor& x) {
      const Tensor a = all_reduce(x * 2.0);
      all_gather(x);
      return all_reduce(a + 1.0);
    });
    for (int k = 0; k < 4; ++k) {
      const std::int64_t done = world().traffic().collectives;
      const Tensor before = all_reduce(full({2}, world().rank() + 0.0));  // only rank 1 reads it, afterwards
      const Tensor y = f(full({5}, world().rank() + static_cast<double>(k)));
      EXPECT_EQ(numbers(y), std::vector<double>(5, 3.0 * (2 * (3 + 3 * k) + 1)));
      EXPECT_EQ(world().traffic().collectives - done, 4);
      if (world().rank() == 1) {
        EXPECT_EQ(numbers(before)[0], 3);
      }
    }
    EXPECT_EQ(numbers(f(zeros({70000})))[0], 3);  // other shapes are another trace, and large sums use another exchange
  });
}

TEST(Collectives, CompiledFunctionsThatDifferAreAnError) {
  std::atomic<int> errors{0};
  run_as_threads(2, [&] {
    const auto f =
        compile([](const Tensor& x) { return world().rank() == 0 ? all_reduce(x) : sum(all_gather(x)) + x; });
    try {
      f(zeros({4})).eval();
    } catch (const Error& e) {
      ++errors;
      EXPECT_NE(std::string(e.what()).find("programs of the ranks differ"), std::string::npos) << e.what();
    }
  });
  EXPECT_EQ(errors, 2);
}

TEST(Collectives, ARankThatFailsEndsTheOthers) {
  std::atomic<int> told{0};
  EXPECT_THROW_MESSAGE(run_as_threads(3,
                                      [&] {
                                        if (world().rank() == 0) throw Error("out of disk");
                                        try {
                                          all_reduce(zeros({2})).eval();
                                        } catch (const Error& e) {
                                          told += std::string(e.what()).find("rank 0 on localhost has ended") !=
                                                  std::string::npos;
                                          throw;
                                        }
                                      }),
                       "out of disk");
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace ebb::distributed
