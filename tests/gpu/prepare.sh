#!/usr/bin/env bash
# Turn a bare GPU machine (torch 2.11, Python 3.12, no network) into an inference host: serving environment, controller, model pair.
#
#   tests/gpu/prepare.sh BUNDLE ROOT      # BUNDLE as tests/gpu/bundle.sh made it
#
# The pair is random (acceptance length 1) unless TRAIN_OPTIONS is set, if only to "": then it is trained.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
bundle=$(readlink -f "$1")
root=$2
base=$(command -v python3)
base_site=$("$base" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$root/site"

cat "$bundle"/part* | tar xJf - -C "$root/site"

# The serving interpreter is a venv of the distribution's own Python; the bundle and the machine's torch come in by path.
"$base" -m venv --without-pip "$root/ml-env"
serving=$("$root/ml-env/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' "$root/site" "$root/site/nvidia_cutlass_dsl/python_packages" "$base_site" >"$serving/bundle.pth"

# The controller gets a venv of its own; numpy and scipy are the machine's.
"$base" -m venv --without-pip "$root/controller"
"$base" -m pip --python "$root/controller/bin/python3" install --quiet --no-index --no-deps --no-compile "$bundle"/wheels/*.whl
printf '%s\n' "$base_site" >"$("$root/controller/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/machine.pth"

if [ -n "${TRAIN_OPTIONS+set}" ]; then
  # shellcheck disable=SC2086  # options are words
  (cd "$here/../.." && "$root/ml-env/bin/python3" -m tests.gpu.train_model_pair "$root/models" $TRAIN_OPTIONS)
else
  "$root/ml-env/bin/python3" "$here/make_model_pair.py" "$root/models"
fi
"$root/ml-env/bin/python3" -c 'import importlib.metadata as m, torch; print("sglang", m.version("sglang"), "torch", torch.__version__, torch.cuda.get_device_name(0))'
