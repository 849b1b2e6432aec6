# Completions: bash and fish are asked what they offer at places of a command line; zsh reads what it is told. A shell
# that is not installed is left out.
. "$SOURCE/tests/cli/lib.sh"

for shell in bash zsh fish; do
    check "$UNFURL" --print $shell
    cp check.out unfurl.$shell
done
mkdir folder
: >a.png
: >'b c.png'
: >w.h5
: >x.txt

# offers SHELL LINE WORD...: what the shell offers after LINE, sorted, is the words.
offers() {
    shell=$1
    line=$2
    shift 2
    case $shell in
    bash)
        # shellcheck disable=SC2016 # bash's own
        bash --norc -c '
            source ./unfurl.bash
            set -f
            line=${1//=/ = }
            COMP_WORDS=($line)
            [[ $line != *" " || $line == *" = " ]] || COMP_WORDS+=("")
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            _unfurl
            ((${#COMPREPLY[@]} == 0)) || printf "%s\n" "${COMPREPLY[@]}"' bash "$line"
        ;;
    fish) HOME=$work/folder fish --no-config -c "source ./unfurl.fish; complete -C '$line'" | cut -f1 | sed 's|/$||' ;;
    esac 2>offers.err | sort >offered
    equal "$(cat offers.err)" "" "$shell's complaints after '$line'"
    printf '%s\n' "$@" | sort >expected
    [ $# -gt 0 ] || : >expected
    equal "$(cat offered)" "$(cat expected)" "$shell after '$line'"
}

commands=$(sed -n 's/^COMMAND(\([a-z]*\))$/\1/p' "$SOURCE/tools/commands.def")
for shell in bash fish; do
    if ! command -v $shell >/dev/null; then
        echo "$shell is not installed: its completions are not tried"
        continue
    fi
    offers $shell "unfurl ups" upscale
    offers $shell "unfurl nothing"
    offers $shell "unfurl help upsc" upscale
    offers $shell "unfurl upscale --dev" --device
    offers $shell "unfurl upscale --device " auto cpu cuda
    offers $shell "unfurl upscale a.png --dtype f6" f64
    offers $shell "unfurl upscale --tile "
    offers $shell "unfurl gradcheck --layer "
    offers $shell "unfurl devices "
    offers $shell "unfurl tune w" w.h5
    offers $shell "unfurl tune x.txt --output-" --output-padding
    for command in $commands; do
        # shellcheck disable=SC2046 # words
        offers $shell "unfurl $command --" $("$UNFURL" "$command" --help | sed -n 's/^  \(--[a-z-]*\) .*/\1/p')
    done
done
# Of the two, bash alone takes a value's equals sign for a word of its own, and filters files by their ends.
offers bash "unfurl upscale --device=c" cpu cuda
offers bash "unfurl upscale --device=" auto cpu cuda
offers bash "unfurl upscale " a.png 'b c.png' folder
offers bash "unfurl upscale --tile 4 a.png " a.png 'b c.png' folder
offers bash "unfurl upscale --tile=4 --json a.png " a.png 'b c.png' folder
offers bash "unfurl upscale a.png o.png " a.png 'b c.png' folder
offers bash "unfurl run m.h5 --input x=a" a.png
offers bash "unfurl run m.h5 --output=image=" a.png 'b c.png' folder unfurl.bash unfurl.fish unfurl.zsh w.h5 x.txt \
    check.err check.out expected offered offers.err
offers bash "unfurl run --input x=a.png w" w.h5
offers bash "unfurl upscale --weights " folder w.h5
offers bash "unfurl generate --out " a.png 'b c.png' folder unfurl.bash unfurl.fish unfurl.zsh w.h5 x.txt \
    check.err check.out expected offered offers.err
rm w.h5
rm -r folder
offers bash "unfurl inspect x" x.txt

if command -v zsh >/dev/null; then
    check zsh -n unfurl.zsh
    for command in $commands; do
        # Functions of zsh's completion system need a line that is being edited; here they say what they were told.
        # shellcheck disable=SC2016 # zsh's own
        zsh -f -c '
            _arguments() { if [[ $1 == -C ]]; then state=argument; else print -rl -- "$@"; fi; }
            words=($1 "")
            source ./unfurl.zsh' zsh "$command" >told 2>told.err
        equal "$(cat told.err)" "" "zsh's complaints about $command"
        equal "$(sed -n 's/^\((- \*)\)*\(--[a-z-]*\)=*\[.*/\2/p' told)" \
            "$("$UNFURL" "$command" --help | sed -n 's/^  \(--[a-z-]*\) .*/\1/p')" "zsh's options of $command"
        [ "$command" != upscale ] || holds told "--device=[where to compute]:device:(auto cpu cuda)"
        [ "$command" != upscale ] || holds told '*:OUT.png:_files -g "*.png"'
    done
else
    echo "zsh is not installed: its completions are not tried"
fi
finish
