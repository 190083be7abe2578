// SPDX-License-Identifier: MIT
// Accuracy of functions: those of one number for all 2³² numbers of f32, on every SIMD target and by loops of machine
// code, and for all numbers of f16 and bf16; those of two numbers for all 2³² pairs of f16 and bf16. Against the C
// library in double precision (exhaustive_reference.h). Prints the tables of docs/accuracy.md.
//
//     ebb_exhaustive                  everything; hours of one core
//     ebb_exhaustive --every 1001     every 1001st number of f32, every 1001st pair of halves
//     ebb_exhaustive exp log          these functions
//     ebb_exhaustive --check          exit code 1 where a bound is exceeded
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "cpu/jit/loop.h"
#include "cpu/tile/kernels.h"
#include "ebb/ebb.h"
#include "exhaustive_reference.h"
#include "graph/node.h"

namespace {

using namespace ebb;

struct Measured {
  Op op;
  double bound;  // of the error in f32, in units in the last place
};
// The bounds of docs/accuracy.md, with a little slack: the sampled test reports when a function gets worse.
constexpr Measured kFunctions[] = {
    {Op::exp, 1},     {Op::exp2, 1},     {Op::expm1, 1},      {Op::log, 1},           {Op::log2, 1},
    {Op::log10, 1},   {Op::log1p, 1},    {Op::log1p_unit, 1}, {Op::sqrt, 0.51},       {Op::rsqrt, 1},
    {Op::cbrt, 0.6},  {Op::sin, 0.6},    {Op::cos, 0.6},      {Op::tan, 0.6},         {Op::asin, 0.6},
    {Op::acos, 0.6},  {Op::atan, 0.6},   {Op::sinh, 1},       {Op::cosh, 1},          {Op::tanh, 1},
    {Op::asinh, 0.6}, {Op::acosh, 0.6},  {Op::atanh, 0.6},    {Op::erf, 1},           {Op::erfc, 1},
    {Op::erfcx, 0.6}, {Op::lgamma, 0.6}, {Op::digamma, 0.6},  {Op::reciprocal, 0.51}, {Op::square, 0.51}};
// For two numbers, in halves.
constexpr Op kPairs[] = {Op::add, Op::sub, Op::mul, Op::div, Op::pow, Op::atan2, Op::hypot};

// One over the distance of two neighbours at |x| among numbers with this many digits and this smallest exponent, as
// std::numeric_limits counts them. From the bits of x, as it is called for 2³² numbers several times.
double per_ulp_at(double x, int digits, int least) {
  const int exponent = static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7ff) - 1022;
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + digits - std::max(exponent, least)) << 52);
}

struct Format {
  const char* name;
  int digits, least;  // as std::numeric_limits counts them
  double largest;
};
constexpr Format kF32{"f32", 24, -125, 0x1.fffffep127}, kF16{"f16", 11, -13, 65504}, kBf16{"bf16", 8, -125, 0x1.fep127};

// In units in the last place. Beyond the largest number infinity is correct, and so is the largest number just below.
double error_of(double got, double exact, const Format& f) {
  const double near = std::fabs(got - exact) * per_ulp_at(exact, f.digits, f.least);
  if (near < 1e6) return near;
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) == std::isnan(got) ? 0 : HUGE_VAL;
  if (got == exact) return 0;
  const double last = 1 / per_ulp_at(f.largest, f.digits, f.least);
  if (std::isinf(got) && std::signbit(got) == std::signbit(exact) && std::fabs(exact) >= f.largest + last / 2) return 0;
  if (std::isinf(got)) got = std::copysign(f.largest + last, got);
  if (std::isinf(exact)) return HUGE_VAL;
  return std::fabs(got - exact) * per_ulp_at(exact, f.digits, f.least);
}

struct Worst {
  double error = 0, at = 0;
  void see(double e, double x) {
    if (e > error) error = e, at = x;
  }
};

// ---- f32 ------------------------------------------------------------------------------------------------------------

