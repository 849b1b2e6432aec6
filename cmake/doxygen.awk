# The filter through which doxygen reads our headers: its marks are added to plain comments. A comment in front of
# something documents it, and all that follows until the next empty line; one at the end of a line documents that line.

# A piece of text within a comment: no sign of it is a command of doxygen's.
function plain(text, count, i, words, out) {
    count = split(text, words, /[ ]/)
    out = ""
    for (i = 1; i <= count; ++i) {
        if (words[i] !~ /^\(?https?:/) gsub(/[\\@<>#%&]/, "\\\\&", words[i])
        out = out (i > 1 ? " " : "") words[i]
    }
    while (match(out, /`[^`]+`/)) {
        out = substr(out, 1, RSTART - 1) "<code>" substr(out, RSTART + 1, RLENGTH - 2) "</code>" \
            substr(out, RSTART + RLENGTH)
    }
    return out
}

# Line `line`, as doxygen gets it.
function marked(line, at, rest, mark, before) {
    if (inside) {
        inside = line !~ /\*\//
        return plain(line)
    }
    at = index(line, "/*")
    if (!at) return line
    before = substr(line, 1, at - 1)
    rest = substr(line, at + 2)
    mark = before ~ /^ *$/ ? "/**" : "/**<"
    inside = rest !~ /\*\//
    return before mark plain(rest)
}

function flush(i, declared) {
    declared = 0
    for (i = 1; i <= lines; ++i) declared += line[i] ~ /^(UF_API|static inline|typedef|#define)/
    if (lines && line[1] ~ /^\/\*/ && declared > 1) line[1] = "/**@{*/ " line[1]
    else if (declared == 0 && line[lines] ~ /\*\/$/) sub(/^\/\*\*/, "/*", line[1]) # documents nothing
    else declared = 0
    for (i = 1; i <= lines; ++i) print line[i]
    if (declared > 1) printf "/**@}*/"
    lines = 0
}

# The first comment is the file's.
NR == 1 {
    sub(/^\/\* [a-z0-9_]+\.h - /, "")
    name = FILENAME
    sub(/.*\//, "", name)
    inside = $0 !~ /\*\//
    print "/** @file " name " " plain($0)
    next
}
{
    depth += gsub(/\{/, "{") - gsub(/\}/, "}")
    if ($0 == "" && depth == 0) {
        flush()
        print
        next
    }
    line[++lines] = marked($0)
}
END { flush() }
