// SPDX-License-Identifier: MIT
#include "comm/ordered_sum.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/parallel.h"

namespace ebb::comm {
namespace {

constexpr std::size_t kChunk = 128 << 10;  // bytes: data read from a neighbour is added before it leaves the cache

template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_same_v<T, Half>) {
    return half_from(to_float(a) + to_float(b));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return bfloat16_from(to_float(a) + to_float(b));
  } else {
    return static_cast<T>(a + b);
  }
}

// to = a + b; `to` may be one of them.
template <class T>
void add(T* to, const T* a, const T* b, std::size_t n) {
  if (to == a || to == b) {
    const T* __restrict other = to == a ? b : a;
    T* __restrict into = to;
    for (std::size_t k = 0; k < n; ++k) into[k] = sum_of(into[k], other[k]);
  } else {
    const T* __restrict x = a, * __restrict y = b;
    T* __restrict into = to;
    for (std::size_t k = 0; k < n; ++k) into[k] = sum_of(x[k], y[k]);
  }
}

template <class T>
void add_as(void* to, const void* a, const void* b, std::size_t n) {
  add(static_cast<T*>(to), static_cast<const T*>(a), static_cast<const T*>(b), n);
}

void add(DType dtype, void* to, const void* a, const void* b, std::size_t n) {
  switch (dtype) {
    case DType::f64:
      return add_as<double>(to, a, b, n);
    case DType::f32:
      return add_as<float>(to, a, b, n);
    case DType::f16:
      return add_as<Half>(to, a, b, n);
    case DType::bf16:
      return add_as<BFloat16>(to, a, b, n);
    case DType::i64:
      return add_as<std::uint64_t>(to, a, b, n);  // wraps around, as sweeps do
    case DType::i32:
      return add_as<std::uint32_t>(to, a, b, n);
    case DType::u8:
    case DType::bool_:
      return add_as<std::uint8_t>(to, a, b, n);
  }
}

// A part of a sum: its address, and which of the scratch buffers it is in, if any.
struct Part {
  const void* data = nullptr;
  int slot = -1;
};

// Adds parts in the order of the tree. The result, slot 0, is used as soon as it is free, so that the last sum is
// written to its destination: either one of its operands is there, or nothing.
class ChunkSum {
 public:
  ChunkSum(DType dtype, std::size_t elements, void* result, std::vector<std::vector<std::byte>>& scratch)
      : dtype_(dtype), elements_(elements), result_(result), scratch_(scratch), used_(1) {}

  Part fresh() {
    std::size_t k = 0;
    while (k < used_.size() && used_[k]) ++k;
    if (k == used_.size()) used_.push_back(0);
    used_[k] = 1;
    if (k > scratch_.size()) scratch_.emplace_back(kChunk);
    return {k == 0 ? result_ : scratch_[k - 1].data(), static_cast<int>(k)};
  }
  Part operator()(const Part& a, const Part& b) {
    const int slot = a.slot == 0 || b.slot == 0 || !used_[0] ? 0 : std::max(a.slot, b.slot);
    Part to = slot > 0 ? (a.slot == slot ? a : b) : Part{result_, 0};
    if (slot < 0) to = fresh();
    add(dtype_, const_cast<void*>(to.data), a.data, b.data, elements_);
    for (const Part& p : {a, b}) {
      if (p.slot >= 0) used_[static_cast<std::size_t>(p.slot)] = 0;
    }
    used_[static_cast<std::size_t>(to.slot)] = 1;
    return to;
  }

 private:
  DType dtype_;
  std::size_t elements_;
  void* result_;
  std::vector<std::vector<std::byte>>& scratch_;
  std::vector<char> used_;
};

std::byte* at(void* data, std::size_t offset) { return static_cast<std::byte*>(data) + offset; }

std::size_t index(int k) { return static_cast<std::size_t>(k); }

// One rank's part in a sum.
class SumOfRank {
 public:
  SumOfRank(const ListSum& plan, const LibraryCall& call, const std::vector<std::uint64_t>& tables,
            Transport& transport)
      : plan_(plan),
        call_(call),
        transport_(transport),
        rank_(transport.rank()),
        size_(transport.size()),
        incoming_(index(size_)),
        inputs_(index(size_)),
        outputs_(index(size_)) {
    for (int r = 0; r < size_; ++r) {
      if (r == rank_ || !transport.reads(rank_, r)) continue;
      inputs_[index(r)].resize(plan.blocks[index(r)].size() * plan.tensors);
      outputs_[index(r)].resize(plan.to_all ? plan.tensors : 0);
      read_table(tables[index(r)], r, outputs_[index(r)]);
      read_table(tables[index(r)] + outputs_[index(r)].size() * sizeof(std::uint64_t), r, inputs_[index(r)]);
    }
  }

