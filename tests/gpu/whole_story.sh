#!/usr/bin/env bash
# The whole story, from a bare machine to empty GPUs, with everything kept under OUT.
#
#   tests/gpu/whole_story.sh INVENTORY OUT [CHAPTER…]
#
# GPU_RANKS (default 1) says over how many GPUs the target is split. Chapters (default: those of one GPU but prepare, in this
# order), each also alone; the seconds are what to plan for on one H200:
#   prepare    (200 s) serving environment, controller and trained pair from BUNDLE, as tests/gpu/bundle.sh made it
#   doctor     (5 s)   controller doctor names the clash of context lengths before anything starts
#   orphan     (20 s)  what an earlier launch left behind holds memory; the first act of deploy.yml frees it
#   clash      (40 s)  without preflight and patch SGLang itself refuses the pair, and the play says why
#   deploy     (160 s, cold) the clash is patched, the server healthy, a second run changes nothing, one request answered
#   nccl       (80 s)  the role writes the variables, and NCCL's own log says that it has those that one rank reads
#   fidelity   (250 s) the controller's client and sglang.bench_serving in turns
#   sweep      (54 s a launch) SWEEP_OPTIONS replaces the options; /metrics is recorded meanwhile
#   agreement  (2 s)   L, C, T1 and S of the journal beside SGLang's own log and counters, and lucky launches planted
#   stopped    (200 s) the scheduler is stopped (SIGSTOP) while serving and while it captures graphs
#   killed     (60 s)  the scheduler is killed (kill -9) while it loads
#   cost       (100 s after a sweep, else 350 s) launches by the controller beside those by a shell script
#   peers      (300 s) sglang.auto_benchmark, one launch for each of the settings
#   stop       (10 s)  no process and no GPU memory left
# and for several GPUs:
#   allreduce  (20 s)  controller doctor --allreduce over all ranks
#   nccl-sweep (54 s a launch) draft steps and NCCL settings; SWEEP_OPTIONS replaces the options
# BUDGET_S (default 1500) seconds after its start no further chapter but stop begins, and LOAN_S (default: never) seconds after
# its start peers ends with what it has. A loan of 30 minutes holds prepare (while the bundle arrives: PARTS), a sweep of twenty
# launches with GPU_QUICK_START=1, agreement, and two of cost, fidelity and peers.
#
# PYTHON runs the controller (default: prepare's, else python3). GPU_ROOT is where prepare puts everything.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
all_chapters="doctor orphan clash deploy nccl fidelity sweep agreement stopped killed cost peers stop"
# shellcheck source=telling.sh
. tests/gpu/telling.sh
# NVLink multicast can put a shared host's GPUs out of service.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export PYTHONUNBUFFERED=1 GPU_RANKS=${GPU_RANKS:-1} GPU_ROOT=${GPU_ROOT:-/tmp/eagle3}
root=$GPU_ROOT
# A simulated node has a port of its own.
url=${URL:-http://127.0.0.1:$(sed -n 's/.*"port": *\([0-9]*\).*/\1/p' "$root/node.json" 2>/dev/null || echo 8000)}
prompts=${PROMPTS:-$root/models/prompts.jsonl}
serving=$root/ml-env/bin/python3
given_python=${PYTHON:-}
choose_python() { # once more when prepare has made one
  PYTHON=${given_python:-python3}
  if [ -z "$given_python" ] && [ -x "$root/controller/bin/python3" ]; then
    PYTHON=$root/controller/bin/python3
    PATH=$root/controller/bin:$PATH
  fi
  export PYTHON PATH
  python=$PYTHON
}
choose_python

healthy() { curl -sf -o /dev/null -m 10 "$url/health"; }
newest_log() { ls -t "$root"/logs/*.log | head -1; } # of the server that runs, whoever started it
deployed() { # NAME: a healthy server of the inventory's settings
  healthy || play "$1-deploy" deploy.yml || note "      no healthy server"
}
cost_options() { # beside the launches of the sweep where there is one
  if [ -e "$out/lives.jsonl" ]; then
    echo "--after $out/sweep --watched $out/lives.jsonl --cells 2"
  else
    echo "--inventory $inventory --workload $prompts"
  fi
}
part() { # SCRIPT CHAPTER…: chapters of another story, told into the same folder
  local script=$1
  shift
  "$script" "$inventory" "$out" "$@"
  failures=$((failures + ($? != 0)))
}

for chapter in $chapters; do
  if [ "$SECONDS" -gt "${BUDGET_S:-1500}" ] && [ "$chapter" != stop ]; then
    say "$chapter left out: $SECONDS s have passed"
    continue
  fi
  begun=$SECONDS
  case $chapter in
  prepare)
    say prepare
    for tool in curl pgrep setsid flock xz nvidia-smi; do
      command -v "$tool" >/dev/null || note "      this machine has no $tool"
    done
    TRAIN_OPTIONS=${TRAIN_OPTIONS---ballast 9 --measured-prompts 4} tests/gpu/prepare.sh "${BUNDLE:?}" "$root" >"$out/prepare.txt" 2>&1
    prepared=$?
    expect "the machine is an inference host" test $prepared -eq 0
    [ $prepared -eq 0 ] || { tail -5 "$out/prepare.txt"; exit 1; } # a lent machine costs time
    choose_python
    cp "$root"/models/pair.json "$prompts" "$out/"
    {
      nvidia-smi
      uname -a
      nproc
      "$python" --version
      "$python" -m ansible playbook --version
      "$serving" -c 'import importlib.metadata as m, torch; print("sglang", m.version("sglang"), "torch", torch.__version__, "nccl", torch.cuda.nccl.version())'
    } >"$out/hardware.txt" 2>&1
    ;;
  doctor | clash | stop) part tests/gpu/story.sh "$chapter" ;;
  deploy) URL=$url part tests/gpu/story.sh deploy again request ;;
  orphan | stopped | killed) part tests/gpu/tensor_parallel.sh "$chapter" ;;
  allreduce) part tests/gpu/tensor_parallel.sh doctor ;;
  nccl-sweep) part tests/gpu/tensor_parallel.sh sweep report ;;
  nccl)
    part tests/gpu/tensor_parallel.sh nccl
    play nccl-restore deploy.yml --tags nccl_env
    expect "the inventory's variables are back" test $? -eq 0
    ;;
  fidelity)
    say fidelity
    deployed fidelity
    # shellcheck disable=SC2086  # options are words
    limited 400 "$python" tests/gpu/fidelity.py --url "$url" --log "$(newest_log)" --json "$out/fidelity.json" \
      ${FIDELITY_OPTIONS---peer-python $serving --model-path $root/models/target --workload $prompts \
        --rounds 2 5 --waves 2 --output-tokens 128 768} >"$out/fidelity.txt" 2>&1
    expect "the client measures as SGLang's own does" test $? -eq 0
    cat "$out/fidelity.txt"
    xz -c "$(newest_log)" >"$out/fidelity-server.log.xz" # which prompts were prefilled together
    ;;
  sweep)
    "$python" -m tests.gpu.watch_metrics "$url" "$out/metrics.jsonl" &
    watchers=$!
    "$python" -m tests.bench.server_watch "$root" "$out/lives.jsonl" &
    watchers+=" $!"
    # shellcheck disable=SC2064  # these two
    trap "kill $watchers" EXIT
    # The last --steps counts. Chapter cost goes on from the last server.
    SWEEP_OPTIONS="--leave-running ${SWEEP_OPTIONS---steps 1,2,3,5 --adaptive --blocks 3 --confirm-blocks 1 --workload $prompts --prompts-per-run 8 --output-tokens 256}" \
      part tests/gpu/story.sh sweep
    # shellcheck disable=SC2086  # two processes
    kill $watchers
    # shellcheck disable=SC2086
    wait $watchers
    trap - EXIT
    cp "$(newest_log)" "$out/last-server.log" # the sweep keeps a log when its server has ended
    ;;
  agreement)
    say agreement
    "$python" -m tests.gpu.check_agreement "$out/sweep" --metrics "$out/metrics.jsonl" --json "$out/agreement.json" >"$out/agreement.txt"
    expect "the journal says what SGLang says, within 2 %" test $? -eq 0
    tail -8 "$out/agreement.txt"
    "$python" -m tests.gpu.replay_lucky "$out/sweep" | tee "$out/lucky.txt"
    ;;
  cost)
    say cost
    # shellcheck disable=SC2086  # options are words
    limited 600 "$python" -m tests.gpu.cost --root "$root" --out "$out/cost" ${COST_OPTIONS-$(cost_options)} >"$out/cost.txt" 2>&1
    expect "both were measured" test $? -eq 0
    cat "$out/cost.txt"
    ;;
  peers)
    say peers
    if "$serving" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("sglang.auto_benchmark") is None)'; then
      grep -qs -- --speculative-algorithm "$root/state/launch.json" || play peers-restart playbooks/restart.yml
      deployed peers
      mkdir -p "$out/peers"
      left=1800
      [ -z "${LOAN_S-}" ] || left=$((LOAN_S - SECONDS - 45)) # for the last server's end and chapter stop
      if [ "$left" -lt 120 ]; then
        note "      $left s are left, too few for a launch"
        continue
      fi
      cp "$root/state/launch.json" "$out/peers/launch.json"
      play peers-stop playbooks/stop.yml
      # shellcheck disable=SC2086  # options are words
      limited 900 "$python" -m tests.gpu.auto_benchmark --python "$serving" --launch "$out/peers/launch.json" --prompts "$prompts" \
        --out "$out/peers" --seconds "$left" ${PEERS_OPTIONS-} >"$out/peers.txt" 2>&1
      expect "it came to a conclusion" test $? -eq 0
      cat "$out/peers.txt"
    else
      note "      this interpreter has no sglang.auto_benchmark; its procedure: tests/bench/bench_lucky_launch.py"
    fi
    ;;
  *)
    echo "no chapter $chapter" >&2
    exit 2
    ;;
  esac
  note "      $chapter took $((SECONDS - begun)) s"
done
say "$failures expectations or parts failed"
exit $((failures > 0))
