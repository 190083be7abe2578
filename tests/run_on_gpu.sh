#!/bin/bash
# SPDX-License-Identifier: MIT
# run_on_gpu.sh PROGRAMS LOGS: test programs on the first GPU, then compute-sanitizer over the tests of kernels.
#   TESTS      the programs: test_NAME each                     SANITIZE  the sanitizer's tools, none where empty
#   FILTER     of the tests, as for --gtest_filter              JOBS      processes at a time (all cores)
#   RUNNER     starts the programs: an emulator of another processor; they run on its CPU then
# Most of the time goes into compiling kernels, so every program is divided among several processes. Each writes its log,
# goes on after a failure, and names the test it died in; the last lines say what failed.
set -u
# On a GPU the CPU's instruction sets make no difference: the tests of each are left out but for the best ones.
export programs=$1 logs=$2 RUNNER=${RUNNER-} device=cuda FILTER=${FILTER:-*:-Each/Targets.*/SCALAR:Each/Targets.*/EMU128:Each/Targets.*/SSE4}
[ -z "$RUNNER" ] || device=
jobs=${JOBS:-$(nproc)}
mkdir -p "$logs" && rm -f "$logs"/*.txt
# A random program has kernels of its own, a second of compiling each: 0.15 of them took 75 s of 16 cores.
export EBB_RANDOM_PROGRAMS=${EBB_RANDOM_PROGRAMS:-0.1}
export EBB_CUDA_CACHE_MB=${EBB_CUDA_CACHE_MB:-8192}
export sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
begin=$(date +%s)

shard() {  # NAME SHARD SHARDS
  local log=$logs/$1.$2.txt start=$(date +%s) status running
  EBB_TEST_DEVICE=$device GTEST_TOTAL_SHARDS=$3 GTEST_SHARD_INDEX=$2 $RUNNER "$programs/test_$1" --gtest_filter="$FILTER" >"$log" 2>&1
  status=$?
  running=$(sed -n 's/^\[ RUN      \] //p' "$log" | tail -1)
  [ $status -lt 124 ] || echo "died ($status) in ${running:-no test}" >>"$log"
  echo "$1 $status $(grep -c '^\[       OK' "$log") $(grep -c '^\[  FAILED.*ms)' "$log") $(($(date +%s) - start))" >>"$logs/shards"
}
# Large products are cuBLASLt's kernels, which take minutes under these tools, all products and heads under racecheck, and
# so do tests of thousands of kernels there. A step that fails leaves its results unwritten, and what comes after it reads them
# before the error is thrown: such tests are not for initcheck. Neither are those of products: on Hopper cuBLASLt writes
# through bulk copies, which initcheck does not see. Rows that begin anywhere are loaded in whole words of 16 bytes
# (kernels/parts/packs.cuh), some of which nobody has written: initcheck reports those, in sweeps and add_rows. cuBLAS's trsm, which cuSOLVER calls, has a barrier in a divergent branch
# (trsm_ln_up_kernel of CUDA 13), for which synccheck ends a process.
sanitize() {  # TOOL SHARD SHARDS
  local log=$logs/$1.$2.txt start=$(date +%s) tests='Of/*OnGpu.*/f32:Of/*OnGpu.*/bf16:OnGpu.*'
  tests+='-*TimedProducts*:*ProductsOverManyElements*:OnGpu.IsUsableAfterItsMemoryIsSpent:OnGpu.NamesTheKernel*'
  case $1 in
    initcheck) tests+=':OnGpu.SaysWhatTheCpuSays:OnGpu.ExchangesByWayOfTheHost:*Product*:*Fp8*:*Head*:OnGpu.MultipliesMatrices' ;;
    racecheck) tests+=':*Product*:*Head*:*Cusolver*:OnGpu.MultipliesMatrices:*SameBits*:OnGpu.ScattersLongLines'
               tests+=':OnGpu.RunsEverySweepOfTheTable:OnGpu.AgreesWithTheCpuInLibraryCalls' ;;
    synccheck) tests+=':*Cusolver*:*Factorisations*' ;;
  esac
  GTEST_TOTAL_SHARDS=$3 GTEST_SHARD_INDEX=$2 "$sanitizer" --tool "$1" --error-exitcode 9 "$programs/test_cuda" --gtest_filter="$tests" >"$log" 2>&1
  echo "$1 $? $(grep -c '^\[       OK' "$log") $(grep -c '^\[  FAILED.*ms)' "$log") $(($(date +%s) - start))" >>"$logs/sanitized"
}
export -f shard sanitize
rm -f "$logs/shards" "$logs/sanitized"
{
  for name in $TESTS; do
    count=$($RUNNER "$programs/test_$name" --gtest_list_tests --gtest_filter="$FILTER" 2>/dev/null | grep -c '^  ')
    shards=$(((count + 24) / 25)); [ $shards -lt $((3 * jobs)) ] || shards=$((3 * jobs))
    [ $shards -ge "$jobs" ] || shards=$((count < jobs ? count : jobs))
    for ((i = 0; i < shards; ++i)); do echo "shard $name $i $shards"; done
  done
  for tool in ${SANITIZE-}; do for ((i = 0; i < jobs; ++i)); do echo "sanitize $tool $i $jobs"; done; done
} | xargs -P "$jobs" -I{} bash -c '{}'

sum() { awk -v what="$2" '{ n[$1]++; passed[$1] += $3; failed[$1] += $4; s[$1] += $5; if ($2) bad[$1] = 1 }
  END { for (k in n) printf "%-16s %5d passed %3d failed  %5d s of %d %s%s\n", k, passed[k], failed[k], s[k], n[k], what,
        bad[k] ? "  FAILED" : "" }' "$1" | sort; }
[ -f "$logs/shards" ] && sum "$logs/shards" "processes"
[ -f "$logs/sanitized" ] && sum "$logs/sanitized" "processes"
grep -h '^\[  FAILED.*ms)\|^died' "$logs"/*.txt | sort -u | head -40
cat "$logs"/shards "$logs"/sanitized 2>/dev/null |
  awk -v s=$(($(date +%s) - begin)) '{ passed += $3; if ($2) ++bad }
    END { printf "%d tests passed in %d s; %s\n", passed, s, bad ? bad " processes failed, see their logs" : "all passed"; exit bad > 0 }'
