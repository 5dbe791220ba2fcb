# Functions of the scripts that tell a story on one node: each says what it does, keeps every output under $out, and counts
# what did not come out as expected. To be sourced in the repository with the script's own arguments, INVENTORY OUT
# [CHAPTER…], which it takes: inventory, out, chapters (all_chapters when none is named), and python out of PYTHON.
inventory=$1
out=$(readlink -m "$2")
shift 2
chapters=${*:-$all_chapters}
python=${PYTHON:-python3}
mkdir -p "$out"
export ANSIBLE_NOCOLOR=1
failures=0

say() { printf '\n== %s  %s\n' "$(date -u +%FT%TZ)" "$*" | tee -a "$out/story.txt"; }
note() { printf '%s\n' "$*" | tee -a "$out/story.txt"; }
expect() { # WHAT COMMAND…
  local what=$1
  shift
  if "$@"; then
    note "ok    $what"
  else
    note "FAIL  $what"
    failures=$((failures + 1))
  fi
}
limited() { # SECONDS COMMAND…: nothing that hangs may take the rest of a loan
  timeout --kill-after 10 "$@"
}
play() { # NAME ARGS…: keeps the play's output, returns its status
  local name=$1 status
  shift
  local begun=$SECONDS
  "$python" -m ansible playbook --inventory "$inventory" "$@" >"$out/$name.txt" 2>&1
  status=$?
  note "$name: exit $status after $((SECONDS - begun)) s"
  return $status
}
