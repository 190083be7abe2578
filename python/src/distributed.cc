// SPDX-License-Identifier: MIT
#include "ebb/distributed.h"

#include <map>

#include "bind.h"
#include "comm/buckets.h"
#include "core/random.h"

// The world of this process, collectives, and what DataParallel (python/ebb/distributed.py) is made of.
namespace ebb::python {

void bind_distributed(const Api& api) {
  nb::module_ m = api.module.def_submodule("_distributed");
  using distributed::world;
  using Released = nb::call_guard<nb::gil_scoped_release>;
  m.def(
      "rank", [] { return world().rank(); }, Released(), "Of this process, from 0.");
  m.def(
      "size", [] { return world().size(); }, Released(), "How many ranks there are; 1 without a launcher.");
  m.def(
      "host", [](int rank) { return world().host(rank); }, "rank"_a, Released(), "The host a rank runs on.");
  m.def(
      "barrier", [] { world().barrier(); }, Released(), "Waits for all ranks.");
  m.def(
      "any", [](bool mine) { return world().any(mine); }, "mine"_a, Released(), "Is it true on at least one rank?");
  m.def(
      "gather_text", [](const std::string& mine) { return world().gather_text(mine); }, "mine"_a, Released(),
      "The text of every rank, on every rank.");
  m.def("leave", distributed::leave, doc("leave"), Released());
  m.def("set_patience", distributed::set_patience, doc("set_patience"), "seconds"_a, "idle"_a = 8.0);
  m.def(
      "traffic",
      [] {
        const distributed::Traffic t = world().traffic();
        nb::dict d;
        d["collectives"] = t.collectives;
        d["bytes"] = t.bytes;
        d["waiting"] = t.waiting;
        d["moving"] = t.moving;
        return d;
      },
      "What collectives have cost this rank: their number, bytes sent, seconds of waiting and of transport.");

  m.def(
      "all_reduce", [](const Tensor& x) { return distributed::all_reduce(x); }, "x"_a, doc("all_reduce"));
  m.def(
      "reduce_scatter", [](const Tensor& x) { return distributed::reduce_scatter(x); }, "x"_a, doc("reduce_scatter"));
  m.def(
      "all_gather", [](const Tensor& x) { return distributed::all_gather(x); }, "x"_a, doc("all_gather"));
  m.def(
      "broadcast", [](const Tensor& x, int root) { return distributed::broadcast(x, root); }, "x"_a, "root"_a = 0,
      doc("broadcast"));
  m.def(
      "all_to_all", [](const Tensor& x) { return distributed::all_to_all(x); }, "x"_a, doc("all_to_all"));
  m.def(
      "copy_to_ranks", [](const Tensor& x) { return distributed::copy_to_ranks(x); }, "x"_a, doc("copy_to_ranks"));
  m.def(
      "sum_over_ranks", [](const Tensor& x) { return distributed::sum_over_ranks(x); }, "x"_a, doc("sum_over_ranks"));

  m.def("_shards", [](int shards) {
    const distributed::DataParallel parallel({.shards = shards});
    return std::make_tuple(parallel.shards(), parallel.first_shard(), parallel.last_shard());
  });
  m.def("_begin_of", &ShardedBatch::begin_of);
  m.def("_is_same", [](const Tensor& a, const Tensor& b) { return a.node() == b.node(); });
  m.def("_gradients", [](std::vector<std::pair<Tensor, Tensor>> pairs) { return Gradients(std::move(pairs)); });
  m.def("_shard_seed", [](std::uint64_t seed, std::uint64_t operation, std::uint64_t shard) {
    std::uint32_t words[4];
    philox_block(~seed, operation, shard, words);
    return std::uint64_t{words[0]} << 32 | words[1];
  });
  // The means over all shards of the world, from the sums of this rank's: of each the loss, then the gradients of
  // `used`. With `owned`, all parameters, gradients go to the ranks that own them.
  m.def("_means", [](const std::vector<std::vector<Tensor>>& of_shards, int shards, std::int64_t bucket_bytes,
                     const std::vector<Tensor>& used, std::vector<Tensor> owned, bool overlap) {
    const NoHistory scope;
    std::vector<comm::Parts> parts;
    if (!owned.empty() && world().size() > 1) {
      Parameters all;
      std::map<const Node*, std::size_t> place;
      for (Tensor& t : owned) place.emplace(t.node(), all.size()), all.push_back({"", &t});
      std::vector<std::size_t> places;
      for (const Tensor& t : used) places.push_back(place.at(t.node()));
      parts = comm::parts_of_gradients(all, places, world().size());
      parts.insert(parts.begin(), comm::Parts{});
      parts.resize(of_shards[0].size());
    }
    std::vector<Tensor> sums =
        comm::total_over_shards(of_shards, shards, bucket_bytes, world().group(), parts, overlap);
    for (std::size_t k = 0; k < sums.size(); ++k) {
      if (sums[k].defined()) sums[k] = sums[k] * (1.0 / shards);
      if (k > 0 && k <= used.size())
        sums[k] = comm::gradient_from(sums[k], used[k - 1].shape(), of_shards[0][k].dtype());
    }
    return sums;
  });
}

}  // namespace ebb::python
