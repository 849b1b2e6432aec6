#!/bin/bash
# debian.sh - the Debian packages of debian/: they are built from a copy of the tree, lintian has nothing to say, they
# install into an empty root and run there, and leave no trace when they are removed. Skipped without debhelper.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

for program in dh dpkg-buildpackage lintian; do
    if ! command -v $program >/dev/null; then
        say "$program is not installed: the Debian packages are not built"
        exit 77
    fi
done
missing=$(cd "$root" && dpkg-checkbuilddeps -P nocheck 2>&1) ||
    { say "$missing: the Debian packages are not built"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

version=$(sed -n 's/.*UF_VERSION_STRING "\(.*\)"/\1/p' "$root/include/unfurl/export.h")
packaged=$(dpkg-parsechangelog -l "$root/debian/changelog" -S Version)
[[ ${packaged%-*} == "$version" ]] || die "debian/changelog says $packaged, the library is $version"
soname=$(sed -n 's/^Package: libunfurl\([0-9].*\)/\1/p' "$root/debian/control")
[[ $soname == "${version%.*}" ]] || die "the package of the library is libunfurl$soname, the SONAME has ${version%.*}"

mkdir "$work/unfurl"
tar -C "$root" -c --exclude=./build --exclude=./.git --exclude=./.cache --exclude=./.deb . | tar -C "$work/unfurl" -x
(
    cd "$work/unfurl"
    export DEB_BUILD_OPTIONS="nocheck parallel=$jobs" DEB_BUILD_PROFILES=nocheck
    quietly "dpkg-buildpackage" "$work/log" dpkg-buildpackage -us -uc -b
)
mapfile -t packages < <(find "$work" -maxdepth 1 -name '*.deb' ! -name '*-dbgsym_*' | sort)
say "built ${packages[*]##*/}"
[[ ${#packages[@]} == $(grep -c '^Package: ' "$root/debian/control") ]] || die "a package is missing"

lintian --allow-root --fail-on error,warning "$work"/*.changes >"$work/lintian" 2>"$work/stderr" ||
    { cat "$work/lintian" "$work/stderr" >&2; die "lintian complains"; }
[[ ! -s $work/lintian ]] || die "lintian says $(cat "$work/lintian")"
say "lintian: ok"

# An empty root, with what dpkg itself needs there.
target=$work/target
mkdir -p "$target/var/lib/dpkg"/{info,updates,triggers} "$target/var/log"
touch "$target/var/lib/dpkg"/{status,available}
files() { # of others than dpkg
    (cd "$target" && find . -path ./var -prune -o -print | sort)
}
as_root=()
if ((EUID != 0)); then
    command -v fakeroot >/dev/null || { say "not root, without fakeroot: not installed"; exit 0; }
    as_root=(fakeroot)
fi
on_target() { # ARGUMENT of dpkg...
    "${as_root[@]}" dpkg --root="$target" --force-not-root --force-depends --force-script-chrootless \
        --log="$work/dpkg.log" "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; die "dpkg $* failed"; }
}
files >"$work/before"
on_target --install "${packages[@]}"
libraries=$(dirname "$(find "$target" -name libunfurl.so)")
export LD_LIBRARY_PATH=$libraries
[[ $("$target/usr/bin/unfurl" --version) == "unfurl $version" ]] || die "the command does not run"
"$target/usr/bin/unfurl" upscale "$root/examples/upscale/upconv7_scale2x_input.png" "$work/doubled.png" >/dev/null
[[ -s $work/doubled.png ]] || die "no picture was doubled"
for file in man1/unfurl.1.gz man1/unfurl-upscale.1.gz; do
    [[ -s $target/usr/share/man/$file ]] || die "there is no $file"
done
say "the command: ok"
export PKG_CONFIG_PATH=$libraries/pkgconfig
# shellcheck disable=SC2046 # flags are words
cc -std=c11 "$root/examples/consumer/consumer.c" -o "$work/consumer" $(pkg-config --cflags --libs unfurl)
[[ $("$work/consumer") == "unfurl $version: right" ]] || die "a program with the library does not run"
say "a program: ok"
bash "$root/tests/scripts/links.sh" "$target/usr/share/doc/libunfurl-doc"
names=$(sed -n 's/^Package: //p' "$root/debian/control")
# shellcheck disable=SC2086 # names are words
on_target --purge $names
files | diff "$work/before" - >"$work/diff" || die "these stay: $(cat "$work/diff")"
say "removed without a trace: ok"
