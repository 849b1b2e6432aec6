#!/bin/bash
# links.sh FOLDER - every relative link in the Markdown files below FOLDER leads to a file that is there, and to a
# heading of that file where it names one. Hidden folders and build/ are left out.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

folder=$(realpath "$1")
# As a code block shows it, a link is none.
prose() {
    awk '/^ *```/ { code = !code; next } !code' "$1"
}
# The anchors of a file's headings: small letters, spaces as hyphens, no other signs.
anchors() {
    prose "$1" | sed -nE 's/^#+ +//p' | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}

files=0 links=0 dead=0
while IFS= read -r -d '' file; do
    files=$((files + 1))
    while IFS= read -r link; do
        [[ $link =~ ^(https?|mailto): ]] && continue
        links=$((links + 1))
        path=${link%%#*}
        target=$file
        [[ -z $path ]] || target=$(dirname "$file")/$path
        if [[ ! -e $target ]]; then
            say "${file#"$folder"/}: the link to $link leads nowhere" >&2
            dead=$((dead + 1))
        elif [[ $link == *'#'* ]] && ! anchors "$target" | grep -qxF -- "${link#*#}"; then
            say "${file#"$folder"/}: there is no heading for the link to $link" >&2
            dead=$((dead + 1))
        fi
    done < <(prose "$file" | grep -oE '\]\([^) ]+|^\[[^]]+\]: +[^ ]+' | sed -E 's/^\]\(|^\[[^]]+\]: +//')
done < <(find "$folder" -mindepth 1 \( -name '.?*' -o -path "$folder/build" \) -prune -o -name '*.md' -print0)

((files && links)) || die "$folder has $files Markdown files and $links links"
((dead == 0)) || die "$dead of $links links are dead"
say "$links links in $files files"
