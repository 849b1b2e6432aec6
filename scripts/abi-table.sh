#!/bin/bash
# abi-table.sh LIBRARY [INCLUDE FOLDER] - print the binary interface of the shared library, a line each: its SONAME;
# every exported symbol with its declaration; size, and offsets or values, of every public struct and enum. Needs the
# compiler ($CC, or cc) and binutils. The table of this version is tests/data/abi.txt, for 64-bit systems:
#
#     scripts/abi-table.sh build/release/src/libunfurl.so >tests/data/abi.txt
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[[ ${1:-} != --help ]] || { help_of "$0"; exit 0; }
(($#)) || die "give it the shared library; --help says more"
library=$1
include=${2:-$root/include}
CC=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

printf '#include <unfurl/unfurl.h>\n' >"$work/all.c"
compile=("$CC" -std=c11 "-I$include" "$work/all.c")

say "soname $(readelf --dynamic "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')"

# A symbol that no header declares stands alone.
"${compile[@]}" -E -P | tr '\n' ' ' | grep -oE '__attribute__ *\(\(visibility\("default"\)\)\)[^;{]*;' |
    sed -E 's/__attribute__ *\(\(([^()]|\([^()]*\))*\)\)//g; s/ +/ /g; s/^ //; s/ ?;$//; s/\( /(/g' |
    sed -E 's/^([^(]*[ *])(uf_[a-z0-9_]+)\(/\2 \1\2(/' | sort -k1,1 -u >"$work/declared"
nm --dynamic --defined-only --with-symbol-versions "$library" | awk '{ print $NF }' | sort >"$work/exported"
join -a 1 "$work/exported" "$work/declared" | sed -E 's/^/symbol /'

# Debug information knows the layouts; without the option it has only what is used.
"${compile[@]}" -g -gdwarf-4 -fno-eliminate-unused-debug-types -c -o "$work/all.o"
readelf --wide --debug-dump=info "$work/all.o" | awk '
    # <1><705>: Abbrev Number: 19 (DW_TAG_structure_type)
    match($0, /^ *<[0-9a-f]+><[0-9a-f]+>: Abbrev Number: [0-9]+ \(/) {
        split($1, part, /[<>]+/)
        depth = part[2]
        id = part[3]
        tag[id] = $NF
        gsub(/[()]|DW_TAG_|_type/, "", tag[id])
        above[depth] = id
        if (depth > 1) {
            parent = above[depth - 1]
            child[parent, ++children[parent]] = id
        }
    }
    / DW_AT_/ {
        value = $0
        sub(/^[^:]*: */, "", value)
        gsub(/^(\([^)]*\):? *)+/, "", value) # the form, and where a string lies
        sub(/[ \t]+$/, "", value)
    }
    / DW_AT_name / { name[id] = value }
    / DW_AT_byte_size / { size[id] = value + 0 }
    / DW_AT_data_member_location/ { offset[id] = value + 0 }
    / DW_AT_const_value / { constant[id] = value + 0 }
    / DW_AT_upper_bound / { count[id] = value + 1 }
    / DW_AT_type / { match(value, /<0x[0-9a-f]+>/); type[id] = substr(value, RSTART + 3, RLENGTH - 4) }

    # The type as C writes it, with `inner` in the place of the name.
    function spell(id, inner,    i, list) {
        if (id == "") return "void" (inner == "" ? "" : " " inner)
        if (tag[id] == "pointer") return spell(type[id], "*" inner)
        if (tag[id] == "const") return spell(type[id], inner == "" ? "const" : "const " inner)
        if (tag[id] == "array") {
            for (i = 1; i <= children[id]; ++i) inner = inner "[" count[child[id, i]] "]"
            return spell(type[id], inner)
        }
        if (tag[id] == "subroutine") {
            for (i = 1; i <= children[id]; ++i) list = list (i > 1 ? ", " : "") spell(type[child[id, i]], "")
            return spell(type[id], "(" inner ")(" list ")")
        }
        return name[id] (inner == "" ? "" : " " inner)
    }
    END {
        for (id in tag) {
            if (name[id] !~ /^uf_/) continue
            if (tag[id] == "structure" && size[id] > 0) {
                print "struct", name[id], "size", size[id]
                for (i = 1; i <= children[id]; ++i) {
                    member = child[id, i]
                    printf "struct %s %4d %s\n", name[id], offset[member], spell(type[member], name[member])
                }
            } else if (tag[id] == "enumeration") {
                print "enum", name[id], "size", size[id]
                for (i = 1; i <= children[id]; ++i) {
                    printf "enum %s %4d %s\n", name[id], constant[child[id, i]], name[child[id, i]]
                }
            } else if (tag[id] == "typedef" && tag[type[id]] !~ /^(structure|enumeration)$/) {
                print "typedef", spell(type[id], name[id])
            }
        }
    }' | sort --key=1,2 --stable >"$work/types"
# Members stay in their order, types in that of their names. Pointers to functions have no second word that differs.
sed '/^typedef/d' "$work/types"
sed -n '/^typedef/p' "$work/types" | sort
