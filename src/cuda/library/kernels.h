// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "backend/backend.h"
#include "cuda/kernels/args/view.h"
#include "cuda/runtime/gpu.h"

// Shared by the kernels of library calls: views as arguments, launches, and errors about an index.
namespace ebb::cuda {

KernelView kernel_view(const View& view);
// The memory of a view, as elements of this type.
template <class T>
T* elements(const View& view) {
  return static_cast<T*>(view.data);
}

// Texts that precede a kernel's own.
// typedefs of T, the type in memory, and A, in which it is computed; load(T) -> A and store(A) -> T.
std::string element_text(DType dtype);
// typedef T, a type of the dtype's size.
std::string bits_text(DType dtype);
std::string word_text(std::size_t bytes);  // typedef T, of that many bytes, up to 16

// One thread per element of n, looping if there are more.
void launch_elements(Gpu& gpu, const KernelSource& source, const char* kernel, std::int64_t n, const KernelArgs& args);
// With that many bytes of shared memory.
void launch_blocks(Gpu& gpu, const KernelSource& source, const char* kernel, std::int64_t blocks,
                   const KernelArgs& args, std::int64_t shared = 0, unsigned threads = kThreads);

void copy_elements(Gpu& gpu, const View& to, const View& from);
void clear_elements(Gpu& gpu, const View& to);  // zeros
// A matrix with zeros after its last row and column.
void copy_padded(Gpu& gpu, const View& to, const View& from);
View dense(const View& like, DType dtype, BufferPtr& keep, const Gpu& gpu, const char* what);
View packed(Gpu& gpu, const View& from, BufferPtr& keep, const char* what);  // `from` itself where it is contiguous
std::byte* element_at(const View& view, std::int64_t offset);

inline const char* label_of(const LibraryCall& call) { return call.label ? call.label : info(call.op).name.data(); }
View at_least_1d(View v);  // a scalar becomes an axis of one element

// For a kernel that reports a bad index: check 0 at a position of `index`.
Complaints check_index(RunMark& mark, const LibraryCall& call, const View& index, std::int64_t size);

// out = a·b of floats, over their last two dimensions; out is contiguous, may be wider than a and b, and is added to if
// `add` is set. The leading dimensions are out's in all three.
void multiply_floats(Gpu& gpu, const View& a, const View& b, const View& out, bool add = false,
                     const void* bias = nullptr);

// c = a·b of contiguous c, every element a chain of fused multiply-adds in the order of k: see fixed_matmul.cc. Steps
// are in elements.
struct FixedProduct {
  DType dtype;
  std::byte *a, *b, *c;
  std::int64_t m, n, k, batches, a_row, a_column, a_batch, b_row, b_column, b_batch;
  bool add;  // to the content of c
};
void multiply_in_order(Gpu& gpu, const FixedProduct& p);

// Memory of a call, returned when it ends: later work in the stream may reuse it.
View workspace(const Gpu& gpu, DType dtype, const Shape& shape, BufferPtr& keep, const char* what);
// The same elements of dense memory, in another shape.
View reshaped(const View& dense, const Shape& shape);
// Swaps the last two axes.
View transposed(View v);
// Elements [first, first + count) along the axis.
View part_of(const View& v, int axis, std::int64_t first, std::int64_t count);
// to = from, converted; both dense.
void convert_elements(Gpu& gpu, const View& to, const View& from);

// A result [B, T, H, E] of attention in the order of its inputs: [B, H, T, E].
View heads_second(View x);
// By kernels that hold scores in registers; false if there are none for these shapes and dtypes.
bool run_fused_attention(const LibraryCall& call, Gpu& gpu);
bool run_fused_attention_gradient(const LibraryCall& call, Gpu& gpu);

// out (i64): the order of integers from 0 to `most` along the axis; stable. `sorted`: the keys in it, if requested.
void argsort_keys(Gpu& gpu, const View& keys, int axis, std::int64_t most, const View& out, void* sorted = nullptr);

// data *= factor, one number of any floating dtype; data is dense. A factor of 1 leaves data unread.
void scale_elements(Gpu& gpu, const View& data, const View& factor);

void run_convolution(const LibraryCall& call, Gpu& gpu);
void run_conv_transpose(const LibraryCall& call, Gpu& gpu);
void run_conv_weight_gradient(const LibraryCall& call, Gpu& gpu);
// The plan of one of the three by a kernel of our own; empty: another way.
std::string describe_convolution(const LibraryCall& call, const GpuModel& model);
void run_max_pool_index(const LibraryCall& call, Gpu& gpu);
void run_window_sum(const LibraryCall& call, Gpu& gpu);
void run_window_spread(const LibraryCall& call, Gpu& gpu);
void run_weighted_gather(const LibraryCall& call, Gpu& gpu, RunMark& mark);
void run_banded(const LibraryCall& call, Gpu& gpu);  // such a call with BandedCall
void run_weighted_scatter(const LibraryCall& call, Gpu& gpu, RunMark& mark);
void run_gather_dot(const LibraryCall& call, Gpu& gpu, RunMark& mark);
void run_grid_sample(const LibraryCall& call, Gpu& gpu);
void run_grid_sample_image_gradient(const LibraryCall& call, Gpu& gpu);
void run_grid_sample_grid_gradient(const LibraryCall& call, Gpu& gpu);
void run_distances(const LibraryCall& call, Gpu& gpu);
void run_distances_gradient(const LibraryCall& call, Gpu& gpu);
void run_attention(const LibraryCall& call, Gpu& gpu);
void run_attention_gradient(const LibraryCall& call, Gpu& gpu);
void run_linear_cross_entropy(const LibraryCall& call, Gpu& gpu, RunMark& mark);
void run_token_statistics(const LibraryCall& call, Gpu& gpu);  // such a call with TokenStatisticsCall
void run_transducer(const LibraryCall& call, Gpu& gpu, RunMark& mark);
void run_sparsemax_threshold(const LibraryCall& call, Gpu& gpu);
void run_multilabel_hinges(const LibraryCall& call, Gpu& gpu, RunMark& mark);
void run_ctc(const LibraryCall& call, Gpu& gpu, RunMark& mark);
void run_cholesky(const LibraryCall& call, Gpu& gpu, RunMark& mark);
void run_triangular_solve(const LibraryCall& call, Gpu& gpu);
// See Backend::decompose.
bool run_decomposition(Gpu& gpu, Decomposition kind, const View& a, const View& out, std::vector<int>& verdicts);
TruePlaces find_true(Gpu& gpu, const View& bits);  // see Backend::true_places
void run_solve(const LibraryCall& call, Gpu& gpu, RunMark& mark);
void run_factors(const LibraryCall& call, Gpu& gpu, RunMark& mark);  // det with FactorsCall
void run_determinant(const LibraryCall& call, Gpu& gpu, RunMark& mark);  // det, logdet
void run_collective(const LibraryCall& call, Gpu& gpu, RunMark& mark);
void run_matmul(const LibraryCall& call, Gpu& gpu);
void run_gather(const LibraryCall& call, Gpu& gpu, RunMark& mark);  // index_select, too
void run_scatter(const LibraryCall& call, Gpu& gpu, RunMark& mark);
void run_scatter_zero_add(const LibraryCall& call, Gpu& gpu, RunMark& mark);
void run_index_zero_add(const LibraryCall& call, Gpu& gpu, RunMark& mark);
void run_cat(const LibraryCall& call, Gpu& gpu);
void run_pad_zero(const LibraryCall& call, Gpu& gpu);
void run_arg(const LibraryCall& call, Gpu& gpu);  // argmax, argmin
void run_argsort(const LibraryCall& call, Gpu& gpu);
void run_searchsorted(const LibraryCall& call, Gpu& gpu);
void run_scan(const LibraryCall& call, Gpu& gpu);  // cumsum, cumprod
void run_recurrence(const LibraryCall& call,
                    Gpu& gpu);  // linear_recurrence, and scatter_zero_add with IndexLines::runs

}  // namespace ebb::cuda
