#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs the fuzzers: fuzz/run.sh PROGRAM OUT, with the seeds and dictionaries beside this script. What is found is left in
# OUT/found, new inputs in OUT/corpus, executions per target in OUT/table.txt. In the environment:
#   TARGETS  some of them                       TIME   seconds per process (60)
#   RUNS     inputs per parser, instead of TIME  GRAPHS  inputs of the target graph (as many as fit)
#   RUNS_csv ...  of one parser, where RUNS is set, too
#   JOBS     processes at a time (1)             LIMIT  seconds for everything
#   SEED     another number for other inputs
# With RUNS a target is divided into several processes with seeds of their own, so that all cores have work to the end.
set -u
program=$(realpath "$1") out=$2 here=$(dirname "$(realpath "$0")")
jobs=${JOBS:-1} targets=${TARGETS:-$(ls "$here/corpus")}
end=$((SECONDS + ${LIMIT:-1000000}))
mkdir -p "$out/found" "$out/corpus" "$out/log"
out=$(realpath "$out")
# Stacks of allocations are for whoever reproduces a finding: they cost a third of the time.
export ASAN_OPTIONS=malloc_context_size=1:quarantine_size_mb=8:detect_leaks=${LEAKS:-0}:${ASAN_OPTIONS:-}

# The longest input, and into how many processes RUNS inputs are divided: slow ones into more.
declare -A longest=([byte_pairs]=256 [checkpoint]=1024 [cifar]=8192 [csv]=512 [einsum]=64 [graph]=160 [idx]=1024 [image]=4096
                    [kernel_cache]=1024 [npy]=2048 [npz]=4096 [safetensors]=2048 [settings]=512 [tokenizer]=2048)
declare -A parts=([byte_pairs]=16 [checkpoint]=16 [settings]=16 [einsum]=8 [safetensors]=8 [tokenizer]=8 [graph]=$jobs)

# One process, started again with another seed after a finding.
run_part() {  # target, number of the part, inputs (-1: any number)
  local target=$1 part=$2 left=$3 name=$1-$2 time done_ dict=() seeds=()
  [ -f "$here/$target.dict" ] && dict=(-dict="$here/$target.dict")
  for folder in "$here/corpus/$target" "$here/more/$target"; do [ -d "$folder" ] && seeds+=("$folder"); done
  mkdir -p "$out/corpus/$name"
  for try in 1 2 3 4 5; do
    time=$((end - SECONDS))
    [ -z "${RUNS:-}" ] && [ "$time" -gt "${TIME:-60}" ] && time=${TIME:-60}
    [ "$time" -lt 2 ] && return
    EBB_FUZZ=$target "$program" -runs="$left" -max_total_time="$time" -seed="$((${SEED:-0} * 100000 + 1000 * try + part))" -entropic=0 \
      -max_len="${longest[$target]:-4096}" -malloc_limit_mb=512 -timeout=20 -print_final_stats=1 -print_funcs=0 -reload=0 \
      -artifact_prefix="$out/found/$target-" "${dict[@]}" "$out/corpus/$name" "${seeds[@]}" \
      >"$out/log/$name-$try" 2>&1 && return
    done_=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out/log/$name-$try")
    [ "$left" -ge 0 ] && left=$((left - ${done_:-0})) && [ "$left" -le 0 ] && return
  done
}

# The queue: some graphs from the start on, parsers in turns, then graphs with whatever time is left.
queue=() graphs=()
for part in $(seq 1 64); do
  for target in $targets; do
    n=1
    [ -n "${RUNS:-}" ] && n=${parts[$target]:-4}
    [ "$part" -gt "$n" ] && continue
    if [ "$target" = graph ]; then
      graphs+=("graph $part $(( ${GRAPHS:-0} > 0 ? GRAPHS / n : -1 ))")
    else
      own=RUNS_$target
      runs=${!own:-${RUNS:-0}}
      queue+=("$target $part $(( runs > 0 ? (runs + n - 1) / n : -1 ))")
    fi
  done
done
first=$(( ${#graphs[@]} > 1 ? jobs / 4 : 1 ))
queue=("${graphs[@]:0:first}" "${queue[@]}" "${graphs[@]:first}")

for job in "${queue[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  [ "$SECONDS" -ge "$end" ] && break
  started=$SECONDS
  { run_part $job; echo "$job" $((SECONDS - started)) >>"$out/log/seconds"; } &
done
wait

{
  printf '%-14s %14s %14s %9s %9s\n' target executions 'core seconds' per_second findings
  for target in $targets; do
    executions=$(cat "$out"/log/"$target"-[0-9]* 2>/dev/null | awk '/^stat::number_of_executed_units/ { n += $2 } END { print n + 0 }')
    seconds=$(awk -v t="$target" '$1 == t { s += $4 } END { print s + 0 }' "$out/log/seconds")
    printf '%-14s %14s %14s %9s %9s\n' "$target" "$executions" "$seconds" \
      $((executions / (seconds > 0 ? seconds : 1))) "$(ls "$out/found" | grep -c "^$target-")"
  done
} | tee "$out/table.txt"
[ -z "$(ls "$out/found")" ]
