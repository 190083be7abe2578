// SPDX-License-Identifier: MIT
#pragma once
#include "cuda/kernels/parts/prelude.cuh"

namespace ebb::cuda {

// f64 to a half by way of f32 could round twice; a number rounded to odd in between rounds as if once.
// That is: cut off, with the last bit set where anything was. Of a normal number 29 bits are cut off, of others more;
// conversions between f32 and f64 are rare units' work, so that the second one is made for those alone.
EBB f32 to_odd(f64 x) {
  const f32 cut = __double2float_rz(x);
  const u32 bits = __float_as_uint(cut);
  bool rest = (u32)bits_of(x) << 3 != 0;
  if (bits << 1 < 0x01000000u && x != 0) rest = (f64)cut != x;
  return __uint_as_float(bits | (rest ? 1u : 0u));
}

}  // namespace ebb::cuda
