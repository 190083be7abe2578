// SPDX-License-Identifier: MIT
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <type_traits>
#include <vector>

#include "core/format_error.h"
#include "graph/node.h"

// Tensors as text, laid out as NumPy's print does it: at most eight decimals, never more than distinguish the number
// from its neighbours; one width for all; exponents when the numbers are very large, very small or far apart; only the
// edges of more than a thousand elements.
namespace ebb {
namespace {

constexpr int kPrecision = 8, kLineWidth = 75;
constexpr std::int64_t kSummaryAbove = 1000, kEdge = 3;

// ---- one floating number --------------------------------------------------------------------------------------------

// The bits of a number in its own dtype, to check whether a text reads back as the same number.
std::uint16_t half_bits(DType d, double x) {
  const auto f = static_cast<float>(x);
  return d == DType::f16 ? half_from(f).bits : bfloat16_from(f).bits;
}

// The shortest d.ddde±xx that reads back as x in its dtype.
std::string shortest(DType dtype, double x) {
  char text[64];
  if (is_half(dtype)) {
    // The nearest number of so many digits may not read back although the one on its other side does: at a power of two
    // the interval of a half reaches twice as far up as down.
    const std::uint16_t wanted = half_bits(dtype, x);
    for (int digits = 0;; ++digits) {
      std::snprintf(text, sizeof text, "%.*e", digits, x);
      const double nearest = std::strtod(text, nullptr),
                   unit = std::pow(10, std::atoi(std::strchr(text, 'e') + 1) - digits);
      if (half_bits(dtype, nearest) == wanted) return text;
      const double other = nearest + (nearest < x ? unit : -unit);
      if (half_bits(dtype, other) != wanted) continue;
      std::snprintf(text, sizeof text, "%.*e", digits, other);
      return text;
    }
  }
  const auto end = dtype == DType::f32
                       ? std::to_chars(text, text + 64, static_cast<float>(x), std::chars_format::scientific)
                       : std::to_chars(text, text + 64, x, std::chars_format::scientific);
  return {text, end.ptr};
}

struct Scientific {
  std::string sign_and_digit, fraction, exponent;  // "-1", "25", "-07"
};
Scientific split(const std::string& text) {
  const std::size_t e = text.find('e'), dot = std::min(text.find('.'), e);
  return {text.substr(0, dot), dot < e ? text.substr(dot + 1, e - dot - 1) : "", text.substr(e + 1)};
}

std::string printed(const char* format, int precision, double x) {
  std::string out(static_cast<std::size_t>(std::snprintf(nullptr, 0, format, precision, x)), '\0');
  std::snprintf(out.data(), out.size() + 1, format, precision, x);
  return out;
}

void trim_zeros(std::string& digits) {
  while (!digits.empty() && digits.back() == '0') digits.pop_back();
}

// At most `precision` digits after the point, without trailing zeros.
Scientific scientific(DType dtype, double x, int precision) {
  Scientific s = split(shortest(dtype, x));
  if (static_cast<int>(s.fraction.size()) > precision) s = split(printed("%.*e", precision, x));
  trim_zeros(s.fraction);
  return s;
}

struct Positional {
  std::string whole, fraction;  // "-1", "25"
};
Positional positional(DType dtype, double x, int precision) {
  const Scientific s = split(shortest(dtype, x));
  const int exponent = std::atoi(s.exponent.c_str());
  const int decimals = std::max(0, static_cast<int>(s.fraction.size()) - exponent);
  if (decimals > precision) {
    const std::string text = printed("%.*f", precision, x);
    Positional p{text.substr(0, text.find('.')), text.substr(text.find('.') + 1)};
    trim_zeros(p.fraction);
    return p;
  }
  const bool negative = s.sign_and_digit[0] == '-';
  std::string digits = s.sign_and_digit.substr(negative) + s.fraction;
  if (exponent < 0) digits.insert(0, static_cast<std::size_t>(-exponent), '0');
  const auto point = static_cast<std::size_t>(std::max(exponent, 0) + 1);
  if (digits.size() < point) digits.append(point - digits.size(), '0');
  Positional p{(negative ? "-" : "") + digits.substr(0, point), digits.substr(point)};
  trim_zeros(p.fraction);
  return p;
}

// Numbers from here on have more digits before the point than the dtype's precision, and get an exponent.
double large(DType dtype, double most) {
  switch (dtype) {
    case DType::f64:
      return most;
    case DType::f32:
      return 1e6;
    case DType::f16:
      return 1e3;
    default:
      return 1e2;
  }
}

const char* not_finite(double x) { return std::isnan(x) ? "nan" : x < 0 ? "-inf" : "inf"; }

// A single number: all its digits.
std::string lone_number(DType dtype, double x) {
  if (!std::isfinite(x)) return not_finite(x);
  const double a = std::abs(x);
  if (a != 0 && (a < 1e-4 || a >= large(dtype, 1e16))) {
    const Scientific s = split(shortest(dtype, x));
    return s.sign_and_digit + (s.fraction.empty() ? "" : "." + s.fraction) + "e" + s.exponent;
  }
  const Positional p = positional(dtype, x, 1000);
  return p.whole + "." + (p.fraction.empty() ? "0" : p.fraction);
}

// ---- many numbers of one width --------------------------------------------------------------------------------------

std::string padded(std::size_t width, const std::string& s) {
  return (s.size() < width ? std::string(width - s.size(), ' ') : "") + s;
}

// Compares in the numbers' own dtype, as NumPy does: 1e-4 in f32 is not less than 1e-4.
double in_dtype(DType dtype, double x) {
  switch (dtype) {
    case DType::f64:
      return x;
    case DType::f32:
      return static_cast<float>(x);
    case DType::f16:
      return to_float(half_from(static_cast<float>(x)));
    default:
      return to_float(bfloat16_from(static_cast<float>(x)));
  }
}

bool needs_exponent(DType dtype, const std::vector<double>& values) {
  double most = 0, least = INFINITY;
  for (double x : values) {
    const double a = std::abs(x);
    if (!std::isfinite(a) || a == 0) continue;
    most = std::max(most, a);
    least = std::min(least, a);
  }
  if (most == 0) return false;
  return most >= large(dtype, 1e8) || least < in_dtype(dtype, 1e-4) || in_dtype(dtype, most / least) > 1000;
}

// Each number has a part before the point, padded on the left, and a part after it, padded on the right.
std::vector<std::string> words_of_floats(DType dtype, const std::vector<double>& values) {
  const bool exponents = needs_exponent(dtype, values);
  std::size_t left = 0, right = 0, fraction = 0, exponent = 0;
  bool minus_infinity = false, all_finite = true, any_finite = false;
  for (double x : values) {
    if (!std::isfinite(x)) {
      all_finite = false;
      minus_infinity = minus_infinity || x < 0;
      continue;
    }
    any_finite = true;
    if (exponents) {
      const Scientific s = scientific(dtype, x, kPrecision);
      left = std::max(left, s.sign_and_digit.size());
      fraction = std::max(fraction, s.fraction.size());
      exponent = std::max(exponent, s.exponent.size());
    } else {
      const Positional p = positional(dtype, x, kPrecision);
      left = std::max(left, p.whole.size());
      right = std::max(right, p.fraction.size());
    }
  }
  if (exponents) right = fraction + 1 + exponent;
  if (!all_finite) {
    const std::size_t longest = minus_infinity ? 4 : 3;
    if (left + right + 1 < longest) left = longest - right - 1;
  }
  const std::size_t width = left + right + 1;

  std::vector<std::string> words;
  for (double x : values) {
    if (!std::isfinite(x)) {
      words.push_back(padded(any_finite ? width : std::max<std::size_t>(width, 3), not_finite(x)));
    } else if (exponents) {
      Scientific s = split(shortest(dtype, x));
      if (s.fraction.size() != fraction) s = split(printed("%.*e", static_cast<int>(fraction), x));
      std::string digits = s.exponent.substr(1);
      if (digits.size() + 1 < exponent) digits.insert(0, exponent - 1 - digits.size(), '0');
      words.push_back(padded(left, s.sign_and_digit) + "." + s.fraction + "e" + s.exponent[0] + digits);
    } else {
      const Positional p = positional(dtype, x, kPrecision);
      words.push_back(padded(left, p.whole) + "." + p.fraction + std::string(right - p.fraction.size(), ' '));
    }
  }
  return words;
}

std::vector<std::string> words_of_integers(const std::vector<std::int64_t>& values, bool boolean) {
  std::vector<std::string> words;
  std::size_t width = 0;
  for (std::int64_t x : values) {
    words.push_back(!boolean ? std::to_string(x) : x ? "True" : "False");
    width = std::max(width, words.back().size());
  }
  if (boolean) width = 5;
  for (std::string& w : words) w = padded(width, w);
  return words;
}

// ---- brackets and lines ---------------------------------------------------------------------------------------------

class Page {
 public:
  explicit Page(const Shape& shape)
      : shape_(shape), strides_(contiguous_strides(shape)), summary_(shape.numel() > kSummaryAbove) {
    collect(0, 0);
  }

