// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backend/call.h"
#include "comm/ordered_sum.h"
#include "comm/transport.h"
#include "ebb/distributed/world.h"
#include "ebb/tensor.h"

namespace ebb::distributed::detail {

// A rank's next action. Ranks exchange these before every collective, so that a difference between their programs is an
// error instead of a deadlock or misplaced numbers.
struct Announcement {
  enum class What : std::uint8_t { collective, lists, barrier, any, text, end };
  std::uint64_t number = 0;  // of collectives before it
  What what = What::barrier;
  Collective::Kind kind = Collective::Kind::all_gather;
  DType dtype = DType::f32;
  std::uint8_t rank = 0;  // of the shape
  std::uint8_t flag = 0;  // any: this rank's answer. Not compared
  std::int32_t root = 0;
  std::int64_t bytes = 0;     // text: how long it is. Not compared
  std::uint64_t address = 0;  // of lists: where this rank's table is. Not compared
  std::int64_t tensors = 0;   // of lists: how many, their shapes and dtypes
  std::uint64_t digest = 0;
  std::int64_t sizes[Shape::kMaxRank] = {};
  char label[24] = {};  // what the user called

  bool same_as(const Announcement& other) const;
  std::string str() const;  // "all_reduce of f32 [784, 256]"
};

// The ranks of a world, seen from one of them: keeps collectives in order and compares programs.
class Group {
 public:
  explicit Group(std::unique_ptr<comm::Transport> transport);  // null: a world of one
  ~Group();
  Group(const Group&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const void* identity() const { return identity_; }  // unique, also after this one has ended
  const std::string& host(int rank) const;
  Traffic traffic() const;

  // Makes a node without history; label is static text.
  Tensor collective(Collective::Kind kind, const char* label, const Tensor& x, const Shape& shape, int root = 0);
  // Runs a collective, on host memory if there is no device.
  void run(const Announcement& announcement, const LibraryCall& call, std::uint64_t created, DeviceTransport* device);

  // A collective of lists, which need not have the same tensors on all ranks: `list` are all the tensors involved,
  // which ranks compare. Returns its outputs.
  std::vector<Tensor> collective(std::shared_ptr<const comm::ListExchange> exchange, const char* label,
                                 const std::vector<std::pair<Shape, DType>>& list, std::vector<Tensor> inputs,
                                 const std::vector<std::pair<Shape, DType>>& outputs);
  void run(const comm::ListExchange& exchange, Announcement announcement, const LibraryCall& call,
           std::uint64_t created, DeviceTransport* device);

  // Collectives of lists that overlap other work: each begins when its inputs are there, on a thread of their own, in
  // order. finished() waits for all of them; only its results may be read.
  class Overlapped {
   public:
    explicit Overlapped(Group& group) : group_(group) {}
    std::vector<Tensor> collective(std::shared_ptr<const comm::ListExchange> exchange, const char* label,
                                   const std::vector<std::pair<Shape, DType>>& list, const std::vector<Tensor>& inputs,
                                   const std::vector<std::pair<Shape, DType>>& outputs);
    std::vector<Tensor> finished(const std::vector<Tensor>& outputs);

   private:
    Group& group_;
    std::vector<Tensor> used_;  // inputs and outputs, which must be there until the end
  };
  void post(std::function<void()> work);
  void finish_posted();
  void finish(std::uint64_t created);  // the work of a finished() node
  std::vector<std::byte> gather(const void* mine, std::size_t bytes);
  void require_ranks() const;

  Tensor pending();  // the last collective that was created, if it is not computed yet
  void catch_up();   // computes collectives that were created but not yet needed

  void barrier();
  bool any(bool mine);
  std::vector<std::string> gather_text(const std::string& mine);

  // Announces the end of this rank's program. The others notice at their next collective; true if they end here, too.
  bool end() noexcept;

 private:
  // The same on all ranks.
  std::vector<Announcement> meet(Announcement mine);
  Announcement announcement_of(const char* label, const std::vector<std::pair<Shape, DType>>& list) const;
  std::vector<Tensor> create_lists(std::shared_ptr<const comm::ListExchange> exchange, const char* label,
                                   const std::vector<std::pair<Shape, DType>>& list, std::vector<Tensor> inputs,
                                   const std::vector<std::pair<Shape, DType>>& outputs, bool posted);
  Tensor create(const char* label, std::vector<Tensor> inputs, std::vector<std::pair<Shape, DType>> outputs,
                const std::function<std::shared_ptr<const RankedCollective>(std::uint64_t number)>& make);
  void computed(std::uint64_t created);
  template <class Move>
  void transported(Move move);  // returns how many bytes it gave to others

  std::unique_ptr<comm::Transport> transport_;
  int rank_ = 0, size_ = 1;
  const void* identity_;  // a counter: addresses of ended worlds are reused

  std::mutex creating_;  // one at a time
  std::mutex order_;     // guards what follows
  Tensor last_;          // the last collective that was created, until it is computed
  std::uint64_t created_ = 0;

  std::mutex running_;  // one collective at a time
  std::uint64_t number_ = 0;
  std::string failure_;  // why there will be no more collectives
  bool ended_ = false, together_ = true;
  mutable std::mutex counting_;
  Traffic traffic_;

  std::mutex posting_;  // guards what follows
  std::condition_variable posted_;
  std::deque<std::function<void()>> jobs_;  // the first one is in progress
  std::exception_ptr broken_;               // thrown by the first of them that failed
  bool stopping_ = false;
  std::thread worker_;
};

// Makes this thread a rank of a world, for its scope: tests run ranks as threads of one process.
class InWorld {
 public:
  explicit InWorld(const World& world);
  ~InWorld();
  InWorld(const InWorld&) = delete;

 private:
  const World* before_;
};

}  // namespace ebb::distributed::detail
