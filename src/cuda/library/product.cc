// SPDX-License-Identifier: MIT
// Products by cuBLASLt: their description, and the choice of its algorithms.
#include "cuda/library/product.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/format_error.h"
#include "cuda/runtime/recording.h"
#include "ebb/memory.h"

namespace ebb::cuda {
namespace {

void check_lt(Status status, const char* call) { require(status == 0, "cuda: {} failed with status {}", call, status); }

int lt_type(DType d) { return d == DType::f64 ? kR64 : d == DType::f32 ? kR32 : d == DType::f16 ? kR16 : kRB16; }

int lt_type(const Product& p, bool left) {
  if (!p.fp8) return lt_type(p.in);
  return (left ? p.fp8->a_e5m2 : p.fp8->b_e5m2) ? kRE5M2 : kRE4M3;
}

void* matrix_layout(int type, const Matrix& x, std::int64_t rows, std::int64_t columns, std::int64_t batches) {
  // Stored by rows it is, in column order, a matrix of columns x rows.
  const std::int64_t across = x.by_rows() ? columns : rows, down = x.by_rows() ? rows : columns;
  void* layout = nullptr;
  check_lt(lt().create_matrix(&layout, type, static_cast<std::uint64_t>(across), static_cast<std::uint64_t>(down),
                              std::max<std::int64_t>(x.step(), across)),
           "cublasLtMatrixLayoutCreate");
  if (batches == 1) return layout;
  const auto count = static_cast<std::int32_t>(batches);
  check_lt(lt().set_matrix(layout, kBatchCount, &count, sizeof count), "cublasLtMatrixLayoutSetAttribute");
  check_lt(lt().set_matrix(layout, kBatchOffset, &x.batch_step, sizeof x.batch_step),
           "cublasLtMatrixLayoutSetAttribute");
  return layout;
}

std::uint32_t alignment(const void* p, std::int64_t step, DType dtype) {
  const std::uint64_t bits =
      reinterpret_cast<std::uintptr_t>(p) | static_cast<std::uint64_t>(step) * size_of(dtype) | 256;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}
// Layouts of B, A, C and the result.
std::array<std::uint32_t, 4> alignments(const Product& p) {
  const std::uint32_t c = alignment(p.c, p.c_step | p.c_batch, p.out);
  return {alignment(p.b.data, p.b.batch_step | p.b.step(), p.in),
          alignment(p.a.data, p.a.batch_step | p.a.step(), p.in), c, c};
}

}  // namespace

SumParts parts_of_sum(const GpuModel& model, const Product& p, bool invariant) {
  std::int64_t count = 1;
  if (p.batches != 1 || p.fp8) return {1, p.k};
  if (is_half(p.in)) {
    if (p.n <= model.very_narrow_product) {
      if (p.k >= model.long_narrow_product) count = std::min(p.k / model.part_of_narrow, model.most_product_parts);
    } else if (p.k >= model.long_product && p.n <= model.narrow_product) {
      count = model.product_parts;
    }
  } else if (!invariant && p.k >= model.worth_parts) {
    const auto tiles = [&](std::int64_t n) { return (n + model.product_tile - 1) / model.product_tile; };
    count = std::min(model.enough_product_tiles / (tiles(p.m) * tiles(p.n)), p.k / model.shortest_part);
    count = std::min(count, model.most_product_parts);
  }
  if (count < 2) return {1, p.k};
  const std::int64_t each = ((p.k + count - 1) / count + 7) / 8 * 8;
  return {(p.k + each - 1) / each, each};
}

LtProduct::LtProduct(const Product& p) {
  const Lt& l = lt();
  const bool wide = p.in == DType::f64;
  check_lt(l.create_product(&product_, wide ? kCompute64 : p.tf32 ? kComputeTf32 : kCompute32, wide ? kR64 : kR32), "cublasLtMatmulDescCreate");
  const auto set = [&](int what, const auto& value) {
    check_lt(l.set_product(product_, what, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  };
  set(kTransA, std::int32_t{!p.b.by_rows()});
  set(kTransB, std::int32_t{!p.a.by_rows()});
  if (p.bias) {
    set(kEpilogue, kAddsBias);
    set(kBias, p.bias);
  }
  if (p.fp8) {
    set(kScaleModeA, kScalePerLine);
    set(kScaleModeB, kScalePerLine);
    set(kScalesA, p.fp8->b_scales);
    set(kScalesB, p.fp8->a_scales);
    set(kQuickSums, static_cast<std::int8_t>(p.fp8->quick));
  }
  a_ = matrix_layout(lt_type(p, true), p.a, p.m, p.k, p.batches);
  b_ = matrix_layout(lt_type(p, false), p.b, p.k, p.n, p.batches);
  c_ = matrix_layout(lt_type(p.out), {p.c, p.c_step, 1, p.c_batch}, p.m, p.n, p.batches);
}

LtProduct::~LtProduct() {
  for (void* layout : {a_, b_, c_}) {
    if (layout) lt().destroy_matrix(layout);
  }
  if (product_) lt().destroy_product(product_);
}

bool LtProduct::run(Gpu& gpu, const Product& p, const Heuristic& algorithm, void* workspace) const {
  const double one = 1, keep = p.add ? 1 : 0;
  const float one_f = 1, keep_f = p.add ? 1 : 0;
  const bool wide = p.in == DType::f64;
  const void *alpha = wide ? static_cast<const void*>(&one) : &one_f,
             *beta = wide ? static_cast<const void*>(&keep) : &keep_f;
  const Status status = lt().multiply(lt().handle, product_, alpha, p.b.data, b_, p.a.data, a_, beta, p.c, c_, p.c, c_,
                                      &algorithm.algorithm, workspace, algorithm.workspace, gpu.stream());
  if (status == kNotSupported) return false;
  check_lt(status, "cublasLtMatmul");
  return true;
}

bool LtProduct::takes(const Heuristic& algorithm) const {
  Heuristic seen{};
  const Status status = lt().check_algorithm(lt().handle, product_, b_, a_, c_, c_, &algorithm.algorithm, &seen);
  return status == 0 && seen.state == 0 && seen.workspace <= algorithm.workspace;
}

std::vector<Heuristic> LtProduct::proposals(const Product& p, std::size_t most_workspace) const {
  const Lt& l = lt();
  const std::shared_ptr<void> preference = [&] {
    void* made = nullptr;
    check_lt(l.create_preference(&made), "cublasLtMatmulPreferenceCreate");
    return std::shared_ptr<void>(made, [&l](void* q) { l.destroy_preference(q); });
  }();
  const auto prefer = [&](int what, const auto& value) {
    check_lt(l.set_preference(preference.get(), what, &value, sizeof value), "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(kMostWorkspace, most_workspace);
  prefer(kReductions, std::uint32_t{0});
  const std::array<std::uint32_t, 4> aligned = alignments(p);
  for (int i = 0; i < 4; ++i) prefer(kAlignA + i, aligned[static_cast<std::size_t>(i)]);
  std::array<Heuristic, 16> found;
  int count = 0;
  const Status status = l.heuristic(l.handle, product_, b_, a_, c_, c_, preference.get(),
                                    static_cast<int>(found.size()), found.data(), &count);
  if (status == kNotSupported) return {};
  check_lt(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<Heuristic> usable;
  for (int i = 0; i < count; ++i) {
    std::int32_t split = 0;
    std::size_t written = 0;
    l.algorithm_number(&found[static_cast<std::size_t>(i)].algorithm, kSplitK, &split, sizeof split, &written);
    if (found[static_cast<std::size_t>(i)].state == 0 && split <= 1)
      usable.push_back(found[static_cast<std::size_t>(i)]);
  }
  return usable;
}

namespace {

// For products of fewer rows cuBLASLt has other kernels, which add in another order: for fewer rows, the algorithm is
// the one for this number.
Product with_enough_rows(const GpuModel& model, const Product& p) {
  Product q = p;
  if (is_half(p.in) && p.batches == 1) q.m = std::max(p.m, model.fewest_product_rows);
  return q;
}

std::atomic<double>& least_operations() {
  static auto* const least = new std::atomic<double>([] {
    const char* const given = std::getenv("EBB_CUDA_TUNE");
    return given && std::string_view(given) == "0" ? std::numeric_limits<double>::infinity()
                                                   : GpuModel{}.timed_operations;
  }());
  return *least;
}

// Milliseconds of each, the minimum of a few alternating runs. Products are timed in the memory they will run in.
std::vector<float> times_of(Gpu& gpu, const Product& p, const LtProduct& product, const std::vector<Heuristic>& all) {
  std::size_t bytes = 0;
  for (const Heuristic& h : all) bytes = std::max(bytes, h.workspace);
  BufferPtr workspace;
  if (bytes)
    workspace = BufferPtr::allocate(bytes, "matmul", {Device::Kind::cuda, static_cast<std::uint8_t>(gpu.index())});
  Event begin = nullptr, end = nullptr;
  check(driver().create_event(&begin, 0), "cuEventCreate");
  check(driver().create_event(&end, 0), "cuEventCreate");
  std::vector<float> best(all.size(), std::numeric_limits<float>::infinity());
  const GpuModel& model = gpu.model();
  for (int round = 0; round < model.timing_rounds; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const int runs = round == 0 ? 1 : std::clamp(static_cast<int>(model.timing_sample / best[i]), 1, 8);
      check(driver().record(begin, gpu.stream()), "cuEventRecord");
      bool supported = true;
      for (int run = 0; run < runs; ++run) supported = product.run(gpu, p, all[i], workspace.data()) && supported;
      check(driver().record(end, gpu.stream()), "cuEventRecord");
      check(driver().wait(end), "cuEventSynchronize");
      float time = 0;
      check(driver().elapsed(&time, begin, end), "cuEventElapsedTime");
      time = supported ? time / static_cast<float>(runs) : std::numeric_limits<float>::infinity();
      best[i] = round == 1 ? time : std::min(best[i], time);
    }
  }
  driver().destroy_event(begin);
  driver().destroy_event(end);
  return best;
}

// Querying costs more than a small product, and timing more than a large one: answers are kept.
struct Known {
  std::vector<Heuristic> proposals;
  std::size_t fastest = 0;
  bool timed = false;
};

}  // namespace

double tune_products_from(double operations) { return least_operations().exchange(operations); }

// The first that the heuristic proposes; none that divides k among blocks, since then the order of a sum would depend
// on the number of rows; for halves, that of at least GpuModel::fewest_product_rows rows. For large products of halves
// the fastest: they differ in their tiles, and all of these add along k in the same order (tests compare their bits),
// so that timing affects nothing but time.
std::optional<Heuristic> algorithm_for(Gpu& gpu, const Product& p, const LtProduct& product) {
  const std::array<std::uint32_t, 4> aligned = alignments(p);
  const std::int64_t fp8 = p.fp8 ? 1 + p.fp8->a_e5m2 * 2 + p.fp8->b_e5m2 * 4 + p.fp8->quick * 8 : 0;
  const std::array<std::int64_t, 21> key{p.m,
                                         p.n,
                                         p.k,
                                         p.batches,
                                         p.a.by_rows(),
                                         p.a.step(),
                                         p.a.batch_step,
                                         p.b.by_rows(),
                                         p.b.step(),
                                         p.b.batch_step,
                                         p.c_step,
                                         p.c_batch,
                                         static_cast<std::int64_t>(p.in),
                                         static_cast<std::int64_t>(p.out),
                                         aligned[0],
                                         aligned[1],
                                         aligned[2],
                                         p.bias != nullptr,
                                         fp8,
                                         p.tf32,
                                         gpu.index()};
  static auto* const mutex = new std::mutex;
  static auto* const known = new std::map<std::array<std::int64_t, 21>, Known>;
  std::lock_guard guard(*mutex);
  const auto [it, made] = known->try_emplace(key);
  Known& k = it->second;
  const Product asked = with_enough_rows(gpu.model(), p);
  if (made) {
    try {
      if (asked.m != p.m) {
        k.proposals = LtProduct(asked).proposals(asked, gpu.model().product_workspace);
        std::erase_if(k.proposals, [&](const Heuristic& h) { return !product.takes(h); });
      }
      if (k.proposals.empty()) k.proposals = product.proposals(p, gpu.model().product_workspace);
    } catch (...) {
      known->erase(it);
      throw;
    }
  }
  if (k.proposals.empty()) return std::nullopt;
  const double operations = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
                            static_cast<double>(p.batches);
  if (!(is_half(p.in) || p.fp8) || operations < least_operations().load(std::memory_order_relaxed))
    return k.proposals.front();
  // Timing would overwrite c, and nothing runs while a graph is recorded.
  const bool can_time = !p.add && asked.m == p.m && !Recorder::of_thread() && !gpu.streams().capturing();
  if (!k.timed && can_time && k.proposals.size() > 1) {
    const std::vector<float> times = times_of(gpu, p, product, k.proposals);
    const std::size_t fastest = static_cast<std::size_t>(std::min_element(times.begin(), times.end()) - times.begin());
    k.fastest = times[fastest] < gpu.model().timing_gain * times[0] ? fastest : 0;
    k.timed = true;
  }
  return k.proposals[k.fastest];
}

}  // namespace ebb::cuda
