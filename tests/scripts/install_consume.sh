#!/bin/bash
# install_consume.sh BUILD - install the build tree into a new place, move it, and use it from there as others
# would: examples/consumer as C and as C++17, shared and static, through find_package and pkg-config; and
# the installed command.
set -euo pipefail

build=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/staged" >"$work/install.log"
# Nothing installed may know where it was installed.
prefix=$work/elsewhere
mv "$work/staged" "$prefix"
libraries=$(dirname "$(find "$prefix" -name unfurl.pc)")/..
export PKG_CONFIG_PATH=$libraries/pkgconfig

expect_right() {
    local what=$1 said
    shift
    said=$("$@") || { echo "$what: failed" >&2; exit 1; }
    [[ $said == "unfurl "*": right" ]] || { echo "$what: said \"$said\"" >&2; exit 1; }
    echo "$what: ok"
}

for linkage in shared static; do
    for cxx in OFF ON; do
        what="find_package $linkage AS_CXX=$cxx"
        cmake -S "$root/examples/consumer" -B "$work/$linkage-$cxx" -DCMAKE_PREFIX_PATH="$prefix" \
            -DCMAKE_BUILD_TYPE=Release -DLINKAGE=$linkage -DAS_CXX=$cxx >"$work/log" 2>&1 &&
            cmake --build "$work/$linkage-$cxx" >>"$work/log" 2>&1 ||
            { cat "$work/log"; echo "$what: does not build" >&2; exit 1; }
        expect_right "$what" "$work/$linkage-$cxx/consumer"
    done
done

source=$root/examples/consumer/consumer.c
compile() { # FLAGS-OF-PKG-CONFIG OUTPUT
    # shellcheck disable=SC2046 # flags are words
    cc -std=c11 -O1 "$source" -o "$2-c" $(pkg-config $1 --cflags --libs unfurl)
    # shellcheck disable=SC2046
    c++ -std=c++17 -O1 -x c++ "$source" -x none -o "$2-cxx" $(pkg-config $1 --cflags --libs unfurl)
}
compile "" "$work/shared"
for language in c cxx; do
    expect_right "pkg-config shared $language" env LD_LIBRARY_PATH="$libraries" "$work/shared-$language"
done

"$prefix/bin/unfurl" --version
"$prefix/bin/unfurl" upscale "$root/examples/upscale/upconv7_scale2x_input.png" "$work/doubled.png"
[[ -s $work/doubled.png ]]

# A copy with the archive alone: what -lunfurl finds is the static library.
rm "$libraries"/libunfurl.so*
compile --static "$work/static"
for language in c cxx; do
    expect_right "pkg-config static $language" "$work/static-$language"
done
