# how many instructions a reshape takes, and what users feel of it, beside Linux md: docs/results/performance.md
# machine: counted
. /vm/measure.sh

# Large enough for what a reshape takes once, such as the restart that begins it, to be little of it.
size=96

# felt TARGET ROW: how long users' reads and writes of 4 KiB take from end to end, 500 of each a second.
felt() {
    local fields rw at
    fio --eta=never --output-format=terse --terse-version=3 --name=felt --filename="$disk" \
        --ioengine=io_uring --direct=1 --rw=randrw --bs=4k --iodepth=64 --rate_iops=500,500 \
        --io_size=8000k --norandommap --randseed=1 --lat_percentiles=1 --clat_percentiles=0 \
        --percentile_list=50:99 >/run/fio 2>&1 || fail "$(</run/fio)"
    IFS=';' read -ra fields <<<"$(grep '^3;' /run/fio)"
    for rw in reads writes; do
        # Where fio tells the median, and how many fields further on the 99th percentile and the longest.
        at=17
        [[ $rw == reads ]] || at=58
        found[$1, $rw $2]="${fields[at]#*=} ${fields[at + 1]#*=} $(printf %.0f "${fields[at + 21]}")"
        printf '%-28s %-44s %s µs\n' "$1" "$rw $2" "${found[$1, $rw $2]}"
    done
}

# Beside what they are measured: a pace is what a reshape is held to, in MiB/s of each member.
declare -A beside=([0]="in calm" [own]="beside the reshape at its own pace" [10]="beside one at 10 MiB/s")

# reshapes TARGET PREFIX LEVEL: RAID5 of four becomes one of this level with a member more, by functions
# with this prefix: with no users, and beside them.
reshapes() {
    local target="$1 to $3" by=$2 level=$3 mib idle pace
    "${by}_raid5"
    mib=$(($(blockdev --getsize64 "$disk") >> 20))
    spend "${by}_nothing"
    idle=$spent
    spend "${by}_reshape" "$level" 0
    found[$target, reshape]=$(((spent - idle) / mib))
    printf '%-28s %-44s %s instructions for each of %s MiB\n' "$target" reshape \
        "${found[$target, reshape]}" "$mib"
    "${by}_done"

    for pace in own 10; do
        "${by}_raid5"
        [[ $pace != own ]] || felt "$target" "${beside[0]}"
        "${by}_reshape" "$level" "$pace"
        "${by}_goes_on" || fail "the reshape was over before the requests"
        felt "$target" "${beside[$pace]}"
        "${by}_goes_on" || say "that reshape has ended before the last of the requests"
        "${by}_wait"
        "${by}_done"
    done
}

# Four members, and one that waits.
four_members() {
    timed_members 5 0 "$size"
    all=("${members[@]}")
    members=("${members[@]:0:4}")
}

drop_all() {
    members=("${all[@]}")
    drop_members
}

ours_wait() { evenkeel rebuild status tank --wait >/dev/null; }
ours_raid5() {
    four_members
    evenkeel create tank --chunk 64K --level raid5 "${members[@]}" >/dev/null
    evenkeel start --background --ublk "${members[@]}" >/dev/null
    disk=/dev/evenkeel/tank
    ours_wait
    warm_up
    evenkeel disk add tank "${all[4]}" >/dev/null
}
# What begins a reshape replaces the process.
ours_nothing() { evenkeel restart tank && ours_wait; }
ours_reshape() {
    evenkeel reshape tank --level "$1" --members +1 >/dev/null
    case $2 in
        0) ours_wait ;;
        own) ;;
        *) evenkeel rebuild limit tank --min "$2M" --max "$2M" >/dev/null ;;
    esac
}
ours_goes_on() { { evenkeel status tank || true; } | grep -q "work: reshape"; }
ours_done() {
    evenkeel stop tank >/dev/null
    evenkeel examine "${all[4]}" >/run/said
    grep -q "5 members" /run/said || fail "$(</run/said)"
    drop_all
}

md_wait() { mdadm --wait /dev/md7 2>/dev/null || true; }
md_raid5() {
    four_members
    serve_md --bitmap=internal --level=raid5
    mdadm --add /dev/md7 "${all[4]}" 2>/dev/null
}
md_nothing() { cat /sys/block/md7/md/sync_action && md_wait; }
md_reshape() {
    case $2 in
        0) echo 2000000 >/sys/block/md7/md/sync_speed_max ;;
        own) ;;
        *)
            echo $(($2 << 10)) >/sys/block/md7/md/sync_speed_max
            echo $(($2 << 10)) >/sys/block/md7/md/sync_speed_min
            ;;
    esac
    mdadm --grow /dev/md7 --level="${1#raid}" --raid-devices=5 >/run/mdadm 2>&1 || fail "$(</run/mdadm)"
    [[ $2 != 0 ]] || md_wait
}
md_goes_on() { grep -q reshape /proc/mdstat; }
md_done() {
    grep -q '\[5/5\]' /proc/mdstat || fail "$(</proc/mdstat)"
    stop_md
    drop_all
}

for level in raid5 raid6; do
    reshapes md md "$level"
    reshapes evenkeel ours "$level"
done
for level in raid5 raid6; do
    printf '\nRAID5 of four to %s of five\n\n| | md | evenkeel | ratio |\n|---|---|---|---|\n' "${level^^}"
    ratio=$((found[md to $level, reshape] * 100 / found[evenkeel to $level, reshape]))
    printf '| reshape: instructions for a MiB of data | %d | %d | %d.%02d |\n' \
        "${found[md to $level, reshape]}" "${found[evenkeel to $level, reshape]}" \
        $((ratio / 100)) $((ratio % 100))
    for pace in 0 own 10; do
        for rw in reads writes; do
            read -ra theirs <<<"${found[md to $level, $rw ${beside[$pace]}]}"
            read -ra own <<<"${found[evenkeel to $level, $rw ${beside[$pace]}]}"
            printf '| %s %s: median, p99 and longest, µs | %s, %s, %s | %s, %s, %s | |\n' \
                "$rw" "${beside[$pace]}" "${theirs[@]}" "${own[@]}"
        done
    done
done
