# how many instructions rebuilds and scrubs take, beside Linux md: docs/results/performance.md
# machine: counted
. /vm/measure.sh

# passed TARGET ROW IDLE: what was spent for each MiB of a member, without what the same commands take when
# there is nothing to do.
passed() {
    found[$1, $2]=$(((spent - $3) / mib))
    printf '%-28s %-44s %8s instructions for a MiB of a member\n' "$1" "$2" "${found[$1, $2]}"
}

# read_beside TARGET ROW: users' reads.
read_beside() {
    measure randread 4k 16 4000
    found[$1, $2]=$iops
    printf '%-28s %-44s %8s IOPS\n' "$1" "$2" "$iops"
}

# The members, and three devices that wait to take a member's place.
with_spares() {
    timed_members $(($1 + 3)) 0
    all=("${members[@]}")
    spares=("${members[@]:$1}")
    members=("${members[@]:0:$1}")
}

without() {
    members=("${all[@]}")
    drop_members
}

rows=("rebuild" "scrub" "reads 4K, depth 16" "reads 4K, depth 16, beside a rebuild at 20 MiB/s")

# passes TARGET PREFIX: all rows, by functions with this prefix, on an array with four chunks of data in a
# stripe and three spares.
passes() {
    local target=$1 by=$2 idle
    mib=$(($(blockdev --getsize64 "$disk") / 4 >> 20))
    read_beside "$target" "${rows[2]}"
    spend "${by}_look"
    idle=$spent
    spend "${by}_scrub"
    passed "$target" scrub "$idle"
    # The first spare waits, so adding it is all that is done; then it takes a member's place.
    spend "${by}_add" "${spares[0]}"
    idle=$spent
    "${by}_fail" 0
    "${by}_wait"
    "${by}_fail" 1
    spend "${by}_add" "${spares[1]}"
    passed "$target" rebuild "$idle"
    "${by}_limit"
    "${by}_fail" 2
    "${by}_begin" "${spares[2]}"
    read_beside "$target" "${rows[3]}"
    "${by}_rebuilds" || fail "the rebuild was over before the reads"
}

ours_wait() { evenkeel rebuild status tank --wait >/dev/null; }
ours_look() { evenkeel scrub status tank --wait; }
ours_scrub() { evenkeel scrub start tank --wait; }
ours_begin() { evenkeel disk add tank "$1" >/dev/null; }
ours_add() { ours_begin "$1" && ours_wait; }
ours_fail() { evenkeel disk fail tank "$1" >/dev/null; }
ours_limit() { evenkeel rebuild limit tank --min 20M --max 20M >/dev/null; }
ours_rebuilds() { { evenkeel status tank || true; } | grep -q "work: rebuild"; }

# mdadm says so by its status if there was nothing to wait for.
md_wait() { mdadm --wait /dev/md7 2>/dev/null || true; }
md_look() { cat /sys/block/md7/md/sync_action && md_wait; }
md_scrub() { echo check >/sys/block/md7/md/sync_action && md_wait; }
md_begin() { mdadm --add /dev/md7 "$1" 2>/dev/null; }
md_add() { md_begin "$1" && md_wait; }
md_fail() { mdadm --fail /dev/md7 "${members[$1]}" 2>/dev/null; }
md_limit() {
    echo 20480 >/sys/block/md7/md/sync_speed_max
    echo 20480 >/sys/block/md7/md/sync_speed_min
}
md_rebuilds() { grep -q recovery /proc/mdstat; }

# evenkeel_passes COUNT LEVEL CONSISTENCY
evenkeel_passes() {
    with_spares "$1"
    serve_array --level "$2" --consistency "$3"
    passes "evenkeel $2 $3" ours
    stop >/dev/null
    without
}

# md_passes COUNT LEVEL
md_passes() {
    with_spares "$1"
    serve_md --bitmap=internal --level="$2"
    echo 2000000 >/sys/block/md7/md/sync_speed_max
    passes "md $2 bitmap" md
    stop_md
    without
}

# ratio RIVAL OURS ROW UNIT: a row of the table, more being better for us.
ratio() {
    local rival=${found[$1, $3]} ours=${found[$2, $3]} percent
    if [[ $4 == IOPS ]]; then
        percent=$((ours * 100 / rival))
    else
        percent=$((rival * 100 / ours))
    fi
    printf '| %s: %s | %d | %d | %d.%02d |\n' "$3" "$4" "$rival" "$ours" $((percent / 100)) $((percent % 100))
}

for level in raid5 raid6; do
    count=5
    [[ $level == raid5 ]] || count=6
    md_passes "$count" "$level"
    for consistency in bitmap journal; do
        evenkeel_passes "$count" "$level" "$consistency"
    done
done
for level in raid5 raid6; do
    for consistency in bitmap journal; do
        printf '\n| | md %s | evenkeel %s %s | ratio |\n|---|---|---|---|\n' "$level" "$level" "$consistency"
        for row in "${rows[@]:0:2}"; do
            ratio "md $level bitmap" "evenkeel $level $consistency" "$row" "instructions for a MiB of a member"
        done
        for row in "${rows[@]:2}"; do
            ratio "md $level bitmap" "evenkeel $level $consistency" "$row" IOPS
        done
    done
done
