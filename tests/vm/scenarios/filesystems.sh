# ext4, XFS and btrfs: made, filled, trimmed, remounted, compared and checked
# run: long
null_members 5 160
create --level raid6 --chunk 32K
start

# The reference: some programs, in a tree.
source=/usr/sbin

filled() {
    local kind=$1 mkfs=$2
    shift 2
    say "$kind"
    "$mkfs" "$@" "$disk" >/dev/null
    mount "$disk" /mnt
    # What writes and syncs small, beside what writes large, which is later thrown away in part.
    fio --eta=never --name=small --directory=/mnt --size=4M --bs=4k --rw=randwrite --iodepth=8 \
        --ioengine=io_uring --fsync=16 --verify=crc32c --verify_fatal=1 >/run/fio 2>&1 &
    local small=$!
    cp -r "$source" /mnt/one
    cp -r "$source" /mnt/two
    wait "$small" || fail "$(</run/fio)"
    rm -r /mnt/one
    fstrim /mnt
    umount /mnt
    mount "$disk" /mnt
    diff -r "$source" /mnt/two
}

filled ext4 mkfs.ext4 -q
umount /mnt
e2fsck -fn "$disk" >/run/check 2>&1 || fail "$(</run/check)"

filled XFS mkfs.xfs -qf
umount /mnt
xfs_repair -n "$disk" >/run/check 2>&1 || fail "$(</run/check)"

filled btrfs mkfs.btrfs -qf
btrfs scrub start -B /mnt >/run/check || fail "$(</run/check)"
umount /mnt
btrfs check "$disk" >/run/check 2>&1 || fail "$(</run/check)"

say "parity matches"
evenkeel scrub start tank --wait >/run/check
grep -q "found 0 mismatches" /run/check || fail "$(</run/check)"
stop
no_device_left
