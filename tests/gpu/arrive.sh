#!/usr/bin/env bash
# Put a piece of the bundle where tests/gpu/prepare.sh waits for it, whole or not at all.
#
#   tests/gpu/arrive.sh PIECE… BUNDLE      # PIECE: a part, or wheels/
set -euo pipefail
bundle=${*: -1}
mkdir -p "$bundle"
for piece in "${@:1:$#-1}"; do
  name=$(basename "$piece")
  rm -rf "$bundle/.$name"
  cp -r "$piece" "$bundle/.$name"
  rm -rf "${bundle:?}/$name"
  mv -T "$bundle/.$name" "$bundle/$name"
done
ls -l "$bundle"
