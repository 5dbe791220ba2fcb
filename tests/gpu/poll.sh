#!/usr/bin/env bash
# Wait for a command that tests/gpu/in_background.sh started, and pack what there is: every minute and at the end, so that a call which
# is cut off brings something too.
#
#   tests/gpu/poll.sh OUT SECONDS PACK [FILE]
#
# Returns after SECONDS, or as soon as OUT/DONE or OUT/FILE is there. PACK/out.tgz holds all of OUT but reports for the browser;
# PACK must not lie in OUT. The exit status is the command's, 75 while it runs.
set -uo pipefail
out=$(readlink -f "$1")
end=$((SECONDS + $2))
pack=$3
mkdir -p "$pack"
packed() {
  # Files grow while they are packed: that is no failure.
  tar czf "$pack/.out.tgz" --warning=no-file-changed --exclude='*.html' -C "$out" .
  mv "$pack/.out.tgz" "$pack/out.tgz"
}
next=$((SECONDS + 60))
until [ -e "$out/DONE" ] || { [ -n "${4:-}" ] && [ -e "$out/$4" ]; } || [ $SECONDS -ge $end ]; do
  sleep 1
  [ $SECONDS -lt $next ] || { packed; next=$((SECONDS + 60)); }
done
tail -c 6000 "$out/background.log"
packed
[ -e "$out/DONE" ] && exit "$(cat "$out/DONE")"
exit 75