constexpr std::size_t kPiece = 1 << 14;

// A piece of the numbers, and the function's results there. Its memory is reused for the next one.
struct Piece {
  void fill(const QuickReference& quick, std::uint64_t first, std::uint64_t every) {
    x.resize(std::min<std::uint64_t>(kPiece, ((std::uint64_t{1} << 32) - first + every - 1) / every));
    wide.resize(x.size());
    about.resize(x.size());
    per_ulp.resize(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(first + i * every));
    for (std::size_t i = 0; i < x.size(); ++i) wide[i] = static_cast<double>(x[i]);
    quick(wide.data(), nullptr, about.data(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) per_ulp[i] = per_ulp_at(about[i], kF32.digits, kF32.least);
  }

  // The worst of these results, if it is not below `least`: only those near it are worth the exact value.
  Worst worst(Op op, const std::vector<float>& got, double least) const {
    Worst w;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double y = static_cast<double>(got[i]), near = std::max(least, w.error) - QuickReference::kSlack;
      if (std::fabs(y - about[i]) * per_ulp[i] < near || error_of(y, about[i], kF32) < near) continue;
      w.see(error_of(y, exact_value(op, wide[i]), kF32), wide[i]);
    }
    return w;
  }

  std::vector<float> x;
  std::vector<double> wide, about, per_ulp;
  std::vector<std::vector<float>> results;  // of each way to compute the function
};

// From 2²⁰ on the trigonometric functions of all targets are those of the C library, number by number: a sixty-fourth
// of these pieces suffices to show that.
bool by_c_library(Op op, std::uint64_t bits) {
  if (op != Op::sin && op != Op::cos && op != Op::tan) return false;
  return std::fabs(std::bit_cast<float>(static_cast<std::uint32_t>(bits))) >= 0x1p20f;
}

// The worst result of each way of computing it: the targets, then machine code if the operation has such a form.
std::vector<Worst> worst_of(Op op, std::uint64_t every) {
  const cpu::TargetList targets = cpu::tile_kernel_targets();
  const std::size_t ways = targets.count + cpu::has_native_form(op, false);
  const std::uint64_t count = ((std::uint64_t{1} << 32) + every - 1) / every;
  const auto pieces = static_cast<std::int64_t>((count + kPiece - 1) / kPiece);
  const QuickReference quick(op);
  std::vector<std::vector<Worst>> by_piece(static_cast<std::size_t>(pieces), std::vector<Worst>(ways));
  std::vector<std::atomic<double>> so_far(ways);  // the largest error of any piece so far
  const auto run = [&](std::int64_t p) {
    const std::uint64_t first = static_cast<std::uint64_t>(p) * kPiece * every;
    if (p % 64 != 0 && every == 1 && by_c_library(op, first)) return;
    thread_local Piece piece;
    piece.fill(quick, first, every);
    piece.results.resize(ways);
    std::vector<double> least(so_far.begin(), so_far.end());
    std::vector<Worst>& worst = by_piece[static_cast<std::size_t>(p)];
    for (std::size_t way = 0; way < ways; ++way) {
      std::vector<float>& got = piece.results[way];
      got.resize(piece.x.size());
      if (way < targets.count) {
        targets.begin_[way]->elementwise(op, RegType::f32, 0)(got.data(), piece.x.data(), nullptr, nullptr, got.size());
      } else {
        const Tensor in = from_data(piece.x, {static_cast<std::int64_t>(piece.x.size())});
        const Tensor out = make_node(op, DType::f32, in.shape(), {in}) * 1.0f;
        std::copy_n(out.data<float>(), got.size(), got.begin());
      }
      // Most ways take the same steps as an earlier one.
      std::size_t same = 0;
      while (same < way && (least[same] > least[way] ||
                            std::memcmp(piece.results[same].data(), got.data(), got.size() * sizeof(float)) != 0)) {
        ++same;
      }
      worst[way] = same < way ? worst[same] : piece.worst(op, got, least[way]);
      while (least[way] < worst[way].error && !so_far[way].compare_exchange_weak(least[way], worst[way].error)) {
      }
    }
  };
  cpu::set_native_loops(cpu::NativeLoops::always);
  parallel_for(pieces, run);
  cpu::set_native_loops(cpu::NativeLoops::for_large_sweeps);
  std::vector<Worst> all(ways);
  for (const std::vector<Worst>& piece : by_piece) {
    for (std::size_t k = 0; k < all.size(); ++k) all[k].see(piece[k].error, piece[k].at);
  }
  return all;
}

