// SPDX-License-Identifier: MIT
// Work on other libraries' streams: which stream gets it, and what waits for what.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>

#include "backend/backend.h"
#include "counted_driver.h"
#include "cuda/emulated_device.h"
#include "ebb/autograd.h"
#include "ebb/compile.h"
#include "ebb/data.h"
#include "ebb/losses.h"
#include "ebb/memory.h"
#include "ebb/ops.h"
#include "ebb/random.h"
#include "ebb/stream.h"
#include "emulated_device.h"
#include "expect_error.h"
#include "graph/node.h"

namespace ebb::testing {
namespace {

// Calls of the emulated device's streams, which represent the GPU here: they are executed in the order given.
class OnAnotherStream : public ::testing::Test {
 protected:
  void SetUp() override {
    use_emulated_device_without_gpu();
    if (!device_is_emulated()) GTEST_SKIP() << "it looks at what the emulated device is asked for";
    x_ = randn({8, 30}).eval().to(kGpu).eval();
    stream_ = new_emulated_stream();
    other_ = new_emulated_stream();
    synchronize(kGpu);
    {
      OnStream scope(kGpu, stream_);  // finds that the device's own stream is idle
      const Tensor warm = (x_ * 2).eval();
    }
    synchronize(kGpu);
    emulated_stream_calls();
  }
  static std::string number(void* stream) { return std::to_string(reinterpret_cast<std::uintptr_t>(stream) / 16); }
  static std::map<std::string, int> counted() {
    std::map<std::string, int> counts;
    for (const std::string& call : emulated_stream_calls()) ++counts[call];
    return counts;
  }
  Tensor x_;
  void *stream_ = nullptr, *other_ = nullptr;
};

class CountedMemory final : public StreamMemory {
 public:
  int live = 0;
  bool empty = false;
  void* allocate(std::size_t bytes) override {
    if (empty) return nullptr;
    ++live;
    return std::malloc(bytes ? bytes : 1);
  }
  void free(void* data) noexcept override {
    --live;
    std::free(data);
  }
};

TEST_F(OnAnotherStream, WorkIsGivenToTheStreamAndNothingWaits) {
  const auto memory = std::make_shared<CountedMemory>();
  {
    OnStream scope(kGpu, stream_, memory);
    const Tensor v = variable(x_);
    const Tensor loss = cross_entropy(v, full({8}, 3, DType::i64));
    eval({loss, backward(loss)[v]});
    EXPECT_GT(memory->live, 0);
  }
  EXPECT_EQ(memory->live, 0);
  const auto calls = counted();
  EXPECT_TRUE(calls.contains("launch " + number(stream_)));
  for (const auto& [call, times] : calls) EXPECT_TRUE(call.ends_with(" " + number(stream_))) << call;
  for (const auto& [call, times] : calls) EXPECT_FALSE(call.starts_with("synchronize")) << call;
  for (const auto& [call, times] : calls) EXPECT_FALSE(call.starts_with("wait")) << call;
}

TEST_F(OnAnotherStream, TheOwnStreamComesBeforeAndAfter) {
  const std::string own = "1", there = number(stream_);
  leave_emulated_work_unfinished(true);
  const Tensor y = (x_ + 1).eval();  // own work
  Tensor z;
  {
    OnStream scope(kGpu, stream_);
    z = (y * 2).eval();
  }
  std::vector<std::string> calls = emulated_stream_calls();
  const auto at = [&](const std::string& call) { return std::find(calls.begin(), calls.end(), call) - calls.begin(); };
  EXPECT_LT(at("record " + own), at("wait " + there));
  EXPECT_LT(at("wait " + there), at("launch " + there));
  EXPECT_LT(at("launch " + there), at("record " + there));
  const Tensor back = (z + 1).eval();
  calls = emulated_stream_calls();
  EXPECT_LT(at("wait " + own), at("launch " + own));
  leave_emulated_work_unfinished(false);
  const std::vector<double> want = ((x_ + 1) * 2 + 1).to_vector<double>();
  EXPECT_EQ(back.to_vector<double>(), want);
}

TEST_F(OnAnotherStream, BlocksOfThePoolWaitForTheEndOfTheScope) {
  Tensor big = (x_ + 1).eval();
  const std::size_t live = memory_stats(kGpu).live;
  {
    OnStream scope(kGpu, stream_);
    const Tensor sum_of_it = sum(big).eval();
    big = Tensor();
    EXPECT_EQ(memory_stats(kGpu).live, live);
  }
  EXPECT_LT(memory_stats(kGpu).live, live);
}

TEST_F(OnAnotherStream, MemoryOfTheStreamIsFreedInItsOrder) {
  Tensor y;
  {
    OnStream scope(kGpu, stream_);
    y = (x_ * 3).eval();
  }
  const Tensor z = (y + 1).eval();  // read on the own stream
  emulated_stream_calls();
  y = Tensor();
  const std::vector<std::string> calls = emulated_stream_calls();
  ASSERT_GE(calls.size(), 3u);
  EXPECT_EQ(std::vector(calls.end() - 3, calls.end()),
            (std::vector<std::string>{"record 1", "wait " + number(stream_), "free " + number(stream_)}));
}

// So is memory of the stream's owner; if it was read on no other stream there is nothing to wait for.
TEST_F(OnAnotherStream, MemoryOfTheOwnerIsFreedAfterItsReaders) {
  const auto memory = std::make_shared<CountedMemory>();
  Tensor y, z;
  {
    OnStream scope(kGpu, stream_, memory);
    y = (x_ * 3).eval();
    z = (x_ * 4).eval();
  }
  emulated_stream_calls();
  z = Tensor();
  EXPECT_EQ(memory->live, 1);
  EXPECT_TRUE(emulated_stream_calls().empty());
  const Tensor sum_of_it = sum(y).eval();
  emulated_stream_calls();
  y = Tensor();
  EXPECT_EQ(memory->live, 0);
  EXPECT_EQ(emulated_stream_calls().back(), "wait " + number(stream_));
}

TEST_F(OnAnotherStream, SaysThatItsMemoryIsSpent) {
  const auto memory = std::make_shared<CountedMemory>();
  memory->empty = true;
  {
    OnStream scope(kGpu, stream_, memory);
    EXPECT_THROW_MESSAGE((x_ * 5).eval(), "bytes on cuda:0, and the owner of the stream has no more memory");
  }
  EXPECT_EQ((x_ * 0).to_vector<double>()[0], 0);
}

TEST_F(OnAnotherStream, IsCapturedWithoutEventsAndWithoutWaiting) {
  const auto memory = std::make_shared<CountedMemory>();
  capture_emulated_stream(stream_, true);
  Tensor y;
  {
    OnStream scope(kGpu, stream_, memory);
    y = (x_ * 2 + 1).eval();
    EXPECT_THROW_MESSAGE(y.item<double>(), "item: the tensor has shape");
    EXPECT_THROW_MESSAGE(sum(y).item<double>(), "values cannot be read while a CUDA graph is captured");
    EXPECT_THROW_MESSAGE(tensor({1.0, 2.0}).to(kGpu).eval(), "cannot be copied to the device while a CUDA graph");
  }
  EXPECT_THROW_MESSAGE(OnStream(kGpu, stream_), "memory of the graph's own");
  capture_emulated_stream(stream_, false);
  for (const auto& [call, times] : counted()) EXPECT_TRUE(call == "launch " + number(stream_)) << call;
  EXPECT_EQ(y.to_vector<double>(), (x_ * 2 + 1).to_vector<double>());
}

// No value is read in between: the next scope reports it, or synchronize().
TEST_F(OnAnotherStream, ReportsWrongDataLater) {
  const auto wrong = [&] {
    OnStream scope(kGpu, stream_);
    cross_entropy(x_, full({8}, 77, DType::i64)).eval();
  };
  const char* const message = "cross_entropy: target[0] = 77 is outside [0, 30)";
  wrong();
  EXPECT_THROW_MESSAGE(OnStream(kGpu, other_), message);
  OnStream(kGpu, other_);
  wrong();
  EXPECT_THROW_MESSAGE(synchronize(kGpu), message);
  synchronize(kGpu);
  // Null is an ordinary stream: PyTorch's default one.
  {
    OnStream scope(kGpu, nullptr);
    cross_entropy(x_, full({8}, 77, DType::i64)).eval();
  }
  EXPECT_THROW_MESSAGE(OnStream(kGpu, nullptr), message);
}

// A loader's batches are copied concurrently with the device's work, and their readers wait for the copy.
TEST_F(OnAnotherStream, BatchesAreCopiedBesideTheWork) {
  const OnDevice there(kGpu);
  const Tensor rows = arange(12).to(Device{}).eval();
  DataLoader loader({rows}, {.batch_size = 4, .shuffle = false});
  const Tensor busy = (x_ + 3).eval();
  emulated_stream_calls();
  Tensor batch = (*loader.next())[0];
  std::vector<std::string> calls = emulated_stream_calls();
  const auto copy = std::find_if(calls.begin(), calls.end(), [](const auto& call) { return call.starts_with("copy"); });
  ASSERT_NE(copy, calls.end());
  const std::string beside = copy->substr(5);
  EXPECT_NE(beside, "1");
  EXPECT_EQ(std::find(calls.begin(), calls.end(), "wait " + beside), calls.end());  // for nothing
  leave_emulated_work_unfinished(true);
  const Tensor sum_of_it = sum(batch).eval();
  leave_emulated_work_unfinished(false);
  calls = emulated_stream_calls();
  const auto at = [&](const std::string& call) { return std::find(calls.begin(), calls.end(), call) - calls.begin(); };
  EXPECT_LT(at("wait 1"), at("launch 1"));
  batch = Tensor();
  calls = emulated_stream_calls();
  EXPECT_LT(at("record 1"), at("wait " + beside));
  EXPECT_LT(at("wait " + beside), at("free " + beside));
  EXPECT_EQ(sum_of_it.item<double>(), 6);
  EXPECT_EQ((*loader.next())[0].to_vector<double>(), (std::vector<double>{4, 5, 6, 7}));
}

// In place, by a factor that the device reads; whole vectors and the remainder.
TEST_F(OnAnotherStream, ScalesWhatBelongsToOthers) {
  const auto view = [](const Tensor& x) {
    const Storage& s = x.node()->storage;
    return View{s.buffer.data(), x.dtype(), x.shape(), s.strides};
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const Tensor x = cast(arange(21), dtype).eval().to(kGpu).eval();
    for (const double factor : {1.0, 0.5}) {
      const Tensor f = tensor(factor).eval().to(kGpu).eval();
      backend_of(kGpu).scale(view(x), view(f));
      const std::vector<double> got = x.to_vector<double>();
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], static_cast<double>(i) * factor);
    }
  }
}