  // Positions of the elements that are shown, in their order.
  const std::vector<std::int64_t>& shown() const { return shown_; }

  std::string lay_out(const std::vector<std::string>& words) {
    words_ = &words;
    next_ = 0;
    return block(0, 1, kLineWidth);
  }

 private:
  bool shortened(int axis) const { return summary_ && shape_[axis] > 2 * kEdge; }

  // Calls item() for each shown position of an axis, and gap() where some were left out.
  template <class Item, class Gap>
  void along(int axis, Item item, Gap gap) const {
    const std::int64_t n = shape_[axis];
    for (std::int64_t i = 0; i < n; ++i) {
      if (shortened(axis) && i == kEdge) {
        gap();
        i = n - kEdge;
      }
      item(i);
    }
  }

  void collect(int axis, std::int64_t position) {
    if (axis == shape_.rank()) {
      shown_.push_back(position);
      return;
    }
    along(
        axis, [&](std::int64_t i) { collect(axis + 1, position + i * strides_[axis]); }, [] {});
  }

  std::string block(int axis, int indent, int width) {
    const std::string margin(static_cast<std::size_t>(indent), ' ');
    std::string text;
    if (axis == shape_.rank() - 1) {
      std::string line = margin;
      auto add = [&](const std::string& word) {
        if (static_cast<int>(line.size() + word.size()) > width - 1 && line.size() > margin.size()) {
          text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
          line = margin;
        }
        line += word + " ";
      };
      along(
          axis, [&](std::int64_t) { add((*words_)[next_++]); }, [&] { add("..."); });
      line.pop_back();
      text += line;
    } else {
      const std::string end(static_cast<std::size_t>(shape_.rank() - 1 - axis), '\n');
      bool first = true;
      auto add = [&](const std::string& item) {
        text += (first ? "" : end) + margin + item;
        first = false;
      };
      along(
          axis, [&](std::int64_t) { add(block(axis + 1, indent + 1, width - 1)); }, [&] { add("..."); });
    }
    return "[" + text.substr(margin.size()) + "]";
  }

