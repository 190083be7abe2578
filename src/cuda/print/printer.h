#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cuda/print/keep.h"
#include "cuda/print/layout.h"
#include "cuda/print/sweep_text.h"

namespace ebb::cuda {

std::string indented(const std::string& text, const std::string& indent);

// Prints one program. printer.cc has values and memory, leaf.cc neighbours that are computed together, pairs.cc two at
// a time, rare.cc branches, row_leaves.cc where those of a row are, exponentials.cc sums of a softmax, elements.cc,
// rows.cc and columns.cc the kernels.
class Printer {
 public:
  Printer(const Program& program, const GpuLimits& limits, Alignment alignment);
  SweepText run();

 private:
  using Kind = Instr::Kind;

  // What one pass over a line makes.
  struct Pass {
    std::vector<std::int32_t> reductions;  // of the row, and totals
    std::vector<std::int32_t> sums;        // over the rows
    std::vector<std::size_t> outputs;
    std::vector<std::int32_t> checks;
    std::vector<char> needed;             // values of the line, by number
    bool on_chip = false;                 // staged operands are there
    bool takes_row = false;               // into registers
    std::vector<KeptValue> found, keeps;  // values that passes before have left on chip, and those this one leaves
    bool empty() const { return reductions.empty() && sums.empty() && outputs.empty() && checks.empty(); }
  };

  const Instr& instr(std::int32_t v) const { return p_.instrs[static_cast<std::size_t>(v)]; }
  bool in_epilogue(const Instr& i) const;
  bool ends_later() const;
  bool sums_of_columns() const;  // in the epilogue
  std::string counter_begins() const;
  bool is_check(std::int32_t v) const { return instr(v).kind == Kind::compute && instr(v).op == Op::check; }
  static std::string name(std::int32_t v) { return v < 0 ? "" : "v" + std::to_string(v); }

  // Members of Args. Each is there once, however many kernels use it.
  std::string member(const std::string& type, const std::string& name, const Parameter& parameter);
  std::string number(const std::string& name, std::int64_t value);
  std::string bound(const std::string& type, const std::string& name, Parameter::Kind kind, int slot,
                    std::int64_t extra = 0, DType dtype = DType::f32);
  void sizes();

  // Where the element of these strides lies, or how far along one walk; `who` names them.
  std::string coordinates(const Walk& w);
  std::string address(const Strides& strides, const std::string& who, const Walk* only = nullptr);
  std::string pointer(const Operand& o, std::int32_t operand);
  std::string pointer(const Output& o, std::size_t number_of_output);
  std::string aligned(const Strides& strides, DType dtype, const std::string& who);

  std::string load(std::int32_t operand, RegType type);
  bool is_only_added(std::int32_t v) const;
  bool is_quotient_by(std::int32_t v, std::int32_t d) const;
  std::string expression(std::int32_t v);
  std::string define(std::int32_t v, const std::string& expression);
  std::string define(std::int32_t v) { return define(v, expression(v)); }
  std::string check(std::int32_t v, const std::string& position, const std::string& guard = "");
  std::string store(const Output& o, std::size_t number_of_output);
  std::string scalars(bool complaints);

  // Reductions.
  std::string element_type(std::int32_t v) const;
  std::string wide_type(std::int32_t v) const;
  std::string element_of_reduction(std::int32_t v) const;
  std::string nothing(std::int32_t v) const;
  std::string narrowed(std::int32_t v, const std::string& wide) const;
  std::ptrdiff_t total_number(std::int32_t v) const;
  std::ptrdiff_t sum_number(std::int32_t v) const;

  // Neighbours from `leaf` on.
  void need(std::int32_t v, std::vector<char>& needed, const std::vector<KeptValue>& found = {}) const;
  double instructions(const Pass& pass) const;
  std::string leaf(const Pass& pass);
  bool is_power(std::int32_t v) const;
  std::string exponent(std::int32_t v) const;
  std::string logarithm_of_base(const Pass& pass, std::int32_t v) const;

  // Choices whose rare arm is a branch.
  bool is_rare(std::int32_t mask, bool value) const;
  std::vector<std::int32_t> rare_arm(const Pass& pass, std::int32_t v) const;
  std::string define_with_branch(std::int32_t v, const std::vector<std::int32_t>& arm);

