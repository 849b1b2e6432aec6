#!/bin/bash
# packages.sh - install-packages.sh before a machine on which nothing is installed: as a user who may not
# install, it prints the one apt-get line, whole, and stops with status 1; as root it calls apt-get once.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A copy of the scripts, with a PATH on which every package is missing.
mkdir -p "$work/tree" "$work/bin"
cp -r "$root/scripts" "$work/tree/scripts"
cat >"$work/bin/dpkg-query" <<'X'
#!/bin/bash
exit 1
X
cat >"$work/bin/sudo" <<'X'
#!/bin/bash
exit 1
X
cat >"$work/bin/apt-get" <<X
#!/bin/bash
echo "\$@" >>"$work/calls"
X
chmod +x "$work/bin"/*

wanted=$(awk '$1 == "build" { printf "%s%s", separator, $2; separator = " " }' "$root/scripts/packages.txt")
[[ -n $wanted ]]

as() { # USER-ID
    local setpriv=()
    if ((EUID == 0 && $1 != 0)); then
        chmod -R a+rX "$work"
        setpriv=(setpriv --reuid "$1" --clear-groups)
    fi
    env -i PATH="$work/bin:/usr/bin:/bin" "${setpriv[@]}" "$work/tree/scripts/$2" </dev/null
}

for script in install-packages.sh demo.sh test.sh; do
    status=0
    printed=$(as 65534 $script 2>"$work/stderr") || status=$?
    if ((status != 1)) || [[ $printed != "apt-get install --no-install-recommends $wanted" ]]; then
        echo "$script without rights: status $status, printed \"$printed\"" >&2
        cat "$work/stderr" >&2
        exit 1
    fi
done
[[ ! -e $work/calls ]]
echo "without rights: ok"

if ((EUID == 0)); then
    as 0 install-packages.sh >/dev/null
    [[ $(grep -c " install .*$wanted\$" "$work/calls") == 1 && $(wc -l <"$work/calls") == 2 ]]
    echo "as root: ok"
fi

# With everything there it says nothing and calls nobody.
printf '#!/bin/bash\necho -n installed\n' >"$work/bin/dpkg-query"
rm -f "$work/calls"
[[ -z $(as 65534 install-packages.sh 2>&1) && ! -e $work/calls ]]
echo "nothing missing: ok"
