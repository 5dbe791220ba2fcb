#!/bin/bash
# Run Molecule in a lab of its own: tests/lab/molecule.sh [ARGUMENTS OF molecule], default `test --all`.
set -euo pipefail
repository=$(readlink -f "$(dirname "$0")/../..")
cd "$repository"
# Molecule starts ansible-config and ansible-playbook by name.
PATH=$repository/.venv/bin:$PATH
name=${LAB_NAME:-molecule}
trap 'tests/lab/lab --name "$name" down >/dev/null' EXIT
[ $# -gt 0 ] || set -- test --all
tests/lab/lab --name "$name" run -- molecule "$@"
