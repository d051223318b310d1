# how many instructions a request takes that is answered at once, beside libublk's null target
# machine: counted
# program: null
# program: rival
. /vm/measure.sh

# null_rows TARGET PROGRAM [ARGUMENT...]: of the device that the program serves.
null_rows() {
    local server
    coproc null { exec "${@:2}" 64 2>>"$log"; }
    server=$null_PID
    read -r disk <&"${null[0]}" || fail "$2 does not serve"
    [[ -b $disk ]] || fail "$disk is no block device"
    # All of its buffers are in memory then.
    measure write 1M 64 256
    settle
    measured "$1" "${rows[@]}"
    kill "$server"
    wait "$server" 2>/dev/null || true
}

null_rows libublk rival
# Last, since its device outlives its server.
null_rows evenkeel null ublk
compared "A device that answers at once" libublk evenkeel "${rows[@]}"
