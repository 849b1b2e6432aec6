#!/bin/bash
# every_function.sh LIBRARY MISUSE - each function that the shared library exports has a row in functions.def.
set -euo pipefail

exported=$(nm --dynamic --defined-only "$1" | awk '{ print $NF }' | sed 's/@.*//' | sort)
[[ -n $exported ]]
diff --label functions.def --label exported <("$2" list | sort -u) <(echo "$exported")
