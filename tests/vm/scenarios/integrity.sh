# a member that knows what it was given: flipped bytes are answered from redundancy, and repaired
# run: long
null_members 4 64
# What dm-integrity needs besides data: it tells itself, once it has made its superblock.
device=${members[1]}
table() { echo "0 $1 integrity $device 0 4 D 2 block_size:4096 internal_hash:crc32c"; }
dmsetup create checked --table "$(table 8)"
dmsetup remove checked
sectors=$(od -An -t u8 -j 16 -N 8 "$device")
dmsetup create checked --table "$(table $((sectors)))"
# What was never written does not match its checksum.
dd if=/dev/zero of=/dev/mapper/checked bs=1M oflag=direct status=none 2>/dev/null || true
members[1]=/dev/mapper/checked
create --level raid5 >/dev/null
start
evenkeel rebuild status tank --wait >/dev/null
dd if=/dev/urandom of=/run/random bs=1M count=64 status=none
dd if=/run/random of="$disk" bs=1M oflag=direct conv=notrunc status=none
stop

# A byte of every 64 KiB, from where the array's metadata ends.
flip() {
    local at
    for ((at = 24 << 20; at < 40 << 20; at += 64 << 10)); do
        printf '\xff' | dd of="$device" bs=1 seek=$((at + RANDOM)) conv=notrunc status=none
    done
    sync "$device"
    echo 3 >/proc/sys/vm/drop_caches
}

# Whether all that the member has can be read.
sound() { dd if=/dev/mapper/checked of=/dev/null bs=1M iflag=direct status=none 2>/dev/null; }

say "reads are answered from redundancy, and what they meet is repaired"
sound
dmsetup remove checked
flip
dmsetup create checked --table "$(table $((sectors)))"
! sound || fail "nothing was flipped"
start
dd if="$disk" bs=1M count=64 iflag=direct status=none | cmp - /run/random
until_status "unreadable blocks .* were rewritten from redundancy"
until_status "state: online"

say "a scrub finds and repairs the rest"
# That the member has had read errors stays told.
! evenkeel scrub start tank --wait >/run/scrubbed || fail "all is said to be well"
grep -q "wrong: member 1 .* had [0-9]* read and 0 write errors" /run/scrubbed || fail "$(</run/scrubbed)"
stop
sound || fail "blocks can't be read after the scrub"
start
whole
dd if="$disk" bs=1M count=64 iflag=direct status=none | cmp - /run/random
stop
no_device_left
