// SPDX-License-Identifier: MIT
// Slices of the rows of a large product become slices of its factor: z[:, :-1] of z = x·W, as in the loss of a shifted
// language model, is x[:, :-1]·W. Rows that are never read are then not computed, and the product can be computed in
// strips. The gradient comes back with zeros in those rows (pad_zero), which leave the products likewise:
//   pad(g)·W = pad(g·W)        pad(g)ᵀ·x = gᵀ·x[:, :-1]
#include <optional>

#include "schedule/simplifier.h"

namespace ebb {
namespace {

bool takes_each(const Attrs& narrow) { return narrow.i[2] == 1; }

}  // namespace

// Finds the slices of large products that are only read through equal slices.
void Simplifier::find_slices_of_products() {
  const auto n = static_cast<std::int32_t>(t_.nodes.size());
  const auto is_large = [&](std::int32_t i) {
    const Node& x = *t_.nodes[i];
    return !t_.is_leaf(i) && x.op == Op::matmul && x.shape.rank() == 2 &&
           x.shape.numel() * static_cast<std::int64_t>(size_of(x.dtype)) >= large_;
  };
  std::vector<std::int32_t> product_of(t_.nodes.size(), -1);  // of products and reshaped ones
  std::vector<char> otherwise(t_.nodes.size(), 0);            // products with other readers
  std::vector<std::vector<std::int32_t>> slices(t_.nodes.size());
  for (std::int32_t i = 0; i < n; ++i) {
    if (is_large(i)) product_of[i] = i;
    for (std::int32_t in : t_.inputs_of(i)) {
      const std::int32_t product = product_of[in];
      if (product < 0) continue;
      const Node& x = *t_.nodes[i];
      if (x.op == Op::reshape) {
        product_of[i] = product;
      } else if (x.op == Op::narrow && takes_each(x.attrs)) {
        slices[product].push_back(i);
      } else {
        otherwise[product] = 1;
      }
    }
  }
  for (std::int32_t r : t_.roots) {
    if (product_of[r] >= 0) otherwise[product_of[r]] = 1;
  }
  for (std::int32_t i = 0; i < n; ++i) {
    if (slices[i].empty() || otherwise[i]) continue;
    const Node& first = *t_.nodes[slices[i][0]];
    bool same = true;
    for (std::int32_t s : slices[i]) {
      const Node& other = *t_.nodes[s];
      same &= other.shape == first.shape && other.attrs == first.attrs &&
              t_.nodes[t_.inputs_of(s)[0]]->shape == t_.nodes[t_.inputs_of(slices[i][0])[0]]->shape;
    }
    if (same) slices_.insert(slices[i].begin(), slices[i].end());
  }
}

std::int32_t Simplifier::reshaped(std::int32_t v, const Shape& shape) {
  if (at(v).shape == shape) return v;
  Value r;
  r.op = Op::reshape;
  r.dtype = at(v).dtype;
  r.shape = shape;
  r.inputs = {v};
  return add_view(std::move(r));
}

std::int32_t Simplifier::transposed(std::int32_t v) {
  Value p;
  p.op = Op::permute;
  p.dtype = at(v).dtype;
  p.shape = Shape{at(v).shape[1], at(v).shape[0]};
  p.attrs.i[0] = pack_axes(std::vector<int>{1, 0});
  p.inputs = {v};
  return add_view(std::move(p));
}

// The same slice of x [R, K], whose rows are all but the last dimension of `whole`.
std::int32_t Simplifier::sliced_rows(std::int32_t x, const RowSlice& slice) {
  const std::int64_t width = at(x).shape[1];
  const Shape full = slice.whole.with(slice.whole.rank() - 1, width);
  Value n;
  n.op = Op::narrow;
  n.dtype = at(x).dtype;
  n.shape = full.with(slice.axis, slice.length);
  n.attrs.i = {slice.axis, slice.start, 1, 0};
  n.inputs = {reshaped(x, full)};
  return reshaped(add_view(std::move(n)), Shape{slice.rows(), width});
}

std::int32_t Simplifier::slice_of_product(const Value& narrow) {
  if (!slices_.contains(narrow.node)) return -1;
  std::int32_t z = narrow.inputs[0];
  const RowSlice slice{at(z).shape, static_cast<int>(narrow.attrs.i[0]), narrow.attrs.i[1],
                       narrow.shape[static_cast<int>(narrow.attrs.i[0])]};
  if (at(z).op == Op::reshape) z = at(z).inputs[0];
  Value product = at(z);
  const int last = slice.whole.rank() - 1;
  if (product.op != Op::matmul || product.is_leaf || product.inputs.size() != 2 || product.shape.rank() != 2) return -1;
  if (slice.axis >= last || slice.whole[last] != product.shape[1]) return -1;
  const Shape shape = narrow.shape;
  product.inputs[0] = sliced_rows(product.inputs[0], slice);
  product.shape = Shape{slice.rows(), product.shape[1]};
  return reshaped(intern(std::move(product)), shape);
}

// x [R, V] is a large matrix with zeros in rows outside of a slice. `inside` is the slice's content.
std::optional<Simplifier::RowSlice> Simplifier::padded_rows(std::int32_t x, std::int32_t& inside) const {
  const Shape seen = at(x).shape;
  if (at(x).op == Op::reshape) x = at(x).inputs[0];
  const Value& p = at(x);
  if (p.op != Op::pad_zero || p.is_leaf || p.shape.numel() * static_cast<std::int64_t>(size_of(p.dtype)) < large_)
    return std::nullopt;
  inside = p.inputs[0];
  const auto axis = static_cast<int>(p.attrs.i[0]);
  const RowSlice slice{p.shape, axis, p.attrs.i[1], at(inside).shape[axis]};
  const int last = p.shape.rank() - 1;
  if (axis >= last || seen.rank() != 2 || p.shape[last] != seen[1]) return std::nullopt;
  return slice;
}

std::int32_t Simplifier::product_of_padded(const Value& v) {
  if (v.op != Op::matmul || v.inputs.size() != 2 || v.shape.rank() != 2 || v.is_unique) return -1;
  const std::int32_t a = v.inputs[0], b = v.inputs[1];
  std::int32_t inside = -1;
  Value product = v;
  if (const auto slice = padded_rows(a, inside)) {
    const Shape padded = slice->whole.with(slice->whole.rank() - 1, v.shape[1]);
    Value pad;
    pad.op = Op::pad_zero;
    pad.dtype = v.dtype;
    pad.shape = padded;
    pad.attrs.i = {slice->axis, slice->start, slice->whole[slice->axis] - slice->start - slice->length, 0};
    pad.node = v.node;
    product.shape = Shape{slice->rows(), v.shape[1]};
    product.inputs[0] = reshaped(inside, Shape{slice->rows(), at(a).shape[1]});
    pad.inputs = {reshaped(intern(std::move(product)), padded.with(slice->axis, slice->length))};
    return reshaped(intern(std::move(pad)), v.shape);
  }
  const bool crossed = at(a).op == Op::permute;
  if (const auto slice = crossed ? padded_rows(at(a).inputs[0], inside) : std::nullopt) {
    product.inputs = {transposed(reshaped(inside, Shape{slice->rows(), at(a).shape[0]})), sliced_rows(b, *slice)};
    return intern(std::move(product));
  }
  if (const auto slice = padded_rows(b, inside)) {
    const std::int32_t left = sliced_rows(crossed ? at(a).inputs[0] : transposed(a), *slice);
    product.inputs = {transposed(left), reshaped(inside, Shape{slice->rows(), at(b).shape[1]})};
    return intern(std::move(product));
  }
  return -1;
}

}  // namespace ebb