  std::int64_t run() {
    send_blocks();
    add_up();
    if (plan_.to_all) {
      transport_.synchronize();
      share();
    }
    transport_.synchronize();
    return sent_;
  }

 private:
  void read_table(std::uint64_t from, int rank, std::vector<std::uint64_t>& to) {
    if (!to.empty()) transport_.read(rank, from, to.data(), to.size() * sizeof to[0]);
  }
  bool adds(int rank, const Segment& s) const { return s.owner == rank || s.owner == kEveryone; }
  // Destination of this segment's sum.
  std::byte* result(const Segment& s) const {
    const std::size_t before = static_cast<std::size_t>(plan_.output_from[s.tensor]) * element(s.tensor);
    return at(call_.outputs[index(plan_.output[s.tensor])].data, start_of(s) - before);
  }
  std::size_t element(std::size_t tensor) const { return size_of(call_.inputs[tensor].dtype); }
  std::size_t bytes_of(const Segment& s) const { return static_cast<std::size_t>(s.to - s.from) * element(s.tensor); }
  std::size_t start_of(const Segment& s) const { return static_cast<std::size_t>(s.from) * element(s.tensor); }
  std::size_t own_bytes(int rank) const {
    std::size_t all = 0;
    for (const Segment& s : plan_.segments) all += adds(rank, s) ? bytes_of(s) : 0;
    return all;
  }

  // Blocks that ranks on other hosts add up are sent to them in one message each, block after block.
  void send_blocks() {
    std::vector<std::vector<std::byte>> outgoing(index(size_));
    std::vector<Message> sent, received;
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      const std::size_t theirs = own_bytes(r) * plan_.blocks[index(rank_)].size();
      sent_ += static_cast<std::int64_t>(theirs);
      if (theirs > 0 && !transport_.reads(r, rank_)) {
        std::vector<std::byte>& message = outgoing[index(r)];
        message.reserve(theirs);
        for (std::size_t b = 0; b < plan_.blocks[index(rank_)].size(); ++b) {
          for (const Segment& s : plan_.segments) {
            if (!adds(r, s)) continue;
            const std::byte* const from = at(call_.inputs[b * plan_.tensors + s.tensor].data, start_of(s));
            message.insert(message.end(), from, from + bytes_of(s));
          }
        }
        sent.push_back({r, message.data(), message.size()});
      }
      const std::size_t expected = own_bytes(rank_) * plan_.blocks[index(r)].size();
      if (expected > 0 && !transport_.reads(rank_, r)) {
        incoming_[index(r)].resize(expected);
        received.push_back({r, incoming_[index(r)].data(), expected});
      }
    }
    transport_.exchange(sent, received);
  }

  struct Chunk {
    const Segment* segment;
    std::size_t before, from, elements;  // bytes of my segments before this one; bytes of this one before the chunk
  };

  void add_up() {
    std::vector<Chunk> chunks;
    std::size_t before = 0;
    for (const Segment& s : plan_.segments) {
      if (!adds(rank_, s)) continue;
      const std::size_t all = bytes_of(s);
      for (std::size_t from = 0; from < all; from += kChunk)
        chunks.push_back({&s, before, from, std::min(kChunk, all - from) / element(s.tensor)});
      before += all;
    }
    own_bytes_ = before;
    parallel_for(static_cast<std::int64_t>(chunks.size()),
                 [&](std::int64_t k) { add_up(chunks[static_cast<std::size_t>(k)]); });
  }

  void add_up(const Chunk& c) {
    static thread_local std::vector<std::vector<std::byte>> scratch;
    const Segment& s = *c.segment;
    const std::size_t start = start_of(s) + c.from, bytes = c.elements * element(s.tensor);
    void* const result = this->result(s) + c.from;
    ChunkSum sum(call_.inputs[s.tensor].dtype, c.elements, result, scratch);
    Tree<Part, ChunkSum&> tree(sum);
    for (int r = 0; r < size_; ++r) {
      for (std::size_t b = 0; b < plan_.blocks[index(r)].size(); ++b) {
        Part part;
        if (r == rank_) {
          part.data = at(call_.inputs[b * plan_.tensors + s.tensor].data, start);
        } else if (!incoming_[index(r)].empty()) {
          part.data = incoming_[index(r)].data() + b * own_bytes_ + c.before + c.from;
        } else {
          part = sum.fresh();
          transport_.read(r, inputs_[index(r)][b * plan_.tensors + s.tensor] + start, const_cast<void*>(part.data),
                          bytes);
        }
        tree.put(plan_.blocks[index(r)][b], part);
      }
    }
    const Part total = tree.total();
    if (total.data != result) std::memcpy(result, total.data, bytes);
  }

  // Every rank gets the others' segments.
  void share() {
    std::vector<std::byte> own;
    std::vector<std::vector<std::byte>> from(index(size_));
    std::vector<Message> sent, received;
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      if (!transport_.reads(r, rank_)) {
        if (own.empty()) own = packed_own();
        if (!own.empty()) sent.push_back({r, own.data(), own.size()});
      }
      std::size_t expected = 0;
      for (const Segment& s : plan_.segments) expected += s.owner == r ? bytes_of(s) : 0;
      if (expected > 0 && !transport_.reads(rank_, r)) {
        from[index(r)].resize(expected);
        received.push_back({r, from[index(r)].data(), expected});
      }
    }
    transport_.exchange(sent, received);
    std::vector<std::size_t> next(index(size_));
    for (const Segment& s : plan_.segments) {
      if (s.owner == kEveryone || s.owner == rank_) continue;
      std::byte* const to = result(s);
      const std::size_t r = index(s.owner);
      if (from[r].empty()) {
        transport_.read(s.owner, outputs_[r][s.tensor] + start_of(s), to, bytes_of(s));
      } else {
        std::memcpy(to, from[r].data() + next[r], bytes_of(s));
        next[r] += bytes_of(s);
      }
    }
  }
  std::vector<std::byte> packed_own() const {
    std::vector<std::byte> own;
    for (const Segment& s : plan_.segments) {
      if (s.owner != rank_) continue;
      const std::byte* const data = result(s);
      own.insert(own.end(), data, data + bytes_of(s));
    }
    return own;
  }

  const ListSum& plan_;
  const LibraryCall& call_;
  Transport& transport_;
  int rank_, size_;
  std::vector<std::vector<std::byte>> incoming_;              // messages of ranks whose memory cannot be read
  std::vector<std::vector<std::uint64_t>> inputs_, outputs_;  // addresses, for ranks whose memory can be read
  std::size_t own_bytes_ = 0;
  std::int64_t sent_ = 0;
};

}  // namespace

