// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <bit>

#include "cuda/print/expression.h"
#include "cuda/print/sweep_text.h"

namespace ebb::cuda {
namespace {

double as_kept(double x, DType dtype) {
  switch (dtype) {
    case DType::f16:
      return to_float(half_from(static_cast<float>(x)));
    case DType::bf16:
      return to_float(bfloat16_from(static_cast<float>(x)));
    case DType::f32:
      return static_cast<float>(x);
    default:
      return x;
  }
}

}  // namespace

std::vector<std::uint64_t> bound_words(const SweepText& text, std::span<const Argument> arguments, const void* error,
                                       std::uint64_t step, void* workspace) {
  std::vector<std::uint64_t> words;
  words.reserve(text.parameters.size());
  for (const Parameter& p : text.parameters) {
    static const Argument kNone;
    const Argument& a = p.slot < 0 ? kNone : arguments[static_cast<std::size_t>(p.slot)];
    const auto extra = static_cast<std::uint64_t>(p.number);
    switch (p.kind) {
      case Parameter::Kind::number:
        words.push_back(extra);
        break;
      case Parameter::Kind::pointer:
        words.push_back(reinterpret_cast<std::uintptr_t>(a.data) + extra);
        break;
      case Parameter::Kind::real:
        words.push_back(std::bit_cast<std::uint64_t>(as_kept(a.real, p.dtype)));
        break;
      case Parameter::Kind::integer:  // a mask is true where either number is not 0
        words.push_back(p.number               ? a.integer != 0 || a.real != 0
                        : p.dtype == DType::u8 ? static_cast<std::uint8_t>(a.integer)
                                               : static_cast<std::uint64_t>(a.integer));
        break;
      case Parameter::Kind::start:
        words.push_back(static_cast<std::uint64_t>(a.integer) + static_cast<std::uint64_t>(a.step) * extra);
        break;
      case Parameter::Kind::step:
        words.push_back(static_cast<std::uint64_t>(a.step));
        break;
      case Parameter::Kind::seed:
        words.push_back(a.seed);
        break;
      case Parameter::Kind::operation:
        words.push_back(a.operation);
        break;
      case Parameter::Kind::error:
        words.push_back(reinterpret_cast<std::uintptr_t>(error));
        break;
      case Parameter::Kind::error_step:
        words.push_back(step);
        break;
      case Parameter::Kind::workspace:
        words.push_back(reinterpret_cast<std::uintptr_t>(workspace));
        break;
    }
  }
  return words;
}

bool is_aligned(const SweepText& text, std::span<const Argument> arguments) {
  for (const Parameter& p : text.parameters) {
    if (!p.aligned) continue;
    const auto at = reinterpret_cast<std::uintptr_t>(arguments[static_cast<std::size_t>(p.slot)].data) +
                    static_cast<std::uintptr_t>(p.number);
    if (at % 16 != 0) return false;
  }
  return true;
}

Error complaint(const Program& p, std::int32_t v, std::int64_t position, std::uint64_t bits, std::int64_t first_row) {
  const Instr& i = p.instrs[static_cast<std::size_t>(v)];
  const std::size_t dims = p.dims.size(), row_dims = dims - static_cast<std::size_t>(p.row_dims);
  if (i.kind != Instr::Kind::compute) {
    return Error(Error::Kind::index, fmt::format("{}{} = {} is outside [0, {})", i.label ? i.label : "gather: index",
                                                 position_text(p, 0, row_dims, position, first_row),
                                                 static_cast<std::int64_t>(bits), p.columns()));
  }
  const std::string number = is_real(i.type) ? fmt::format("{:g}", std::bit_cast<double>(bits))
                                             : fmt::format("{}", static_cast<std::int64_t>(bits));
  if (i.level == Level::scalar) return check_error(i, "", number);
  const std::size_t from = i.level == Level::column ? row_dims : 0, to = i.level == Level::row ? row_dims : dims;
  return check_error(i, position_text(p, from, to, position, first_row), number);
}

}  // namespace ebb::cuda
