// SPDX-License-Identifier: MIT
// einsum, two operands at a time: every pair is arranged as [batch, left, inner]·[batch, inner, right] and multiplied.
#include <algorithm>
#include <cctype>
#include <functional>

#include "core/format_error.h"
#include "ebb/ops.h"
#include "ops/einsum_terms.h"

namespace ebb {
namespace {

constexpr char kEllipsis[] = "...";

bool contains(const std::string& letters, char c) { return letters.find(c) != std::string::npos; }

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

void require_well_formed(const std::string& equation, const std::string& term) {
  std::string letters = term;
  const std::size_t dots = letters.find(kEllipsis);
  if (dots != std::string::npos) letters.erase(dots, 3);
  for (char c : letters) {
    require(std::isalpha(static_cast<unsigned char>(c)),
            "einsum: '{}' in \"{}\" may hold letters and one ellipsis of three dots", term, equation);
  }
}

// The term with the last `hidden` of these letters in place of its ellipsis: ellipses align at their right ends.
std::string spelled_out(std::string term, const std::string& ellipsis, int hidden) {
  const std::size_t dots = term.find(kEllipsis);
  return dots == std::string::npos ? term : term.replace(dots, 3, ellipsis.substr(ellipsis.size() - hidden));
}

std::string unused_letters(const std::string& equation, int count) {
  std::string letters;
  for (int c = 'A'; c <= 'z' && static_cast<int>(letters.size()) < count; ++c) {
    if (std::isalpha(c) && !contains(equation, static_cast<char>(c))) letters += static_cast<char>(c);
  }
  require(static_cast<int>(letters.size()) == count, "einsum: \"{}\" has too many indices", equation);
  return letters;
}

}  // namespace

EinsumTerms einsum_terms(const std::string& text, const std::vector<Tensor>& operands) {
  std::string equation = text;
  std::erase(equation, ' ');
  const std::size_t arrow = equation.find("->");
  EinsumTerms terms;
  terms.inputs = split_at_commas(equation.substr(0, arrow));
  require(terms.inputs.size() == operands.size(), "einsum: \"{}\" has {} operands, {} were given", text,
          terms.inputs.size(), operands.size());

  // The number of axes each ellipsis hides, and the letters for the longest.
  std::vector<int> hidden;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const std::string& term = terms.inputs[k];
    require_well_formed(text, term);
    const bool ellipsis = term.find(kEllipsis) != std::string::npos;
    hidden.push_back(operands[k].rank() - static_cast<int>(term.size()) + (ellipsis ? 3 : 0));
    require(ellipsis ? hidden[k] >= 0 : hidden[k] == 0, "einsum: '{}' in \"{}\" does not name the axes of shape {}",
            term, text, operands[k].shape());
  }
  const int longest = *std::max_element(hidden.begin(), hidden.end());
  const std::string ellipsis = unused_letters(equation, longest);

  std::map<char, int> count;  // in the order of the alphabet
  for (std::size_t k = 0; k < operands.size(); ++k) {
    terms.inputs[k] = spelled_out(terms.inputs[k], ellipsis, hidden[k]);
    for (int a = 0; a < operands[k].rank(); ++a) {
      const char c = terms.inputs[k][static_cast<std::size_t>(a)];
      const std::int64_t size = operands[k].shape()[a];
      std::int64_t& known = terms.size.emplace(c, 1).first->second;
      if (known == 1) known = size;
      require(size == 1 || size == known, "einsum: sizes {} and {} of one index of \"{}\" differ", known, size, text);
      ++count[c];
    }
  }

  if (arrow != std::string::npos) {
    const std::string output = equation.substr(arrow + 2);
    require_well_formed(text, output);
    terms.output = spelled_out(output, ellipsis, longest);
    for (char c : terms.output) {
      require(terms.size.count(c) && std::count(terms.output.begin(), terms.output.end(), c) == 1,
              "einsum: the output of \"{}\" repeats an index or has one that no operand has", text);
    }
  } else {
    terms.output = ellipsis;
    for (const auto& [c, times] : count) {
      if (times == 1 && !contains(ellipsis, c)) terms.output += c;
    }
  }
  return terms;
}

