// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/collective.h"
#include "cuda/runtime/gpu.h"

namespace ebb::cuda {

// The subset of nccl.h used here.
using NcclComm = void*;
struct NcclId {
  char bytes[128];
};
inline constexpr int kNcclBytes = 0;  // ncclInt8

#define EBB_NCCL(X)                                                                          \
  X(unique_id, ncclGetUniqueId, (NcclId*))                                                   \
  X(start, ncclCommInitRank, (NcclComm*, int, NcclId, int))                                  \
  X(abort, ncclCommAbort, (NcclComm))                                                        \
  X(error, ncclCommGetAsyncError, (NcclComm, int*))                                          \
  X(all_gather, ncclAllGather, (const void*, void*, std::size_t, int, NcclComm, Stream))     \
  X(broadcast, ncclBroadcast, (const void*, void*, std::size_t, int, int, NcclComm, Stream)) \
  X(send, ncclSend, (const void*, std::size_t, int, int, NcclComm, Stream))                  \
  X(receive, ncclRecv, (void*, std::size_t, int, int, NcclComm, Stream))                     \
  X(begin_group, ncclGroupStart, ())                                                         \
  X(end_group, ncclGroupEnd, ())

struct Nccl {
#define EBB_MEMBER(name, symbol, parameters) int(*name) parameters = nullptr;
  EBB_NCCL(EBB_MEMBER)
#undef EBB_MEMBER
};

const Nccl* nccl();                    // null where it is not installed
void install_nccl(const Nccl* table);  // for tests; null: as if there were none

// The ranks of a world with a GPU for each of them. NCCL works on a stream of its own; it and the device's stream wait
// for each other.
class NcclRanks final : public DeviceTransport {
 public:
  // Null where NCCL is missing on one of the ranks, or where ranks share a GPU. All ranks get the same answer: the
  // first call for a world is a collective.
  static NcclRanks* of(const RankedCollective& collective, Gpu& gpu);

  void run(const RankedCollective& collective, const LibraryCall& call);

  void all_gather(const void* mine, void* all, std::size_t bytes) override;
  void broadcast(void* data, std::size_t bytes, int root) override;
  void exchange(std::span<const Message> sent, std::span<const Message> received) override;
  void add(DType dtype, void* to, const void* a, const void* b, std::size_t elements) override;
  void* scratch(std::size_t bytes) override;

 private:
  NcclRanks(Gpu& gpu, int rank, int size, const NcclId& id);
  template <class Calls>
  void on_stream(const char* what, Calls calls);
  void wait(const RankedCollective& collective);
  void check(int status, const char* call) const;

  Gpu& gpu_;
  const Nccl& nccl_;
  NcclComm comm_ = nullptr;
  Stream stream_ = nullptr;
  Event before_ = nullptr, after_ = nullptr;
  std::vector<BufferPtr> scratch_;
};

}  // namespace ebb::cuda
