#!/usr/bin/env bash
# Tensor parallelism over several real GPUs: what NCCL really got, a sweep over steps and NCCL settings, a rank that is
# killed and one that is stopped. The number of ranks is the inventory's (GPU_RANKS for tests/gpu/inventory.yml).
#
#   tests/gpu/tensor_parallel.sh INVENTORY OUT [CHAPTER…]
#
# Chapters (default: all, in this order):
#   doctor   controller doctor --allreduce: the timed all-reduce at the real world size
#   orphan   processes that an earlier launch left behind hold memory of every GPU; the first act of deploy.yml
#            frees it
#   nccl     the variables are written by role nccl_env alone, and NCCL's own log in every rank says that it has each:
#            in a bare process group, then in the server
#            (with one rank NCCL reads neither protocol nor algorithm: only the others are looked for then)
#   stopped  one rank is stopped (SIGSTOP) while serving, another launch's while it captures graphs: a stall, with evidence
#   killed   one rank is killed (kill -9): reported within 2 s, and clean.yml leaves every GPU free
#   sweep    controller sweep --steps 2,3 with baseline, and two arms of NCCL settings (NCCL's own, and
#            tuned for NVLink, where the role's are for PCIe); SWEEP_OPTIONS replaces the options
#   report   what the sweep came to
#
# PYTHON runs the controller (default python3). GPU_ROOT is where tests/gpu/prepare.sh put everything.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
all_chapters="doctor orphan nccl stopped killed sweep report"
# shellcheck source=telling.sh
. tests/gpu/telling.sh

ranks=${GPU_RANKS:-2}
last=$((ranks - 1))
root=${GPU_ROOT:-/tmp/eagle3}
state=${SERVER_STATE:-$root/state}
log=${SERVER_LOG:-$root/logs/sglang_eagle3_nccl_3step.log}
variables=(NCCL_PROTO=LL NCCL_ALGO=Ring NCCL_P2P_LEVEL=SYS NCCL_MAX_NCHANNELS=16 NCCL_BUFFSIZE=16777216 NCCL_NTHREADS=512)
unset "${variables[@]%%=*}"
read_by_nccl=("${variables[@]}")
[ "$ranks" -gt 1 ] || read_by_nccl=("${variables[@]:2}") # NCCL 2.28
limits='{"sglang_health_phase_limits": {"target_graphs": 15, "draft_graphs": 15, "memory_pool": 15, "warmup": 20}}'

now() { date +%s.%N; }
since() { "$python" -c 'import sys; print(f"{float(sys.argv[2]) - float(sys.argv[1]):.2f}")' "$1" "$(now)"; }
launch() { "$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$state/launch.json" "$1"; }
scheduler() { # RANK: a server of one rank does not number it
  local title="^sglang::scheduler_TP$1\b" session
  session=$(launch session 2>/dev/null) || return 1
  [ "$ranks" -gt 1 ] || title="^sglang::scheduler(_TP0)?\b"
  pgrep -s "$session" -f "$title" | head -1
}
until_log_says() { # PATTERN SECONDS: of the launch that has begun since the log was moved away
  local deadline=$((SECONDS + $2))
  until grep -Eqs "$1" "$log"; do
    [ $SECONDS -lt $deadline ] || return 1
    sleep 0.1
  done
}
used_mib() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | sort -n | tail -1; }
all_gpus_free() {
  local mib
  mib=$(used_mib)
  note "      fullest GPU: $mib MiB"
  [ "$mib" -lt 2048 ]
}
cleaned() { # NAME
  play "$1" playbooks/clean.yml
  expect "clean.yml succeeds" test $? -eq 0
  expect "every GPU is free" all_gpus_free
}
restart_behind() { # NAME ARGS…: restart.yml in the background, once the old log is out of the way
  local name=$1
  shift
  : >"$log"
  "$python" -m ansible playbook --inventory "$inventory" playbooks/restart.yml "$@" >"$out/$name.txt" 2>&1 &
  restarting=$!
  until_log_says "server_args=" 120 || note "      the launch has not begun"
}