namespace {

// A tensor and the letters of its axes.
struct Operand {
  Tensor tensor;
  std::string axes;
};

// A letter repeated on one operand means the diagonal of those axes.
Operand take_diagonals(Operand x) {
  for (std::size_t i = 0; i < x.axes.size(); ++i) {
    const std::size_t j = x.axes.find(x.axes[i], i + 1);
    if (j == std::string::npos) continue;
    const char c = x.axes[i];
    x.tensor = diagonal(x.tensor, 0, static_cast<std::int64_t>(i), static_cast<std::int64_t>(j));
    x.axes.erase(j, 1).erase(i, 1).push_back(c);
    return take_diagonals(std::move(x));
  }
  return x;
}

// Sums over the axes of unwanted letters.
Operand keep_only(const Operand& x, const std::function<bool(char)>& wanted) {
  std::vector<std::int64_t> gone;
  std::string kept;
  for (std::size_t i = 0; i < x.axes.size(); ++i) {
    if (wanted(x.axes[i])) {
      kept += x.axes[i];
    } else {
      gone.push_back(static_cast<std::int64_t>(i));
    }
  }
  return gone.empty() ? x : Operand{sum(x.tensor, gone), kept};
}

// Permutes the axes, all of the operand's, into this order.
Tensor arranged(const Operand& x, const std::string& axes) {
  std::vector<std::int64_t> order;
  for (char c : axes) order.push_back(static_cast<std::int64_t>(x.axes.find(c)));
  return order.empty() ? x.tensor : permute(x.tensor, order);
}

// The product of two operands, summed over the indices that are not needed later.
Operand contract(const Operand& a, const Operand& b, const std::map<char, std::int64_t>& size,
                 const std::function<bool(char)>& later) {
  const Operand x = keep_only(a, [&](char c) { return later(c) || contains(b.axes, c); });
  const Operand y = keep_only(b, [&](char c) { return later(c) || contains(a.axes, c); });
  std::string batch, inner, left, right;
  for (char c : x.axes) (!contains(y.axes, c) ? left : later(c) ? batch : inner) += c;
  for (char c : y.axes) {
    if (!contains(x.axes, c)) right += c;
  }
  auto count = [&](const std::string& axes) {
    std::int64_t n = 1;
    for (char c : axes) n *= size.at(c);
    return n;
  };
  const std::string out = batch + left + right;
  std::vector<std::int64_t> out_sizes;
  for (char c : out) out_sizes.push_back(size.at(c));
  const std::int64_t nb = count(batch), nl = count(left), nr = count(right), ni = count(inner);
  const Tensor p = arranged(x, batch + left + inner);
  if (inner.empty() || (left.empty() && right.empty())) {
    // Products element by element, and sums of them along rows, fuse with their neighbours; tiny matmuls would not.
    const Tensor q = reshape(arranged(y, batch + right + inner), {nb, 1, nr, ni});
    const Tensor terms = reshape(p, {nb, nl, 1, ni}) * q;
    return {reshape(inner.empty() ? terms : sum(terms, 3), out_sizes), out};
  }
  const Tensor q = arranged(y, batch + inner + right);
  const Tensor product = batch.empty() ? matmul(reshape(p, {nl, ni}), reshape(q, {ni, nr}))
                                       : matmul(reshape(p, {nb, nl, ni}), reshape(q, {nb, ni, nr}));
  return {reshape(product, out_sizes), out};
}

}  // namespace

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands) {
  require(!operands.empty(), "einsum: no operands were given for \"{}\"", equation);
  const EinsumTerms terms = einsum_terms(equation, operands);
  std::vector<Operand> parts;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    std::vector<std::int64_t> sizes;  // axes of size 1 broadcast
    for (char c : terms.inputs[k]) sizes.push_back(terms.size.at(c));
    parts.push_back(take_diagonals({expand(operands[k], sizes), terms.inputs[k]}));
  }
  Operand result = parts[0];
  for (std::size_t k = 1; k < parts.size(); ++k) {
    result = contract(result, parts[k], terms.size, [&](char c) {
      return contains(terms.output, c) || std::any_of(parts.begin() + static_cast<std::ptrdiff_t>(k) + 1, parts.end(),
                                                      [&](const Operand& x) { return contains(x.axes, c); });
    });
  }
  return arranged(keep_only(result, [&](char c) { return contains(terms.output, c); }), terms.output);
}

}  // namespace ebb
