#!/usr/bin/env bash
# Start a command that outlives the call that starts it, on a machine where a call may last minutes only.
#
#   tests/gpu/in_background.sh OUT COMMAND…
#
# What it prints goes to OUT/background.log; at its end OUT/DONE holds its exit status. tests/gpu/poll.sh waits for that.
set -euo pipefail
mkdir -p "$1"
out=$(readlink -f "$1")
shift
rm -f "$out/DONE"
# shellcheck disable=SC2016  # for the inner shell
setsid bash -c 'out=$1; shift; "$@"; echo $? >"$out/DONE.part"; mv "$out/DONE.part" "$out/DONE"' in_background "$out" "$@" \
  >"$out/background.log" 2>&1 </dev/null &
echo "started as process $!, output in $out/background.log"
