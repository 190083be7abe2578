// SPDX-License-Identifier: MIT
#include "cpu/moves.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <typeinfo>
#include <vector>

#include "core/parallel.h"
#include "cpu/library/copy.h"
#include "cpu/sweep/sweep.h"
#include "cpu/tile/elements.h"
#include "cpu/tile/few_bytes.h"

namespace ebb::cpu {
namespace {

// A sweep that only reorders elements. Tiles are read a line at a time, which for lines that step from row to row is
// one cache line per element; copies go by squares.
struct Reordering final : ebb::CompiledSweep {
  Shape shape;
  DType dtype;
  Strides from, to;
  int from_slot, to_slot;
  std::int64_t offset;

  void run(std::span<const Argument> arguments) const {
    auto* const source = static_cast<std::byte*>(arguments[static_cast<std::size_t>(from_slot)].data);
    copy_elements({arguments[static_cast<std::size_t>(to_slot)].data, dtype, shape, to},
                  {source + offset * static_cast<std::int64_t>(size_of(dtype)), dtype, shape, from});
  }
};

// Null for other sweeps: needs a load, perhaps copied, and a store of the same dtype, which is dense along a dimension
// where the source is not, while the source is dense along another.
SweepPtr reordering_of(const Program& p) {
  if (p.operands.size() != 1 || p.outputs.size() != 1 || p.dims.empty()) return nullptr;
  const Operand& from = p.operands[0];
  const Output& to = p.outputs[0];
  if (from.kind != Operand::Kind::memory || from.dtype != to.dtype || p.instrs[to.value].level != Level::full)
    return nullptr;
  for (const Instr& i : p.instrs) {
    if (i.kind != Instr::Kind::load && !(i.kind == Instr::Kind::compute && i.op == Op::copy)) return nullptr;
  }
  std::vector<int> order;
  bool across = false, along = false;
  for (int d = 0; d < static_cast<int>(p.dims.size()); ++d) {
    order.push_back(d);
    if (from.strides[d] < 0) return nullptr;
    if (p.dims[static_cast<std::size_t>(d)] == 1) continue;
    across |= to.strides[d] == 1 && from.strides[d] > 1;
    along |= to.strides[d] != 1 && from.strides[d] == 1;
  }
  if (!across || !along) return nullptr;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return to.strides[a] > to.strides[b]; });
  Reordering sweep;
  sweep.shape = Shape(p.dims.data(), static_cast<int>(p.dims.size()));
  for (int d = 0; d < sweep.shape.rank(); ++d) {
    const int k = order[static_cast<std::size_t>(d)];
    sweep.shape = sweep.shape.with(d, p.dims[static_cast<std::size_t>(k)]);
    sweep.from[d] = from.strides[k];
    sweep.to[d] = to.strides[k];
  }
  sweep.dtype = to.dtype;
  sweep.from_slot = from.slot;
  sweep.to_slot = to.slot;
  sweep.offset = from.offset;
  return std::make_shared<const Reordering>(std::move(sweep));
}

// A sweep whose results choose between two operands by comparing numbers of columns with a number of each row, as tril
// and masks of lengths do. Where the numbers of columns rise or fall, a row begins with elements of one operand and
// ends with those of the other.
using Steps = std::array<std::int64_t, Shape::kMaxRank>;
std::int64_t place(const Steps& strides, const Steps& index, int rank) {
  std::int64_t sum = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(rank); ++k) sum += index[k] * strides[k];
  return sum;
}
struct Division {
  // An operand: `strides` in the order of the result's dimensions.
  struct Side {
    Operand::Kind kind;
    DType dtype;
    int slot;
    std::int64_t offset;
    Steps strides;
    // Of compared numbers: the type they are loaded in, and the one they are compared in.
    RegType loaded, compared;

