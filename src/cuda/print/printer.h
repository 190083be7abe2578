// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cuda/plan/passes.h"
#include "cuda/print/arguments.h"
#include "cuda/print/sweep_text.h"

namespace ebb::cuda {

std::string indented(const std::string& text, const std::string& indent);

// The context of a piece of text.
struct Scope {
  bool in_finish = false;     // the kernel `finish`
  bool in_leaf = false;       // operands are packs of neighbours
  bool whole = false;         // no leaf of the warp's segment is missing or shorter
  bool in_registers = false;  // the leaf is of a first round, part of which may be in registers
  bool places = true;         // each element's position is compared with that of the placed value
};

// Prints the kernels of one plan; decides nothing. printer.cc: values and memory; leaf.cc: neighbours together;
// pairs.cc: two at a time; row_leaves.cc: access to a row's leaves; softmax.cc: sums in one pass; the others: kernels.
// elements.cc, rows.cc and columns.cc the kernels.
class Printer {
 public:
  // Adds members of Args to `args`.
  Printer(const Program& program, const KernelPlan& plan, Arguments& args)
      : p_(program), plan_(plan), args_(args), n_(static_cast<std::int32_t>(program.instrs.size())) {}

  struct Kernel {
    std::string name, bounds, body;  // bounds: those of __launch_bounds__
  };
  std::vector<Kernel> kernels() const;

 private:
  using Kind = Instr::Kind;

  const Instr& instr(std::int32_t v) const { return p_.instrs[at(v)]; }
  bool in_epilogue(const Instr& i) const { return cuda::in_epilogue(p_, i); }
  bool is_check(std::int32_t v) const { return cuda::is_check(instr(v)); }
  std::vector<char> needed_by(std::int32_t v) const;
  static std::string name(std::int32_t v) { return v < 0 ? "" : "v" + std::to_string(v); }

  std::string number(const std::string& name, std::int64_t value) const { return args_.number(name, value); }
  std::string bound(const std::string& type, const std::string& name, Parameter::Kind kind, int slot,
                    std::int64_t extra = 0, DType dtype = DType::f32) const;
  void sizes() const;

  // The element with these strides, or the distance along one walk; `who` names them.
  std::string coordinates(const Walk& w) const;
  std::string address(const Scope& scope, const Strides& strides, const std::string& who,
                      const Walk* only = nullptr) const;
  std::string pointer(const Operand& o, std::int32_t operand) const;
  std::string pointer(const Output& o, std::size_t number_of_output) const;
  std::string aligned(const Strides& strides, DType dtype, const std::string& who) const;

  std::string load(const Scope& scope, std::int32_t operand, RegType type) const;
  bool has_random_pack(const Operand& o) const;
  std::string random_numbers(const Scope& scope, std::int32_t operand) const;
  std::string expression(const Scope& scope, std::int32_t v) const;
  std::string define(std::int32_t v, const std::string& expression) const;
  std::string define(const Scope& scope, std::int32_t v) const { return define(v, expression(scope, v)); }
  std::string check(std::int32_t v, const std::string& position, const std::string& guard = "") const;
  std::string store(const Scope& scope, const Output& o, std::size_t number_of_output) const;
  std::string scalars(const Scope& scope, bool complaints) const;

  // Reductions.
  std::string element_type(std::int32_t v) const;
  std::string wide_type(std::int32_t v) const;
  std::string element_of_reduction(std::int32_t v) const;
  std::string nothing(std::int32_t v) const;
  std::string narrowed(std::int32_t v, const std::string& wide) const;
  std::ptrdiff_t total_number(std::int32_t v) const;
  std::ptrdiff_t sum_number(std::int32_t v) const;