std::vector<std::uint64_t> ListSum::table(const LibraryCall& call) const {
  std::vector<std::uint64_t> all;
  if (to_all) {
    for (const View& v : call.outputs) all.push_back(reinterpret_cast<std::uint64_t>(v.data));
  }
  for (const View& v : call.inputs) all.push_back(reinterpret_cast<std::uint64_t>(v.data));
  return all;
}

std::int64_t ListSum::move(const LibraryCall& call, const std::vector<std::uint64_t>& tables,
                           Transport& transport) const {
  return SumOfRank(*this, call, tables, transport).run();
}

std::vector<std::uint64_t> ListShare::table(const LibraryCall& call) const {
  std::vector<std::uint64_t> all;
  for (const View& v : call.inputs) all.push_back(reinterpret_cast<std::uint64_t>(v.data));
  return all;
}

std::int64_t ListShare::move(const LibraryCall& call, const std::vector<std::uint64_t>& tables,
                             Transport& transport) const {
  const int rank = transport.rank(), size = transport.size();
  std::vector<std::vector<std::uint64_t>> theirs(index(size));
  for (const Segment& s : segments) theirs[index(s.owner)].push_back(0);
  for (int r = 0; r < size; ++r) {
    std::vector<std::uint64_t>& table = theirs[index(r)];
    if (r == rank || table.empty() || !transport.reads(rank, r)) continue;
    transport.read(r, tables[index(r)], table.data(), table.size() * sizeof table[0]);
  }
  std::vector<Message> sent, received;
  std::int64_t given = 0;
  std::vector<std::size_t> next(index(size));  // segment of each owner
  for (const Segment& s : segments) {
    const auto bytes = static_cast<std::size_t>(s.to - s.from);
    const std::size_t n = next[index(s.owner)]++;
    std::byte* const to = output[s.tensor] < 0
                              ? nullptr
                              : at(call.outputs[index(output[s.tensor])].data, static_cast<std::size_t>(s.from));
    if (s.owner != rank) {
      if (transport.reads(rank, s.owner)) {
        transport.read(s.owner, theirs[index(s.owner)][n], to, bytes);
      } else {
        received.push_back({s.owner, to, bytes});
      }
      continue;
    }
    for (int r = 0; r < size; ++r) {
      if (r != rank && !transport.reads(r, rank)) sent.push_back({r, call.inputs[n].data, bytes});
    }
    given += static_cast<std::int64_t>(bytes) * (size - 1);
    if (to) std::memcpy(to, call.inputs[n].data, bytes);
  }
  transport.exchange(sent, received);
  transport.synchronize();
  return given;
}

