#pragma once
#include "backend/call.h"

// The functions behind run_library, one an operation; attributes and shapes are described in graph/node.h.
namespace ebb::cpu {

void run_matmul(const LibraryCall& call);  // matmul.cc
void run_gather(const LibraryCall& call);  // index.cc
void run_scatter_zero_add(const LibraryCall& call);
void run_scatter(const LibraryCall& call);
void run_index_select(const LibraryCall& call);  // index_rows.cc
void run_index_zero_add(const LibraryCall& call);
void run_cat(const LibraryCall& call);  // concat.cc
void run_pad_zero(const LibraryCall& call);
void run_argmax(const LibraryCall& call);  // sort.cc
void run_argmin(const LibraryCall& call);
void run_argsort(const LibraryCall& call);
void run_cumsum(const LibraryCall& call);  // scan.cc
void run_cumprod(const LibraryCall& call);
void run_cholesky(const LibraryCall& call);  // linalg.cc
void run_triangular_solve(const LibraryCall& call);
void run_solve(const LibraryCall& call);
void run_det(const LibraryCall& call);
void run_logdet(const LibraryCall& call);
void run_linear_cross_entropy(const LibraryCall& call);  // linear_cross_entropy.cc
void run_convolution(const LibraryCall& call);           // conv.cc
void run_conv_transpose(const LibraryCall& call);
void run_conv_weight_gradient(const LibraryCall& call);  // conv_weight.cc
void run_max_pool_index(const LibraryCall& call);        // max_pool.cc
void run_attention(const LibraryCall& call);             // attention.cc
void run_attention_gradient(const LibraryCall& call);
void run_ctc(const LibraryCall& call);                  // ctc.cc
void run_transducer(const LibraryCall& call);           // transducer.cc
void run_sparsemax_threshold(const LibraryCall& call);  // sparsemax.cc
void run_multilabel_hinges(const LibraryCall& call);    // multilabel_hinges.cc

// The name an error gives the operation.
inline const char* label_of(const LibraryCall& call) { return call.label ? call.label : info(call.op).name.data(); }

// Throws Error(index) for the first index (in row-major order) outside [0, size).
void check_indices(const LibraryCall& call, const View& index, std::int64_t size);

}  // namespace ebb::cpu
