#!/bin/bash
# One cell of a sweep as a careful operator would do it by hand: the yardstick of bench_cell_overhead.py on a simulated
# node and of tests/gpu/cost.py on a real one. NODE holds state/ and models/{target,draft}; the nvidia-smi is NODE/bin's or,
# where there is none, the one on PATH. It stops the old server, checks that the GPUs are free and that draft and target agree on the
# context length, launches, waits for /health, reads /server_info and keeps the old log.
#
# usage: bare_cell.sh NODE PORT POLL_SECONDS LOG KEPT_LOG -- COMMAND...      (the launch command; the environment is the caller's)
set -euo pipefail

node=$1 port=$2 poll=$3 log=$4 kept=$5
shift 6
pid_file=$node/state/bare.pid
idle_mib=512
nvidia_smi=$node/bin/nvidia-smi
[[ -x $nvidia_smi ]] || nvidia_smi=nvidia-smi

command -v curl >/dev/null || { echo "this machine has no curl" >&2; exit 1; }
# Nobody may wait for a launcher whose parent has gone: a zombie has ended.
alive() { [[ -r /proc/$1/stat && $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) != [ZX]* ]]; }

# Stop the old server: ask, wait, and do not go on while it lives.
if [[ -s $pid_file ]]; then
    old=$(<"$pid_file")
    if kill -TERM "$old" 2>/dev/null; then
        for ((i = 0; i < 300; i++)); do
            alive "$old" || break
            sleep 0.1
        done
        alive "$old" && { echo "server $old does not stop" >&2; exit 1; }
    fi
    rm -f "$pid_file"
fi

# Keep the log of the old server.
[[ -f $log ]] && cp -- "$log" "$kept"

# The GPUs must be free: no process, no memory.
for ((i = 0; i < 100; i++)); do
    holders=$("$nvidia_smi" --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv,noheader,nounits)
    most=$("$nvidia_smi" --query-gpu=memory.used --format=csv,noheader,nounits | sort -n | tail -1)
    [[ -z $holders && $most -le $idle_mib ]] && break
    sleep 0.2
done
[[ -z $holders && $most -le $idle_mib ]] || { echo "the GPUs are not free: $most MiB, $holders" >&2; exit 1; }

# Draft and target must agree on the context length.
context() { sed -n 's/.*"max_position_embeddings": *\([0-9]*\).*/\1/p' "$1/config.json" | head -1; }
target=$(context "$node/models/target") draft=$(context "$node/models/draft")
((draft >= target)) || { echo "the draft's context $draft is shorter than the target's $target" >&2; exit 1; }

# Launch in a session of its own and wait until it is healthy; give up when it dies or takes too long.
setsid "$@" >"$log" 2>&1 </dev/null &
pid=$!
echo "$pid" >"$pid_file"
until [[ $(curl -s -o /dev/null -m 5 -w '%{http_code}' "http://127.0.0.1:$port/health") == 200 ]]; do
    alive "$pid" || { echo "the server died" >&2; tail -5 "$log" >&2; exit 1; }
    ((SECONDS < 300)) || { echo "the server was not healthy within 300 s" >&2; kill -KILL -- "-$pid"; exit 1; }
    sleep "$poll"
done

# Read what the server says about itself.
info=$node/state/bare_server_info.json
curl -sf -m 5 "http://127.0.0.1:$port/server_info" >"$info"

# It must be this launch that answers, with the settings that were asked for.
! command -v ss >/dev/null || ss -ltnp "sport = :$port" | grep -q "pid=$pid," || { echo "port $port is not held by $pid" >&2; exit 1; }
for setting in num_steps num_draft_tokens; do
    wanted=$(printf '%s\n' "$@" | grep -A1 -x -- "--speculative-${setting//_/-}" | tail -1)
    grep -q "\"speculative_$setting\": *$wanted[,}]" "$info" || { echo "speculative_$setting is not $wanted" >&2; exit 1; }
done
