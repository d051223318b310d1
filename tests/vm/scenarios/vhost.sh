# the disk is an array of the host's by vhost-user, whose daemon is killed and restarted under load, and which grows
# machine: vhost
modprobe virtio_blk
disk=/dev/vda
queue=/sys/block/vda/queue

# Asks the host for something.
stty -F /dev/ttyS2 raw
order() { echo "$1" >/dev/ttyS2; }

say "the disk says what it is"
same "the serial number" "$(cat /sys/block/vda/serial)" tank
same "the logical block" "$(cat $queue/logical_block_size)" 4096
same "how many queues there are" "$(find /sys/block/vda/mq -mindepth 1 -maxdepth 1 | wc -l)" 2
same "the cache" "$(cat $queue/write_cache)" "write back"
(($(cat $queue/discard_max_bytes) > 0)) || fail "it discards nothing"

say "what is written, discarded and zeroed is read"
dd if=/dev/urandom of=/tmp/content bs=1M count=16 status=none
dd if=/tmp/content of="$disk" bs=1M oflag=direct conv=fsync status=none
same "the content" "$(dd if="$disk" bs=1M count=16 iflag=direct status=none | sha256sum)" \
    "$(sha256sum </tmp/content)"
blkdiscard -o 4M -l 4M "$disk"
blkdiscard -z -o 8M -l 1M "$disk"
dd if=/dev/zero of=/tmp/content bs=1M seek=4 count=5 conv=notrunc status=none
same "the content" "$(dd if="$disk" bs=1M count=16 iflag=direct status=none | sha256sum)" \
    "$(sha256sum </tmp/content)"

say "no request is lost or torn while its daemon is killed and restarted"
fio --name=verify --filename="$disk" --ioengine=libaio --direct=1 --offset=16M --size=32M \
    --rw=randwrite --bsrange=4k-64k --bs_unaligned=0 --blockalign=4k --iodepth=16 --rate=4m \
    --verify=crc32c --verify_backlog=64 --verify_fatal=1 --output=/tmp/fio &
user=$!
for what in kill restart kill; do
    sleep 2
    kill -0 "$user" || fail "fio has ended before the daemon"
    order "$what"
done
wait "$user" || fail "fio has found something: $(cat /tmp/fio)"
say "a file system is on it"
mkfs.ext4 -q "$disk"
mount "$disk" /mnt
cp /tmp/content /mnt/content
umount /mnt
mount "$disk" /mnt
cmp /tmp/content /mnt/content || fail "the file is another"
umount /mnt

say "the guest sees that the array has grown, without being started again"
mount "$disk" /mnt
before=$(blockdev --getsize64 "$disk")
order grow
begun=$SECONDS
until (($(blockdev --getsize64 "$disk") > before)); do
    ((SECONDS - begun < 600)) || fail "it has still $before bytes"
    sleep 0.1
done
blocks=$(stat -fc %b /mnt)
resize2fs "$disk" >/run/said 2>&1 || fail "$(</run/said)"
(($(stat -fc %b /mnt) > blocks)) || fail "the file system has not grown"
cmp /tmp/content /mnt/content || fail "the file is another"
umount /mnt

say "and that it has got a member more, whose reshape goes on meanwhile"
before=$(blockdev --getsize64 "$disk")
order reshape
begun=$SECONDS
until (($(blockdev --getsize64 "$disk") > before)); do
    ((SECONDS - begun < 600)) || fail "it has still $before bytes"
    sleep 0.1
done
mount "$disk" /mnt
cmp /tmp/content /mnt/content || fail "the file is another"
umount /mnt
