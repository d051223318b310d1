# the staging log is discarded behind itself, by the block layer's own command
null_members 4 64

# How many sectors of a member the kernel has discarded; zeros that are written count as writes.
discarded() {
    local counters
    read -ra counters <"/sys/block/${1##*/}/stat"
    echo "${counters[13]}"
}

create --level raid5 --chunk 64K --staging reserved:8M --policy steering+reconstruct --cache log >/dev/null
before=$(discarded "${members[0]}")
start
say "all of a ring is void at a start, and is discarded"
enough() { (($(discarded "${members[0]}") - before >= 4 * 2048)); }
for ((tries = 0; tries < 100; tries++)); do
    ! enough || break
    sleep 0.2
done
enough || fail "$(discarded "${members[0]}") sectors discarded, $before before: $(evenkeel status tank)"

say "what is written through the log meanwhile is there"
dd if=/dev/urandom of=/tmp/content bs=1M count=24 status=none
dd if=/tmp/content of="$disk" bs=16K oflag=direct status=none
cmp -n $((24 << 20)) /tmp/content "$disk" || fail "the content is another"
evenkeel cache flush tank >/dev/null
cmp -n $((24 << 20)) /tmp/content "$disk" || fail "the content is another at home"
stop >/dev/null
