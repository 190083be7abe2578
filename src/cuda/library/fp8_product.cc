// SPDX-License-Identifier: MIT
#include "cuda/library/fp8_product.h"

#include "core/format_error.h"
#include "cuda/kernels/args/fp8.h"
#include "cuda/kernels/texts.h"
#include "cuda/library/kernels.h"
#include "cuda/library/product.h"

namespace ebb::cuda {
namespace {

constexpr std::int64_t kEach = 16;  // cuBLASLt multiplies FP8 in multiples of 16
std::int64_t with_room(std::int64_t n) { return (n + kEach - 1) / kEach * kEach; }

// The lines of a factor that the product sums along, one after the other.
struct Lines {
  View codes;   // [lines, room] of u8
  View scales;  // [lines]
  BufferPtr keep[2];
};

std::string format_text(bool e5m2) {
  const Fp8Format& f = fp8_format(e5m2);
  return fmt::format("constexpr int kMantissa = {}, kBias = {};\n", f.mantissa, f.bias);
}

Lines quantized(Gpu& gpu, const View& given, int along, bool e5m2, std::int64_t lines_room) {
  const int across = 1 - along;
  const std::int64_t lines = given.shape[across], k = given.shape[along], room = with_room(k);
  BufferPtr keep_dense, keep_most;
  View x = given;
  const auto adjacent = [&](int d) { return x.strides[d] == 1 || x.shape[d] == 1; };
  if (!adjacent(0) && !adjacent(1)) x = packed(gpu, given, keep_dense, "fp8_linear");
  const bool by_line = adjacent(along);
  Lines to;
  to.codes = workspace(gpu, DType::u8, Shape{lines_room, room}, to.keep[0], "fp8_linear");
  to.scales = workspace(gpu, DType::f32, Shape{lines_room}, to.keep[1], "fp8_linear");
  const std::int64_t step = x.strides[by_line ? across : along];
  const auto bytes = static_cast<std::uint64_t>(step) * size_of(x.dtype);
  QuantizeArgs<void> args{.x = x.data,
                          .codes = elements<u8>(to.codes),
                          .scales = elements<f32>(to.scales),
                          .most = nullptr,
                          .lines = lines,
                          .k = k,
                          .step = step,
                          .lines_room = lines_room,
                          .room = room,
                          .aligned = (reinterpret_cast<std::uintptr_t>(x.data) | bytes) % 16 == 0};
  const KernelSource source{element_text(x.dtype) + format_text(e5m2) + texts::quantize};
  if (by_line) {
    launch_blocks(gpu, source, "quantize_rows", lines_room, args);
    return to;
  }
  const View most = workspace(gpu, DType::i32, Shape{lines}, keep_most, "fp8_linear");
  gpu.clear(most.data, static_cast<std::size_t>(lines) * sizeof(u32));
  args.most = elements<u32>(most);
  const auto tiles = [](std::int64_t n, std::int64_t each) { return (n + each - 1) / each; };
  launch_blocks(gpu, source, "largest_of_columns", tiles(lines, kAmaxLines) * tiles(k, kAmaxDepth), args);
  launch_blocks(gpu, source, "quantize_columns", tiles(lines_room, kTurnedLines) * tiles(room, kTurnedDepth), args);
  return to;
}

// By cuBLASLt; false if it, or the GPU, has no such product.
bool multiply_codes(Gpu& gpu, Product& p) {
  for (const bool quick : {true, false}) {
    p.fp8->quick = quick;
    const LtProduct product(p);
    const std::optional<Heuristic> chosen = algorithm_for(gpu, p, product);
    if (!chosen) continue;
    BufferPtr keep;
    void* at = nullptr;
    if (chosen->workspace)
      at = workspace(gpu, DType::u8, Shape{static_cast<std::int64_t>(chosen->workspace)}, keep, "fp8_linear").data;
    if (product.run(gpu, p, *chosen, at)) return true;
  }
  return false;
}

bool has_fp8(const Gpu& gpu) { return gpu.architecture() >= "sm_89" || gpu.architecture().size() > 5; }

}  // namespace

void multiply_fp8(Gpu& gpu, const View& a, const View& b, const View& out, const Fp8Product& how, bool add) {
  const std::int64_t m = out.shape[0], n = out.shape[1], columns = with_room(n);
  const Lines left = quantized(gpu, a, 1, how.left_e5m2, m), right = quantized(gpu, b, 0, how.right_e5m2, columns);
  const std::int64_t room = left.codes.shape[1];
  if (has_fp8(gpu)) {
    BufferPtr keep;
    View to = out;
    if (columns != n || reinterpret_cast<std::uintptr_t>(out.data) % 16 != 0) {
      to = workspace(gpu, out.dtype, Shape{m, columns}, keep, "fp8_linear");
      if (add) copy_elements(gpu, part_of(to, 1, 0, n), out);
    }
    Product p{.m = m,
              .n = columns,
              .k = room,
              .batches = 1,
              .a = {elements<std::byte>(left.codes), room, 1},
              .b = {elements<std::byte>(right.codes), 1, room},
              .in = DType::u8,
              .out = out.dtype,
              .c = elements<std::byte>(to),
              .c_step = columns,
              .c_batch = m * columns,
              .add = add,
              .fp8 = Fp8Factors{how.left_e5m2, how.right_e5m2, left.scales.data, right.scales.data}};
    if (multiply_codes(gpu, p)) {
      if (to.data != out.data) copy_elements(gpu, out, part_of(to, 1, 0, n));
      return;
    }
  }
  BufferPtr keep[2];
  const auto widened = [&](const Lines& x, bool e5m2, BufferPtr& kept) {
    const View to = workspace(gpu, DType::bf16, x.codes.shape, kept, "fp8_linear");
    launch_elements(gpu, {format_text(e5m2) + texts::dequantize}, "dequantize", to.shape.numel(),
                    DequantizeArgs{.codes = elements<u8>(x.codes),
                                   .scales = elements<f32>(x.scales),
                                   .out = elements<u16>(to),
                                   .n = to.shape.numel(),
                                   .room = room});
    return to;
  };
  const View rows = widened(left, how.left_e5m2, keep[0]),
             lines = part_of(widened(right, how.right_e5m2, keep[1]), 0, 0, n);
  View turned{lines.data, DType::bf16, Shape{room, n}, {}};
  turned.strides[0] = 1, turned.strides[1] = room;
  if (out.dtype != DType::f16) return multiply_floats(gpu, rows, turned, out, add);
  BufferPtr kept;  // cuBLASLt has no f16 from bf16
  const View sums = workspace(gpu, DType::f32, out.shape, kept, "fp8_linear");
  multiply_floats(gpu, rows, turned, sums);
  convert_elements(gpu, out, sums);
}

std::string describe_fp8(const LibraryCall& call) {
  return describe_error(options_as<Fp8Product>(call.attrs), call.inputs[0].shape[1], call.outputs[0].dtype);
}

}  // namespace ebb::cuda
