// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <span>
#include <sstream>

#include "backend/call.h"
#include "comm/division.h"
#include "comm/local.h"
#include "expect_error.h"
#include "ops/build.h"
#include "small_models.h"

namespace small {
namespace {

// The final state of all ranks of a world as one string, since they agree.
template <class Model>
std::string trained_by(int ranks, const Settings& s = {}, int per_host = 100) {
  std::mutex mutex;
  std::set<std::string> all;
  distributed::run_as_threads(
      ranks,
      [&] {
        const std::string own = trained<Model>(s);
        const std::lock_guard lock(mutex);
        all.insert(own);
      },
      per_host);
  EXPECT_EQ(all.size(), 1u) << "ranks disagree";
  return *all.begin();
}

template <class Model>
void expect_same_bits(const Settings& s, std::initializer_list<int> ranks = {2, 3, 4}) {
  const std::string alone = trained_by<Model>(1, s);
  for (int r : ranks) EXPECT_TRUE(trained_by<Model>(r, s) == alone) << r << " ranks";
}

TEST(DataParallel, AnMlpHasTheBitsOfOneProcess) { expect_same_bits<Mlp>({}); }
TEST(DataParallel, AConvolutionalNetworkWithBatchNormHasTheBitsOfOneProcess) { expect_same_bits<ConvNet>({}, {2, 4}); }
TEST(DataParallel, ATransformerHasTheBitsOfOneProcess) { expect_same_bits<Gpt>({.steps = 20}, {2, 4}); }
TEST(DataParallel, ClippingAndAccumulationKeepTheBits) {
  expect_same_bits<ConvNet>({.steps = 10, .accumulate = 3, .clip = 0.1}, {2, 4});
}
TEST(DataParallel, RanksSkipTheSameSteps) {
  const Settings s{.steps = 40, .half = true};
  expect_same_bits<Mlp>(s, {2, 4});
  EXPECT_NE(trained_by<Mlp>(1, s).find(" skipped"), std::string::npos);
  EXPECT_EQ(trained_by<Mlp>(1, s).find(", 0 skipped"), std::string::npos);
}
TEST(DataParallel, ManyShardsAndUnevenOnes) {
  expect_same_bits<Mlp>({.shards = 7, .steps = 10, .batch = 25}, {2, 3, 5});
  expect_same_bits<Mlp>({.shards = 8, .steps = 10, .batch = 19}, {3, 4});
}
TEST(DataParallel, BucketsChangeNoBits) {
  const std::string one = trained_by<Mlp>(2, {.steps = 10});
  EXPECT_TRUE(trained_by<Mlp>(2, {.steps = 10, .bucket_bytes = 1}) == one);
  EXPECT_TRUE(trained_by<Mlp>(2, {.steps = 10, .bucket_bytes = 400}) == one);
}

TEST(DataParallel, OverlapChangesNoBits) {
  for (const bool to_owners : {false, true}) {
    Settings s{.steps = 10, .clip = 0.1, .sharded = to_owners, .to_owners = to_owners};
    const std::string alone = trained_by<ConvNet>(1, s);
    s.overlap = true;
    for (const std::int64_t bucket : {1, 400, 8 << 20}) {
      s.bucket_bytes = bucket;
      EXPECT_TRUE(trained_by<ConvNet>(2, s) == alone) << bucket;
      EXPECT_TRUE(trained_by<ConvNet>(4, s, 1) == alone) << bucket;
    }
  }
}

// The exchange of the last layer's gradient begins before the first layer's is computed, and is waited for afterwards.
TEST(DataParallel, OverlapBeginsWithTheLastLayer) {
  distributed::run_as_threads(2, [] {
    const Data data = some_data();
    manual_seed(3);
    Mlp model;
    model.dropout.p = 0;
    distributed::DataParallel parallel({.shards = 2, .bucket_bytes = 1, .overlap = true});
    const auto r =
        parallel.gradients(model, parallel.shards_of({data.inputs, data.labels}),
                           [](Mlp& m, const Batch& b) { return distributed::ShardLoss{cross_entropy(m(b[0]), b[1])}; });
    std::vector<Tensor> all{r.loss};
    for (const auto& [v, g] : r.gradients.all()) all.push_back(g);
    const std::string text = print_schedule(all);
    std::string order;  // P: a product, C: a collective
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("call matmul")) order += 'P';
      if (line.starts_with("call collective")) order += 'C';
    }
    const std::size_t first = order.find('C'), last_product = order.rfind('P');
    EXPECT_LT(first, last_product) << order << "\n" << text;
    EXPECT_GT(order.size(), last_product + 2) << order;  // the rest, and the end
    eval(all);
  });
}

