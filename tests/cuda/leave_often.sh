#!/bin/bash
# SPDX-License-Identifier: MIT
# leave_often.sh PROGRAM [COUNT]: the program `leave` COUNT times (200) with the NVRTC that is found, in every manner, at
# moments of a fixed sequence, on all cores. Prints how the processes ended; fails if one did not end as it meant to.
set -u
export program=$1 EBB_CUDA_CACHE_MB=0
one() {  # NUMBER
  local manners=(main exit throw SIGINT SIGTERM thread started stranger destructor) meant=(0 0 134 130 143 0 0 0 0)
  local k=$(($1 % ${#manners[@]})) microseconds=$(($1 * 7919 % 150 * 1000)) code
  "$program" "${manners[k]}" "$microseconds" >/dev/null 2>&1
  code=$?
  echo "${manners[k]} $code$([ $code = "${meant[k]}" ] || echo " WRONG after $microseconds us")"
}
export -f one
seq 0 $((${2:-200} - 1)) | xargs -P "$(nproc)" -I{} bash -c 'one {}' 2>/dev/null | sort | uniq -c | awk '{ print } /WRONG/ { bad = 1 } END { exit bad }'
