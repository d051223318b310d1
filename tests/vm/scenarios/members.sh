# members that fail, and come back stale: what is written stays right
say "reads fail in bursts: they are answered all the same, and the member stays"
null_members 5 64
spare=${members[4]}
unset 'members[4]'
map_member 1 "0 %s linear %d 0"
create --level raid5 >/dev/null
start
evenkeel rebuild status tank --wait >/dev/null
verify --bs=16k --size=12M --iodepth=8
load verify --bs=16k --size=12M --iodepth=8 --verify_backlog=16
for ((burst = 0; burst < 8; burst++)); do
    under_load 50
    map_member 1 "0 %s flakey %d 0 0 60 1 error_reads"
    under_load 50
    map_member 1 "0 %s linear %d 0"
done
unload
whole

say "a member is slow: it is waited for"
map_member 1 "0 %s delay %d 0 40"
verify --bs=16k --size=1M --iodepth=8
map_member 1 "0 %s linear %d 0"
whole

say "everything fails: the member is out, its successor is rebuilt under load"
load verify --bs=16k --size=8M --iodepth=8 --verify_backlog=16
under_load 50
map_member 1 "0 %s error"
until_status DEGRADED
map_member 1 "0 %s linear %d 0"
under_load 50
evenkeel disk replace tank 1 "$spare" --wait >/dev/null
unload
whole

say "a member that comes back stale is not believed"
stop
stale=${members[1]}
members[1]=$spare
members+=("$stale")
start
dd if=/dev/urandom of=/run/random bs=1M count=4 status=none
dd if=/run/random of="$disk" bs=1M oflag=direct conv=notrunc status=none
stop
unset 'members[1]'
# With the stale one there is one member too few, and what is not known any more is not looked for.
rm /run/evenkeel/tank.devices
refused "degraded" start
start --degraded
cmp -n 4194304 /run/random "$disk"
evenkeel disk replace tank 1 "$stale" --force --wait >/dev/null
cmp -n 4194304 /run/random "$disk"
whole
stop
no_device_left
