# Long work shows a bar on a terminal's stderr and nothing on a pipe.
. "$SOURCE/tests/cli/lib.sh"
input=$SOURCE/examples/upscale/upconv7_scale2x_input.png

check "$UNFURL" upscale "$input" x.png --tile 16
equal "$(cat check.err)" "" "stderr on a pipe"
if ! command -v script >/dev/null; then
    echo "skipped: no script(1) to make a terminal with"
    exit 77
fi
script -qec "'$UNFURL' upscale '$input' x.png --tile 16" terminal.txt </dev/null >/dev/null
holds terminal.txt "upscale ["
holds terminal.txt "tiles/s"
holds terminal.txt "left"
holds terminal.txt "100%"
holds terminal.txt "x.png: 192 x 128 pixels"
# stdout alone being a terminal is no reason for a bar.
script -qec "'$UNFURL' upscale '$input' x.png --tile 16 2>bar.txt" terminal.txt </dev/null >/dev/null
equal "$(cat bar.txt)" "" "stderr in a file"
finish
