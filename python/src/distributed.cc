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
  m.def("set_patience", distributed::set_patience, doc("set_patience"), "seconds"_a);
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
  // Which rank owns each of `used`; −1 where it is more than one of the parameters.
  m.def("_owners", [](std::vector<Tensor> tensors, const std::vector<Tensor>& used) {
    Parameters all;
    std::map<const Node*, int> owner;
    for (Tensor& t : tensors) all.push_back({"", &t});
    const std::vector<int> owners = distributed::ShardedOptimizer::owners(all, world().size());
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      const auto [at, is_new] = owner.emplace(tensors[k].node(), owners[k]);
      if (!is_new) at->second = comm::kEveryone;
    }
    std::vector<int> found;
    for (const Tensor& t : used) found.push_back(owner.at(t.node()));
    return found;
  });
  // The sums over all shards of the world, from those of this rank's. Some go to their owners only.
  m.def("_total", [](const std::vector<std::vector<Tensor>>& of_shards, int shards, std::int64_t bucket_bytes,
                     const std::vector<int>& owners) {
    const NoHistory scope;
    const auto add = [](const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
      std::vector<Tensor> sum;
      for (std::size_t k = 0; k < a.size(); ++k) sum.push_back(a[k] + b[k]);
      return sum;
    };
    comm::Tree<std::vector<Tensor>, decltype(add)> tree(add);
    const int first = comm::first_shard(shards, world().size(), world().rank());
    for (std::size_t k = 0; k < of_shards.size(); ++k) tree.put({first + static_cast<int>(k), 1}, of_shards[k]);
    if (world().size() == 1) return tree.total();
    std::vector<std::vector<Tensor>> blocks;
    for (auto& [block, values] : tree.blocks()) blocks.push_back(values);
    std::vector<Tensor> sums = comm::sum_over_shards(blocks, shards, bucket_bytes, world().group(), owners);
    for (std::size_t k = 0; k < sums.size(); ++k) {
      if (!sums[k].defined()) sums[k] = comm::elsewhere(blocks[0][k].shape(), blocks[0][k].dtype());
    }
    return sums;
  });
}

}  // namespace ebb::python