bool table_of_f32(const std::vector<Measured>& functions, std::uint64_t every) {
  const cpu::TargetList targets = cpu::tile_kernel_targets();
  std::printf("| function |");
  for (std::size_t t = 0; t < targets.count; ++t) std::printf(" %s | at |", targets.begin_[t]->target);
  std::printf(" machine code | at |\n|---|");
  for (std::size_t t = 0; t <= targets.count; ++t) std::printf("---|---|");
  std::printf("\n");
  bool fine = true;
  for (const Measured& f : functions) {
    const std::vector<Worst> all = worst_of(f.op, every);
    std::printf("| `%s` |", std::string(info(f.op).name).c_str());
    for (std::size_t t = 0; t < all.size(); ++t) {  // after the targets, machine code
      const Worst& w = all[t];
      const std::string target = t < targets.count ? targets.begin_[t]->target : "machine code";
      std::printf(" %.3f | %.9g |", w.error, w.at);
      fine &= w.error <= f.bound;
      if (w.error > f.bound)
        std::fprintf(stderr, "%s errs by %.3f ulp at %.9g on %s\n", info(f.op).name.data(), w.error, w.at,
                     target.c_str());
    }
    if (all.size() == targets.count) std::printf(" | |");
    std::printf("\n");
    std::fflush(stdout);
  }
  return fine;
}

// ---- f16 and bf16 ---------------------------------------------------------------------------------------------------

bool table_of_halves(const std::vector<Measured>& functions) {
  std::printf(
      "\n| function | f16: not correctly rounded | worst | at | bf16: not correctly rounded | worst | at |\n"
      "|---|---|---|---|---|---|---|\n");
  bool fine = true;
  std::vector<std::uint16_t> bits(1 << 16);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  for (const Measured& f : functions) {
    std::printf("| `%s` |", std::string(info(f.op).name).c_str());
    for (const auto& [dtype, format] : {std::pair(DType::f16, kF16), std::pair(DType::bf16, kBf16)}) {
      const Tensor in = from_bytes(bits.data(), dtype, {1 << 16});
      const std::vector<double> x = in.to_vector(), got = make_node(f.op, dtype, in.shape(), {in}).to_vector();
      int wrong = 0;
      Worst worst;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = exact_value(f.op, x[i]), error = error_of(got[i], exact, format);
        wrong += error > 0.5;
        worst.see(error, x[i]);
      }
      std::printf(" %d | %.4f | %.6g |", wrong, worst.error, worst.at);
      // A result in f32 that is an ulp of f32 off is rounded to the wrong neighbour only near the middle of two.
      fine &= worst.error <= 0.5 + 0x1p-8;
      if (worst.error > 0.5 + 0x1p-8)
        std::fprintf(stderr, "%s of %s errs by %.4f ulp at %.9g\n", info(f.op).name.data(), format.name, worst.error,
                     worst.at);
    }
    std::printf("\n");
  }
  return fine;
}

// ---- pairs of f16 and bf16
// --------------------------------------------------------------------------------------------

