// SPDX-License-Identifier: MIT
// One rank of bench/distributed.py: trains a network on batches that are there already and prints how long steps took.
//   ebb_bench_ranks CASE SHARDS THREADS STEPS [sharded | owners | overlap]
// No shards: a program that knows nothing of ranks. `sharded`: the optimiser's state. `owners`: and gradients go to the
// owners of their parameters only. `overlap`: and while earlier layers' gradients are computed.
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "worker/networks.h"

namespace {

using namespace ebb;
using nlohmann::json;

struct Setting {
  int shards, steps;
  bool sharded, to_owners, overlap;
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
double processor_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <class Model>
Tensor plain_step(Model& model, Optimizer& rule, const Batch& batch) {
  const Tensor loss = model.loss(batch[0], batch[1]);
  rule.step(model, backward(loss));
  return loss.eval();
}

template <class Model>
void measure(Model model, std::unique_ptr<Optimizer> rule, const Batch& batch, const Setting& s) {
  const distributed::World world = distributed::world();
  std::optional<distributed::DataParallel> parallel;
  if (s.shards > 0) {
    parallel.emplace(
        distributed::DataParallelOptions{.shards = s.shards, .to_owners = s.to_owners, .overlap = s.overlap});
  }
  distributed::ShardedOptimizer optimizer(std::move(rule), s.sharded ? world : distributed::world_of_one());
  std::unique_ptr<Optimizer> alone = make_optimizer("adam", {{"lr", 1e-3}});
  const ShardedBatch own = parallel ? parallel->shards_of(batch) : ShardedBatch{};
  const auto step = [&] {
    if (!parallel) return plain_step(model, *alone, batch);
    auto [loss, sums, gradients] = parallel->gradients(
        model, own, [](Model& m, const Batch& b) { return distributed::ShardLoss{m.loss(b[0], b[1])}; });
    optimizer.step(model, gradients);
    return loss.eval();
  };
  for (int k = 0; k < 3; ++k) step();
  world.barrier();
  const distributed::Traffic before = world.traffic();
  const double processor = processor_seconds();
  std::vector<double> times;
  double loss = 0;
  for (int k = 0; k < s.steps; ++k) {
    const double start = seconds();
    loss = step().item();
    times.push_back(seconds() - start);
  }
  const double used = (processor_seconds() - processor) / s.steps;
  const distributed::Traffic after = world.traffic();
  const json mine{used, (after.waiting - before.waiting) / s.steps, (after.moving - before.moving) / s.steps};
  json ranks = json::array();
  for (const std::string& text : world.gather_text(mine.dump())) ranks.push_back(json::parse(text));
  if (world.rank() != 0) return;
  const json result{{"times", times}, {"loss", loss}, {"ranks", ranks}};  // processor, waiting, moving
  std::printf("%s\n", result.dump().c_str());
}

Tensor classes(const Shape& shape, double many) { return cast(floor(rand(shape) * many), DType::i64).eval(); }

void run(const std::string& name, const Setting& s) {
  manual_seed(1);
  const auto adam = [] { return make_optimizer("adam", {{"lr", 1e-3}}); };
  if (name == "mlp") {
    measure(bench::Mlp(784, 1024, 10), adam(), {randn({128, 784}).eval(), classes({128}, 10)}, s);
  } else if (name == "cnn") {
    measure(bench::ResNet(16, 3, 10), adam(), {randn({64, 3, 32, 32}).eval(), classes({64}, 10)}, s);
  } else if (name == "gpt") {
    const bench::GptSize z{4, 256, 4, 256, 32000, 4};
    measure(bench::Gpt(z, false), adam(), {classes({z.batch, z.time}, 32000), classes({z.batch, z.time}, 32000)}, s);
  } else {
    throw Error("there is no case '" + name + "': mlp, cnn or gpt");
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 5) throw Error("ebb_bench_ranks CASE SHARDS THREADS STEPS [sharded | owners | overlap]");
    const std::string how = argc > 5 ? argv[5] : "";
    set_num_threads(std::atoi(argv[3]));
    run(argv[1],
        {std::atoi(argv[2]), std::atoi(argv[4]), !how.empty(), how == "owners" || how == "overlap", how == "overlap"});
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