// The optimisers that need whole parameters are the difficult ones.
TEST(ShardedOptimizer, HasTheBitsOfTheUnshardedOne) {
  for (const char* optimizer : {"adamw", "sgd", "lamb", "muon"}) {
    const Settings plain{.steps = 10, .optimizer = optimizer};
    Settings sharded = plain;
    sharded.sharded = true;
    const std::string alone = trained_by<Mlp>(1, plain);
    for (int ranks : {1, 2, 4}) EXPECT_TRUE(trained_by<Mlp>(ranks, sharded) == alone) << optimizer << " on " << ranks;
  }
}

// Ranks of one host read each other's memory, others send messages; some have several blocks of shards.
TEST(DataParallel, HostsChangeNoBits) {
  for (const bool to_owners : {false, true}) {
    const Settings s{.shards = 7, .steps = 8, .clip = 0.1, .sharded = to_owners, .to_owners = to_owners, .batch = 25};
    const std::string alone = trained_by<Mlp>(1, s);
    for (const auto& [ranks, per_host] : {std::pair{2, 1}, {4, 1}, {5, 2}, {3, 3}, {3, 2}}) {
      EXPECT_TRUE(trained_by<Mlp>(ranks, s, per_host) == alone) << ranks << " ranks, " << per_host << " on a host";
    }
  }
}

TEST(ShardedOptimizer, GradientsThatGoToOwnersOnlyGiveTheSameBits) {
  for (const char* optimizer : {"adamw", "lamb"}) {
    Settings s{.steps = 10, .clip = 0.05, .optimizer = optimizer};
    const std::string alone = trained_by<ConvNet>(1, s);
    s.sharded = s.to_owners = true;
    for (int ranks : {1, 2, 4}) EXPECT_TRUE(trained_by<ConvNet>(ranks, s) == alone) << optimizer << " on " << ranks;
    s.bucket_bytes = 100;
    EXPECT_TRUE(trained_by<ConvNet>(3, s) == alone) << optimizer;
  }
}

TEST(ShardedOptimizer, AGradientOfAnotherRankCannotBeRead) {
  distributed::run_as_threads(2, [] {
    const Data data = some_data();
    manual_seed(3);
    Mlp model;
    const std::vector<comm::Parts> parts = comm::divide(parameters(model), 2);
    distributed::DataParallel parallel({.shards = 2, .to_owners = true});
    const auto r =
        parallel.gradients(model, parallel.shards_of({data.inputs, data.labels}),
                           [](Mlp& m, const Batch& b) { return distributed::ShardLoss{cross_entropy(m(b[0]), b[1])}; });
    const Parameters all = parameters(model);
    for (std::size_t p = 0; p < all.size(); ++p) {
      const Tensor g = r.gradients[*all[p].tensor];
      if (parts[p][0].owner == distributed::world().rank()) {
        EXPECT_EQ(g.eval().shape(), all[p].tensor->shape());
      } else {
        EXPECT_THROW_MESSAGE(g.eval(), "a rank has the gradients of its own parameters");
      }
    }
  });
}

// Copies of a layer are one tensor until their first step.
struct Twice {
  nn::Linear a{12, 12}, b = a, c = a;
  nn::Linear head{12, 5};
  Tensor operator()(const Tensor& x) const { return head(relu(c(relu(b(relu(a(x))))))); }
  template <class V>
  void visit(V&& v) {
    v("a", a);
    v("b", b);
    v("c", c);
    v("head", head);
  }
};