bool table_of_pairs(const std::vector<Op>& ops, std::uint64_t every) {
  std::printf(
      "\n| function | f16: not correctly rounded | worst | at | bf16: not correctly rounded | worst | at |\n"
      "|---|---|---|---|---|---|---|\n");
  constexpr std::uint64_t kPairsOfPiece = 1 << 18;
  const std::uint64_t count = ((std::uint64_t{1} << 32) + every - 1) / every;
  const auto pieces = static_cast<std::int64_t>((count + kPairsOfPiece - 1) / kPairsOfPiece);
  bool fine = true;
  for (const Op op : ops) {
    const QuickReference quick(op);
    std::printf("| `%s` |", std::string(info(op).name).c_str());
    for (const auto& [dtype, format] : {std::pair(DType::f16, kF16), std::pair(DType::bf16, kBf16)}) {
      struct Found {
        std::uint64_t wrong = 0;
        double error = 0, x = 0, y = 0;
      };
      std::vector<Found> by_piece(static_cast<std::size_t>(pieces));
      parallel_for(pieces, [&, dtype = dtype, format = format](std::int64_t p) {
        std::vector<std::uint16_t> left, right;
        for (std::uint64_t k = 0, pair = static_cast<std::uint64_t>(p) * kPairsOfPiece * every;
             k < kPairsOfPiece && pair < std::uint64_t{1} << 32; ++k, pair += every) {
          left.push_back(static_cast<std::uint16_t>(pair >> 16));
          right.push_back(static_cast<std::uint16_t>(pair));
        }
        const Shape shape{static_cast<std::int64_t>(left.size())};
        const Tensor a = from_bytes(left.data(), dtype, shape), b = from_bytes(right.data(), dtype, shape);
        const std::vector<double> x = a.to_vector(), y = b.to_vector(),
                                  got = make_node(op, dtype, shape, {a, b}).to_vector();
        std::vector<double> about(x.size());
        quick(x.data(), y.data(), about.data(), x.size());
        Found& found = by_piece[static_cast<std::size_t>(p)];
        for (std::size_t i = 0; i < x.size(); ++i) {
          double error = error_of(got[i], about[i], format);
          if (error < std::min(0.5, found.error) - QuickReference::kSlack) continue;
          error = error_of(got[i], exact_value(op, x[i], y[i]), format);
          found.wrong += error > 0.5;
          if (error > found.error) found.error = error, found.x = x[i], found.y = y[i];
        }
      });
      Found all;
      for (const Found& found : by_piece) {
        const std::uint64_t wrong = all.wrong + found.wrong;
        if (found.error > all.error) all = found;
        all.wrong = wrong;
      }
      std::printf(" %llu | %.4f | %.6g, %.6g |", static_cast<unsigned long long>(all.wrong), all.error, all.x, all.y);
      fine &= all.error <= 0.5 + 0x1p-8;
      if (all.error > 0.5 + 0x1p-8)
        std::fprintf(stderr, "%s of %s errs by %.4f ulp at %.9g, %.9g\n", info(op).name.data(), format.name, all.error,
                     all.x, all.y);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  return fine;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t every = 1;
  bool check = false;
  std::vector<Measured> functions;
  std::vector<Op> pairs;
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    if (word == "--check") {
      check = true;
    } else if (word == "--every" && k + 1 < argc) {
      every = std::strtoull(argv[++k], nullptr, 10);
    } else {
      const std::size_t known = functions.size() + pairs.size();
      for (const Measured& f : kFunctions) {
        if (info(f.op).name == word) functions.push_back(f);
      }
      for (const Op op : kPairs) {
        if (info(op).name == word) pairs.push_back(op);
      }
      if (functions.size() + pairs.size() == known) {
        return std::fprintf(stderr, "there is no '%s': ebb_exhaustive [--every N] [--check] [FUNCTION...]\n",
                            word.c_str()),
               2;
      }
    }
  }
  if (every == 0) return std::fprintf(stderr, "--every takes a positive number\n"), 2;
  if (functions.empty() && pairs.empty()) {
    functions.assign(std::begin(kFunctions), std::end(kFunctions));
    pairs.assign(std::begin(kPairs), std::end(kPairs));
  }
  bool fine = true;
  if (!functions.empty()) fine = table_of_f32(functions, every) & table_of_halves(functions);
  if (!pairs.empty()) fine &= table_of_pairs(pairs, every);
  return check && !fine ? 1 : 0;
}
