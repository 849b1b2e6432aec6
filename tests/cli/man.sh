# Manual pages: every one of them is right by mandoc, and says all that --help does. Skipped without mandoc.
. "$SOURCE/tests/cli/lib.sh"

if ! command -v mandoc >/dev/null; then
    echo "mandoc is not installed: the manual pages are not checked"
    exit 77
fi

# page FILE ARGUMENT...: what unfurl prints is in FILE, without a complaint of mandoc's, and read by it in FILE.txt.
page() {
    file=$1
    shift
    check "$UNFURL" --print man "$@"
    cp check.out "$file"
    equal "$(mandoc -T lint "$file" 2>&1)" "" "mandoc's complaints about the page $*"
    mandoc -T ascii "$file" | col -b >"$file.txt"
}

commands=$(sed -n 's/^COMMAND(\([a-z]*\))$/\1/p' "$SOURCE/tools/commands.def")
equal "$([ -n "$commands" ] && echo some)" some "commands"
page unfurl.1
holds unfurl.1.txt "unfurl - networks that grow images"
version=$("$UNFURL" --version)
holds unfurl.1.txt "$version"
for command in $commands; do
    holds unfurl.1.txt "unfurl-$command(1)"
    page "$command.1" "$command"
    holds "$command.1.txt" "unfurl-$command - "
    "$UNFURL" "$command" --help >help.txt
    # Operands and options begin the lines of the table; the words of its text break elsewhere in the page.
    sed -n 's/^  \(--[a-z-]*\|[A-Z][A-Za-z0-9./-]*\) .*/\1/p' help.txt >names
    equal "$([ -s names ] && echo some)" some "options of $command"
    while read -r name; do
        grep -qE -- "^       $name( |\$)" "$command.1.txt" ||
            complain "the page of $command lacks $name: $(cat "$command.1.txt")"
    done <names
    tr -s ' \n' ' ' <"$command.1.txt" >page.txt
    "$UNFURL" "$command" --help | sed -n 's/^  --[a-z]* \([A-Za-z]*\) .*(\(.*\))$/\2/p' | while read -r usual; do
        grep -qF -e "(default: $usual)" -e "($usual)" page.txt || echo "$usual"
    done >lost
    equal "$(cat lost)" "" "defaults that the page of $command lacks"
done

# A wrong page is noticed.
echo ".NONSENSE" >>unfurl.1
equal "$(mandoc -T lint unfurl.1 2>&1 | grep -c NONSENSE)" 1 "complaints about a wrong page"

refuse 2 "--print needs a value: man, bash, zsh or fish" --print
refuse 2 "--print is 'ksh'; it takes man, bash, zsh or fish" --print ksh
refuse 2 "--print man: there is no command 'upscal'" --print man upscal
refuse 2 "--print man: unexpected argument 'tune'" --print man upscale tune
refuse 2 "--print bash: unexpected argument 'upscale'" --print bash upscale
finish
