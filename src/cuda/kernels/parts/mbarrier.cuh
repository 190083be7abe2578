// SPDX-License-Identifier: MIT
// Barriers in shared memory that count arrivals and bytes of copies, and the copies of tiles that arrive there
// (Hopper).
#pragma once
#include "cuda/kernels/args/tensor_map.h"
#include "cuda/kernels/parts/prelude.cuh"

namespace ebb::cuda {

#ifdef __CUDACC_RTC__
EBB void mbarrier_init(u32 barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
EBB void mbarrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
EBB void mbarrier_wait(u32 barrier, int phase) {
  asm volatile(
      "{\n.reg .pred p;\nagain: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra done;\nbra again;\ndone:\n}" ::"r"(barrier),
      "r"(phase)
      : "memory");
}
EBB void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
EBB void mbarriers_are_made() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// Registers of each thread of the warpgroup, more or fewer than those of the launch.
template <int count>
EBB void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
EBB void leave_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
#endif

}  // namespace ebb::cuda
