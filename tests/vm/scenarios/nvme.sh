# NVMe drives past the block layer: contents, a block that can't be read, a reset, a removal, a return
# machine: nvme
modprobe nvme

# The controllers and namespaces by the drives' serial numbers: which is which name's changes from boot
# to boot.
controllers=() drives=()
for serial in 0 1 2 3 4 5; do
    until found=$(grep -lx "$serial *" /sys/class/nvme/nvme*/serial 2>/run/said); do
        sleep 0.1
    done
    controllers[serial]=${found%/*}
    name=${controllers[serial]##*/}
    until [[ -b /dev/${name}n1 && -c /dev/${name/nvme/ng}n1 ]]; do
        sleep 0.1
    done
    drives[serial]=/dev/${name}n1
done

# A partition of 62 MiB, behind the first MiB.
printf '\0\0\0\0\x83\0\0\0\0\x08\0\0\0\xf0\x01\0' |
    dd of="${drives[4]}" bs=1 seek=446 conv=notrunc status=none
printf '\x55\xaa' | dd of="${drives[4]}" bs=1 seek=510 conv=notrunc status=none
blockdev --rereadpt "${drives[4]}"
until [[ -b ${drives[4]}p1 ]]; do
    sleep 0.1
done
# One that keeps nothing in volatile memory, by what the kernel takes it for.
echo "write through" >"/sys/block/${drives[2]#/dev/}/queue/write_cache"
members=("${drives[0]}" "${drives[1]}" "${drives[2]}" "${drives[5]}" "${drives[4]}p1")

# How many members pass the block layer.
passing() { { evenkeel status tank || true; } | grep -c "(past the block layer)" || true; }
# How many reads and writes the block layer has carried out on a drive.
carried() {
    local stat
    read -ra stat <"/sys/block/${1#/dev/}/stat"
    echo $((stat[0] + stat[4]))
}

create --level raid5 --chunk 64K >/dev/null
start --passthrough auto
evenkeel rebuild status tank --wait >/dev/null
same "members that pass the block layer" "$(passing)" 4
grep -q "${drives[4]}p1: I/O goes through the block layer: it is a partition" "$log" ||
    fail "the partition is not told"

say "requests do not meet the block layer, but of the partition"
before=$(carried "${drives[0]}") other=$(carried "${drives[4]}")
verify --bsrange=4k-64k --blockalign=4k --size=8M --iodepth=8 --fsync=16
same "I/O of the block layer" "$(carried "${drives[0]}")" "$before"
(($(carried "${drives[4]}") > other)) || fail "nobody has read the partition"

say "a block that can't be read is had from the others; QEMU tells of each try"
[[ $(evenkeel examine "${drives[0]}") =~ data\ area\ +[0-9]+\ KiB\ of\ each\ member,\ from\ ([0-9]+)\ KiB\ on ]]
stripe=$(((20 * 1024 - BASH_REMATCH[1]) / 64))
# Four stripes from there on: in one of two it is not parity.
dd if=/dev/urandom of=/tmp/content bs=256K count=4 status=none
dd if=/tmp/content of="$disk" bs=256K seek="$stripe" oflag=direct status=none
dd if="$disk" of=/tmp/found bs=256K skip="$stripe" count=4 iflag=direct status=none
cmp /tmp/content /tmp/found
evenkeel scrub start tank --wait >/dev/null || true
{ evenkeel status tank || true; } >/run/status
grep -q "member 3 .*up .*([1-9][0-9]* read, 0 write errors)" /run/status || fail "$(</run/status)"

say "what is discarded reads as zeros"
blkdiscard --offset $((stripe * 262144)) --length $((4 * 262144)) "$disk"
dd if="$disk" of=/tmp/found bs=256K skip="$stripe" count=4 iflag=direct status=none
cmp /tmp/found <(head -c 1M /dev/zero)

say "a controller is reset under load: it is waited for"
load verify --bsrange=4k-64k --blockalign=4k --size=4M --iodepth=8 --verify_backlog=32
for ((round = 0; round < 3; round++)); do
    under_load 50
    echo 1 >"${controllers[0]}/reset_controller"
done
under_load 50
unload
same "members that pass the block layer" "$(passing)" 4
! grep -q "member 0 .*is out of service" <(evenkeel status tank || true) || fail "$(evenkeel status tank)"

say "a drive is removed under load, and a spare takes its place"
load verify --bsrange=4k-64k --blockalign=4k --size=4M --iodepth=8 --verify_backlog=32
under_load 50
echo 1 >"${controllers[1]}/device/remove"
until_status "wrong: member 1 is out of service"
evenkeel disk add tank "${drives[3]}" >/dev/null
under_load 50
unload
evenkeel rebuild status tank --wait >/dev/null || true
same "members that pass the block layer" "$(passing)" 4

say "the block layer reads what was written past it"
members[1]=${drives[3]}
verify --bs=16k --size=8M --iodepth=8 --randseed=7 --end_fsync=1
stop
start
same "members that pass the block layer" "$(passing)" 0
verify --bs=16k --size=8M --iodepth=8 --randseed=7 --verify_only
stop
no_device_left
