# The memory of `upscale` is that of the input and of some tiles: it does not grow with the picture beyond the input
# itself, by more than four rows of tiles.
. "$SOURCE/tests/cli/lib.sh"

tile=128
width=512
check "$FIXTURE" noise short.png $width $tile
check "$FIXTURE" noise long.png $width 20000

short=$("$PEAK" "$UNFURL" upscale short.png short2x.png --tile $tile --threads 2 2>peak.err)
status=$?
[ $status = 77 ] && exit 77
equal $status 0 "short picture: $(cat peak.err)"
long=$("$PEAK" "$UNFURL" upscale long.png long2x.png --tile $tile --threads 2 2>peak.err)
equal $? 0 "long picture: $(cat peak.err)"

# In KiB. A row of tiles: its input and output pixels as the network holds them, three floats each.
picture=$((width * 3 * (20000 - tile) / 1024))
row=$((width * tile * 5 * 3 * 4 / 1024))
echo "peak: $short KiB for 512x$tile, $long KiB for 512x20000; input $picture KiB, a row $row KiB"
equal "$([ $((long - short)) -gt $((picture / 2)) ] && echo plausible)" plausible "the measurement"
equal "$([ $((long - short - picture)) -le $((4 * row)) ] && echo within)" within \
    "growth of $((long - short - picture)) KiB beyond the input, allowed $((4 * row))"
finish
