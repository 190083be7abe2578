#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# inside_pytorch.sh [SECTION...]: what ebb.torch takes on a GPU beside PyTorch:
#   log_probs    8192 x 4096 x 151936 bf16: linear_log_probs in units of the products, its error against f64
#   formulas     DPO, KTO and every loss_type of TRL's GRPO by linear_loss, in units of the products
#   llama        a step of a Llama with 4 layers and 4 x 4096 tokens: plain, patched, both compiled, in turns
#   lengths      how often 20 sequence lengths compile
#   cuda         ebb.torch beside PyTorch on this GPU: values, gradients, streams, graphs, f16 with a GradScaler
#   peers        linear_cross_entropy beside PyTorch's, torch.compile's, Liger's, CCE's and QuACK's
# All of them where none is named. Run from anywhere; one section at a time, each with its own limit, and a failure ends none but itself.
#
# The machine needs a python3 with PyTorch for CUDA; `llama` and `lengths` need transformers. Where there is no network:
#
#   there, before anything else     tools/elsewhere/there.sh build ebb_package
#   here, into a folder to copy     python3 -m pip download --only-binary :all: --python-version 3.12 --platform manylinux_2_28_x86_64 \
#                                     --platform manylinux2014_x86_64 --no-deps -d WHEELS transformers tokenizers safetensors regex \
#                                     huggingface_hub hf_xet httpx httpcore h11 anyio idna certifi tqdm pyyaml packaging filelock fsspec
#
#   WHEELS=FOLDER     installs these first      PACKAGE=FOLDER   the package ebb (build/there's, then build/release's)
#   OUT=FOLDER        where the output is kept too      LIMIT=300        seconds for a section
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
out=${OUT:-build/inside_pytorch}
mkdir -p "$out"
[ -z "${WHEELS-}" ] || python3 -m pip install --quiet --no-index --no-deps --find-links "$WHEELS" "$WHEELS"/*.whl || exit
package=build/release/python/package
[ ! -d build/there/python/package ] || package=build/there/python/package
export PYTHONPATH=${PACKAGE:-$package} PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
python3 -c 'import torch, ebb.torch; print(torch.__version__, torch.cuda.get_device_name())' || exit

failed=()
for section in "${@:-log_probs formulas llama lengths cuda peers}"; do
  for name in $section; do
    case $name in
      log_probs | formulas | llama | lengths) program=(bench/linear_heads.py "$name") ;;
      cuda) program=(python/parity/torch_cuda.py) ;;
      peers) program=(bench/compare_gpu.py --suite linear_ce --json "$out/linear_ce.json") ;;
      *) echo "inside_pytorch.sh: $name is not a section"; exit 1 ;;
    esac
    echo "==== $name, $(date -u +%T)"
    timeout --kill-after 5 "${LIMIT:-300}" python3 "${program[@]}" 2>&1 | tee "$out/$name.txt" || failed+=("$name")
  done
done
[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