TEST(ShardedOptimizer, ATensorThatIsSeveralParametersGoesToAllOwners) {
  const Settings plain{.steps = 4};
  const std::string alone = trained_by<Twice>(1, plain);
  EXPECT_TRUE(trained_by<Twice>(3, {.steps = 4, .sharded = true, .to_owners = true}) == alone);
}

TEST(ShardedOptimizer, ItsStateExistsOnceInTheWorld) {
  Mlp model;
  std::vector<int> owner;
  for (const comm::Parts& p : comm::divide(parameters(model), 2)) owner.push_back(p[0].owner);
  EXPECT_EQ(owner, (std::vector<int>{0, 1, 1, 1}));  // 192 elements; 80, 16 and 5
}

// A copy that notes how many collectives there were when it was computed.
struct Noted final : Collective {
  std::int64_t& collectives;
  explicit Noted(std::int64_t& collectives) : collectives(collectives) {}
  void run(const LibraryCall& call) const override {
    collectives = distributed::world().traffic().collectives;
    std::memcpy(call.outputs[0].data, call.inputs[0].data,
                static_cast<std::size_t>(call.inputs[0].shape.numel()) * size_of(call.inputs[0].dtype));
  }
};

// The last sum is computed before the first exchange, like everything else, on the rank that gets its result and on the
// others: otherwise ranks would compute it at different times, and wait for each other.
TEST(ShardedOptimizer, AllIsComputedBeforeTheFirstExchange) {
  distributed::run_as_threads(2, [] {
    const Data data = some_data();
    manual_seed(3);
    Mlp model;
    distributed::DataParallel parallel({.shards = 2, .bucket_bytes = 1, .to_owners = true});
    distributed::ShardedOptimizer optimizer(make_optimizer("adam"));
    for (int step = 0; step < 3; ++step) {
      const std::int64_t before = distributed::world().traffic().collectives;
      std::int64_t noted = -1;
      const auto r =
          parallel.gradients(model, parallel.shards_of({data.inputs, data.labels}), [&](Mlp& m, const Batch& b) {
            const Tensor z = m(b[0]), some = mean(z);
            const Tensor x = make_call(Op::collective, std::span(&some, 1), {}, {{some.shape(), some.dtype()}},
                                       std::make_shared<Noted>(noted));
            return distributed::ShardLoss{cross_entropy(z, b[1]), {x}};
          });
      optimizer.step(model, r.gradients);
      EXPECT_EQ(noted, before);
    }
  });
}

// Parameters too large for one rank's share are cut.
struct Large {
  nn::Linear first{12, 9000}, second{9000, 5};
  Tensor operator()(const Tensor& x) const { return second(relu(first(x))); }
  template <class V>
  void visit(V&& v) {
    v("first", first);
    v("second", second);
  }
};

TEST(ShardedOptimizer, RanksOwnSimilarShares) {
  Large model;
  const Parameters all = parameters(model);
  for (const int ranks : {2, 3, 4, 7}) {
    std::vector<std::int64_t> elements(static_cast<std::size_t>(ranks));
    const std::vector<comm::Parts> division = comm::divide(all, ranks);
    for (std::size_t p = 0; p < all.size(); ++p) {
      std::int64_t at = 0;
      for (const comm::OwnedPart& part : division[p]) {
        EXPECT_EQ(part.from, at);
        EXPECT_EQ(&part, comm::part_of(division[p], part.owner)) << "a rank has two parts";
        elements[static_cast<std::size_t>(part.owner)] += part.size();
        at = part.to;
      }
      EXPECT_EQ(at, all[p].tensor->numel());
    }
    std::int64_t total = 0;
    for (const std::int64_t n : elements) total += n;
    EXPECT_LE(*std::max_element(elements.begin(), elements.end()), total / ranks * 5 / 4 + (1 << 14)) << ranks;
  }
}

