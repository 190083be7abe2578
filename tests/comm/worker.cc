// SPDX-License-Identifier: MIT
// A rank of the tests under mpirun: comm_worker STORY. The tests compare its output.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

#include "ebb/memory.h"
#include "small_models.h"

namespace {

using namespace ebb;

void say(const std::string& text) {
  if (distributed::world().rank() == 0) std::printf("%s\n", text.c_str()), std::fflush(stdout);
}

std::string hash(const std::string& bits) {
  std::uint64_t h = 1469598103934665603u;
  for (unsigned char c : bits) h = (h ^ c) * 1099511628211u;
  return std::to_string(h);
}

// All ranks have the same bits; rank 0 prints them.
template <class Model>
void train(const small::Settings& s) {
  const std::string own = hash(small::trained<Model>(s));
  for (const std::string& other : distributed::world().gather_text(own)) {
    if (other != own) throw Error("ranks disagree");
  }
  say(own);
}

void collectives() {
  const distributed::World w = distributed::world();
  const double size = w.size(), total = size * (size + 1) / 2;
  for (std::int64_t n : {1, 5, 3000, 100003, 400000}) {  // small, and in parts
    const Tensor x = full({n}, w.rank() + 1.0);
    if (max(abs(distributed::all_reduce(x) - total)).item() != 0) throw Error("all_reduce");
    const Tensor all = distributed::all_gather(x);
    if (all.size(0) != n * w.size() || slice(all, 0, -1).item() != size) throw Error("all_gather");
    if (slice(distributed::broadcast(x, w.size() - 1), 0, 0, 1).item() != size) throw Error("broadcast");
    const Tensor scattered = distributed::reduce_scatter(full({n * w.size()}, w.rank() + 1.0));
    if (scattered.size(0) != n || max(abs(scattered - total)).item() != 0) throw Error("reduce_scatter");
    const Tensor moved = distributed::all_to_all(full({n * w.size()}, w.rank() + 1.0));
    if (sum(moved).item() != total * static_cast<double>(n)) throw Error("all_to_all");
  }
  say("good");
}

// Endless steps: the test kills a rank.
void forever() {
  say("begun");
  for (double k = 0;; ++k) {
    if (slice(distributed::all_reduce(full({1000}, k)), 0, 0, 1).item() < 0) throw Error("wrong");
    if (k == 20) std::printf("pid %d %d\n", distributed::world().rank(), ::getpid()), std::fflush(stdout);
  }
}

int run(const std::string& story) {
  set_num_threads(1);
  if (story == "collectives") collectives();
  if (story == "mlp") train<small::Mlp>({});
  if (story == "cnn") train<small::ConvNet>({});
  if (story == "gpt") train<small::Gpt>({});
  if (story == "sharded") train<small::Mlp>({.sharded = true});
  if (story == "forever") forever();
  if (story == "differ") distributed::all_reduce(zeros({distributed::world().rank() == 1 ? 3 : 2})).eval();
  if (story == "one ends" && distributed::world().rank() != 1) distributed::world().barrier();
  if (story == "one fails" && distributed::world().rank() == 1) throw Error("rank 1 has no luck");
  if (story == "one fails") distributed::world().barrier();
  if (story == "one hangs" || story == "one is late" || story == "one works") {
    story == "one is late" ? distributed::set_patience(1) : distributed::set_patience(600, 1);
    distributed::world().barrier();
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = std::chrono::seconds(story == "one works" ? 3 : 60);
    if (distributed::world().rank() == 1 && story == "one hangs") ::pause();
    while (distributed::world().rank() == 1 && std::chrono::steady_clock::now() - start < seconds) {
    }
    distributed::world().barrier();
    say("together");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %d: %s\n", distributed::world().rank(), e.what());
    return 3;
  }
}
