# unfurl plot: what gnuplot is told, with one of our own in its place; then with the real one, where it is installed.
. "$SOURCE/tests/cli/lib.sh"

# A gnuplot that keeps its script and draws a picture that it has been given.
check "$FIXTURE" noise drawn.png 3 2
mkdir fake broken none
cat >fake/gnuplot <<X
#!/bin/sh
cat >"$work/script"
echo "\$*" >"$work/words"
cat "$work/drawn.png"
X
chmod +x fake/gnuplot
# SEARCH is the PATH of unfurl alone.
REAL=$UNFURL
UNFURL=$work/unfurl
export REAL SEARCH
printf '#!/bin/sh\nPATH=$SEARCH exec "$REAL" "$@"\n' >unfurl
chmod +x unfurl
SEARCH=$work/fake:/usr/bin:/bin

printf 'step,d,g\n1,4,0.5\n2,2,nan\n3,0,-1.5\n10,8,inf\n' >losses.csv
check "$UNFURL" plot losses.csv
equal "$(cat check.out)" "losses.csv: 2 of 2 columns, 4 rows; losses.png" "the report"
equal "$(cat words)" "--default-settings" "the words of gnuplot"
check "$COMPARE" pictures losses.png drawn.png 0
rows() { sed -n '/^\$table/,/^END_OF_TABLE/p' script | sed '1d;$d' | tr '\n' ';'; }
equal "$(rows)" "1 4 0.5;2 2 NaN;3 0 -1.5;10 8 NaN;" "the numbers"
holds script "set xlabel 'step'"
holds script "plot \$table using 1:2 with linespoints pointtype 7 title 'd', \$table using 1:3 with linespoints pointtype 7 title 'g'"
checks=$((checks + 1))
grep -q logscale script && comrefuse 1 "a logarithmic scale that nobody asked for"

check "$UNFURL" plot losses.csv --smooth 3 --columns g,d --log --out other.png --json
equal "$(rows)" "1 0.5 4;2 NaN 3;3 -0.5 2;10 NaN 3.33333333;" "the smoothed numbers"
holds script "set logscale y"
holds script "using 1:2 with linespoints pointtype 7 title 'g', \$table using 1:3"
equal "$(tr -d ' \n' <check.out)" '{"file":"losses.csv","rows":4,"columns":["g","d"],"out":"other.png"}' "the report"
checks=$((checks + 1))
[ -s other.png ] || comrefuse 1 "other.png is missing"

# A row in the making is left out; so are ends of lines as other systems write them. 51 rows have no points.
printf 'x,y\r\n1,2\r\n2,3\r\n3' >half.csv
check "$UNFURL" plot half.csv
equal "$(rows)" "1 2;2 3;" "numbers of an unfinished table"
printf 'x,y\n1,2\n2,3' >whole.csv
check "$UNFURL" plot ./whole.csv
equal "$(rows)" "1 2;2 3;" "numbers of a table without a last newline"
{ echo x,y; seq 1 51 | sed 's/.*/&,&/'; } >many.csv
check "$UNFURL" plot many.csv
holds script "using 1:2 with lines title 'y'"
mkdir dir.d
cp half.csv dir.d/table
check "$UNFURL" plot dir.d/table
checks=$((checks + 1))
[ -s dir.d/table.png ] || comrefuse 1 "a table without an ending: dir.d/table.png is missing"

# Signs that mean something to gnuplot or to a shell do not get there.
printf '%s\n1,2,3\n' 'x`touch h1`,a'"'"'; system "touch h2",$(touch h3)\@x{y}é' >signs.csv
check "$UNFURL" plot signs.csv
holds script "set xlabel 'x_touch h1_'"
holds script "title 'a_; system _touch h2_'"
holds script "title '_(touch h3)__x_y_é'"