TEST(ShardedOptimizer, CutParametersHaveTheBitsOfWholeOnes) {
  for (const char* optimizer : {"adamw", "sgd", "lamb"}) {
    Settings s{.steps = 3, .clip = 0.05, .optimizer = optimizer};
    const std::string alone = trained_by<Large>(1, s);
    s.sharded = true;
    EXPECT_TRUE(trained_by<Large>(3, s) == alone) << optimizer;
    s.to_owners = true;
    EXPECT_TRUE(trained_by<Large>(2, s) == alone) << optimizer;
    EXPECT_TRUE(trained_by<Large>(4, s) == alone) << optimizer;
    EXPECT_TRUE(trained_by<Large>(3, s, 2) == alone) << optimizer << " on two hosts";
  }
}

TEST(ShardedOptimizer, AnotherNumberOfRanksReadsItsState) {
  // 5 steps on 4 ranks, 5 more on `then` ranks, compared with 10 steps on one.
  const Data data = some_data();
  const auto train = [&](Mlp& model, distributed::ShardedOptimizer& optimizer, int steps) {
    distributed::DataParallel parallel({.shards = 4});
    for (int k = 0; k < steps; ++k) {
      const auto batch = parallel.shards_of({narrow(data.inputs, 0, 24 * k, 24), narrow(data.labels, 0, 24 * k, 24)});
      const auto r = parallel.gradients(
          model, batch, [](Mlp& m, const Batch& b) { return distributed::ShardLoss{cross_entropy(m(b[0]), b[1])}; });
      optimizer.step(model, r.gradients);
    }
  };
  const auto make = [] {
    manual_seed(3);
    Mlp model;
    model.dropout.p = 0;
    return model;
  };
  std::map<std::string, Tensor> moments;
  std::vector<Tensor> weights;
  distributed::run_as_threads(4, [&] {
    Mlp model = make();
    distributed::ShardedOptimizer optimizer(make_optimizer("adam"));
    train(model, optimizer, 5);
    const auto state = optimizer.state(0);
    EXPECT_EQ(state.empty(), distributed::world().rank() != 0);
    if (distributed::world().rank() != 0) return;
    moments = state;
    for (const Parameter& p : parameters(model)) weights.push_back(*p.tensor);
  });
  EXPECT_EQ(moments.size(), 4u * 3);
  std::vector<std::string> results;
  for (int then : {1, 2, 3}) {
    distributed::run_as_threads(then, [&] {
      Mlp model = make();
      const Parameters all = parameters(model);
      for (std::size_t k = 0; k < all.size(); ++k) *all[k].tensor = variable(weights[k]);
      distributed::ShardedOptimizer optimizer(make_optimizer("adam"));
      optimizer.load_state(moments);
      train(model, optimizer, 5);
      if (distributed::world().rank() != 0) return;
      std::string bits;
      for (const Parameter& p : all) {
        const auto v = p.tensor->to_vector();
        bits.append(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(double));
      }
      results.push_back(bits);
    });
  }
  EXPECT_TRUE(results[0] == results[1]);
  EXPECT_TRUE(results[0] == results[2]);
}

TEST(DataParallel, OneShardIsThePlainProgram) {
  const Data data = some_data();
  const auto make = [] {
    manual_seed(3);
    return ConvNet();
  };
  ConvNet plain = make(), parallel_model = make();
  Adam a, b;
  distributed::DataParallel parallel({.shards = 1});
  for (int k = 0; k < 3; ++k) {
    const Batch batch{narrow(data.inputs, 0, 24 * k, 24), narrow(data.labels, 0, 24 * k, 24)};
    a.step(plain, backward(cross_entropy(plain(batch[0]), batch[1])));
    const auto r = parallel.gradients(parallel_model, parallel.shards_of(batch), [](ConvNet& m, const Batch& s) {
      return distributed::ShardLoss{cross_entropy(m(s[0]), s[1])};
    });
    b.step(parallel_model, r.gradients);
  }
  const Parameters x = state(plain), y = state(parallel_model);
  for (std::size_t k = 0; k < x.size(); ++k) EXPECT_EQ(x[k].tensor->to_vector(), y[k].tensor->to_vector()) << x[k].name;
}

