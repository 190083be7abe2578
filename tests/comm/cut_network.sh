#!/bin/bash
# SPDX-License-Identifier: MIT
# Cuts the network between two hosts, which are network namespaces of this machine, while four ranks compute.
#   tests/comm/cut_network.sh build/release/tests/comm_worker [SECONDS]     (needs root, ip and Open MPI)
# All ranks must end within ten seconds with an error that names a rank on the other side. SECONDS: how long they compute
# before the cut.
set -u
worker=$(realpath "$1")
folder=$(mktemp -d)
clean() {
  for side in a b; do
    ip netns pids ebb-$side 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip netns delete ebb-$side 2>/dev/null
  done
  rm -rf "$folder"
}
trap clean EXIT
clean; mkdir -p "$folder"

ip netns add ebb-a && ip netns add ebb-b && ip link add ebb-va netns ebb-a type veth peer name ebb-vb netns ebb-b || exit 2
for side in a b; do
  ip -n ebb-$side link set lo up
  ip -n ebb-$side addr add 10.77.0.$([ $side = a ] && echo 1 || echo 2)/24 dev ebb-v$side
  ip -n ebb-$side link set ebb-v$side up
done
# In place of ssh: AGENT HOST COMMAND...
cat > "$folder/agent" <<'AGENT'
#!/bin/bash
shift
exec ip netns exec ebb-b unshare --uts bash -c "hostname ebb-b && $*"
AGENT
chmod +x "$folder/agent"
export OMPI_MCA_plm_rsh_agent=$folder/agent OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_tcp_if_include=10.77.0.0/24 OMPI_MCA_oob_tcp_if_include=10.77.0.0/24 OMPI_MCA_btl=tcp,vader,self
ip netns exec ebb-a unshare --uts bash -c "hostname ebb-a && exec mpirun --host ebb-a:2,ebb-b:2 -n 4 $worker forever" \
  > "$folder/out" 2> "$folder/err" &
mpirun=$!
for _ in $(seq 150); do
  [ "$(grep -c ^pid "$folder/out")" = 4 ] && break
  sleep 0.2
done
if [ "$(grep -c ^pid "$folder/out")" != 4 ]; then
  echo "the ranks did not begin:"; cat "$folder/out" "$folder/err"; exit 1
fi
ranks=$(awk '$1 == "pid" {print $3}' "$folder/out")
sleep "${2:-0}"
ip -n ebb-a link set ebb-va down
begin=$(date +%s)
while alive=$(for p in $ranks; do [ -d /proc/$p ] && ! grep -q "State:.Z" /proc/$p/status && echo $p; done) && [ -n "$alive" ]; do
  if [ $(($(date +%s) - begin)) -gt 10 ]; then
    echo "still there ten seconds after the cut: $alive"; cat "$folder/err"; exit 1
  fi
  sleep 0.2
done
echo "all four ranks had ended $(($(date +%s) - begin)) s after the cut"
grep "World:" "$folder/err"
