#!/bin/sh
# SPDX-License-Identifier: MIT
# report_skipped.sh FILE: how many tests were skipped, for each reason. The file has lines "reason, tab, test".
[ -s "$1" ] || { echo "No test was skipped."; exit 0; }
awk -F'\t' '{ ++n[$1]; ++all } END { for (r in n) printf "%6d  %s\n", n[r], r; printf "%6d  tests skipped\n", all }' "$1" | sort -n
