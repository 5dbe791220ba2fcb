#!/usr/bin/env bash
# Make what a GPU machine without a network needs: SGLang 0.5.15 and the controller's own packages, for Python 3.12.
#
#   tests/gpu/bundle.sh [OUT]        # default: ./.gpu (ignored by git through .git/info/exclude or a global ignore)
#
# OUT/part1..4   SGLang and its packages, a tar.xz in pieces of 44 MB (a call may carry 64 MiB, the checkout included):  cat OUT/part* | tar xJf - -C SITE
#                (torch 2.11 for CUDA 13 and transformers must already be on the machine)
# OUT/wheels/    ansible-core, ansible-runner and the controller's packages
#
# FlashAttention 3, FlashMLA and the sm_100 kernels stay out of sglang-kernel (580 MB), hence
# --attention-backend triton --sampling-backend pytorch on that machine.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
out=$(readlink -m "${1:-.gpu}")
python=${PYTHON312:-python3.12}
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
mkdir -p "$out/wheels"

platforms=()
for platform in manylinux_2_{39,35,34,31,28,27,24,17}_x86_64 manylinux2014_x86_64 manylinux1_x86_64 linux_x86_64; do
  platforms+=(--platform "$platform")
done
for_cp312=(--only-binary=:all: --python-version 3.12 --implementation cp --abi cp312 --abi abi3 --abi none "${platforms[@]}")

"$python" -m pip download --quiet "${for_cp312[@]}" -d "$out/wheels" \
  ansible-core ansible-runner click filelock httpx jinja2 pydantic pyyaml rich
"$python" -m pip install --quiet --no-deps --no-compile "${for_cp312[@]}" --target "$site" \
  -r "$here/requirements-sglang-0.5.15-cp312.txt"
rm -rf "$site"/sgl_kernel/{flash_ops.abi3.so,flashmla_ops.abi3.so,sm100} "$site/bin" "$site/flashinfer/data/aot"
rm -f "$out"/part*
tar cf - -C "$site" --exclude=__pycache__ . | xz -T0 -6 | split -b 44M --numeric-suffixes=1 -a 1 - "$out/part"
ls -l "$out"
