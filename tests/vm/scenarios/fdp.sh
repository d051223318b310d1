# write streams of NVMe drives with Flexible Data Placement: data, journal, staging log and parity have handles of their own
# machine: fdp
# program: nvme
# run: long
modprobe nvme

for serial in 0 1 2 3 4; do
    until found=$(grep -lx "$serial *" /sys/class/nvme/nvme*/serial 2>/run/said); do
        sleep 0.1
    done
    controller=${found%/*}
    name=${controller##*/}
    until [[ -b /dev/${name}n1 && -c /dev/${name/nvme/ng}n1 ]]; do
        sleep 0.1
    done
    members+=("/dev/${name}n1")
done

# Logical blocks of a reclaim unit.
unit=$(((1 << 30) / 512))

# How many KiB each handle of a drive has taken, by their placement identifiers, which are told in order.
placed() {
    nvme fdp status "$1" >/run/handles
    local left all=()
    for left in $(sed -n 's/.*(RUAMW): *//p' /run/handles); do
        all+=($(((unit - left) / 2)))
    done
    echo "${all[*]}"
}

# How many KiB a drive has taken in all, by its statistics.
taken() {
    nvme fdp stats "$1" --endgrp-id=1 >/run/statistics
    local bytes
    bytes=$(sed -n 's/.*(HBMW): *//p' /run/statistics)
    echo $((bytes / 1024))
}

# look NAME: what the drives' handles have taken so far, into the array of that name, a drive's in one element.
look() {
    local -n into=$1
    local number
    into=()
    for number in 0 1 2 3; do
        into[number]=$(placed "${members[number]}")
    done
}

# What the handles have taken is all that the drives have, while nothing writes.
all_is_placed() {
    local number of
    for number in 0 1 2 3; do
        read -ra of <<<"$(placed "${members[number]}")"
        same "what drive $number has taken" "$(($(IFS=+ && echo "${of[*]}")))" "$(taken "${members[number]}")"
    done
}

# grown NUMBER: by how much the handles of a drive have grown from `before` to `after`, in KiB.
grown() {
    local -a from to
    read -ra from <<<"${before[$1]}"
    read -ra to <<<"${after[$1]}"
    local number all=()
    for number in "${!to[@]}"; do
        all+=($((to[number] - from[number])))
    done
    echo "${all[*]}"
}

# Writes whole stripes: each member takes 4 MiB of data and 1 MiB of parity.
whole_stripes() {
    look before
    dd if=/tmp/content of="$disk" bs=256K oflag=direct conv=notrunc status=none
    look after
    local number more
    for number in 0 1 2; do
        read -ra more <<<"$(grown "$number")"
        same "data, staging log and parity of drive $number" "${more[0]} ${more[2]} ${more[3]}" "4096 0 1024"
    done
    read -ra more <<<"$(grown 3)"
    same "data and parity of the drive with two handles" "${more[0]}" 5120
    cmp -n $((80 * 262144)) /tmp/content "$disk"
}

# Writes parts of stripes: the journal takes at least what is written.
parts_of_stripes() {
    before=("${after[@]}")
    local at number more journal=0
    for ((at = 0; at < 128; at++)); do
        dd if=/tmp/content of="$disk" bs=4K count=1 skip="$at" seek=$((at * 16)) oflag=direct conv=notrunc status=none
    done
    look after
    for number in 0 1 2 3; do
        read -ra more <<<"$(grown "$number")"
        journal=$((journal + more[1]))
        ((number == 3)) || same "the staging log of drive $number" "${more[2]}" 0
    done
    ((journal >= 512)) || fail "the journal has taken $journal KiB"
}

create --level raid5 --chunk 64K --staging reserved:8M >/dev/null
look before
for number in 0 1 2 3; do
    # Creation goes through the block layer, which says nothing of streams.
    [[ ${before[number]} =~ ^[1-9][0-9]*( 0)+$ ]] || fail "drive $number has taken ${before[number]} KiB"
done
all_is_placed
start --passthrough auto --threads 3
evenkeel rebuild status tank --wait >/dev/null
{ evenkeel status tank || true; } >/run/status
same "members past the block layer" "$(grep -c "(past the block layer)" /run/status || true)" 5
same "members with four streams" "$(grep -c "(4 write streams by FDP)" /run/status || true)" 3
grep -q "${members[3]}  .*(2 write streams by FDP)" /run/status || fail "$(</run/status)"
evenkeel --json status tank >/run/json || true
same "streams in JSON" "$(grep -o '"write_streams":[0-9]*' /run/json | cut -d: -f2 | sort | tr '\n' ' ')" "2 4 4 4 "

say "whole stripes"
dd if=/dev/urandom of=/tmp/content bs=256K count=80 status=none
whole_stripes
say "parts of stripes"
parts_of_stripes
verify --bsrange=4k-64k --blockalign=4k --size=2M --iodepth=8 --fsync=16

say "writes to the staging log, and home from there"
evenkeel cache set tank log >/dev/null
look before
verify --bs=4k --size=1M --iodepth=8
look after
for number in 0 1 2; do
    read -ra more <<<"$(grown "$number")"
    ((more[2] > 0)) || fail "the staging log of drive $number has taken nothing: ${more[*]}"
done
# Some of it may be at home already.
evenkeel cache flush tank >/dev/null
look after
home=0
for number in 0 1 2; do
    read -ra more <<<"$(grown "$number")"
    home=$((home + more[0]))
done
((home > 0)) || fail "nothing has come home"
evenkeel cache set tank none >/dev/null
stop
all_is_placed

start
if [[ $(cat "/sys/block/${members[0]##*/}/queue/max_write_streams" 2>/run/said || true) == 4 ]]; then
    say "through the block layer of a kernel with write streams it is the same"
    { evenkeel status tank || true; } >/run/status
    same "members with four streams" "$(grep -c "(4 write streams by the block layer)" /run/status || true)" 3
    grep -q "${members[3]}  .*(2 write streams by the block layer)" /run/status || fail "$(</run/status)"
    whole_stripes
    parts_of_stripes
    verify --bsrange=4k-64k --blockalign=4k --size=2M --iodepth=8 --fsync=16
else
    say "through the block layer of an older kernel nothing is said of streams"
    ! grep -q "write streams" <(evenkeel status tank || true) || fail "$(evenkeel status tank)"
    look before
    verify --bs=64k --size=2M --iodepth=4
    look after
    for number in 0 1 2 3; do
        [[ $(grown "$number") =~ ^[1-9][0-9]*( 0)+$ ]] || fail "drive $number has taken $(grown "$number") KiB more"
    done
fi
stop
all_is_placed
no_device_left