    std::int64_t at(const Steps& index, int rank) const { return offset + place(strides, index, rank); }
    // N: i64, or f64 for everything that it holds.
    template <class N>
    void numbers(const Argument& a, std::int64_t from, std::int64_t step, N* to, std::int64_t n) const {
      if (kind == Operand::Kind::memory) {
        with_type(dtype, [&](auto type) {
          using T = typename decltype(type)::type;
          const T* const element = static_cast<const T*>(a.data) + from;
          for (std::int64_t i = 0; i < n; ++i) {
            if constexpr (is_half_type<T>) {
              to[i] = static_cast<N>(to_float(element[i * step]));
            } else {
              to[i] = static_cast<N>(element[i * step]);
            }
          }
        });
      } else if (kind == Operand::Kind::iota) {
        for (std::int64_t i = 0; i < n; ++i) to[i] = rounded<N>(a.integer + a.step * (from + i * step));
      } else {
        std::fill_n(to, n, loaded == RegType::i64 ? static_cast<N>(a.integer) : rounded<N>(a.real));
      }
    }
    template <class N, class Number>
    N rounded(Number x) const {
      return compared == RegType::f32 ? static_cast<N>(static_cast<float>(x)) : static_cast<N>(x);
    }
  };

  DType dtype;
  int rank, to_slot;
  Steps sizes, to;  // the last dimension is a row of the result
  Op op;            // lt, le, gt, ge
  Side yes, no, left, right;
  bool columns_left;  // which of the two belongs to columns

  const Side& of_columns() const { return columns_left ? left : right; }
  const Side& of_rows() const { return columns_left ? right : left; }
  std::int64_t columns() const { return sizes[static_cast<std::size_t>(rank - 1)]; }

  template <class N>
  bool holds(N column, N row) const {
    const N a = columns_left ? column : row, b = columns_left ? row : column;
    return op == Op::lt ? a < b : op == Op::le ? a <= b : op == Op::gt ? a > b : a >= b;
  }
  bool in_integers() const { return left.compared == RegType::i64; }

  // The numbers of the columns; empty if they neither rise nor fall.
  template <class N>
  std::vector<N> line(std::span<const Argument> arguments) const {
    const Side& side = of_columns();
    std::vector<N> numbers(static_cast<std::size_t>(columns()));
    side.numbers(arguments[static_cast<std::size_t>(side.slot)], side.offset,
                 side.strides[static_cast<std::size_t>(rank - 1)], numbers.data(), columns());
    const bool known = numbers.front() == numbers.front();  // not NaN; a later one is in no order
    const bool ordered =
        std::adjacent_find(numbers.begin(), numbers.end(), [](N a, N b) { return !(a <= b); }) == numbers.end() ||
        std::adjacent_find(numbers.begin(), numbers.end(), [](N a, N b) { return !(a >= b); }) == numbers.end();
    if (!known || !ordered) numbers.clear();
    return numbers;
  }

  template <class T>
  static void write(T* to, const T* from, std::int64_t step, std::int64_t n) {
    if (n <= 0 || to == from) return;  // the result may take the place of an operand
    if (step == 1) {
      copy_bytes(to, from, static_cast<std::size_t>(n) * sizeof(T));
    } else if (*from == 0) {
      std::memset(to, 0, static_cast<std::size_t>(n) * sizeof(T));
    } else {
      std::fill_n(to, n, *from);
    }
  }

  template <class N>
  void run(std::span<const Argument> arguments, const std::vector<N>& line) const {
    const auto inner = static_cast<std::size_t>(rank - 1);
    std::int64_t rows = 1;
    for (std::size_t k = 0; k < inner; ++k) rows *= sizes[k];
    const Argument& rows_from = arguments[static_cast<std::size_t>(of_rows().slot)];
    constexpr std::int64_t kTaskElements = 65536;
    const std::int64_t group = std::max<std::int64_t>(1, kTaskElements / columns());
    with_element_size(dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      T numbers[2] = {};
      const auto data = [&](const Side& side, T& number) {
        const Argument& a = arguments[static_cast<std::size_t>(side.slot)];
        if (side.kind == Operand::Kind::memory) return static_cast<const T*>(a.data);
        put_number(a, &number);
        return static_cast<const T*>(&number);
      };
      const T *const if_yes = data(yes, numbers[0]), *const if_no = data(no, numbers[1]);
      T* const out = static_cast<T*>(arguments[static_cast<std::size_t>(to_slot)].data);
      parallel_for((rows + group - 1) / group, [&](std::int64_t task) {
        Steps index{};
        std::int64_t rest = task * group;
        for (std::size_t k = inner; k-- > 0;) index[k] = rest % sizes[k], rest /= sizes[k];
        for (std::int64_t r = task * group; r < std::min(rows, (task + 1) * group); ++r) {
          N row;
          of_rows().numbers(rows_from, of_rows().at(index, rank), 0, &row, 1);
          const bool first = holds(line.front(), row);
          const auto change =
              std::partition_point(line.begin(), line.end(), [&](N x) { return holds(x, row) == first; });
          const std::int64_t n = change - line.begin();
          const auto part = [&](bool chosen, std::int64_t begin, std::int64_t end) {
            const Side& side = chosen ? yes : no;
            T* const row_out = out + place(to, index, rank);
            const std::int64_t step = side.strides[inner];
            write(row_out + begin, (chosen ? if_yes : if_no) + side.at(index, rank) + begin * step, step, end - begin);
          };
          part(first, 0, n);
          part(!first, n, columns());
          for (std::size_t k = inner; k-- > 0;) {
            if (++index[k] < sizes[k]) break;
            index[k] = 0;
          }
        }
      });
    });
  }

  void put_number(const Argument& a, void* to) const {
    with_type(dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      T x;
      if constexpr (std::is_same_v<T, Half>) {
        x = half_from(static_cast<float>(a.real));
      } else if constexpr (std::is_same_v<T, BFloat16>) {
        x = bfloat16_from(static_cast<float>(a.real));
      } else if constexpr (std::is_same_v<T, bool>) {
        x = a.integer != 0 || a.real != 0;
      } else if constexpr (std::is_integral_v<T>) {
        x = static_cast<T>(a.integer);
      } else {
        x = static_cast<T>(a.real);
      }
      std::memcpy(to, &x, sizeof(T));
    });
  }
};

