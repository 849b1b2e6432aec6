#!/bin/bash
# uninstall.sh BUILD - what `cmake --install` wrote is removed by the target `uninstall` without a trace: folders that it
# made go, those that were there before and the files of others stay. The components together are the whole. cpack's
# archive has the same files, and the command runs out of it.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

build=$1
work=$(mktemp -d)
# The tree's own installations are none of ours: their record is laid aside.
record=$build/installation
[[ ! -e $record ]] || mv "$record" "$work/record"
give_back() {
    rm -rf "$record"
    [[ ! -e $work/record ]] || mv "$work/record" "$record"
    rm -rf "$work"
}
trap give_back EXIT

put() { # ARGUMENT OF cmake --install...
    cmake --install "$build" "$@" >"$work/install.log" || die "cmake --install $* failed: $(cat "$work/install.log")"
}
remove() {
    cmake --build "$build" --target uninstall >"$work/log" 2>&1
}
must_remove() {
    remove || die "not removed: $(cat "$work/log")"
}
tree() { # FOLDER
    (cd "$1" && find . | sort)
}
expect_same() { # WHAT FILE FILE
    diff "$2" "$3" >"$work/diff" || die "$1: $(cat "$work/diff")"
    say "$1: ok"
}
# A prefix that is not there, even below one that is not there; twice.
put --prefix "$work/new/prefix"
(cd "$work/new/prefix" && find . ! -type d | sort) >"$work/whole"
grep -q '\.so$' "$work/whole" || die "no library was installed"
put --prefix "$work/new/prefix"
put --prefix "$work/second"
must_remove
for prefix in new second; do
    [[ ! -e $work/$prefix ]] || die "these stay: $(find "$work/$prefix")"
done
say "new prefixes: ok"
if remove; then
    die "was removed twice"
fi
grep -q "files.txt: nothing was installed" <(tr -s ' \n' ' ' <"$work/log") || die "says: $(cat "$work/log")"

# Folders and files of others, some of them empty or hidden.
mkdir -p "$work/old"/{bin,lib,share/man/man1,share/doc/other,include/unfurl}
touch "$work/old/bin/other" "$work/old/share/doc/other/README"
tree "$work/old" >"$work/before"
put --prefix "$work/old"
must_remove
tree "$work/old" >"$work/after"
expect_same "folders that were there" "$work/before" "$work/after"
put --prefix "$work/old"
touch "$work/old/share/unfurl/.mine"
must_remove
tree "$work/old" >"$work/after"
printf '%s\n' ./share/unfurl ./share/unfurl/.mine | sort - "$work/before" >"$work/expected"
expect_same "a file of the user's in a folder of ours" "$work/expected" "$work/after"

# DESTDIR
export DESTDIR=$work/stage
put --prefix /usr
[[ -e $work/stage/usr/include/unfurl/unfurl.h ]] || die "DESTDIR was not heeded"
unset DESTDIR
must_remove
[[ ! -e $work/stage ]] || die "these stay: $(find "$work/stage")"
say "DESTDIR: ok"

# Each component has its own, and each file one component.
: >"$work/parts"
for component in runtime development tools doc examples; do
    put --prefix "$work/$component" --component $component
    (cd "$work/$component" && find . ! -type d) >"$work/part" 2>/dev/null || : >"$work/part"
    cat "$work/part" >>"$work/parts"
    others=$(case $component in
        runtime) grep -vE 'lib[^ ]*/libunfurl\.so\.[0-9.]+$|share/doc/unfurl/(LICENSE|NOTICE)$' ;;
        development) grep -vE '/include/unfurl/[a-z0-9_]+\.h$|/cmake/unfurl/[a-z-]+\.cmake$|/pkgconfig/.*\.pc$|/libunfurl\.(a|so)$' ;;
        tools) grep -vE '^\./(bin/unfurl|share/(unfurl|man/man1|bash-completion|zsh|fish)/.*)$' ;;
        doc) grep -vE '^\./share/doc/unfurl/(docs/|api/|[A-Z]+\.md$)' ;;
        examples) grep -vE '^\./share/doc/unfurl/examples/' ;;
        esac <"$work/part" || true)
    [[ -z $others ]] || die "the component $component has $others"
    [[ -s $work/part || $component == tools ]] || die "the component $component is empty" # a build may have no tools
done
expect_same "components" "$work/whole" <(sort "$work/parts")
must_remove
for component in runtime development tools doc examples; do
    [[ ! -e $work/$component ]] || die "these stay: $(find "$work/$component")"
done
say "removed by component: ok"

# The archive.
cpack --config "$build/CPackConfig.cmake" -B "$work/archive" >"$work/log" 2>&1 || die "cpack: $(cat "$work/log")"
[[ ! -e $record ]] || die "cpack is taken for an installation"
tar -C "$work/archive" -xzf "$work"/archive/unfurl-*.tar.gz
unpacked=$(find "$work/archive" -maxdepth 1 -name 'unfurl-*' -type d)
expect_same "cpack" "$work/whole" <(cd "$unpacked" && find . ! -type d | sort)
if [[ -e $unpacked/bin/unfurl ]]; then
    env -u LD_LIBRARY_PATH "$unpacked/bin/unfurl" --version
    env -u LD_LIBRARY_PATH "$unpacked/bin/unfurl" generate --weights "$unpacked/share/unfurl/weights/dcgan_fashion_mnist.h5" \
        --count 1 --out "$work/one.png"
fi
