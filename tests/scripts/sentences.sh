#!/bin/bash
# sentences.sh FOLDER - the rule for sentences, in the documents and the comments of the tree in FOLDER:
#   - in docs/*.md (not docs/lab) and in comments of include/, src/, bench/, tools/ and examples/, no sentence, heading or comment begins with What, Who,
#     Whose, Of or Which;
#   - docs/kernels-gpu.md: a sentence has at most 30 words, the page at most 420 lines, a family at most 40 lines
#     with the same eight headings in their order.
# Code, tables and quotations of the lab are not read.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

folder=$(realpath "$1")
# Comments that are not looked at yet. This list can only shrink: a folder in it without a fault fails the test.
left_out=(
)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Both print FILE:LINE, a tab, and a paragraph on one line: what is read as sentences.
cat >"$work/prose.awk" <<'A'
function flush() {
    if (text != "") print file ":" from "\t" text
    text = ""
}
FNR == 1 { flush(); code = 0; file = FILENAME }
/^ *```/ { flush(); code = !code; next }
code || /^ *\|/ || /^ *<!--/ || /^    / && text == "" { flush(); next }
/^ *$/ { flush(); next }
/^#+ / || /^ *([-*+]|[0-9]+\.) / { flush() }
{
    heading = /^#+ /
    line = $0
    sub(/^#+ +/, "", line)
    sub(/^ *([-*+]|[0-9]+\.) +/, "", line)
    sub(/^ +/, "", line)
    gsub(/`[^`]*`/, "code", line)
    gsub(/\]\([^)]*\)/, "", line)
    gsub(/[][*_]/, "", line)
    if (text == "") from = FNR
    text = text == "" ? line : text " " line
    if (heading) flush()
}
END { flush() }
A
cat >"$work/comments.awk" <<'A'
function flush() {
    if (text != "") print file ":" from "\t" text
    text = ""
}
function add(piece) {
    sub(/^[ *]+/, "", piece)
    sub(/[ *]+$/, "", piece)
    if (piece == "") { flush(); return }
    if (text == "") from = FNR
    text = text == "" ? piece : text " " piece
}
FNR == 1 { flush(); inside = 0; file = FILENAME }
{
    line = $0
    slashes = 0
    while (line != "") {
        if (inside) {
            at = index(line, "*/")
            if (at == 0) { add(line); line = ""; if (text == "") from = FNR + 1; break }
            add(substr(line, 1, at - 1))
            flush()
            line = substr(line, at + 2)
            inside = 0
        } else {
            gsub(/"([^"\\]|\\.)*"/, "", line)
            begin = index(line, "/*")
            slash = index(line, "//")
            if (slash && (!begin || slash < begin)) {
                if (substr(line, 1, slash - 1) !~ /^ *$/) flush()
                add(substr(line, slash + 2))
                slashes = 1
                line = ""
            } else if (begin) {
                flush()
                line = substr(line, begin + 2)
                inside = 1
            } else {
                line = ""
            }
        }
    }
    if (!inside && !slashes) flush()
}
END { flush() }
A
# From paragraphs: the sentences that begin with one of the words, or (most > 0) have too many.
cat >"$work/sentences.awk" <<'A'
{
    tab = index($0, "\t")
    place = substr($0, 1, tab - 1)
    text = substr($0, tab + 1)
    gsub(/(e\.g|i\.e|cf|vs|etc)\. /, "& ", text)
    count = split(text, sentence, /[.!?]['")]* +/)
    for (i = 1; i <= count; ++i) {
        one = sentence[i]
        sub(/^[ ("']+/, "", one)
        if (one ~ /^(What|Who|Whose|Of|Which)([^A-Za-z]|$)/ || (i == 1 && one ~ /^(what|who|whose|which) /)) {
            printf "%s: a sentence begins with \"%s\": %s\n", place, substr(one, 1, index(one " ", " ") - 1), substr(one, 1, 60)
        }
        if (most > 0) {
            words = 0
            n = split(one, word, / +/)
            for (j = 1; j <= n; ++j) words += word[j] ~ /[A-Za-z0-9]/
            if (words > most) printf "%s: a sentence of %d words: %s\n", place, words, substr(one, 1, 60)
        }
    }
}
A

comments() { # FOLDER...
    find "$@" -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc' -o -name '*.def' \) |
        sort | xargs awk -f "$work/comments.awk" | awk -v most=0 -f "$work/sentences.awk"
}

# faults: of the whole tree, one a line.
faults() {
    local page=docs/kernels-gpu.md
    awk -f "$work/prose.awk" docs/*.md | awk -v most=0 -f "$work/sentences.awk"
    awk -f "$work/prose.awk" $page | awk -v most=30 -f "$work/sentences.awk" | grep 'a sentence of' || true
    awk -v page=$page '
        function finish() {
            if (name == "" || labels == 0) return
            if (lines > 40) printf "%s: %s has %d lines\n", page, name, lines
            if (list != wanted) printf "%s: the headings of %s are not%s\n", page, name, wanted
        }
        BEGIN {
            wanted = " Computes; Shapes and limits; GEMM mapping (M, N, K); Data path; Precision; Split and order of sums;" \
                " Bound by; Chosen when;"
        }
        /^## / { finish(); name = $2; lines = labels = 0; list = "" }
        { ++lines }
        /^- \*\*[A-Z][^*]*\.\*\*/ && name !~ /^(Rules|Variants)$/ {
            ++labels
            label = substr($0, 5)
            list = list " " substr(label, 1, index(label, ".**") - 1) ";"
            families += labels == 1
        }
        END {
            finish()
            if (NR > 420) printf "%s: %d lines\n", page, NR
            if (families < 10) printf "%s: only %d families\n", page, families
        }' $page
    comments include src bench tools examples | grep -v "$(printf '^%s/\n' "${left_out[@]}")" || true
}

cd "$folder"
faults >"$work/faults"
if [[ -s $work/faults ]]; then
    cat "$work/faults" >&2
    die "$(wc -l <"$work/faults") faults"
fi
for one in "${left_out[@]}"; do
    [[ -n $(comments "$one") ]] || die "$one is without a fault: take it off the list of what is left out"
done

# Each kind of fault is noticed, in a small tree.
small=$work/small
mkdir -p "$small/docs/lab" "$small"/{src,include,bench,tools,examples}
cp docs/kernels-gpu.md "$small/docs/page"
cd "$small"
expect() { # WORDS
    faults >"$work/faults"
    [[ $(wc -l <"$work/faults") == 1 ]] && grep -qF -- "$1" "$work/faults" ||
        { cat "$work/faults" >&2; die "\"$1\" alone was expected"; }
    cp docs/page docs/kernels-gpu.md
    rm -f docs/other.md src/*
}
cp docs/page docs/kernels-gpu.md
printf 'Of the lab.\n' >docs/lab/page.md
touch src/empty.c
[[ -z $(faults) ]] || { faults >&2; die "the small tree has faults"; }
long=$(printf 'word %.0s' {1..30})
printf '/* what it is */\nint a;\n' >src/a.c && expect 'src/a.c:1: a sentence begins with "what"'
printf '/* A: "x".\n *\n * Right.\n * Which?\n */\n' >src/a.c && expect 'src/a.c:3: a sentence begins with "Which'
printf 'int a; // Whose is it?\n' >src/a.c && expect 'src/a.c:1: a sentence begins with "Whose"'
printf 'char *a = "/* What */";\n/* right. of b */\n/* Of c */' >src/a.c && expect 'src/a.c:3: a sentence begins with "Of"'
printf '# Right\n\nRight. **Who** is\nit?\n\n| What |\n\n```\nWhat\n```\n' >docs/other.md &&
    expect 'docs/other.md:3: a sentence begins with "Who"'
printf '## What\n' >docs/other.md && expect 'docs/other.md:1: a sentence begins with "What"'
printf '%s`a b c`.\n%s\n' "${long#word }" "$long" >>docs/kernels-gpu.md
faults | grep -q 'a sentence of' && die "a sentence of 30 words is not too long"
printf '\nAnd %s\n' "$long" >>docs/kernels-gpu.md && expect 'a sentence of 31 words'
sed -i 's/^- \*\*Data path\.\*\*/- **Way of data.**/; t; p' docs/kernels-gpu.md
faults | grep -qF 'the headings of naive are not' || die "other headings were not noticed"
say "the rule for sentences is kept"
