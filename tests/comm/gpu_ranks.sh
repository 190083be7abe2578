#!/bin/sh
# Ranks on GPUs: tests/comm/gpu_ranks.sh build/release
# One rank, two that share a GPU (by way of the host), and one for each GPU where there are several (NCCL): the losses
# of their runs are the same to the last digit.
set -e
build=${1:-build/release}
ebb=$build/tools/ebb/ebb
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mpirun="mpirun --oversubscribe"
[ "$(id -u)" = 0 ] && mpirun="$mpirun --allow-run-as-root"
settings="--device cuda --model cnn --width 8 --train-count 2000 --test-count 200 --batch 64 --steps 60 --eval-every 20
  --shards 8 --clip 1 --workers 0"

losses() {  # of a run, step by step
  sed 's/"step":\([0-9]*\),.*"split":"\([a-z]*\)","loss":\([^,}]*\).*/\1 \2 \3/' "$folder/$1/metrics.jsonl"
}
compare() {
  losses "$1" >"$folder/$1.losses"
  [ -s "$folder/$1.losses" ] && cmp "$folder/1.losses" "$folder/$1.losses" && echo "$1: the losses of one rank"
}

EBB_TEST_DEVICE=cuda "$build/tests/test_cuda" --gtest_filter='RanksOnGpu*'
# shellcheck disable=SC2086
$ebb train $settings --out "$folder/1" >/dev/null
losses 1 >"$folder/1.losses"
# shellcheck disable=SC2086
$mpirun -n 2 "$ebb" train $settings --out "$folder/shared" | grep waited
compare shared
gpus=$(nvidia-smi -L | wc -l)
if [ "$gpus" -gt 1 ]; then
  # shellcheck disable=SC2086
  $mpirun -n "$gpus" sh -c 'CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK exec "$@"' rank \
    "$ebb" train $settings --out "$folder/nccl" | grep waited
  compare nccl
fi
