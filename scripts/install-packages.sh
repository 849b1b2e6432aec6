#!/bin/bash
# install-packages.sh [GROUP...] - install the Debian packages of these groups of packages.txt that are
# missing ("build" when none is named). Prints the line to run and stops with status 1 when this user may
# not install packages.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if ! command -v dpkg-query >/dev/null; then
    say "this is not Debian or a relative of it: see scripts/packages.txt for what the build needs" >&2
    exit 0
fi

missing=()
while read -r group package _; do
    for wanted in "${@:-build}"; do
        if [[ $group == "$wanted" ]] &&
            [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
            missing+=("$package")
        fi
    done
done <"$root/scripts/packages.txt"

((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
    as_root=(sudo)
    # A password can be asked for only at a terminal.
    if ! command -v sudo >/dev/null ||
        ! { sudo -n true 2>/dev/null || { [[ -t 0 && -t 2 ]] && sudo -v; }; }; then
        say "packages are missing and this user may not install them; as root, run" >&2
        say "apt-get install --no-install-recommends ${missing[*]}"
        exit 1
    fi
fi

say "installing ${missing[*]}"
log=$root/build/packages.log
quietly "apt-get update" "$log" "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 update
quietly "installing packages" "$log" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends "${missing[@]}"