// ---- on a device
// -----------------------------------------------------------------------------------------------------

std::int64_t ListSum::move_on(const LibraryCall& call, DeviceTransport& device, int rank, int size) const {
  const auto adds = [](int r, const Segment& s) { return s.owner == r || s.owner == kEveryone; };
  const auto element = [&](const Segment& s) { return size_of(call.inputs[s.tensor].dtype); };
  const auto bytes_of = [&](const Segment& s) { return static_cast<std::size_t>(s.to - s.from) * element(s); };
  const auto place = [&](void* data, const Segment& s) {
    return at(data, static_cast<std::size_t>(s.from) * element(s));
  };
  const auto result_of = [&](const Segment& s) {
    return at(call.outputs[index(output[s.tensor])].data,
              static_cast<std::size_t>(s.from - output_from[s.tensor]) * element(s));
  };
  std::int64_t given = 0;

  // Every rank sends its blocks to those that add them, and adds in the order of the tree.
  std::vector<std::vector<std::pair<Block, const void*>>> parts(segments.size());
  std::vector<Message> sent, received;
  for (int r = 0; r < size; ++r) {
    for (std::size_t b = 0; b < blocks[index(rank)].size() && r != rank; ++b) {
      for (const Segment& s : segments) {
        if (!adds(r, s)) continue;
        sent.push_back({r, place(call.inputs[b * tensors + s.tensor].data, s), bytes_of(s)});
        given += static_cast<std::int64_t>(bytes_of(s));
      }
    }
    for (std::size_t b = 0; b < blocks[index(r)].size(); ++b) {
      for (std::size_t k = 0; k < segments.size(); ++k) {
        const Segment& s = segments[k];
        if (!adds(rank, s)) continue;
        if (r == rank) {
          parts[k].emplace_back(blocks[index(r)][b], place(call.inputs[b * tensors + s.tensor].data, s));
        } else {
          received.push_back({r, device.scratch(bytes_of(s)), bytes_of(s)});
          parts[k].emplace_back(blocks[index(r)][b], received.back().data);
        }
      }
    }
  }
  device.exchange(sent, received);
  sent.clear(), received.clear();
  for (std::size_t k = 0; k < segments.size(); ++k) {
    const Segment& s = segments[k];
    if (!adds(rank, s)) continue;
    void* const result = result_of(s);
    std::size_t left = parts[k].size() - 1;
    const auto add = [&](const void* a, const void* b) -> const void* {
      void* const to = --left == 0 ? result : device.scratch(bytes_of(s));
      device.add(call.inputs[s.tensor].dtype, to, a, b, static_cast<std::size_t>(s.to - s.from));
      return to;
    };
    Tree<const void*, decltype(add)> tree(add);
    for (const auto& [block, data] : parts[k]) tree.put(block, data);
    const void* const total = tree.total();
    if (total == result) continue;  // a single block is its own sum
    sent.push_back({rank, const_cast<void*>(total), bytes_of(s)});
    received.push_back({rank, result, bytes_of(s)});
  }
  for (const Segment& s : segments) {
    if (!to_all || s.owner == kEveryone) continue;
    void* const data = result_of(s);
    if (s.owner != rank) received.push_back({s.owner, data, bytes_of(s)});
    for (int r = 0; r < size && s.owner == rank; ++r) {
      if (r == rank) continue;
      sent.push_back({r, data, bytes_of(s)});
      given += static_cast<std::int64_t>(bytes_of(s));
    }
  }
  device.exchange(sent, received);
  return given;
}

std::int64_t ListShare::move_on(const LibraryCall& call, DeviceTransport& device, int rank, int size) const {
  std::vector<Message> sent, received;
  std::size_t input = 0;
  std::int64_t given = 0;
  for (const Segment& s : segments) {
    const auto bytes = static_cast<std::size_t>(s.to - s.from);
    std::byte* const to = output[s.tensor] < 0
                              ? nullptr
                              : at(call.outputs[index(output[s.tensor])].data, static_cast<std::size_t>(s.from));
    if (to) received.push_back({s.owner, to, bytes});  // from itself, too
    if (s.owner != rank) continue;
    for (int r = 0; r < size; ++r) {
      if (r != rank || to) sent.push_back({r, call.inputs[input].data, bytes});
    }
    given += static_cast<std::int64_t>(bytes) * (size - 1);
    ++input;
  }
  device.exchange(sent, received);
  return given;
}

}  // namespace ebb::comm
