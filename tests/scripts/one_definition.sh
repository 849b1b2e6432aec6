#!/bin/bash
# one_definition.sh - a type that C++ sees has one definition: two CUDA files with different types of one name would link,
# and templates over them would silently be each other's. So has a program: of two with one name, one may be built only
# where there is a CUDA toolkit, and configuring fails only there.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

# check FOLDER: print each type of the headers and CUDA files below FOLDER that is defined twice; fail if there is one.
# Specialisations of a template have their arguments behind the name and are others.
check() {
    grep -rnoE --include='*.h' --include='*.cuh' --include='*.cu' \
        '^(typedef )?(struct|union|class|enum|enum class) [A-Za-z_0-9]+ *(:.*)?\{' "$1" | sort -t: -k1,1 -k2,2n | awk -F: '
        {
            name = $3
            sub(/^typedef /, "", name)
            sub(/^enum class/, "enum", name)
            split(name, words, " ")
            name = words[2]
            sub(/\{.*/, "", name)
            if (name in first) {
                print name " is defined in " first[name] " and in " $1 ":" $2
                twice = 1
            } else {
                first[name] = $1 ":" $2
                ++count
            }
        }
        END {
            if (!count) print "no types"
            else if (!twice) print count " types"
            exit twice || !count
        }'
}

# programs FOLDER...: print each program of the CMake files below that is named twice; fail if there is one.
programs() {
    local twice
    twice=$(grep -rhoE --include=CMakeLists.txt '^ *(test_program|add_executable)\([a-z_0-9]+[ )]' "$@" |
        sed 's/.*(//; s/[ )]$//' | sort | uniq -d)
    [[ -z $twice ]] || { echo "programs of one name: $twice"; return 1; }
}

check "$root/src"
programs "$root"/{bench,examples,src,tests,tools}

# Two types of one name have to be found; a specialisation and the types of two C files are none.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/a" "$work/b"
printf '%s\n' 'template <int N>' 'struct tile {' '};' 'struct plan : base {' '};' >"$work/a/x.cuh"
printf '%s\n' 'template <>' 'struct tile<3> {' '};' 'enum class kind {' '};' >"$work/b/x.cu"
printf '%s\n' 'typedef struct plan {' '} plan;' >"$work/b/x.c"
check "$work" | grep -qxF "3 types" || die "finds no 3 types, or one twice"
printf '%s\n' 'typedef struct plan {' '} plan;' >"$work/b/y.h"
if check "$work" >"$work/out.txt" || ! grep -q "^plan is defined in .*x.cuh:4 and in .*y.h:1\$" "$work/out.txt"; then
    die "finds no second plan: $(cat "$work/out.txt")"
fi
printf '%s\n' 'add_executable(one one.c)' 'if(CUDA)' '    test_program(one other.c)' 'endif()' >"$work/a/CMakeLists.txt"
if programs "$work" >"$work/out.txt" || ! grep -q ': one$' "$work/out.txt"; then
    die "finds no second program: $(cat "$work/out.txt")"
fi
