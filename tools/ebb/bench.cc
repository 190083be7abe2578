// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "device_option.h"
#include "core/parallel.h"
#include "ebb/ebb.h"
#include "text_table.h"

// `ebb bench`: the performance of this machine and this build, in a few seconds. Comparisons with others are in bench/.
namespace ebb::program {
namespace {

using Steady = std::chrono::steady_clock;

// The shortest of the runs that fit into a third of a second, at least five: disturbances can only lengthen a run.
template <class F>
double seconds(const F& run) {
  run();  // schedules are made and memory is touched
  double best = 1e9;
  const auto begin = Steady::now();
  for (int k = 0; k < 5 || Steady::now() - begin < std::chrono::milliseconds(330); ++k) {
    const auto start = Steady::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Steady::now() - start).count());
  }
  return best;
}

struct Row {
  std::string what, size;
  double time, rate;
  const char* unit;
  double share = 0;  // of the copy bandwidth; 0: not bound by memory
};

double copy_seconds(std::size_t bytes) {
  std::vector<char> from(bytes, 1), to(bytes, 2);
  const std::size_t block = 1 << 18;
  const auto blocks = static_cast<std::int64_t>(bytes / block);
  return seconds([&] {
    parallel_for(blocks, [&](std::int64_t i) {
      const std::size_t at = static_cast<std::size_t>(i) * block;
      std::memcpy(to.data() + at, from.data() + at, block);
    });
  });
}

double gemm_seconds(std::int64_t n) {
  const Tensor a = randn({n, n}).eval(), b = randn({n, n}).eval();
  return seconds([&] { matmul(a, b).eval(); });
}

// A loss and its gradient to x, computed together as in training.
template <class Loss>
double loss_seconds(const Tensor& x, const Loss& loss) {
  return seconds([&] {
    const Tensor v = variable(x), value = loss(v);
    eval({value, backward(value)[v]});
  });
}

// Two layers, cross-entropy and a step of SGD.
double mlp_seconds(std::int64_t batch) {
  const Tensor x = randn({batch, 784}).eval(), y = randint(0, 10, {batch}).eval();
  Tensor w1 = variable((randn({784, 256}) * 0.05).eval()), b1 = variable(zeros({256}));
  Tensor w2 = variable((randn({256, 10}) * 0.1).eval()), b2 = variable(zeros({10}));
  return seconds([&] {
    const Tensor hidden = relu(matmul(x, w1) + b1), loss = cross_entropy(matmul(hidden, w2) + b2, y);
    const Gradients g = backward(loss);
    std::vector<Tensor> next;
    for (const Tensor* p : {&w1, &b1, &w2, &b2}) next.push_back(*p - 0.01 * g[*p]);
    eval({loss, next[0], next[1], next[2], next[3]});
    w1 = variable(next[0]), b1 = variable(next[1]), w2 = variable(next[2]), b2 = variable(next[3]);
  });
}

std::vector<Row> measure() {
  std::vector<Row> rows;
  const std::size_t bytes = std::size_t{64} << 20;
  const double copy = copy_seconds(bytes);
  const double bandwidth = 2 * static_cast<double>(bytes) / copy;  // read and write
  rows.push_back({"copy", "64 MiB", copy, bandwidth / 1e9, "GB/s", 1});

  const std::int64_t n = 1024;
  const double gemm = gemm_seconds(n);
  rows.push_back({"matmul f32", "1024 x 1024 x 1024", gemm, 2e-9 * static_cast<double>(n * n * n) / gemm, "GFLOP/s"});

  const auto memory_bound = [&](const char* what, const char* size, double time, double touched) {
    rows.push_back({what, size, time, touched / time / 1e9, "GB/s", touched / time / bandwidth});
  };
  const std::int64_t elements = 8 << 20;
  {
    const Tensor x = randn({elements}).eval(), t = randn({elements}).eval();
    const double time = loss_seconds(x, [&](const Tensor& v) { return mse_loss(v, t); });
    memory_bound("mse_loss + gradient f32", "8388608", time, 12.0 * static_cast<double>(elements));
  }
  {
    const Tensor x = randn({2048, 4096}).eval(), y = randint(0, 4096, {2048}).eval();
    const double time = loss_seconds(x, [&](const Tensor& v) { return cross_entropy(v, y); });
    memory_bound("cross_entropy + gradient f32", "2048 x 4096", time, 8.0 * static_cast<double>(elements));
  }
  const Tensor x = randn({16}).eval(), t = randn({16}).eval();
  const double small = loss_seconds(x, [&](const Tensor& v) { return mse_loss(v, t); });
  rows.push_back({"small graph: mse_loss + gradient", "16", small, 1e-3 / small, "k/s"});
  const double step = mlp_seconds(64);
  rows.push_back({"training step, 784-256-10", "batch 64", step, 64e-3 / step, "k samples/s"});
  return rows;
}

std::string readable(double time) {
  if (time < 1e-3) return fmt::format("{:.1f} us", time * 1e6);
  return fmt::format("{:.2f} ms", time * 1e3);
}

void run_bench(int threads, bool json) {
  if (threads > 0) set_num_threads(threads);
  const std::vector<Row> rows = measure();
  if (json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Row& r : rows) {
      list.push_back({{"name", r.what}, {"size", r.size}, {"seconds", r.time}, {"rate", r.rate}, {"unit", r.unit}});
      if (r.share > 0) list.back()["share_of_copy"] = r.share;
    }
    fmt::print("{}\n", nlohmann::ordered_json{{"threads", num_threads()}, {"rows", list}}.dump(2));
    return;
  }
  TextTable table({fmt::format("{} threads", num_threads()), "size", "time", "rate", "", "of copy"}, {2, 3, 5});
  for (const Row& r : rows) {
    table.add({r.what, r.size, readable(r.time), fmt::format("{:.1f}", r.rate), r.unit,
               r.share > 0 ? fmt::format("{:.0f} %", 100 * r.share) : ""});
  }
  fmt::print("{}", table.str());
}

}  // namespace

void add_bench_command(CLI::App& app) {
  struct Options {
    int threads = 0;
    bool json = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("bench", "Measure what this machine and this build reach, in a few seconds");
  command->add_option("--threads", o->threads, "How many threads; default: the hardware's")->check(CLI::Range(1, 1024));
  add_device_option(*command);
  command->add_flag("--json", o->json, "As JSON");
  command->callback([o] { run_bench(o->threads, o->json); });
}

}  // namespace ebb::program
