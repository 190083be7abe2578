// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "backend/call.h"
#include "comm/transport.h"
#include "comm/tree.h"

// Sums of lists of tensors over the shards of all ranks, in the order of the tree (comm/tree.h), and lists sent from
// their owners to everyone. Nothing is packed for ranks of the same host: they read each other's memory.
namespace ebb::comm {

// Bytes up to which it is faster for every rank to get everything and add it up than for ranks to add parts and share
// the sums; the bits are the same.
inline constexpr std::int64_t kSummedByEveryone = 32 << 10;

// Elements [from, to) of a tensor of the list, and the rank that adds them up. kEveryone: every rank does.
inline constexpr int kEveryone = -1;
struct Segment {
  std::size_t tensor = 0;
  std::int64_t from = 0, to = 0;
  int owner = kEveryone;
};

// The contents of a collective of lists. All ranks first meet; then each calls move().
class ListExchange {
 public:
  virtual ~ListExchange() = default;
  // Addresses of this rank's tensors. Ranks that read its memory read this table first; `tables` are the addresses of
  // everyone's.
  virtual std::vector<std::uint64_t> table(const LibraryCall& call) const = 0;
  // Returns the number of bytes other ranks got from this one.
  virtual std::int64_t move(const LibraryCall& call, const std::vector<std::uint64_t>& tables,
                            Transport& transport) const = 0;
  // The same, on a device's memory.
  virtual std::int64_t move_on(const LibraryCall& call, DeviceTransport& device, int rank, int size) const = 0;
};

// Inputs: this rank's blocks, each a list of the same tensors; further inputs are ignored. Outputs: the sums of those
// tensors that this rank gets.
struct ListSum final : ListExchange {
  std::vector<std::vector<Block>> blocks;  // of each rank
  std::size_t tensors = 0;                 // in the list
  std::vector<Segment> segments;
  std::vector<int> output;                // of each tensor, −1 where this rank does not get it
  std::vector<std::int64_t> output_from;  // of each tensor: the first of its elements that is in the output
  bool to_all = false;                    // segments go from their owners to everyone, and all tensors are outputs

  std::vector<std::uint64_t> table(const LibraryCall& call) const override;
  std::int64_t move(const LibraryCall& call, const std::vector<std::uint64_t>& tables,
                    Transport& transport) const override;
  std::int64_t move_on(const LibraryCall& call, DeviceTransport& device, int rank, int size) const override;
};

// A list whose tensors every rank assembles from the parts of their owners. Inputs: this rank's own parts in the order
// of the segments; further ones are ignored. Outputs: the tensors that this rank does not own alone.
struct ListShare final : ListExchange {
  std::vector<Segment> segments;  // in bytes
  std::vector<int> output;        // of each tensor, −1 where this rank has all of it

  std::vector<std::uint64_t> table(const LibraryCall& call) const override;
  std::int64_t move(const LibraryCall& call, const std::vector<std::uint64_t>& tables,
                    Transport& transport) const override;
  std::int64_t move_on(const LibraryCall& call, DeviceTransport& device, int rank, int size) const override;
};

}  // namespace ebb::comm
