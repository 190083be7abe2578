// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/format_error.h"
#include "core/random.h"
#include "sweep/program.h"
#include "sweep/reference_math.h"
#include "sweep/sum_order.h"

// The oracle of the sweep interpreters. It has no tiles, no stages and no threads: every value of the program is an
// array over its level, filled one element after the other. Sums use the order of sum_order.h, so that they can be
// compared bit for bit. Slow, and correct by inspection.
namespace ebb {
namespace {

bool is_real(RegType t) { return t == RegType::f32 || t == RegType::f64; }
bool is_mask(RegType t) { return t == RegType::m32 || t == RegType::m64; }

// A double rounded to the dtype.
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

template <class T>
T read_as(const void* data, std::int64_t index) {
  T x;
  std::memcpy(&x, static_cast<const char*>(data) + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return x;
}
template <class T>
void write_as(void* data, std::int64_t index, T x) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<std::int64_t>(sizeof(T)), &x, sizeof(T));
}

Number read(DType dtype, const void* data, std::int64_t i) {
  switch (dtype) {
    case DType::f64:
      return {read_as<double>(data, i), 0};
    case DType::f32:
      return {read_as<float>(data, i), 0};
    case DType::f16:
      return {to_float(read_as<Half>(data, i)), 0};
    case DType::bf16:
      return {to_float(read_as<BFloat16>(data, i)), 0};
    case DType::i64:
      return {0, read_as<std::int64_t>(data, i)};
    case DType::i32:
      return {0, read_as<std::int32_t>(data, i)};
    case DType::u8:
      return {0, read_as<std::uint8_t>(data, i)};
    default:
      return {0, read_as<std::uint8_t>(data, i) != 0};
  }
}

void write(DType dtype, void* data, std::int64_t i, Number x) {
  switch (dtype) {
    case DType::f64:
      return write_as(data, i, x.real);
    case DType::f32:
      return write_as(data, i, static_cast<float>(x.real));
    case DType::f16:
      return write_as(data, i, half_from(static_cast<float>(x.real)));
    case DType::bf16:
      return write_as(data, i, bfloat16_from(static_cast<float>(x.real)));
    case DType::i64:
      return write_as(data, i, x.integer);
    case DType::i32:
      return write_as(data, i, static_cast<std::int32_t>(x.integer));
    case DType::u8:
      return write_as(data, i, static_cast<std::uint8_t>(x.integer));
    case DType::bool_:
      return write_as(data, i, static_cast<std::uint8_t>(x.integer != 0));
  }
}

// As a C++ cast, but NaN gives 0 and out-of-range values saturate.
Number convert(Number x, RegType from, RegType to) {
  if (is_mask(to)) return {0, is_real(from) ? x.real != 0 : x.integer != 0};
  if (is_real(to)) {
    const double r = is_real(from) ? x.real : static_cast<double>(x.integer);
    return {to == RegType::f32 ? static_cast<float>(r) : r, 0};
  }
  if (!is_real(from)) return {0, to == RegType::i32 ? static_cast<std::int32_t>(x.integer) : x.integer};
  const double low = to == RegType::i32 ? -0x1p31 : -0x1p63, high = to == RegType::i32 ? 0x1p31 : 0x1p63;
  if (std::isnan(x.real)) return {0, 0};
  if (x.real >= high)
    return {0,
            to == RegType::i32 ? std::numeric_limits<std::int32_t>::max() : std::numeric_limits<std::int64_t>::max()};
  if (x.real < low) return {0, static_cast<std::int64_t>(low)};
  return {0, static_cast<std::int64_t>(x.real)};
}

// Neutral elements; the kernels' accumulators are double and int64.
Number identity(Op op, bool real) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  using Limits = std::numeric_limits<std::int64_t>;
  switch (op) {
    case Op::sum:
      return {0, 0};
    case Op::prod:
      return {1, 1};
    case Op::max:
      return {-inf, real ? 0 : Limits::min()};
    default:
      return {inf, real ? 0 : Limits::max()};
  }
}

