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
restart_while_mounted

say "killed: what was flushed is there, and the old device fails its users, as what was not is lost"
start
mount "$disk" /mnt
keep_flushed
kill_daemon
start
users_are_gone
[[ $disk != "$first" || ! -e /mnt/kept ]] || fail "the old device is served"
kept_is_there
whole
stop