  // Neighbours from `leaf` on.
  std::string leaf(const Scope& scope, const PassPlan& pass) const;
  std::string exponent(std::int32_t v) const;
  std::string logarithm_of_base(const PassPlan& pass, std::int32_t v) const;
  std::string define_with_branch(const Scope& scope, const RareArm& arm) const;
  std::string complaints(const Scope& scope, const PassPlan& pass, const std::string& coordinates_of_each) const;
  std::string load_line(const Scope& scope, const PassPlan& pass, std::int32_t operand) const;
  std::string staged_chunks(std::int32_t operand) const;
  bool tails(const Scope& scope) const { return plan_.tails && !scope.whole; }
  std::string live(const Scope& scope) const { return tails(scope) ? "live" : std::to_string(plan_.width); }
  std::string whole(const Scope& scope) const;
  std::string position_of(std::int32_t v) const;  // of an element of v, for error messages

  // Neighbours in pairs.
  static std::string as_two(const PassPlan& pass, std::int32_t v);
  static std::string as_halves(const PassPlan& pass, std::int32_t v, DType dtype);
  std::string define_two(const Scope& scope, const PassPlan& pass, std::int32_t v) const;

  Kernel elements_kernel() const;
  Kernel down_rows_kernel() const;
  Kernel rows_kernel() const;
  std::vector<Kernel> shared_rows_kernels() const;
  std::string shared_pass(int stage) const;  // the leaves of a block, and then what all blocks' sums are
  std::string shared_results(int stage) const;
  std::string end_of_rows() const;
  Kernel columns_kernel() const;
  Kernel finish_kernel() const;
  std::string of_column(const std::string& index) const;
  std::string bounds() const;
  std::string counter_begins() const;
  std::string sums_begin() const;
  std::string sums_end() const;

  // Rows.
  std::string row_values(int stage, bool again = false) const;
  std::string pick(std::int32_t v) const;
  std::string placed_before(const PassPlan& pass) const;
  std::string placed_after(const PassPlan& pass) const;
  std::string reductions_begin(const PassPlan& pass) const;
  std::string over_groups_of_segments(const std::string& text) const;
  std::string row_pass(int stage) const;
  std::string chunk_end() const;
  std::string parts_of(int stage, std::size_t reduction) const;  // sums of segments
  std::string softmax_pass(int stage) const;
  std::string softmax_leaves(int stage) const;
  std::string softmax_results(int stage) const;
  std::string shift_of(const SoftmaxSum& e, const std::string& most) const;
  std::string place_of_largest(const SoftmaxSum& e, std::size_t most, std::size_t free) const;
  std::string row_body() const;
  std::string row_step() const;  // from one row of the block to its next
  std::string row_end() const;   // the row after the last

  // The text of every leaf of a segment and of its end; leaves that are unrolled.
  using LeafBody = std::function<std::string(const Scope&)>;
  struct LeafWork {
    LeafBody body;
    std::string end;
    int unroll = kLeaves;
  };
  enum class Leaves : std::uint8_t {
    all,         // a first round has its own code where it is in registers
    held,        // only those of that round
    one_by_one,  // all, in a loop
  };
  std::string over_leaves(const std::vector<LeafWork>& works, Leaves which = Leaves::all) const;
  std::string over_short_row(const LeafBody& body, int unroll) const;
  std::string chip_slot() const { return plan_.rest_in_registers() ? "slot - unstaged" : "slot"; }
  std::string take_leaf(const Scope& scope) const;
  std::string read_staged(const Scope& scope, std::int32_t operand) const;
  std::string take_row() const;
  std::string copy_staged(const Scope& scope, const std::string& ending) const;
  std::string copy_next(const Scope& scope) const;
  std::string copy_leaf(const std::string& ending) const;
  std::string rows_begin(const std::string& ending) const;
  std::string copy_row() const;
  std::string row_of(const std::string& first) const;
  std::string next_row() const;
  std::string send_for_next_row() const;

  const Program& p_;
  const KernelPlan& plan_;
  Arguments& args_;
  const std::int32_t n_;
};

}  // namespace ebb::cuda
