#include "cpu/library.h"

#include "core/format_error.h"
#include "cpu/library/ops.h"

namespace ebb::cpu {

void run_library(const LibraryCall& call) {
  switch (call.op) {
    case Op::matmul:
      return run_matmul(call);
    case Op::gather:
      return run_gather(call);
    case Op::scatter_zero_add:
      return run_scatter_zero_add(call);
    case Op::scatter:
      return run_scatter(call);
    case Op::index_select:
      return run_index_select(call);
    case Op::index_zero_add:
      return run_index_zero_add(call);
    case Op::cat:
      return run_cat(call);
    case Op::pad_zero:
      return run_pad_zero(call);
    case Op::argmax:
      return run_argmax(call);
    case Op::argmin:
      return run_argmin(call);
    case Op::argsort:
      return run_argsort(call);
    case Op::cumsum:
      return run_cumsum(call);
    case Op::cumprod:
      return run_cumprod(call);
    case Op::cholesky:
      return run_cholesky(call);
    case Op::triangular_solve:
      return run_triangular_solve(call);
    case Op::solve:
      return run_solve(call);
    case Op::det:
      return run_det(call);
    case Op::logdet:
      return run_logdet(call);
    case Op::convolution:
      return run_convolution(call);
    case Op::conv_transpose:
      return run_conv_transpose(call);
    case Op::conv_weight_gradient:
      return run_conv_weight_gradient(call);
    case Op::max_pool_index:
      return run_max_pool_index(call);
    case Op::attention:
      return run_attention(call);
    case Op::attention_gradient:
      return run_attention_gradient(call);
    case Op::linear_cross_entropy:
      return run_linear_cross_entropy(call);
    case Op::sparsemax_threshold:
      return run_sparsemax_threshold(call);
    case Op::multilabel_hinges:
      return run_multilabel_hinges(call);
    case Op::ctc:
      return run_ctc(call);
    case Op::transducer:
      return run_transducer(call);
    default:
      fail(Error::Kind::value, "{}: the CPU has no library call for this operation", info(call.op).name);
  }
}

bool has_library(Op op) { return info(op).cls == OpClass::library && op != Op::to_device; }

}  // namespace ebb::cpu