TEST_F(OnAnotherStream, OnlyGpusHaveStreams) {
  EXPECT_THROW_MESSAGE(OnStream(Device{}, nullptr), "stream: cpu has no streams");
}

TEST_F(OnAnotherStream, OthersMemoryIsReleasedWhenNothingUsesIt) {
  Streams& streams = *backend_of(kGpu).streams();
  int released = 0;
  const std::function<void()> release = streams.after_use([&] { ++released; });
  release();
  EXPECT_EQ(released, 1);  // there is nothing to wait for
  leave_emulated_work_unfinished(true);
  const Tensor y = (x_ + 1).eval();
  release();
  EXPECT_EQ(released, 1);
  const Tensor z = (x_ + 2).eval();
  EXPECT_EQ(released, 1);
  leave_emulated_work_unfinished(false);
  synchronize(kGpu);
  EXPECT_EQ(released, 2);
}

// After an illegal access every call of the driver fails; tensors of other libraries are freed then, too, by destructors.
TEST_F(OnAnotherStream, OthersMemoryIsLetGoOfWhenTheDeviceHasFailed) {
  count_driver_calls();
  int released = 0;
  const std::function<void()> release = backend_of(kGpu).streams()->after_use([&] { ++released; });
  leave_emulated_work_unfinished(true);
  const Tensor y = (x_ + 1).eval();
  driver_calls().fail_record = true;
  EXPECT_NO_THROW(release());
  EXPECT_EQ(released, 0);
  driver_calls().fail_record = false;
  leave_emulated_work_unfinished(false);
  synchronize(kGpu);
  const Tensor z = (x_ + 2).eval();
  EXPECT_EQ(released, 1);
}

