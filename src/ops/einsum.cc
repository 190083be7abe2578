// einsum, two operands at a time: every pair is brought to [batch, left, inner]·[batch, inner, right] and multiplied.
#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <map>

#include "core/format_error.h"
#include "ebb/ops.h"

namespace ebb {
namespace {

// An axis is a letter, or a place in the ellipsis counted from its right end (so that ellipses of different lengths
// broadcast): ellipsis labels are 0, 1, ... and letters their character codes, which are larger than any rank.
using Label = int;
using Labels = std::vector<Label>;

bool contains(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

std::int64_t product_of(const Labels& labels, const std::map<Label, std::int64_t>& size) {
  std::int64_t n = 1;
  for (Label l : labels) n *= size.at(l);
  return n;
}

struct Operand {
  Tensor tensor;
  Labels labels;  // one an axis
};

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
  bool explicit_output = false;
};

Equation parse(const std::string& text) {
  std::string equation;
  std::copy_if(text.begin(), text.end(), std::back_inserter(equation), [](char c) { return c != ' '; });
  Equation e;
  const std::size_t arrow = equation.find("->");
  e.explicit_output = arrow != std::string::npos;
  if (e.explicit_output) e.output = equation.substr(arrow + 2);
  const std::string left = equation.substr(0, arrow);
  std::size_t from = 0;
  for (;;) {
    const std::size_t comma = left.find(',', from);
    e.inputs.push_back(left.substr(from, comma - from));
    if (comma == std::string::npos) break;
    from = comma + 1;
  }
  return e;
}

// "ab...c" with an ellipsis of `hidden` axes.
Labels read_labels(const std::string& equation, const std::string& term, int hidden) {
  Labels labels;
  bool seen = false;
  for (std::size_t k = 0; k < term.size(); ++k) {
    if (term[k] == '.') {
      require(!seen && term.compare(k, 3, "...") == 0,
              "einsum: '{}' in \"{}\" needs at most one ellipsis of three dots", term, equation);
      seen = true;
      for (int h = hidden - 1; h >= 0; --h) labels.push_back(h);
      k += 2;
      continue;
    }
    require(std::isalpha(static_cast<unsigned char>(term[k])), "einsum: '{}' in \"{}\" is not a letter", term[k],
            equation);
    labels.push_back(term[k]);
  }
  return labels;
}

// A label that stands twice on one operand means the diagonal of those axes.
Operand take_diagonals(Operand x) {
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    for (std::size_t j = i + 1; j < x.labels.size(); ++j) {
      if (x.labels[i] != x.labels[j]) continue;
      const Label label = x.labels[i];
      x.tensor = diagonal(x.tensor, 0, static_cast<std::int64_t>(i), static_cast<std::int64_t>(j));
      x.labels.erase(x.labels.begin() + static_cast<std::ptrdiff_t>(j));
      x.labels.erase(x.labels.begin() + static_cast<std::ptrdiff_t>(i));
      x.labels.push_back(label);
      return take_diagonals(std::move(x));
    }
  }
  return x;
}

// Sums over the axes whose label is not wanted.
Operand keep_only(Operand x, const std::function<bool(Label)>& wanted) {
  std::vector<std::int64_t> gone;
  Labels kept;
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    if (wanted(x.labels[i])) {
      kept.push_back(x.labels[i]);
    } else {
      gone.push_back(static_cast<std::int64_t>(i));
    }
  }
  return gone.empty() ? x : Operand{sum(x.tensor, gone), kept};
}

// Axes in the order of `labels`; all of them are the operand's.
Tensor arranged(const Operand& x, const Labels& labels) {
  std::vector<std::int64_t> order;
  for (Label l : labels) order.push_back(std::find(x.labels.begin(), x.labels.end(), l) - x.labels.begin());
  return order.empty() ? x.tensor : permute(x.tensor, order);
}

Labels joined(std::initializer_list<const Labels*> parts) {
  Labels all;
  for (const Labels* part : parts) all.insert(all.end(), part->begin(), part->end());
  return all;
}