  // Neighbours in pairs: how a value of two of them is held.
  struct Form {
    enum class Kind : std::uint8_t {
      one,           // a number for both
      two,           // Two
      both,          // Both: a mask of each
      halves,        // Halves: rounded to `dtype`
      rounded_next,  // not at all: the rounding that follows makes it
    } kind = Kind::one;
    DType dtype = DType::f32;
  };
  std::vector<DType> half_numbers() const;
  bool is_made_of_halves(std::int32_t v, DType& dtype) const;
  bool choose_forms(const Pass& pass);
  std::string as_two(std::int32_t v) const;
  std::string as_halves(std::int32_t v, DType dtype) const;
  std::string define_two(const Pass& pass, std::int32_t v);
  std::string complaints(const Pass& pass, const std::string& coordinates_of_each);
  std::string load_line(std::int32_t operand, bool on_chip);
  std::string staged_chunks(std::int32_t operand) const;
  int staged_chunk_count() const;
  bool tails() const { return layout_.tails && !whole_segment_; }
  std::string live() const { return tails() ? "live" : std::to_string(layout_.width); }
  std::int32_t halves_of_maximum(std::int32_t v) const;
  std::string whole() const;
  std::string position_of(std::int32_t v) const;  // of an element of v, for complaints

  std::string head(const char* kernel, const std::string& bounds) const;
  std::string elements_kernel();
  std::string sums_begin() const;
  std::string sums_end() const;
  std::string rows_kernel();
  std::string columns_kernel();
  std::string finish_kernel();

  // Of rows.
  Pass pass_of(int stage) const;
  std::vector<std::int32_t> roots_of(const Pass& pass) const;
  std::string row_values(int stage);
  std::string pick(std::int32_t v);
  bool placed_by_owner(const Pass& pass) const;
  std::string placed_before(const Pass& pass);
  std::string placed_after(const Pass& pass);
  std::string reductions_begin(const Pass& pass) const;
  std::string row_pass(int stage);
  // What is done with every leaf of a segment and at its end; instructions of an element.
  struct LeafWork {
    std::function<std::string()> body;
    std::string end;
    double instructions = 0;
  };
  std::string over_leaves(const std::vector<LeafWork>& works, bool held_only = false);
  std::string over_short_row(const std::function<std::string()>& make_body, double instructions);
  std::string body_of(const std::function<std::string()>& make_body, bool whole, bool held);
  int written_out(double instructions) const;
  void choose_kept();
  bool may_hold() const;
  bool may_hold_rest() const;
  std::string send_for_next_row();
  bool all_staged() const { return layout_.staged_slots == layout_.slots; }
  // Leaves that have no room on chip are the first of a thread's, in registers.
  bool rest_in_registers() const { return (held_ || holds_rest_) && !all_staged(); }
  std::int64_t held_leaves() const;
  std::string chip_slot() const { return rest_in_registers() ? "slot - unstaged" : "slot"; }
  std::string take_leaf();
  std::string take_row();
  std::string copy_staged(const std::string& ending);
  std::string copy_leaf(const std::string& ending);
  std::string rows_begin(const std::string& ending);
  std::string copy_row();
  std::string row_of(const std::string& first) const;
  std::string next_row();
  std::string row_body();

  // The row's largest number, what is taken from its numbers in its place, and the sum of their exponentials.
  struct Exponentials {
    std::int32_t most = -1, shift = -1, sum = -1;
  };
  bool is_shift(std::int32_t v, std::int32_t most) const;
  std::vector<Exponentials> exponentials_of(int stage) const;
  std::string shift_of(const Exponentials& e, const std::string& most);
  std::string exponentials_pass(int stage, const std::vector<Exponentials>& sums);

  const Program& p_;
  const Layout layout_;
  const Alignment alignment_;
  const std::int32_t n_;
  std::vector<char> coarse_;  // values that are rounded to halves wherever they go
  Keeping keeping_;
  bool held_ = false;        // the first pass takes the row from chip, where the next follows it at once, to registers
  bool holds_rest_ = false;  // what has no room on chip stays in registers, and the rest of the row on chip
  bool in_registers_ = false;  // the leaf may be there
  bool reads_many_ = false;    // elements, of more arrays than the first cache has room for
  int first_pass_ = -1;        // over a row: its stage
  bool in_finish_ = false, in_leaf_ = false;
  std::vector<DType> half_numbers_;
  std::vector<Form> forms_;     // of values of the pass, where it takes neighbours in pairs
  bool whole_segment_ = false;  // no leaf of the warp's is missing or shorter
  bool placing_ = true;         // what is placed is looked for at every element
  SweepText out_;
  std::string fields_;
  std::map<std::string, std::size_t> members_;  // their numbers
  std::map<std::int32_t, int> number_;          // of checks
  std::vector<std::int32_t> totals_, column_sums_;
  std::size_t most_reductions_ = 0;  // of one pass
  int last_pass_ = -1;               // over a row: its stage
  std::string row_step_, row_end_;   // from turn to turn, and the row after the last
};

}  // namespace ebb::cuda