  Shape shape_;
  Strides strides_;
  bool summary_;
  std::vector<std::int64_t> shown_;
  const std::vector<std::string>* words_ = nullptr;
  std::size_t next_ = 0;
};

template <class T>
std::vector<T> read(const Tensor& t, const std::vector<std::int64_t>& positions) {
  const HostElements elements = host_elements(t);
  std::vector<T> out;
  auto read_as = [&](auto from) {
    const auto* data = reinterpret_cast<const decltype(from)*>(elements.bytes.data());
    for (std::int64_t i : positions) {
      if constexpr (std::is_same_v<decltype(from), Half> || std::is_same_v<decltype(from), BFloat16>) {
        out.push_back(static_cast<T>(to_float(data[i])));
      } else {
        out.push_back(static_cast<T>(data[i]));
      }
    }
  };
  switch (t.dtype()) {
    case DType::f64:
      read_as(double{});
      break;
    case DType::f32:
      read_as(float{});
      break;
    case DType::f16:
      read_as(Half{});
      break;
    case DType::bf16:
      read_as(BFloat16{});
      break;
    case DType::i64:
      read_as(std::int64_t{});
      break;
    case DType::i32:
      read_as(std::int32_t{});
      break;
    case DType::u8:
    case DType::bool_:
      read_as(std::uint8_t{});
      break;
  }
  return out;
}

}  // namespace

std::string Tensor::str() const {
  if (!defined()) return "<no value>";
  if (numel() == 0) return "[]";
  const bool boolean = dtype() == DType::bool_;
  if (rank() == 0) {
    if (is_floating(dtype())) return lone_number(dtype(), read<double>(*this, {0})[0]);
    const std::int64_t x = read<std::int64_t>(*this, {0})[0];
    return !boolean ? std::to_string(x) : x ? "True" : "False";
  }
  Page page(shape());
  return page.lay_out(is_floating(dtype()) ? words_of_floats(dtype(), read<double>(*this, page.shown()))
                                           : words_of_integers(read<std::int64_t>(*this, page.shown()), boolean));
}

std::ostream& operator<<(std::ostream& os, const Tensor& t) { return os << t.str(); }

}  // namespace ebb
