#!/bin/bash
# layer-table.sh - the tables of docs/benchmark-layers.md, from the lists of layers in bench/: one row a layer, in the
# order of the lists. A test compares; to write the page anew, put this behind its first paragraphs.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

lists=(shapes shapes-other shapes-sweep shapes-unseen shapes-models shapes-whole)
titles=("The main list" "Other layers" "The sweep" "Unseen layers" "Layers of models by name" "Whole models")
for i in "${!lists[@]}"; do
    say
    say "## ${titles[i]}"
    say
    say "\`bench/${lists[i]}.json\`"
    say
    say "| layer | N | C_in | C_out | H x W | kernel | stride | padding | output padding | dilation | groups |"
    say "|---|---|---|---|---|---|---|---|---|---|---|"
    # One layer a line: {"name": "kb57", "n": 8, ..., "kernel": [3, 3], ...}
    awk '
        function scalar(key) {
            if (!match($0, "\"" key "\": *\"?[^\",}]*")) return "?"
            value = substr($0, RSTART, RLENGTH)
            sub("\"" key "\": *\"?", "", value)
            return value
        }
        function pair(key) {
            if (!match($0, "\"" key "\": *\\[[0-9]+, *[0-9]+")) return "?"
            value = substr($0, RSTART, RLENGTH)
            sub("\"" key "\": *\\[", "", value)
            sub(", *", " x ", value)
            return value
        }
        /"name"/ {
            printf "| %s | %s | %s | %s | %s x %s | %s | %s | %s | %s | %s | %s |\n", scalar("name"), scalar("n"),
                scalar("c_in"), scalar("c_out"), scalar("h"), scalar("w"), pair("kernel"), pair("stride"),
                pair("padding"), pair("output_padding"), pair("dilation"), scalar("groups")
        }' "$root/bench/${lists[i]}.json"
done