# No table, which is said before gnuplot is looked for.
SEARCH=$work/none
bad() {
    part=$1
    shift
    printf "$@" >bad.csv
    refuse 1 "$part" plot bad.csv
    absent bad.png
}
refuse 1 "cannot open nothing.csv: No such file" plot nothing.csv
bad "bad.csv is empty: a table begins with the names" ''
bad "bad.csv has no rows yet" 'step,loss\n'
bad "bad.csv has no rows yet" 'step,loss\n1,'
bad "does not begin with the names of its columns, but with numbers" '1,2\n3,4\n'
bad "has one column" 'step\n1\n'
bad "column 2 has no name" 'step,,x\n1,2,3\n'
bad "two columns that are called 'a'" 'step,a,a\n1,2,3\n'
bad "line 3 has 2 numbers, 3 columns have names" 'step,a,b\n1,2,3\n2,3\n'
bad "line 2 has 3 numbers, 2 columns have names" 'step,a\n1,2,3\n'
bad "line 2 has 'two'" 'step,a\n1,two\n3,4\n'
bad "line 3 has ''" 'step,a\n1,2\n\n3,4\n'
bad "line 2 has '2x'" 'step,a\n1,2x\n'
bad "line 2 has nan in the column step" 'step,a\nnan,2\n'
bad "line 2 holds a zero byte" 'step,a\n1,2\0003\n'
bad "the column a has no finite number to draw" 'step,a\n1,nan\n2,inf\n'
bad "line 2 has '\\x1b[2J'" 'step,a\n1,\033[2J\n'
seq 1 65 | sed 's/^/c/' | paste -sd, >bad.csv
refuse 1 "has more than 64 columns" plot bad.csv
refuse 1 "has no column 'f'" plot losses.csv --columns d,f
refuse 1 "has no column 'stop'; did you mean 'step'?" plot losses.csv --columns stop
refuse 1 "has no column ''" plot losses.csv --columns d,
printf 'step,a\n1,-2\n' >bad.csv
refuse 1 "the column a has no positive number to draw" plot bad.csv --log
refuse 2 "--out takes a name that ends in .png, not 'x.pdf'" plot losses.csv --out x.pdf
refuse 2 "--smooth is '0'; it takes an integer from 1 to 1000" plot losses.csv --smooth 0
refuse 2 "FILE.csv" plot
mkdir folder
refuse 1 "cannot read folder: Is a directory" plot folder

# No gnuplot, and such that fail. The old picture stays.
cp losses.png before.png
refuse 1 "gnuplot draws the plot and is not in PATH: install it (Debian's gnuplot-nox)" plot losses.csv
gnuplot_does() {
    printf '#!/bin/sh\n%s\n' "$2" >broken/gnuplot
    chmod +x broken/gnuplot
    refuse 1 "$1" plot losses.csv
}
SEARCH=$work/broken:/usr/bin:/bin
gnuplot_does "gnuplot failed with status 3: line 1: no such terminal" 'echo "
line 1: no such terminal" >&2; exit 3'
gnuplot_does "gnuplot failed with status 1" 'exit 1'
gnuplot_does "gnuplot was killed by signal 9" 'kill -9 $$'
gnuplot_does "gnuplot drew no picture: " 'exit 0'
gnuplot_does "gnuplot drew no picture: " 'echo text'
gnuplot_does "gnuplot drew no picture: " "head -c 40 '$work/drawn.png'"
checks=$((checks + 1))
cmp -s losses.png before.png || comrefuse 1 "a failure changed the old picture"
SEARCH=$work/fake:/usr/bin:/bin
refuse 1 "nowhere" plot losses.csv --out nowhere/x.png

# The real one.
SEARCH=$PATH
if command -v gnuplot >/dev/null; then
    check "$UNFURL" plot signs.csv
    check "$UNFURL" plot losses.csv
    check "$UNFURL" plot losses.csv --log --columns d --out logarithmic.png
    for picture in signs losses logarithmic; do
        size=$(od -An -tx1 -j16 -N8 $picture.png | tr -d ' \n')
        equal "$size" 000003e800000258 "the size of $picture.png"
    done
    checks=$((checks + 1))
    cmp -s losses.png logarithmic.png && comrefuse 1 "two tables give one picture"
else
    echo "gnuplot is not installed: nothing is drawn"
fi
for file in h1 h2 h3; do
    absent $file
done
finish
