# unfurl convert NET.param NET.bin MODEL.h5
. "$SOURCE/tests/cli/lib.sh"

# One channel, 2 x 2 nearest, doubled by a Scale whose factor is 2 and bias 0.25.
printf '7767517\n3 3\nInput data 0 1 data 0=4 1=3 2=1\nInterp up 1 1 data big 0=1 1=2.0 2=2.0\nScale s 1 1 big out 0=1 1=1\n' \
    >net.param
printf '\0\0\0\100\0\0\200\076' >net.bin
check "$UNFURL" convert net.param net.bin net.h5 --picture "range=(-1, 1) border=2 scale=2 multiple=4 border_mode=reflect"
equal "$(cat check.out)" "net.h5: a model of 5 layers and 2 tensors" "convert's report"
sleep 1.1 # the seconds of a clock are in no file
check "$UNFURL" convert net.param net.bin again.h5 --picture "range=(-1, 1) border=2 scale=2 multiple=4 border_mode=reflect"
check cmp net.h5 again.h5
check "$UNFURL" codegen --text net.h5
equal "$(cat check.out)" 'unfurl model 1
input data f32 (N=1, 1, H=3, W=4)
big = upsample_nearest(data)
out.parameter = parameter(at=s, name=weight, shape=(1, 1, 1))
out.mul = mul(big, out.parameter)
out.parameter_2 = parameter(at=s, name=bias, shape=(1, 1, 1))
out = add(out.mul, out.parameter_2)
output out = out
picture input data range=(-1, 1) border=2 border_mode=reflect multiple=4
picture output out range=(-1, 1) scale=2' "the model's text"
check "$UNFURL" convert net.param net.bin net.h5 --shape data=1,5,6 --json
holds check.out '"format": "model"'
check "$UNFURL" codegen --text net.h5
holds check.out "input data f32 (N=1, 1, H=5, W=6)"
check "$UNFURL" run net.h5 --input data=randn:1,1,7,9 --output out=out.npy

refuse 2 "--picture and --shape are for three files" convert net.h5 out.h5 --picture border=7
refuse 2 "a picture has no option boarder" convert net.param net.bin bad.h5 --picture boarder=7
refuse 2 "it takes NAME=C,H,W" convert net.param net.bin bad.h5 --shape data
refuse 2 "1 to 3 extents" convert net.param net.bin bad.h5 --shape data=1,0,3
refuse 2 "ends no shape" convert net.param net.bin bad.h5 --shape data=1,2x
refuse 1 "no input named z" convert net.param net.bin bad.h5 --shape z=1,2,3
refuse 1 "nowhere.param" convert nowhere.param net.bin bad.h5
refuse 1 "nowhere.bin" convert net.param nowhere.bin bad.h5
refuse 1 "no/such/bad.h5" convert net.param net.bin no/such/bad.h5
refuse 1 "begins with 7767517" convert net.bin net.bin bad.h5
printf 'more' >>net.bin
refuse 1 "net.bin has 12 bytes; the layers of net.param take 8" convert net.param net.bin bad.h5
printf '7767517\n1 1\nInput data 0 1 data 0=4 1=3 2=1\nLSTM l 1 1 data out\n' >net.param
refuse 1 "net.param: line 4: LSTM l: unfurl has no layer" convert net.param net.bin bad.h5
absent bad.h5
finish
