# a log volume: served, killed under load, mended, restarted while it is mounted
null_members 6 48
evenkeel create tank --layout swan5:2x3 --segment 256K "${members[@]}"
start
same "the logical block size" "$(queue logical_block_size)" 4096
same "what it takes to discard" "$(queue discard_granularity)" 4096
first=$disk

say "fio verifies, also while members of both groups are missing"
verify --bsrange=4k-64k --blockalign=4k --size=8M --iodepth=16 --verify_backlog=32 --fsync=64
evenkeel disk fail tank 0.1
evenkeel disk fail tank 1.2
verify --bsrange=4k-64k --blockalign=4k --size=8M --iodepth=16 --verify_backlog=32
null_members 2 48
evenkeel disk replace tank 0.1 "${members[6]}"
evenkeel disk replace tank 1.2 "${members[7]}"
whole
members=("${members[0]}" "${members[6]}" "${members[@]:2:3}" "${members[7]}")

say "restarted while it is mounted, and used: nobody notices"
stop
no_device_left
evenkeel start --background --ublk=0 "${members[@]}"
mkfs.ext4 -q "$disk"
mount "$disk" /mnt
load verify /mnt/file --bs=4k --size=4M --iodepth=8
under_load 50
evenkeel restart tank
same "the device" "$(readlink /dev/evenkeel/tank)" "$first"
unload
umount /mnt
e2fsck -fn "$disk" >/dev/null 2>&1
evenkeel stop tank
no_device_left

say "killed: what was flushed is there, and the old device fails its users, as what was not is lost"
start
mount "$disk" /mnt
dd if=/dev/urandom of=/run/kept bs=64k count=16 status=none
cp /run/kept /mnt/kept
sync -f /mnt
kill_daemon
start
if head -c 1M /dev/urandom >/mnt/more && sync -f /mnt; then
    fail "the file system goes on upon a device that has lost writes"
fi 2>/dev/null
umount /mnt || umount -l /mnt
[[ $disk != "$first" || ! -e /mnt/kept ]] || fail "the old device is served"
e2fsck -fy "$disk" >/dev/null 2>&1 || (($? <= 1)) || fail "the file system can't be mended"
mount -o ro "$disk" /mnt
cmp /run/kept /mnt/kept
umount /mnt
whole
stop
