# members that run out of space: what was acknowledged is there, and what is wrong is told
# run: long

# thin_members COUNT MIB POOL_MIB: of a pool that has less than they promise, which refuses what does
# not fit.
thin_members() {
    local pool sectors number metadata data
    pool=pool$((made++))
    metadata=$(memory "$pool-metadata" 8)
    data=$(memory "$pool-data" "$3")
    sectors=$(blockdev --getsz "$data")
    dmsetup create "$pool" --table "0 $sectors thin-pool $metadata $data 128 0 1 error_if_no_space"
    for ((number = 0; number < $1; number++)); do
        dmsetup message "/dev/mapper/$pool" 0 "create_thin $number"
        dmsetup create "$pool-$number" \
            --table "0 $(($2 * 2048)) thin /dev/mapper/$pool $number"
        members+=("/dev/mapper/$pool-$number")
    done
}

# memory NAME MIB: a device in memory.
memory() {
    truncate -s "$2M" "/tmp/$1"
    losetup --find --show "/tmp/$1"
}

# fill: writes to a new array until that fails or there is no more; sets how many MiB were acknowledged.
fill() {
    create --level raid5 >/dev/null
    start
    evenkeel rebuild status tank --wait >/dev/null
    local mib=$(($(blockdev --getsize64 "$disk") >> 20))
    dd if=/dev/urandom of=/run/random bs=1M count="$mib" status=none
    for ((acknowledged = 0; acknowledged < mib; acknowledged++)); do
        dd if=/run/random of="$disk" bs=1M count=1 skip="$acknowledged" seek="$acknowledged" \
            oflag=direct conv=notrunc,fdatasync status=none 2>/dev/null || break
    done
    say "$acknowledged of $mib MiB were acknowledged"
}

# What was acknowledged is there.
kept() { cmp -n $((acknowledged << 20)) /run/random "$disk"; }

say "one member is full: the others go on"
null_members 3 64
thin_members 1 64 40
fill
same "what was acknowledged" "$acknowledged" $(($(blockdev --getsize64 "$disk") >> 20))
until_status "member 3 .*was taken out of service: no space is left behind it"
kept
stop
start --degraded
kept
stop

say "more are full than can be spared: writes fail, nothing that was acknowledged is lost"
members=()
null_members 2 64
thin_members 2 64 70
fill
((acknowledged > 8 && acknowledged < 100)) || fail "$acknowledged MiB were acknowledged"
until_status "no more writes are taken"
kept
evenkeel stop tank || true
wait "$daemon" || true
start --degraded --force
kept
