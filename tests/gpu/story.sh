#!/usr/bin/env bash
# The main job, told once from start to end on one node, with everything kept under OUT.
#
#   tests/gpu/story.sh INVENTORY OUT [CHAPTER…]
#
# Chapters (default: all, in this order):
#   doctor   controller doctor: must name the clash of context lengths before anything starts
#   clash    deploy without preflight and draft patch: SGLang itself must refuse the pair, and the play must say why
#   deploy   deploy.yml: zombies cleaned, draft patched, NCCL environment proved, server healthy
#   again    deploy.yml once more: nothing may change
#   request  one request, with the answer kept (N, V and the server's own acceptance figures)
#   sweep    controller sweep --steps 2,3 with the arm without speculation; SWEEP_OPTIONS adds options
#   stop     stop.yml: no process and no GPU memory left
#
# PYTHON runs the controller (default python3); the playbook commands are those next to it or on PATH.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
all_chapters="doctor clash deploy again request sweep stop"
# shellcheck source=telling.sh
. tests/gpu/telling.sh

for chapter in $chapters; do
  say "$chapter"
  case $chapter in
  doctor)
    "$python" -m controller doctor --inventory "$inventory" --json >"$out/doctor.json"
    printf 'doctor: exit %s\n' $? | tee -a "$out/story.txt"
    expect "it names the clash of context lengths" "$python" tests/gpu/check_doctor.py "$out/doctor.json" context-length bad
    ;;
  clash)
    play clash deploy.yml --skip-tags preflight,draft_config
    expect "the play fails" test $? -ne 0
    expect "it names the clash of context lengths" grep -q "greater than the derived context_length" "$out/clash.txt"
    ;;
  deploy)
    play deploy deploy.yml --diff
    expect "the play succeeds" test $? -eq 0
    expect "the draft's config was patched" grep -q '^+.*max_position_embeddings' "$out/deploy.txt"
    ;;
  again)
    play again deploy.yml
    expect "the play succeeds" test $? -eq 0
    expect "nothing changed" grep -Eq 'changed=0 +unreachable=0 +failed=0' "$out/again.txt"
    ;;
  request)
    "$python" tests/gpu/one_request.py "${URL:-http://127.0.0.1:8000}" >"$out/request.json"
    expect "the server answers" test -s "$out/request.json"
    ;;
  sweep)
    # shellcheck disable=SC2086  # options are words
    "$python" -m controller sweep --steps 2,3 --inventory "$inventory" --dir "$out/sweep" --plain ${SWEEP_OPTIONS:-} \
      >"$out/sweep.txt" 2>"$out/sweep-progress.txt"
    printf 'sweep: exit %s\n' $? | tee -a "$out/story.txt"
    "$python" -m controller report "$out/sweep" --json >"$out/report.json"
    expect "every cell was measured" "$python" tests/gpu/count_cells.py "$out/sweep/journal.jsonl"
    tail -40 "$out/sweep.txt"
    ;;
  stop)
    play stop playbooks/stop.yml
    expect "the play succeeds" test $? -eq 0
    ;;
  *)
    echo "no chapter $chapter" >&2
    exit 2
    ;;
  esac
done
say "$failures expectations failed"
exit $((failures > 0))
