// SPDX-License-Identifier: MIT
#pragma once
#include <cstring>
#include <optional>
#include <unordered_set>
#include <vector>

#include "backend/backend.h"
#include "schedule/value_key.h"
#include "schedule/values.h"

namespace ebb {

// Makes values of traced nodes, inputs first. Each is simplified by the rules of its class, then merged with an equal
// one if there is one.
class Simplifier {
 public:
  Simplifier(const Trace& trace, const SimplifyOptions& options)
      : t_(trace),
        large_(options.large),
        backend_(options.backend),
        keeps_order_(backend_ && backend_->wants_channels_last(DType::bf16)),
        merged_(64, ValueKeyHash{&g_.values}, ValueKeyEqual{&g_.values}) {}
  ValueGraph run();

 private:
  std::int32_t visit(std::int32_t i);
  std::int32_t leaf(std::int32_t i);
  std::int32_t push(Value v);
  // The value, simplified, merged with an equal one if there is one.
  std::int32_t add(Value v);
  // Constants, ramps and random numbers exist only inside sweeps. Readers that need memory get a copy: one number with
  // strides of zero where it only repeats.
  std::int32_t in_memory(std::int32_t v);
  std::int32_t intern(Value v);
  const Value& at(std::int32_t v) const { return g_.values[v]; }
  // The one number behind a value that repeats it everywhere, -1 for others.
  std::int32_t uniform_source(std::int32_t v) const;
  std::int32_t uniform(std::int32_t source, const Shape& shape);
  bool is_number(std::int32_t v) const { return uniform_source(v) >= 0; }
  std::int32_t literal(double value, DType dtype);

  // ---- simplify_views.cc ----
  std::int32_t add_view(Value v);
  bool widens(const Value& v) const;         // a half to f32
  bool widens_memory(const Value& v) const;  // one from memory: its reader can do so on loading
  std::int32_t widened_after(Value view);    // the view of what is widened, then that
  // Halves that are widened and then joined, or padded with zeros, the other way round; -1: v is none of that.
  std::int32_t widened_when_joined(Value v);
  // The value that all parts of a cat were cut from, if they are that value, whole and in order; -1 otherwise. So
  // gradients of queries, keys and values that a call stored side by side become that of the projection.
  std::int32_t joined_again(const Value& cat);
  // A view of what pad_zero made, as one of its operand: if the view shows no zero, or few elements of a run of zeros;
  // -1: it shows others. So gradients of a diagonal or a slice are not written into a matrix to be read out of it.
  std::int32_t without_zeros(std::int32_t view);
  // Sets where the view's elements are in memory, and whether a sweep can follow it.
  std::int32_t finish_view(Value v);

  // ---- simplify_elementwise.cc ----
  std::int32_t add_elementwise(Value v, bool as_it_lies = false);  // as_it_lies: its order in memory is decided
  // Some y with |y| = |x| to the bit: x without the signs applied to it. So |x| and |−x| are one value, and sigmoid(x),
  // softplus(−x) and the like share one exponential.
  std::int32_t without_sign(std::int32_t x);
  // An elementwise operation on values of the shape and dtype of `like`.
  std::int32_t made(const Value& like, Op op, std::vector<std::int32_t> inputs, bool mask = false);
  // Gradients are full of signs and factors that can move, without changing a bit, to where they cost less: into one
  // number, into the branches of a choice between numbers, from a sum into a difference. -1: none can.
  std::int32_t with_signs_moved(const Value& v);
  // −x
  std::int32_t minus(const Value& v, std::int32_t x);
  // s·x, s one number
  std::int32_t times(const Value& v, std::int32_t s, std::int32_t x);
  // A sum of parts with zeros around them that lie side by side, as the gradients of slices are, is those parts joined;
  // -1: v is no such sum.
  std::int32_t padded_parts(const Value& v);
  // Parts joined, or zeros around them, then rounded to a narrower dtype: the parts are rounded first, as part of what
  // computes them; -1: `cast` is none of that.
  std::int32_t rounded_parts(const Value& cast);
  // Adds the padded parts that x is a sum of; false where it has others, or too many.
  bool collect_padded(std::int32_t x, std::vector<std::int32_t>& parts) const;
  // Where every input only repeats along some dimensions, computes without them and repeats the result.
  std::int32_t without_repeats(const Value& v);
  bool repeats(std::int32_t v, int d) const;