TEST(DataParallel, ShardsAverageToTheWholeBatch) {
  const Data data = some_data();
  manual_seed(3);
  Mlp model;
  model.dropout.p = 0;
  const Batch batch{narrow(data.inputs, 0, 0, 26), narrow(data.labels, 0, 0, 26)};  // shards of 6 and 7 rows
  const Gradients whole = backward(cross_entropy(model(batch[0]), batch[1]), {.keep_history = true});
  distributed::DataParallel parallel({.shards = 4});
  const auto r = parallel.gradients(model, parallel.shards_of(batch), [](Mlp& m, const Batch& b) {
    return distributed::ShardLoss{cross_entropy(m(b[0]), b[1]), {sum(b[1])}};
  });
  EXPECT_NEAR(r.loss.item(), cross_entropy(model(batch[0]), batch[1]).item(), 1e-6);
  EXPECT_EQ(r.sums[0].item<std::int64_t>(), sum(batch[1]).item<std::int64_t>());
  for (const Parameter& p : parameters(model)) {
    EXPECT_LT(max(abs(r.gradients[*p.tensor] - whole[*p.tensor])).item(), 1e-6) << p.name;
  }
}

TEST(DataParallel, SaysWhatIsWrong) {
  EXPECT_THROW_MESSAGE(distributed::DataParallel({.shards = -1}), "must not be negative");
  Mlp model;
  distributed::DataParallel parallel({.shards = 4});
  const auto loss = [](Mlp& m, const Batch& b) { return distributed::ShardLoss{cross_entropy(m(b[0]), b[1])}; };
  EXPECT_THROW_MESSAGE(parallel.take(model), "nothing was added");
  const Batch few{zeros({3, 12}), zeros({3}, DType::i64)};
  EXPECT_THROW_MESSAGE(parallel.gradients(model, parallel.shards_of(few), loss),
                       "3 rows cannot be divided into 4 shards");
  EXPECT_THROW_MESSAGE(parallel.gradients(model, ShardedBatch{{few}, 8}, loss), "loader_options()");
  distributed::run_as_threads(
      3, [] { EXPECT_THROW_MESSAGE(distributed::DataParallel({.shards = 2}), "3 ranks cannot share 2 shards"); });
}

TEST(ShardedLoader, GivesEveryItemToOneRankWhateverTheirNumber) {
  const Tensor items = arange(50);
  const auto epoch = [&](int ranks, int workers) {
    std::vector<std::vector<double>> batches;  // rows of all ranks, in order
    std::mutex mutex;
    distributed::run_as_threads(ranks, [&] {
      const distributed::DataParallel parallel({.shards = 4});
      DataLoader loader({items}, parallel.loader_options({.batch_size = 12, .workers = workers, .seed = 5}));
      for (std::size_t k = 0;; ++k) {
        const auto batch = loader.next_shards();
        if (!batch || batch->rows < 12) break;
        std::vector<double> own;
        for (const Batch& s : batch->shards) {
          for (double v : cast(s[0], DType::f64).to_vector()) own.push_back(v);
        }
        for (int r = 0; r < ranks; ++r) {
          distributed::world().barrier();
          if (r != distributed::world().rank()) continue;
          const std::lock_guard lock(mutex);
          if (batches.size() <= k) batches.emplace_back();
          batches[k].insert(batches[k].end(), own.begin(), own.end());
        }
        distributed::world().barrier();
      }
    });
    return batches;
  };
  const auto one = epoch(1, 0);
  EXPECT_EQ(one.size(), 4u);
  for (int ranks : {2, 3, 4}) EXPECT_EQ(epoch(ranks, 0), one);
  EXPECT_EQ(epoch(2, 2), one);
  DataLoader whole({items}, {.batch_size = 12, .seed = 5});
  EXPECT_EQ(cast((*whole.next())[0], DType::f64).to_vector(), one[0]);
  DataLoader sharded({items}, {.batch_size = 12, .shards = 2});
  EXPECT_THROW_MESSAGE(sharded.next(), "call next_shards()");
  EXPECT_THROW_MESSAGE(DataLoader({items}, {.shards = 2, .first_shard = 2, .last_shard = 3}), "do not exist");
}

}  // namespace
}  // namespace small