Operand contract(const Operand& a, const Operand& b, const std::function<bool(Label)>& later) {
  const Operand x = keep_only(a, [&](Label l) { return later(l) || contains(b.labels, l); });
  const Operand y = keep_only(b, [&](Label l) { return later(l) || contains(a.labels, l); });
  std::map<Label, std::int64_t> size;
  Labels batch, inner, left, right;
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    const Label l = x.labels[i];
    size[l] = x.tensor.shape()[static_cast<int>(i)];
    (!contains(y.labels, l) ? left : later(l) ? batch : inner).push_back(l);
  }
  for (std::size_t i = 0; i < y.labels.size(); ++i) {
    const Label l = y.labels[i];
    size[l] = y.tensor.shape()[static_cast<int>(i)];
    if (!contains(x.labels, l)) right.push_back(l);
  }
  const Labels out = joined({&batch, &left, &right});
  std::vector<std::int64_t> out_sizes;
  for (Label l : out) out_sizes.push_back(size[l]);
  const std::int64_t nb = product_of(batch, size), nl = product_of(left, size), nr = product_of(right, size),
                     ni = product_of(inner, size);
  const Tensor p = reshape(arranged(x, joined({&batch, &left, &inner})), {nb, nl, ni});
  if (inner.empty() || (left.empty() && right.empty())) {
    // Products element by element, and sums of them along rows, fuse with their neighbours; tiny matmuls would not.
    const Tensor q = reshape(arranged(y, joined({&batch, &right, &inner})), {nb, nr, ni});
    const Tensor terms = reshape(p, {nb, nl, 1, ni}) * reshape(q, {nb, 1, nr, ni});
    return {reshape(inner.empty() ? terms : sum(terms, -1), out_sizes), out};
  }
  const Tensor q = reshape(arranged(y, joined({&batch, &inner, &right})), {nb, ni, nr});
  const bool one = batch.empty();  // a plain product of matrices
  const Tensor product = one ? matmul(reshape(p, {nl, ni}), reshape(q, {ni, nr})) : matmul(p, q);
  return {reshape(product, out_sizes), out};
}

}  // namespace

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands) {
  const Equation e = parse(equation);
  require(e.inputs.size() == operands.size() && !operands.empty(), "einsum: \"{}\" has {} operands, {} were given",
          equation, e.inputs.size(), operands.size());

  // Labels of every axis; how often each letter occurs; the size of each label.
  std::vector<Operand> terms;
  std::map<Label, int> count;
  std::map<Label, std::int64_t> size;
  int widest = 0;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Tensor& x = operands[k];
    const int letters =
        static_cast<int>(std::count_if(e.inputs[k].begin(), e.inputs[k].end(), [](char c) { return c != '.'; }));
    const bool ellipsis = e.inputs[k].find('.') != std::string::npos;
    const int hidden = x.rank() - letters;
    require(ellipsis ? hidden >= 0 : hidden == 0, "einsum: '{}' in \"{}\" does not name the axes of shape {}",
            e.inputs[k], equation, x.shape());
    widest = std::max(widest, ellipsis ? hidden : 0);
    const Labels labels = read_labels(equation, e.inputs[k], hidden);
    for (int a = 0; a < x.rank(); ++a) {
      const Label l = labels[static_cast<std::size_t>(a)];
      ++count[l];
      std::int64_t& n = size.emplace(l, 1).first->second;
      if (n == 1) n = x.shape()[a];
      require(x.shape()[a] == 1 || x.shape()[a] == n, "einsum: sizes {} and {} of one index of \"{}\" differ", n,
              x.shape()[a], equation);
    }
    terms.push_back({x, labels});
  }

  Labels output;
  if (e.explicit_output) {
    output = read_labels(equation, e.output, widest);
    for (Label l : output) {
      require(size.count(l) && std::count(output.begin(), output.end(), l) == 1,
              "einsum: the output of \"{}\" repeats an index or has one that no operand has", equation);
    }
  } else {
    for (int h = widest - 1; h >= 0; --h) output.push_back(h);
    for (const auto& [label, times] : count) {
      if (label >= 'A' && times == 1) output.push_back(label);  // in the order of the alphabet
    }
  }

  for (Operand& x : terms) {
    std::vector<std::int64_t> sizes;  // axes of size 1 broadcast
    for (Label l : x.labels) sizes.push_back(size.at(l));
    x.tensor = expand(x.tensor, sizes);
    x = take_diagonals(std::move(x));
  }

  Operand result = terms[0];
  for (std::size_t k = 1; k < terms.size(); ++k) {
    result = contract(result, terms[k], [&](Label l) {
      return contains(output, l) || std::any_of(terms.begin() + static_cast<std::ptrdiff_t>(k) + 1, terms.end(),
                                                [&](const Operand& x) { return contains(x.labels, l); });
    });
  }
  return arranged(keep_only(std::move(result), [&](Label l) { return contains(output, l); }), output);
}

}  // namespace ebb
