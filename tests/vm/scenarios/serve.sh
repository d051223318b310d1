# an array as a block device: what the kernel is told of it, its data, its end, failed starts
null_members 4 128
create --level raid5 --chunk 64K
start
number=${disk#/dev/ublkb}

say "what the kernel knows"
same "the logical block" "$(queue logical_block_size)" 4096
same "the physical block" "$(queue physical_block_size)" 4096
same "the smallest good I/O, a chunk" "$(queue minimum_io_size)" 65536
# A stripe of three chunks is no power of two, which is what the driver can be told.
same "the best I/O, what divides a stripe" "$(queue optimal_io_size)" 65536
same "where requests are cut, a stripe in sectors" "$(queue chunk_sectors)" 384
same "the cache" "$(queue write_cache)" "write back"
same "FUA" "$(queue fua)" 1
same "the largest request" "$(queue max_hw_sectors_kb)" 1024
# The block layer reckons with a power of two: the next one that is no less than a stripe.
same "the unit of discards" "$(queue discard_granularity)" 262144
(($(queue discard_max_bytes) >= 1 << 24)) || fail "discards of $(queue discard_max_bytes) bytes"
same "write zeroes" "$(queue write_zeroes_max_bytes)" "$(queue discard_max_hw_bytes)"
same "its name" "$(readlink /dev/evenkeel/tank)" "$disk"
# Nobody has looked for partitions: a server that died meanwhile would hang the machine.
size=$(blockdev --getsize64 "$disk")
((size > 350 << 20)) || fail "a size of $size"

say "data"
verify --bsrange=4k-256k --bs_unaligned=0 --blockalign=4k --size=24M --iodepth=16 --fsync=32
verify --rw=write --bs=1M --size=24M --iodepth=4 --fdatasync=8

# FUA: a write that is durable when it ends.
dd if=/dev/urandom of=/run/random bs=64k count=4 status=none
dd if=/run/random of="$disk" bs=64k oflag=direct,dsync conv=notrunc status=none
cmp -n 262144 /run/random "$disk"

say "discard and zeroes"
blkdiscard -o 0 -l 16M "$disk"
verify --bs=64k --size=16M --iodepth=8
# What is zeroed reads as zeros; what is beside it stays.
dd if=/run/random of="$disk" bs=64k seek=15 oflag=direct conv=notrunc status=none
blkdiscard --zeroout -o 1M -l 4M "$disk"
cmp -n 4194304 -i 1048576:0 "$disk" /dev/zero
cmp -n 65536 -i 983040:0 "$disk" /run/random

say "parity matches"
evenkeel rebuild status tank --wait >/dev/null
evenkeel scrub start tank --wait >/dev/null

say "an array in use is not stopped"
mkfs.ext4 -q "$disk"
mount "$disk" /mnt
refused "in use" evenkeel stop tank
umount /mnt
exec 7<"$disk"
refused "in use" evenkeel stop tank
exec 7<&-
dmsetup create held --table "0 2048 linear $disk 0"
refused "in use" evenkeel stop tank
dmsetup remove held
looped=$(losetup --find --show "$disk")
refused "in use" evenkeel stop tank
losetup -d "$looped"
verify --bs=4k --size=1M
stop
no_device_left
[[ ! -e /dev/evenkeel/tank ]] || fail "its name is left"

say "starts that fail leave nothing"
# The driver can't make the file that the server is to open.
mkdir /dev/ublkc7
refused "/dev/ublkc7" start --ublk=7

rmdir /dev/ublkc7
no_device_left
# There is no control socket.
touch /run/file
refused "/run/file" start --run-dir /run/file
no_device_left

say "a number that stays"
start --ublk=5
same "the device" "$disk" /dev/ublkb5
refused "in use" evenkeel start --ublk=5 "${members[@]}"
stop
start --ublk=5
same "the device" "$disk" /dev/ublkb5
stop
no_device_left

say "sectors of 512 bytes"
start --logical-block=512
same "the logical block" "$(queue logical_block_size)" 512
same "the physical block" "$(queue physical_block_size)" 4096
verify --bsrange=512-48k --bs_unaligned=0 --blockalign=512 --size=4M --iodepth=8 --fsync=32
# What is beside a sector stays.
dd if=/run/random of="$disk" bs=4k count=4 oflag=direct conv=notrunc status=none
dd if=/dev/zero of="$disk" bs=512 seek=9 count=3 oflag=direct conv=notrunc status=none
cmp -n $((9 * 512)) /run/random "$disk"
cmp -n $((3 * 512)) -i 0:$((9 * 512)) /dev/zero "$disk"
cmp -n $((20 * 512)) -i $((12 * 512)) /run/random "$disk"
evenkeel rebuild status tank --wait >/dev/null
evenkeel scrub start tank --wait >/dev/null
# A server that finds the device goes on with its sectors, whatever it is told.
kill_daemon
start
same "the logical block" "$(queue logical_block_size)" 512
cmp -n $((9 * 512)) /run/random "$disk"
stop
no_device_left
