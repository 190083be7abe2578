// Sweeps without rows: a thread takes a few neighbours, wherever they are.
#include <fmt/format.h>

#include "cuda/print/expression.h"
#include "cuda/print/printer.h"

namespace ebb::cuda {

constexpr int kBytesAtATime = 128;        // that a thread has on the way
constexpr double kMostInstructions = 96;  // of an element of each leaf that is written out
constexpr int kManyBytes = 128;           // of a leaf's packs of 32
constexpr double kFewInstructions = 32;   // of an element, beside which exchanging packs costs nothing

std::string Printer::elements_kernel() {
  Pass pass;
  pass.needed.resize(static_cast<std::size_t>(n_));
  for (std::int32_t v = 0; v < n_; ++v) {
    const Instr& i = instr(v);
    if (i.level == Level::scalar || in_epilogue(i)) continue;
    pass.needed[static_cast<std::size_t>(v)] = 1;
    if (is_check(v)) pass.checks.push_back(v);
  }
  for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
    const Instr& i = instr(p_.outputs[o].value);
    if (!in_epilogue(i) && i.level != Level::scalar) pass.outputs.push_back(o);
  }
  pass.reductions = totals_;
  int packs = 0;
  for (const Operand& o : p_.operands) {
    const bool wide = o.kind == Operand::Kind::memory && layout_.width * static_cast<int>(size_of(o.dtype)) == 32;
    if (wide && layout_.access(o.strides, o.dtype) == Access::pack) packs += 32;
  }
  reads_many_ = packs >= kManyBytes && instructions(pass) <= kFewInstructions;
  const std::string given = scalars(true), body = leaf(pass);
  // Several leaves at a time where none can be missing, so that more of their loads are on the way: not more than
  // registers and the instruction cache have room for.
  int bytes = 0;
  for (const Operand& o : p_.operands) {
    if (o.kind == Operand::Kind::memory) bytes += kLeaf * static_cast<int>(size_of(o.dtype));
  }
  int unroll = 4;
  while (unroll > 1 && (unroll * bytes > kBytesAtATime || unroll * instructions(pass) > kMostInstructions)) unroll /= 2;
  std::string text = head("sweep", std::to_string(kThreads));
  text += indented(counter_begins() + given, "  ");
  if (totals_.empty()) {
    text += fmt::format(
        "  for (i64 leaf = ((i64)blockIdx.x * {0} + threadIdx.x) * {1}; leaf < a.n; leaf += (i64)gridDim.x * {2}) {{\n",
        kThreads, layout_.width, kThreads * layout_.width);
    return text + indented(body, "    ") + "  }\n}\n";
  }
  text += "  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;\n";
  text += fmt::format("  __shared__ u64 of_warps[{}][{}];\n", totals_.size(), kChunk);
  text += "  for (i64 chunk = blockIdx.x; chunk < a.parts; chunk += gridDim.x) {\n";
  static_assert(kThreads == 32 * kChunk, "a segment for each warp");
  text += fmt::format("    const i64 part = chunk / {} * {} + chunk / 32 % {} * {} + warp * 32 + chunk % 32;\n",
                      layout_.parts_of_group(), kGroup, kGroup / (32 * kChunk), 32 * kChunk);
  for (const std::int32_t v : totals_)
    text += fmt::format("    Reduction<{}, {}, {}> sum{};\n", reduction_text(instr(v).op), element_type(v),
                        wide_type(v), v);
  const auto leaves = [&](int written_out, const std::string& check, const std::string& of_leaf) {
    std::string loop = fmt::format("#pragma unroll {}\nfor (int k = 0; k < {}; ++k) {{\n", written_out, kLeaves);
    loop += fmt::format("  const i64 leaf = part * {} + k * {} + lane * {};\n", kSegment, 32 * kLeaf, kLeaf);
    return loop + check + indented(of_leaf, "  ") + "}\n";
  };
  const std::string check = "  if (leaf >= a.n) break;\n";
  if (unroll == 1) {
    text += indented(leaves(1, check, body), "    ");
  } else {
    whole_segment_ = true;
    const std::string whole = leaf(pass);
    whole_segment_ = false;
    text += fmt::format("    if ((part + 1) * {} <= a.n) {{\n", kSegment) +
            indented(leaves(unroll, "", whole), "      ") + "    } else {\n" +
            indented(leaves(1, check, body), "      ") + "    }\n";
  }
  std::string add;
  for (std::size_t t = 0; t < totals_.size(); ++t) {
    const std::int32_t v = totals_[t];
    text += fmt::format("    const {0} segment{1} = sum{1}.segment<32>();\n", wide_type(v), v);
    text += fmt::format("    if (lane == 0) of_warps[{}][warp] = bits_of(segment{});\n", t, v);
    add += fmt::format("      {0} all{1} = {2}::nothing<{0}>();\n", wide_type(v), v, reduction_text(instr(v).op));
    add += fmt::format(
        "#pragma unroll\n      for (int k = 0; k < {0}; ++k) all{1} = {2}::of(all{1}, from_bits(all{1}, "
        "of_warps[{3}][k]));\n",
        kChunk, v, reduction_text(instr(v).op), t);
    add += fmt::format("      a.work[{} * a.parts + chunk] = bits_of(all{});\n", t, v);
  }
  text += "    __syncthreads();\n    if (threadIdx.x == 0) {\n" + add + "    }\n    __syncthreads();\n";
  return text + "  }\n}\n";
}

}  // namespace ebb::cuda
