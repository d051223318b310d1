# the staging log is discarded behind itself, by the block layer's own command
null_members 4 64

# sectors FIELD MEMBER: that of the kernel's counters: 6 is what was written, 13 what was discarded.
sectors() {
    local counters
    read -ra counters <"/sys/block/${2##*/}/stat"
    echo "${counters[$1]}"
}
discarded() { sectors 13 "$1"; }
written_to() { sectors 6 "$1"; }

create --level raid5 --chunk 64K --staging reserved:8M --policy steering+reconstruct --cache log >/dev/null
before=$(discarded "${members[0]}") wrote=$(written_to "${members[0]}")
start
say "all of a ring is void at a start, and is discarded"
enough() { (($(discarded "${members[0]}") - before >= 4 * 2048)); }
for ((tries = 0; tries < 100; tries++)); do
    ! enough || break
    sleep 0.2
done
enough || fail "$(discarded "${members[0]}") sectors discarded, $before before: $(evenkeel status tank)"
(($(written_to "${members[0]}") - wrote < 4 * 2048)) || fail "zeros were written instead"

say "what is written through the log meanwhile is there"
dd if=/dev/urandom of=/tmp/content bs=1M count=24 status=none
dd if=/tmp/content of="$disk" bs=16K oflag=direct status=none
cmp -n $((24 << 20)) /tmp/content "$disk" || fail "the content is another"
evenkeel cache flush tank >/dev/null
cmp -n $((24 << 20)) /tmp/content "$disk" || fail "the content is another at home"
stop >/dev/null