for chapter in $chapters; do
  say "$chapter"
  case $chapter in
  doctor)
    "$python" -m controller doctor --inventory "$inventory" --allreduce --json >"$out/doctor.json" 2>"$out/doctor.err"
    note "doctor: exit $?"
    expect "the all-reduce over $ranks ranks is timed" "$python" tests/gpu/check_doctor.py "$out/doctor.json" all-reduce ok
    ;;
  orphan)
    limited 120 "$root/ml-env/bin/python3" -m tests.gpu.leave_orphans "$root/state" "$ranks" >"$out/orphan-start.txt" 2>&1
    nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv >"$out/orphan-before.txt"
    note "      fullest GPU before: $(used_mib) MiB"
    play orphan deploy.yml --tags zombie_cleanup
    expect "the play succeeds" test $? -eq 0
    expect "every GPU is free" all_gpus_free
    ;;
  nccl)
    expect "nothing in this shell sets NCCL" test -z "$(env | grep -E '^NCCL_(PROTO|ALGO|P2P|MAX|BUFF|NTHR)')"
    debug=$(printf '"%s", ' "${variables[@]}" | sed 's/=/": "/g')
    play nccl-write deploy.yml --tags nccl_env --diff \
      --extra-vars "{\"nccl_env_variables\": {${debug}\"NCCL_DEBUG\": \"INFO\", \"NCCL_DEBUG_FILE\": \"$out/nccl.%p.log\"}}"
    expect "the role has written them and proved them in a spawned child" test $? -eq 0
    limited 180 "$root/ml-env/bin/python3" -m tests.gpu.nccl_group "$ranks" >"$out/nccl-group.txt" 2>&1
    expect "a group of $ranks ranks sums up" grep -q "sum right" "$out/nccl-group.txt"
    mkdir -p "$out/nccl-group"
    mv "$out"/nccl.*.log "$out/nccl-group/"
    expect "NCCL says so in each rank of the group" \
      "$python" -m tests.gpu.check_nccl_log "$out/nccl-group" "$ranks" "${read_by_nccl[@]}"
    # One that runs already would keep what it was started with.
    [ "$ranks" -eq 1 ] || play nccl-stop playbooks/stop.yml
    # The server itself gets no NCCL variable: what its ranks know comes from the file in the environment of Python.
    play nccl-deploy deploy.yml --skip-tags nccl_env --extra-vars '{"nccl_env_variables": {}}'
    expect "the server is healthy" test $? -eq 0
    expect "the launch has a scheduler" test -n "$(scheduler 0)"
    expect "the launch was given no NCCL variable" \
      test -z "$(tr '\0' '\n' <"/proc/$(scheduler 0)/environ" | grep -E '^NCCL_(PROTO|ALGO|P2P|MAX|BUFF|NTHR)')"
    if [ "$ranks" -gt 1 ]; then
      mkdir -p "$out/nccl-server"
      cp "$out"/nccl.*.log "$out/nccl-server/"
      expect "NCCL says so in each rank of the server" \
        "$python" -m tests.gpu.check_nccl_log "$out/nccl-server" "$ranks" "${variables[@]}"
    else
      note "      a server of one rank sends nothing through NCCL: its log has nothing to say"
    fi
    rm -f "$out"/nccl.*.log
    ;;
  stopped)
    [ -n "$(scheduler "$last")" ] || play stopped-deploy deploy.yml
    kill -STOP "$(scheduler "$last")"
    begun=$(now)
    play stopped-serving playbooks/health.yml --extra-vars "$limits"
    expect "health fails while rank $last is stopped" test $? -ne 0
    note "      stall while serving: told after $(since "$begun") s"
    kill -CONT "$(scheduler "$last")"
    expect "it names a stall with evidence" grep -q "gave no token for .*in phase serving.*schedulers in state" "$out/stopped-serving.txt"
    play stopped-again playbooks/health.yml
    expect "the same launch is healthy once the rank goes on" test $? -eq 0
    restart_behind stopped-capture --extra-vars "$limits"
    until_log_says 'Capture.*graph begin' 120
    kill -STOP "$(scheduler "$last")"
    begun=$(now)
    wait $restarting
    expect "the restart fails" test $? -ne 0
    note "      stall in graph capture: told $(since "$begun") s after the rank was stopped (limit 15 s)"
    expect "it names a stall with evidence" grep -q "has not advanced for .*schedulers in state" "$out/stopped-capture.txt"
    cp "$log" "$out/stopped-capture.log"
    cleaned stopped-clean
    ;;
  killed)
    restart_behind killed-restart
    until_log_says 'Load weight end' 120
    kill -9 "$(scheduler "$last")"
    begun=$(now)
    wait $restarting
    expect "the restart fails" test $? -ne 0
    note "      rank $last killed: the play had ended, with the cause, after $(since "$begun") s"
    expect "it names the rank that died" grep -Eq "lost its scheduler process|scheduler_$last|died" "$out/killed-restart.txt"
    cp "$log" "$out/killed.log"
    cleaned killed-clean
    ;;
  sweep)
    default=$(printf '%s:,' "${variables[@]%%=*}")
    # shellcheck disable=SC2086  # options are words
    "$python" -m controller sweep --steps 2,3 --inventory "$inventory" --dir "$out/sweep" --plain --no-confirm \
      --arm "nccl-default=steps:3,${default%,}" --arm "nccl-tuned=steps:3,NCCL_PROTO:LL128,NCCL_P2P_LEVEL:NVL,NCCL_MAX_NCHANNELS:32" \
      ${SWEEP_OPTIONS:---blocks 3} >"$out/sweep.txt" 2>"$out/sweep-progress.txt"
    note "sweep: exit $?"
    ;;
  report)
    "$python" -m controller report "$out/sweep" --json >"$out/report.json"
    expect "every cell was measured" "$python" tests/gpu/count_cells.py "$out/sweep/journal.jsonl"
    tail -40 "$out/sweep.txt"
    ;;
  *)
    echo "no chapter $chapter" >&2
    exit 2
    ;;
  esac
done
say "$failures expectations failed"
exit $((failures > 0))
