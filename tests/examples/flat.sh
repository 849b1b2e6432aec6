# The memory of an example's training is flat: OPTIONS names its tiny size; --data idx is a data set made here.
. "$SOURCE/tests/examples/model_lib.sh"
. "$SOURCE/tests/examples/idx_lib.sh"
idx idx 32 120
tiny=$OPTIONS
flat
finish