struct Divisions final : ebb::CompiledSweep {
  std::vector<Division> results;
  SweepPtr general;  // for numbers of columns in no order

  // A result in the place of another one's operand.
  bool overlap(std::span<const Argument> arguments) const {
    for (const Division& a : results) {
      for (const Division& b : results) {
        if (&a == &b) continue;
        for (const Division::Side* side : {&b.yes, &b.no, &b.left, &b.right}) {
          const bool memory = side->kind == Operand::Kind::memory;
          if (memory && arguments[static_cast<std::size_t>(side->slot)].data ==
                            arguments[static_cast<std::size_t>(a.to_slot)].data)
            return true;
        }
      }
    }
    return false;
  }

  void run(std::span<const Argument> arguments, std::int64_t first_row) const {
    std::vector<std::vector<double>> reals(results.size());
    std::vector<std::vector<std::int64_t>> integers(results.size());
    bool ordered = !overlap(arguments);
    for (std::size_t k = 0; ordered && k < results.size(); ++k) {
      const Division& d = results[k];
      if (d.in_integers()) {
        integers[k] = d.line<std::int64_t>(arguments);
      } else {
        reals[k] = d.line<double>(arguments);
      }
      ordered = !integers[k].empty() || !reals[k].empty();
    }
    if (!ordered) return cpu::run(*general, arguments, first_row);
    for (std::size_t k = 0; k < results.size(); ++k)
      integers[k].empty() ? results[k].run(arguments, reals[k]) : results[k].run(arguments, integers[k]);
  }
};

// Follows a program from one of its results to the comparison.
class DivisionOf {
 public:
  DivisionOf(const Program& p, const Output& output) : p_(p), output_(output) {}

  std::optional<Division> find() {
    result_.dtype = output_.dtype;
    result_.to_slot = output_.slot;
    if (!order_dims()) return std::nullopt;
    const Instr& chosen = behind_copies(output_.value);
    if (chosen.kind != Instr::Kind::compute || chosen.op != Op::where) return std::nullopt;
    const Instr& compared = behind_copies(chosen.arg[0]);
    result_.op = compared.op;
    const bool compares =
        compared.op == Op::lt || compared.op == Op::le || compared.op == Op::gt || compared.op == Op::ge;
    if (compared.kind != Instr::Kind::compute || !compares) return std::nullopt;
    const bool found = number(compared.arg[0], result_.left) && number(compared.arg[1], result_.right) &&
                       chosen_side(chosen.arg[1], result_.yes) && chosen_side(chosen.arg[2], result_.no);
    if (!found || result_.left.compared != result_.right.compared) return std::nullopt;
    const auto inner = order_.size() - 1;
    const auto of_columns_alone = [&](const Division::Side& s) {
      for (std::size_t k = 0; k < inner; ++k) {
        if (s.strides[k] != 0) return false;
      }
      return s.strides[inner] != 0;
    };
    result_.columns_left = of_columns_alone(result_.left);
    if (!result_.columns_left && !of_columns_alone(result_.right)) return std::nullopt;
    if (result_.of_rows().strides[inner] != 0) return std::nullopt;
    return result_;
  }

