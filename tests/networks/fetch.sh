# fetch-networks: everything but the fetching itself, which needs a network.
. "$SOURCE/tests/cli/lib.sh"

# fetch ARGUMENTS...
fetch() {
    python3 "$SOURCE/scripts/fetch-networks" --unfurl "$UNFURL" "$@"
}

# sentence PART ARGUMENTS...: it ends with status 1 and one sentence with PART.
sentence() {
    part=$1
    shift
    checks=$((checks + 1))
    fetch "$@" >out 2>err && complain "no failure: $*"
    [ ! -s out ] || complain "output on stdout: $*: $(cat out)"
    equal "$(wc -l <err)" 1 "lines about $*: $(cat err)"
    holds err "$part"
}

check fetch --list
equal "$(wc -l <check.out)" 28 "networks"
holds check.out realcugan-x4-noise3.h5
check fetch --list realesrgan
equal "$(tr '\n' ' ' <check.out)" "realesrgan-x2.h5 realesrgan-x3.h5 realesrgan-x4.h5 " "networks of realesrgan"
echo "another package" >other.tgz
mkdir data
HOME=$work
export HOME
sentence "there is no model cunte; there are cunet, realcugan, realesrgan, realesrgan-anime, waifu2x" cunte
sentence "cannot get no.tgz" --from no.tgz
sentence "has the SHA-256" --from other.tgz --to data
sentence "not f63b7b4786408472898c808ad36a8e9935c12c37958cf26c5a5f9bee614cbb94; it is not used" --from other.tgz --to data
sentence "does not say which networks there are" --unfurl "$work/nowhere"
equal "$(ls data)" "" "networks of another package"
finish
