# early-accesses.awk - reads `cuobjdump -sass` and prints each kernel of 9.0 and later that touches global memory before it
# waits for the kernel before it (ACQBULK), or never waits, with the first such instruction. Variables: object, a name to
# print before. The compiler takes loads through the read-only cache (__ldg) for independent of the wait, and may move them.
function close_kernel() {
    if (waiting && early != "") {
        print object, name, waits ? "before the wait:" : "without a wait:", early
    }
    waiting = 0
}
/^[ \t]*(code for|arch =) sm_[0-9]+/ {
    close_kernel()
    match($0, /sm_[0-9]+/)
    capability = substr($0, RSTART + 3, RLENGTH - 3) + 0
}
/Function :/ {
    close_kernel()
    name = $3
    waiting = capability >= 90
    waits = 0
    early = ""
}
/ACQBULK/ { waits = 1 }
# Loads, stores and atomics of global or of generic addresses, cp.async, TMA, cp.async.bulk.
!waits && early == "" &&
    match($0, /[ \t](LDG|STG|LDGSTS|LD|ST|ATOM|ATOMG|RED|REDG|UTMALDG|UTMASTG|UTMAREDG|UBLKCP|UBLKRED)[. ][^;]*/) {
    early = substr($0, RSTART + 1, RLENGTH - 1)
}
END { close_kernel() }
