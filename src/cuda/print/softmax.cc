// SPDX-License-Identifier: MIT
// Largest number and sum of exponentials of a row in one pass: see plan/softmax.cc.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/print/expression.h"
#include "cuda/print/printer.h"

namespace ebb::cuda {

// The shift of a segment, whose largest number is the variable `most`. Its exponentials are at most 1, and a sum of
// only -inf is 0.
std::string Printer::shift_of(const SoftmaxSum& e, const std::string& most) const {
  if (e.shift == e.most) return define(e.most, fmt::format("is_finite({0}) ? {0} : 0", most));
  return define(e.most, most) + define({}, instr(e.shift).arg[0]) + define({}, e.shift);
}

// Searches for the position of the largest number in the segments that have it: one, except for ties. The block's
// threads share the segment; the results of warps are again parts, at [turn][free].
std::string Printer::place_of_largest(const SoftmaxSum& e, std::size_t most, std::size_t free) const {
  const std::int32_t v = e.place, choice = instr(v).arg[0];
  const std::string best = reduction_text(instr(v).op), wide = wide_type(v);
  const auto has_it = [&](const std::string& segment) {
    return fmt::format("are_same(from_bits((f32)0, parts[turn][{}][{}]), most{})", most, segment, e.most);
  };
  std::string look = fmt::format("const i64 col = (i64)segment * {} + i;\nif (col >= a.columns) break;\n", kSegment);
  look += coordinates(plan_.columns);
  const std::vector<char> needed = needed_by(choice);
  for (std::int32_t u = 0; u < n_; ++u) {
    if (needed[at(u)]) look += define({}, u);
  }
  look += fmt::format("best{0} = {1}::of(best{0}, ({2}){3});\n", v, best, wide, element_of_reduction(v));
  const std::string otherwise =
      fmt::format("best{0} = {1}::of(best{0}, ({2}){3});\n", v, best, wide, name(instr(choice).arg[2]));
  std::string segments = fmt::format("if (!{}) {{\n  {}  continue;\n}}\n", has_it("segment"), otherwise);
  segments +=
      fmt::format("for (int i = threadIdx.x; i < {}; i += 32 * lookers) {{\n", kSegment) + indented(look, "  ") + "}\n";
  std::string text = fmt::format("{0} best{1} = {2}::nothing<{0}>();\n", wide, v, best);
  std::string body = "const int lookers = warps < segments ? (int)warps : (int)segments;\n";
  body += fmt::format(
      "const i64 first = over_each<Least, i64>([&](int i) {{ return {} ? (i64)i : (i64)segments; }}, (int)segments);\n",
      has_it("i"));
  body += fmt::format(
      "const i64 last = over_each<Most, i64>([&](int i) {{ return {} ? (i64)i : (i64)-1; }}, (int)segments);\n",
      has_it("i"));
  body += "if (first > 0 || last + 1 < segments) " + otherwise;
  body +=
      "for (i64 segment = first; warp < lookers && segment <= last; ++segment) {\n" + indented(segments, "  ") + "}\n";
  body += fmt::format("best{0} = over_lanes<{1}>(best{0});\n", v, best);
  body += fmt::format("if (lane == 0 && warp < lookers) parts[turn][{}][warp] = bits_of(best{});\n", free, v);
  body += "__syncthreads();\n";
  body += fmt::format("best{} = over_segments<{}, {}>(parts[turn][{}], lookers);\n", v, best, wide, free);
  return text + "{\n" + indented(body, "  ") + "}\n" + define(v, narrowed(v, fmt::format("best{}", v)));
}

namespace {

// Indices among the parts: of the largest number, then of the sums.
std::size_t place_of_sum(const PassPlan& first, const PassPlan& second, std::int32_t v) {
  return first.softmax.size() +
         static_cast<std::size_t>(std::find(second.reductions.begin(), second.reductions.end(), v) -
                                  second.reductions.begin());
}

}  // namespace

// The sums of segments, of the largest numbers that each has.
std::string Printer::softmax_leaves(int stage) const {
  const PassPlan &first = plan_.passes[static_cast<std::size_t>(stage)],
                 &second = plan_.passes[static_cast<std::size_t>(stage) + 1];
  const std::vector<SoftmaxSum>& sums = first.softmax;
  std::string known, end;
  for (std::size_t r = 0; r < sums.size(); ++r) {
    const SoftmaxSum& e = sums[r];
    known += fmt::format("const f32 most{0} = sum{0}.segment<32>();\n", e.most);
    known += shift_of(e, fmt::format("most{}", e.most));
    end += fmt::format("if (lane == 0) {}[segment] = bits_of(most{});\n", parts_of(stage, r), e.most);
  }
  for (const std::int32_t v : second.reductions) {
    end += fmt::format("const f64 total{0} = sum{0}.segment<32>();\n", v);
    end += fmt::format("if (lane == 0) {}[segment] = bits_of(total{});\n",
                       parts_of(stage, place_of_sum(first, second, v)), v);
  }
  // Where no other pass reads the row, the next one takes its place: see row_pass.
  const bool next = stage + 1 == plan_.last_pass && !plan_.staged.empty(), by_leaf = next && !plan_.skewed;
  const bool sends = first.takes_row || (next && plan_.skewed && !plan_.holds_row());
  std::string text = by_leaf && !plan_.holds_row() ? next_row() : "";
  text += reductions_begin(first) + reductions_begin(second);
  const LeafBody last = [&](const Scope& scope) {
    return leaf(scope, second) + (by_leaf && !(scope.in_registers && plan_.holds_row()) ? copy_next(scope) : "");
  };
  text += over_leaves(
      {{[&](const Scope& scope) { return leaf(scope, first); }, known, first.unroll}, {last, end, second.unroll}});
  return text + (sends ? send_for_next_row() : "");
}

std::string Printer::softmax_pass(int stage) const {
  return softmax_leaves(stage) + "__syncthreads();\n" + softmax_results(stage) + "turn ^= 1;\n";
}

// The row's largest number, and its sums.
std::string Printer::softmax_results(int stage) const {
  const PassPlan &first = plan_.passes[static_cast<std::size_t>(stage)],
                 &second = plan_.passes[static_cast<std::size_t>(stage) + 1];
  const std::vector<SoftmaxSum>& sums = first.softmax;
  std::size_t free = sums.size() + second.reductions.size();
  const auto parts_of_sum = [&](std::int32_t v) { return parts_of(stage, place_of_sum(first, second, v)); };
  std::string text;
  for (std::size_t r = 0; r < sums.size(); ++r) {
    const std::int32_t v = sums[r].most;
    text += fmt::format("const f32 most{} = over_segments<Most, f32>({}, (int)segments);\n", v, parts_of(stage, r));
    text += define(v, fmt::format("most{}", v));
  }
  text += fmt::format("// stage {}\n", stage + 1) + row_values(stage + 1);
  for (std::size_t r = 0; r < sums.size(); ++r) {
    const SoftmaxSum& e = sums[r];
    const std::int32_t power = instr(e.sum).arg[0], difference = instr(power).arg[0];
    const std::string of_segment =
        fmt::format("const f32 most = from_bits((f32)0, {}[segment]);\n", parts_of(stage, r)) + shift_of(e, "most");
    const auto part = [&](std::int32_t v) {
      return fmt::format("const f64 part = from_bits((f64)0, {}[segment]);\n", parts_of_sum(v));
    };
    std::string scaled = part(e.sum) + of_segment;
    scaled += define(difference, fmt::format("{} - shift{}", name(e.shift), e.sum)) + define({}, power);
    // Where all numbers of the row are infinite, its shift decides the result.
    scaled += fmt::format("return part == 0 && most < most{} ? part : part * {};\n", e.most, name(power));
    text += fmt::format("const f32 shift{} = {};\n", e.sum, name(e.shift));
    text += fmt::format("const f64 all{} = over_each<Plus, f64>([&](int segment) {{\n", e.sum) +
            indented(scaled, "  ") + "}, (int)segments);\n";
    text += define(e.sum, narrowed(e.sum, fmt::format("all{}", e.sum)));
    if (e.products >= 0) {  // Σ e^d·d of a segment with another shift: e^δ·(Σ e^d·d + δ·Σ e^d)
      std::string moved = part(e.sum) + of_segment;
      moved += fmt::format("const f64 products = from_bits((f64)0, {}[segment]);\n", parts_of_sum(e.products));
      moved += define(difference, fmt::format("{} - shift{}", name(e.shift), e.sum)) + define({}, power);
      moved +=
          fmt::format("return part == 0 && most < most{} ? part : (products + ((f64){} - (f64)shift{}) * part) * {};\n",
                      e.most, name(e.shift), e.sum, name(power));
      text += fmt::format("const f64 all{} = over_each<Plus, f64>([&](int segment) {{\n", e.products) +
              indented(moved, "  ") + "}, (int)segments);\n";
      text += define(e.products, narrowed(e.products, fmt::format("all{}", e.products)));
    }
    if (e.place >= 0) text += place_of_largest(e, r, free++);
    if (e.differences < 0) continue;
    std::string moved = part(e.differences) + of_segment;
    moved += fmt::format("const i64 left = a.columns - (i64)segment * {0};\n", kSegment);
    moved += fmt::format("return part + (f64)(left < {0} ? left : {0}) * ((f64){1} - (f64)shift{2});\n", kSegment,
                         name(e.shift), e.sum);
    text += fmt::format("const f64 all{} = over_each<Plus, f64>([&](int segment) {{\n", e.differences) +
            indented(moved, "  ") + "}, (int)segments);\n";
    text += define(e.differences, narrowed(e.differences, fmt::format("all{}", e.differences)));
  }
  return text;
}

}  // namespace ebb::cuda