Number combine(Op op, bool real, Number a, Number b) {
  static_assert(Op::sum != Op::add);
  const Op two = op == Op::sum ? Op::add : op == Op::prod ? Op::mul : op == Op::max ? Op::maximum : Op::minimum;
  return real ? reference_real(two, a, b, {}) : reference_integer(two, 64, a, b, {});
}

// Reductions in the order of sum_order.h. Numbers are combined in their own type (`narrow`) or in f64.
class InOrder {
 public:
  InOrder(Op op, RegType type) : op_(op), type_(type) {}

  Number none() const { return identity(op_, is_real(type_)); }
  Number wide(Number a, Number b) const { return combine(op_, is_real(type_), a, b); }
  Number narrow(Number a, Number b) const { return kept(wide(a, b)); }
  Number kept(Number x) const { return type_ == RegType::f32 ? Number{static_cast<float>(x.real), 0} : x; }

  // T(n) of numbers(0), numbers(1), ...
  template <class Numbers>
  Number line(std::int64_t n, Numbers numbers) const {
    constexpr auto block = static_cast<std::int64_t>(kBlock),
                   group = block * static_cast<std::int64_t>(kBlocksPerGroup);
    Number all = none();
    for (std::int64_t g = 0; g < n; g += group) {
      Number of_group = none();
      for (std::int64_t b = g; b < std::min(n, g + group); b += block) {
        std::array<Number, kSumLanes> lanes;
        lanes.fill(none());
        for (std::int64_t i = b; i < std::min(n, b + block); ++i) {
          Number& lane = lanes[static_cast<std::size_t>(i - b) % kSumLanes];
          lane = narrow(lane, numbers(i));
        }
        Number of_block = lanes[0];
        for (std::size_t l = 1; l < kSumLanes; ++l) of_block = wide(of_block, lanes[l]);
        of_group = wide(of_group, of_block);
      }
      all = wide(all, of_group);
    }
    return all;
  }

  // Rows in parts; part(first, end) is the reduction of some of them.
  template <class Part>
  Number parts(std::int64_t rows, std::int64_t columns, Part part) const {
    const std::int64_t each = rows_per_part(rows, columns);
    Number all = none();
    for (std::int64_t r = 0; r < rows; r += each) all = wide(all, part(r, std::min(rows, r + each)));
    return all;
  }

 private:
  Op op_;
  RegType type_;
};

class Oracle {
 public:
  Oracle(const Program& program, const std::vector<Argument>& arguments)
      : p_(program), args_(arguments), rows_(program.rows()), columns_(program.columns()), values_(p_.instrs.size()) {}

  void run() {
    for (std::size_t v = 0; v < p_.instrs.size(); ++v) {
      values_[v].resize(static_cast<std::size_t>(size_of(p_.instrs[v].level)));
      make(p_.instrs[v], values_[v]);
    }
    // A data-dependent error is thrown after all rows, for the lowest position, as in every backend.
    if (!complaint_.empty()) throw Error(complaint_);
    for (const Output& o : p_.outputs) store(o);
  }

 private:
  std::int64_t size_of(Level level) const {
    switch (level) {
      case Level::scalar:
        return 1;
      case Level::row:
        return rows_;
      case Level::column:
        return columns_;
      default:
        return rows_ * columns_;
    }
  }
  static std::int64_t index_of(Level level, std::int64_t row, std::int64_t column, std::int64_t columns) {
    switch (level) {
      case Level::scalar:
        return 0;
      case Level::row:
        return row;
      case Level::column:
        return column;
      default:
        return row * columns + column;
    }
  }
  Number at(std::int32_t v, std::int64_t row, std::int64_t column) const {
    if (v < 0) return {};
    return values_[static_cast<std::size_t>(v)]
                  [static_cast<std::size_t>(index_of(p_.instrs[v].level, row, column, columns_))];
  }