// Two threads: one has entered the stream, the other meanwhile computes on the device's own.
TEST_F(OnAnotherStream, ThreadsWaitForEachOthersRuns) {
  const std::string there = number(stream_);
  leave_emulated_work_unfinished(true);
  std::vector<std::string> calls;
  const auto at = [&](const std::string& call) { return std::find(calls.begin(), calls.end(), call) - calls.begin(); };
  Tensor y, z;
  {
    OnStream scope(kGpu, stream_);
    std::thread([&] { y = (x_ + 1).eval(); }).join();
    emulated_stream_calls();
    z = (y * 2).eval();
    calls = emulated_stream_calls();
    EXPECT_LT(at("wait " + there), at("launch " + there));
    std::thread([&] { y = (x_ + 2).eval(); }).join();  // may reuse memory that the scope has released
    calls = emulated_stream_calls();
    EXPECT_LT(at("wait 1"), at("launch 1"));
  }
  leave_emulated_work_unfinished(false);
  EXPECT_EQ(z.to_vector<double>(), ((x_ + 1) * 2).to_vector<double>());
}

// A compiled function is launched plainly there, so that a capture sees its kernels, and as Ebb's own graph afterwards.
TEST_F(OnAnotherStream, CompiledFunctionsAreGraphsOnTheOwnStreamOnly) {
  const Function f = compile(Function([](const Tensor& x) {
    return sum(softmax(matmul(x, permute(x, {1, 0})), 1) * 3);
  }));
  const double want = sum(softmax(matmul(x_, permute(x_, {1, 0})), 1) * 3).item<double>();
  std::vector<Tensor> results;
  emulated_stream_calls();
  {
    OnStream scope(kGpu, stream_);
    for (int k = 0; k < 4; ++k) results.push_back(f(x_).eval());
  }
  auto calls = counted();
  EXPECT_GT(calls["launch " + number(stream_)], 0);
  EXPECT_EQ(calls["graph " + number(stream_)] + calls["graph 1"] + calls["launch 1"], 0);
  for (int k = 0; k < 4; ++k) EXPECT_EQ(f(x_).item<double>(), want);
  calls = counted();
  EXPECT_EQ(calls["graph 1"], 4);
  for (const Tensor& r : results) EXPECT_EQ(r.item<double>(), want);
}

// A run on another stream that reads what a run on the own stream is still computing, and the other way round.
TEST_F(OnAnotherStream, RunsWaitForWhatTheyRead) {
  leave_emulated_work_unfinished(true);
  Tensor y, z;
  {
    OnStream scope(kGpu, stream_);
    y = (x_ * 2).eval();
  }
  emulated_stream_calls();
  {
    OnStream scope(kGpu, other_);
    z = (y + 1).eval();
  }
  std::vector<std::string> calls = emulated_stream_calls();
  const auto at = [&](const std::string& call) { return std::find(calls.begin(), calls.end(), call) - calls.begin(); };
  EXPECT_LT(at("wait " + number(other_)), at("launch " + number(other_)));
  const Tensor back = (z + y).eval();
  calls = emulated_stream_calls();
  EXPECT_LT(at("wait 1"), at("launch 1"));
  leave_emulated_work_unfinished(false);
  EXPECT_EQ(back.to_vector<double>(), (x_ * 2 + 1 + x_ * 2).to_vector<double>());
}

}  // namespace
}  // namespace ebb::testing
