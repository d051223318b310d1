# file systems in use take the room of an array that grows, where the driver can give a disk another size
# run: long
loop_members 4 128
spare=${members[3]}
members=("${members[@]:0:3}")
create --level raid5 --chunk 64K >/dev/null
evenkeel start --background --ublk "${members[@]}" >/dev/null
disk=/dev/evenkeel/tank
size() { blockdev --getsize64 "$disk"; }

# The driver can from Linux 6.16 on.
IFS=. read -r major minor _ </proc/sys/kernel/osrelease
able=false
((major < 7 && (major < 6 || minor < 16))) || able=true

# grown BYTES: the disk is so large, or is soon: who asks the array may know it before.
grown() {
    local begun=$SECONDS
    until (($(size) == $1)); do
        ((SECONDS - begun < 600)) || fail "$disk has $(size) bytes, not $1"
        sleep 0.1
    done
}

# given COMMAND...: what users do after that. If the driver can't, the array says what to do, and it
# is done.
given() {
    local wanted=$1
    shift
    if $able; then
        grown "$wanted"
    else
        until_status "keeps the size that it had until the array is stopped and started.*Linux 6.16"
        (($(size) < wanted)) || fail "the driver can, and is not asked to"
        umount /mnt
        evenkeel stop tank >/dev/null
        evenkeel start --background --ublk "${members[@]}" >/dev/null
        grown "$wanted"
        mount "$disk" /mnt
    fi
    before=$(stat -fc %b /mnt)
    "$@" >/run/said 2>&1 || fail "$(</run/said)"
    (($(stat -fc %b /mnt) > before * 5 / 4)) || fail "the file system has not grown: $(</run/said)"
    same "the content" "$(sha256sum </mnt/content)" "$content"
    dd if=/dev/zero of=/mnt/filled bs=1M oflag=direct status=none 2>/dev/null || true
    rm /mnt/filled
}

fill() {
    "$@" "$disk" >/dev/null
    mount "$disk" /mnt
    dd if=/dev/urandom of=/mnt/content bs=1M count=16 conv=fsync status=none
    content=$(sha256sum </mnt/content)
}

say "a member more, under ext4 that is mounted"
fill mkfs.ext4 -q
first=$(size)
evenkeel disk add tank "$spare" >/dev/null
evenkeel reshape tank --members +1 >/dev/null
members+=("$spare")
evenkeel rebuild status tank --wait >/dev/null
given $((first * 3 / 2)) resize2fs "$disk"
umount /mnt
e2fsck -fn "$disk" >/run/check 2>&1 || fail "$(</run/check)"

say "larger members, under XFS that is mounted"
fill mkfs.xfs -qf
for number in 0 1 2 3; do
    truncate -s 192M "/tmp/member$number"
    losetup --set-capacity "${members[number]}"
done
evenkeel reshape tank --size max >/run/said
grep -q xfs_growfs /run/said || fail "$(</run/said)"
given $((first * 3 / 2 + 3 * 64 * 1024 * 1024)) xfs_growfs /mnt
umount /mnt
xfs_repair -n "$disk" >/run/check 2>&1 || fail "$(</run/check)"

say "it keeps the size when its daemon dies"
mount "$disk" /mnt
now=$(size)
kill -KILL "$(evenkeel list --json | sed -n 's/.*"pid":\([0-9]*\).*/\1/p')"
evenkeel start --background --ublk "${members[@]}" >/dev/null
same "the size" "$(size)" "$now"
same "the content" "$(sha256sum </mnt/content)" "$content"
umount /mnt
whole
evenkeel stop tank >/dev/null
no_device_left