  // ---- simplify_order.cc ----
  // How the elements of [N, C, ...] are stored: in this order, as [N, ..., C], or with other strides.
  enum class Order { usual, channels_last, other };
  Order order_of(std::int32_t v) const;
  std::int32_t permuted(std::int32_t v, const Shape& shape, std::int64_t axes);
  // The same call on channels-last images, seen in the usual shape; -1 if there is none.
  std::int32_t with_channels_last(Value call);
  // Positions and values of the windows' maxima and gradients to them, for channels-last images in their own order; -1:
  // not one of these, or not channels-last.
  std::int32_t pooled_as_it_lies(const Value& v);
  // The sum at places of max_pool_index in planes as a window_spread, in which each element looks at the windows that
  // contain it; -1: v is another, or an element is in too many.
  std::int32_t spread_in_planes(const Value& v);
  // The call of max_pool_index with channels last that this index of planes is, as a whole; -1: it is not.
  std::int32_t places_with_channels_last(std::int32_t index) const;
  // The same operation in the order in which most of its inputs are stored; -1: that is the usual one.
  std::int32_t as_inputs_lie(const Value& v);
  // The same reduction of channels-last values, in their order; -1: they are not. Sums over all but the channels are
  // then sums of columns.
  std::int32_t reduced_as_it_lies(const Value& v);

  // ---- simplify_reduce.cc ----
  std::int32_t add_reduce(Value v);
  std::int32_t squares_about_mean(const Value& v);  // a sum of them, and of the mean's; -1: it is none
  bool is_made_of_sum(std::int32_t m, std::int32_t x, const Value& reduction) const;
  std::int32_t same_along(std::int32_t w, const Value& reduction);

  // ---- simplify_calls.cc ----
  // Merges a loss with a kernel of its own and its gradient, if both are requested, into one call. (Not where the
  // gradient waits for the loss: its cotangent then depends on it.)
  void take_losses_from_gradients();
  // The call that computes only the losses of such a call; -1 if there is none.
  std::int32_t call_for_losses(std::int32_t both);
  // Does v depend on `other`?
  bool needs(std::int32_t v, std::int32_t other) const;

  // ---- simplify_slices.cc ----
  // Positions [start, start + length) of an axis of `whole`, which is not the last one.
  struct RowSlice {
    Shape whole;
    int axis;
    std::int64_t start, length;
    // The slice's size in all dimensions but the last together.
    std::int64_t rows() const {
      std::int64_t n = 1;
      for (int d = 0; d + 1 < whole.rank(); ++d) n *= d == axis ? length : whole[d];
      return n;
    }
  };
  void find_slices_of_products();
  std::int32_t slice_of_product(const Value& narrow);   // as the product of a slice; -1: not such a slice
  std::int32_t product_of_padded(const Value& matmul);  // without the padding; -1: there is none
  std::optional<RowSlice> padded_rows(std::int32_t x, std::int32_t& inside) const;
  std::int32_t sliced_rows(std::int32_t x, const RowSlice& slice);
  std::int32_t reshaped(std::int32_t v, const Shape& shape);
  std::int32_t transposed(std::int32_t v);

  const Trace& t_;
  const std::int64_t large_;                 // bytes of a product that is worth slicing first
  const Backend* const backend_;             // null: not for any device
  const bool keeps_order_;                   // images may be stored channels-last
  std::unordered_set<std::int32_t> slices_;  // traced nodes
  ValueGraph g_;
  std::unordered_set<std::int32_t, ValueKeyHash, ValueKeyEqual> merged_;
};

}  // namespace ebb
