#!/bin/bash
# install_consume.sh BUILD - install the build tree into a new place, move it, and use it from there as others
# would: examples/consumer as C and as C++17, shared and static, through find_package and pkg-config; the components
# of find_package; the installed command; the links of the installed documentation.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/staged" >"$work/install.log"
# Nothing installed may know where it was installed.
prefix=$work/elsewhere
mv "$work/staged" "$prefix"
libraries=$(realpath "$(dirname "$(find "$prefix" -name unfurl.pc)")/..")
export PKG_CONFIG_PATH=$libraries/pkgconfig

expect_right() { # NAME LINKAGE COMMAND...: the last word is the program
    local what=$1 linkage=$2 said needs=no
    shift 2
    said=$("$@") || die "$what: failed"
    [[ $said == "unfurl "*": right" ]] || die "$what: said \"$said\""
    ldd "${@: -1}" >"$work/ldd"
    ! grep -q libunfurl "$work/ldd" || needs=yes
    [[ $needs == "$([[ $linkage == shared ]] && echo yes || echo no)" ]] ||
        die "$what: libunfurl.so is needed: $needs"
    say "$what: ok"
}

for linkage in shared static; do
    for cxx in OFF ON; do
        what="find_package $linkage AS_CXX=$cxx"
        cmake -S "$root/examples/consumer" -B "$work/$linkage-$cxx" -DCMAKE_PREFIX_PATH="$prefix" \
            -DCMAKE_BUILD_TYPE=Release -DLINKAGE=$linkage -DAS_CXX=$cxx >"$work/log" 2>&1 &&
            cmake --build "$work/$linkage-$cxx" >>"$work/log" 2>&1 ||
            { cat "$work/log"; die "$what: does not build"; }
        expect_right "$what" $linkage "$work/$linkage-$cxx/consumer"
    done
done

# components LANGUAGE ARGUMENT...: find_package(unfurl ARGUMENT...) in a project of that language; prints whether
# unfurl was found, and the reason.
components() {
    local language=$1
    shift
    mkdir -p "$work/components"
    cat >"$work/components/CMakeLists.txt" <<X
cmake_minimum_required(VERSION 3.22)
project(components LANGUAGES $language)
find_package(unfurl $*)
message(STATUS "found: \${unfurl_FOUND}, cuda: \${unfurl_cuda_FOUND}, \${unfurl_NOT_FOUND_MESSAGE}")
X
    cmake -S "$work/components" -B "$work/components/$language" -DCMAKE_PREFIX_PATH="$prefix" 2>&1 |
        tr -s ' \n' ' '
}
expect_said() { # WORDS COMMAND...
    local words=$1 said
    shift
    said=$("$@" 2>&1) || true
    [[ $said == *"$words"* ]] || die "$*: \"$words\" was expected in \"$said\""
    say "$*: ok"
}
version=$(sed -n 's/.*UF_VERSION_STRING "\(.*\)"/\1/p' "$root/include/unfurl/export.h")
if grep -q 'cudart' "$libraries/pkgconfig/unfurl-static.pc"; then
    expect_said "found: 1, cuda: TRUE" components C "$version" COMPONENTS shared cuda
else
    without="unfurl's component cuda cannot be had: this copy of unfurl was built without the CUDA backend"
    expect_said "found: 0, cuda: , $without" components C COMPONENTS cuda
    expect_said "$without" components C REQUIRED COMPONENTS cuda
    expect_said "found: 1, cuda: ," components C OPTIONAL_COMPONENTS cuda
fi
expect_said "component nonsense cannot be had: there are shared, static and cuda" components C COMPONENTS nonsense
expect_said "component static cannot be had: it needs the language C" components NONE COMPONENTS static
expect_said "found: 1" components NONE
expect_said "found: 0" components C 99.0

source=$root/examples/consumer/consumer.c
compile() { # OUTPUT PKG-CONFIG-ARGUMENT...
    local output=$1
    shift
    # shellcheck disable=SC2046 # flags are words
    cc -std=c11 -O1 "$source" -o "$output-c" $(pkg-config --cflags --libs "$@")
    # shellcheck disable=SC2046
    c++ -std=c++17 -O1 -x c++ "$source" -x none -o "$output-cxx" $(pkg-config --cflags --libs "$@")
}
compile "$work/shared" unfurl
compile "$work/static" unfurl-static
for language in c cxx; do
    expect_right "pkg-config shared $language" shared env LD_LIBRARY_PATH="$libraries" "$work/shared-$language"
    expect_right "pkg-config static $language" static "$work/static-$language"
done

if [[ -e $prefix/bin/unfurl ]]; then
    "$prefix/bin/unfurl" --version
    "$prefix/bin/unfurl" upscale "$root/examples/upscale/upconv7_scale2x_input.png" "$work/doubled.png"
    [[ -s $work/doubled.png ]]
    "$prefix/share/unfurl/fetch-networks" --list | grep -qx cunet-x2-noise3.h5
fi

# A copy with the archive alone: -lunfurl finds the static library.
rm "$libraries"/libunfurl.so*
compile "$work/alone" --static unfurl
for language in c cxx; do
    expect_right "pkg-config, the archive alone, $language" static "$work/alone-$language"
done

links=$root/tests/scripts/links.sh
documents=$(dirname "$(find "$prefix/share" -name README.md ! -path '*/docs/*' ! -path '*/examples/*')")
bash "$links" "$documents"
rm "$documents/docs/cli.md"
expect_said "the link to docs/cli.md leads nowhere" bash "$links" "$documents"
