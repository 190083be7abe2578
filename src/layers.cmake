# SPDX-License-Identifier: MIT
# The folders of src, each with the folders it may include from besides its own: a graph without cycles, written from the
# bottom up. The build makes a target of each folder, and a test holds every #include to this list.
# Nothing above `schedule` knows a device, and the devices do not know each other.
set(EBB_LAYERS
  "core:"
  "graph: core"
  "calls: core graph"
  "sweep: core graph"
  "backend: core graph sweep"
  "cpu/model:"
  "cpu/tile: core graph sweep"
  "cpu/jit: core graph sweep cpu/tile"
  "cpu/sweep: core graph sweep backend cpu/model cpu/tile cpu/jit"
  "cpu/gemm: core graph cpu/model cpu/tile"
  "cpu/library: core graph calls backend cpu/model cpu/tile cpu/gemm"
  "cpu/window: core graph calls backend cpu/model cpu/tile cpu/library"
  "cpu/fused: core graph calls backend cpu/model cpu/tile cpu/gemm cpu/library"
  "cpu: core graph sweep backend cpu/model cpu/sweep cpu/gemm cpu/library cpu/window cpu/fused"
  "cuda/kernels/args:"
  "cuda/kernels/parts: cuda/kernels/args"
  "cuda/kernels: cuda/kernels/args cuda/kernels/parts"
  "cuda/plan: core graph sweep cuda/kernels/args"
  "cuda/print: core graph sweep cuda/kernels cuda/kernels/args cuda/plan"
  "cuda/runtime: core graph sweep backend cuda/kernels cuda/kernels/args cuda/plan cuda/print"
  "cuda/library: core graph calls backend cuda/kernels cuda/kernels/args cuda/print cuda/runtime"
  "cuda: core graph sweep backend cuda/plan cuda/print cuda/runtime cuda/library"
  "schedule: core graph calls sweep backend cpu cuda"
  "ops: core graph calls"
  "autograd: core graph calls backend ops"
  "losses: core graph calls backend ops autograd"
  "nn: core graph ops autograd"
  "optim: core graph ops"
  "io: core graph"
  "data: core graph io"
  "models: core io"
  "comm: core graph backend ops autograd io"
  "doctor: core cpu/tile cuda cuda/runtime cuda/library comm"
)

# What stands on the library, outside of src: the folders of it that each includes from, beside the public headers.
set(EBB_USERS
  "python/src: backend comm core cuda cuda/library cuda/runtime doctor graph losses ops"
  "tools/cases: graph ops sweep"
  "tools/ebb: cases comm core cuda data doctor graph io"
)
