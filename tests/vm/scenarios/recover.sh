# kill -9 of the daemon under load: the next one takes the device over, nothing is lost
null_members 4 64
create --level raid5 --cache log
start --threads 4
first=$disk

# Whatever number of threads ran the array before: the device keeps its queues.
start_on_some_threads() {
    start --threads $((1 + RANDOM % 4))
}

# killed_under_load DONE OPTIONS...: kills the daemon when so many writes are done, while fio writes,
# verifies as it goes, and verifies all in the end.
killed_under_load() {
    load verify "${@:2}"
    under_load "$1"
    kill_daemon
    start_on_some_threads
    same "the device" "$disk" "$first"
    unload
}

for ((round = 1; round <= rounds; round++)); do
    say "round $round of $rounds"
    if ((round > 1)); then
        stop
        start --threads $((1 + round % 4))
    fi
    killed_under_load $((RANDOM % 300)) --bsrange=4k-64k --blockalign=4k --size=12M --iodepth=16 \
        --verify_backlog=32 --fsync=64
done

say "killed while nobody uses it, and twice; found by name, although the device can't be read"
given=("${members[@]}")
members=(--name tank /dev)
kill_daemon
start
kill_daemon
start
same "the device" "$disk" "$first"
members=("${given[@]}")

say "killed while its writes hang in a member"
stop
no_device_left
map_member 1 "0 %s delay %d 0 0 %d 0 100"
start
killed_under_load 20 --bs=4k --size=256k --iodepth=16
stop
no_device_left

say "told to end under load: what it leaves undone is done by the next"
start
evenkeel cache set tank none
# Somebody has it open all the time, also between two runs of fio: it would be removed otherwise, and
# fio make a file of its name.
sleep infinity <"$disk" &
holder=$!
for ((round = 1; round <= rounds; round++)); do
    load verify --bsrange=4k-64k --blockalign=4k --size=8M --iodepth=16
    under_load $((RANDOM % 100))
    kill -TERM "$daemon"
    wait "$daemon"
    start
    same "the device" "$disk" "$first"
    unload
done
kill "$holder"
wait "$holder" 2>/dev/null || true
stop

say "restarted while it is mounted, and used"
evenkeel start --background --ublk=0 "${members[@]}"
mkfs.ext4 -q "$disk"
mount "$disk" /mnt
load verify /mnt/file --bs=4k --size=6M --iodepth=8
under_load 100
evenkeel restart tank
unload
refused "in use" evenkeel stop tank
umount /mnt
e2fsck -fn "$disk" >/dev/null 2>&1
evenkeel scrub start tank --wait >/dev/null
evenkeel stop tank
no_device_left
