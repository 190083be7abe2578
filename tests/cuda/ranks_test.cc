// SPDX-License-Identifier: MIT
// Collectives of tensors on a GPU: by NCCL in a world of one rank, and via the host for ranks that share the GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "comm/buckets.h"
#include "comm/group.h"
#include "comm/local.h"
#include "cuda/emulated_device.h"
#include "cuda/library/nccl.h"
#include "ebb/distributed.h"
#include "ebb/losses.h"
#include "ebb/nn.h"
#include "ebb/ops.h"
#include "ebb/optim.h"
#include "ebb/random.h"
#include "emulated_device.h"

namespace ebb::testing {
namespace {

// NCCL for one rank of the emulated device: messages to itself are copied when the group ends.
struct Copy {
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;
};
std::vector<Copy> copies;
std::size_t sent = 0, received = 0, calls = 0;

int end_group() {
  const DeviceAccess access;
  for (const Copy& c : copies) std::memmove(c.to, c.from, c.bytes);
  copies.clear();
  sent = received = 0;
  ++calls;
  return 0;
}
Copy& message(std::size_t k) {
  if (copies.size() <= k) copies.resize(k + 1);
  return copies[k];
}
cuda::Nccl one_rank() {
  cuda::Nccl t;
  t.unique_id = [](cuda::NcclId*) { return 0; };
  t.start = [](cuda::NcclComm*, int ranks, cuda::NcclId, int) { return ranks == 1 ? 0 : 5; };
  t.abort = [](cuda::NcclComm) { return 0; };
  t.error = [](cuda::NcclComm, int* error) { return *error = 0; };
  t.all_gather = [](const void* from, void* to, std::size_t bytes, int, cuda::NcclComm, cuda::Stream) {
    copies.push_back({from, to, bytes});
    return 0;
  };
  t.broadcast = [](const void* from, void* to, std::size_t bytes, int, int, cuda::NcclComm, cuda::Stream) {
    copies.push_back({from, to, bytes});
    return 0;
  };
  t.send = [](const void* from, std::size_t bytes, int, int, cuda::NcclComm, cuda::Stream) {
    message(sent).from = from;
    message(sent++).bytes = bytes;
    return 0;
  };
  t.receive = [](void* to, std::size_t, int, int, cuda::NcclComm, cuda::Stream) {
    message(received++).to = to;
    return 0;
  };
  t.begin_group = [] { return 0; };
  t.end_group = end_group;
  return t;
}

class RanksOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();
    if (!device_is_emulated()) return;
    static const cuda::Nccl table = one_rank();
    cuda::install_nccl(&table);
    calls = 0;
  }
};

std::vector<double> numbers_on_host(const Tensor& t) { return cast(t.to(Device{}), DType::f64).to_vector(); }

TEST_F(RanksOnGpu, NcclMovesWhatAWorldOfOneRankExchanges) {
  if (!cuda::nccl()) GTEST_SKIP() << "there is no NCCL here";
  using Kind = Collective::Kind;
  using distributed::detail::Group;
  Group group(std::move(comm::local_ranks(1)[0]));
  const Tensor x = arange(1000).to(kGpu) * 0.5;
  for (Kind kind : {Kind::all_gather, Kind::all_to_all, Kind::broadcast}) {
    const Tensor y = group.collective(kind, "test", x, kind == Kind::all_gather ? Shape{1, 1000} : Shape{1000});
    EXPECT_EQ(y.device(), kGpu);
    EXPECT_EQ(numbers_on_host(y), numbers_on_host(x));
  }
  EXPECT_TRUE(!device_is_emulated() || calls == 4u) << calls;  // a broadcast is two

  // Three shards of one rank: two blocks, whose sums are added on the device; and a list in one block.
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64}) {
    const Tensor a = cast(x, dtype), b = cast(x * 3, dtype), small = cast(x.slice(0, 0, 3), dtype);
    const auto sums = comm::sum_over_shards({{a, small}, {b, small}}, 3, 1 << 20, group);
    EXPECT_EQ(sums[0].device(), kGpu);
    EXPECT_EQ(numbers_on_host(sums[0]), numbers_on_host(cast(a + b, dtype))) << name(dtype);
    EXPECT_EQ(numbers_on_host(sums[1]), numbers_on_host(small + small)) << name(dtype);
    EXPECT_EQ(numbers_on_host(comm::sum_over_shards({{a}}, 2, 1 << 20, group)[0]), numbers_on_host(a)) << name(dtype);
  }
  const Tensor wide = expand(x, {20, 1000});
  EXPECT_EQ(numbers_on_host(comm::sum_over_shards({{wide}, {wide}}, 3, 1 << 30, group)[0]), numbers_on_host(wide * 2));
}

struct Small {
  nn::Linear first{6, 8}, second{8, 3};
  Tensor operator()(const Tensor& x) const { return second(relu(first(x))); }
  template <class V>
  void visit(V&& v) {
    v("first", first);
    v("second", second);
  }
};

// Parameters after some steps on the GPU, with a sharded optimiser and gradients sent to owners.
std::vector<double> trained(int ranks, bool overlap = false) {
  std::mutex mutex;
  std::set<std::vector<double>> all;
  distributed::run_as_threads(ranks, [&] {
    manual_seed(5);
    Small model;
    for (const Parameter& p : parameters(model)) *p.tensor = variable(p.tensor->eval().to(kGpu));
    const Tensor x = randn({8, 6}).eval().to(kGpu), y = cast(floor(rand({8}) * 3.0), DType::i64).eval().to(kGpu);
    distributed::DataParallel parallel({.shards = 4, .to_owners = true, .overlap = overlap});
    distributed::ShardedOptimizer optimizer(make_optimizer("sgd"));
    for (int k = 0; k < 3; ++k) {
      const auto step = parallel.gradients(model, parallel.shards_of({x, y}), [](Small& m, const Batch& b) {
        return distributed::ShardLoss{cross_entropy(m(b[0]), b[1])};
      });
      optimizer.step(model, step.gradients);
    }
    std::vector<double> own;
    for (const Parameter& p : parameters(model)) {
      EXPECT_EQ(p.tensor->device(), kGpu);
      const std::vector<double> values = numbers_on_host(*p.tensor);
      own.insert(own.end(), values.begin(), values.end());
    }
    const std::lock_guard lock(mutex);
    all.insert(own);
  });
  EXPECT_EQ(all.size(), 1u) << "ranks disagree";
  return *all.begin();
}

TEST_F(RanksOnGpu, RanksThatShareItTrainByWayOfTheHost) {
  const std::vector<double> alone = trained(1);
  EXPECT_EQ(trained(2), alone);
  EXPECT_EQ(trained(2, true), alone);
}

}  // namespace
}  // namespace ebb::testing
