#!/usr/bin/env bash
# Turn a bare GPU machine (torch 2.11, transformers, Python 3.12, no network) into an inference host: serving environment,
# controller, model pair.
#
#   tests/gpu/prepare.sh BUNDLE ROOT      # BUNDLE as tests/gpu/bundle.sh made it
#
# The pair is random (acceptance length 1) unless TRAIN_OPTIONS is set, if only to "": then it is trained, with the
# machine's own packages, while the serving environment is unpacked beside it. With PARTS=N the bundle may still be
# arriving: its N parts and wheels/ are waited for, each of which must appear whole (mv, not cp) within ARRIVAL_S (120).
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
bundle=$(readlink -f "$1")
root=$2
base=$(command -v python3)
base_site=$("$base" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$root/site" "$root/logs"

arrived() {
  local deadline=$((SECONDS + ${ARRIVAL_S:-120}))
  until [ -e "$1" ]; do
    [ "$SECONDS" -lt "$deadline" ] || { echo "error: $1 has not arrived within ${ARRIVAL_S:-120} s; send it, or all of the bundle first." >&2; return 1; }
    sleep 0.2
  done
}
parts() {
  local number
  [ -n "${PARTS:-}" ] || { cat "$bundle"/part*; return; }
  for number in $(seq "$PARTS"); do
    arrived "$bundle/part$number" || return 1
    cat "$bundle/part$number"
  done
}

training=
trap '[ -z "$training" ] || kill "$training" 2>/dev/null || true' EXIT
if [ -n "${TRAIN_OPTIONS+set}" ]; then
  # shellcheck disable=SC2086  # options are words
  (cd "$here/../.." && exec "$base" -m tests.gpu.train_model_pair "$root/models" $TRAIN_OPTIONS) &
  training=$!
fi

parts | tar xJf - -C "$root/site"
echo "unpacked after $SECONDS s"

# The serving interpreter is a venv of the distribution's own Python; the bundle and the machine's torch come in by path.
"$base" -m venv --without-pip "$root/ml-env"
serving=$("$root/ml-env/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' "$root/site" "$root/site/nvidia_cutlass_dsl/python_packages" "$base_site" >"$serving/bundle.pth"

# The first start would compile all of it, one file after the other. Files for other versions of Python do not compile.
"$root/ml-env/bin/python3" -m compileall -q -j 0 "$root/site" >"$root/logs/compileall.txt" 2>&1 || true
echo "compiled after $SECONDS s"

# The controller gets a venv of its own; numpy and scipy are the machine's.
arrived "$bundle/wheels"
"$base" -m venv --without-pip "$root/controller"
"$base" -m pip --python "$root/controller/bin/python3" install --quiet --no-index --no-deps --no-compile "$bundle"/wheels/*.whl
printf '%s\n' "$base_site" >"$("$root/controller/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/machine.pth"
echo "controller installed after $SECONDS s"

if [ -n "$training" ]; then
  wait "$training"
else
  "$root/ml-env/bin/python3" "$here/make_model_pair.py" "$root/models"
fi
"$root/ml-env/bin/python3" -c 'import importlib.metadata as m, torch; print("sglang", m.version("sglang"), "torch", torch.__version__, torch.cuda.get_device_name(0))'
echo "prepared after $SECONDS s"
