// SPDX-License-Identifier: MIT
#include "cuda/library/nccl.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "core/format_error.h"
#include "cuda/kernels/args/collective.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"
#include "cuda/runtime/open_library.h"

namespace ebb::cuda {
namespace {

std::atomic<bool> nccl_installed{false};
std::atomic<const Nccl*> installed_nccl{nullptr};

constexpr int kBus = 33, kSlot = 34, kDomain = 50;  // device attributes: a GPU's PCI address

// A rank's description of itself.
struct Card {
  char host[64] = {};
  int bus = 0, slot = 0, domain = 0, has_nccl = 0;
  NcclId id = {};  // rank 0's
};

Card own_card(const Gpu& gpu, int rank) {
  Card card;
  ::gethostname(card.host, sizeof card.host - 1);
  int device = 0;
  cuda::check(driver().device(&device, gpu.index()), "cuDeviceGet");
  driver().device_attribute(&card.bus, kBus, device);
  driver().device_attribute(&card.slot, kSlot, device);
  driver().device_attribute(&card.domain, kDomain, device);
  const Nccl* const table = nccl();
  card.has_nccl = table != nullptr && (rank != 0 || table->unique_id(&card.id) == 0);
  return card;
}

}  // namespace

const Nccl* nccl() {
  if (nccl_installed.load(std::memory_order_acquire)) return installed_nccl.load();
  static const Nccl* const table = []() -> const Nccl* {
    const OpenLibrary library = OpenLibrary::try_open({"libnccl.so.2", "libnccl.so"});
    if (!library) return nullptr;
    auto* t = new Nccl;
#define EBB_LOAD(name, symbol, parameters) t->name = reinterpret_cast<int(*) parameters>(library.function(#symbol));
    EBB_NCCL(EBB_LOAD)
#undef EBB_LOAD
    return t;
  }();
  return table;
}

void install_nccl(const Nccl* table) {
  installed_nccl.store(table);
  nccl_installed.store(true, std::memory_order_release);
}

NcclRanks* NcclRanks::of(const RankedCollective& collective, Gpu& gpu) {
  static std::mutex mutex;
  static auto* const known = new std::map<std::pair<const void*, int>, std::unique_ptr<NcclRanks>>;
  const std::pair key{collective.world(), gpu.index()};
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known->find(key); found != known->end()) return found->second.get();
  }
  const Card own = own_card(gpu, collective.rank());
  const std::vector<std::byte> bytes = collective.gather(&own, sizeof own);
  std::vector<Card> cards(static_cast<std::size_t>(collective.size()));
  std::memcpy(cards.data(), bytes.data(), bytes.size());
  bool good = true;
  std::set<std::tuple<std::string, int, int, int>> gpus;
  for (const Card& c : cards) good &= c.has_nccl && gpus.emplace(c.host, c.domain, c.bus, c.slot).second;
  std::unique_ptr<NcclRanks> ranks;
  if (good) ranks.reset(new NcclRanks(gpu, collective.rank(), collective.size(), cards[0].id));
  const std::lock_guard lock(mutex);
  return (known->emplace(key, std::move(ranks)).first)->second.get();
}

NcclRanks::NcclRanks(Gpu& gpu, int rank, int size, const NcclId& id) : gpu_(gpu), nccl_(*nccl()) {
  gpu.use();
  check(nccl_.start(&comm_, size, id, rank), "ncclCommInitRank");
  cuda::check(driver().create_stream(&stream_, kNonBlocking), "cuStreamCreate");
  cuda::check(driver().create_event(&before_, kDisableTiming), "cuEventCreate");
  cuda::check(driver().create_event(&after_, kDisableTiming), "cuEventCreate");
}

void NcclRanks::check(int status, const char* call) const {
  require(status == 0, Error::Kind::io, "NCCL: {} failed with {}; NCCL_DEBUG=WARN says why", call, status);
}

template <class Calls>
void NcclRanks::on_stream(const char* what, Calls calls) {
  gpu_.use();
  gpu_.streams().before_work();
  const Stream compute = gpu_.stream();
  cuda::check(driver().record(before_, compute), "cuEventRecord");
  cuda::check(driver().stream_wait(stream_, before_, 0), "cuStreamWaitEvent");
  check(nccl_.begin_group(), "ncclGroupStart");
  calls();
  check(nccl_.end_group(), what);
  cuda::check(driver().record(after_, stream_), "cuEventRecord");
  cuda::check(driver().stream_wait(compute, after_, 0), "cuStreamWaitEvent");
}

void NcclRanks::all_gather(const void* mine, void* all, std::size_t bytes) {
  on_stream("ncclAllGather",
            [&] { check(nccl_.all_gather(mine, all, bytes, kNcclBytes, comm_, stream_), "ncclAllGather"); });
}

void NcclRanks::broadcast(void* data, std::size_t bytes, int root) {
  on_stream("ncclBroadcast",
            [&] { check(nccl_.broadcast(data, data, bytes, kNcclBytes, root, comm_, stream_), "ncclBroadcast"); });
}

void NcclRanks::exchange(std::span<const Message> sent, std::span<const Message> received) {
  if (sent.empty() && received.empty()) return;
  on_stream("ncclSend", [&] {
    for (const Message& m : sent) {
      if (m.bytes > 0) check(nccl_.send(m.data, m.bytes, kNcclBytes, m.rank, comm_, stream_), "ncclSend");
    }
    for (const Message& m : received) {
      if (m.bytes > 0) check(nccl_.receive(m.data, m.bytes, kNcclBytes, m.rank, comm_, stream_), "ncclRecv");
    }
  });
}

void NcclRanks::add(DType dtype, void* to, const void* a, const void* b, std::size_t elements) {
  const auto n = static_cast<std::int64_t>(elements);
  launch_elements(gpu_, {element_text(dtype) + texts::add_ranks}, "add_ranks", n,
                  AddRanksArgs<void>{.to = to, .a = a, .b = b, .n = n});
}

void* NcclRanks::scratch(std::size_t bytes) {
  scratch_.push_back(BufferPtr::allocate(std::max<std::size_t>(bytes, 1), "collective",
                                         Device{Device::Kind::cuda, static_cast<std::uint8_t>(gpu_.index())}));
  return scratch_.back().data();
}

// NCCL would wait forever for a lost rank; the device's stream must not be left waiting for it.
void NcclRanks::wait(const RankedCollective& collective) {
  cuda::check(driver().record(after_, gpu_.stream()), "cuEventRecord");
  for (int round = 0;; ++round) {
    const Result state = driver().query(after_);
    if (state == kSuccess) return;
    if (state != kNotReady) cuda::check(state, "cuEventQuery");
    int error = 0;
    nccl_.error(comm_, &error);
    try {
      check(error, "a collective");
      collective.require_ranks();
    } catch (const Error&) {
      nccl_.abort(comm_);
      throw;
    }
    if (round > 1000) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void NcclRanks::run(const RankedCollective& collective, const LibraryCall& call) {
  collective.run_on(call, *this);
  wait(collective);
  scratch_.clear();
}

}  // namespace ebb::cuda
