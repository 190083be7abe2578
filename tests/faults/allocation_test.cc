// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <thread>

#include "core/buffer.h"
#include "ebb/ebb.h"
#include "ebb/io.h"
#include "ebb/second_order.h"
#include "io/deflate.h"
#include "scratch_folder.h"

// Memory runs out at the n-th allocation, for every n: the caller gets std::bad_alloc or an Error of kind memory, its
// data is unchanged, no memory leaks, and the same call afterwards gives the same bits.

namespace {

constinit thread_local std::int64_t until_failure = -1;  // allocations of this thread that still succeed; -1: all
constinit thread_local bool fails_on = false;            // after the first failure all others fail, too
constinit thread_local bool failed = false;
constinit std::atomic<std::int64_t> live_allocations{0};
constinit thread_local std::size_t largest_allocation = 0;

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (until_failure == 0) {
    failed = true;
    if (!fails_on) until_failure = -1;
    return nullptr;
  }
  if (until_failure > 0) --until_failure;
  largest_allocation = std::max(largest_allocation, bytes);
  void* const memory = alignment > alignof(std::max_align_t)
                           ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                           : std::malloc(bytes ? bytes : 1);
  if (memory) live_allocations.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* memory = allocate(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

void deallocate(void* memory) noexcept {
  if (!memory) return;
  live_allocations.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate_or_throw(bytes, 0); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t a) { return allocate_or_throw(bytes, std::size_t(a)); }
void* operator new[](std::size_t bytes, std::align_val_t a) { return allocate_or_throw(bytes, std::size_t(a)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, 0); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(bytes, std::size_t(a));
}
void operator delete(void* memory) noexcept { deallocate(memory); }
void operator delete[](void* memory) noexcept { deallocate(memory); }
void operator delete(void* memory, std::size_t) noexcept { deallocate(memory); }
void operator delete[](void* memory, std::size_t) noexcept { deallocate(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { deallocate(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { deallocate(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { deallocate(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { deallocate(memory); }

namespace ebb {
namespace {

using Numbers = std::vector<double>;
// `size` is a size of its tensors: another one means other plans.
using Scenario = std::function<Numbers(std::int64_t size)>;

void add(Numbers& all, const Tensor& t) {
  const Numbers more = t.to_vector();
  all.insert(all.end(), more.begin(), more.end());
}

// Calls it with the n-th allocation failing; returns whether that many were made.
bool fails_cleanly(const Scenario& scenario, std::int64_t size, std::int64_t n, bool all_after) {
  until_failure = n;
  fails_on = all_after;
  failed = false;
  std::string complaint;
  try {
    scenario(size);
  } catch (const std::bad_alloc&) {
  } catch (const Error& error) {
    until_failure = -1;
    if (error.kind() != Error::Kind::memory) complaint = error.what();
  }
  until_failure = -1;
  EXPECT_EQ(complaint, "") << "allocation " << n;
  return failed;
}

std::int64_t allocations_after(const Scenario& scenario, std::int64_t size, const Numbers& expected) {
  EXPECT_EQ(scenario(size), expected);
  release_cached_memory();
  return live_allocations.load();
}

// Plans are cached: building the graph and evaluating it fail.
void survives_failures(const Scenario& scenario) {
  set_num_threads(1);
  const Numbers expected = scenario(6);
  for (const bool all_after : {false, true}) {
    allocations_after(scenario, 6, expected);
    const std::int64_t before = allocations_after(scenario, 6, expected);
    const std::size_t live = memory_stats().live;
    std::int64_t n = 0;
    for (; fails_cleanly(scenario, 6, n, all_after); ++n) {
      ASSERT_EQ(memory_stats().live, live) << "allocation " << n;
      ASSERT_EQ(allocations_after(scenario, 6, expected), before) << "allocation " << n;
    }
    EXPECT_GT(n, 20);
  }
}

// Every call needs a new plan, and making it fails.
void survives_failures_of_planning(const Scenario& scenario) {
  set_num_threads(1);
  scenario(150);
  std::int64_t n = 0, size = 7;
  const std::size_t most = memory_stats().live + (64 << 10);  // a thread keeps the tiles of its largest sweep
  for (; fails_cleanly(scenario, size, n, n % 2 != 0); n += 1 + n / 16, ++size) {
    ASSERT_LE(memory_stats().live, most) << "allocation " << n;
    const Numbers first = scenario(size);
    ASSERT_EQ(scenario(size), first) << "allocation " << n;
  }
  EXPECT_GT(n, 50);
  EXPECT_LT(size, 150);
}

Numbers training_step(std::int64_t size) {
  manual_seed(3);
  Tensor w = variable(randn({size, 4})), b = variable(zeros({4}));
  const Tensor x = randn({5, size}), target = tensor({0, 1, 2, 3, 0}, DType::i64);
  const Tensor loss = cross_entropy(gelu(matmul(x, w) + b), target);
  const Gradients gradients = backward(loss);
  Numbers all;
  add(all, loss);
  add(all, gradients[w]);
  add(all, gradients[b]);
  return all;
}

Numbers calls_with_several_outputs(std::int64_t size) {
  manual_seed(4);
  const Tensor x = variable(randn({3, size}));
  const auto [values, indices] = topk(x, 3, 1);
  Numbers all;
  add(all, values);
  add(all, indices);
  add(all, sort(x, 1).second);
  add(all, backward(sum(square(max_pool1d(reshape(x, {1, 3, size}), 2))))[x]);
  add(all, backward(sum(logsumexp(cumsum(x, 1), 1)))[x]);
  return all;
}

Numbers compiled_function(std::int64_t size) {
  const Function f = compile(Function([](const Tensor& x) { return softmax(x * 2 + 1, -1) - mean(x); }));
  Numbers all;
  const Tensor x = arange(size).eval();
  for (int k = 0; k < 3; ++k) add(all, f(x));
  return all;
}

Numbers second_derivatives(std::int64_t size) {
  manual_seed(5);
  const Tensor x = rand({size}), a = rand({size, size});
  Numbers all;
  add(all, hessian([&](const Tensor& v) { return sum(tanh(matmul(a, v)) * v); }, x));
  const Tensor y = variable(x);
  add(all, backward(sum(checkpoint(Function([&](const Tensor& v) { return exp(matmul(a, v)); }), y)))[y]);
  return all;
}

Numbers optimizer_steps(std::int64_t size) {
  manual_seed(6);
  const auto optimizer = make_optimizer("adamw", {{"lr", 0.1}});
  nn::Linear layer{size, 2};
  const Tensor x = rand({3, size});
  for (int k = 0; k < 2; ++k) optimizer->step(layer, backward(mean(square(layer(x)))));
  Numbers all;
  add(all, layer.weight);
  return all;
}

TEST(AllocationFailure, TrainingStep) { survives_failures(training_step); }
TEST(AllocationFailure, CallsWithSeveralOutputs) { survives_failures(calls_with_several_outputs); }
TEST(AllocationFailure, CompiledFunction) { survives_failures(compiled_function); }
TEST(AllocationFailure, SecondDerivatives) { survives_failures(second_derivatives); }
TEST(AllocationFailure, OptimizerSteps) { survives_failures(optimizer_steps); }
TEST(AllocationFailure, PlansOfATrainingStep) { survives_failures_of_planning(training_step); }
TEST(AllocationFailure, PlansOfCalls) { survives_failures_of_planning(calls_with_several_outputs); }
TEST(AllocationFailure, PlansOfSecondDerivatives) { survives_failures_of_planning(second_derivatives); }

// Only readers without JSON: the destructor of nlohmann::json allocates, and ends the program where it cannot.
TEST(AllocationFailure, Files) {
  const ScratchFolder folder;
  survives_failures([&](std::int64_t size) {
    const Tensor x = arange(size).eval();
    io::save_checkpoint(folder / "run.safetensors", {.parameters = {{"w", x}}, .step = 3, .metadata = {{"a", "b"}}});
    io::save_npz(folder / "a.npz", {{"x", x}, {"y", x}}, {.compress = true});
    Numbers all;
    for (const auto& [name, tensor] : io::load_npz(folder / "a.npz")) add(all, tensor);
    return all;
  });
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator()),
            2);
}

// A tensor whose evaluation failed can be evaluated again, and so can those that share its inputs.
TEST(AllocationFailure, ATensorThatFailedIsComputedLater) {
  set_num_threads(1);
  for (std::int64_t n = 0;; ++n) {
    const Tensor x = arange(0, 10, 1, DType::f32) + 1, y = cumsum(square(x), 0), z = sort(y * 2, 0).first;
    until_failure = n;
    failed = false;
    fails_on = false;
    try {
      z.eval();
    } catch (const std::bad_alloc&) {
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::memory);
    }
    until_failure = -1;
    ASSERT_EQ(z.to_vector<float>().back(), 770) << n;
    ASSERT_EQ(y.to_vector<float>().back(), 385) << n;
    ASSERT_EQ(x.to_vector<float>().back(), 10) << n;
    if (!failed) break;
  }
}

// ---- reading -------------------------------------------------------------------------------------------------------

std::string big_endian(std::uint32_t n) {
  return {static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8), static_cast<char>(n)};
}

std::string npy_of(const std::string& shape) {
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(117, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n";
}

std::string safetensors_of(const std::string& header) {
  std::string length(8, '\0');
  for (std::size_t k = 0; k < 8; ++k) length[k] = static_cast<char>(header.size() >> 8 * k & 255);
  return length + header;
}

std::string png_of(std::uint32_t width, std::uint32_t height) {
  const std::string head = "IHDR" + big_endian(width) + big_endian(height) + std::string("\x08\x02\x00\x00\x00", 5);
  const auto* bytes = reinterpret_cast<const std::byte*>(head.data());
  return "\x89PNG\r\n\x1a\n" + big_endian(13) + head + big_endian(io::crc32_of({bytes, head.size()})) + big_endian(4) +
         "IDAT" + std::string(8, 'x');
}

// Small files that claim to be huge. Allocations are bounded by the file's length: a pixel of a JPEG may take an
// eight-thousandth of a byte, nothing takes less.
TEST(BoundedReading, FilesThatClaimTooMuchAreRefusedBeforeMemoryIsRequested) {
  const ScratchFolder folder;
  const std::string path = folder / "file";
  const auto idx = [](const std::string& type) { return std::string(2, '\0') + type; };
  const std::pair<std::string, std::function<void()>> files[] = {
      {npy_of("(1099511627776,)"), [&] { io::load_npy(path); }},
      {npy_of("(4294967296, 4294967296)"), [&] { io::load_npy(path); }},
      {npy_of("(0, 99999999999)"), [&] { io::load_npy(path); }},
      {std::string("\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12), [&] { io::load_npy(path); }},
      {std::string("\xff\xff\xff\x05\x00\x00\x00\x00{", 9), [&] { io::Safetensors file(path); }},
      {safetensors_of(R"({"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}})"),
       [&] { io::Safetensors(path).tensors(); }},
      {safetensors_of(R"({"a":{"dtype":"I8","shape":[0,99999999999],"data_offsets":[0,0]}})"),
       [&] { io::Safetensors(path).tensors(); }},
      {idx("\x0e\x02") + big_endian(0xffffffff) + big_endian(0xffffffff), [&] { read_idx(path); }},
      {idx("\x08\x01") + big_endian(0x7fffffff) + "abc", [&] { read_idx(path); }},
      {"P6 16384 16384 255\nabc", [&] { read_image(path); }},
      {"P2 16384 16384 255\n1 2 3", [&] { read_image(path); }},
      {png_of(16384, 16384), [&] { read_image(path); }},
      {png_of(0x7fffffff, 0x7fffffff), [&] { read_image(path); }},
  };
  for (std::size_t k = 0; k < std::size(files); ++k) {
    const auto& [bytes, load] = files[k];
    write_whole(path, bytes);
    largest_allocation = 0;
    try {
      load();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::io) << error.what();
    }
    EXPECT_LE(largest_allocation, (std::size_t{1} << 20) + 8 * 1032 * 3 * bytes.size()) << "file " << k;
  }
}

// Adopted memory is released once, whatever fails.
TEST(OutOfMemory, ForeignMemoryIsReleasedOnce) {
  float numbers[6] = {1, 2, 3, 4, 5, 6};
  int released = 0;
  const Scenario scenario = [&](std::int64_t size) {
    Numbers all;
    add(all, from_foreign(numbers, DType::f32, {size}, [&released] { ++released; }) + 1);
    return all;
  };
  scenario(6);
  std::int64_t n = 0;
  do {
    released = 0;
    fails_cleanly(scenario, 6, n++, false);
    ASSERT_EQ(released, 1) << "allocation " << n - 1;
  } while (failed);
  EXPECT_GT(n, 3);  // the tensor, its owner, the sum
  released = 0;
  EXPECT_THROW(from_foreign(nullptr, DType::f32, {6}, [&released] { ++released; }), Error);
  EXPECT_EQ(released, 1);
}

TEST(OutOfMemory, MemoryOfAStreamsOwnerIsFreed) {
  struct Supplied : StreamMemory {
    void* allocate(std::size_t bytes) override { return ++given, std::malloc(bytes); }
    void free(void* data) noexcept override { --given, std::free(data); }
    int given = 0;
  };
  constexpr Device device{Device::Kind::cuda, 9};
  const auto memory = std::make_shared<Supplied>();
  const ThreadMemory scope(device, memory);
  const Scenario scenario = [&](std::int64_t size) {
    const BufferPtr p = BufferPtr::allocate(static_cast<std::size_t>(size), "a tensor", device);
    EXPECT_EQ(memory->given, 1);
    return Numbers{};
  };
  std::int64_t n = 0;
  do {
    fails_cleanly(scenario, 6, n++, true);
    ASSERT_EQ(memory->given, 0) << "allocation " << n - 1;
  } while (failed);
  EXPECT_GT(n, 2);
}

// Threads that share a limit: some calls are rejected, none of the successful ones is wrong, and afterwards nothing is
// left of it.
TEST(MemoryLimit, HoldsForManyThreadsAtOnce) {
  const std::size_t live = memory_stats().live, room = 6u << 20;
  release_cached_memory();
  reset_peak_memory();
  set_memory_limit(live + room);
  std::atomic<int> refused{0}, right{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int k = 0; k < 60; ++k) {
        try {
          const Tensor x = full({200'000 + 1000 * t}, k).eval(), y = cumsum(x, 0).eval();
          (y.slice(0, 9, 10).item<double>() == 10.0 * k ? right : wrong)++;
        } catch (const Error& error) {
          (error.kind() == Error::Kind::memory ? refused : wrong)++;
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_LE(memory_stats().peak, live + room);
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(right, 0);
  EXPECT_EQ(right + refused, 8 * 60);
  EXPECT_EQ(memory_stats().live, live);
  set_memory_limit(0);
  EXPECT_EQ(ones({3'000'000}).eval().slice(0, 0, 1).item<float>(), 1);
}

}  // namespace
}  // namespace ebb
