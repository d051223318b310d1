# what was written through Evenkeel, read by Linux md: docs/leaving-for-md.md
# run: long
declare -A md_level=([raid4]=4 [raid5]=5 [raid6]=6 [raid10]=10) md_layout=(
    [raid4]='' [raid5]=--layout=left-symmetric [raid6]=--layout=left-symmetric [raid10]=--layout=n2
)

# Makes what the document calls OFFSET and SIZE, in KiB, of what a member says.
told() {
    local said
    said=$(evenkeel examine "${members[0]}")
    [[ $said =~ data\ area\ +([0-9]+)\ KiB\ of\ each\ member,\ from\ ([0-9]+)\ KiB\ on ]] ||
        fail "no data area: $said"
    SIZE=${BASH_REMATCH[1]} OFFSET=${BASH_REMATCH[2]}
}

# assembled DEVICES...: md's array of them has the same bytes, and finds its parity right. With
# options of mdadm in `options`.
assembled() {
    mdadm --create /dev/md7 --run --assume-clean --bitmap=none --level="${md_level[$level]}" \
        ${md_layout[$level]} --chunk="${chunk:-64}" --size="$SIZE" --raid-devices=$# "${options[@]}" "$@" \
        2>/run/mdadm || fail "$(</run/mdadm)"
    cmp -n "$(stat -c %s /tmp/copy)" /dev/md7 /tmp/copy
    same "the size" "$(blockdev --getsize64 /dev/md7)" "$(stat -c %s /tmp/copy)"
    checked
}

# Lets md compare data and parity, and tells in `mismatches` how much differs. A request that comes
# while an assembly has not ended is forgotten, so md is asked until it has compared.
checked() {
    until [[ $(</sys/block/md7/md/last_sync_action) == check ]]; do
        # Refused while md is busy.
        echo check >/sys/block/md7/md/sync_action 2>/dev/null || true
        until [[ $(</sys/block/md7/md/sync_action) == idle ]]; do
            sleep 0.1
        done
    done
    mismatches=$(</sys/block/md7/md/mismatch_cnt)
}

for level in raid4 raid5 raid6 raid10; do
    say "$level"
    members=()
    [[ $level == raid10 ]] && null_members 6 48 || null_members 5 48
    create --level $level >/dev/null
    start
    verify --bsrange=4k-128k --blockalign=4k --size=16M --iodepth=16
    # The last stripes, too.
    verify --bs=64k --size=4M --offset=$(($(blockdev --getsize64 "$disk") - (4 << 20)))
    dd if="$disk" of=/tmp/copy bs=1M status=none
    stop
    told

    say "$level: a look, which leaves the members as they are"
    looks=()
    for member in "${members[@]}"; do
        name=look-${member##*/}
        # md's superblock goes to a file behind the data.
        truncate -s 1M "/tmp/$name"
        {
            echo "0 $((SIZE * 2)) linear $member $((OFFSET * 2))"
            echo "$((SIZE * 2)) 2048 linear $(losetup --find --show "/tmp/$name") 0"
        } | dmsetup create "$name"
        looks+=("/dev/mapper/$name")
    done
    options=(--metadata=1.0)
    assembled "${looks[@]}"
    same "what differs" "$mismatches" 0
    mdadm --stop /dev/md7 2>/dev/null
    for look in "${looks[@]}"; do
        dmsetup remove "${look##*/}"
    done
    evenkeel examine "${members[@]}" >/dev/null
    start
    cmp "$disk" /tmp/copy
    stop

    say "$level: for good"
    options=(--metadata=1.2 --data-offset="${OFFSET}K")
    assembled "${members[@]}"
    same "what differs" "$mismatches" 0
    mdadm --stop /dev/md7 2>/dev/null
    if evenkeel start --background "${members[@]}" 2>/run/said; then
        fail "what is md's was started"
    fi
    grep -q 'is a member of an array of Linux md now' /run/said || fail "$(</run/said)"
    for member in "${members[@]}"; do
        for block in 0 64 128 192; do
            dd if=/dev/zero of="$member" bs=4096 count=1 seek=$block conv=notrunc,fsync status=none
        done
    done
    mdadm --assemble /dev/md7 "${members[@]}" 2>/dev/null
    cmp -n "$(stat -c %s /tmp/copy)" /dev/md7 /tmp/copy
    # And md would have noticed: a changed byte of a member.
    mdadm --stop /dev/md7 2>/dev/null
    changed=$((OFFSET * 1024 + 70000)) letter=x
    was=$(dd if="${members[2]}" bs=1 skip=$changed count=1 status=none | tr '\0' ' ')
    [[ $was != x ]] || letter=y
    printf $letter | dd of="${members[2]}" bs=1 seek=$changed conv=notrunc status=none
    mdadm --assemble /dev/md7 "${members[@]}" 2>/dev/null
    checked
    ((mismatches > 0)) || fail "md has not noticed a changed byte"
    mdadm --stop /dev/md7 2>/dev/null
done

# kept: what was written before a reshape, behind what the load writes, is as it was.
kept() {
    cmp -i $((20 << 20)):0 -n $((40 << 20)) "$disk" /tmp/kept
}

# reshaped TARGET MEMBERS...: the array becomes another under load, and its daemon is killed meanwhile.
reshaped() {
    local target=$1 new
    shift
    for new in "$@"; do
        evenkeel disk add tank "$new" >/dev/null
        members+=("$new")
    done
    stop
    start --reshape "$target"
    load verify --bsrange=4k-128k --blockalign=4k --size=16M --iodepth=16
    under_load 100
    unload
    kill_daemon
    start
    kept
    evenkeel rebuild status tank --wait >/dev/null
    kept
    stop
    start
}

say "raid5 of three becomes one of five, and then raid6 of six with larger chunks"
members=()
null_members 6 48
new=("${members[@]:3}")
members=("${members[@]:0:3}")
create --level raid5 >/dev/null
start
dd if=/dev/urandom of=/tmp/kept bs=1M count=40 status=none
dd if=/tmp/kept of="$disk" bs=1M seek=20 oflag=direct status=none
reshaped raid5:5:: "${new[@]:0:2}"
size=$(blockdev --getsize64 "$disk")
reshaped raid6:6:128K: "${new[2]}"
same "the size" "$(blockdev --getsize64 "$disk")" "$size"
kept
# What reads as zeros by the map, md would read as what members hold there.
dd if=/dev/urandom of="$disk" bs=1M seek=16 count=4 oflag=direct status=none
dd if=/dev/urandom of="$disk" bs=64K seek=$((60 * 16)) count=$(((size >> 16) - 60 * 16)) oflag=direct \
    status=none
kept
whole
dd if="$disk" of=/tmp/copy bs=1M status=none
stop
told
level=raid6 chunk=128 options=(--metadata=1.2 --data-offset="${OFFSET}K")
assembled "${members[@]}"
same "what differs" "$mismatches" 0
mdadm --stop /dev/md7 2>/dev/null