  // Address of element (row, column) with these strides.
  std::int64_t address(const Strides& strides, std::int64_t row, std::int64_t column) const {
    std::int64_t a = 0;
    const int dims = static_cast<int>(p_.dims.size());
    for (int d = dims; d-- > 0;) {
      std::int64_t& linear = d >= dims - p_.row_dims ? column : row;
      const std::int64_t size =
          std::max<std::int64_t>(1, p_.dims[static_cast<std::size_t>(d)]);  // scalars of an empty space
      a += linear % size * strides[d];
      linear /= size;
    }
    return a;
  }

  // Calls body(element of the level, its row, its column).
  template <class Body>
  void each(Level level, Body body) const {
    const std::int64_t rows = level == Level::row || level == Level::full ? rows_ : 1;
    const std::int64_t columns = level == Level::column || level == Level::full ? columns_ : 1;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) body(static_cast<std::size_t>(r * columns + c), r, c);
    }
  }

  void make(const Instr& i, std::vector<Number>& out) {
    const std::int32_t a = i.arg[0], b = i.arg[1], c = i.arg[2];
    switch (i.kind) {
      case Instr::Kind::load:
        each(i.level,
             [&](std::size_t k, std::int64_t r, std::int64_t col) { out[k] = load(p_.operands[a], i.type, r, col); });
        break;
      case Instr::Kind::compute:
        each(i.level, [&](std::size_t k, std::int64_t r, std::int64_t col) {
          out[k] = compute(i, at(a, r, col), at(b, r, col), at(c, r, col));
          if (i.op == Op::check && !at(b, r, col).integer) complain(k, fmt::format("{}", i.label ? i.label : "check"));
        });
        break;
      case Instr::Kind::convert:
        each(i.level, [&](std::size_t k, std::int64_t r, std::int64_t col) {
          out[k] = convert(at(a, r, col), p_.instrs[a].type, i.type);
        });
        break;
      case Instr::Kind::round:
        each(i.level, [&](std::size_t k, std::int64_t r, std::int64_t col) {
          const Number x = at(a, r, col);
          out[k] = i.dtype == DType::u8 ? Number{0, static_cast<std::uint8_t>(x.integer)}
                                        : Number{as_kept(x.real, i.dtype), 0};
        });
        break;
      case Instr::Kind::reduce:
      case Instr::Kind::total:
      case Instr::Kind::columns:
        reduce(i, out);
        break;
      case Instr::Kind::pick:
        each(Level::row, [&](std::size_t k, std::int64_t r, std::int64_t) {
          const std::int64_t index = at(b, r, 0).integer;
          if (in_range(i, k, index)) out[k] = at(a, r, index);
        });
        break;
      case Instr::Kind::place:
        each(Level::row, [&](std::size_t k, std::int64_t r, std::int64_t) {
          const std::int64_t index = at(b, r, 0).integer;
          if (in_range(i, k, index)) out[static_cast<std::size_t>(r * columns_ + index)] = at(a, r, index);
        });
        break;
    }
  }

  void reduce(const Instr& i, std::vector<Number>& out) const {
    const InOrder order(i.op, i.type);
    const std::int32_t a = i.arg[0];
    auto row = [&](std::int64_t r) { return order.line(columns_, [&](std::int64_t c) { return at(a, r, c); }); };
    if (i.kind == Instr::Kind::reduce) {
      for (std::int64_t r = 0; r < rows_; ++r) out[static_cast<std::size_t>(r)] = row(r);
    } else if (i.kind == Instr::Kind::columns) {
      for (std::int64_t c = 0; c < columns_; ++c) {
        out[static_cast<std::size_t>(c)] = order.parts(rows_, columns_, [&](std::int64_t first, std::int64_t end) {
          Number closed = order.none();
          for (std::int64_t r = first; r < end; r += kRowsPerRun) {
            Number open = order.kept(order.none());
            for (std::int64_t k = r; k < std::min(end, r + kRowsPerRun); ++k) open = order.narrow(open, at(a, k, c));
            closed = order.wide(closed, open);
          }
          return closed;
        });
      }
    } else if (p_.row_dims == 0) {  // no rows: one line of everything
      out[0] = order.line(rows_, [&](std::int64_t k) { return at(a, k, 0); });
    } else {
      // A total is over everything its operand varies over; one that does not vary counts once per row.
      const bool of_rows = p_.instrs[a].level != Level::full;
      out[0] = order.parts(rows_, columns_, [&](std::int64_t first, std::int64_t end) {
        Number sum = order.none();
        for (std::int64_t r = first; r < end; ++r) sum = order.wide(sum, of_rows ? at(a, r, 0) : row(r));
        return sum;
      });
    }
    for (Number& x : out) x = order.kept(x);
  }

  Number compute(const Instr& i, Number a, Number b, Number c) const {
    // A comparison makes a mask of numbers: it computes in the type of its operands.
    const std::int32_t typed = i.op == Op::where ? i.arg[1] : i.arg[0];
    const RegType t = p_.instrs[typed].type;
    if (is_real(t)) {
      const Number y = reference_real(i.op, a, b, c);
      return i.type == RegType::f32 ? Number{static_cast<float>(y.real), y.integer} : y;
    }
    return reference_integer(i.op, is_mask(t) ? 1 : t == RegType::i32 ? 32 : 64, a, b, c);
  }

  Number load(const Operand& o, RegType type, std::int64_t row, std::int64_t column) const {
    const Argument& arg = args_[static_cast<std::size_t>(o.slot)];
    const std::int64_t where = o.offset + address(o.strides, row, column);
    switch (o.kind) {
      case Operand::Kind::memory:
        return convert(read(o.dtype, arg.data, where), reg_type(o.dtype), type);
      case Operand::Kind::constant:
        if (is_real(type)) return {as_kept(arg.real, o.dtype), 0};
        if (is_mask(type)) return {0, arg.integer != 0 || arg.real != 0};
        return {0, o.dtype == DType::u8 ? static_cast<std::uint8_t>(arg.integer) : arg.integer};
      case Operand::Kind::iota:
        return convert({0, arg.integer + arg.step * where}, RegType::i64, type);
      case Operand::Kind::random: {
        const auto number = static_cast<std::uint64_t>(arg.integer + where);
        std::uint32_t words[4];
        philox_block(arg.seed, arg.operation, number / 4, words);
        const std::uint32_t word = words[number % 4];
        return {type == RegType::f64 ? word * 0x1p-32 : (word >> 8) * 0x1p-24, 0};
      }
    }
    return {};
  }

  void store(const Output& o) const {
    const Instr& i = p_.instrs[o.value];
    each(i.level, [&](std::size_t k, std::int64_t r, std::int64_t c) {
      write(o.dtype, args_[static_cast<std::size_t>(o.slot)].data, address(o.strides, r, c),
            convert(values_[static_cast<std::size_t>(o.value)][k], i.type, stored_type(o.dtype, i.type)));
    });
  }
  static RegType stored_type(DType dtype, RegType from) {
    const RegType t = reg_type(dtype);
    return is_real(t) && is_real(from) ? from : t;  // the dtype's own rounding follows
  }

  bool in_range(const Instr& i, std::size_t row, std::int64_t index) {
    if (index >= 0 && index < columns_) return true;
    complain(row * static_cast<std::size_t>(columns_),
             fmt::format("{} = {} is outside [0, {})", i.label ? i.label : "gather: index", index, columns_));
    return false;
  }
  void complain(std::size_t position, const std::string& text) {
    if (!complaint_.empty() && position >= position_) return;
    position_ = position;
    complaint_ = text;
  }

  const Program& p_;
  const std::vector<Argument>& args_;
  const std::int64_t rows_, columns_;
  std::vector<std::vector<Number>> values_;
  std::size_t position_ = 0;
  std::string complaint_;
};

}  // namespace

void run_reference(const Program& program, const std::vector<Argument>& arguments) {
  verify(program);
  Oracle(program, arguments).run();
}

}  // namespace ebb
