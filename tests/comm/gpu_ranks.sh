#!/bin/sh
# SPDX-License-Identifier: MIT
# Ranks on GPUs: tests/comm/gpu_ranks.sh [FOLDER_OF_EBB [FOLDER_OF_TEST_CUDA]]
# Without arguments the programs are those of build/release; with one, both are in that folder.
#   MPIRUN   the launcher, unless it is the mpirun of the PATH        DEVICE=cpu   tries the script where there is no GPU
# NCCL with a communicator of one rank; two ranks that share a GPU by way of the host, as threads and as processes; and one
# process for each GPU where there are several. Losses and weights of all runs are the same to the last bit. One line for
# each part says ok, FAILED or NOT RUN (and why); the exit code is 0 only when all of them were run and good.
set -u
ebb=${1:-build/release/tools/ebb}/ebb
test=${2:-${1:-build/release/tests}}/test_cuda
mpirun=${MPIRUN:-mpirun}
device=${DEVICE:-cuda}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
flags="--oversubscribe"
[ "$(id -u)" = 0 ] && flags="$flags --allow-run-as-root"
settings="--device $device --model cnn --width 8 --train-count 2000 --test-count 200 --batch 64 --steps 60 --eval-every 20
  --shards 8 --clip 1 --workers 0"
bad=0

say() {  # PART RESULT DETAIL...
  part=$1 result=$2
  shift 2
  printf '%-52s %s%s\n' "$part" "$result" "${*:+: $*}"
  [ "$result" = ok ] || bad=1
}

unit() {  # PART TEST: one test of test_cuda
  log=$folder/unit.txt
  EBB_TEST_DEVICE=$device timeout 300 "$test" --gtest_filter="RanksOnGpu.$2" >"$log" 2>&1
  status=$?
  if grep -q '^\[  SKIPPED \] RanksOnGpu' "$log"; then
    say "$1" "NOT RUN" "there is no libnccl.so.2 where the system looks (LD_LIBRARY_PATH)"
  elif [ $status = 0 ] && grep -q '^\[  PASSED  \] 1 test' "$log"; then
    say "$1" ok
  else
    say "$1" FAILED "code $status"
    tail -n 20 "$log"
  fi
}

losses() {  # of a run, step by step
  sed 's/"step":\([0-9]*\),.*"split":"\([a-z]*\)","loss":\([^,}]*\).*/\1 \2 \3/' "$folder/$1/metrics.jsonl"
}

run() {  # PART NAME COMMAND...: a training run, compared with that of one rank
  part=$1 name=$2
  shift 2
  log=$folder/$name.txt
  # shellcheck disable=SC2086
  timeout 300 "$@" "$ebb" train $settings --out "$folder/$name" >"$log" 2>&1
  status=$?
  if [ $status != 0 ]; then
    say "$part" FAILED "code $status"
    tail -n 20 "$log"
    return
  fi
  losses "$name" >"$folder/$name.losses"
  if ! [ -s "$folder/$name.losses" ]; then
    say "$part" FAILED "the run has no losses"
  elif ! cmp "$folder/one.losses" "$folder/$name.losses"; then
    say "$part" FAILED "the losses are not those of one rank"
  elif ! cmp "$folder/one/best.safetensors" "$folder/$name/best.safetensors"; then
    say "$part" FAILED "the weights are not those of one rank"
  else
    say "$part" ok "$(wc -l <"$folder/$name.losses") losses and the weights are those of one rank"
    grep -h waited "$log"
  fi
}

[ "$device" = cuda ] && nvidia-smi -L
[ "$device" = cuda ] && unit "NCCL, a communicator of one rank" NcclMovesWhatAWorldOfOneRankExchanges
[ "$device" = cuda ] && unit "two ranks share a GPU, threads" RanksThatShareItTrainByWayOfTheHost
run "one rank, without a launcher" one env
if command -v "$mpirun" >/dev/null; then
  run "one rank, under mpirun" launched "$mpirun" $flags -n 1
  run "two ranks share a GPU, processes" shared "$mpirun" $flags -n 2
  gpus=$(nvidia-smi -L 2>/dev/null | wc -l)
  if [ "$gpus" -gt 1 ]; then
    run "$gpus ranks, a GPU each (NCCL)" nccl "$mpirun" $flags -n "$gpus" \
      sh -c 'CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK exec "$@"' rank
  fi
else
  say "ranks that are processes" "NOT RUN" "there is no $mpirun (Debian: openmpi-bin; or set MPIRUN)"
fi
exit $bad
