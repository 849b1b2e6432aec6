#!/bin/bash
# subproject.sh - this tree as a part of another project, through add_subdirectory and through FetchContent: the
# other project needs no C++ compiler and no cmocka, keeps its build type, and gets the library's targets alone.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/parent" "$work/no-cmocka"
cp "$root/examples/consumer/consumer.c" "$work/parent/"
# pkg-config that knows nothing: whoever asks it for cmocka fails.
printf '#!/bin/sh\nexit 1\n' >"$work/no-cmocka/pkg-config"
chmod +x "$work/no-cmocka/pkg-config"
cat >"$work/parent/CMakeLists.txt" <<'X'
cmake_minimum_required(VERSION 3.22)
project(parent LANGUAGES C)
if(THROUGH STREQUAL "FetchContent")
    include(FetchContent)
    FetchContent_Declare(unfurl SOURCE_DIR "${UNFURL_TREE}")
    FetchContent_MakeAvailable(unfurl)
else()
    add_subdirectory("${UNFURL_TREE}" unfurl)
endif()
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE unfurl::unfurl)
add_executable(consumer_static consumer.c)
target_link_libraries(consumer_static PRIVATE unfurl::unfurl_static)
install(TARGETS consumer)

function(targets_below folder variable)
    get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
    get_property(folders DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
    foreach(inner IN LISTS folders)
        targets_below("${inner}" below)
        list(APPEND targets ${below})
    endforeach()
    set(${variable} "${targets}" PARENT_SCOPE)
endfunction()
targets_below("${CMAKE_CURRENT_SOURCE_DIR}" all)
list(SORT all)
get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
file(WRITE "${CMAKE_BINARY_DIR}/seen.txt"
    "targets ${all}\nbuild type \"${CMAKE_BUILD_TYPE}\"\nlanguages ${languages}\n")
X

cat >"$work/expected" <<'X'
targets consumer;consumer_static;unfurl;unfurl_objects;unfurl_static
build type ""
languages C
X

for through in add_subdirectory FetchContent; do
    build=$work/$through
    env CXX=/bin/false PATH="$work/no-cmocka:$PATH" cmake -S "$work/parent" -B "$build" \
        -DTHROUGH="$through" -DUNFURL_TREE="$root" >"$work/log" 2>&1 ||
        { cat "$work/log"; die "$through: does not configure"; }
    # CMake names RC and others beside C on some systems; NONE is how it calls no language.
    sed -i '/^languages/s/;NONE\|NONE;//' "$build/seen.txt"
    diff -u --label expected --label "$through" "$work/expected" "$build/seen.txt"
    [[ ! -e $build/compile_commands.json ]] || die "$through: compile_commands.json was made"
    say "$through: configures as a guest should"
done

build=$work/add_subdirectory
cmake --build "$build" --parallel "$jobs" >"$work/log" 2>&1 || { tail -n 50 "$work/log"; die "does not build"; }
for program in consumer consumer_static; do
    said=$("$build/$program")
    [[ $said == "unfurl "*": right" ]] || die "$program said \"$said\""
    say "$program: ok"
done
# The other project's installation has nothing of ours.
cmake --install "$build" --prefix "$work/prefix" >"$work/log"
installed=$(cd "$work/prefix" && find . -type f)
[[ $installed == ./bin/consumer ]] || die "installed: $installed"
