# a member is unplugged under load: the array goes on, takes it back by itself, and copies what it has missed
modprobe sd_mod
modprobe scsi_debug add_host=4 per_host_store=1 dev_size_mb=64 sector_size=4096 physblk_exp=0 \
    delay=0 lbpu=1
hosts=()
for name in $(grep -l scsi_debug /sys/class/scsi_host/host*/proc_name); do
    hosts+=("${name%/*}")
done
# The disk of the adapter at INDEX, as soon as it is there.
plugged() {
    local block
    until block=$(compgen -G "${hosts[$1]}/device/target*/*/block/sd*") && [[ -b /dev/${block##*/} ]]; do
        sleep 0.1
    done
    echo "/dev/${block##*/}"
}
# What udev does: a name that tells which disk it is, wherever it is plugged in.
named() {
    mkdir -p /dev/disk/by-id
    ln -sfn "${members[$1]}" "/dev/disk/by-id/scsi-debug-$1"
}
for index in 0 1 2 3; do
    members+=("$(plugged "$index")")
    named "$index"
done
create --level raid5 >/dev/null
start
evenkeel rebuild status tank --wait >/dev/null

# What was back lately does not come back by itself, so each of them is unplugged once.
((rounds <= 4)) || rounds=4
first=$((RANDOM % 4))
for ((round = 1; round <= rounds; round++)); do
    say "round $round of $rounds"
    member=$(((first + round) % 4))
    load verify --bsrange=4k-64k --blockalign=4k --size=8M --iodepth=8 --verify_backlog=32
    under_load $((20 + RANDOM % 100))
    echo 1 >"/sys/block/${members[member]#/dev/}/device/delete"
    until_status "wrong: member $member is out of service"
    until_status DEGRADED
    unload

    # Back in its place, perhaps by another name.
    load verify --bsrange=4k-64k --blockalign=4k --size=8M --iodepth=8 --verify_backlog=32
    under_load 20
    echo "- - -" >"${hosts[member]}/scan"
    members[member]=$(plugged "$member")
    named "$member"
    until_status "member $member .*is back, and is filled where something was written"
    under_load 20
    unload
    evenkeel rebuild status tank --wait >/dev/null || true
    whole
done
stop
no_device_left
