// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <atomic>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "cpu/sweep/accumulate.h"
#include "cpu/sweep/code.h"
#include "cpu/sweep/gather.h"
#include "cpu/tile/elements.h"

namespace ebb::cpu {

// The numbers that are the same everywhere: nearly always a few, which are stored inline.
class Scalars {
 public:
  void resize(std::size_t n) {
    if (n > few_.size()) many_.resize(n);
  }
  std::array<std::byte, 8>& operator[](std::int32_t i) {
    return many_.empty() ? few_[static_cast<std::size_t>(i)] : many_[static_cast<std::size_t>(i)];
  }

 private:
  std::array<std::array<std::byte, 8>, 16> few_{};
  std::vector<std::array<std::byte, 8>> many_;
};

// One run of a sweep: its arguments, the numbers that are the same everywhere, and the results of its tasks.
struct SweepRun {
  const CompiledSweep& s;
  std::span<const Argument> args;
  const TileKernels& k;
  std::int64_t first_row = 0;  // see Run
  Scalars scalars;
  std::vector<std::vector<Accumulator>> totals;  // for each total: one per block (flat), task or row
  std::vector<std::vector<BufferPtr>> columns;   // for each column reduction: one per task (ColumnSums) or all slabs
  bool in_slabs = false;
  Complaint complaint;
  std::atomic<int> in_vain{0};  // consecutive times that guards of loops failed

  const Program& p() const { return s.program; }
  std::byte* operand_data(int operand) const {
    const Operand& o = p().operands[operand];
    return static_cast<std::byte*>(args[o.slot].data) + o.offset * static_cast<std::int64_t>(size_of(o.dtype));
  }

  // Starts `shift` elements further on in memory.
  void load(int operand, RegType type, void* dst, const Layout& layout, std::int64_t first, std::int64_t n,
            std::int64_t shift = 0) const {
    const Operand& o = p().operands[operand];
    const Argument& arg = args[o.slot];
    const std::size_t size = size_of(type);
    auto* out = static_cast<std::byte*>(dst);
    switch (o.kind) {
      case Operand::Kind::memory: {
        const std::byte* data = operand_data(operand);
        const auto bytes = static_cast<std::int64_t>(size_of(o.dtype));
        const LoadFn fn = s.operand_loads[operand];
        if (in_short_pieces(layout, n)) {
          load_pieces(o.dtype, fn, out, size, data + shift * bytes, layout, first, n);
          break;
        }
        walk(layout, first, n, [&](std::int64_t address, std::int64_t stride, std::int64_t count, std::int64_t done) {
          fn(out + done * static_cast<std::int64_t>(size), data + (address + shift) * bytes, stride,
             static_cast<std::size_t>(count));
        });
        break;
      }
      case Operand::Kind::constant: {
        std::array<std::byte, 8> number;
        constant(o, arg, type, number.data());
        k.fill(type, dst, number.data(), static_cast<std::size_t>(n));
        break;
      }
      case Operand::Kind::iota:
        walk(layout, first, n, [&](std::int64_t address, std::int64_t stride, std::int64_t count, std::int64_t done) {
          k.iota(type, out + done * static_cast<std::int64_t>(size),
                 arg.integer + arg.step * (address + shift + o.offset), arg.step * stride, 0,
                 static_cast<std::size_t>(count));
        });
        break;
      case Operand::Kind::random:
        walk(layout, first, n, [&](std::int64_t address, std::int64_t stride, std::int64_t count, std::int64_t done) {
          std::byte* to = out + done * static_cast<std::int64_t>(size);
          address += arg.integer + shift + o.offset;
          if (stride == 1 || count == 1) {
            k.uniform(type, to, arg.seed, arg.operation, address, static_cast<std::size_t>(count));
          } else {
            for (std::int64_t i = 0; i < count; ++i, to += size)
              k.uniform(type, to, arg.seed, arg.operation, address + i * stride, 1);
          }
        });
        break;
    }
  }

  // Gathered unconverted, then converted together.
  static void load_pieces(DType dtype, LoadFn fn, std::byte* out, std::size_t size, const std::byte* data,
                          const Layout& layout, std::int64_t first, std::int64_t n) {
    constexpr std::int64_t kTogether = 512;
    with_element_size(dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      T elements[kTogether];
      for (std::int64_t done = 0; done < n; done += kTogether) {
        const std::int64_t count = std::min(kTogether, n - done);
        gather(elements, reinterpret_cast<const T*>(data), layout, first + done, count);
        fn(out + done * static_cast<std::int64_t>(size), elements, 1, static_cast<std::size_t>(count));
      }
    });
  }

  static void constant(const Operand& o, const Argument& arg, RegType type, void* dst) {
    switch (type) {
      case RegType::f32: {
        float x = static_cast<float>(arg.real);
        if (o.dtype == DType::f16) x = to_float(half_from(x));
        if (o.dtype == DType::bf16) x = to_float(bfloat16_from(x));
        std::memcpy(dst, &x, 4);
        break;
      }
      case RegType::f64:
        std::memcpy(dst, &arg.real, 8);
        break;
      case RegType::i32: {
        const auto x = o.dtype == DType::u8 ? static_cast<std::int32_t>(static_cast<std::uint8_t>(arg.integer))
                                            : static_cast<std::int32_t>(arg.integer);
        std::memcpy(dst, &x, 4);
        break;
      }
      case RegType::i64:
        std::memcpy(dst, &arg.integer, 8);
        break;
      default: {
        const std::int64_t x = arg.integer != 0 || arg.real != 0 ? -1 : 0;
        std::memcpy(dst, &x, size_of(type));
        break;
      }
    }
  }

  std::byte* scalar(std::int32_t instr) { return scalars[s.scalar_of[instr]].data(); }

  void run_scalars() {
    scalars.resize(static_cast<std::size_t>(s.scalars));
    for (const Step& step : s.scalar_steps) {
      const Instr& i = p().instrs[step.instr];
      if (step.kind == Step::Kind::load) {
        load(step.item, i.type, scalar(step.instr), Layout{}, 0, 1);
        continue;
      }
      step.fn(scalar(step.instr), scalar(step.a), step.b >= 0 ? scalar(step.b) : nullptr,
              step.c >= 0 ? scalar(step.c) : nullptr, 1);
      if (step.kind == Step::Kind::check) {
        const std::byte* mask = scalar(step.b);
        if (mask[0] == std::byte{0})
          complaint.add(0, step.instr, check_error(i, "", number_text(i.type, scalar(step.a))));
      }
    }
  }

  std::int64_t column_slabs() const;
  void reduce_slabs(std::int64_t slabs);
  void add_rows_of_totals();
  void finish_columns(std::vector<std::pair<std::int32_t, BufferPtr>>& made);
  void epilogue();
  void go();
};

}  // namespace ebb::cpu
