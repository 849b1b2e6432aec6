#!/bin/bash
# check_h5.sh PYTHON PROGRAM - all that make_h5.py writes, through the library's reader and through libhdf5.
# 77: h5py is not there.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" "$here/make_h5.py" wide "$folder/wide" || exit $?
"$1" "$here/make_h5.py" small "$folder/small"
"$2" "$folder"/*/*.h5
