# a write cache in memory: flushed, left and chosen again under load, killed under a file system
# run: long
null_members 4 64
evenkeel create tank --level raid5 --cache volatile "${members[@]}"

# what memory has is small, so that it is full most of the time
start --cache-memory 4M
first=$disk

say "fio verifies, with few flushes, many and none"
for every in 1 16 0; do
    verify --bsrange=4k-64k --blockalign=4k --size=8M --iodepth=16 --fsync="$every"
done
verify --bs=4k --size=1M --iodepth=4 --sync=1

say "left and chosen again under load"
load verify --bsrange=4k-64k --blockalign=4k --size=8M --iodepth=16 --verify_backlog=32
for cache in none volatile none vol:wow-4; do
    under_load 100
    evenkeel cache set tank "$cache" >/dev/null
done
unload
whole
stop
no_device_left

say "restarted while it is mounted, and used: nobody notices"
restart_while_mounted

# Writes that nobody flushes, and that end with errors when the daemon is killed.
lose() {
    dd if=/dev/urandom of=/mnt/lost bs=4k count=256 oflag=direct conv=notrunc status=none 2>/dev/null || true
}

for ((round = 1; round <= rounds; round++)); do
    say "killed (round $round): what was flushed is there, and the old device fails its users"
    start
    first=$disk
    mount "$disk" /mnt
    keep_flushed
    load lose
    under_load $((RANDOM % 100))
    touch /run/enough
    kill_daemon
    start
    kill "$user" 2>/dev/null || true
    wait "$user" 2>/dev/null || true
    user=''
    users_are_gone
    until_status "what was not flushed is lost"
    kept_is_there
    whole
    stop
    no_device_left
    refused "--accept-lost-writes" evenkeel start --background "${members[@]}"
    start --nbd --accept-lost-writes
    stop
done