 private:
  static constexpr std::int64_t kShortestRow = 8;  // others are not worth two calls each

  const Instr& behind_copies(std::int32_t v) const {
    const Instr* i = &p_.instrs[static_cast<std::size_t>(v)];
    const auto moves = [&] {
      return (i->kind == Instr::Kind::compute && i->op == Op::copy) ||
             (i->kind == Instr::Kind::round && i->dtype == result_.dtype);
    };
    while (moves()) i = &p_.instrs[static_cast<std::size_t>(i->arg[0])];
    return *i;
  }
  // Rows are those of the result in memory.
  bool order_dims() {
    for (int d = 0; d < static_cast<int>(p_.dims.size()); ++d) {
      if (p_.dims[static_cast<std::size_t>(d)] != 1) order_.push_back(d);
    }
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int a, int b) { return output_.strides[a] > output_.strides[b]; });
    if (order_.empty() || output_.strides[order_.back()] != 1) return false;
    result_.rank = static_cast<int>(order_.size());
    for (std::size_t k = 0; k < order_.size(); ++k)
      result_.sizes[k] = p_.dims[static_cast<std::size_t>(order_[k])], result_.to[k] = output_.strides[order_[k]];
    return result_.columns() >= kShortestRow;
  }
  bool load(std::int32_t v, Division::Side& side) const {
    const Instr& i = behind_copies(v);
    if (i.kind != Instr::Kind::load) return false;
    const Operand& o = p_.operands[static_cast<std::size_t>(i.arg[0])];
    side = {.kind = o.kind,
            .dtype = o.dtype,
            .slot = o.slot,
            .offset = o.offset,
            .strides = {},
            .loaded = i.type,
            .compared = i.type};
    if (o.kind == Operand::Kind::constant) {
      side.offset = 0;
      return true;
    }
    for (std::size_t k = 0; k < order_.size(); ++k) side.strides[k] = o.strides[order_[k]];
    return o.kind != Operand::Kind::random;
  }
  // Compared: possibly counted in integers, and then converted.
  bool number(std::int32_t v, Division::Side& side) const {
    const Instr& i = behind_copies(v);
    const bool converted = i.kind == Instr::Kind::convert && (i.type == RegType::f32 || i.type == RegType::f64);
    if (!load(converted ? i.arg[0] : v, side)) return false;
    if (converted) side.compared = i.type;
    const bool rounded_twice = converted && side.kind != Operand::Kind::iota;
    const auto is_number = [](RegType t) { return t != RegType::m32 && t != RegType::m64 && t != RegType::i32; };
    return !rounded_twice && is_number(side.loaded) && is_number(side.compared) &&
           (side.kind != Operand::Kind::constant || !is_half(side.dtype));
  }
  bool chosen_side(std::int32_t v, Division::Side& side) const {
    if (!load(v, side) || side.kind == Operand::Kind::iota) return false;
    const std::int64_t step = side.strides[order_.size() - 1];
    return side.kind == Operand::Kind::constant || (side.dtype == result_.dtype && (step == 0 || step == 1));
  }

  const Program& p_;
  const Output& output_;
  Division result_{};
  std::vector<int> order_;  // dimensions, the result's rows last
};

SweepPtr divisions_of(const Program& p) {
  if (p.outputs.empty() || p.stages != 1 || p.row_dims != 0) return nullptr;
  Divisions found;
  for (const Output& output : p.outputs) {
    std::optional<Division> result = DivisionOf(p, output).find();
    if (!result) return nullptr;
    found.results.push_back(*result);
  }
  found.general = cpu::compile(p);
  return std::make_shared<const Divisions>(std::move(found));
}

}  // namespace

SweepPtr moving_sweep(const Program& program) {
  SweepPtr reordering = reordering_of(program);
  return reordering ? reordering : divisions_of(program);
}

bool run_moving_sweep(const ebb::CompiledSweep& sweep, std::span<const Argument> arguments, std::int64_t first_row) {
  if (typeid(sweep) == typeid(Reordering)) {
    static_cast<const Reordering&>(sweep).run(arguments);
    return true;
  }
  if (typeid(sweep) == typeid(Divisions)) {
    static_cast<const Divisions&>(sweep).run(arguments, first_row);
    return true;
  }
  return false;
}

}  // namespace ebb::cpu
