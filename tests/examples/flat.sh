# The memory of an example's training is flat: OPTIONS names its tiny size.
. "$SOURCE/tests/examples/model_lib.sh"
tiny=$OPTIONS
flat
finish
